//! Knative's pod autoscaler.
//!
//! ```text
//! stable = ⌈mean of 60 s ÷ target⌉      panic = ⌈mean of 6 s ÷ target⌉      target = 100 · 70 %
//! both within [⌊ready ÷ 2⌋, ⌈1000 · ready⌉]
//! panic ÷ ready ≥ 2: panics, and so on until a stable window has passed since it last was
//! panicking: the larger of the two, and never fewer than before; else stable
//! ```
//!
//! Concurrency is what is in flight over the fleet, what the gateway holds included. It starts in panic when there is more than one replica, so that it does not
//! go down before it has seen a window. To 0 it goes when it has wanted 0 for the grace period. Source: `knative/serving` `pkg/autoscaler/scaling/autoscaler.go`. Knative
//! samples every second; here a window holds as many scrapes as fit, so scrape often. Left out: the activator with its burst capacity (211: which requests wait
//! at the gateway is the gateway's affair here), container concurrency, and the scale-down delay's default of 0 made of buckets.

use super::registry::Entry;
use super::shared::{self, ceil, floor, seconds_param, target_param, total, whole_seconds};
use super::{Controller, Decision, Over, Phase, ScaleView, Signal};
use crate::routing::params::{self, Params};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use servelab_engine::Nanos;
use servelab_spec::catalog::ControllerInfo;

const NAME: &str = "knative_kpa";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> ControllerInfo {
    ControllerInfo {
        name: NAME.into(),
        label: "Knative KPA".into(),
        project: "Knative".into(),
        summary: "Scales to the concurrency of the last minute, in a panic to that of the last seconds and never down.".into(),
        rule: "⌈mean in flight ÷ (target · utilisation)⌉ over the stable window; once the panic window alone asks for twice the ready replicas, the larger of both and no step down until a stable window after that.".into(),
        reads: "Requests in flight over the whole fleet, what the gateway holds included, as means over two windows; ready replicas.".into(),
        fails: "It ignores start-up: while replicas load, requests pile up and count as demand, so panic asks for many times what is needed (knative#13284). Its default target of 100 is meant for web servers: an engine with 8 slots is full long before.".into(),
        bound: false,
        params: vec![
            target_param("target", "Concurrency target", "requests", 100.0, "container-concurrency-target-default: requests in flight that a replica should have at full utilisation."),
            params::number("utilization", "Target utilisation", "%", 70.0, (1.0, 100.0, 1.0), "container-concurrency-target-percentage: share of that target to aim for."),
            seconds_param("stable_window_s", "Stable window", 60, 6, "stable-window: the mean over it decides, and panic lasts so long after its last cause."),
            seconds_param("panic_window_s", "Panic window", 6, 1, "A tenth of the stable window by default (panic-window-percentage)."),
            params::number("panic_threshold", "Panic threshold", "× ready", 2.0, (1.1, 10.0, 0.1), "panic-threshold-percentage: replicas that the panic window asks for, against those that are ready."),
            params::number("max_scale_up_rate", "Scale-up rate", "×", 1000.0, (1.01, 1e6, 0.1), "max-scale-up-rate: at most so many times the ready replicas, at every tick."),
            params::number("max_scale_down_rate", "Scale-down rate", "÷", 2.0, (1.01, 1e6, 0.1), "max-scale-down-rate: at least the ready replicas divided by this, at every tick."),
            seconds_param("scale_down_delay_s", "Scale-down delay", 0, 0, "scale-down-delay: the highest of so long counts."),
            seconds_param("grace_s", "Grace to zero", 30, 0, "scale-to-zero-grace-period: how long it must want 0 before the last replica goes."),
            seconds_param("tick_s", "Tick", 2, 1, "tick-interval: time between two evaluations."),
        ],
    }
}

fn build(params: &Params) -> Box<dyn Controller> {
    let seconds = |name| whole_seconds(params.integer(name));
    Box::new(KnativeKpa {
        target: params.number("target") * params.number("utilization") / 100.0,
        stable: seconds("stable_window_s"),
        panic: seconds("panic_window_s"),
        threshold: params.number("panic_threshold"),
        up_rate: params.number("max_scale_up_rate"),
        down_rate: params.number("max_scale_down_rate"),
        delay: seconds("scale_down_delay_s"),
        grace: seconds("grace_s"),
        tick: seconds("tick_s"),
        state: State::default(),
    })
}

