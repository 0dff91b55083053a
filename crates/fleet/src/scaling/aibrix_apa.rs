//! AIBrix's application-specific pod autoscaler.
//!
//! ```text
//! r = mean over the window and over replicas ÷ target
//! r > 1 + up tolerance:    min(⌈current · r⌉, ⌈up rate · current⌉)
//! r < 1 − down tolerance:  max(⌈current · r⌉, ⌊current ÷ down rate⌋)
//! else                     current
//! ```
//!
//! With the *guard*, replicas that are not ready count as 0 on the way up and as the target on the way down; without it (versions before aibrix#2670 was
//! answered) they count as loaded as the others, and every evaluation multiplies again. Downwards the highest recommendation of the cool-down counts, as the
//! documentation has it. Sources: `pkg/controller/podautoscaler/{algorithm/apa,autoscaler,context/context}.go`. Left out: schedules that move the bounds.

use super::registry::Entry;
use super::shared::{
    self, ceil, floor, mean, mean_of, seconds_param, signal_param, target_param, values, whole_seconds,
};
use super::{Controller, Decision, Phase, ScaleView, Signal};
use crate::routing::params::{self, Params};
use serde_json::Value;
use servelab_engine::Nanos;
use servelab_spec::catalog::ControllerInfo;

const NAME: &str = "aibrix_apa";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> ControllerInfo {
    let tolerance = |name, label, help| params::number(name, label, "", 0.1, (0.0, 0.99, 0.01), help);
    let rate = |name, label, help| params::number(name, label, "×", 2.0, (1.01, 100.0, 0.01), help);
    ControllerInfo {
        name: NAME.into(),
        label: "AIBrix APA".into(),
        project: "AIBrix".into(),
        summary: "Scales in proportion to a signal's mean per replica, at most by its rates, with a tolerance for each direction.".into(),
        rule: "⌈current · mean ÷ target⌉ outside the tolerances, at most twice and at least half of current; replicas that load are guarded against; the highest of 300 s counts downwards.".into(),
        reads: "One signal of each replica, as a mean over the window; which replicas are ready.".into(),
        fails: "Without its guard it multiplies again while replicas load: 2 → 4 → 8 → 16 (aibrix#2670). A saturating signal grows it by at most 1 ÷ target each time. At 0 replicas it stays at 0. Some versions take the lowest of the cool-down instead of the highest, so that it does nothing: 0 s.".into(),
        bound: false,
        params: vec![
            signal_param(Signal::KvUsage, "targetMetric: its mean over replicas."),
            target_param("target", "Target", "", 0.5, "targetValue: what the metric should be, in the unit of the signal."),
            tolerance("up_tolerance", "Tolerance up", "scale-up-tolerance: nothing happens while metric ÷ target is at most 1 plus this."),
            tolerance("down_tolerance", "Tolerance down", "scale-down-tolerance: nothing happens while metric ÷ target is at least 1 less this."),
            rate("max_scale_up_rate", "Scale-up rate", "max-scale-up-rate: at most so many times the replicas, at every evaluation."),
            rate("max_scale_down_rate", "Scale-down rate", "max-scale-down-rate: at least the replicas divided by this, at every evaluation."),
            seconds_param("window_s", "Window", 180, 0, "The metric is averaged over so long. 0: the latest scrape."),
            seconds_param("scale_down_cooldown_s", "Scale-down cool-down", 300, 0, "scale-down-cooldown-window: downwards, the highest recommendation of so long counts."),
            params::switch("guard", "Pending guard", true, "Replicas that are not ready dampen the step. Off: versions before it, which take them for as loaded as the others."),
            seconds_param("sync_s", "Interval", 10, 1, "Time between two evaluations."),
        ],
    }
}

fn build(params: &Params) -> Box<dyn Controller> {
    let seconds = |name| whole_seconds(params.integer(name));
    Box::new(AibrixApa {
        signal: Signal::of(params.integer("signal")),
        target: params.number("target"),
        tolerances: (params.number("up_tolerance"), params.number("down_tolerance")),
        rates: (params.number("max_scale_up_rate"), params.number("max_scale_down_rate")),
        window: seconds("window_s"),
        cooldown: seconds("scale_down_cooldown_s"),
        guard: params.switch("guard"),
        sync: seconds("sync_s"),
        recent: Vec::new(),
    })
}

struct AibrixApa {
    signal: Signal,
    target: f64,
    /// Up, down.
    tolerances: (f64, f64),
    rates: (f64, f64),
    window: Nanos,
    cooldown: Nanos,
    guard: bool,
    sync: Nanos,
    /// What was recommended within the cool-down.
    recent: Vec<(Nanos, u32)>,
}

impl AibrixApa {
    /// What the ratio asks for, and what is left of it by the rates.
    fn rule(&self, value: f64, current: u32) -> (u32, u32) {
        let (ratio, replicas) = (value / self.target, f64::from(current));
        let wanted = ceil(replicas * ratio);
        if ratio > 1.0 + self.tolerances.0 {
            (wanted, wanted.min(ceil(self.rates.0 * replicas)))
        } else if ratio < 1.0 - self.tolerances.1 {
            (wanted, wanted.max(floor(replicas / self.rates.1)))
        } else {
            (current, current)
        }
    }

