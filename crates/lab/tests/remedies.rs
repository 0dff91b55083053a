//! What is done in mid-run about a service that stays down, and where on the map it stays down at all.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use servelab_lab::recovery::Recovery;
use servelab_lab::sweep::Plan;
use servelab_lab::{chart, presets, run_priced};
use servelab_spec::protocol::SweepChartRequest;
use servelab_spec::sweep::{Axis, Figure, SweepReport, SweepSpec};
use servelab_spec::{SCHEMA_VERSION, Spec, patch};

fn changed(start: Spec, changes: &[(&str, &str)]) -> Spec {
    changes.iter().fold(start, |spec, (key, value)| patch::set(&spec, key, value).unwrap())
}

/// The service that stays down, and what is done about it a hundred seconds before the end.
fn remedied(changes: &[(&str, &str)]) -> Vec<Recovery> {
    let of = |seed| {
        let spec = changed(presets::find("metastable").unwrap().spec, &[("faults.remedy_at_s", "80")]);
        let report = run_priced(&Spec { seed, ..changed(spec, changes) }).unwrap();
        let share = report.policies[0].in_time_at_end.unwrap();
        println!("{changes:?}, seed {seed}: {share:.3} in time at the end");
        Recovery::of(share)
    };
    (1..=4).map(of).collect()
}

#[test]
fn which_remedies_heal() {
    use Recovery::{Recovers, StaysDown};
    let heals = |changes: &[(&str, &str)], wanted| assert_eq!(remedied(changes), [wanted; 4], "{changes:?}");
    heals(&[], StaysDown);
    heals(&[("faults.remedy", "cancel")], Recovers);
    // Three attempts of each and twelve requests a second are 36, and the server does 20: thrice the slots are more, and half as many again are less.
    heals(&[("faults.remedy", "raise_limits"), ("faults.remedy_times", "3")], Recovers);
    heals(&[("faults.remedy", "raise_limits"), ("faults.remedy_times", "1.5")], StaysDown);
    // Some nine hundred attempts wait, 45 s of work. All are turned away until they are gone, or not quite; half of them leave 18 attempts a second, and little
    // to work the queue off with.
    let drop = ("faults.remedy", "drop_load");
    heals(&[drop, ("faults.remedy_share", "1"), ("faults.remedy_for_s", "90")], Recovers);
    heals(&[drop, ("faults.remedy_share", "1"), ("faults.remedy_for_s", "30")], StaysDown);
    heals(&[drop, ("faults.remedy_share", "0.5"), ("faults.remedy_for_s", "90")], StaysDown);
    // Budgets stop the loop; what piled up is still worked off, for nobody, at 20 − 12 a second: soon after the stop that is little.
    heals(&[("faults.remedy", "budgets"), ("faults.remedy_at_s", "120")], StaysDown);
    heals(&[("faults.remedy", "budgets"), ("faults.remedy_at_s", "45")], Recovers);
}

#[test]
fn limits_that_are_not_there_can_not_be_raised() {
    let refused = |spec: &Spec| spec.validate().err().map(|error| error.field);
    let spec = changed(presets::find("multi-tenant").unwrap().spec, &[("faults.remedy", "raise_limits")]);
    assert_eq!(refused(&spec).as_deref(), Some("faults.remedy"));
    let spec = changed(spec, &[("gateway.on", "on")]);
    assert_eq!(refused(&spec).as_deref(), Some("faults.remedy"));
    assert_eq!(refused(&changed(spec.clone(), &[("gateway.concurrency", "10")])), None);
    assert!(patch::set(&spec, "faults.remedy_times", "0.5").is_err());
}

fn map(axes: &[&str], changes: &[(&str, &str)], seeds: u32) -> SweepReport {
    let spec = changed(presets::find("metastable").unwrap().spec, changes);
    let axes = axes.iter().map(|text| Axis::parse(text).unwrap()).collect();
    let plan = Plan::new(SweepSpec { version: SCHEMA_VERSION, spec, axes, seeds }).unwrap();
    plan.check().unwrap();
    plan.report((0..plan.cells()).map(|cell| plan.run(cell).unwrap()).collect())
}

