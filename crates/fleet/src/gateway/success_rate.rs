//! Envoy's admission control: the more of the latest requests failed, the more new ones are turned away, at random.
//!
//! Over a sliding window, with n attempts that ended and `ok` of them well, an attempt is turned away with probability
//! `((n − ok ÷ threshold) ÷ (n + 1)) ^ (1 ÷ aggression)`, at most `most`. Above the threshold nothing happens. 503. Source: `envoy.filters.http.admission_control`
//! (its example: 120 s, 95 %, at most 80 %). It needs failures to work on: a queue that takes everybody and answers late shows it none.

use super::ask::{Ask, Ended, Refused, View};
use super::stage::Stage;
use crate::record::Refusal;
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_engine::random::Stream;
use std::collections::VecDeque;

/// When the servers fail.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuccessRateConfig {
    /// Length of the window, whole seconds, at least 1.
    pub window_s: u32,
    /// Share of attempts that must end well, above 0, at most 1.
    pub threshold: f64,
    /// Above 1 turns more away at the same rate of failures; at least 1.
    pub aggression: f64,
    /// Largest share turned away, 0 to 1.
    pub most: f64,
}

/// A second of the window.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Second {
    at: u64,
    ended: u32,
    ok: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SuccessRate {
    pub(crate) config: SuccessRateConfig,
    /// Seconds in which attempts ended, oldest first.
    window: VecDeque<Second>,
}

impl SuccessRate {
    pub(crate) fn new(config: SuccessRateConfig) -> Self {
        // All seconds there can be, so that nothing is allocated later.
        SuccessRate { config, window: VecDeque::with_capacity(config.window_s as usize + 1) }
    }

    fn slide(&mut self, now: Nanos) -> u64 {
        let second = now.0 / 1_000_000_000;
        while self.window.front().is_some_and(|first| first.at + u64::from(self.config.window_s) <= second) {
            self.window.pop_front();
        }
        second
    }

    /// Share turned away.
    fn share(&self) -> f64 {
        let (ended, ok) = (self.window.iter())
            .fold((0.0, 0.0), |(ended, ok), second| (ended + f64::from(second.ended), ok + f64::from(second.ok)));
        let SuccessRateConfig { threshold, aggression, most, .. } = self.config;
        let base = (ended - ok / threshold) / (ended + 1.0);
        if base <= 0.0 { 0.0 } else { libm::pow(base, 1.0 / aggression).min(most) }
    }
}

impl Stage for SuccessRate {
    fn admit(&mut self, _ask: &Ask, view: &View<'_>, draw: &mut Stream) -> Result<(), Refused> {
        self.slide(view.now);
        let share = self.share();
        if share > 0.0 && draw.unit() < share {
            return Err(Refused::new(503, Refusal::Failing));
        }
        Ok(())
    }

    fn ended(&mut self, ended: &Ended) {
        let at = self.slide(ended.now);
        let ok = u32::from(ended.ok);
        match self.window.back_mut().filter(|last| last.at == at) {
            Some(last) => (last.ended, last.ok) = (last.ended + 1, last.ok + ok),
            None => self.window.push_back(Second { at, ended: 1, ok }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{answered, ask, quiet};
    use super::*;

    const ENVOY: SuccessRateConfig = SuccessRateConfig { window_s: 120, threshold: 0.95, aggression: 1.0, most: 0.8 };

    fn after(config: SuccessRateConfig, ok: u32, failed: u32) -> SuccessRate {
        let mut stage = SuccessRate::new(config);
        (0..ok).for_each(|_| stage.ended(&answered(0, 0)));
        (0..failed).for_each(|_| stage.ended(&Ended { ok: false, ..answered(0, 0) }));
        stage
    }

    /// By hand. 99 attempts of which 57 ended well: (99 − 57 ÷ 0.95) ÷ 100 = 0.39. None: 99 ÷ 100, cut to 0.8.
    #[test]
    fn the_formula() {
        let share = |config, ok, failed| after(config, ok, failed).share();
        assert!((share(ENVOY, 57, 42) - 0.39).abs() < 1e-12);
        assert_eq!(share(ENVOY, 0, 99), 0.8);
        assert_eq!(share(ENVOY, 95, 5), 0.0);
        assert_eq!(share(ENVOY, 0, 0), 0.0);
        let squared = SuccessRateConfig { aggression: 2.0, ..ENVOY };
        assert!((share(squared, 57, 42) - 0.39_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn as_many_are_turned_away_as_it_says_and_a_window_later_nobody() {
        let mut stage = after(ENVOY, 57, 42);
        let draws = Stream::new(7, b"test");
        let mut turned_away = |at: u64| {
            let asked = |index| stage.admit(&ask(0), &quiet(at), &mut draws.split(index)).is_err();
            (0..10_000).map(asked).filter(|&away| away).count()
        };
        let away = turned_away(0);
        // Four standard deviations of a binomial of 10 000 at 0.39.
        assert!(away.abs_diff(3900) < 196, "{away}");
        assert!(turned_away(119_999_999_999) > 3700);
        assert_eq!(turned_away(120_000_000_000), 0);
    }
}
