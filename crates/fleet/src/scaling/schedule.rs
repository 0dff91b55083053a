//! A timetable: so many replicas from this hour to that, the same every day.

use super::registry::Entry;
use super::shared::{seconds_param, whole_seconds};
use super::{Controller, Decision, ScaleView};
use crate::routing::params::{self, Params};
use servelab_engine::Nanos;
use servelab_spec::catalog::{ControllerInfo, ParamInfo};

const NAME: &str = "schedule";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

/// Nanoseconds of an hour.
const HOUR: f64 = 3.6e12;
const DAY: u64 = 86_400_000_000_000;

/// Windows that can be set: name, label, and what they are by default: from, to, replicas.
const WINDOWS: [(&str, &str, f64, f64, u32); 4] =
    [("a", "A", 7.5, 19.0, 4), ("b", "B", 0.0, 0.0, 0), ("c", "C", 0.0, 0.0, 0), ("d", "D", 0.0, 0.0, 0)];

fn info() -> ControllerInfo {
    let hour = |name: String, label: String, default, help: &str| {
        params::number(&name, &label, "h", default, (0.0, 24.0, 0.25), help)
    };
    let mut all: Vec<ParamInfo> = vec![params::integer(
        "base",
        "Base",
        "replicas",
        1,
        (0, 10_000),
        "Replicas outside all windows; none has fewer.",
    )];
    for (name, label, from, to, replicas) in WINDOWS {
        all.extend([
            hour(
                format!("{name}_from"),
                format!("{label} from"),
                from,
                "Hour of the day at which the window opens; a run starts at midnight.",
            ),
            hour(
                format!("{name}_to"),
                format!("{label} to"),
                to,
                "Hour at which it closes; before it opens: over midnight; the same: no such window.",
            ),
            params::integer(
                &format!("{name}_replicas"),
                &format!("{label} replicas"),
                "replicas",
                replicas,
                (0, 10_000),
                "Replicas within it; of windows that overlap, the most.",
            ),
        ]);
    }
    all.push(seconds_param("sync_s", "Interval", 15, 1, "Time between two looks at the clock."));
    ControllerInfo {
        name: NAME.into(),
        label: "Schedule".into(),
        project: String::new(),
        summary: "A number of replicas for each time of day.".into(),
        rule: "The most of the base and of every window that is open.".into(),
        reads: "The time of day.".into(),
        fails: "It knows no holiday, no spike and no growth. Windows open when replicas should start, not when they should be ready: open them a cold start early.".into(),
        bound: false,
        params: all,
    }
}

fn build(params: &Params) -> Box<dyn Controller> {
    let hour = |name: String| Nanos((params.number(&name) * HOUR) as u64);
    let windows = WINDOWS.map(|(name, ..)| {
        (hour(format!("{name}_from")), hour(format!("{name}_to")), params.integer(&format!("{name}_replicas")))
    });
    Box::new(Schedule { base: params.integer("base"), windows, sync: whole_seconds(params.integer("sync_s")) })
}

struct Schedule {
    base: u32,
    /// From, to, replicas.
    windows: [(Nanos, Nanos, u32); WINDOWS.len()],
    sync: Nanos,
}

impl Controller for Schedule {
    fn period(&self) -> Nanos {
        self.sync
    }

    fn window(&self) -> Nanos {
        Nanos::ZERO
    }

    fn decide(&mut self, view: &ScaleView<'_>) -> Decision {
        let time = Nanos(view.now.0 % DAY);
        let open = |&&(from, to, _): &&(Nanos, Nanos, u32)| {
            if from <= to { from <= time && time < to } else { time >= from || time < to }
        };
        let wanted = self.windows.iter().filter(open).map(|&(.., replicas)| replicas).fold(self.base, u32::max);
        Decision { wanted, desired: view.clamp(wanted), why: "by the clock" }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, Load, steps};
    use super::*;
    use servelab_spec::experiment::ControllerSpec;

    fn at(bench: &mut Bench, hour: f64) -> u32 {
        bench.now = Nanos((hour * HOUR) as u64);
        bench.decide().desired
    }

    #[test]
    fn windows_by_the_clock_every_day() {
        let spec = ControllerSpec::named(NAME)
            .with("b_from", 12.0)
            .with("b_to", 13.0)
            .with("b_replicas", 2.0)
            .with("c_from", 22.0)
            .with("c_to", 3.0)
            .with("c_replicas", 3.0);
        let mut bench = Bench::new(spec).ready(1);
        let hours = [0.0, 2.99, 3.0, 7.49, 7.5, 12.5, 18.99, 19.0, 22.0, 31.5];
        let asked = hours.map(|hour| at(&mut bench, hour));
        assert_eq!(asked, [3, 3, 1, 1, 4, 4, 4, 1, 3, 4]);
    }

    #[test]
    fn the_load_is_nothing_to_it() {
        let mut bench = Bench::new(ControllerSpec::named(NAME)).ready(1).bounds(0, 2);
        let asked = bench.run(86_400.0, |_, _| Load { waiting: 900, ..Load::default() });
        assert_eq!(steps(&asked), [1, 2, 1], "and its bounds hold");
    }
}
