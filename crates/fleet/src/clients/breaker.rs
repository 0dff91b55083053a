//! A circuit breaker: a client that stops calling what keeps failing.
//!
//! Over a moving window, when at least `min_requests` answers came and more than `failures` of them were failures, the breaker opens: for
//! `open_for` nothing is sent. Then one attempt is let through; its success closes the breaker and forgets the window, its failure opens it
//! again. A breaker of retries only (Brooker's) never holds back a first attempt: as long as the share is too high, nothing is repeated.

use super::window::Window;
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_spec::validate::SpecError;

/// A rule for when to stop calling.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Breaker {
    /// What counts as lately.
    pub window: Nanos,
    /// Fewer answers than this say nothing.
    pub min_requests: u32,
    /// Share of failures above which it opens.
    pub failures: f64,
    /// How long it stays open.
    pub open_for: Nanos,
    /// Only retries are held back.
    pub retries_only: bool,
}

impl Default for Breaker {
    /// Hystrix's: half of at least 20 answers within 10 s, open for 5 s.
    fn default() -> Self {
        let (window, open_for) = (Nanos(10_000_000_000), Nanos(5_000_000_000));
        Breaker { window, min_requests: 20, failures: 0.5, open_for, retries_only: false }
    }
}

/// Where a breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BreakerState {
    /// Answers and failures.
    window: Window,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    Closed,
    Open {
        until: Nanos,
    },
    /// One attempt is on its way.
    Probing,
}

impl Breaker {
    pub(crate) fn start(&self) -> BreakerState {
        BreakerState { window: Window::new(), phase: Phase::Closed }
    }

    fn too_many(&self, state: &mut BreakerState, now: Nanos) -> bool {
        let (answers, failures) = state.window.at(now, self.window);
        answers >= i64::from(self.min_requests) && failures as f64 > self.failures * answers as f64
    }

    /// Whether an attempt may be sent now.
    pub(crate) fn lets_through(&self, state: &mut BreakerState, now: Nanos, retry: bool) -> bool {
        if self.retries_only {
            return !retry || !self.too_many(state, now);
        }
        match state.phase {
            Phase::Closed => true,
            Phase::Open { until } if now >= until => {
                state.phase = Phase::Probing;
                true
            }
            Phase::Open { .. } | Phase::Probing => false,
        }
    }

    /// An attempt that was sent succeeded or failed.
    pub(crate) fn answered(&self, state: &mut BreakerState, now: Nanos, succeeded: bool) {
        state.window.add(now, self.window, 1, i64::from(!succeeded));
        if self.retries_only {
            return;
        }
        match state.phase {
            Phase::Probing if succeeded => *state = self.start(),
            Phase::Probing => state.phase = Phase::Open { until: now + self.open_for },
            Phase::Closed => {
                if !succeeded && self.too_many(state, now) {
                    state.phase = Phase::Open { until: now + self.open_for };
                }
            }
            // What was sent before it opened tells nothing new.
            Phase::Open { .. } => {}
        }
    }

    pub(crate) fn validate(&self, field: &str) -> Result<(), SpecError> {
        if self.window == Nanos::ZERO {
            return Err(SpecError::new(format!("{field}.window_s"), 0, "use a time above 0"));
        }
        if !(0.0..=1.0).contains(&self.failures) {
            return Err(SpecError::new(format!("{field}.failures"), self.failures, "use a share of 0 to 1"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn it_opens_waits_probes_and_closes() {
        let breaker = Breaker { min_requests: 4, ..Breaker::default() };
        let mut state = breaker.start();
        let at = |second: u64| Nanos(second * S);
        // Two of four are half, not more; a third of five is.
        for succeeded in [true, false, false, true] {
            breaker.answered(&mut state, at(1), succeeded);
        }
        assert!(breaker.lets_through(&mut state, at(1), false));
        breaker.answered(&mut state, at(1), false);
        assert!(!breaker.lets_through(&mut state, at(2), false));
        assert!(!breaker.lets_through(&mut state, Nanos(6 * S - 1), false));
        // One attempt after 5 s, and no other until it is answered.
        assert!(breaker.lets_through(&mut state, at(6), false));
        assert!(!breaker.lets_through(&mut state, at(7), false));
        breaker.answered(&mut state, at(7), false);
        assert!(!breaker.lets_through(&mut state, at(11), true));
        assert!(breaker.lets_through(&mut state, at(12), true));
        breaker.answered(&mut state, at(12), true);
        assert_eq!(state, breaker.start(), "closed, and what was is forgotten");
    }

    #[test]
    fn few_answers_and_old_ones_say_nothing() {
        let breaker = Breaker { min_requests: 3, ..Breaker::default() };
        let mut state = breaker.start();
        breaker.answered(&mut state, Nanos(0), false);
        breaker.answered(&mut state, Nanos(0), false);
        assert!(breaker.lets_through(&mut state, Nanos(0), false));
        breaker.answered(&mut state, Nanos(11 * S), false);
        assert!(breaker.lets_through(&mut state, Nanos(11 * S), false), "the first two are forgotten");
    }

    #[test]
    fn a_breaker_of_retries_never_holds_back_a_first_attempt() {
        let breaker = Breaker { min_requests: 1, failures: 0.1, retries_only: true, ..Breaker::default() };
        let mut state = breaker.start();
        for nth in 0..20 {
            breaker.answered(&mut state, Nanos(nth), nth >= 2);
        }
        // 2 of 20 are a tenth, not more.
        assert!(breaker.lets_through(&mut state, Nanos(20), true));
        breaker.answered(&mut state, Nanos(20), false);
        assert!(!breaker.lets_through(&mut state, Nanos(20), true));
        assert!(breaker.lets_through(&mut state, Nanos(20), false));
    }
}
