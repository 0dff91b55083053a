//! The Kubernetes Horizontal Pod Autoscaler.
//!
//! ```text
//! Pods                    r = mean(v of replicas with a value) ÷ target
//!                         no replica without a value: |1 − r| ≤ tolerance ? current : ⌈r · n⌉
//!                         else, if r > 1, pending and missing ones count as 0; if r < 1, missing ones count as the target;
//!                         r′ of all those: within tolerance, or on the other side of 1 ? current : ⌈r′ · n′⌉
//! External AverageValue   |1 − total ÷ (target · replicas)| ≤ tolerance ? replicas : ⌈total ÷ target⌉
//! External Value          r = total ÷ target; |1 − r| ≤ tolerance ? current : ⌈r · ready⌉
//! ```
//!
//! Then [`super::behavior`], then the bounds. Metrics are whole thousandths, as in Kubernetes; what lies below is cut off. *Pending* replicas have no node.
//! Those that load weights run and are not ready: they have no metric, so they are *missing*.
//! Source: `pkg/controller/podautoscaler/{replica_calculator,horizontal}.go`, a revision with a tolerance for each direction.
//! Left out: several metrics at once, and what concerns CPU alone (its initialisation period).

use super::behavior::{self, Behavior};
use super::registry::Entry;
use super::shared::{ceil, mean, seconds_param, signal_param, target_param, total, values, whole_seconds};
use super::{Controller, Decision, Phase, ScaleView, Signal};
use crate::routing::params::{self, Params};
use serde_json::Value;
use servelab_engine::Nanos;
use servelab_spec::catalog::{ControllerInfo, ParamInfo};

const NAME: &str = "kubernetes_hpa";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

/// Metric types, by index of the parameter `metric_type`.
const METRIC_TYPES: [&str; 3] = ["pods", "external_average_value", "external_value"];

fn info() -> ControllerInfo {
    let mut params = vec![
        signal_param(Signal::QueueDepth, "The metric: through an adapter for Prometheus, any of them can be one."),
        params::choice(
            "metric_type",
            "Metric type",
            0,
            &METRIC_TYPES,
            "Pods: its mean over replicas against the target. External: its sum over the fleet, what the gateway holds included, against the target for each replica (AverageValue) or for all (Value).",
        ),
        target_param("target", "Target", "", 5.0, "What the metric should be, in the unit of the signal."),
        seconds_param(
            "window_s",
            "Query window",
            0,
            0,
            "The adapter's query averages over so long. 0: the latest scrape.",
        ),
        behavior::sync_param(),
    ];
    params.extend(tolerance_params());
    params.extend(Behavior::params());
    ControllerInfo {
        name: NAME.into(),
        label: "Kubernetes HPA".into(),
        project: "Kubernetes".into(),
        summary: "Scales in proportion to how far a metric is from its target; the highest recommendation of five minutes counts on the way down.".into(),
        rule: "⌈mean ÷ target · replicas⌉ within a tolerance (Pods), ⌈total ÷ target⌉ (AverageValue); replicas without a metric count so that they dampen. Then stabilisation, scaling policies, bounds.".into(),
        reads: "One signal, as of the latest scrape or averaged over the query's window; which replicas have no node and which have no metric.".into(),
        fails: "It knows no cold start: replicas that load count as idle, so it waits for them, but a queue that grows meanwhile makes it ask for more. A target above 1 ÷ (1 + tolerance) of a signal that ends at 1 is never exceeded (0.909). A queue says how long there was too little, not how much is needed. With Pods metrics it cannot leave 0.".into(),
        bound: false,
        params,
    }
}

/// How far from the target nothing happens.
fn tolerance_params() -> Vec<ParamInfo> {
    let of = |name, label, help| params::number(name, label, "", 0.1, (0.0, 10.0, 0.01), help);
    vec![
        of(
            "tolerance_up",
            "Tolerance up",
            "Nothing happens while metric ÷ target is at most 1 plus this. Until 1.33 one value for the whole cluster.",
        ),
        of("tolerance_down", "Tolerance down", "Nothing happens while metric ÷ target is at least 1 less this."),
    ]
}

