//! What a gateway's presets are about, over seeds.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods)]

use servelab_lab::stats::quantile;
use servelab_lab::{Session, presets, run_priced};
use servelab_spec::report::Report;
use servelab_spec::{Spec, patch};

fn spec(name: &str, seed: u64, changes: &[(&str, &str)]) -> Spec {
    let start = Spec { seed, ..presets::find(name).unwrap().spec };
    changes.iter().fold(start, |spec, (key, value)| patch::set(&spec, key, value).unwrap())
}

fn report(name: &str, seed: u64, changes: &[(&str, &str)]) -> Report {
    run_priced(&spec(name, seed, changes)).unwrap()
}

/// The answer of a preset, changed or not, with so many seeds.
fn all_say(wanted: u32, name: &str, changes: &[(&str, &str)], seeds: u64) {
    for seed in 1..=seeds {
        let verdict = report(name, seed, changes).verdict.unwrap();
        println!("{name} {changes:?}, seed {seed}: {} {}", verdict.option, verdict.because);
        assert_eq!(verdict.option, wanted, "{name} {changes:?}, seed {seed}: {}", verdict.because);
    }
}

#[test]
fn going_first_is_enough_until_there_is_too_much() {
    all_say(0, "batch-beside-interactive", &[], 4);
    all_say(1, "batch-beside-interactive", &[("workload.rate", "6")], 4);
    // With little to do nobody waits.
    all_say(3, "batch-beside-interactive", &[("workload.rate", "1")], 4);
}

#[test]
fn somebody_has_to_say_no_and_it_hardly_matters_who() {
    all_say(2, "who-says-no", &[], 6);
    all_say(3, "who-says-no", &[("workload.rate", "1")], 4);
}

#[test]
fn turning_away_covers_the_gap_of_a_cold_start() {
    all_say(2, "spike-in-a-cold-start", &[], 4);
}

#[test]
fn a_gateway_that_turns_nobody_away_covers_nothing() {
    all_say(1, "spike-in-a-cold-start", &[("gateway.queue", "5000"), ("gateway.ttl_s", "0")], 2);
}

/// The same without a judge, who would run variants of it.
fn unjudged(name: &str, seed: u64, changes: &[(&str, &str)]) -> Report {
    let mut session = Session::unwatched(spec(name, seed, changes)).unwrap();
    while !session.advance(u32::MAX).unwrap().done {}
    session.report()
}

/// 95th percentile of the TTFT of all tenants but the first, who has a class of its own.
fn others_p95(report: &Report) -> f64 {
    report.policies[0].gateway.as_ref().unwrap().classes[1].ttft_s.p95
}

/// The promise of a limit for each tenant: one that sends ten times its share leaves the 95th percentile of all others within a tenth of what it is in
/// their run without it. The same arrivals, the noisy tenant's turned away.
#[test]
fn a_limit_for_each_tenant_keeps_a_noisy_one_to_itself() {
    let classes = ("gateway.classes", "noisy(priority=-1,tenants=A),rest");
    let without = [classes, ("gateway.stale_s", "0"), ("gateway.shed", "when_full")];
    for seed in 1..=3 {
        let open = unjudged("noisy-tenant", seed, &[classes]);
        let quiet = open.workload.rate_per_s / 33.0;
        let limit = format!("{:.3}", 1.2 * quiet);
        let limits = [classes, ("gateway.rate_per_s", limit.as_str()), ("gateway.rate_burst", "5")];
        let (alone, limited) = (unjudged("noisy-tenant", seed, &without), unjudged("noisy-tenant", seed, &limits));
        let noisy = |report: &Report| report.policies[0].tenants[0].requests;
        assert_eq!(noisy(&alone).finished, 0);
        assert!(noisy(&limited).rejected > 3 * noisy(&limited).finished, "it is cut to about its share");
        let [alone, limited, open] = [&alone, &limited, &open].map(others_p95);
        println!("seed {seed}: others' p95 alone {alone:.3} s, limited {limited:.3} s, open {open:.3} s");
        assert!(limited <= 1.1 * alone, "seed {seed}: {limited} s against {alone} s");
        assert!(open > 1.1 * alone, "seed {seed}: without limits the promise is broken, {open} s against {alone} s");
    }
}

#[test]
fn a_limit_for_each_tenant_is_what_keeps_the_promise() {
    all_say(0, "noisy-tenant", &[], 3);
    // Nobody is noisy: both keep it.
    all_say(2, "noisy-tenant", &[("workload.noisy", "1"), ("workload.rate", "1.2")], 1);
}

#[test]
fn refusals_are_told_by_layer_cause_and_status() {
    let report = unjudged("noisy-tenant", 1, &[("gateway.rate_per_s", "1"), ("engine.max_queued", "1")]);
    let policy = &report.policies[0];
    let attempts: u64 = policy.refusals.iter().map(|of| of.attempts).sum();
    assert_eq!(attempts, policy.requests.rejected, "nobody tries again here");
    let layers: Vec<(&str, u16)> = policy.refusals.iter().map(|of| (of.layer.as_str(), of.code)).collect();
    assert!(layers.contains(&("gateway", 429)), "{layers:?}");
    assert!(report.findings.iter().any(|finding| finding.contains("its tenant makes too many requests")));
}

#[test]
fn classes_are_reported_apart_and_sum_to_the_whole() {
    let report = report("batch-beside-interactive", 1, &[]);
    let policy = &report.policies[0];
    let gateway = policy.gateway.as_ref().unwrap();
    let names: Vec<&str> = gateway.classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(names, ["interactive", "batch"]);
    assert_eq!(gateway.classes.iter().map(|class| class.requests.total).sum::<u64>(), policy.requests.total);
    assert!(gateway.classes[1].held_s.mean > 2.0 * gateway.classes[0].held_s.mean, "{gateway:?}");
    let mut held: Vec<f64> = gateway.classes.iter().map(|class| class.held_s.max).collect();
    held.sort_by(f64::total_cmp);
    assert_eq!(quantile(&held, 1.0), gateway.held_s.max);
}

/// A run with a gateway is saved and goes on as if it had not been.
#[test]
fn a_session_with_a_gateway_is_restored() {
    let spec = spec("batch-beside-interactive", 3, &[("gateway.hold_back", "on"), ("gateway.ttl_s", "5")]);
    let mut whole = Session::new(spec.clone()).unwrap();
    whole.advance(900).unwrap();
    let text = serde_json::to_string(&whole.save()).unwrap();
    let mut restored = Session::restore(serde_json::from_str(&text).unwrap()).unwrap();
    for session in [&mut whole, &mut restored] {
        while !session.advance(u32::MAX).unwrap().done {}
    }
    assert_eq!(whole.report(), restored.report());
}
