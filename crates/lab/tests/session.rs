//! Sessions: the same bytes in pieces of any size, any instant shown as it was, saved and resumed.

#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

use servelab_engine::Nanos;
use servelab_lab::session::byte_text;
use servelab_lab::{RunError, Session, presets, run_priced};
use servelab_spec::Spec;
use servelab_spec::experiment::{PolicySpec, WorkloadSpec};
use servelab_spec::protocol::ChartRequest;

fn json(session: &Session) -> String {
    serde_json::to_string(&session.report()).unwrap()
}

fn spec() -> Spec {
    let mut spec = presets::find("tiny-cache").unwrap().spec;
    if let WorkloadSpec::MultiTenant(w) = &mut spec.workload {
        w.requests = 60;
    }
    spec
}

fn finished(spec: Spec) -> Session {
    let mut session = Session::new(spec).unwrap();
    while !session.advance(u32::MAX).unwrap().done {}
    session
}

/// S1.
#[test]
fn pieces_of_any_size_give_the_same_bytes() {
    let whole = json(&finished(spec()));
    assert_eq!(serde_json::to_string(&run_priced(&spec()).unwrap()).unwrap(), whole);
    for piece in [1, 7, 100] {
        let mut session = Session::new(spec()).unwrap();
        let mut last = session.progress();
        loop {
            let progress = session.advance(piece).unwrap();
            assert!(progress.fraction >= last.fraction && progress.policy >= last.policy);
            assert!(progress.policy > last.policy || progress.t >= last.t);
            // A partial report adds up, too.
            for policy in session.report().policies {
                let r = policy.requests;
                assert_eq!(r.finished + r.rejected + r.pending, r.total);
            }
            last = progress;
            if progress.done {
                break;
            }
        }
        assert_eq!(last.fraction, 1.0);
        assert_eq!(json(&session), whole, "in pieces of {piece}");
    }
}

/// Pictures made from the nearest kept state agree wholly with pictures made from the very start, in whatever order one looks, and
/// stepping visits every instant.
#[test]
fn the_past_is_shown_as_it_was() {
    let mut session = finished(spec());
    // A restored session has kept no state: it goes there from the start, and from where it stands when that is before.
    let mut from_start = Session::restore(session.save()).unwrap();
    for policy in [0, 2] {
        let end = session.simulated(policy).0;
        for part in [99, 40, 41, 42, 10, 80, 3, 77, 78, 0] {
            let t = Nanos(end / 100 * part);
            let frame = session.frame(policy, t).unwrap();
            assert_eq!(frame.t_s, t.as_secs());
            assert_eq!(frame, from_start.frame(policy, t).unwrap(), "policy {policy} at {part} %");
            assert_eq!(frame, session.frame(policy, t).unwrap(), "looking changes nothing");
        }
    }
    let before = json(&session);
    let (mut t, mut steps) = (Nanos::ZERO, 0);
    loop {
        let next = session.next_instant(1, t).unwrap();
        if next <= t {
            break;
        }
        (t, steps) = (next, steps + 1);
        let frame = session.frame(1, t).unwrap();
        assert_eq!(frame.t_s, t.as_secs());
    }
    assert_eq!(t, session.simulated(1));
    let report = session.report();
    assert!(steps as u64 > report.policies[1].steps / 4, "{steps} instants, {} steps", report.policies[1].steps);
    assert_eq!(json(&session), before, "looking changes nothing");
    let last = session.frame(1, Nanos::MAX).unwrap();
    assert_eq!((last.arrived, last.finished), (60, 60));
}

