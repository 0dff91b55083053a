//! Axes read as typed, grids number their cells, and every refusal says what would do.

#![allow(clippy::unwrap_used)]

use super::axis::spaced;
use super::*;
use crate::experiment::{PolicySpec, WorkloadSpec};
use proptest::prelude::*;

fn numbers(text: &str) -> Vec<f64> {
    let values = Axis::parse(text).unwrap().expanded().unwrap();
    values.iter().map(|value| value.number().unwrap()).collect()
}

fn sweep(axes: &[&str], seeds: u32) -> SweepSpec {
    let axes = axes.iter().map(|text| Axis::parse(text).unwrap()).collect();
    SweepSpec { version: SCHEMA_VERSION, spec: Spec::default(), axes, seeds }
}

#[test]
fn axes_are_read_as_people_type_them() {
    assert_eq!(numbers("workload.rate=0.5, 1,2.25"), [0.5, 1.0, 2.25]);
    assert_eq!(numbers("workload.rate=0.5..2*4"), [0.5, 1.0, 1.5, 2.0]);
    assert_eq!(numbers("workload.rate=1..64^7"), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]);
    // Six figures between the ends: the fourth roots of 16 are 1.77828 apart.
    assert_eq!(numbers("workload.rate=1..10^5"), [1.0, 1.77828, 3.16228, 5.62341, 10.0]);
    // A setting in whole numbers takes whole numbers, each once.
    assert_eq!(numbers("replicas=1..4*7"), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(numbers("replicas=1..64^4"), [1.0, 4.0, 16.0, 64.0]);
    let words = Axis::parse("engine.chunked_prefill=on,off").unwrap();
    assert_eq!(words.expanded().unwrap(), [AxisValue::Text("on".into()), AxisValue::Text("off".into())]);
    assert_eq!(Axis::parse("a=1..2^3").unwrap().scale, Scale::Log);
    for wrong in ["", "rate", "=1", "rate=", "rate=1..2", "rate=1..2*", "rate=1..x*3", "rate=1..2*3^4", "rate=1..2*-1"]
    {
        assert!(Axis::parse(wrong).unwrap_err().accepted.contains("STEPS"), "{wrong}");
    }
}

#[test]
fn values_that_make_no_axis_are_refused() {
    for (text, says) in [
        ("workload.rate=2..1*3", "smaller one first"),
        ("workload.rate=1..1*3", "smaller one first"),
        ("workload.rate=0..1^3", "above 0"),
        ("workload.rate=1..2*1", "2 to 1000"),
        ("workload.rate=1..2*1001", "2 to 1000"),
        ("workload.rate=1,2,1", "each value once"),
        ("workload.rate=1,1.0", "each value once"),
    ] {
        let error = Axis::parse(text).unwrap().expanded().unwrap_err();
        assert!(error.accepted.contains(says) && error.field == "workload.rate", "{text}: {error}");
    }
}

