//! Verdicts of the overload lab after a visitor changed something: what they say is so in that run, and where a run can not answer they say nothing.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use servelab_lab::words::{digits, duration, percent};
use servelab_lab::{Session, presets, run_priced};
use servelab_spec::report::{ClientsReport, PolicyReport, Report};
use servelab_spec::{Spec, patch};

fn spec(name: &str, changes: &[(&str, &str)]) -> Spec {
    let start = Spec { seed: 1, ..presets::find(name).unwrap().spec };
    changes.iter().fold(start, |spec, (key, value)| patch::set(&spec, key, value).unwrap())
}

fn run(name: &str, changes: &[(&str, &str)]) -> Report {
    let report = run_priced(&spec(name, changes)).unwrap();
    println!("{name} {changes:?}: {:?} {:?}", report.verdict.as_ref().map(|said| &said.because), report.findings);
    report
}

/// What a run says; nothing where it does not judge.
fn said(name: &str, changes: &[(&str, &str)]) -> Option<String> {
    run(name, changes).verdict.map(|verdict| verdict.because)
}

fn clients(policy: &PolicyReport) -> &ClientsReport {
    policy.clients.as_ref().unwrap()
}

/// The figures of a policy alone, from a run that is not judged.
fn alone(name: &str, changes: &[(&str, &str)]) -> PolicyReport {
    let mut session = Session::unwatched(spec(name, changes)).unwrap();
    while !session.advance(u32::MAX).unwrap().done {}
    session.report().policies[0].clone()
}

#[test]
fn who_never_comes_back_is_not_waited_for() {
    let small = ("workload.requests", "1500");
    // An outage that never ends: nobody is served after it, whatever clients do.
    let endless = run("retry-storm", &[small, ("faults.down_s", "100000")]);
    assert!(endless.verdict.is_none());
    assert!(endless.findings[0].contains("not every run was long enough to see the end"), "{:?}", endless.findings);
    // Nobody is waited for: who is under way has not given up.
    let cut = run("retry-storm", &[("clients.patience_s", "0")]);
    let because = cut.verdict.unwrap().because;
    let waiting: Vec<u64> = cut.policies.iter().map(|policy| clients(policy).waiting).collect();
    assert!(waiting.iter().any(|&many| many > 0) && because.contains("still waited where the run ended"), "{because}");
    // Sixty attempts a second apart are over after a minute; nobody has given up in half of one.
    assert!(
        cut.policies.iter().all(|policy| clients(policy).gave_up == 0) && !because.contains("gave up"),
        "{because}"
    );
    // Users that wait for answers are done before the server goes.
    let closed = [small, ("clients.pace", "closed"), ("clients.users", "100"), ("clients.think_s", "0.1")];
    let unseen = run("retry-storm", &closed);
    assert!(unseen.workload.last_arrival_s < 25.0 && unseen.workload.last_arrival_s > 1.0, "{:?}", unseen.workload);
    let of = &unseen.policies[0];
    assert_eq!(unseen.workload.rate_per_s, clients(of).rate_per_s);
    assert!(unseen.findings[0].contains("the run was over after"), "{:?}", unseen.findings);
    let because = unseen.verdict.unwrap().because;
    assert!(because.contains("since no server was down"), "{because}");
    assert!(because.contains(&duration(clients(of).all_served_s.unwrap())), "{because}");
    assert_eq!(said("retry-storm", &[small, ("clients.on", "off")]), None);
}

#[test]
fn an_outage_that_is_not_there_has_no_victims() {
    assert_eq!(said("sdk-outage", &[("faults.down", "0")]), None);
    // Two retries later is what the preset's clients do; others say their own numbers.
    let five = said("sdk-outage", &[("clients.policies", "openai_sdk(attempts=5)")]).unwrap();
    assert!(five.contains("their 5 attempts") && !five.contains("second and a half"), "{five}");
    let bridged = run("sdk-outage", &[("faults.down_s", "0.5")]);
    let because = bridged.verdict.unwrap().because;
    assert!(because.starts_with("0 of ") && because.contains("The longest that one of them waited"), "{because}");
    // The same with the stop that a service falls over of.
    for down in [("faults.down", "0"), ("faults.down_at_s", "100000")] {
        let because = said("metastable", &[down, ("workload.requests", "2000")]);
        assert!(because.is_none_or(|because| because.starts_with("No server stood still")), "{down:?}");
    }
    assert_eq!(said("metastable", &[("faults.down_s", "100000")]), None);
    assert_eq!(said("backoff-or-budget", &[("faults.down_s", "100000")]), None);
}

#[test]
fn every_remedy_is_called_what_it_is() {
    for (remedy, words) in [
        ("none", "Nothing was done: of those who came in the twenty seconds before 2 min 20 s"),
        ("cancel", "before cancellation reached the server, at 2 min 20 s, "),
        ("drop_load", "before 50 % of the requests were turned away at the door, at 2 min 20 s, "),
        ("budgets", "before clients got budgets, at 2 min 20 s, "),
        ("raise_limits", "before limits were raised to 2 times what they were, at 2 min 20 s, "),
    ] {
        let report = run("metastable-remedy", &[("faults.remedy", remedy)]);
        let because = report.verdict.unwrap().because;
        assert!(because.contains(words), "{because}");
        let attempts = report.policies[0].requests.attempts as f64 / report.policies[0].requests.total as f64;
        assert!(because.ends_with(&format!("a request made {} attempts on average.", digits(attempts))), "{because}");
        assert!(report.policies[0].requests.total == 3000);
    }
    let error = patch::set(&spec("metastable-remedy", &[]), "clients.on", "off").unwrap().validate().unwrap_err();
    assert_eq!(error.field, "faults.remedy");
}

