//! A loop as one writes it in an afternoon: `⌈current · value ÷ target⌉`.
//!
//! It multiplies what was asked for by how loaded those are that answer. While new replicas load, the others stay as loaded as they were, so it
//! multiplies again: 2 → 4 → 8 → 16 for a load that needs 4 (aibrix#2670).

use super::registry::Entry;
use super::shared::{ceil, mean, mean_of, seconds_param, signal_param, target_param, values, whole_seconds};
use super::{Controller, Decision, ScaleView, Signal};
use crate::routing::params::Params;
use servelab_engine::Nanos;
use servelab_spec::catalog::ControllerInfo;

const NAME: &str = "naive_ratio";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> ControllerInfo {
    ControllerInfo {
        name: NAME.into(),
        label: "Naive ratio".into(),
        project: String::new(),
        summary: "Multiplies the replicas asked for by signal ÷ target, at every evaluation.".into(),
        rule: "⌈current · mean ÷ target⌉, no tolerance, no memory, no thought for replicas that load.".into(),
        reads: "One signal of each replica that was reached, as of the latest scrape or averaged over the window.".into(),
        fails: "It doubles again and again while replicas load, then throws them away, then starts over. Once it has asked for none, nobody is left to measure.".into(),
        bound: false,
        params: vec![
            signal_param(Signal::QueueDepth, "What it goes by: its mean over the replicas that were reached."),
            target_param("target", "Target", "", 5.0, "What the signal should be, in its unit."),
            seconds_param("window_s", "Window", 0, 0, "The signal is averaged over so long. 0: the latest scrape."),
            seconds_param("sync_s", "Interval", 15, 1, "Time between two evaluations."),
        ],
    }
}

fn build(params: &Params) -> Box<dyn Controller> {
    Box::new(NaiveRatio {
        signal: Signal::of(params.integer("signal")),
        target: params.number("target"),
        window: whole_seconds(params.integer("window_s")),
        sync: whole_seconds(params.integer("sync_s")),
    })
}

struct NaiveRatio {
    signal: Signal,
    target: f64,
    window: Nanos,
    sync: Nanos,
}

impl Controller for NaiveRatio {
    fn period(&self) -> Nanos {
        self.sync
    }

    fn window(&self) -> Nanos {
        self.window
    }

    fn decide(&mut self, view: &ScaleView<'_>) -> Decision {
        match mean_of(values(view, self.signal, mean(self.window))) {
            Some(value) => {
                let wanted = ceil(f64::from(view.current) * value / self.target);
                Decision { wanted, desired: view.clamp(wanted), why: "current · signal ÷ target" }
            }
            None => Decision::now(view.current, "no replica has the signal"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, Load};
    use super::*;
    use servelab_spec::experiment::ControllerSpec;

    #[test]
    fn current_times_signal_over_target() {
        for (queue, expected) in [(5, 4), (10, 8), (6, 5), (1, 1), (0, 1), (100_000, 1000)] {
            let mut bench = Bench::new(ControllerSpec::named(NAME)).ready(4);
            bench.scrape(Load { waiting: queue, ..Load::default() });
            assert_eq!(bench.decide().desired, expected, "{queue}");
        }
        let mut bench = Bench::new(ControllerSpec::named(NAME)).ready(4);
        assert_eq!(bench.decide(), Decision::now(4, "no replica has the signal"));
    }
}
