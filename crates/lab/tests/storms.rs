//! Storms in whole runs: what the presets of the overload lab are about, over seeds; and what a report says of clients adds up.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use servelab_lab::words::digits;
use servelab_lab::{Session, presets, run_priced};
use servelab_spec::protocol::ChartRequest;
use servelab_spec::report::{ClientsReport, Report};
use servelab_spec::{Spec, patch};

fn spec(name: &str, seed: u64, changes: &[(&str, &str)]) -> Spec {
    let start = Spec { seed, ..presets::find(name).unwrap().spec };
    changes.iter().fold(start, |spec, (key, value)| patch::set(&spec, key, value).unwrap())
}

fn clients(report: &Report) -> Vec<&ClientsReport> {
    report.policies.iter().map(|policy| policy.clients.as_ref().unwrap()).collect()
}

/// The answer of a preset, changed or not, with four seeds.
fn all_say(wanted: u32, name: &str, changes: &[(&str, &str)]) {
    for seed in 1..=4 {
        let verdict = run_priced(&spec(name, seed, changes)).unwrap().verdict.unwrap();
        println!("{name} {changes:?}, seed {seed}: {} {}", verdict.option, verdict.because);
        assert_eq!(verdict.option, wanted, "{name} {changes:?}, seed {seed}: {}", verdict.because);
    }
}

#[test]
fn a_short_stop_breaks_a_service_for_good_and_one_attempt_each_heals_it() {
    all_say(2, "metastable", &[]);
    all_say(0, "metastable", &[("clients.policies.0.params.attempts", "1")]);
    all_say(0, "metastable", &[("clients.cancels", "on")]);
    // Below C/A nothing stays broken.
    all_say(0, "metastable", &[("workload.rate", "0.25")]);
}

#[test]
fn cancelling_what_nobody_waits_for_heals_in_mid_run() {
    all_say(0, "metastable-remedy", &[]);
    all_say(2, "metastable-remedy", &[("faults.remedy", "none")]);
    // Budgets stop the loop, but the server still works off what piled up, for nobody.
    all_say(2, "metastable-remedy", &[("faults.remedy", "budgets")]);
}

#[test]
fn sdk_defaults_do_not_bridge_ten_seconds() {
    all_say(2, "sdk-outage", &[]);
    all_say(0, "sdk-outage", &[("faults.down_s", "0.5")]);
}

#[test]
fn layers_multiply() {
    all_say(1, "retry-layers", &[]);
}

/// Six hundred clients have waited for a server to come back. Where turning one away costs a fifth of serving it, those who ask every second keep it down, and
/// whoever waits longest comes late; where it costs a hundredth, asking often is the quickest.
#[test]
fn who_is_served_first_after_an_outage_depends_on_what_a_rejection_costs() {
    all_say(1, "retry-storm", &[]);
    all_say(0, "retry-storm", &[("faults.reject_cost_s", "0.001")]);
}

/// All at once and alike, clients come back in waves between which the server idles; spread over time by their arrivals they are not alike.
#[test]
fn jitter_matters_where_clients_are_alike() {
    all_say(1, "does-jitter-matter", &[]);
    all_say(3, "does-jitter-matter", &[("workload.rate", "0.8")]);
}

/// The gateway's own Retry-After, obeyed to the letter. Longer on average, and still sooner over.
#[test]
fn the_same_retry_after_for_all_brings_them_back_together() {
    all_say(1, "retry-after", &[]);
    all_say(2, "retry-after", &[("workload.rate", "0.9")]);
    // Who adds chance by himself needs none from the gateway.
    all_say(0, "retry-after", &[("clients.policies", "openai_sdk(attempts=60,retry_after=2,retry_after_spread=2)")]);
}

/// Brooker: backoff defers what open-loop clients send, and does not make it less.
#[test]
fn a_budget_brings_a_server_back_and_backoff_does_not() {
    all_say(1, "backoff-or-budget", &[]);
    all_say(2, "backoff-or-budget", &[("workload.rate", "0.2")]);
    all_say(2, "backoff-or-budget", &[("clients.cancels", "on")]);
}

/// Attempts are accounted for by layer, capacity by use, and a storm that does not end says how many wait.
#[test]
fn what_is_reported_of_clients_adds_up() {
    for (name, changes) in [("retry-storm", &[][..]), ("metastable", &[("clients.patience_s", "0")][..])] {
        let report = run_priced(&spec(name, 3, changes)).unwrap();
        for (policy, of) in report.policies.iter().zip(clients(&report)) {
            let a = of.attempts;
            let refused = a.refused_by_client + a.refused_by_gateway + a.refused_by_router + a.refused_by_replica;
            assert_eq!(a.accepted + refused + a.withdrawn + a.vanished + a.outside + a.held, policy.requests.attempts);
            assert_eq!(policy.requests.attempts - policy.requests.total, of.retries + of.hedges);
            let c = of.capacity;
            assert!((c.useful + c.wasted + c.refusing + c.unfinished + c.down + c.idle - 1.0).abs() < 1e-9, "{c:?}");
            // The one server is away for ten seconds of its life, whether it loses what it has or stands still.
            assert!((c.down - 10.0 / policy.replicas[0].lifetime_s).abs() < 1e-9, "{c:?} {:?}", policy.replicas);
            let r = policy.requests;
            assert_eq!(of.gave_up, r.total - r.finished - r.pending);
            assert_eq!(of.waiting, r.pending);
            assert_eq!(of.all_served_s.is_some(), r.finished == r.total);
            if name == "metastable" {
                assert!(of.waiting > 0, "cut in the middle of the storm");
            }
        }
    }
}

