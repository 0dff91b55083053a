//! The desk without a browser: its promises W1 to W3, and that a run in slices gives the lab's own bytes.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use servelab_engine::{ExecuteError, Executor, StepOutput, StepPlan};
use servelab_lab::{run_priced, startup};
use servelab_spec::coldstart::ColdStartQuery;
use servelab_spec::experiment::{ExecutionMode, PolicySpec};
use servelab_spec::protocol::{ChartRequest, DeviceReport, ExportKind, FromWorker, LATEST_S, ToWorker};
use servelab_spec::{Spec, patch};
use servelab_worker::desk::{Clock, Desk};
use servelab_worker::{Devices, OpenError, Opened};

#[test]
fn a_run_in_slices_gives_the_bytes_of_the_lab() {
    let spec = preset("book-trace");
    let mut desk = priced();
    tell(&mut desk, run(1, &spec));
    let said = finish(&mut desk);
    let Some(FromWorker::Report { run: 1, partial: false, report }) = said.last() else { panic!("{said:?}") };
    let bytes = |report: &servelab_spec::Report| serde_json::to_string(report).unwrap();
    assert_eq!(bytes(report), bytes(&run_priced(&spec).unwrap()));
    let ends = said.iter().filter(|m| matches!(m, FromWorker::Report { .. } | FromWorker::Failed { .. })).count();
    assert_eq!(ends, 1, "W2");
}

/// A finished run leaves as files; a run that is not there has none.
#[test]
fn a_run_leaves_as_a_file() {
    let mut desk = priced();
    tell(&mut desk, run(1, &preset("book-trace")));
    finish(&mut desk);
    for kind in [ExportKind::Perfetto, ExportKind::Prometheus, ExportKind::Methods, ExportKind::Markdown] {
        let said = tell(&mut desk, ToWorker::Export { run: 1, kind });
        let [FromWorker::Export { run: 1, kind: of, file }] = said.as_slice() else { panic!("{said:?}") };
        assert!(*of == kind && file.name.starts_with("servelab-book-trace-seed7") && !file.text.is_empty());
    }
    assert!(tell(&mut desk, ToWorker::Export { run: 2, kind: ExportKind::Methods }).is_empty());
}

/// It is answered at once, whatever else is under way, and a refusal names the field.
#[test]
fn a_cold_start_is_answered_beside_a_run() {
    let mut desk = priced();
    tell(&mut desk, run(1, &preset("book-trace")));
    let startup = startup::presets::find("l40s_8b").unwrap().startup;
    let query = ColdStartQuery { startup, ..ColdStartQuery::default() };
    let ask = |query: &ColdStartQuery| ToWorker::ColdStart { run: 7, query: Box::new(query.clone()) };
    let said = tell(&mut desk, ask(&query));
    let [FromWorker::ColdStart { run: 7, answer }] = &said[..] else { panic!("{said:?}") };
    assert_eq!(**answer, startup::cold_start(&query).unwrap());
    let said = tell(&mut desk, ask(&ColdStartQuery { together: 0, ..query }));
    let [FromWorker::Failed { run: 7, field: Some(field), .. }] = &said[..] else { panic!("{said:?}") };
    assert_eq!(field, "together");
    assert!(matches!(finish(&mut desk).last(), Some(FromWorker::Report { run: 1, .. })));
}

#[test]
fn every_policys_end_is_known_before_the_report() {
    let spec = preset("book-trace");
    let mut desk = priced();
    tell(&mut desk, run(1, &spec));
    let said = finish(&mut desk);
    let Some(FromWorker::Report { report, .. }) = said.last() else { panic!("no report") };
    for (policy, result) in report.policies.iter().enumerate() {
        let reached = said.iter().filter_map(|message| match message {
            FromWorker::Progress { policy: of, t_s, .. } if *of == policy as u32 => Some(*t_s),
            _ => None,
        });
        let reached = reached.fold(0.0, f64::max);
        assert!(
            reached >= result.duration_s,
            "policy {policy} ran {} s, the page knows {reached} s",
            result.duration_s
        );
    }
}