/// Of each point: the value of both axes and what became of it.
fn states(report: &SweepReport) -> Vec<(f64, f64, Recovery)> {
    let state = |point: &servelab_spec::sweep::PointReport| {
        let share = point.policies[0].mean.get(Figure::InTimeAtEnd).unwrap().mean;
        let at = |axis: usize| point.at[axis].number().unwrap();
        println!("load {}, {}: {share:.3}", at(0), at(1));
        (at(0), at(1), Recovery::of(share))
    };
    report.points.iter().map(state).collect()
}

/// C4 of the overload facts: below C ÷ A everything recovers, above C nothing does, and in between the trigger decides. Three attempts of each.
#[test]
fn the_map_has_its_borders_where_arithmetic_has_them() {
    let small = [("workload.requests", "1200"), ("faults.down_at_s", "5")];
    let report = map(&["workload.rate=0.15,0.25,0.45,0.6,1.15", "faults.down_s=0.2,4,12"], &small, 1);
    let states = states(&report);
    for &(load, down, state) in &states {
        if load < 1.0 / 3.0 {
            assert_eq!(state, Recovery::Recovers, "load {load}, down for {down} s");
        } else if load > 1.0 {
            assert_eq!(state, Recovery::StaysDown, "load {load}, down for {down} s");
        }
    }
    let between = || states.iter().filter(|(load, ..)| (1.0 / 3.0..1.0).contains(load)).map(|(.., state)| *state);
    assert!(between().any(|state| state == Recovery::Recovers) && between().any(|state| state == Recovery::StaysDown));

    let request = SweepChartRequest {
        figure: Figure::InTimeAtEnd,
        policy: 0,
        against: None,
        width: 900,
        height: 400,
        dark: false,
    };
    let picture = chart::draw_sweep(&request, &report).unwrap();
    for part in [">C ÷ A</text>", ">C</text>", "stays down", "recovers"] {
        assert!(picture.svg.contains(part), "{part}: {}", picture.svg);
    }
    // A third lies between 0.25 and 0.45, one between 0.6 and 1.15.
    let [left, _, width, _] = picture.area;
    for place in [1.5 + (1.0 / 3.0 - 0.25) / 0.2, 3.5 + 0.4 / 0.55] {
        let x = format!("x1=\"{:.1}\"", left + width * place / 5.0);
        assert!(picture.svg.contains(&x), "{x}: {}", picture.svg);
    }
    let up = states.iter().filter(|(.., state)| *state == Recovery::Recovers).count();
    assert!(picture.title.contains(&format!("Of 15 points it recovers at {up} ")), "{}", picture.title);
}

/// With attempts on the other axis the border is a curve: C ÷ A of each.
#[test]
fn attempts_bend_the_border() {
    let small = [("workload.requests", "1200"), ("faults.down_at_s", "5")];
    let report = map(&["workload.rate=0.15,0.3,0.45,0.6", "clients.policies.0.params.attempts=1,2,4"], &small, 1);
    for (load, attempts, state) in states(&report) {
        if load * attempts < 0.65 {
            assert_eq!(state, Recovery::Recovers, "load {load}, {attempts} attempts");
        }
    }
    let request = SweepChartRequest {
        figure: Figure::InTimeAtEnd,
        policy: 0,
        against: None,
        width: 900,
        height: 400,
        dark: true,
    };
    let picture = chart::draw_sweep(&request, &report).unwrap();
    let [left, _, width, _] = picture.area;
    // One attempt: at C, far beyond 0.6. Two and four: 0.5 and 0.25.
    for place in [2.5 + 0.05 / 0.15, 0.5 + 0.1 / 0.15] {
        let x = format!("x1=\"{:.1}\"", left + width * place / 4.0);
        assert!(picture.svg.contains(&x), "{x}: {}", picture.svg);
    }
    let against = picture.svg.matches("stroke-dasharray=\"6 4\"").count();
    assert_eq!(against, 3, "two stretches and the step between them: {}", picture.svg);
    assert!(picture.series[0].label.starts_with("Retries at once: attempts 1"), "{:?}", picture.series[0].label);
}
