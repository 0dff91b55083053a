//! How full the fleet is, in one number, and what is done about it: classes of lower rank are held back sooner, and work of negative priority is shed.
//!
//! The number is llm-d's (`pkg/epp/flowcontrol`, saturation detector): the mean over ready replicas of the larger of waiting requests ÷ 5 and
//! KV usage ÷ 0.8, as of the latest scrape. 1 is full. A replica whose metrics are older than 200 ms counts as full: it fails closed, so a fleet
//! whose telemetry is lost gets nothing and what is held waits for its time to live (`scaling_overload.md` D25). No ready replica is full as well.
//! The other detector counts what the gateway has sent and not seen come back, against so many for each replica: never stale, and blind to what a request weighs.
//!
//! *Hold-back*: of n classes, the i-th from the top (from 0) passes below `1 − share · i ÷ (n − 1)`. Between two scrapes the number stands still, so
//! when a class passes, all of it passes; llm-d behaves the same.
//!
//! *Shedding* concerns classes of negative priority only, 429: all of them from 1 on (llm-d without flow control), or each with probability
//! `min(1, 300 · saturation⁵)`.

use super::ask::{Ask, Refused, View};
use super::classes::Classes;
use crate::record::Refusal;
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_engine::random::Stream;

/// How saturation is measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Detector {
    /// By engine metrics.
    Metrics {
        /// Waiting requests of a full replica, above 0.
        queue: f64,
        /// KV usage of a full replica, above 0, at most 1.
        kv: f64,
        /// Metrics older than that count as full.
        stale_after: Nanos,
    },
    /// By what was sent and has not ended.
    InFlight {
        /// Requests of a full replica, above 0.
        per_replica: f64,
    },
}

impl Detector {
    /// llm-d's defaults.
    pub const LLM_D: Detector = Detector::Metrics { queue: 5.0, kv: 0.8, stale_after: Nanos(200_000_000) };

    pub(crate) fn reads_metrics(&self) -> bool {
        matches!(self, Detector::Metrics { .. })
    }

    /// How full the fleet is; 1 is full, more is fuller.
    pub(crate) fn saturation(&self, view: &View<'_>) -> f64 {
        if view.ready.is_empty() {
            return 1.0;
        }
        let ready = view.ready.iter().map(|&index| index as usize);
        let sum: f64 = match *self {
            Detector::Metrics { queue, kv, stale_after } => ready
                .map(|index| {
                    let polled = view.polled.get(index);
                    let fresh = |at: Nanos| view.now.since(at) <= stale_after;
                    polled
                        .filter(|polled| polled.at.is_some_and(fresh))
                        .map_or(1.0, |polled| (f64::from(polled.waiting) / queue).max(polled.kv_usage / kv))
                })
                .sum(),
            Detector::InFlight { per_replica } => {
                ready.map(|index| view.in_flight.get(index).map_or(0.0, |&sent| f64::from(sent) / per_replica)).sum()
            }
        };
        sum / view.ready.len() as f64
    }
}

/// Classes of lower rank pass only while there is room to spare.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldBackConfig {
    /// How saturation is measured.
    pub detector: Detector,
    /// By how much sooner the last class is held than the first, 0 to 1.
    pub share: f64,
}

impl HoldBackConfig {
    /// Saturation below which the class of `rank` of `ranks` passes.
    pub(crate) fn ceiling(&self, rank: u32, ranks: u32) -> f64 {
        let below = if ranks <= 1 { 0.0 } else { f64::from(rank) / f64::from(ranks - 1) };
        1.0 - self.share * below
    }

    pub(crate) fn passes(&self, rank: u32, ranks: u32, view: &View<'_>) -> bool {
        self.detector.saturation(view) < self.ceiling(rank, ranks)
    }
}

/// How work of negative priority is shed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ShedRule {
    /// All of it, from saturation 1 on.
    WhenFull,
    /// Each with probability `min(1, factor · saturation^exponent)`.
    Gradually {
        /// 300 in llm-d.
        factor: f64,
        /// 5 in llm-d.
        exponent: f64,
    },
}

/// Shedding by priority.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShedConfig {
    /// How saturation is measured.
    pub detector: Detector,
    /// How much is shed.
    pub rule: ShedRule,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shed {
    pub(crate) config: ShedConfig,
}

