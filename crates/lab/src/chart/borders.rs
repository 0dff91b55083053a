//! Where, on a map over load, the analytic borders of metastability lie.
//!
//! Clients that make A attempts of each request turn a load λ into at most A·λ. A fleet that can serve C is *stable* below C ÷ A: whatever pushed it
//! down, even A attempts of everybody leave it time to catch up. Above C it is *overloaded* with one attempt each. Between the two it is *vulnerable*: how large
//! a trigger was and how long it lasted decides whether it stays down (OSDI'22, *Metastable Failures in the Wild*; `scaling_overload.md` C4). Hedges count as attempts.
//! That holds where turning an attempt away costs nothing; where it does, no border is drawn.

use crate::costs;
use crate::storm;
use servelab_engine::CostModel;
use servelab_spec::experiment::{RateUnit, Spec};
use servelab_spec::patch;
use servelab_spec::sweep::{AxisValue, SweepReport};

/// The setting that is load.
const LOAD: &str = "workload.rate";

/// Borders as loads, at each value of the other axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Borders {
    /// Load is the second axis, the one that goes up.
    pub(super) up: bool,
    /// C ÷ A; empty where everybody makes one attempt, so that it is C.
    pub(super) stable: Vec<Option<f64>>,
    /// C.
    pub(super) capacity: Vec<Option<f64>>,
}

/// The borders on a map of `report` for the run at `policy`; nothing where load is no axis or clients have no rules of their own.
pub(super) fn of(report: &SweepReport, policy: u32, values: [&[AxisValue]; 2]) -> Option<Borders> {
    let axes = &report.sweep.axes;
    let spec = &report.sweep.spec;
    let load = axes.iter().position(|axis| axis.key == LOAD)?;
    let other = 1 - load;
    if !spec.clients.on || spec.faults.reject_cost_s > 0.0 {
        return None;
    }
    let contender = *spec.contenders().get(policy as usize)?;
    let at = |value: &AxisValue| {
        let spec = patch::set(spec, &axes[other].key, &value.to_string()).ok()?;
        let capacity = capacity(&spec)?;
        Some((capacity / f64::from(storm::most_attempts(&spec, contender.clients)?), capacity))
    };
    let at: Vec<Option<(f64, f64)>> = values[other].iter().map(at).collect();
    let capacity: Vec<Option<f64>> = at.iter().map(|at| at.map(|at| at.1)).collect();
    let stable: Vec<Option<f64>> = at.iter().map(|at| at.map(|at| at.0)).collect();
    let stable = if stable == capacity { Vec::new() } else { stable };
    Some(Borders { up: load == 1, stable, capacity })
}

/// What the fleet can serve, in the unit of the load.
fn capacity(spec: &Spec) -> Option<f64> {
    match spec.workload.rate()? {
        (_, RateUnit::OfCapacity) => Some(1.0),
        (_, RateUnit::PerSecond) => {
            let cost = CostModel::from_coefficients(&costs::resolve(spec).ok()?);
            Some(costs::capacity_per_s(spec, &cost))
        }
    }
}

