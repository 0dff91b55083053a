//! Ray Serve's default autoscaling policy.
//!
//! ```text
//! desired = running · ongoing ÷ (target · running)
//! scaled  = ⌈running + factor · (desired − running)⌉     one less where a step down would be lost in rounding
//! applied when it is on the same side of what was last asked for in more than delay ÷ interval evaluations in a row
//! ```
//!
//! Ongoing requests are the mean of the look-back over the whole fleet, those that wait included. With nothing running, one request is enough for
//! one replica, at once; to 0 it goes only from 1. The delay asks for the side, not for the number: the number is that of the last evaluation.
//! Source: `python/ray/serve/autoscaling_policy.py`.
//!
//! Ray evaluates every 0.1 s but gets numbers only every 10 s (`metrics_interval_s`, here the scrapes), so the default here is a second: the same
//! decisions, up to one second later, for a tenth of the work.

use super::registry::Entry;
use super::shared::{self, ceil, mean, seconds_param, target_param, total, whole_seconds};
use super::{Controller, Decision, Phase, ScaleView, Signal};
use crate::routing::params::{self, Params};
use serde_json::Value;
use servelab_engine::Nanos;
use servelab_spec::catalog::ControllerInfo;

const NAME: &str = "ray_serve";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> ControllerInfo {
    ControllerInfo {
        name: NAME.into(),
        label: "Ray Serve".into(),
        project: "Ray Serve".into(),
        summary: "Scales to ongoing requests ÷ target, once that has pointed the same way for long enough.".into(),
        rule: "running + factor · (ongoing ÷ target − running), rounded up; up after 30 s of agreement, down after 600 s, from 0 at once, to 0 only from 1.".into(),
        reads: "Requests in flight over the whole fleet, what the gateway holds included, as a mean over the look-back; running replicas.".into(),
        fails: "Its delays count evaluations in a row: one the other way starts them again. Ongoing requests include the queue, so during a cold start it asks for more than is needed. A factor below 1 never gets all the way up in one step.".into(),
        bound: false,
        params: vec![
            target_param("target_ongoing_requests", "Target", "requests", 2.0, "Ongoing requests that a replica should have."),
            params::number("upscaling_factor", "Upscaling factor", "×", 1.0, (0.01, 100.0, 0.01), "Multiplies a step up: above 1 overshoots, below 1 creeps."),
            params::number("downscaling_factor", "Downscaling factor", "×", 1.0, (0.01, 100.0, 0.01), "Multiplies a step down."),
            seconds_param("upscale_delay_s", "Upscale delay", 30, 0, "How long it must point upwards before anything happens."),
            seconds_param("downscale_delay_s", "Downscale delay", 600, 0, "How long it must point downwards before anything happens."),
            seconds_param("downscale_to_zero_delay_s", "Delay to zero", 600, 0, "The same from one replica to none; Ray takes the downscale delay unless this is set."),
            seconds_param("look_back_period_s", "Look-back", 30, 1, "Ongoing requests are averaged over so long."),
            params::number("interval_s", "Control loop", "s", 1.0, (0.1, 60.0, 0.1), "Time between two evaluations: 0.1 s in Ray, on numbers that are up to 10 s old."),
        ],
    }
}

fn build(params: &Params) -> Box<dyn Controller> {
    let interval = params.number("interval_s");
    let evaluations = |name| (f64::from(params.integer(name)) / interval) as i64;
    Box::new(RayServe {
        target: params.number("target_ongoing_requests"),
        factors: (params.number("upscaling_factor"), params.number("downscaling_factor")),
        up: evaluations("upscale_delay_s"),
        down: evaluations("downscale_delay_s"),
        to_zero: evaluations("downscale_to_zero_delay_s"),
        look_back: whole_seconds(params.integer("look_back_period_s")),
        interval: Nanos::from_secs(interval),
        counter: 0,
    })
}

struct RayServe {
    target: f64,
    /// Up, down.
    factors: (f64, f64),
    /// Evaluations in a row that are not yet enough.
    up: i64,
    down: i64,
    to_zero: i64,
    look_back: Nanos,
    interval: Nanos,
    /// Evaluations in a row that pointed up, negative: down.
    counter: i64,
}

impl RayServe {
    fn scaled(&self, desired: f64, running: u32) -> u32 {
        let from = f64::from(running);
        let factor = if desired > from { self.factors.0 } else { self.factors.1 };
        let scaled = ceil(from + factor * (desired - from));
        let stuck = ceil(desired) < running && scaled == running;
        if stuck { scaled - 1 } else { scaled }
    }
}

impl Controller for RayServe {
    fn period(&self) -> Nanos {
        self.interval
    }

    fn window(&self) -> Nanos {
        self.look_back
    }