struct KnativeKpa {
    target: f64,
    stable: Nanos,
    panic: Nanos,
    threshold: f64,
    up_rate: f64,
    down_rate: f64,
    delay: Nanos,
    grace: Nanos,
    tick: Nanos,
    state: State,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    /// It has been asked before.
    started: bool,
    /// When it last had cause to panic.
    panic: Option<Nanos>,
    /// Most replicas asked for in this panic.
    panic_most: u32,
    /// Since when it has wanted 0.
    zero: Option<Nanos>,
    /// What it asked for within the scale-down delay.
    recent: Vec<(Nanos, u32)>,
}

impl KnativeKpa {
    /// Replicas by both windows, before rates: stable, panic.
    fn windows(&self, view: &ScaleView<'_>) -> Option<(f64, f64)> {
        let per_target = |window| Some(total(view, Signal::InFlight, Over::Mean(window))? / self.target);
        Some((libm::ceil(per_target(self.stable)?), libm::ceil(per_target(self.panic)?)))
    }

    /// What the scale-down delay leaves of `desired`.
    fn delayed(&mut self, now: Nanos, desired: u32) -> u32 {
        if self.delay == Nanos::ZERO {
            return desired;
        }
        self.state.recent.retain(|&(at, _)| now.since(at) < self.delay);
        self.state.recent.push((now, desired));
        self.state.recent.iter().map(|&(_, replicas)| replicas).max().unwrap_or(desired)
    }
}

impl Controller for KnativeKpa {
    fn period(&self) -> Nanos {
        self.tick
    }

    fn window(&self) -> Nanos {
        self.stable.max(self.panic)
    }

    fn decide(&mut self, view: &ScaleView<'_>) -> Decision {
        let now = view.now;
        let ready = view.count(Phase::Ready);
        if !self.state.started {
            self.state.started = true;
            if ready > 1 {
                (self.state.panic, self.state.panic_most) = (Some(now), ready);
            }
        }
        let Some((stable, panic)) = self.windows(view) else {
            return Decision::now(view.current, "no metric");
        };
        let ready = f64::from(ready.max(1));
        let (most, least) = (libm::ceil(self.up_rate * ready), libm::floor(ready / self.down_rate));
        let within = |replicas: f64| floor(replicas.max(least).min(most));
        if panic / ready >= self.threshold {
            self.state.panic = Some(now);
        } else if self.state.panic.is_some_and(|last| now.since(last) > self.stable) {
            (self.state.panic, self.state.panic_most) = (None, 0);
        }
        let (wanted, mut desired, mut why) = match self.state.panic {
            Some(_) => {
                let wanted = stable.max(panic);
                self.state.panic_most = self.state.panic_most.max(within(stable).max(within(panic)));
                (wanted, self.state.panic_most, "panics")
            }
            None => (stable, within(stable), "stable"),
        };
        let delayed = self.delayed(now, desired);
        if delayed != desired {
            (desired, why) = (delayed, "held by the scale-down delay");
        }
        if desired == 0 {
            let since = *self.state.zero.get_or_insert(now);
            if view.current > 0 && now.since(since) < self.grace {
                (desired, why) = (1, "grace before zero");
            }
        } else {
            self.state.zero = None;
        }
        Decision { wanted: ceil(wanted), desired: view.clamp(desired), why }
    }

    fn save(&self) -> Value {
        shared::save(&self.state)
    }

    fn restore(&mut self, state: &Value) -> Result<(), String> {
        self.state = shared::restore(state)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, Load};
    use super::*;
    use servelab_spec::experiment::ControllerSpec;

    /// A target of 10 at 100 %: replicas are requests ÷ 10. Scrapes come with the ticks.
    fn spec() -> ControllerSpec {
        ControllerSpec::named(NAME).with("target", 10.0).with("utilization", 100.0)
    }

    fn bench(ready: u32) -> Bench {
        Bench::new(spec()).bounds(0, 1000).ready(ready).scrapes_every(2.0)
    }

    fn held(held: u32) -> Load {
        Load { held, ..Load::default() }
    }