    /// `wanted` with replicas that are not ready counted as idle (up) or as at the target (down), but never beyond `wanted` nor across `current`.
    fn guarded(&self, value: f64, wanted: u32, ready: u32, current: u32) -> u32 {
        let ready = f64::from(ready.min(current));
        let (replicas, idle) = (f64::from(current), f64::from(current) - ready);
        if !self.guard || idle == 0.0 {
            return wanted;
        }
        match wanted.cmp(&current) {
            std::cmp::Ordering::Greater => ceil(value * ready / self.target).clamp(current, wanted),
            std::cmp::Ordering::Less => {
                let mean = (value * ready + self.target * idle) / replicas;
                ceil(replicas * mean / self.target).clamp(wanted, current)
            }
            std::cmp::Ordering::Equal => wanted,
        }
    }
}

impl Controller for AibrixApa {
    fn period(&self) -> Nanos {
        self.sync
    }

    fn window(&self) -> Nanos {
        self.window
    }

    fn decide(&mut self, view: &ScaleView<'_>) -> Decision {
        let current = view.current;
        let Some(value) = mean_of(values(view, self.signal, mean(self.window))) else {
            return Decision::now(current, "no replica has the metric");
        };
        let (wanted, limited) = self.rule(value, current);
        let guarded = self.guarded(value, limited, view.count(Phase::Ready), current);
        self.recent.retain(|&(at, _)| view.now.since(at) < self.cooldown);
        self.recent.push((view.now, guarded));
        let highest = self.recent.iter().map(|&(_, replicas)| replicas).max().unwrap_or(guarded);
        let stable = if guarded < current { highest.min(current) } else { guarded };
        let why = if stable != guarded {
            "held by its cool-down"
        } else if guarded != limited {
            "dampened for replicas that are not ready"
        } else if limited != wanted {
            "limited by its rate"
        } else if wanted == current {
            "within tolerance"
        } else {
            "metric ÷ target"
        };
        Decision { wanted, desired: view.clamp(stable), why }
    }

    fn save(&self) -> Value {
        shared::save(&self.recent)
    }

    fn restore(&mut self, state: &Value) -> Result<(), String> {
        self.recent = shared::restore(state)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, Load, steps};
    use super::*;
    use servelab_spec::experiment::ControllerSpec;

    /// Queue as the signal, target 10, no cool-down.
    fn spec() -> ControllerSpec {
        ControllerSpec::named(NAME)
            .with("signal", f64::from(Signal::QueueDepth as u32))
            .with("target", 10.0)
            .with("scale_down_cooldown_s", 0.0)
    }

    fn waiting(waiting: u32) -> Load {
        Load { waiting, ..Load::default() }
    }

    fn asked(ready: u32, starting: u32, queue: u32) -> (u32, u32) {
        let mut bench = Bench::new(spec()).bounds(0, 1000).ready(ready).phase(starting, Phase::Starting);
        bench.scrape(waiting(queue));
        let decision = bench.decide();
        (decision.wanted, decision.desired)
    }

    #[test]
    fn tolerances_and_rates() {
        // 11 is a tenth over: nothing; 12 on five: 6; 50 on five: twice is the most; 9: nothing; 8 on five: 4; 1 on five: half, rounded down.
        assert_eq!([asked(5, 0, 11), asked(5, 0, 12), asked(5, 0, 50)], [(5, 5), (6, 6), (25, 10)]);
        assert_eq!([asked(5, 0, 9), asked(5, 0, 8), asked(5, 0, 1)], [(5, 5), (4, 4), (1, 2)]);
        assert_eq!(asked(1, 0, 0), (0, 0));
    }

    #[test]
    fn the_guard_dampens_both_ways() {
        // Two ready at 20 and two that load: 40 are four times the target, so stay; three times the target: 6.
        assert_eq!([asked(2, 2, 20), asked(2, 2, 30)], [(8, 4), (12, 6)]);
        // Two ready at 5 and two that load: (5 + 5 + 10 + 10) ÷ 4 = 7.5, three, where the rule has two.
        assert_eq!(asked(2, 2, 5), (2, 3));
    }

    /// aibrix#2670: the load stays twice the target for two replicas, and every evaluation while more load doubles again.
    #[test]
    fn without_the_guard_it_runs_away_while_replicas_load() {
        let load = |_: Nanos, ready: u32| waiting(40 / ready.max(1));
        let unguarded = spec().with("guard", 0.0).with("window_s", 0.0);
        let mut bench = Bench::new(unguarded).ready(2).scrapes_every(10.0).start_up(120.0);
        assert_eq!(steps(&bench.run(60.0, load))[..3], [4, 8, 16]);
        let mut bench = Bench::new(spec().with("window_s", 0.0)).ready(2).scrapes_every(10.0).start_up(120.0);
        assert_eq!(steps(&bench.run(600.0, load)), [4]);
    }

    #[test]
    fn the_cool_down_holds_the_highest() {
        let cool = spec().with("scale_down_cooldown_s", 300.0).with("window_s", 0.0);
        let mut bench = Bench::new(cool.clone()).ready(4).scrapes_every(10.0);
        bench.run(10.0, |_, _| waiting(10));
        let start = bench.now.as_secs();
        let asked = bench.run(200.0, |_, _| waiting(5));
        assert_eq!(steps(&asked), [4]);
        bench.reload(&cool);
        let asked = bench.run(200.0, |_, _| waiting(5));
        assert_eq!(
            asked.iter().find(|&&(_, replicas)| replicas < 4).map(|&(at, replicas)| (at - start, replicas)),
            Some((300.0, 2))
        );
    }
}