#[test]
fn what_this_run_told_is_told_apart_from_what_was_tried() {
    let plain = said("retry-after", &[]).unwrap();
    assert!(!plain.contains("in this run"), "{plain}");
    let nothing = run("retry-after", &[("gateway.retry_after", "nothing")]);
    let because = nothing.verdict.unwrap().because;
    let served = duration(clients(&nothing.policies[0]).all_served_s.unwrap());
    assert!(
        because.ends_with(&format!("; in this run, where they were told nothing, it was after {served}.")),
        "{because}"
    );
    // And the first sentence is of a run that told them.
    let told = alone("retry-after", &[("gateway.retry_after", "fixed")]);
    let served = duration(clients(&told).all_served_s.unwrap());
    assert!(
        because.starts_with(&format!("Told 5 s, all of them, the last was served after {served}, with ")),
        "{because}"
    );
    assert_eq!(said("retry-after", &[("gateway.on", "off")]), None);
}

#[test]
fn a_spike_is_told_with_what_served_it() {
    let small = ("workload.curve", "0:0.4,0.02:0.4,0.03:1.5,0.08:1.5");
    for changes in [&[small][..], &[small, ("scaling.overflow.on", "on"), ("scaling.overflow.load", "8")]] {
        let report = run("spike-in-a-cold-start", changes);
        let because = report.verdict.unwrap().because;
        let of = &report.policies[0];
        assert!(
            because.starts_with(&format!("{} of the requests were good", percent(of.goodput.fraction))),
            "{because}"
        );
        let away = percent(of.requests.rejected as f64 / of.requests.total as f64);
        assert!(because.contains(&format!("{away} being turned away")), "{because}");
        let outside = of.scaling.as_ref().unwrap().outside;
        assert_eq!(outside > 0, changes.len() > 1);
        let share = format!(", {} going to a managed API. ", percent(outside as f64 / of.requests.total as f64));
        assert_eq!(because.contains(&share), outside > 0, "{because}");
        let open = alone("spike-in-a-cold-start", &[changes, &[("gateway.on", "off")]].concat());
        assert!(because.ends_with(&format!("came after {} or later.", duration(open.ttft_s.p50))), "{because}");
    }
    assert_eq!(said("spike-in-a-cold-start", &[small, ("gateway.on", "off")]), None);
}

#[test]
fn gateways_of_visitors_are_not_called_empty() {
    let small = ("workload.requests", "2500");
    let words = |changes: &[(&str, &str)]| said("noisy-tenant", &[&[small], changes].concat()).unwrap();
    assert!(words(&[]).contains("with it and a gateway that does nothing"));
    assert!(words(&[("gateway.on", "off")]).contains("with it and no gateway"));
    assert!(words(&[("gateway.max_output", "900")]).contains("with it and the gateway of this run"));
    // Two digits, as people would type it.
    let limit = words(&[]).split("with a limit of ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert!(limit.len() <= 4, "{limit}");
    assert_eq!(said("batch-beside-interactive", &[("gateway.on", "off")]), None);
    // Nobody says no in the third run, whatever the visitor's gateway does.
    let limited = said("who-says-no", &[("gateway.concurrency", "8")]).unwrap();
    let open = alone("who-says-no", &[("gateway.on", "off")]);
    assert!(limited.ends_with(&format!("it was {}.", percent(open.goodput.fraction))), "{limited}");
}

/// Every preset of the lab with every edit: no verdict counts anyone as given up who was not, nor speaks of what was not.
#[test]
fn no_edit_makes_a_verdict_speak_of_what_was_not() {
    let edits: [(&str, &str); 7] = [
        ("clients.patience_s", "0"),
        ("clients.on", "off"),
        ("gateway.on", "off"),
        ("faults.down", "0"),
        ("faults.down_s", "1000"),
        ("faults.remedy", "none"),
        ("clients.pace", "closed"),
    ];
    let names = ["retry-storm", "metastable", "metastable-remedy", "sdk-outage", "retry-layers", "retry-after"];
    for name in names.into_iter().chain(["does-jitter-matter", "backoff-or-budget"]) {
        for edit in edits {
            let requests = if name.starts_with("metastable") { "2400" } else { "900" };
            let spec = patch::set(&spec(name, &[("workload.requests", requests)]), edit.0, edit.1).unwrap();
            if spec.validate().is_err() {
                assert_eq!((name, edit.0), ("metastable-remedy", "clients.on"), "a remedy says that it needs clients");
                continue;
            }
            let report = run_priced(&spec).unwrap();
            let Some(because) = report.verdict.as_ref().map(|verdict| verdict.because.as_str()) else { continue };
            println!("{name} {edit:?}: {because}");
            assert!(spec.clients.on, "{because}");
            assert!(!because.contains("when the server was back") || spec.faults.down > 0, "{because}");
            let gave_up: Vec<u64> = report.policies.iter().map(|policy| clients(policy).gave_up).collect();
            assert!(!because.contains(" gave up") || gave_up.iter().any(|&many| many > 0), "{because}");
            let waiting: Vec<u64> = report.policies.iter().map(|policy| clients(policy).waiting).collect();
            assert!(!because.contains("still waited") || waiting.iter().any(|&many| many > 0), "{because}");
            assert!(!because.contains("Told ") || spec.gateway.on, "{because}");
            assert_eq!(because.matches(". ").count(), 1, "two sentences: {because}");
        }
    }
}