/// Of many replicas a picture lists one and counts the others; what it says is what the whole picture says.
#[test]
fn a_picture_of_one_replica_counts_the_others() {
    let mut session = finished(spec());
    let (mut waited, mut ran) = (0, 0);
    for part in 0..20 {
        let t = Nanos(session.simulated(0).0 / 20 * part);
        let whole = session.frame(0, t).unwrap();
        for only in 0..whole.replicas.len() as u32 {
            let mut brief = session.frame_of(0, t, only).unwrap();
            assert_eq!(brief.replicas[only as usize], whole.replicas[only as usize]);
            for (brief, whole) in brief.replicas.iter_mut().zip(&whole.replicas) {
                assert_eq!(whole.running_total as usize, whole.running.len());
                let lists = brief.running.len() + brief.waiting.len() + brief.blocks.len() + brief.recent.len();
                waited += u32::from(lists == 0 && brief.waiting_total > 0);
                ran += u32::from(lists == 0 && brief.running_total > 0);
                brief.waiting.clone_from(&whole.waiting);
                brief.running.clone_from(&whole.running);
                brief.blocks.clone_from(&whole.blocks);
                brief.recent.clone_from(&whole.recent);
                brief.step = whole.step;
            }
            assert_eq!(brief, whole, "all else is told of every replica");
        }
    }
    assert!(waited > 0 && ran > 0, "somebody waits and somebody runs where nothing is listed");
}

/// The clock is shared, and policies do not end together.
#[test]
fn a_step_forward_never_goes_back() {
    let mut session = finished(presets::find("book-trace").unwrap().spec);
    let heads: Vec<Nanos> = (0..4).map(|policy| session.simulated(policy)).collect();
    let end = *heads.iter().max().unwrap();
    assert!(heads[0] < end, "the premise: this policy ends before another");
    for (policy, &head) in (0..4).zip(&heads) {
        for t in [Nanos(head.0 / 2), Nanos(head.0 - 1), head, Nanos(head.0 + 1), end] {
            let next = session.next_instant(policy, t).unwrap();
            assert!(if t < head { next > t } else { next == t }, "policy {policy} from {t:?} to {next:?}");
            assert!(session.frame(policy, next).unwrap().t_s >= next.min(end).as_secs());
        }
        // Nothing is left to do there, and the clock stands where it was asked for.
        let rest = session.frame(policy, end).unwrap();
        assert_eq!((rest.t_s, rest.finished), (end.as_secs(), 24));
    }
    let mut young = Session::new(presets::find("book-trace").unwrap().spec).unwrap();
    young.advance(5).unwrap();
    let t = young.simulated(0);
    assert!(t > Nanos::ZERO && young.next_instant(1, t).unwrap() == t, "not begun");
}