#[test]
fn frames_are_answered_one_by_one_while_a_run_goes_on() {
    let mut spec = preset("multi-tenant");
    if let servelab_spec::experiment::WorkloadSpec::MultiTenant(workload) = &mut spec.workload {
        workload.requests = 5000;
    }
    let mut desk = priced();
    tell(&mut desk, run(3, &spec));
    work(&mut desk);
    assert!(desk.busy(), "a slice is not the whole run");
    for t_s in [0.0, 0.1, 1e9, -1.0, f64::NAN] {
        let said = tell(&mut desk, ToWorker::Frame { run: 3, policy: 0, t_s, only: None });
        assert!(matches!(&said[..], [FromWorker::Frame { run: 3, .. }]), "W1 at {t_s}: {said:?}");
    }
    let said = tell(&mut desk, ToWorker::Frame { run: 3, policy: 77, t_s: 0.0, only: None });
    assert!(matches!(&said[..], [FromWorker::Frame { .. }]), "W1 holds for a policy that there is not");
    assert!(tell(&mut desk, ToWorker::Frame { run: 2, policy: 0, t_s: 0.0, only: None }).is_empty(), "W3");
}

/// Pictures of the latest instant, and charts, take a twentieth of the time and no more; each is answered once, in order, at the latest when the run ends.
#[test]
fn what_follows_a_run_waits_until_the_run_can_spare_the_time() {
    let latest = || ToWorker::Frame { run: 1, policy: 0, t_s: LATEST_S, only: None };
    let chart = || ToWorker::Chart {
        run: 1,
        chart: ChartRequest {
            id: "outstanding_over_time".into(),
            width: 400,
            height: 200,
            dark: false,
            ..ChartRequest::default()
        },
    };
    let mut desk = priced();
    let long = patch::set(&preset("multi-tenant"), "workload.requests", "20000").unwrap();
    tell(&mut desk, run(1, &long));
    work(&mut desk);
    let said = tell(&mut desk, latest());
    let [FromWorker::Frame { frame: first, .. }] = said.as_slice() else { panic!("{said:?}") };
    assert!(tell(&mut desk, latest()).is_empty() && tell(&mut desk, chart()).is_empty());
    // Every look at this clock takes a millisecond, so a picture takes one or two and nineteen times that is a few slices.
    let mut said = Vec::new();
    while said.iter().filter(|m| matches!(m, FromWorker::Frame { .. } | FromWorker::Chart { .. })).count() < 2 {
        assert!(desk.busy(), "they come while the run goes on");
        said.extend(work(&mut desk));
    }
    let pictures = said.iter().filter(|m| !matches!(m, FromWorker::Progress { .. })).collect::<Vec<_>>();
    let [FromWorker::Frame { frame: second, .. }, FromWorker::Chart { chart: drawn, .. }] = pictures.as_slice() else {
        panic!("{said:?}")
    };
    assert!(second.t_s > first.t_s, "it is of the instant at which it was made");
    assert!(drawn.series.iter().any(|series| !series.x.is_empty()));
    // An earlier instant is somebody looking back: at once.
    let back = tell(&mut desk, ToWorker::Frame { run: 1, policy: 0, t_s: first.t_s, only: None });
    let [FromWorker::Frame { frame, .. }] = back.as_slice() else { panic!("{back:?}") };
    assert_eq!(frame.t_s, first.t_s);
    while tell(&mut desk, latest()).is_empty() {
        assert!(desk.busy());
        if work(&mut desk).iter().any(|m| matches!(m, FromWorker::Frame { .. })) {
            break;
        }
    }
    assert!(tell(&mut desk, latest()).is_empty());
    let said = tell(&mut desk, ToWorker::Cancel { run: 1 });
    let order = said.iter().position(|m| matches!(m, FromWorker::Frame { .. }));
    assert!(order.is_some() && order < said.iter().position(|m| matches!(m, FromWorker::Report { .. })), "{said:?}");
}

