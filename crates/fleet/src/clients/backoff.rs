//! How long a client waits before it tries again.
//!
//! With `e = min(cap, base · factorⁿ)` after the n-th failure (n from 0), the jitters of the AWS architecture blog's simulator
//! (`aws-samples/aws-arch-backoff-simulator`) and of real clients: none `e`; full `U(0, e)`; equal `e/2 + U(0, e/2)`; decorrelated
//! `s ← min(cap, U(base, 3s))` from `s = base`; around `e · U(1 − x, 1 + x)` (gRPC A6, x = 0.2); below `e · U(1 − x, 1)` (the
//! SDKs of OpenAI and Anthropic, x = 0.25); above `e · U(1, 1 + x)` (tower, x = 0.99).

use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_engine::random::Stream;
use servelab_spec::validate::SpecError;

/// How waits grow from one failure to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Growth {
    /// No wait at all.
    #[default]
    None,
    /// Always the base.
    Fixed,
    /// The base times the factor for each failure before.
    Exponential,
}

/// How chance spreads waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    /// Not at all.
    #[default]
    None,
    /// Evenly between nothing and the whole wait.
    Full,
    /// Half the wait, and evenly up to the other half.
    Equal,
    /// Evenly between the base and three times the wait before.
    Decorrelated,
    /// Evenly within this share of the wait, below and above it.
    Around(f64),
    /// Evenly within this share of the wait below it.
    Below(f64),
    /// Evenly within this share of the wait above it.
    Above(f64),
}

/// A rule for waits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backoff {
    /// How waits grow.
    pub growth: Growth,
    /// The first wait.
    pub base: Nanos,
    /// What each wait is of the one before, at least 1; of exponential growth only.
    pub factor: f64,
    /// No wait is longer, jitter around it left out.
    pub cap: Nanos,
    /// How chance spreads waits.
    pub jitter: Jitter,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff { growth: Growth::None, base: Nanos::ZERO, factor: 2.0, cap: Nanos::MAX, jitter: Jitter::None }
    }
}

impl Backoff {
    /// Always the same wait.
    pub fn fixed(wait: Nanos) -> Self {
        Backoff { growth: Growth::Fixed, base: wait, ..Backoff::default() }
    }

    /// Doubling from `base` to `cap`.
    pub fn exponential(base: Nanos, cap: Nanos, jitter: Jitter) -> Self {
        Backoff { growth: Growth::Exponential, base, cap, jitter, ..Backoff::default() }
    }

    /// The wait after failure number `failure` (from 0); `previous` is the wait before it, if there was one, which the decorrelated jitter
    /// goes on from.
    pub fn wait(&self, failure: u32, previous: Option<Nanos>, draw: &mut Stream) -> Nanos {
        let (base, cap) = (self.base.0 as f64, self.cap.0 as f64);
        let whole = match self.growth {
            Growth::None => return Nanos::ZERO,
            Growth::Fixed => base.min(cap),
            // Infinite at worst, and then the cap.
            Growth::Exponential => (base * libm::pow(self.factor, f64::from(failure))).min(cap),
        };
        let wait = match self.jitter {
            Jitter::None => whole,
            Jitter::Full => whole * draw.unit(),
            Jitter::Equal => whole / 2.0 + whole / 2.0 * draw.unit(),
            Jitter::Decorrelated => {
                let previous = previous.map_or(base, |wait| wait.0 as f64);
                (base + (3.0 * previous - base).max(0.0) * draw.unit()).min(cap)
            }
            Jitter::Around(share) => whole * (1.0 - share + 2.0 * share * draw.unit()),
            Jitter::Below(share) => whole * (1.0 - share * draw.unit()),
            Jitter::Above(share) => whole * (1.0 + share * draw.unit()),
        };
        // Saturates: a wait of centuries is as good as any longer one.
        Nanos(libm::round(wait) as u64)
    }