/// Two axes of 2 and 3 values with 2 seeds: twelve cells, numbered by hand.
#[test]
fn cells_are_numbered_with_seeds_fastest_and_the_first_axis_slowest() {
    let sweep = sweep(&["replicas=2,4", "workload.rate=0.5,0.7,0.9"], 2);
    let grid = sweep.grid().unwrap();
    assert_eq!((grid.points, grid.cells()), (6, 12));
    let at: Vec<(f64, f64)> =
        (0..6).map(|point| grid.at(point)).map(|at| (at[0].number().unwrap(), at[1].number().unwrap())).collect();
    assert_eq!(at, [(2.0, 0.5), (2.0, 0.7), (2.0, 0.9), (4.0, 0.5), (4.0, 0.7), (4.0, 0.9)]);
    assert_eq!((0..4).map(|cell| sweep.seed(cell)).collect::<Vec<_>>(), [7, 8, 7, 8]);
    let spec = sweep.point(&grid, 4).unwrap();
    assert_eq!(spec.replicas, 4);
    assert!(matches!(spec.workload, WorkloadSpec::MultiTenant(w) if w.rate == 0.7));
    assert_eq!(Shard { part: 2, of: 5 }.cells(12).collect::<Vec<_>>(), [1, 6, 11]);
    assert_eq!(Shard::WHOLE.cells(3).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(Shard { part: 5, of: 5 }.cells(3).count(), 0, "more shards than cells: some have nothing to do");
}

#[test]
fn parameters_of_policies_are_settings_too() {
    let mut sweep = sweep(&["policies.2.params.guard_ratio=1.2,2"], 1);
    let grid = sweep.grid().unwrap();
    assert_eq!(
        sweep.point(&grid, 1).unwrap().policies[2],
        PolicySpec::named("prefix_affinity").with("guard_ratio", 2.0)
    );
    sweep.axes[0].key = "policies.3.params.guard_ratio".into();
    assert_eq!(sweep.point(&grid, 0).unwrap_err().field, "policies.3.params.guard_ratio");
}

#[test]
fn sweeps_that_cannot_be_run_are_refused_with_the_field() {
    let field = |sweep: SweepSpec| sweep.grid().unwrap_err();
    for key in
        ["seed", "policies", "workload.kind", "execution.mode", "policies.0.name", "clients.on", "scaling.controllers"]
    {
        assert_eq!(field(sweep(&[&format!("{key}=1,2")], 1)).field, key);
    }
    assert_eq!(field(sweep(&[], 1)).field, "axes");
    assert_eq!(field(sweep(&["replicas=1", "engine.blocks=9", "workload.rate=1"], 1)).field, "axes");
    assert_eq!(field(sweep(&["replicas=1", "replicas=2"], 1)).field, "axes.1");
    assert_eq!(field(sweep(&["replicas=1"], 0)).field, "seeds");
    assert_eq!(field(sweep(&["replicas=1"], MAX_SEEDS + 1)).field, "seeds");
    let many = field(sweep(&["workload.rate=0.1..1*101", "engine.watermark=0..0.5*100"], 1));
    assert!(many.found.contains("10100 points") && many.accepted.contains("10000 runs"), "{many}");
    let mut live = sweep(&["replicas=1"], 1);
    live.spec.execution.mode = ExecutionMode::Tinygpt;
    assert_eq!(field(live).field, "execution.mode");
    let mut late = sweep(&["replicas=1"], 2);
    late.spec.seed = MAX_SEED;
    assert_eq!(field(late).field, "seed");
    let mut newer = sweep(&["replicas=1"], 1);
    newer.version = 99;
    assert_eq!(field(newer).field, "version");
    // What a point must not be is said when it is made.
    let wide = sweep(&["replicas=1,513"], 1);
    let grid = wide.grid().unwrap();
    assert!(wide.point(&grid, 0).is_ok());
    assert!(wide.point(&grid, 1).unwrap_err().accepted.contains("1 to 512"));
}

#[test]
fn shards_are_read() {
    assert_eq!(Shard::parse("2/8"), Ok(Shard { part: 2, of: 8 }));
    for wrong in ["", "2", "0/3", "4/3", "a/b", "1/0", "-1/3", "1/2/3"] {
        assert!(Shard::parse(wrong).unwrap_err().accepted.contains("K/N"), "{wrong}");
    }
}

#[test]
fn sweeps_survive_json() {
    let sweep = sweep(&["workload.rate=0.5..2^5", "engine.prefix_cache=on,off"], 8);
    let text = serde_json::to_string(&sweep).unwrap();
    assert_eq!(from_json(&text).unwrap(), sweep);
    assert_eq!(from_json(&format!("{{\"sweep\":{text}}}")).unwrap(), sweep, "out of a report");
    let short = from_json("{\"spec\":{},\"axes\":[{\"key\":\"replicas\",\"values\":[1,2]}]}").unwrap();
    assert_eq!((short.seeds, short.axes[0].scale), (1, Scale::Linear));
    for wrong in ["", "{", "[]", "{\"axes\":[]}", "{\"spec\":{},\"axes\":[{\"key\":\"a\",\"values\":7}]}"] {
        from_json(wrong).expect_err(wrong);
    }
    assert!(from_json("{\"version\":99,\"new\":1}").unwrap_err().accepted.contains("newer"));
}

#[test]
fn figures_agree_with_their_names() {
    let text = serde_json::to_value(Figures::from_fn(Figure::name)).unwrap();
    for (&figure, (field, value)) in Figure::ALL.iter().zip(text.as_object().unwrap()) {
        assert_eq!(field, figure.name());
        assert_eq!(value, figure.name());
        assert_eq!(serde_json::to_value(figure).unwrap(), figure.name());
    }
}

proptest! {
    #[test]
    fn anything_typed_is_read_or_refused(text in ".{0,40}") {
        if let Ok(axis) = Axis::parse(&text) {
            let sweep = SweepSpec { axes: vec![axis], ..sweep(&[], 1) };
            if let Ok(grid) = sweep.grid() {
                let _ = sweep.point(&grid, 0);
            }
        }
        let _ = Shard::parse(&text);
        let _ = from_json(&text);
    }

    #[test]
    fn ranges_ascend_between_their_ends(from in 0.001..100.0f64, more in 0.001..1000.0f64, steps in 2u32..60, log in any::<bool>()) {
        let scale = if log { Scale::Log } else { Scale::Linear };
        let values = spaced(&AxisRange { from, to: from + more, steps }, scale, false);
        prop_assert_eq!((values[0], values[values.len() - 1]), (from, from + more));
        prop_assert!(values.windows(2).all(|pair| pair[0] <= pair[1] * (1.0 + 1e-5)));
    }

    #[test]
    fn shards_deal_out_every_cell_once(cells in 0u32..200, of in 1u32..20) {
        let mut all: Vec<u32> = (1..=of).flat_map(|part| Shard { part, of }.cells(cells)).collect();
        all.sort();
        prop_assert_eq!(all, (0..cells).collect::<Vec<_>>());
    }
}