#[test]
fn steps_go_forward_and_stop_at_what_is_simulated() {
    let mut desk = priced();
    tell(&mut desk, run(1, &preset("book-trace")));
    let said = finish(&mut desk);
    let Some(FromWorker::Report { report, .. }) = said.last() else { panic!("no report") };
    let mut t = 0.0;
    let mut steps = 0u64;
    loop {
        let said = tell(&mut desk, ToWorker::Step { run: 1, policy: 0, t_s: t, only: None });
        let [FromWorker::Frame { frame, .. }] = &said[..] else { panic!("W1: {said:?}") };
        if frame.t_s <= t {
            break;
        }
        t = frame.t_s;
        steps += 1;
    }
    // Another policy may have run for longer, and the clock is there.
    let said = tell(&mut desk, ToWorker::Step { run: 1, policy: 0, t_s: t + 0.25, only: None });
    assert!(matches!(&said[..], [FromWorker::Frame { frame, .. }] if frame.t_s == t + 0.25), "{said:?}");
    // Every step's end is an instant of its own on its replica; what replicas do at the same instant counts once. Beside
    // the ends there are starts of steps after a pause, which are arrivals.
    let policy = &report.policies[0];
    let longest = policy.replicas.iter().map(|replica| replica.steps).max().unwrap();
    assert!(steps >= longest, "{steps} stops, but one replica alone ran {longest} steps");
    assert!(steps <= policy.steps + 24, "{steps} stops for {} steps and 24 arrivals", policy.steps);
}

#[test]
fn a_cancelled_run_reports_what_it_has() {
    let mut spec = preset("multi-tenant");
    if let servelab_spec::experiment::WorkloadSpec::MultiTenant(workload) = &mut spec.workload {
        workload.requests = 5000;
    }
    let mut desk = priced();
    tell(&mut desk, run(1, &spec));
    work(&mut desk);
    let said = tell(&mut desk, ToWorker::Cancel { run: 1 });
    let Some(FromWorker::Report { partial: true, report, .. }) = said.last() else { panic!("{said:?}") };
    let first = &report.policies[0].requests;
    assert!(first.finished < 5000);
    assert!(!desk.busy());
    assert!(tell(&mut desk, ToWorker::Cancel { run: 1 }).is_empty(), "W2: a run ends once");
    let chart =
        ChartRequest { id: "ttft_over_time".into(), width: 600, height: 260, dark: false, ..ChartRequest::default() };
    let drawn = tell(&mut desk, ToWorker::Chart { run: 1, chart });
    assert!(matches!(&drawn[..], [FromWorker::Chart { .. }]), "a partial run has charts");
}

#[test]
fn a_wrong_spec_is_refused_with_the_field_at_fault() {
    let mut spec = preset("book-trace");
    spec.policies = vec![PolicySpec::named("coin_flip")];
    let said = tell(&mut priced(), run(9, &spec));
    let [FromWorker::Failed { run: 9, message, field: Some(field) }] = &said[..] else { panic!("{said:?}") };
    assert!(field.starts_with("policies") && message.contains("coin_flip"), "{field}: {message}");
}

#[test]
fn a_new_run_takes_the_place_of_the_old_one() {
    let mut desk = priced();
    tell(&mut desk, run(1, &preset("multi-tenant")));
    tell(&mut desk, run(2, &preset("book-trace")));
    let said = finish(&mut desk);
    assert!(said.iter().all(|message| match message {
        FromWorker::Progress { run, .. } | FromWorker::Report { run, .. } => *run == 2,
        _ => true,
    }));
}

