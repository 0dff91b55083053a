//! Sweeps: shards in any order are the whole, numbers are those of the reports, intervals are Student's.

#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

use servelab_lab::sweep::{MergeError, Plan, merge};
use servelab_lab::{presets, run_priced};
use servelab_spec::csv::sweep_csv;
use servelab_spec::experiment::WorkloadSpec;
use servelab_spec::sweep::{Axis, Figure, Shard, SweepReport, SweepSpec};
use servelab_spec::{SCHEMA_VERSION, Spec, patch};

/// Two policies, forty requests: a cell takes milliseconds even with every check on.
fn small() -> Spec {
    let mut spec = presets::find("multi-tenant").unwrap().spec;
    spec.policies.remove(1);
    if let WorkloadSpec::MultiTenant(w) = &mut spec.workload {
        w.requests = 40;
    }
    spec
}

fn plan(axes: &[&str], seeds: u32) -> Plan {
    let axes = axes.iter().map(|text| Axis::parse(text).unwrap()).collect();
    Plan::new(SweepSpec { version: SCHEMA_VERSION, spec: small(), axes, seeds }).unwrap()
}

fn shard(plan: &Plan, part: u32, of: u32) -> SweepReport {
    let cells = Shard { part, of }.cells(plan.cells()).map(|cell| plan.run(cell).unwrap());
    plan.report(cells.collect())
}

fn bytes(report: &SweepReport) -> String {
    serde_json::to_string(report).unwrap()
}

/// By way of text, as files do.
fn travelled(report: &SweepReport) -> SweepReport {
    serde_json::from_str(&bytes(report)).unwrap()
}

#[test]
fn shards_in_any_order_are_the_whole() {
    let plan = plan(&["workload.rate=0.5..1.5*3", "replicas=2,3"], 2);
    let whole = shard(&plan, 1, 1);
    assert_eq!((whole.cells.len(), whole.points.len(), whole.cells_total), (12, 6, 12));
    for of in [1, 2, 3, 5, 13] {
        let parts: Vec<SweepReport> = (1..=of).map(|part| travelled(&shard(&plan, part, of))).collect();
        for turn in 0..parts.len() {
            let mut turned = parts.clone();
            turned.rotate_left(turn);
            assert_eq!(bytes(&merge(turned.clone()).unwrap()), bytes(&whole), "{of} shards from {turn}");
            turned.reverse();
            // Merging what is merged, and a shard that was run twice, change nothing.
            turned.push(parts[0].clone());
            let again = merge(vec![travelled(&merge(turned).unwrap())]).unwrap();
            assert_eq!(bytes(&again), bytes(&whole));
        }
    }
    let backwards = (0..plan.cells()).rev().map(|cell| plan.run(cell).unwrap()).collect();
    assert_eq!(bytes(&plan.report(backwards)), bytes(&whole), "in whatever order cells are run");
}

#[test]
fn a_cell_is_the_report_of_its_spec() {
    let plan = plan(&["workload.rate=0.5,2"], 3);
    let cell = plan.run(4).unwrap();
    assert_eq!((cell.cell, cell.point, cell.seed), (4, 1, 8));
    let spec = Spec { seed: 8, ..patch::set(&small(), "workload.rate", "2").unwrap() };
    assert_eq!(plan.spec(4).unwrap(), spec);
    let report = run_priced(&spec).unwrap();
    for (figures, policy) in cell.policies.iter().zip(&report.policies) {
        assert_eq!(figures.offered_per_s, Some(report.workload.rate_per_s));
        assert_eq!(figures.served_per_s, Some(40.0 / policy.duration_s));
        assert_eq!(figures.goodput_per_s, Some(policy.goodput.per_s));
        assert_eq!(figures.goodput_fraction, Some(policy.goodput.fraction));
        assert_eq!(figures.ttft_p50_s, Some(policy.ttft_s.p50));
        assert_eq!(figures.ttft_p95_s, Some(policy.ttft_s.p95));
        assert_eq!(figures.ttft_p99_s, Some(policy.ttft_s.p99));
        assert_eq!(figures.itl_p95_s, Some(policy.itl_s.p95));
        assert_eq!(figures.reuse, Some(policy.reuse.ratio));
        assert_eq!(figures.imbalance_assignments, Some(policy.imbalance.assignments));
        assert_eq!(figures.imbalance_uncached_tokens, Some(policy.imbalance.uncached_tokens));
        assert_eq!(figures.output_tokens_per_s, Some(policy.output_tokens_per_s));
        assert_eq!(figures.in_time_at_end, policy.in_time_at_end);
        assert_eq!(figures.attempts, Some(40.0));
    }
    assert!(plan.run(6).is_err(), "there are six cells, from 0");
}