/// S3.
#[test]
fn a_saved_session_goes_on_as_if_it_had_not_been() {
    let whole = json(&finished(spec()));
    for pieces in [0, 3, 40, 4000] {
        let mut session = Session::new(spec()).unwrap();
        for _ in 0..pieces {
            session.advance(9).unwrap();
        }
        let text = serde_json::to_string(&session.save()).unwrap();
        let mut restored = Session::restore(serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(json(&restored), json(&session));
        let t = restored.simulated(0);
        assert_eq!(restored.frame(0, Nanos(t.0 / 2)).unwrap(), session.frame(0, Nanos(t.0 / 2)).unwrap());
        while !restored.advance(13).unwrap().done {}
        assert_eq!(json(&restored), whole, "saved after {pieces} pieces");
    }
}

#[test]
fn damaged_sessions_are_refused() {
    let mut session = Session::new(spec()).unwrap();
    session.advance(100).unwrap();
    let text = serde_json::to_string(&session.save()).unwrap();
    for (from, to) in [("\"current\":0", "\"current\":99"), ("\"replicas\":4", "\"replicas\":0")] {
        assert!(text.contains(from));
        let damaged = text.replace(from, to);
        let outcome = serde_json::from_str(&damaged).map(Session::restore);
        assert!(!matches!(outcome, Ok(Ok(_))), "{to}");
    }
}

#[test]
fn stories_tell_where_and_why() {
    let mut session = finished(presets::find("book-trace").unwrap().spec);
    for policy in 0..4 {
        for request in [23, 0, 11] {
            let story = session.story(policy, request, &byte_text).unwrap().unwrap();
            assert_eq!(story.request, request);
            assert!(!story.why.is_empty() && story.replica.is_some());
            assert!(story.ttft_s.unwrap() > 0.0 && story.output_tokens > 0);
            assert!(story.prompt.unwrap().len() > 300);
            assert_eq!(story.output, None, "nothing computed a token");
        }
    }
    let first = session.story(1, 23, &byte_text).unwrap().unwrap();
    assert_eq!(first.scores.len(), 4);
    assert!(matches!(session.story(0, 24, &byte_text), Err(RunError::Spec(_))));
    assert!(matches!(session.story(9, 0, &byte_text), Err(RunError::Spec(_))));
    let mut young = Session::new(presets::find("book-trace").unwrap().spec).unwrap();
    assert_eq!(young.story(0, 0, &byte_text).unwrap(), None, "not arrived yet");
}

#[test]
fn charts_follow_the_run() {
    let mut session = Session::new(spec()).unwrap();
    let request =
        |id: &str| ChartRequest { id: id.into(), width: 640, height: 320, dark: true, ..ChartRequest::default() };
    let empty = session.chart(&request("ttft_cdf")).unwrap();
    assert!(empty.svg.contains("yet.") && empty.series.is_empty());
    session.advance(300).unwrap();
    assert_eq!(session.chart(&request("ttft_cdf")).unwrap().series.len(), 1);
    while !session.advance(u32::MAX).unwrap().done {}
    for (id, lanes) in [("ttft_over_time", 6), ("ttft_cdf", 3), ("outstanding_over_time", 3), ("reuse_over_time", 3)] {
        let chart = session.chart(&request(id)).unwrap();
        assert_eq!(chart.series.len(), lanes);
        assert_eq!(chart.svg, session.chart(&request(id)).unwrap().svg);
    }
    // Everything has ended, so nothing is outstanding at the end.
    let chart = session.chart(&request("outstanding_over_time")).unwrap();
    assert!(chart.series.iter().all(|series| series.y.last() == Some(&0.0)));
}

#[test]
fn modes_are_not_mixed_up() {
    let mut live = spec();
    live.execution.mode = servelab_spec::experiment::ExecutionMode::Tinygpt;
    let mut session = Session::new(live).unwrap();
    assert!(session.needs_calibration());
    assert!(matches!(session.advance(1), Err(RunError::Mode(_))));
    assert_eq!(session.report().policies.len(), 3);
    assert!(session.recording().is_none());
}

/// A script that goes wrong in mid-run: an error that names it, and everything until then as it was.
#[test]
fn a_script_that_fails_ends_the_run_and_can_be_looked_at() {
    let text = "state.n = 0;
fn route(request, replicas) {
    state.n += 1;
    if state.n > 30 { throw \"enough\"; }
    state.n % replicas.len()
}";
    let spec = Spec { policies: vec![PolicySpec::named("round_robin"), PolicySpec::scripted(text)], ..spec() };
    let mut session = Session::new(spec).unwrap();
    let error = loop {
        match session.advance(50) {
            Ok(progress) => assert!(!progress.done),
            Err(error) => break error,
        }
    };
    assert_eq!(error.field(), Some("policies.1.script"));
    assert_eq!(error.to_string(), "policies.1.script: line 4: enough");
    assert_eq!(session.advance(50).unwrap_err(), error, "for good");
    let end = session.simulated(1);
    assert!(end > Nanos::ZERO);
    assert_eq!(session.frame(1, Nanos::MAX).unwrap().policy, 1);
    assert_eq!(session.story(1, 29, &byte_text).unwrap().unwrap().why, "the script named it");
    assert_eq!(session.story(1, 30, &byte_text).unwrap().unwrap().why, "the script failed");
    let state = serde_json::to_string(&session.save()).unwrap();
    let mut restored = Session::restore(serde_json::from_str(&state).unwrap()).unwrap();
    assert_eq!(restored.advance(50).unwrap_err(), error);
    assert_eq!((restored.simulated(1), json(&restored)), (end, json(&session)));
}