    #[test]
    fn stable_is_the_mean_of_a_minute() {
        let calm = spec().with("panic_threshold", 3.0);
        let mut bench = Bench::new(calm).bounds(0, 1000).ready(1).scrapes_every(2.0);
        bench.scrapes(31, held(10));
        assert_eq!(bench.decide(), Decision { wanted: 1, desired: 1, why: "stable" });
        // One scrape of 25 in 30: mean 10.5; 6 s: (10 + 10 + 25) ÷ 3 = 15, two, not three of one.
        bench.scrapes(1, held(25));
        assert_eq!(bench.decide(), Decision { wanted: 2, desired: 2, why: "stable" });
        // Three of them: 25, three of one.
        bench.scrapes(2, held(25));
        assert_eq!(bench.decide(), Decision { wanted: 3, desired: 3, why: "panics" });
        // By default two of one is a panic: nobody goes from one to two without.
        let mut bench = self::bench(1);
        bench.scrapes(31, held(11));
        assert_eq!(bench.decide(), Decision { wanted: 2, desired: 2, why: "panics" });
    }

    #[test]
    fn default_target_is_seventy() {
        let mut bench = Bench::new(ControllerSpec::named(NAME)).bounds(0, 1000).ready(1).scrapes_every(2.0);
        bench.scrapes(3, held(140));
        assert_eq!(bench.decide().wanted, 2);
        bench.scrapes(60, held(141));
        assert_eq!(bench.decide().wanted, 3);
    }

    #[test]
    fn panic_never_goes_down_and_ends_a_window_after_its_last_cause() {
        let mut bench = bench(1);
        bench.scrapes(31, held(10));
        bench.decide();
        bench.scrapes(3, held(60));
        let caused = bench.now;
        assert_eq!(bench.decide(), Decision { wanted: 6, desired: 6, why: "panics" });
        // Quiet again: at the next two ticks the panic window still holds a scrape of 60, (60 + 60 + 10) ÷ 3 and (60 + 10 + 10) ÷ 3 against 1 ready.
        let mut last = caused;
        loop {
            bench.scrapes(1, held(10));
            let decision = bench.decide();
            let since = bench.now.since(caused).as_secs();
            match decision.why {
                "panics" => last = bench.now,
                _ => break,
            }
            assert_eq!(decision.desired, 6, "{since}");
            assert!(since < 100.0);
        }
        // Last cause 4 s on; a window later, at 64 s, it is not yet over.
        assert_eq!(last.since(caused).as_secs(), 64.0);
    }

    #[test]
    fn rates_bound_a_tick() {
        let rates = spec().with("max_scale_up_rate", 2.5).with("panic_threshold", 10.0);
        let mut bench = Bench::new(rates).bounds(0, 1000).ready(1).scrapes_every(2.0);
        bench.scrapes(31, held(85));
        assert_eq!(bench.decide(), Decision { wanted: 9, desired: 3, why: "stable" });
        // Down to ⌊5 ÷ 2⌋ of five, and not at once: five at the start is a panic.
        let mut bench = self::bench(5);
        bench.scrapes(31, held(0));
        assert_eq!(bench.decide(), Decision { wanted: 0, desired: 5, why: "panics" });
        bench.scrapes(31, held(0));
        assert_eq!(bench.decide(), Decision { wanted: 0, desired: 2, why: "stable" });
    }

    #[test]
    fn zero_after_its_grace() {
        let mut bench = bench(1);
        bench.scrapes(31, held(0));
        assert_eq!(bench.decide(), Decision { wanted: 0, desired: 1, why: "grace before zero" });
        bench.scrapes(14, held(0));
        assert_eq!(bench.decide().desired, 1, "after 28 s");
        bench.scrapes(1, held(0));
        assert_eq!(bench.decide().desired, 0, "after 30 s");
        let mut empty = self::bench(0);
        empty.scrapes(2, held(0));
        assert_eq!(empty.decide(), Decision { wanted: 0, desired: 0, why: "stable" });
        empty.scrapes(1, held(1));
        assert_eq!(empty.decide().desired, 1);
    }

    #[test]
    fn scale_down_delay_keeps_the_highest() {
        let delay = spec().with("scale_down_delay_s", 100.0).with("panic_threshold", 10.0);
        let mut bench = Bench::new(delay.clone()).bounds(0, 1000).ready(1).scrapes_every(2.0);
        bench.scrapes(31, held(20));
        assert_eq!(bench.decide().desired, 2);
        bench.scrapes(40, held(10));
        assert_eq!(bench.decide(), Decision { wanted: 1, desired: 2, why: "held by the scale-down delay" });
        bench.reload(&delay);
        bench.scrapes(10, held(10));
        assert_eq!(bench.decide().desired, 1, "100 s later the 2 no longer counts");
    }
}