/// Worked with t(2) = 4.303 on what the cells say.
#[test]
fn bands_are_students_and_differences_are_paired() {
    let plan = plan(&["workload.rate=1.3"], 3);
    let report = shard(&plan, 1, 1);
    let students = |values: [f64; 3]| {
        let mean = values.iter().sum::<f64>() / 3.0;
        let half = 4.303 * (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / 2.0 / 3.0).sqrt();
        (mean, mean - half, mean + half)
    };
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * b.abs().max(1e-3);
    for &figure in Figure::ALL {
        let of = |policy: usize| [0, 1, 2].map(|cell: usize| report.cells[cell].policies[policy].get(figure).unwrap());
        let point = &report.points[0];
        for policy in 0..2 {
            let (band, (mean, low, high)) = (point.policies[policy].mean.get(figure).unwrap(), students(of(policy)));
            assert_eq!(band.n, 3);
            assert!(near(band.mean, mean) && near(band.low.unwrap(), low) && near(band.high.unwrap(), high));
        }
        let (a, b) = (of(0), of(1));
        let (mean, low, high) = students([b[0] - a[0], b[1] - a[1], b[2] - a[2]]);
        let versus = point.policies[1].versus_first.unwrap().get(figure).unwrap();
        assert!(near(versus.mean, mean) && near(versus.low.unwrap(), low) && near(versus.high.unwrap(), high));
        assert_eq!(versus.significant, low > 0.0 || high < 0.0, "{}", figure.name());
        assert!(point.policies[0].versus_first.is_none());
    }
    // The same arrivals under both policies: what is offered can not differ.
    let versus = report.points[0].policies[1].versus_first.unwrap();
    assert_eq!(versus.offered_per_s.unwrap().mean, 0.0);
    assert!(versus.reuse.unwrap().significant && versus.reuse.unwrap().mean > 0.2, "affinity reuses more");
    let single = plan_of_one().points[0].policies[1].versus_first.unwrap().reuse.unwrap();
    assert_eq!((single.n, single.low, single.significant), (1, None, false), "one seed says nothing about noise");
}

fn plan_of_one() -> SweepReport {
    shard(&plan(&["workload.rate=1.3"], 1), 1, 1)
}

#[test]
fn what_does_not_go_together_is_refused() {
    let plan = plan(&["workload.rate=0.5,1,1.5"], 2);
    let (first, second) = (shard(&plan, 1, 2), shard(&plan, 2, 2));
    assert_eq!(merge(vec![]), Err(MergeError::Nothing));
    let missing = merge(vec![first.clone()]).unwrap_err().to_string();
    assert_eq!(missing, "3 of 6 cells are missing, the first of them cell 1; they are shard 2/2");
    let both = |second: SweepReport| merge(vec![first.clone(), second]).unwrap_err();
    let other = { shard(&self::plan(&["workload.rate=0.5,1,2"], 2), 2, 2) };
    assert_eq!(both(other), MergeError::Different { at: 1, what: "what is swept" });
    assert!(MergeError::Damaged { at: 1, what: String::new() }.to_string().starts_with("the 2nd result is damaged"));
    let older = SweepReport { generator: "servelab 0.0.0".into(), ..second.clone() };
    assert!(matches!(both(older), MergeError::Different { what: "the version of the program that made it", .. }));
    let mut wrong = second.clone();
    wrong.cells[0].seed = 99;
    assert!(matches!(both(wrong), MergeError::Damaged { .. }));
    let mut wrong = second.clone();
    wrong.cells[1].cell = 77;
    assert!(matches!(both(wrong), MergeError::Damaged { .. }));
    let mut wrong = second.clone();
    wrong.cells[0].policies.pop();
    assert!(matches!(both(wrong), MergeError::Damaged { .. }));
    let mut wrong = first.clone();
    wrong.cells[0].policies[0].reuse = Some(0.5);
    assert_eq!(both(wrong), MergeError::Contradiction { what: "cell", number: 0 });
    let mut hole = second;
    hole.cells.remove(1);
    assert_eq!(
        both(hole).to_string(),
        "1 of 6 cells are missing, the first of them cell 3",
        "it is a shard of 4, of 5 or of 6"
    );
}

