//! Cells of sweeps and trials of knees at the desk: its promise W4, and that slices give the lab's own numbers.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use servelab_lab::knee::KneePlan;
use servelab_lab::sweep::Plan;
use servelab_spec::knee::{KneeChartRequest, KneeCurve, KneeSpec};
use servelab_spec::patch;
use servelab_spec::protocol::{FromWorker, SweepChartRequest, ToWorker};
use servelab_spec::sweep::{Axis, Figure, SweepSpec};

fn sweep() -> SweepSpec {
    let spec = patch::set(&preset("multi-tenant"), "workload.requests", "2000").unwrap();
    let axes = vec![Axis::parse("workload.rate=0.5,1").unwrap()];
    SweepSpec { version: servelab_spec::SCHEMA_VERSION, spec, axes, seeds: 2 }
}

#[test]
fn cells_in_slices_give_the_numbers_of_the_lab() {
    let plan = Plan::new(sweep()).unwrap();
    let (mut desk, mut cells) = (priced(), vec![]);
    for cell in [3, 0, 2, 1] {
        let run = 10 + cell;
        assert!(tell(&mut desk, ToWorker::SweepCell { run, sweep: Box::new(sweep()), cell }).is_empty());
        let mut said = work(&mut desk);
        assert!(desk.busy(), "a slice is not the whole cell");
        said.extend(finish(&mut desk));
        let Some(FromWorker::SweepCell { run: of, cell: at, result: Some(result) }) = said.pop() else { panic!("W4") };
        assert_eq!((of, at), (run, cell));
        assert_eq!(*result, plan.run(cell).unwrap());
        let fractions: Vec<f64> = (said.iter())
            .map(|message| match message {
                FromWorker::Progress { run: of, fraction, .. } if *of == run => *fraction,
                other => panic!("W4: {other:?}"),
            })
            .collect();
        assert!(fractions.len() > 1 && fractions.windows(2).all(|pair| pair[0] <= pair[1]), "{fractions:?}");
        cells.push(*result);
    }
    let said = tell(&mut desk, ToWorker::SweepReport { run: 20, sweep: Box::new(sweep()), cells: cells.clone() });
    let [FromWorker::SweepReport { run: 20, report }] = &said[..] else { panic!("{said:?}") };
    assert_eq!(**report, plan.report(cells));
    let chart =
        SweepChartRequest { figure: Figure::TtftP95S, policy: 0, against: None, width: 640, height: 320, dark: false };
    let ask = |chart| ToWorker::SweepChart { run: 21, report: report.clone(), chart };
    let drawn = tell(&mut desk, ask(chart));
    assert!(matches!(&drawn[..], [FromWorker::Chart { run: 21, chart }] if chart.svg.starts_with("<svg")));
    let refused = tell(&mut desk, ask(SweepChartRequest { width: 1, ..chart }));
    assert!(matches!(&refused[..], [FromWorker::Failed { run: 21, field: Some(field), .. }] if field == "chart.width"));
}

#[test]
fn a_cell_is_answered_once_whatever_happens() {
    let mut desk = priced();
    let cell = |run, cell| ToWorker::SweepCell { run, sweep: Box::new(sweep()), cell };
    // A run waits, and goes on afterwards.
    tell(&mut desk, run(1, &preset("book-trace")));
    tell(&mut desk, cell(2, 0));
    work(&mut desk);
    let said = tell(&mut desk, ToWorker::Cancel { run: 2 });
    assert!(matches!(&said[..], [FromWorker::SweepCell { run: 2, cell: 0, result: None }]), "{said:?}");
    assert!(tell(&mut desk, ToWorker::Cancel { run: 2 }).is_empty());
    assert!(matches!(finish(&mut desk).last(), Some(FromWorker::Report { run: 1, partial: false, .. })));
    // Another takes its place.
    tell(&mut desk, cell(3, 1));
    let said = tell(&mut desk, cell(4, 2));
    assert!(matches!(&said[..], [FromWorker::SweepCell { run: 3, cell: 1, result: None }]), "{said:?}");
    let said = finish(&mut desk);
    assert!(matches!(said.last(), Some(FromWorker::SweepCell { run: 4, cell: 2, result: Some(_) })));
    // A cell that there is not, or that can not be run.
    let said = tell(&mut desk, cell(5, 4));
    assert!(
        matches!(&said[..], [FromWorker::Failed { run: 5, field: Some(field), .. }] if field == "cell"),
        "{said:?}"
    );
    let mut wrong = sweep();
    wrong.axes[0].key = "workload.rte".into();
    let said = tell(&mut desk, ToWorker::SweepCell { run: 6, sweep: Box::new(wrong), cell: 0 });
    assert!(matches!(&said[..], [FromWorker::Failed { run: 6, field: Some(field), .. }] if field == "workload.rte"));
    assert!(!desk.busy());
}

#[test]
fn trials_in_slices_give_the_knees_of_the_lab() {
    let spec = patch::set(&preset("multi-tenant"), "workload.requests", "60").unwrap();
    let knee = KneeSpec { version: servelab_spec::SCHEMA_VERSION, spec, seeds: 1 };
    let plan = KneePlan::new(knee.clone()).unwrap();
    let (mut desk, mut trials) = (priced(), vec![]);
    for trial in 0..plan.trials() {
        tell(&mut desk, ToWorker::KneeTrial { run: trial, knee: Box::new(knee.clone()), trial });
        let said = finish(&mut desk);
        let Some(FromWorker::KneeTrial { result: Some(result), .. }) = said.last() else { panic!("W4: {said:?}") };
        assert_eq!(**result, plan.run(trial).unwrap());
        trials.push((**result).clone());
    }
    let said = tell(&mut desk, ToWorker::KneeReport { run: 9, knee: Box::new(knee.clone()), trials: trials.clone() });
    let [FromWorker::KneeReport { run: 9, report }] = &said[..] else { panic!("{said:?}") };
    assert_eq!(**report, plan.report(trials));
    let chart = KneeChartRequest { curve: KneeCurve::TtftP95, width: 640, height: 320, dark: false };
    let said = tell(&mut desk, ToWorker::KneeChart { run: 11, report: report.clone(), chart });
    assert!(matches!(&said[..], [FromWorker::Chart { run: 11, chart }] if !chart.findings.is_empty()), "{said:?}");
    tell(&mut desk, ToWorker::KneeTrial { run: 10, knee: Box::new(knee), trial: 0 });
    let said = tell(&mut desk, ToWorker::Cancel { run: 10 });
    assert!(matches!(&said[..], [FromWorker::KneeTrial { run: 10, trial: 0, result: None }]));
}
