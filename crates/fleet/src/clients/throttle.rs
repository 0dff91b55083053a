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

    /// Requests a second that reach a backend which takes 100 of the 1000 made, and what it takes.
    fn overload(k: f64, window: Nanos) -> (f64, f64) {
        let throttle = Throttle { k, window };
        let (mut state, mut draw) = (Window::new(), Stream::new(4, b"throttle"));
        let (mut seen, mut taken, mut room) = (0.0, 0.0, 0.0);
        for nth in 0..600_000u64 {
            let now = Nanos(nth * 1_000_000);
            // A tenth of a request each millisecond, and a second's worth can be saved up.
            room = f64::min(room + 0.1, 100.0);
            if throttle.sends(&mut state, now, &mut draw) {
                let takes = room >= 1.0;
                let counts = f64::from(nth >= 240_000);
                (seen, taken) = (seen + counts, taken + counts * f64::from(takes));
                if takes {
                    room -= 1.0;
                    throttle.accepted(&mut state, now);
                }
            }
        }
        (seen / 360.0, taken / 360.0)
    }

    /// At ten times what the backend takes, it sees K times what it takes: of R requests in the window, of which A are accepted, R · (1 + K · A)/(R + 1)
    /// are sent. With R = 1000 that is 201 at K = 2 and 111 at K = 1.1; over two minutes 200 and 110.
    #[test]
    fn a_backend_at_ten_times_its_load_sees_k_times_what_it_accepts() {
        for (k, window_s, seen_per_s) in [(2.0, 1, 201.0), (1.1, 1, 111.0), (2.0, 120, 200.0), (1.1, 120, 110.0)] {
            let (seen, taken) = overload(k, Nanos(window_s * 1_000_000_000));
            assert!(
                (seen - seen_per_s).abs() < 0.01 * seen_per_s,
                "{seen} at K = {k} over {window_s} s, {taken} taken"
            );
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
