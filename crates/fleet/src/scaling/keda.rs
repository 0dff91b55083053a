//! KEDA: it owns the step between 0 and 1, an HPA that it makes owns the rest.
//!
//! Every polling interval: with no replica and a metric *above* its activation value, one replica (or the minimum); with replicas and nothing active for
//! longer than the cool-down, none. While there are replicas, its HPA goes by the external metric with a target for each ([`average_value`]) and keeps at
//! least one. A cron trigger is active within its window, its metric is the number of replicas asked for and its target is 1; the larger recommendation
//! counts. Activation beats scaling: what is above the threshold of the HPA and not above the activation value stays at 0.
//!
//! Sources: `kedacore/keda` `pkg/scaling/executor/scale_scaledobjects.go`, `pkg/scalers/cron_scaler.go`. Left out: fallback replicas (scrapes do not fail
//! here), pausing, and the HTTP add-on.

use super::behavior::{self, Behavior};
use super::kubernetes_hpa::{Tolerance, average_value, milli};
use super::registry::Entry;
use super::shared::{self, Turn, common_period, mean, seconds_param, signal_param, target_param, total, whole_seconds};
use super::{Controller, Decision, ScaleView, Signal};
use crate::routing::params::{self, Params};
use serde_json::{Value, json};
use servelab_engine::Nanos;
use servelab_spec::catalog::ControllerInfo;

const NAME: &str = "keda";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

/// Nanoseconds of a day: a run starts at midnight.
const DAY: u64 = 86_400_000_000_000;

/// Tolerance of the HPA, which a ScaledObject does not set.
const TOLERANCE: Tolerance = Tolerance { up: 0.1, down: 0.1 };

fn info() -> ControllerInfo {
    let second = |name, label, help| params::integer(name, label, "s of the day", 0, (0, 86_400), help);
    let mut params = vec![
        signal_param(Signal::QueueDepth, "The metric that the trigger's query asks for, summed over the fleet."),
        target_param(
            "threshold",
            "Threshold",
            "",
            5.0,
            "The trigger's threshold: the metric's value that one replica stands for.",
        ),
        params::number(
            "activation",
            "Activation",
            "",
            0.0,
            (0.0, 1e6, 1.0),
            "activationThreshold: above it, and not at it, there is something to do at all.",
        ),
        seconds_param("window_s", "Query window", 0, 0, "The query averages over so long. 0: the latest scrape."),
        seconds_param(
            "polling_s",
            "Polling interval",
            30,
            1,
            "pollingInterval: how often it looks whether anything is active. The HPA asks when it evaluates.",
        ),
        seconds_param(
            "cooldown_s",
            "Cool-down",
            300,
            0,
            "cooldownPeriod: from what was last active until there are no replicas any more. Shorter than a cold start, it kills what starts.",
        ),
        second(
            "cron_start_s",
            "Cron start",
            "From then on at least as many replicas as the cron trigger asks for; a run starts at midnight. Later than the end: over midnight.",
        ),
        second("cron_end_s", "Cron end", "Until then."),
        params::integer(
            "cron_replicas",
            "Cron replicas",
            "replicas",
            0,
            (0, 10_000),
            "desiredReplicas of the cron trigger. 0: no such trigger.",
        ),
        behavior::sync_param(),
    ];
    params.extend(Behavior::params());
    ControllerInfo {
        name: NAME.into(),
        label: "KEDA".into(),
        project: "KEDA".into(),
        summary: "Scales to zero and back by itself, and between one and many through an HPA on the metric's total.".into(),
        rule: "0 → 1 when metric > activation at a poll; → 0 when nothing was active for the cool-down; in between ⌈total ÷ threshold⌉ by an HPA, with its behavior section. A cron trigger is a floor within its hours.".into(),
        reads: "One signal of the whole fleet, what the gateway holds included, as of the latest scrape; the time of day.".into(),
        fails: "From 0 there is one replica, whatever the load: the rest waits for the HPA. A cool-down shorter than a cold start kills replicas while they load, for ever (superlinked/sie#293). A threshold below the activation value is never reached from 0.".into(),
        bound: false,
        params,
    }
}

