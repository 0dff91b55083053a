//! What the Kubernetes HPA makes of a recommendation: its `behavior` section.
//!
//! First a recommendation is *stabilised*: upwards no further than the lowest of the last window, downwards no further than the highest. Then
//! it is *limited*: each policy allows a number of replicas, or a share, to be added or removed within its period, counted from where the period
//! began; the policy that allows most (or least) counts. Changes that are exactly a period old no longer count.
//!
//! A manifest without the section is not the same as one with its defaults: at most twice the replicas or 4, whichever is more, at every evaluation, and the
//! highest recommendation of five minutes on the way down. Source: `pkg/controller/podautoscaler/horizontal.go`.

use super::shared::{self, ceil, floor, seconds_param, whole_seconds};
use crate::routing::params::{self, Params};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use servelab_engine::Nanos;
use servelab_spec::catalog::ParamInfo;

/// A direction's rules.
struct Rules {
    stabilisation: Nanos,
    select: Select,
    /// Replicas that may change within a period; 0: no such policy.
    pods: (u32, Nanos),
    /// The same in per cent.
    percent: (u32, Nanos),
}

/// Which of several policies counts.
#[derive(Clone, Copy, PartialEq)]
enum Select {
    /// The one that allows the largest change.
    Max,
    /// The one that allows the smallest change.
    Min,
    /// No change in this direction.
    Disabled,
}

impl Rules {
    fn of(params: &Params, way: &str) -> Self {
        let integer = |name: &str| params.integer(&format!("scale_{way}_{name}"));
        let seconds = |name: &str| whole_seconds(integer(name));
        Rules {
            stabilisation: seconds("stabilization_s"),
            select: match integer("select") {
                0 => Select::Max,
                1 => Select::Min,
                _ => Select::Disabled,
            },
            pods: (integer("pods"), seconds("pods_period_s")),
            percent: (integer("percent"), seconds("percent_period_s")),
        }
    }

    /// The two policies' results, as far as there are such policies.
    fn allowed(
        &self,
        pods: impl Fn(u32, Nanos) -> u32,
        percent: impl Fn(u32, Nanos) -> u32,
    ) -> impl Iterator<Item = u32> {
        let of =
            |(value, period): (u32, Nanos), rule: &dyn Fn(u32, Nanos) -> u32| (value > 0).then(|| rule(value, period));
        [of(self.pods, &pods), of(self.percent, &percent)].into_iter().flatten()
    }

    fn longest_period(&self) -> Nanos {
        self.pods.1.max(self.percent.1)
    }
}

/// The section, and what it has to remember.
pub(super) struct Behavior {
    /// The manifest has the section.
    written: bool,
    up: Rules,
    down: Rules,
    state: State,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    /// Recommendations, oldest first.
    recommendations: Vec<(Nanos, u32)>,
    /// Replicas added, oldest first.
    added: Vec<(Nanos, u32)>,
    /// Replicas removed, oldest first.
    removed: Vec<(Nanos, u32)>,
}

/// Window on the way down, and bound on the way up, of a manifest without the section.
const DEFAULT_DOWN: Nanos = Nanos(300_000_000_000);
const LEAST_UP_LIMIT: u32 = 4;

impl Behavior {
    /// What can be set.
    pub(super) fn params() -> Vec<ParamInfo> {
        let select = ["Max", "Min", "Disabled"];
        let mut all = vec![params::switch(
            "behavior",
            "Behavior section",
            true,
            "Off: a manifest without the section: at most max(4, twice the replicas) each time, and a window of 300 s downwards; what follows is then ignored.",
        )];
        for (way, name, window, pods, reason) in [
            ("up", "Scale-up", 0, 4, "the lowest recommendation of that time counts"),
            ("down", "Scale-down", 300, 0, "the highest recommendation of that time counts"),
        ] {
            let key = |part: &str| format!("scale_{way}_{part}");
            let label = |part: &str| format!("{name} {part}");
            all.extend([
                params::integer(
                    &key("stabilization_s"),
                    &label("stabilisation"),
                    "s",
                    window,
                    (0, 3600),
                    &format!("stabilizationWindowSeconds: {reason}."),
                ),
                params::integer(
                    &key("pods"),
                    &label("replicas"),
                    "replicas",
                    pods,
                    (0, 10_000),
                    "A Pods policy: so many within its period. 0: no such policy.",
                ),
                params::integer(
                    &key("pods_period_s"),
                    &label("replicas per"),
                    "s",
                    15,
                    (1, 1800),
                    "periodSeconds of that policy.",
                ),
                params::integer(
                    &key("percent"),
                    &label("share"),
                    "%",
                    100,
                    (0, 10_000),
                    "A Percent policy: that share within its period. 0: no such policy.",
                ),
                params::integer(
                    &key("percent_period_s"),
                    &label("share per"),
                    "s",
                    15,
                    (1, 1800),
                    "periodSeconds of that policy.",
                ),
                params::choice(
                    &key("select"),
                    &label("policy"),
                    0,
                    &select,
                    "selectPolicy: which policy counts; Disabled stops this direction.",
                ),
            ]);
        }
        all
    }

