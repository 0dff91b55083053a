//! Traffic by its figures: how bursty, how long, how much shared. What a trace can be reduced to, and varied from.

use super::demand::Curve;
use super::trace::TraceSpec;
use super::workload::RateUnit;
use crate::validate::SpecError;
use serde::{Deserialize, Serialize};

/// Parameters of generated traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct GeneratedSpec {
    /// Number of requests.
    pub requests: u32,
    /// Number of tenants, each with a system prompt of its own.
    pub tenants: u32,
    /// Zipf exponent of tenant popularity; 0 is uniform.
    pub skew: f64,
    /// How requests follow each other.
    pub arrivals: ArrivalLaw,
    /// Standard deviation ÷ mean of gaps, of [`ArrivalLaw::Gamma`].
    pub cv: f64,
    /// Mean length of a burst, of [`ArrivalLaw::OnOff`], seconds.
    pub on_s: f64,
    /// Mean length of the quiet between bursts, seconds.
    pub off_s: f64,
    /// Rate between bursts ÷ rate within them, 0 to 1.
    pub off_level: f64,
    /// Curve of the rate over the day, `hour:level` pairs, played again when it ends; empty: level 1 always. `rate` is its mean.
    pub curve: String,
    /// Length of an hour of the curve, seconds.
    pub hour_s: f64,
    /// Shortest system prompt, tokens.
    pub system_min: u32,
    /// Longest system prompt, tokens.
    pub system_max: u32,
    /// Where lengths of user parts and outputs come from.
    pub lengths: LengthLaw,
    /// The trace whose lengths are drawn from, of [`LengthLaw::Empirical`]: prompt and output of one request together.
    pub trace: String,
    /// Mean user part, tokens.
    pub user_mean: f64,
    /// Standard deviation ÷ mean of user parts.
    pub user_cv: f64,
    /// Mean output, tokens.
    pub output_mean: f64,
    /// Standard deviation ÷ mean of outputs.
    pub output_cv: f64,
    /// Longest prompt, tokens.
    pub prompt_cap: u32,
    /// Longest output, tokens; also the budget that clients state.
    pub output_cap: u32,
    /// Mean arrival rate, in [`RateUnit`].
    pub rate: f64,
    /// What `rate` counts.
    pub rate_unit: RateUnit,
}

impl Default for GeneratedSpec {
    fn default() -> Self {
        GeneratedSpec {
            requests: 400,
            tenants: 6,
            skew: 0.5,
            arrivals: ArrivalLaw::Gamma,
            cv: 2.0,
            on_s: 5.0,
            off_s: 20.0,
            off_level: 0.1,
            curve: String::new(),
            hour_s: 3600.0,
            system_min: 256,
            system_max: 384,
            lengths: LengthLaw::Lognormal,
            trace: TraceSpec::SAMPLE.into(),
            user_mean: 120.0,
            user_cv: 1.0,
            output_mean: 40.0,
            output_cv: 0.8,
            prompt_cap: 1792,
            output_cap: 256,
            rate: 0.7,
            rate_unit: RateUnit::OfCapacity,
        }
    }
}

/// How requests follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ArrivalLaw {
    /// By chance alone.
    Poisson,
    /// Gaps of a Gamma law: bursty above a CV of 1, even below.
    Gamma,
    /// Bursts and quiet in turn, either of random length.
    OnOff,
}

/// Where lengths come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LengthLaw {
    /// Lognormal laws of a mean and a CV.
    Lognormal,
    /// Drawn from the requests of a trace.
    Empirical,
}

impl GeneratedSpec {
    /// The curve, if there is one.
    ///
    /// # Errors
    /// When its text is no curve.
    pub fn points(&self) -> Result<Option<Curve>, SpecError> {
        if self.curve.trim().is_empty() { Ok(None) } else { Curve::parse(&self.curve, self.hour_s).map(Some) }
    }

    pub(crate) fn check(&self) -> Result<(), SpecError> {
        self.points()?;
        if self.system_max >= self.prompt_cap {
            let accepted = format!("accepted is less than workload.prompt_cap, which is {}", self.prompt_cap);
            return Err(SpecError::new("workload.system_max", self.system_max, accepted));
        }
        TraceSpec { trace: self.trace.clone(), ..TraceSpec::default() }.check()
    }
}