fn build(params: &Params) -> Box<dyn Controller> {
    let (polling, sync) = (params.integer("polling_s"), params.integer("sync_s"));
    let day = |name| whole_seconds(params.integer(name));
    Box::new(Keda {
        signal: Signal::of(params.integer("signal")),
        threshold: milli(params.number("threshold")),
        activation: params.number("activation"),
        window: whole_seconds(params.integer("window_s")),
        cooldown: whole_seconds(params.integer("cooldown_s")),
        cron: (day("cron_start_s"), day("cron_end_s"), params.integer("cron_replicas")),
        period: common_period(polling, sync),
        poll: Turn::every(polling),
        sync: Turn::every(sync),
        last_active: None,
        behavior: Behavior::of(params),
    })
}

struct Keda {
    signal: Signal,
    /// In thousandths, above 0.
    threshold: i64,
    activation: f64,
    window: Nanos,
    cooldown: Nanos,
    /// Start, end, replicas.
    cron: (Nanos, Nanos, u32),
    period: Nanos,
    poll: Turn,
    sync: Turn,
    /// When a poll last found anything active.
    last_active: Option<Nanos>,
    behavior: Behavior,
}

impl Keda {
    /// Replicas that the cron trigger asks for; 0 outside its window.
    fn cron(&self, now: Nanos) -> u32 {
        let (start, end, replicas) = self.cron;
        let time = Nanos(now.0 % DAY);
        let within = if start <= end { start <= time && time < end } else { time >= start || time < end };
        if within { replicas } else { 0 }
    }

    /// The step between 0 and 1, if a poll takes it.
    fn polled(&mut self, view: &ScaleView<'_>, metric: Option<f64>) -> Option<Decision> {
        let cron = self.cron(view.now);
        let active = cron > 0 || metric? > self.activation;
        let first = view.min.max(1);
        match (view.current, active) {
            (0, true) => {
                self.last_active = Some(view.now);
                Some(Decision::now(first, "activated"))
            }
            (0, false) => (view.min > 0).then(|| Decision::now(view.min, "below its minimum")),
            (_, true) => {
                self.last_active = Some(view.now);
                None
            }
            // What nobody ever saw active has no cool-down.
            (_, false) if view.min == 0 && self.last_active.is_none_or(|last| view.now.since(last) > self.cooldown) => {
                Some(Decision::now(0, "nothing active for the cool-down"))
            }
            (_, false) => None,
        }
    }

    fn wanted(&self, view: &ScaleView<'_>, metric: f64) -> u32 {
        let replicas = view.pods.len() as u32;
        let by_load = average_value(milli(metric), self.threshold, replicas, TOLERANCE);
        // Outside its hours the cron trigger is there and says 0.
        match self.cron.2 {
            0 => by_load,
            _ => by_load.max(average_value(milli(f64::from(self.cron(view.now))), 1000, replicas, TOLERANCE)),
        }
    }
}

impl Controller for Keda {
    fn period(&self) -> Nanos {
        self.period
    }

    fn window(&self) -> Nanos {
        self.window
    }

    fn decide(&mut self, view: &ScaleView<'_>) -> Decision {
        let metric = total(view, self.signal, mean(self.window)).filter(|metric| metric.is_finite());
        let (polls, syncs) = (self.poll.is_due(view.now), self.sync.is_due(view.now));
        if polls && let Some(decision) = self.polled(view, metric) {
            self.behavior.changed(view.now, view.current, decision.desired);
            return decision;
        }
        let wanted = match metric {
            Some(metric) => self.wanted(view, metric),
            None => return Decision::now(view.current, "no metric"),
        };
        if view.current == 0 {
            return Decision::held(wanted, 0, "no replicas: its HPA does nothing");
        }
        if !syncs {
            return Decision::held(wanted, view.current, "between two evaluations");
        }
        let bounds = (view.min.max(1), view.max.max(1));
        let (desired, why) = self.behavior.apply(view.now, view.current, wanted, bounds);
        Decision { wanted, desired, why }
    }

    fn save(&self) -> Value {
        json!({
            "poll": self.poll.next, "sync": self.sync.next, "last_active": self.last_active, "behavior": self.behavior.save(),
        })
    }