    /// As `params` has it.
    pub(super) fn of(params: &Params) -> Self {
        Behavior {
            written: params.switch("behavior"),
            up: Rules::of(params, "up"),
            down: Rules::of(params, "down"),
            state: State::default(),
        }
    }

    /// The replicas to ask for at `now` when `wanted` is recommended, and why. `current` lies within the bounds.
    pub(super) fn apply(&mut self, now: Nanos, current: u32, wanted: u32, bounds: (u32, u32)) -> (u32, &'static str) {
        let stable = self.stabilised(now, current, wanted);
        self.state.recommendations.push((now, wanted));
        let desired = self.limited(now, current, stable, bounds);
        self.changed(now, current, desired);
        let why = if desired == wanted {
            "as recommended"
        } else if stable != wanted {
            "stabilised"
        } else if desired == wanted.clamp(bounds.0, bounds.1) {
            "at a bound"
        } else {
            "limited by a scaling policy"
        };
        (desired, why)
    }

    /// Remembers a change, for the policies.
    pub(super) fn changed(&mut self, now: Nanos, from: u32, to: u32) {
        let (events, rules, change) = match to.cmp(&from) {
            std::cmp::Ordering::Greater => (&mut self.state.added, &self.up, to - from),
            std::cmp::Ordering::Less => (&mut self.state.removed, &self.down, from - to),
            std::cmp::Ordering::Equal => return,
        };
        let longest = rules.longest_period().max(self.up.longest_period()).max(self.down.longest_period());
        events.retain(|&(at, _)| now.since(at) < longest);
        events.push((now, change));
    }

    fn stabilised(&mut self, now: Nanos, current: u32, wanted: u32) -> u32 {
        let (up, down) =
            if self.written { (self.up.stabilisation, self.down.stabilisation) } else { (Nanos::ZERO, DEFAULT_DOWN) };
        let longest = up.max(down);
        self.state.recommendations.retain(|&(at, _)| now.since(at) <= longest);
        let within = |window: Nanos, edge: bool| {
            let recent = move |at: Nanos| now.since(at) < window || edge && now.since(at) == window;
            self.state.recommendations.iter().filter(move |&&(at, _)| recent(at)).map(|&(_, value)| value)
        };
        if !self.written {
            return within(down, true).fold(wanted, u32::max);
        }
        let lowest = within(up, false).fold(wanted, u32::min);
        let highest = within(down, false).fold(wanted, u32::max);
        current.max(lowest).min(highest)
    }

    fn limited(&self, now: Nanos, current: u32, wanted: u32, (min, max): (u32, u32)) -> u32 {
        if !self.written {
            let most = max.min(current.saturating_mul(2).max(LEAST_UP_LIMIT));
            return if wanted < min { min } else { wanted.min(most) };
        }
        let within = |events: &[(Nanos, u32)], period: Nanos| -> u32 {
            events.iter().filter(|&&(at, _)| now.since(at) < period).map(|&(_, change)| change).sum()
        };
        let start = |period: Nanos| {
            let removed = within(&self.state.removed, period);
            current.saturating_add(removed).saturating_sub(within(&self.state.added, period))
        };
        if wanted > current {
            let share = |percent: u32| 1.0 + f64::from(percent) / 100.0;
            let allowed = self.up.allowed(
                |pods, period| start(period).saturating_add(pods),
                |percent, period| ceil(f64::from(start(period)) * share(percent)),
            );
            let limit = match self.up.select {
                Select::Max => allowed.max(),
                Select::Min => allowed.min(),
                Select::Disabled => None,
            };
            wanted.min(max.min(limit.unwrap_or(current).max(current)))
        } else if wanted < current {
            let share = |percent: u32| 1.0 - f64::from(percent) / 100.0;
            let allowed = self.down.allowed(
                |pods, period| start(period).saturating_sub(pods),
                |percent, period| floor(f64::from(start(period)) * share(percent)),
            );
            let limit = match self.down.select {
                Select::Max => allowed.min(),
                Select::Min => allowed.max(),
                Select::Disabled => None,
            };
            wanted.max(min.max(limit.unwrap_or(current).min(current)))
        } else {
            wanted
        }
    }

    pub(super) fn save(&self) -> Value {
        shared::save(&self.state)
    }

    pub(super) fn restore(&mut self, state: &Value) -> Result<(), String> {
        self.state = shared::restore(state)?;
        Ok(())
    }
}

