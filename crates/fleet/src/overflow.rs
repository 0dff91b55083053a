//! Overflow: requests that the fleet does not serve but a managed API does, at its own speed and price.
//!
//! It is a valve in front of the gateway. A request goes out when nobody is ready, when so many are in flight for each ready replica that one more
//! would have to wait, or in the hours in which the fleet is meant to be small. The API is a delay and a rate and never full: what it costs is the
//! point, and that is counted.

use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_spec::validate::SpecError;

/// When requests go to a managed API, and how fast it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverflowConfig {
    /// Requests in flight or held, for each ready replica, from which on one more goes out, above 0.
    pub load: f64,
    /// Hours in which every request goes out.
    pub night: Option<Night>,
    /// Its time to first token.
    pub ttft: Nanos,
    /// Its time for each further token.
    pub token: Nanos,
}

/// A part of every day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Night {
    /// When it begins, from the start of the day.
    pub from: Nanos,
    /// When it ends; before `from`, it lasts past the end of the day.
    pub until: Nanos,
    /// Length of a day, above 0. Day 0 begins with the run.
    pub day: Nanos,
}

impl Night {
    fn holds(self, now: Nanos) -> bool {
        let at = Nanos(now.0 % self.day.0.max(1));
        if self.from <= self.until { self.from <= at && at < self.until } else { at >= self.from || at < self.until }
    }
}

impl OverflowConfig {
    /// Does a request that comes `now` go out? `busy` requests are in flight or held, `ready` replicas take requests.
    pub(crate) fn takes(&self, now: Nanos, busy: u64, ready: u32) -> bool {
        ready == 0 || busy as f64 >= self.load * f64::from(ready) || self.night.is_some_and(|night| night.holds(now))
    }

    /// When an answer of `output_tokens` that was asked for `now` begins and ends.
    pub(crate) fn serves(&self, now: Nanos, output_tokens: u32) -> (Nanos, Nanos) {
        let first = now + self.ttft;
        (first, first + Nanos(self.token.0.saturating_mul(u64::from(output_tokens.saturating_sub(1)))))
    }

    pub(crate) fn validate(&self) -> Result<(), SpecError> {
        if !(self.load.is_finite() && self.load > 0.0) {
            return Err(SpecError::new("scaling.overflow.load", self.load, "use a number above 0"));
        }
        if self.night.is_some_and(|night| night.day == Nanos::ZERO) {
            return Err(SpecError::new("workload.hour_s", 0, "use a time above 0"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000_000;

    fn config(night: Option<Night>) -> OverflowConfig {
        OverflowConfig { load: 8.0, night, ttft: Nanos(500), token: Nanos(20) }
    }

    #[test]
    fn it_opens_when_nobody_is_ready_and_when_all_places_are_taken() {
        let of = config(None);
        let cases = [(0, 0, true), (0, 1, false), (7, 1, false), (8, 1, true), (15, 2, false), (16, 2, true)];
        for (busy, ready, out) in cases {
            assert_eq!(of.takes(Nanos(5), busy, ready), out, "{busy} for {ready}");
        }
    }

    /// From 22 to 6, on the first day and on the third.
    #[test]
    fn a_night_may_pass_midnight() {
        let night = |from, until| Night { from: Nanos(from * HOUR), until: Nanos(until * HOUR), day: Nanos(24 * HOUR) };
        for (hour, asleep) in [(0, true), (5, true), (6, false), (21, false), (22, true), (54, false), (71, true)] {
            assert_eq!(config(Some(night(22, 6))).takes(Nanos(hour * HOUR), 0, 1), asleep, "{hour}");
            assert_eq!(config(Some(night(6, 22))).takes(Nanos(hour * HOUR), 0, 1), !asleep, "{hour}");
        }
        assert!(!config(Some(night(3, 3))).takes(Nanos(3 * HOUR), 0, 1), "no time at all");
    }

    #[test]
    fn an_answer_takes_its_first_token_and_a_gap_for_each_other() {
        assert_eq!(config(None).serves(Nanos(100), 1), (Nanos(600), Nanos(600)));
        assert_eq!(config(None).serves(Nanos(100), 4), (Nanos(600), Nanos(660)));
    }
}
