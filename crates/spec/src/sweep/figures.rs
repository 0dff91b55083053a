//! The numbers that a sweep keeps of every run: one table for structures, files, charts and words.

use serde::{Deserialize, Serialize};

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// It describes and does not judge.
    Neither,
}

/// What a figure counts, for axes and words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureUnit {
    /// Seconds.
    Seconds,
    /// A share of one.
    Share,
    /// Things per second.
    PerSecond,
    /// A pure number.
    Number,
}

impl Figure {
    /// The value that a figure can have nearest to this one: an interval of few seeds may reach beyond.
    pub fn possible(self, value: f64) -> f64 {
        match self.unit() {
            FigureUnit::Share => value.clamp(0.0, 1.0),
            FigureUnit::Seconds | FigureUnit::PerSecond | FigureUnit::Number => value.max(0.0),
        }
    }
}

macro_rules! figures {
    ($($name:ident $variant:ident $unit:ident $better:ident $label:literal $doc:literal;)*) => {
        /// One of the numbers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Figure {
            $(#[doc = $doc] $variant,)*
        }

        /// Something for each [`Figure`].
        #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
        #[cfg_attr(not(target_arch = "wasm32"), schemars(rename = "{T}Figures"))]
        pub struct Figures<T> {
            $(#[doc = $doc] pub $name: T,)*
        }

        impl Figure {
            /// All, in the order of files and tables.
            pub const ALL: &[Figure] = &[$(Figure::$variant),*];

            /// Its name in files.
            pub fn name(self) -> &'static str {
                match self { $(Figure::$variant => stringify!($name)),* }
            }

            /// Its name for people, without a unit.
            pub fn label(self) -> &'static str {
                match self { $(Figure::$variant => $label),* }
            }

            /// What it counts.
            pub fn unit(self) -> FigureUnit {
                match self { $(Figure::$variant => FigureUnit::$unit),* }
            }

            /// Which way is better.
            pub fn better(self) -> Better {
                match self { $(Figure::$variant => Better::$better),* }
            }
        }

        impl<T> Figures<T> {
            /// Made one by one.
            pub fn from_fn(mut make: impl FnMut(Figure) -> T) -> Self {
                Figures { $($name: make(Figure::$variant)),* }
            }

            /// That of one figure.
            pub fn get(&self, figure: Figure) -> &T {
                match figure { $(Figure::$variant => &self.$name),* }
            }
        }
    };
}

figures! {
    offered_per_s OfferedPerS PerSecond Neither "offered rate" "Arrivals per second, from the first to the last.";
    served_per_s ServedPerS PerSecond Higher "served rate" "Requests finished ÷ duration of the run, its tail included.";
    goodput_per_s GoodputPerS PerSecond Higher "goodput" "Requests meeting every limit ÷ duration.";
    goodput_fraction GoodputFraction Share Higher "good requests" "Requests meeting every limit ÷ requests offered.";
    ttft_p50_s TtftP50S Seconds Lower "TTFT p50" "Median time to first token, seconds.";
    ttft_p95_s TtftP95S Seconds Lower "TTFT p95" "95th percentile of the time to first token, seconds.";
    ttft_p99_s TtftP99S Seconds Lower "TTFT p99" "99th percentile of the time to first token, seconds.";
    itl_p95_s ItlP95S Seconds Lower "ITL p95" "95th percentile over requests of the mean gap between tokens, seconds.";
    reuse Reuse Share Higher "reuse" "Prompt tokens served from cache ÷ prompt tokens.";
    imbalance_assignments ImbalanceAssignments Number Lower "imbalance of requests" "Requests of the busiest replica ÷ mean.";
    imbalance_uncached_tokens ImbalanceUncachedTokens Number Lower "imbalance of work" "Prompt tokens computed by the busiest replica ÷ mean.";
    output_tokens_per_s OutputTokensPerS PerSecond Higher "output tokens" "Generated tokens ÷ duration.";
    in_time_at_end InTimeAtEnd Share Higher "in time at the end" "Of the requests that came in the last fifth of the run, the share whose first token was in time.";
    attempts Attempts Number Lower "attempts" "Tries of all requests together.";
}