    pub(crate) fn validate(&self, field: &str) -> Result<(), SpecError> {
        if !(self.factor >= 1.0 && self.factor <= 100.0) {
            return Err(SpecError::new(format!("{field}.factor"), self.factor, "use 1 to 100"));
        }
        if self.cap < self.base {
            let accepted = format!("use at least the base, {} s", self.base.as_secs());
            return Err(SpecError::new(format!("{field}.cap"), self.cap.as_secs(), accepted));
        }
        match self.jitter {
            Jitter::Around(share) | Jitter::Below(share) | Jitter::Above(share) if !(0.0..=1.0).contains(&share) => {
                Err(SpecError::new(format!("{field}.jitter"), share, "use a share of 0 to 1"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const MS: u64 = 1_000_000;

    fn waits(backoff: Backoff, seed: u64, n: u32) -> Vec<u64> {
        let mut draw = Stream::new(seed, b"test");
        let mut previous = None;
        (0..n)
            .map(|failure| {
                let wait = backoff.wait(failure, previous, &mut draw);
                previous = Some(wait);
                wait.0
            })
            .collect()
    }

    #[test]
    fn waits_without_jitter_are_those_of_the_formula() {
        let backoff = Backoff::exponential(Nanos(5 * MS), Nanos(50 * MS), Jitter::None);
        let by_hand = [5, 10, 20, 40, 50, 50].map(|wait| wait * MS);
        assert_eq!(waits(backoff, 0, 6), by_hand);
        assert_eq!(waits(Backoff::fixed(Nanos(7)), 0, 3), [7, 7, 7]);
        assert_eq!(waits(Backoff::default(), 0, 3), [0, 0, 0]);
        // min(8, 0.5 · 2ⁿ): what the SDKs do before chance shortens it.
        let sdk = Backoff::exponential(Nanos(500 * MS), Nanos(8_000 * MS), Jitter::None);
        assert_eq!(waits(sdk, 0, 6), [500, 1000, 2000, 4000, 8000, 8000].map(|wait| wait * MS));
        assert_eq!(waits(Backoff { cap: Nanos::MAX, ..sdk }, 0, 200)[199], u64::MAX, "no overflow");
    }

    /// Smallest, mean and largest of many waits, in multiples of the formula's.
    fn spread(jitter: Jitter) -> [f64; 3] {
        let backoff = Backoff::exponential(Nanos(1_000_000), Nanos::MAX, jitter);
        let mut draw = Stream::new(3, b"spread");
        let many: Vec<f64> = (0..40_000).map(|_| backoff.wait(3, None, &mut draw).0 as f64 / 8e6).collect();
        let (least, most) = many.iter().fold((f64::MAX, 0.0f64), |(low, high), &wait| (low.min(wait), high.max(wait)));
        [least, many.iter().sum::<f64>() / 40_000.0, most]
    }

    /// The mean of a uniform variable over a width w has a standard error of w/√12/200 here; 4 of them are 0.006 w.
    #[test]
    fn jitters_cover_their_ranges_evenly() {
        for (jitter, from, to) in [
            (Jitter::Full, 0.0, 1.0),
            (Jitter::Equal, 0.5, 1.0),
            (Jitter::Around(0.2), 0.8, 1.2),
            (Jitter::Below(0.25), 0.75, 1.0),
            (Jitter::Above(0.99), 1.0, 1.99),
        ] {
            let [least, mean, most] = spread(jitter);
            let width = to - from;
            assert!(least >= from && least < from + 0.001, "{jitter:?}: {least}");
            assert!(most <= to && most > to - 0.001, "{jitter:?}: {most}");
            assert!((mean - (from + to) / 2.0).abs() < 0.006 * width, "{jitter:?}: {mean}");
        }
    }

    #[test]
    fn decorrelated_waits_go_on_from_the_one_before() {
        let (base, cap) = (5 * MS, 60 * MS);
        let backoff = Backoff::exponential(Nanos(base), Nanos(cap), Jitter::Decorrelated);
        let mut capped = 0;
        for seed in 0..200 {
            let waits = waits(backoff, seed, 12);
            assert!((base..=3 * base).contains(&waits[0]));
            for pair in waits.windows(2) {
                assert!(pair[1] >= base && pair[1] <= cap.min(3 * pair[0]), "{pair:?}");
                capped += u32::from(pair[1] == cap);
            }
        }
        assert!(capped > 100, "the cap is reached");
    }

    #[test]
    fn nonsense_is_refused_at_its_field() {
        let refused = |backoff: Backoff| backoff.validate("clients.backoff").unwrap_err().field;
        let sound = Backoff::exponential(Nanos(5), Nanos(9), Jitter::Full);
        assert_eq!(sound.validate("clients.backoff"), Ok(()));
        assert_eq!(refused(Backoff { factor: 0.5, ..sound }), "clients.backoff.factor");
        assert_eq!(refused(Backoff { factor: f64::NAN, ..sound }), "clients.backoff.factor");
        assert_eq!(refused(Backoff { cap: Nanos(4), ..sound }), "clients.backoff.cap");
        assert_eq!(refused(Backoff { jitter: Jitter::Below(1.5), ..sound }), "clients.backoff.jitter");
    }
}