#[test]
fn points_that_cannot_run_are_found_before_any_does() {
    let axes = |text: &str| vec![Axis::parse(text).unwrap()];
    let sweep = |text: &str| SweepSpec { version: SCHEMA_VERSION, spec: small(), axes: axes(text), seeds: 1 };
    for (text, field) in [
        ("policies.1.params.guard_ratio=1.5,0.1", "guard_ratio"),
        ("policies.0.params.guard_ratio=1.5", "guard_ratio"),
        ("execution.cost=tinygpt_wasm,abacus", "execution.cost"),
        ("workload.rte=1", "workload.rte"),
        ("engine.max_batch=8,1024", "engine.token_budget"),
    ] {
        let error = Plan::new(sweep(text)).unwrap().check().unwrap_err();
        assert!(error.field.contains(field), "{text}: {error}");
    }
    Plan::new(sweep("policies.1.params.guard_ratio=1.5,2")).unwrap().check().unwrap();
}

#[test]
fn labels_leave_swept_parameters_out() {
    let mut spec = small();
    spec.policies[1] = spec.policies[1].clone().with("guard_ratio", 2.0).with("prefix_tokens", 32.0);
    let axes = vec![Axis::parse("policies.1.params.guard_ratio=1.5,3").unwrap()];
    let plan = Plan::new(SweepSpec { version: SCHEMA_VERSION, spec, axes, seeds: 1 }).unwrap();
    let label = &plan.report(vec![]).policies[1].label;
    assert!(!label.contains("guard") && label.contains("32"), "{label}");
}

#[test]
fn rows_hold_points_and_seeds() {
    let report = shard(&plan(&["workload.rate=0.5,1", "replicas=2,3"], 2), 1, 1);
    let csv = sweep_csv(&report);
    let lines: Vec<&str> = csv.lines().collect();
    // Four points, two policies, a mean and two seeds each.
    assert_eq!(lines.len(), 1 + 4 * 2 * 3);
    assert!(lines[0].starts_with("workload.rate,replicas,policy,label,seed,offered_per_s,offered_per_s.low,"));
    assert!(lines.iter().all(|line| line.matches(',').count() == lines[0].matches(',').count()));
    assert!(lines[1].starts_with("0.5,2,round_robin,Round-robin,,"));
    assert!(lines[2].starts_with("0.5,2,round_robin,Round-robin,7,"));
    assert!(lines[4].starts_with("0.5,2,prefix_affinity,Prefix affinity,,"));
    let column = |name: &str| lines[0].split(',').position(|cell| cell == name).unwrap();
    let cell = |line: usize, name: &str| lines[line].split(',').nth(column(name)).unwrap();
    let versus = report.points[0].policies[1].versus_first.unwrap().reuse.unwrap();
    assert_eq!(cell(4, "reuse.versus_first"), versus.mean.to_string());
    assert_eq!(cell(4, "reuse.versus_first.significant"), if versus.significant { "1" } else { "0" });
    assert_eq!(cell(1, "reuse.versus_first"), "");
    assert_eq!(cell(2, "reuse"), report.cells[0].policies[0].reuse.unwrap().to_string());
}