/// How often it is evaluated.
pub(super) fn sync_param() -> ParamInfo {
    seconds_param("sync_s", "HPA interval", 15, 1, "Time between two evaluations of the HPA: a setting of the cluster.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn behavior(given: &[(&str, f64)]) -> Behavior {
        let given: BTreeMap<String, f64> = given.iter().map(|&(name, value)| (name.into(), value)).collect();
        match Params::read("test", &Behavior::params(), &given) {
            Ok(params) => Behavior::of(&params),
            Err(error) => unreachable!("{error}"),
        }
    }

    /// The replicas asked for when `wanted` is recommended every `step` seconds, from `start` on.
    fn walk(behavior: &mut Behavior, start: u32, step: f64, wanted: &[u32]) -> Vec<u32> {
        let mut current = start;
        let mut walked = Vec::new();
        for (turn, &wanted) in wanted.iter().enumerate() {
            let now = Nanos::from_secs(1000.0 + step * turn as f64);
            current = behavior.apply(now, current, wanted, (1, 1000)).0;
            walked.push(current);
        }
        walked
    }

    #[test]
    fn up_by_four_or_double_whichever_is_more() {
        assert_eq!(walk(&mut behavior(&[]), 1, 15.0, &[1000; 5]), [5, 10, 20, 40, 80]);
        // Evaluations twice as often add nothing within a period: 1 + 4 until the period is over.
        assert_eq!(walk(&mut behavior(&[]), 1, 7.5, &[1000; 5]), [5, 5, 10, 10, 20]);
        // The policy that allows least: +4 is less than double from 4 on.
        assert_eq!(walk(&mut behavior(&[("scale_up_select", 1.0)]), 1, 15.0, &[1000; 5]), [2, 4, 8, 12, 16]);
        assert_eq!(walk(&mut behavior(&[("scale_up_select", 2.0)]), 1, 15.0, &[1000; 2]), [1, 1]);
        // Half more, rounded up, or it would never leave 1.
        let half = [("scale_up_pods", 0.0), ("scale_up_percent", 50.0)];
        assert_eq!(walk(&mut behavior(&half), 1, 15.0, &[1000; 5]), [2, 3, 5, 8, 12]);
    }

    #[test]
    fn down_by_policies_from_where_the_period_began() {
        let at_once = ("scale_down_stabilization_s", 0.0);
        let slow = [
            at_once,
            ("scale_down_pods", 4.0),
            ("scale_down_pods_period_s", 60.0),
            ("scale_down_percent", 10.0),
            ("scale_down_percent_period_s", 60.0),
        ];
        // The example of the documentation: a tenth of 80, of 72, of 64.8 rounded down ..., and 4 at a time from 40 on.
        assert_eq!(walk(&mut behavior(&slow), 80, 60.0, &[1; 10]), [72, 64, 57, 51, 45, 40, 36, 32, 28, 24]);
        // Asked every 15 s, the minute counts as a whole.
        assert_eq!(walk(&mut behavior(&slow), 80, 15.0, &[1; 6]), [72, 72, 72, 72, 64, 64]);
        assert_eq!(walk(&mut behavior(&[at_once]), 80, 15.0, &[3, 1]), [3, 1]);
        assert_eq!(walk(&mut behavior(&[at_once, ("scale_down_select", 2.0)]), 80, 15.0, &[3]), [80]);
        // What came in the same period may go at once: the tenth counts from the 10 where the period began.
        let mut both = behavior(&[at_once, ("scale_down_percent", 10.0)]);
        assert_eq!(walk(&mut both, 10, 7.0, &[20, 1]), [20, 9]);
    }

    #[test]
    fn down_only_when_five_minutes_agree() {
        let mut wanted = vec![10, 4];
        wanted.extend([2; 24]);
        let walked = walk(&mut behavior(&[]), 10, 15.0, &wanted);
        // 10 was recommended at 0 s and 4 at 15 s: each counts for less than 300 s.
        assert_eq!(walked[19], 10, "at 285 s");
        assert_eq!((walked[20], walked[21], walked[25]), (4, 2, 2), "at 300 s, at 315 s");
    }

    #[test]
    fn up_only_to_the_lowest_of_its_window() {
        let mut slow = behavior(&[("scale_up_stabilization_s", 60.0)]);
        assert_eq!(walk(&mut slow, 2, 15.0, &[2, 6, 4, 6, 6, 6, 6]), [2, 2, 2, 2, 4, 4, 6]);
    }

    #[test]
    fn without_the_section() {
        let mut none = behavior(&[("behavior", 0.0)]);
        assert_eq!(walk(&mut none, 1, 15.0, &[1000; 4]), [4, 8, 16, 32]);
        let mut none = behavior(&[("behavior", 0.0)]);
        let walked = walk(&mut none, 10, 15.0, &[10; 1].iter().copied().chain([2; 22]).collect::<Vec<_>>());
        assert_eq!((walked[20], walked[21]), (10, 2), "at exactly 300 s the old one still counts");
    }

    #[test]
    fn bounds_end_it() {
        let mut behavior = behavior(&[("scale_down_stabilization_s", 0.0)]);
        assert_eq!(behavior.apply(Nanos(0), 4, 100, (2, 6)), (6, "at a bound"));
        assert_eq!(behavior.apply(Nanos(1), 6, 0, (2, 6)), (2, "at a bound"));
    }

    #[test]
    fn saved_and_taken_back() {
        let (mut going, mut fresh) = (behavior(&[]), behavior(&[]));
        walk(&mut going, 3, 15.0, &[9, 3, 3]);
        assert!(fresh.restore(&going.save()).is_ok());
        assert_eq!(walk(&mut fresh, 9, 15.0, &[3; 4]), walk(&mut going, 9, 15.0, &[3; 4]));
        assert!(fresh.restore(&Value::from(3)).is_err());
    }
}
