//! A file at the desk: handed over in pieces, answered once (T1), its trace on the shelf until another is viewed (T2).
#![allow(clippy::unwrap_used)]

use servelab_spec::protocol::{FromWorker, ToWorker};
use servelab_spec::traffic::{ColumnMap, TraceFormat, TraceQuery};
use servelab_worker::Priced;
use servelab_worker::desk::{Clock, Desk};
use servelab_workload::trace::shelf;
use std::cell::Cell;

const MOONCAKE: &[u8] = include_bytes!("../../workload/tests/data/mooncake.jsonl");
const COLUMNS: &[u8] = include_bytes!("../../workload/tests/data/columns.csv");

/// A clock on which every look costs a millisecond.
fn ticking() -> f64 {
    thread_local!(static NOW: Cell<f64> = const { Cell::new(0.0) });
    NOW.with(|now| {
        now.set(now.get() + 1.0);
        now.get()
    })
}

fn tell(desk: &mut Desk<Priced>, message: ToWorker) -> Vec<FromWorker> {
    let mut said = Vec::new();
    pollster::block_on(desk.hear(message, &mut |answer| said.push(answer)));
    said
}

/// Hands a file over and works until the desk is idle.
fn give(desk: &mut Desk<Priced>, run: u32, file: &[u8], query: TraceQuery) -> Vec<FromWorker> {
    let query = TraceQuery { bytes: file.len() as f64, width: 400, height: 260, ..query };
    let mut said = tell(desk, ToWorker::TraceOpen { run, query });
    let mut pieces = file.chunks(100);
    while desk.reading() {
        desk.feed(pieces.next(), &mut |answer| said.push(answer));
    }
    while desk.busy() {
        pollster::block_on(desk.work(&mut |answer| said.push(answer)));
    }
    said
}

fn ends(said: &[FromWorker]) -> Vec<&FromWorker> {
    said.iter().filter(|answer| !matches!(answer, FromWorker::Progress { .. })).collect()
}

#[test]
fn a_file_is_viewed_and_can_be_run() {
    let mut desk = Desk::new(Priced, ticking as Clock);
    let said = give(&mut desk, 9, MOONCAKE, TraceQuery::default());
    let [FromWorker::Trace { run: 9, view, spec, generator }] = ends(&said)[..] else { panic!("{said:?}") };
    assert_eq!((view.charts.len(), view.remarks.len(), view.map.is_none()), (3, 8, true));
    assert!(view.findings[0].contains("Every request shares block 0"));
    // The other scheme: the same pictures, drawn in other colours and of the same numbers. About another file nothing is said.
    let redraw = |run| ToWorker::TraceCharts { run, width: 400, height: 260, dark: true };
    let [FromWorker::TraceCharts { run: 9, charts }] = &tell(&mut desk, redraw(9))[..] else { panic!("no pictures") };
    assert_eq!(charts.len(), view.charts.len());
    for (dark, light) in charts.iter().zip(&view.charts) {
        assert!(dark.svg != light.svg && dark.series == light.series && dark.id == light.id);
    }
    assert!(tell(&mut desk, redraw(8)).is_empty());
    for (run, spec) in [(10, spec), (11, generator)] {
        let mut said = tell(&mut desk, ToWorker::Run { run, spec: spec.clone() });
        while desk.busy() {
            pollster::block_on(desk.work(&mut |answer| said.push(answer)));
        }
        let finished = said.iter().any(
            |answer| matches!(answer, FromWorker::Report { report, .. } if report.policies[0].requests.finished == 7),
        );
        assert!(finished, "{said:?}");
    }
    // Another file, and the first is gone from the shelf.
    let first = view.trace.clone();
    assert!(shelf::find(&first).is_some());
    let map = ColumnMap::parse("arrival=when,prompt=tokens in,output=tokens out").unwrap();
    let said = give(&mut desk, 12, COLUMNS, TraceQuery { columns: Some(map.clone()), ..TraceQuery::default() });
    let [FromWorker::Trace { view, .. }] = ends(&said)[..] else { panic!("{said:?}") };
    assert_eq!((view.columns.len(), view.map.as_ref().map(|map| map.arrival.as_str())), (5, Some("when")));
    assert!(shelf::find(&first).is_none() && shelf::find(&view.trace).is_some());
}

#[test]
fn every_file_is_answered_once() {
    let mut desk = Desk::new(Priced, ticking as Clock);
    let said = give(&mut desk, 1, COLUMNS, TraceQuery::default());
    assert!(
        matches!(&ends(&said)[..], [FromWorker::TraceColumns { run: 1, columns, .. }] if columns.len() == 5),
        "{said:?}"
    );
    let azure = TraceQuery { format: Some(TraceFormat::Azure), ..TraceQuery::default() };
    let said = give(&mut desk, 2, MOONCAKE, azure);
    assert!(matches!(&ends(&said)[..], [FromWorker::TraceColumns { run: 2, .. }]), "{said:?}");
    let said = give(&mut desk, 3, b"PK\x03\x04and so on", TraceQuery::default());
    assert!(
        matches!(&ends(&said)[..], [FromWorker::Failed { run: 3, message, .. }] if message.contains("zip")),
        "{said:?}"
    );
    // Stopped, replaced, unreadable: each says so, once.
    let open = |run| ToWorker::TraceOpen { run, query: TraceQuery::default() };
    assert!(tell(&mut desk, open(4)).is_empty());
    assert!(matches!(&tell(&mut desk, open(5))[..], [FromWorker::Failed { run: 4, .. }]));
    desk.feed(Some(&MOONCAKE[..200]), &mut |_| {});
    assert!(tell(&mut desk, ToWorker::Cancel { run: 4 }).is_empty());
    assert!(matches!(&tell(&mut desk, ToWorker::Cancel { run: 5 })[..], [FromWorker::Failed { run: 5, .. }]));
    tell(&mut desk, open(6));
    let mut said = vec![];
    desk.unreadable("gone", &mut |answer| said.push(answer));
    assert!(matches!(&said[..], [FromWorker::Failed { run: 6, message, .. }] if message == "gone"));
    assert!(!desk.busy());
}