/// Where `value` lies among the `values` of an axis, whose first is at ½, the second at 1½ and so on; `None` beyond half a step from the ends.
pub(super) fn place(values: &[AxisValue], value: f64) -> Option<f64> {
    let numbers: Vec<f64> = values.iter().map(AxisValue::number).collect::<Option<_>>()?;
    let last = numbers.len().checked_sub(2)?;
    // Beyond the ends as between the two values next to them.
    let at = numbers[1..=last].iter().take_while(|&&number| number <= value).count();
    let (low, high) = (numbers[at], numbers[at + 1]);
    let place = at as f64 + 0.5 + (value - low) / (high - low);
    (0.0..=numbers.len() as f64).contains(&place).then_some(place)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::presets;
    use crate::sweep::Plan;
    use servelab_spec::SCHEMA_VERSION;
    use servelab_spec::sweep::{Axis, SweepSpec};

    #[test]
    fn values_lie_between_their_neighbours() {
        let values: Vec<AxisValue> = [0.2, 0.4, 1.0, 2.0].map(AxisValue::Number).to_vec();
        let near = |value: f64, wanted: f64| (place(&values, value).unwrap() - wanted).abs() < 1e-9;
        for (value, wanted) in [(0.2, 0.5), (0.3, 1.0), (0.4, 1.5), (0.7, 2.0), (1.0, 2.5), (1.5, 3.0), (2.5, 4.0)] {
            assert!(near(value, wanted), "{value}: {:?}", place(&values, value));
        }
        assert!(near(0.1, 0.0));
        assert_eq!((place(&values, 0.05), place(&values, 2.6)), (None, None));
        assert_eq!(place(&values[..1], 0.2), None, "one value has no scale");
        assert_eq!(place(&[AxisValue::Text("on".into()), AxisValue::Number(1.0)], 0.5), None);
    }
    fn sweep(axes: &[&str], changes: &[(&str, &str)]) -> SweepReport {
        let spec = presets::find("metastable").unwrap().spec;
        let spec = changes.iter().fold(spec, |spec, (key, value)| patch::set(&spec, key, value).unwrap());
        let axes = axes.iter().map(|text| Axis::parse(text).unwrap()).collect();
        Plan::new(SweepSpec { version: SCHEMA_VERSION, spec, axes, seeds: 1 }).unwrap().report(vec![])
    }

    fn numbers(values: &[f64]) -> Vec<AxisValue> {
        values.iter().map(|&value| AxisValue::Number(value)).collect()
    }

    /// Three attempts and a capacity of 20 requests a second, by hand.
    #[test]
    fn borders_are_capacity_and_its_share_of_an_attempt() {
        let (load, other) = (numbers(&[0.5, 1.0]), numbers(&[1.0, 5.0]));
        let report = sweep(&["workload.rate=0.5,1", "faults.down_s=1,5"], &[]);
        let borders = of(&report, 0, [&load, &other]).unwrap();
        assert_eq!((borders.up, borders.capacity), (false, vec![Some(1.0); 2]));
        assert_eq!(borders.stable, [Some(1.0 / 3.0); 2]);
        // The other way round, requests a second, and slots on the other axis: each has a capacity of its own.
        let report = sweep(&["server.slots=1,5", "workload.rate=5,60"], &[("workload.rate_unit", "per_second")]);
        let borders = of(&report, 0, [&other, &load]).unwrap();
        assert_eq!((borders.up, borders.capacity), (true, vec![Some(10.0), Some(50.0)]));
        assert_eq!(borders.stable, [Some(10.0 / 3.0), Some(50.0 / 3.0)]);
        // Attempts on the other axis, a hedge beside each of them counted, layers multiplied.
        let clients = ("clients.policies", "immediate(hedge_after_s=1,layer_2_attempts=2,timeout_s=2)");
        let report = sweep(&["workload.rate=0.5,1", "clients.policies.0.params.attempts=1,5"], &[clients]);
        let borders = of(&report, 0, [&load, &other]).unwrap();
        assert_eq!(borders.stable, [Some(1.0 / 3.0), Some(1.0 / 11.0)]);
    }

    #[test]
    fn no_border_where_there_is_none() {
        let (load, other) = (numbers(&[0.5, 1.0]), numbers(&[1.0, 5.0]));
        let axes = ["workload.rate=0.5,1", "faults.down_s=1,5"];
        let once = sweep(&axes, &[("clients.policies", "one_try")]);
        assert_eq!(of(&once, 0, [&load, &other]).unwrap().stable, []);
        assert_eq!(of(&sweep(&axes, &[("faults.reject_cost_s", "0.1")]), 0, [&load, &other]), None);
        let elsewhere = sweep(&["server.slots=1,5", "faults.down_s=1,5"], &[]);
        assert_eq!(of(&elsewhere, 0, [&other, &other]), None);
    }
}
