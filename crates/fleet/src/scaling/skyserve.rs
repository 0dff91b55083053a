//! SkyServe's request-rate autoscaler.
//!
//! `⌈requests of the last 60 s ÷ 60 ÷ target⌉`, within the bounds, taken once it has been above (or below) what was last asked for in so many evaluations
//! that the delay is over; from 0 at once. An evaluation every 20 s, every 5 s without replicas. Source: `sky/serve/autoscalers.py`,
//! `RequestRateAutoscaler`. Its load balancer tells of requests every 20 s: that is the scrape's period here. Left out: spot instances and their fallback.

use super::registry::Entry;
use super::shared::{self, Turn, ceil, common_period, seconds_param, target_param, whole_seconds};
use super::{Controller, Decision, Over, ScaleView, Signal};
use crate::routing::params::Params;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use servelab_engine::Nanos;
use servelab_spec::catalog::ControllerInfo;

const NAME: &str = "skyserve";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> ControllerInfo {
    ControllerInfo {
        name: NAME.into(),
        label: "SkyServe".into(),
        project: "SkyPilot".into(),
        summary: "Scales to the request rate of the last minute ÷ a rate per replica, after minutes of agreement.".into(),
        rule: "⌈requests per second over 60 s ÷ target⌉; up after 300 s of evaluations above, down after 1200 s of evaluations below, from 0 at once.".into(),
        reads: "Arrivals at the gateway over the window, repeats included.".into(),
        fails: "It is blind to what a request costs: twice as long prompts are the same rate. Retries count as demand. Five minutes of delay before a cold start that may take as long; below it, nothing shows.".into(),
        bound: false,
        params: vec![
            target_param("target_qps_per_replica", "Target rate", "requests/s", 1.0, "Requests per second that one replica serves within its SLO: the knee that a sweep measures."),
            seconds_param("qps_window_s", "Window", 60, 1, "Requests are counted over so long."),
            seconds_param("upscale_delay_s", "Upscale delay", 300, 0, "upscale_delay_seconds: how long more must be wanted."),
            seconds_param("downscale_delay_s", "Downscale delay", 1200, 0, "downscale_delay_seconds: how long fewer must be wanted."),
            seconds_param("decision_s", "Decision interval", 20, 1, "Time between two evaluations."),
            seconds_param("decision_at_zero_s", "Interval at zero", 5, 1, "The same while there are no replicas."),
        ],
    }
}

fn build(params: &Params) -> Box<dyn Controller> {
    let (decision, at_zero) = (params.integer("decision_s"), params.integer("decision_at_zero_s"));
    let evaluations = |name| params.integer(name) / decision;
    Box::new(SkyServe {
        target: params.number("target_qps_per_replica"),
        window: whole_seconds(params.integer("qps_window_s")),
        up: evaluations("upscale_delay_s"),
        down: evaluations("downscale_delay_s"),
        period: common_period(decision, at_zero),
        turn: Turn::every(decision),
        at_zero: Turn::every(at_zero),
        state: State::default(),
    })
}

struct SkyServe {
    target: f64,
    window: Nanos,
    /// Evaluations in a row that are enough.
    up: u32,
    down: u32,
    period: Nanos,
    turn: Turn,
    at_zero: Turn,
    state: State,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    above: u32,
    below: u32,
    next: Nanos,
    next_at_zero: Nanos,
}

impl SkyServe {
    fn applied(&mut self, wanted: u32, bounded: u32, current: u32) -> Decision {
        let (counter, other, enough) = match bounded.cmp(&current) {
            std::cmp::Ordering::Equal => {
                (self.state.above, self.state.below) = (0, 0);
                return Decision { wanted, desired: current, why: "as asked for" };
            }
            std::cmp::Ordering::Greater => (&mut self.state.above, &mut self.state.below, self.up),
            std::cmp::Ordering::Less => (&mut self.state.below, &mut self.state.above, self.down),
        };
        *other = 0;
        *counter += 1;
        if *counter >= enough {
            *counter = 0;
            Decision { wanted, desired: bounded, why: "wanted for its delay" }
        } else {
            Decision::held(wanted, current, "waits for its delay")
        }
    }
}

