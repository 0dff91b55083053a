//! The bound: it knows the load to come.
//!
//! `⌈most requests per second planned from now until a replica asked for now would be ready ÷ requests per second of one replica⌉`. No controller that reads
//! scrapes can do better by starting earlier; it knows the plan, not the dice: chance may still make a queue.

use super::registry::Entry;
use super::shared::{ceil, seconds_param, target_param, whole_seconds};
use super::{Controller, Decision, ScaleView};
use crate::routing::params::Params;
use servelab_engine::Nanos;
use servelab_spec::catalog::ControllerInfo;

const NAME: &str = "oracle";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> ControllerInfo {
    ControllerInfo {
        name: NAME.into(),
        label: "Oracle (bound)".into(),
        project: String::new(),
        summary: "Has ready what the load of the next minutes will need: what nobody can know.".into(),
        rule: "⌈highest planned rate from now until lead and interval are over ÷ capacity⌉, up and down at once.".into(),
        reads: "The planned rate of arrivals, of the future.".into(),
        fails: "It cannot exist: it shows how much foresight is worth. Its capacity is your word: too high, and even it queues.".into(),
        bound: true,
        params: vec![
            target_param("capacity", "Capacity", "requests/s", 6.0, "Requests per second that one replica serves within its SLO."),
            seconds_param("lead_s", "Lead", 300, 0, "How far ahead it looks: a cold start and what goes before it."),
            seconds_param("sync_s", "Interval", 15, 1, "Time between two evaluations."),
        ],
    }
}

fn build(params: &Params) -> Box<dyn Controller> {
    Box::new(Oracle {
        capacity: params.number("capacity"),
        lead: whole_seconds(params.integer("lead_s")),
        sync: whole_seconds(params.integer("sync_s")),
    })
}

struct Oracle {
    capacity: f64,
    lead: Nanos,
    sync: Nanos,
}

impl Controller for Oracle {
    fn period(&self) -> Nanos {
        self.sync
    }

    fn window(&self) -> Nanos {
        Nanos::ZERO
    }

    fn decide(&mut self, view: &ScaleView<'_>) -> Decision {
        let Some(future) = view.future else {
            return Decision::now(view.current, "there is no plan to look at");
        };
        // What is asked for at the next evaluation is ready an interval later.
        let wanted = ceil(future.peak_rate(view.now, view.now + self.lead + self.sync) / self.capacity);
        Decision { wanted, desired: view.clamp(wanted), why: "the plan needs it" }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::super::{Future, History};
    use super::*;
    use servelab_spec::experiment::ControllerSpec;

    /// 3 requests per second, and 20 from 1000 s on.
    struct Step;

    impl Future for Step {
        fn peak_rate(&self, _: Nanos, to: Nanos) -> f64 {
            if to >= Nanos::from_secs(1000.0) { 20.0 } else { 3.0 }
        }
    }

    #[test]
    fn asks_a_lead_before_the_load_comes() {
        let (mut bench, history) = (Bench::new(ControllerSpec::named(NAME)), History::default());
        let mut asked = |second: f64| {
            let now = Nanos::from_secs(second);
            let view =
                ScaleView { now, current: 1, min: 1, max: 10, pods: &[], history: &history, future: Some(&Step) };
            bench.controller.decide(&view).desired
        };
        assert_eq!([asked(600.0), asked(684.9), asked(685.0), asked(5000.0)], [1, 1, 4, 4]);
    }

    #[test]
    fn without_a_plan_nothing_happens() {
        assert_eq!(Bench::new(ControllerSpec::named(NAME)).ready(3).decide().desired, 3);
        assert_eq!(Bench::new(ControllerSpec::named(NAME)).ready(3).planned(12.1).decide().desired, 3);
        assert_eq!(Bench::new(ControllerSpec::named(NAME)).ready(3).planned(0.0).bounds(0, 9).decide().desired, 0);
    }
}