#[test]
fn stories_are_told_of_every_request() {
    let mut desk = priced();
    tell(&mut desk, run(1, &preset("book-trace")));
    finish(&mut desk);
    for request in 0..24 {
        let said = tell(&mut desk, ToWorker::Request { run: 1, policy: 0, request });
        let [FromWorker::Request { story, .. }] = &said[..] else { panic!("{said:?}") };
        assert_eq!(story.request, request);
        assert!(story.replica.is_some() && story.prompt_tokens > 384);
    }
    let said = tell(&mut desk, ToWorker::Request { run: 1, policy: 0, request: 24 });
    let [FromWorker::Request { story, .. }] = &said[..] else { panic!("{said:?}") };
    assert!(story.why.contains("24"), "the story of a request that is not there says so: {}", story.why);
}

/// Computes nothing, but says so as a device would.
struct Paper {
    opened: u32,
    given_back: u32,
    loses: bool,
}

struct PaperExecutor {
    steps: u32,
    loses: bool,
}

impl Executor for PaperExecutor {
    async fn execute(&mut self, _: u32, plan: &StepPlan) -> Result<StepOutput, ExecuteError> {
        self.steps += 1;
        if self.loses && self.steps > 100 {
            return Err(ExecuteError::DeviceLost { reason: "unplugged".into() });
        }
        let tokens = plan.items.iter().filter(|item| item.sample).map(|_| 65).collect();
        let work = &plan.work;
        let seconds = 1e-3 + 1e-5 * work.prefill_tokens as f64 + 1e-4 * work.decode_sequences as f64;
        Ok(StepOutput { tokens, seconds: Some(seconds) })
    }

    fn device(&self) -> String {
        "paper".into()
    }
}

impl Devices for Paper {
    type Executor = PaperExecutor;

    async fn open(&mut self, _: &Spec) -> Result<Opened<PaperExecutor>, OpenError> {
        self.opened += 1;
        let executor = PaperExecutor { steps: 0, loses: self.loses };
        Ok(Opened { executor, fallback: Some("no pencil".into()) })
    }

    fn close(&mut self, _: PaperExecutor) {
        self.given_back += 1;
    }

    async fn measure(&mut self, _: bool) -> Vec<DeviceReport> {
        vec![DeviceReport { kind: "cpu".into(), name: "paper".into(), ..DeviceReport::default() }]
    }
}

fn live() -> Spec {
    let mut spec = preset("book-trace");
    spec.execution.mode = ExecutionMode::Tinygpt;
    spec
}