impl Controller for SkyServe {
    fn period(&self) -> Nanos {
        self.period
    }

    fn window(&self) -> Nanos {
        self.window
    }

    fn decide(&mut self, view: &ScaleView<'_>) -> Decision {
        let current = view.current;
        let Some(rate) = view.history.fleet(Signal::ArrivalRate, Over::Mean(self.window)) else {
            return Decision::now(current, "no rate yet");
        };
        let wanted = ceil(rate / self.target);
        let due = self.turn.is_due(view.now);
        if current == 0 {
            if !self.at_zero.is_due(view.now) {
                return Decision::held(wanted, current, "between two evaluations");
            }
            return Decision { wanted, desired: view.clamp(wanted), why: "from zero at once" };
        }
        if !due {
            return Decision::held(wanted, current, "between two evaluations");
        }
        self.applied(wanted, view.clamp(wanted), current)
    }

    fn save(&self) -> Value {
        shared::save(&State { next: self.turn.next, next_at_zero: self.at_zero.next, ..self.state.clone() })
    }

    fn restore(&mut self, state: &Value) -> Result<(), String> {
        self.state = shared::restore(state)?;
        (self.turn.next, self.at_zero.next) = (self.state.next, self.state.next_at_zero);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, Load};
    use super::*;
    use servelab_spec::experiment::ControllerSpec;

    fn spec() -> ControllerSpec {
        ControllerSpec::named(NAME)
    }

    fn rate(rate: f64) -> Load {
        Load { rate, ..Load::default() }
    }

    #[test]
    fn up_after_five_minutes_down_after_twenty() {
        let mut bench = Bench::new(spec()).ready(2).scrapes_every(20.0);
        bench.run(100.0, |_, _| rate(2.0));
        let start = bench.now.as_secs();
        let asked = bench.run(400.0, |_, _| rate(5.0));
        // Evaluations are at 105 s, 125 s and so on: the fifteenth that sees more comes 285 s after the change.
        let up = asked.iter().find(|&&(_, replicas)| replicas > 2);
        assert_eq!(up.map(|&(at, replicas)| (at - start, replicas)), Some((285.0, 5)));
        let start = bench.now.as_secs();
        let asked = bench.run(1500.0, |_, _| rate(1.0));
        let down = asked.iter().find(|&&(_, replicas)| replicas < 5);
        assert_eq!(down.map(|&(at, replicas)| (at - start, replicas)), Some((1185.0, 1)));
    }

    #[test]
    fn one_evaluation_the_other_way_starts_again() {
        let mut bench = Bench::new(spec()).ready(2).scrapes_every(20.0);
        bench.run(100.0, |_, _| rate(2.0));
        bench.run(200.0, |_, _| rate(5.0));
        bench.run(80.0, |_, _| rate(2.0));
        let start = bench.now.as_secs();
        let asked = bench.run(400.0, |_, _| rate(5.0));
        assert_eq!(asked.iter().find(|&&(_, replicas)| replicas > 2).map(|&(at, _)| at - start), Some(285.0));
    }

    #[test]
    fn from_zero_at_once_and_every_five_seconds() {
        let mut bench = Bench::new(spec()).bounds(0, 10).scrapes_every(5.0);
        let asked = bench.run(60.0, |now, _| rate(if now > Nanos::from_secs(20.0) { 120.0 } else { 0.0 }));
        // 600 in the 20 s since the first scrape are 30/s, bounded.
        assert_eq!(asked.iter().find(|&&(_, replicas)| replicas > 0), Some(&(25.0, 10)));
    }

    #[test]
    fn saved_and_taken_back() {
        let mut bench = Bench::new(spec()).ready(2).scrapes_every(20.0);
        bench.run(100.0, |_, _| rate(2.0));
        let start = bench.now.as_secs();
        bench.run(200.0, |_, _| rate(5.0));
        bench.reload(&spec());
        let asked = bench.run(200.0, |_, _| rate(5.0));
        assert_eq!(asked.iter().find(|&&(_, replicas)| replicas > 2).map(|&(at, _)| at - start), Some(285.0));
    }
}
