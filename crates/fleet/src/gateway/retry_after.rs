//! What a client that is turned away is told of when to come back.
//!
//! Nothing; always the same; or computed: by a bucket, exactly when it has one more, and otherwise how long the queue would have taken, one more place than are
//! held times what lately passed at its head. Clients that obey to the letter and were turned away together come back together, so the answer can be spread: up to so much more,
//! drawn for each. The header has whole seconds, which synchronises by itself; they can be rounded up to, or not (`retry-after-ms`).

use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_engine::random::Stream;

/// How the time to come back is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryAfterMode {
    /// None is said.
    #[default]
    Nothing,
    /// Always the same.
    Fixed,
    /// By what turned it away; the fixed one where that is not known.
    Computed,
}

/// When a client that is turned away should come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryAfter {
    /// How the time is chosen.
    pub mode: RetryAfterMode,
    /// The fixed one.
    pub fixed: Nanos,
    /// Up to so much more, drawn for each.
    pub spread: Nanos,
    /// Rounded up to whole seconds, as the header has them.
    pub whole_seconds: bool,
}

const SECOND: u64 = 1_000_000_000;

impl RetryAfter {
    /// What is said. `known`: what turned it away knows by itself; `queue`: how long the queue would take.
    pub(crate) fn say(&self, known: Option<Nanos>, queue: Option<Nanos>, draw: &mut Stream) -> Option<Nanos> {
        let base = match self.mode {
            RetryAfterMode::Nothing => return None,
            RetryAfterMode::Fixed => self.fixed,
            RetryAfterMode::Computed => known.or(queue).unwrap_or(self.fixed),
        };
        let spread = match self.spread.0 {
            0 => 0,
            most => draw.below(most.saturating_add(1)),
        };
        let after = base.0.saturating_add(spread);
        Some(match self.whole_seconds {
            true => Nanos(after.div_ceil(SECOND).saturating_mul(SECOND)),
            false => Nanos(after),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(mode: RetryAfterMode, whole_seconds: bool, known: Option<u64>, queue: Option<u64>) -> Option<u64> {
        let retry_after = RetryAfter { mode, fixed: Nanos(2_500_000_000), spread: Nanos::ZERO, whole_seconds };
        let said = retry_after.say(known.map(Nanos), queue.map(Nanos), &mut Stream::new(1, b"test"));
        said.map(|said| said.0)
    }

    #[test]
    fn modes_by_hand() {
        use RetryAfterMode::{Computed, Fixed, Nothing};
        assert_eq!(say(Nothing, true, Some(1), Some(1)), None);
        assert_eq!(say(Fixed, false, Some(1), Some(1)), Some(2_500_000_000));
        assert_eq!(say(Fixed, true, None, None), Some(3_000_000_000));
        assert_eq!(say(Computed, false, Some(7), Some(9)), Some(7));
        assert_eq!(say(Computed, false, None, Some(9)), Some(9));
        assert_eq!(say(Computed, true, None, Some(9)), Some(1_000_000_000));
        assert_eq!(say(Computed, false, None, None), Some(2_500_000_000));
    }

    /// Uniform over the spread: mean and extremes of ten thousand.
    #[test]
    fn a_spread_is_drawn_for_each() {
        let spread = Nanos(4_000_000_000);
        let retry_after =
            RetryAfter { mode: RetryAfterMode::Fixed, fixed: Nanos(1_000_000_000), spread, whole_seconds: false };
        let draws = Stream::new(5, b"test");
        let said: Vec<f64> = (0..10_000)
            .filter_map(|index| retry_after.say(None, None, &mut draws.split(index)))
            .map(Nanos::as_secs)
            .collect();
        let mean = said.iter().sum::<f64>() / 1e4;
        // Standard deviation of a mean: 4 ÷ √12 ÷ 100; four of them.
        assert!((mean - 3.0).abs() < 4.0 * 4.0 / 12f64.sqrt() / 100.0, "{mean}");
        assert!(said.iter().all(|&said| (1.0..=5.0).contains(&said)));
    }
}