#[test]
fn a_live_run_opens_measures_and_computes() {
    let mut desk = Desk::new(Paper { opened: 0, given_back: 0, loses: false }, ticking as Clock);
    let mut said = tell(&mut desk, run(1, &live()));
    said.extend(finish(&mut desk));
    let stages: Vec<&str> = said
        .iter()
        .filter_map(|message| match message {
            FromWorker::Progress { stage, .. } => Some(stage.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(stages[..2], ["loading", "calibrating"]);
    assert!(stages[2..].iter().all(|stage| *stage == "running") && stages.len() > 3);
    let Some(FromWorker::Report { report, .. }) = said.last() else { panic!("no report") };
    assert_eq!(report.cost.device, "paper");
    assert_eq!(report.cost.fallback.as_deref(), Some("no pencil"));
    assert_eq!(report.policies[0].reuse.hit_tokens, 2464, "round-robin's reuse does not depend on who computes");
    let story = tell(&mut desk, ToWorker::Request { run: 1, policy: 0, request: 0 });
    let [FromWorker::Request { story, .. }] = &story[..] else { panic!("{story:?}") };
    assert!(story.output.as_deref().is_some_and(|text| text.starts_with("AAAA")), "{story:?}");
}

#[test]
fn a_lost_device_fails_the_run_without_blaming_a_field() {
    let mut desk = Desk::new(Paper { opened: 0, given_back: 0, loses: true }, ticking as Clock);
    tell(&mut desk, run(1, &live()));
    let said = finish(&mut desk);
    let Some(FromWorker::Failed { message, field: None, .. }) = said.last() else { panic!("{said:?}") };
    assert!(message.contains("unplugged"));
    let measured = tell(&mut desk, ToWorker::Measure { allow_software: true });
    assert!(matches!(&measured[..], [FromWorker::Measured { devices }] if devices.len() == 1));
}

#[test]
fn a_worker_without_devices_says_what_to_choose() {
    let mut desk = priced();
    tell(&mut desk, run(1, &live()));
    let said = finish(&mut desk);
    let Some(FromWorker::Failed { field: Some(field), .. }) = said.last() else { panic!("{said:?}") };
    assert_eq!(field, "execution.mode");
}

/// W2, and the desk goes on: a script may do whatever it likes to itself.
#[test]
fn a_script_that_goes_wrong_ends_its_run_and_nothing_else() {
    let script = |text: &str| Spec {
        policies: vec![PolicySpec::named("round_robin"), PolicySpec::scripted(text)],
        ..preset("book-trace")
    };
    let mut desk = priced();
    for (number, text, found) in [
        (1, "fn route(request, replicas) {\n  loop { }\n}", "line 2: more than"),
        (2, "fn route(request, replicas) {\n  let a = []; loop { a.push(a) }\n}", "exceeds what a script may hold"),
        (3, "fn route(request, replicas) {\n  \"no\"\n}", "line 1: route returned a text"),
        (4, "fn route(request, replicas) { 99 }", "route returned 99, which is none of the replicas"),
        (5, "fn route(request, replicas) {\n\n nobody }", "line 3: there is no nobody here"),
    ] {
        tell(&mut desk, run(number, &script(text)));
        let said = finish(&mut desk);
        let Some(FromWorker::Failed { run, message, field }) = said.last() else { panic!("{text}: {said:?}") };
        assert_eq!((*run, field.as_deref()), (number, Some("policies.1.script")));
        assert!(message.contains(found), "{message}");
        assert_eq!(
            said.iter().filter(|m| matches!(m, FromWorker::Report { .. } | FromWorker::Failed { .. })).count(),
            1
        );
        // What was simulated until then can be looked at.
        for policy in [0, 1] {
            let said = tell(&mut desk, ToWorker::Frame { run: number, policy, t_s: 0.1, only: None });
            assert!(matches!(&said[..], [FromWorker::Frame { .. }]), "W1: {said:?}");
        }
    }
    // One that can not be read does not start.
    let said = tell(&mut desk, run(6, &script("fn route(request, replicas) {\n  let\n}")));
    let [FromWorker::Failed { message, field: Some(field), .. }] = &said[..] else { panic!("{said:?}") };
    assert!(field == "policies.1.script" && message.contains("line 3 ("), "{message}");
    tell(&mut desk, run(7, &preset("book-trace")));
    assert!(matches!(finish(&mut desk).last(), Some(FromWorker::Report { run: 7, .. })));
}

#[test]
fn a_long_workload_says_how_much_of_it_was_read() {
    let mut desk = priced();
    let spec = patch::set(&preset("multi-tenant"), "workload.requests", "200000").unwrap();
    let said = tell(&mut desk, run(1, &spec));
    let read: Vec<f64> = (said.iter())
        .filter_map(|message| match message {
            FromWorker::Progress { fraction, stage, .. } if stage == "building" => Some(*fraction),
            _ => None,
        })
        .collect();
    assert!(
        read.len() >= 4 && read.windows(2).all(|pair| pair[0] < pair[1]) && read.iter().all(|at| *at <= 1.0),
        "{read:?}"
    );
    let Some(FromWorker::Progress { stage, .. }) = said.last() else { panic!("{said:?}") };
    assert_eq!(stage, "running");
    let short = tell(&mut desk, run(2, &preset("multi-tenant")));
    assert_eq!(short.len(), 1, "a short one says nothing: {short:?}");
}