/// Ratios at which nothing happens.
#[derive(Clone, Copy)]
pub(super) struct Tolerance {
    pub(super) up: f64,
    pub(super) down: f64,
}

impl Tolerance {
    fn holds(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// A metric as Kubernetes holds it.
pub(super) fn milli(value: f64) -> i64 {
    (value * 1000.0) as i64
}

/// Pods metric: replicas to have, given the `values` of those that have one and how many are `pending` and `missing`; `None` without any value.
fn pods_metric(
    values: &[i64],
    pending: u32,
    missing: u32,
    target: i64,
    current: u32,
    tolerance: Tolerance,
) -> Option<u32> {
    let ratio = |sum: i64, count: u32| (count > 0).then(|| (sum / i64::from(count)) as f64 / target as f64);
    let count = values.len() as u32;
    let sum = values.iter().fold(0i64, |sum, &value| sum.saturating_add(value));
    let first = ratio(sum, count)?;
    let pending = if first > 1.0 { pending } else { 0 };
    if pending == 0 && missing == 0 {
        return Some(if tolerance.holds(first) { current } else { ceil(first * f64::from(count)) });
    }
    // At exactly the target, missing ones change nothing and are not filled in.
    let (fill, filled) = match first.total_cmp(&1.0) {
        std::cmp::Ordering::Less => (target, missing),
        std::cmp::Ordering::Equal => (0, 0),
        std::cmp::Ordering::Greater => (0, missing),
    };
    let count = count + filled + pending;
    let second = ratio(sum.saturating_add(fill.saturating_mul(i64::from(filled))), count)?;
    if tolerance.holds(second) || (first < 1.0 && second > 1.0) || (first > 1.0 && second < 1.0) {
        return Some(current);
    }
    let wanted = ceil(second * f64::from(count));
    // More replicas counted than there were may turn a step down into one up, and the other way round.
    let turned = (second < 1.0 && wanted > current) || (second > 1.0 && wanted < current);
    Some(if turned { current } else { wanted })
}

/// External metric with a target for each replica: replicas to have, given how many there are.
pub(super) fn average_value(total: i64, target: i64, replicas: u32, tolerance: Tolerance) -> u32 {
    let ratio = total as f64 / (target as f64 * f64::from(replicas));
    if replicas > 0 && tolerance.holds(ratio) { replicas } else { ceil(total as f64 / target as f64) }
}

/// External metric with a target for the whole fleet.
fn value(total: i64, target: i64, ready: u32, current: u32, tolerance: Tolerance) -> u32 {
    let ratio = total as f64 / target as f64;
    if current == 0 {
        ceil(ratio)
    } else if tolerance.holds(ratio) {
        current
    } else {
        ceil(ratio * f64::from(ready))
    }
}

fn build(params: &Params) -> Box<dyn Controller> {
    Box::new(KubernetesHpa {
        signal: Signal::of(params.integer("signal")),
        metric_type: params.integer("metric_type"),
        target: milli(params.number("target")),
        window: whole_seconds(params.integer("window_s")),
        sync: whole_seconds(params.integer("sync_s")),
        tolerance: Tolerance { up: params.number("tolerance_up"), down: params.number("tolerance_down") },
        behavior: Behavior::of(params),
    })
}

struct KubernetesHpa {
    signal: Signal,
    metric_type: u32,
    /// In thousandths, above 0.
    target: i64,
    window: Nanos,
    sync: Nanos,
    tolerance: Tolerance,
    behavior: Behavior,
}

impl KubernetesHpa {
    /// The rule alone; `None` when there is no metric.
    fn recommendation(&self, view: &ScaleView<'_>) -> Option<u32> {
        let (target, tolerance, over) = (self.target, self.tolerance, mean(self.window));
        match self.metric_type {
            0 => {
                let values: Vec<i64> = values(view, self.signal, over).map(milli).collect();
                let pending = view.count(Phase::Pending);
                let missing = view.pods.len() as u32 - pending - values.len() as u32;
                pods_metric(&values, pending, missing, target, view.current, tolerance)
            }
            1 => {
                let total = milli(total(view, self.signal, over)?);
                Some(average_value(total, target, view.pods.len() as u32, tolerance))
            }
            _ => {
                let total = milli(view.history.fleet(self.signal, over)?);
                Some(value(total, target, view.count(Phase::Ready), view.current, tolerance))
            }
        }
    }
}

impl Controller for KubernetesHpa {
    fn period(&self) -> Nanos {
        self.sync
    }

    fn window(&self) -> Nanos {
        self.window
    }

    fn decide(&mut self, view: &ScaleView<'_>) -> Decision {
        let (current, bounded) = (view.current, view.clamp(view.current));
        if bounded != current {
            self.behavior.changed(view.now, current, bounded);
            return Decision::now(bounded, "outside its bounds");
        }
        let Some(wanted) = self.recommendation(view) else {
            return Decision::now(current, "no replica has the metric");
        };
        let (desired, why) = self.behavior.apply(view.now, current, wanted, (view.min, view.max.max(view.min)));
        Decision { wanted, desired, why }
    }

    fn save(&self) -> Value {
        self.behavior.save()
    }

    fn restore(&mut self, state: &Value) -> Result<(), String> {
        self.behavior.restore(state)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, Load};
    use super::*;
    use servelab_spec::experiment::ControllerSpec;

    const TOLERANCE: Tolerance = Tolerance { up: 0.1, down: 0.1 };

    /// Rule: values, pending, missing → replicas, at a target of 5 with as many replicas as those are together.
    fn pods(values: &[f64], pending: u32, missing: u32) -> Option<u32> {
        let current = values.len() as u32 + pending + missing;
        let values: Vec<i64> = values.iter().copied().map(milli).collect();
        pods_metric(&values, pending, missing, 5000, current, TOLERANCE)
    }

    #[test]
    fn pods_metric_by_hand() {
        // Twice the target on two: 4. A tenth over or under: nothing, and just beyond: something.
        assert_eq!(pods(&[10.0, 10.0], 0, 0), Some(4));
        assert_eq!([pods(&[5.5, 5.5], 0, 0), pods(&[4.5, 4.5], 0, 0)], [Some(2), Some(2)]);
        assert_eq!([pods(&[5.501, 5.501], 0, 0), pods(&[4.499; 10], 0, 0)], [Some(3), Some(9)]);
        assert_eq!([pods(&[0.0; 3], 0, 0), pods(&[5.0, 11.0, 0.0], 0, 0)], [Some(0), Some(3)]);
        // Two pending beside two at twice the target: 20 ÷ 4 is the target: stay at 4.
        assert_eq!(pods(&[10.0, 10.0], 2, 0), Some(4));
        assert_eq!(pods(&[10.0, 10.0], 0, 2), Some(4), "missing ones count as 0, too");
        assert_eq!(pods(&[20.0, 20.0], 1, 1), Some(8), "40 ÷ 4 is twice the target");
        // 12 ÷ 4 = 3 lies on the other side of 5: stay.
        assert_eq!(pods(&[6.0, 6.0], 2, 0), Some(4));
        // Below the target, pending ones are left aside: ⌈0.4 · 2⌉, and missing ones count as 5: (2 + 2 + 5 + 5) ÷ 4 = 3.5, ⌈0.7 · 4⌉.
        assert_eq!([pods(&[2.0, 2.0], 2, 0), pods(&[2.0, 2.0], 0, 2)], [Some(1), Some(3)]);
        // (4.4 + 5) ÷ 2 = 4.7: within tolerance.
        assert_eq!(pods(&[4.4], 0, 1), Some(2));
        // Exactly the target with one missing: stay (an older revision counted it as 0 and went down).
        assert_eq!(pods(&[5.0], 0, 1), Some(2));
        assert_eq!(pods(&[], 1, 1), None);
        // Whole thousandths: (0.001 + 0) ÷ 2 is cut to nothing.
        assert_eq!(pods_metric(&[1, 0], 0, 0, 1, 2, TOLERANCE), Some(0));
    }

    #[test]
    fn tolerance_of_each_direction() {
        let lax_down = Tolerance { up: 0.0, down: 0.5 };
        assert_eq!(pods_metric(&[2500, 2500], 0, 0, 5000, 2, lax_down), Some(2));
        assert_eq!(pods_metric(&[2499, 2499], 0, 0, 5000, 2, lax_down), Some(1));
        assert_eq!(pods_metric(&[5001, 5001], 0, 0, 5000, 2, lax_down), Some(3));
    }

    #[test]
    fn external_metrics_by_hand() {
        let average = |total: f64, replicas| average_value(milli(total), 5000, replicas, TOLERANCE);
        // 240 waiting: 48, whatever there is.
        assert_eq!([average(240.0, 1), average(240.0, 30), average(240.0, 0)], [48; 3]);
        assert_eq!([average(11.0, 2), average(11.001, 2), average(9.0, 2), average(8.999, 2)], [2, 3, 2, 2]);
        assert_eq!([average(0.0, 4), average(0.0, 0)], [0, 0]);
        let value = |total: f64, ready, current| value(milli(total), 5000, ready, current, TOLERANCE);
        assert_eq!([value(10.0, 2, 2), value(10.0, 1, 2), value(5.5, 2, 2), value(12.0, 0, 0)], [4, 2, 2, 3]);
    }

    /// KV usage ends at 1: 1 ÷ 0.90 is beyond the tolerance, 1 ÷ 0.91 never is.
    #[test]
    fn a_saturating_signal_and_a_target_too_high() {
        for (target, expected) in [(0.90, 3), (0.91, 2)] {
            let spec =
                ControllerSpec::named(NAME).with("signal", f64::from(Signal::KvUsage as u32)).with("target", target);
            let mut bench = Bench::new(spec).ready(2);
            bench.scrape(Load { kv: 1.0, ..Load::default() });
            assert_eq!(bench.decide().desired, expected, "{target}");
        }
    }

    #[test]
    fn phases_are_told_apart() {
        // Two at twice the target, and of two more one without a node and one that loads: 4 either way.
        let mut bench = Bench::new(ControllerSpec::named(NAME))
            .bounds(1, 100)
            .ready(2)
            .phase(1, Phase::Pending)
            .phase(1, Phase::Starting);
        bench.scrape(Load { waiting: 10, ..Load::default() });
        assert_eq!(bench.decide(), Decision { wanted: 4, desired: 4, why: "as recommended" });
        // Below the target, the one that loads counts as 5 and the one without a node not at all: (2 + 2 + 5) ÷ 3 = 3 → ⌈0.6 · 3⌉.
        bench.scrape(Load { waiting: 2, ..Load::default() });
        assert_eq!(bench.decide(), Decision { wanted: 2, desired: 4, why: "stabilised" });
    }

    #[test]
    fn without_metrics_nothing_happens_and_bounds_hold() {
        let mut bench = Bench::new(ControllerSpec::named(NAME)).bounds(0, 8).ready(3);
        assert_eq!(bench.decide(), Decision::now(3, "no replica has the metric"));
        let mut bench = Bench::new(ControllerSpec::named(NAME)).bounds(0, 8);
        bench.scrape(Load { held: 50, ..Load::default() });
        assert_eq!(bench.decide().desired, 0, "Pods metrics cannot leave 0");
        let external = ControllerSpec::named(NAME).with("metric_type", 1.0);
        let mut bench = Bench::new(external).bounds(0, 8);
        bench.scrape(Load { held: 50, ..Load::default() });
        assert_eq!(bench.decide(), Decision { wanted: 10, desired: 4, why: "limited by a scaling policy" });
        let mut bench = Bench::new(ControllerSpec::named(NAME)).bounds(4, 8).ready(3);
        assert_eq!(bench.decide().desired, 4);
    }
}
