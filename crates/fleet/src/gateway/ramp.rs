//! A slow ramp after recovery: when replicas come back after there was none, everybody who was turned away or held comes at once, to cold caches.
//!
//! From the instant at which the fleet has a ready replica again, as many attempts may be in flight as `full` for each ready replica times a share that grows from
//! `least` to 1 over the window, as `(t ÷ window)^(1 ÷ aggression)` (Envoy's slow start, `SlowStartConfig`: least 10 %, aggression 1). It grows in a hundred
//! steps, each at an instant of its own, so that nothing depends on when somebody looks.

use super::ask::View;
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;

/// A slow ramp after recovery.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RampConfig {
    /// How long it takes, above 0.
    pub window: Nanos,
    /// Share at its beginning, 0 to 1. At least one attempt passes.
    pub least: f64,
    /// 1 grows evenly, more grows faster at first; above 0.
    pub aggression: f64,
    /// Attempts in flight for each ready replica at its end, after which there is no limit here.
    pub full: u32,
}

const STEPS: u64 = 100;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ramp {
    pub(crate) config: RampConfig,
    /// When it began, while it lasts.
    since: Option<Nanos>,
    /// How far it has come.
    step: u64,
}

impl Ramp {
    pub(crate) fn new(config: RampConfig) -> Self {
        Ramp { config, since: None, step: 0 }
    }

    pub(crate) fn recovered(&mut self, now: Nanos) {
        (self.since, self.step) = (Some(now), 0);
    }

    fn at(&self, since: Nanos, step: u64) -> Nanos {
        since + Nanos((u128::from(self.config.window.0) * u128::from(step)).div_ceil(u128::from(STEPS)) as u64)
    }

    /// When it grows next.
    pub(crate) fn wake(&self) -> Option<Nanos> {
        self.since.map(|since| self.at(since, self.step + 1))
    }

    /// It may be time for a step.
    pub(crate) fn tick(&mut self, now: Nanos) {
        let Some(since) = self.since else { return };
        while self.step < STEPS && self.at(since, self.step + 1) <= now {
            self.step += 1;
        }
        if self.step == STEPS {
            self.since = None;
        }
    }

    /// Most attempts in flight now.
    pub(crate) fn limit(&self, view: &View<'_>) -> u32 {
        if self.since.is_none() {
            return u32::MAX;
        }
        let grown = libm::pow(self.step as f64 / STEPS as f64, 1.0 / self.config.aggression);
        let full = f64::from(self.config.full) * view.ready.len() as f64;
        libm::ceil(full * grown.max(self.config.least)).max(1.0) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::quiet;
    use super::*;

    /// Two replicas of 20, over 10 s from 10 %: 4, still 4 at 10 %, 20 half way, then no limit.
    #[test]
    fn it_grows_at_its_own_instants() {
        let mut ramp = Ramp::new(RampConfig { window: Nanos(10_000_000_000), least: 0.1, aggression: 1.0, full: 20 });
        let view = View { ready: &[0, 1], ..quiet(0) };
        assert_eq!((ramp.limit(&view), ramp.wake()), (u32::MAX, None));
        ramp.recovered(Nanos(5_000_000_000));
        assert_eq!((ramp.limit(&view), ramp.wake()), (4, Some(Nanos(5_100_000_000))));
        let mut at = |seconds: f64| {
            ramp.tick(Nanos::from_secs(seconds));
            (ramp.limit(&view), ramp.wake())
        };
        assert_eq!(at(5.0999), (4, Some(Nanos(5_100_000_000))));
        assert_eq!(at(6.0), (4, Some(Nanos(6_100_000_000))));
        assert_eq!(at(10.0), (20, Some(Nanos(10_100_000_000))));
        assert_eq!(at(14.9), (40, Some(Nanos(15_000_000_000))));
        assert_eq!(at(15.0), (u32::MAX, None));
    }

    /// Aggression 2: after a quarter of the time half is there.
    #[test]
    fn aggression_grows_faster_at_first() {
        let mut ramp = Ramp::new(RampConfig { window: Nanos(1000), least: 0.0, aggression: 2.0, full: 100 });
        ramp.recovered(Nanos::ZERO);
        assert_eq!(ramp.limit(&quiet(0)), 1);
        ramp.tick(Nanos(250));
        assert_eq!(ramp.limit(&quiet(250)), 50);
    }
}