impl Shed {
    /// Like [`super::stage::Stage::admit`], for somebody who knows classes.
    pub(crate) fn admit(
        &self,
        ask: &Ask,
        classes: &Classes,
        view: &View<'_>,
        draw: &mut Stream,
    ) -> Result<(), Refused> {
        if classes.priority(classes.rank_of(ask.tenant)) >= 0 {
            return Ok(());
        }
        let saturation = self.config.detector.saturation(view);
        let share = match self.config.rule {
            ShedRule::WhenFull => f64::from(u8::from(saturation >= 1.0)),
            ShedRule::Gradually { factor, exponent } => (factor * libm::pow(saturation, exponent)).min(1.0),
        };
        if share > 0.0 && draw.unit() < share {
            return Err(Refused::new(429, Refusal::Shed));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::classes::ClassConfig;
    use super::super::testing::ask;
    use super::*;
    use crate::telemetry::PolledSignals;

    fn metrics(at_ms: u64, waiting: u32, kv_usage: f64) -> PolledSignals {
        PolledSignals { at: Some(Nanos(at_ms * 1_000_000)), waiting, kv_usage, ..PolledSignals::default() }
    }

    fn view<'a>(now_ms: u64, ready: &'a [u32], polled: &'a [PolledSignals]) -> View<'a> {
        View { now: Nanos(now_ms * 1_000_000), ready, in_flight: &[30, 90, 0], polled }
    }

    /// By hand: max(2/5, 0.2/0.8) = 0.4 and max(1/5, 0.6/0.8) = 0.75, mean 0.575. Only ready replicas count.
    #[test]
    fn the_mean_of_the_larger_of_queue_and_memory() {
        let polled = [metrics(1000, 2, 0.2), metrics(1000, 1, 0.6), metrics(1000, 50, 1.0)];
        let saturation = |now, ready| Detector::LLM_D.saturation(&view(now, ready, &polled));
        assert!((saturation(1000, &[0, 1]) - 0.575).abs() < 1e-12);
        // A queue of ten is twice full: it is not cut off at 1.
        assert!((saturation(1000, &[2]) - 10.0).abs() < 1e-12);
        // 200 ms are fresh, a nanosecond more is not; one stale replica of two counts as full.
        assert!((saturation(1200, &[0, 1]) - 0.575).abs() < 1e-12);
        assert_eq!(saturation(1201, &[0, 1]), 1.0);
        let half = [metrics(1000, 2, 0.2), PolledSignals::default()];
        assert!((Detector::LLM_D.saturation(&view(1000, &[0, 1], &half)) - 0.7).abs() < 1e-12);
        assert_eq!(saturation(1000, &[]), 1.0);
    }

    #[test]
    fn in_flight_against_so_many_a_replica() {
        let detector = Detector::InFlight { per_replica: 100.0 };
        assert!((detector.saturation(&view(0, &[0, 1], &[])) - 0.6).abs() < 1e-12);
    }

    /// Three classes, held back by 0.4 in all: 1, 0.8, 0.6.
    #[test]
    fn ceilings_are_linear_by_rank() {
        let hold = HoldBackConfig { detector: Detector::InFlight { per_replica: 100.0 }, share: 0.4 };
        let ceilings = [0, 1, 2].map(|rank| hold.ceiling(rank, 3));
        assert!(ceilings.iter().zip([1.0, 0.8, 0.6]).all(|(is, expected)| (is - expected).abs() < 1e-12));
        assert_eq!(hold.ceiling(0, 1), 1.0);
        // Saturation 0.6: strictly below the ceiling passes.
        let passes = [0, 1, 2].map(|rank| hold.passes(rank, 3, &view(0, &[0, 1], &[])));
        assert_eq!(passes, [true, true, false]);
    }

    /// By hand: 300 · 0.3⁵ = 0.729; at 0.32 it is above 1.
    #[test]
    fn only_negative_priority_is_shed() {
        let class = |name: &str, priority, tenants| ClassConfig { name: name.into(), priority, weight: 1, tenants };
        let classes = Classes::new(&[class("batch", -1, vec![1]), class("interactive", 0, vec![])], 2);
        let in_flight = [30, 0, 0];
        let of = |per_replica, rule| Shed { config: ShedConfig { detector: Detector::InFlight { per_replica }, rule } };
        let view = View { now: Nanos::ZERO, ready: &[0], in_flight: &in_flight, polled: &[] };
        let draws = Stream::new(3, b"test");
        let shed = |stage: Shed, tenant| {
            let away = |index| stage.admit(&ask(tenant), &classes, &view, &mut draws.split(index)).is_err();
            (0..10_000).map(away).filter(|&away| away).count()
        };
        let gradually = ShedRule::Gradually { factor: 300.0, exponent: 5.0 };
        let some = shed(of(100.0, gradually), 1);
        assert!(some.abs_diff(7290) < 178, "four standard deviations of a binomial: {some}");
        assert_eq!(shed(of(93.0, gradually), 1), 10_000);
        assert_eq!(shed(of(100.0, gradually), 0), 0);
        assert_eq!((shed(of(30.0, ShedRule::WhenFull), 1), shed(of(30.5, ShedRule::WhenFull), 1)), (10_000, 0));
    }
}