    fn restore(&mut self, state: &Value) -> Result<(), String> {
        self.poll.next = shared::restore(&state["poll"])?;
        self.sync.next = shared::restore(&state["sync"])?;
        self.last_active = shared::restore(&state["last_active"])?;
        self.behavior.restore(&state["behavior"])
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, Load, steps};
    use super::*;
    use servelab_spec::experiment::ControllerSpec;

    fn held(held: u32) -> Load {
        Load { held, ..Load::default() }
    }

    #[test]
    fn activation_is_strict_and_beats_scaling() {
        // Activation 50, threshold 10, value 40: 0, though the HPA would have 4.
        let spec = ControllerSpec::named(NAME).with("activation", 50.0).with("threshold", 10.0);
        let mut bench = Bench::new(spec.clone()).bounds(0, 100);
        bench.scrape(held(40));
        assert_eq!(bench.decide(), Decision::held(4, 0, "no replicas: its HPA does nothing"));
        let mut bench = Bench::new(spec.clone()).bounds(0, 100);
        bench.scrape(held(50));
        assert_eq!(bench.decide().desired, 0, "at the value is not above it");
        let mut bench = Bench::new(spec).bounds(0, 100);
        bench.scrape(held(51));
        assert_eq!(bench.decide(), Decision::now(1, "activated"));
    }

    #[test]
    fn from_zero_one_and_the_rest_by_the_hpa() {
        let mut bench = Bench::new(ControllerSpec::named(NAME)).bounds(0, 100);
        // 100 held ÷ 5 = 20: one at the first poll, then 1 + 4, then double.
        let asked = bench.run(90.0, |_, _| held(100));
        assert_eq!(asked[..5], [(15.0, 1), (30.0, 5), (45.0, 10), (60.0, 20), (75.0, 20)]);
    }

    #[test]
    fn zero_when_the_cool_down_is_over_and_not_at_its_end() {
        let mut bench = Bench::new(ControllerSpec::named(NAME)).bounds(0, 10).ready(1);
        // Active at the polls of 15 and 45 s; 345 s is exactly the cool-down later, 375 s is beyond.
        let asked = bench.run(420.0, |now, _| held(u32::from(now <= Nanos::from_secs(50.0))));
        let gone = asked.iter().find(|&&(_, replicas)| replicas == 0).map(|&(at, _)| at);
        assert_eq!(gone, Some(375.0));
        // With a minimum of 1 nobody goes.
        let mut bench = Bench::new(ControllerSpec::named(NAME)).bounds(1, 10).ready(1);
        assert_eq!(steps(&bench.run(900.0, |_, _| held(0))), [1]);
    }

    #[test]
    fn cron_is_a_floor_within_its_hours() {
        let spec = ControllerSpec::named(NAME)
            .with("cron_start_s", 3600.0)
            .with("cron_end_s", 7200.0)
            .with("cron_replicas", 4.0);
        let mut bench = Bench::new(spec).bounds(0, 10);
        let asked = bench.run(9000.0, |_, _| held(0));
        let at = |second: f64| asked.iter().rev().find(|&&(at, _)| at <= second).map(|&(_, replicas)| replicas);
        assert_eq!([at(3599.0), at(3700.0), at(7100.0)], [Some(0), Some(4), Some(4)]);
        // After its end the HPA holds 4 for 300 s; the cool-down counts from the last poll within, at 7185 s.
        assert_eq!([at(7400.0), at(7600.0)], [Some(4), Some(0)]);
        let night = ControllerSpec::named(NAME)
            .with("cron_start_s", 79_200.0)
            .with("cron_end_s", 21_600.0)
            .with("cron_replicas", 2.0);
        let mut bench = Bench::new(night).bounds(0, 10);
        let asked = bench.run(30_000.0, |_, _| held(0));
        assert_eq!(
            asked.iter().find(|&&(at, _)| at >= 3600.0).map(|&(_, replicas)| replicas),
            Some(2),
            "over midnight"
        );
        assert_eq!(asked.last().map(|&(_, replicas)| replicas), Some(0));
    }

    #[test]
    fn saved_and_taken_back() {
        let spec = ControllerSpec::named(NAME);
        let mut bench = Bench::new(spec.clone()).bounds(0, 100);
        bench.run(100.0, |_, _| held(30));
        bench.reload(&spec);
        assert!(bench.controller.restore(&Value::Null).is_err());
    }
}