    fn decide(&mut self, view: &ScaleView<'_>) -> Decision {
        let current = view.current;
        let Some(ongoing) = total(view, Signal::InFlight, mean(self.look_back)) else {
            return Decision::now(current, "no metric");
        };
        let running = view.count(Phase::Ready);
        let wanted = ceil(ongoing / self.target);
        if running == 0 {
            let first = if ongoing > 0.0 { ceil(self.factors.0).max(current) } else { current };
            return Decision { wanted, desired: view.clamp(first), why: "nothing runs yet" };
        }
        let wanted = self.scaled(ongoing / self.target, running);
        let bounded = view.clamp(wanted);
        let (needed, bounded) = match bounded.cmp(&current) {
            std::cmp::Ordering::Equal => {
                self.counter = 0;
                return Decision { wanted, desired: current, why: "as asked for" };
            }
            std::cmp::Ordering::Greater => {
                self.counter = self.counter.max(0) + 1;
                (self.up, bounded)
            }
            std::cmp::Ordering::Less => {
                self.counter = self.counter.min(0) - 1;
                if current == 1 { (self.to_zero, bounded) } else { (self.down, bounded.max(1)) }
            }
        };
        if self.counter.abs() > needed {
            self.counter = 0;
            Decision { wanted, desired: bounded, why: "pointed that way for its delay" }
        } else {
            Decision::held(wanted, current, "waits for its delay")
        }
    }

    fn save(&self) -> Value {
        Value::from(self.counter)
    }

    fn restore(&mut self, state: &Value) -> Result<(), String> {
        self.counter = shared::restore(state)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, Load, steps};
    use super::*;
    use servelab_spec::experiment::ControllerSpec;

    fn spec() -> ControllerSpec {
        ControllerSpec::named(NAME)
    }

    fn at_once() -> ControllerSpec {
        spec().with("upscale_delay_s", 0.0).with("downscale_delay_s", 0.0)
    }

    fn each(running: u32) -> Load {
        Load { running, ..Load::default() }
    }

    /// What is asked of `ready` replicas with so many running requests each, at once.
    fn asked(spec: ControllerSpec, ready: u32, running: u32) -> u32 {
        let mut bench = Bench::new(spec).bounds(0, 1000).ready(ready);
        bench.scrape(each(running));
        bench.decide().desired
    }

    #[test]
    fn factors_multiply_the_step() {
        // 4 replicas with 5 each: 20 ÷ 2 = 10, a step of 6.
        assert_eq!(asked(at_once(), 4, 5), 10);
        assert_eq!(asked(at_once().with("upscaling_factor", 0.5), 4, 5), 7);
        assert_eq!(asked(at_once().with("upscaling_factor", 2.0), 4, 5), 16);
        // 10 replicas with 1 each: 5, a step of −5: half of it is 7.5, rounded up.
        assert_eq!(asked(at_once(), 10, 1), 5);
        assert_eq!(asked(at_once().with("downscaling_factor", 0.5), 10, 1), 8);
        // 2 replicas with 1 each: 1, a step of −1; a tenth of it would be rounded away, so one goes.
        assert_eq!(asked(at_once().with("downscaling_factor", 0.1), 2, 1), 1);
        assert_eq!(asked(at_once(), 4, 2), 4);
    }

    #[test]
    fn delays_count_evaluations_in_a_row() {
        let mut bench = Bench::new(spec()).ready(1);
        bench.scrape(each(6));
        let up = (0..40).position(|_| bench.decide().desired > 1);
        assert_eq!(up, Some(30), "31 evaluations, a second each");
        let mut bench = Bench::new(spec().with("interval_s", 0.1)).ready(1);
        bench.scrape(each(6));
        assert_eq!((0..400).position(|_| bench.decide().desired > 1), Some(300));
        let mut bench = Bench::new(spec()).ready(4);
        bench.scrape(each(1));
        assert_eq!((0..700).position(|_| bench.decide().desired < 4), Some(600));
        // One evaluation the other way, and it starts again.
        let mut bench = Bench::new(spec().with("look_back_period_s", 1.0)).ready(1);
        bench.scrape(each(6));
        (0..29).for_each(|_| assert_eq!(bench.decide().desired, 1));
        bench.scrape(each(2));
        bench.decide();
        bench.scrape(each(6));
        assert_eq!((0..40).position(|_| bench.decide().desired > 1), Some(30));
    }

    #[test]
    fn zero_only_from_one_and_out_of_it_at_once() {
        let mut bench = Bench::new(spec()).bounds(0, 10).ready(3);
        assert_eq!(steps(&bench.run(1300.0, |_, _| Load::default())), [3, 1, 0]);
        let out = bench.run(30.0, |_, ready| if ready == 0 { Load { held: 40, ..Load::default() } } else { each(2) });
        assert_eq!(out.iter().find(|&&(_, replicas)| replicas > 0).map(|&(_, replicas)| replicas), Some(1));
    }

    #[test]
    fn while_nothing_runs_it_stays_at_what_was_asked_for() {
        let mut bench = Bench::new(spec()).bounds(0, 10).phase(3, Phase::Starting);
        bench.scrape(Load { held: 90, ..Load::default() });
        assert_eq!(bench.decide(), Decision { wanted: 45, desired: 3, why: "nothing runs yet" });
    }

    #[test]
    fn saved_and_taken_back() {
        let mut bench = Bench::new(spec()).ready(1);
        bench.scrape(each(6));
        (0..20).for_each(|_| assert_eq!(bench.decide().desired, 1));
        bench.reload(&spec());
        assert_eq!((0..40).position(|_| bench.decide().desired > 1), Some(10));
    }
}