/// What a managed API serves is neither held nor refused: twice what two replicas can do, clients that try three times, and overflow.
#[test]
fn attempts_that_go_to_a_managed_api_are_accounted_for() {
    let changes = [
        ("workload.curve", "0:1.2,0.02:1.2"),
        ("clients.on", "on"),
        ("clients.policies", "openai_sdk(timeout_s=3)"),
        ("engine.max_queued", "8"),
    ];
    let report = run_priced(&spec("overflow", 1, &changes)).unwrap();
    let (policy, of) = (&report.policies[0], clients(&report)[0]);
    let a = of.attempts;
    println!("{a:?}");
    assert!(a.outside > 100 && a.outside >= policy.scaling.as_ref().unwrap().outside);
    let refused = a.refused_by_client + a.refused_by_gateway + a.refused_by_router + a.refused_by_replica;
    let known = a.accepted + refused + a.withdrawn + a.vanished + a.outside;
    assert_eq!((known + a.held, a.held), (policy.requests.attempts, 0), "the run is over, so nothing is held");
}

/// A list of client policies makes a run each; together they make one.
#[test]
fn client_policies_are_contenders_or_share_a_run() {
    let apart = run_priced(&spec("retry-storm", 1, &[])).unwrap();
    let labels: Vec<&str> = apart.policies.iter().map(|policy| policy.label.as_str()).collect();
    assert_eq!(labels.len(), 3);
    assert!(labels[0].starts_with("Every second (attempts 60"), "{labels:?}");
    let together = run_priced(&spec("retry-storm", 1, &[("clients.together", "on")])).unwrap();
    assert_eq!((together.policies.len(), together.policies[0].label.as_str()), (1, "Least outstanding requests"));
    assert!(clients(&together)[0].retries > 0);
}

#[test]
fn nonsense_is_refused_at_its_field() {
    let base = presets::find("retry-storm").unwrap().spec;
    let field = |key: &str, value: &str| match patch::set(&base, key, value) {
        Err(error) => error.field,
        Ok(spec) => servelab_lab::catalog::check(&spec).unwrap_err().field,
    };
    // Named as one types them.
    assert_eq!(field("clients.policies", "nobody"), "clients.policies.0");
    assert_eq!(field("clients.policies", "grpc,nobody"), "clients.policies.1");
    assert_eq!(field("clients.policies", "openai_sdk(attempts=0)"), "clients.policies.0.params.attempts");
    assert_eq!(field("clients.policies.0.params.jitter", "9"), "clients.policies.0.params.jitter");
    assert_eq!(field("clients.policies", "grpc,grpc"), "clients.policies.1");
    assert_eq!(field("clients.processes", "0"), "clients.processes");
    assert_eq!(field("faults.down", "2"), "faults.down");
    assert_eq!(field("faults.errors", "1.5"), "faults.errors");
    assert_eq!(field("server.service_s", "0"), "server.service_s");
    // Switched off, clients keep their list and are as if they had none; what acts on them says what it needs.
    let off = patch::set(&base, "clients.on", "off").unwrap();
    let none = patch::set(&off, "clients.policies", "none").unwrap();
    let report = run_priced(&Spec { seed: 1, ..off }).unwrap();
    assert!(report.policies.len() == 1 && report.policies[0].clients.is_none() && report.verdict.is_none());
    assert_eq!(report.policies[0].requests, run_priced(&Spec { seed: 1, ..none }).unwrap().policies[0].requests);
    let remedied = presets::find("metastable-remedy").unwrap().spec;
    let error = patch::set(&remedied, "clients.on", "off").unwrap().validate().unwrap_err();
    assert!(error.field == "faults.remedy" && error.accepted.contains("clients.on=on"), "{error}");
    let poison = patch::set(&base, "faults.poison", "on").unwrap();
    let beyond = patch::set(&poison, "faults.poison_request", "4000").unwrap();
    assert_eq!(servelab_lab::catalog::check(&beyond).unwrap_err().field, "faults.poison_request");
}

/// Picture, table and verdict have one peak, and two figures of one thing are never both right.
#[test]
fn the_picture_says_the_peak_of_the_table() {
    let mut session = Session::new(spec("retry-storm", 2, &[])).unwrap();
    while !session.advance(u32::MAX).unwrap().done {}
    let peaks: Vec<String> = clients(&session.report()).iter().map(|of| digits(of.peak_per_s)).collect();
    let titles = ["attempts_over_time", "attempts_over_time_log"].map(|id| {
        let request = ChartRequest { id: id.into(), width: 900, height: 400, dark: false, ..ChartRequest::default() };
        session.chart(&request).unwrap().title
    });
    for (peak, label) in peaks.iter().zip(["Every second", "Exponential, no jitter", "Exponential, full jitter"]) {
        assert!(titles.iter().all(|title| title.contains(&format!("{peak} with {label}"))), "{peak} {titles:?}");
    }
}

/// A server that answers as fast as it is asked, under users who wait for it: what is reported is when they asked. Little's law: of n users each spends
/// thinking and service, so n ÷ (think + service) ask a second.
#[test]
fn a_closed_loop_reports_when_its_users_asked() {
    let changes = [
        ("faults.down", "0"),
        ("clients.pace", "closed"),
        ("clients.users", "8"),
        ("clients.think_s", "0.3"),
        ("clients.policies", "one_try"),
        ("workload.rate", "0.05"),
    ];
    let report = run_priced(&spec("retry-storm", 3, &changes)).unwrap();
    let of = clients(&report)[0];
    let expected = 8.0 / (0.3 + 0.1);
    assert!((of.rate_per_s / expected - 1.0).abs() < 0.1, "{} against {expected}", of.rate_per_s);
    assert_eq!(report.workload.rate_per_s, of.rate_per_s);
    assert!((report.workload.last_arrival_s - 3000.0 / expected).abs() < 20.0, "{:?}", report.workload);
}
