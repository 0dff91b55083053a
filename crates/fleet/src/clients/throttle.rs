//! Adaptive throttling: a client that drops what its backend would refuse anyway.
//!
//! Site Reliability Engineering (O'Reilly 2016), *Handling Overload*: over a window, a request is dropped before it is sent with probability
//! `max(0, (requests − K · accepts) / (requests + 1))`. Requests count when they are made, dropped ones included. In the long run the
//! backend sees K times what it accepts.

use super::window::Window;
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_engine::random::Stream;
use servelab_spec::validate::SpecError;

/// A rule for what to drop.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throttle {
    /// Attempts that may be sent for each that is accepted, at least 1.
    pub k: f64,
    /// What counts as lately. Longer than the slowest answer, or what is on its way looks refused.
    pub window: Nanos,
}

impl Default for Throttle {
    fn default() -> Self {
        Throttle { k: 2.0, window: Nanos(120_000_000_000) }
    }
}

impl Throttle {
    /// Whether the request made now is sent.
    pub(crate) fn sends(&self, state: &mut Window, now: Nanos, draw: &mut Stream) -> bool {
        let (requests, accepts) = state.at(now, self.window);
        state.add(now, self.window, 1, 0);
        let dropped = (requests as f64 - self.k * accepts as f64) / (requests as f64 + 1.0);
        dropped <= 0.0 || draw.unit() >= dropped
    }

    /// The backend took one in.
    pub(crate) fn accepted(&self, state: &mut Window, now: Nanos) {
        state.add(now, self.window, 0, 1);
    }

    pub(crate) fn validate(&self, field: &str) -> Result<(), SpecError> {
        if !(self.k >= 1.0 && self.k <= 1000.0) {
            return Err(SpecError::new(format!("{field}.k"), self.k, "use 1 to 1000"));
        }
        if self.window == Nanos::ZERO {
            return Err(SpecError::new(format!("{field}.window_s"), 0, "use a time above 0"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Facts D 23: at ten times what the backend accepts, 1000 requests a second against 100, it sees K times what it accepts: 201 at K = 2, 111 at
    /// K = 1.1 (K · 100 and about 1 of the requests without a history; the formula's limit is (K + 1/accepts share ...) ≈ K).
    #[test]
    fn a_backend_at_ten_times_its_load_sees_k_times_what_it_accepts() {
        for (k, seen_per_s) in [(2.0, 201.0), (1.1, 111.0)] {
            let throttle = Throttle { k, ..Throttle::default() };
            let (mut state, mut draw) = (Window::new(), Stream::new(4, b"throttle"));
            let mut seen_in_total = 0.0;
            for second in 0..600u64 {
                let mut accepted = 0;
                for nth in 0..1000 {
                    let now = Nanos(second * 1_000_000_000 + nth * 1_000_000);
                    if throttle.sends(&mut state, now, &mut draw) {
                        seen_in_total += f64::from(second >= 240);
                        if accepted < 100 {
                            accepted += 1;
                            throttle.accepted(&mut state, now);
                        }
                    }
                }
            }
            let seen = seen_in_total / 360.0;
            assert!((seen - seen_per_s).abs() < 0.02 * seen_per_s, "{seen} at K = {k}");
        }
    }

    #[test]
    fn a_healthy_backend_is_sent_everything() {
        let (throttle, mut state, mut draw) = (Throttle::default(), Window::new(), Stream::new(4, b"throttle"));
        for nth in 0..1000 {
            assert!(throttle.sends(&mut state, Nanos(nth * 1000), &mut draw));
            if nth % 2 == 0 {
                throttle.accepted(&mut state, Nanos(nth * 1000));
            }
        }
        assert_eq!(Throttle { k: 0.9, ..throttle }.validate("t").unwrap_err().field, "t.k");
    }
}
