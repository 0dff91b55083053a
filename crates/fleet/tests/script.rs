//! Fleets under scripts: they run, jump, save and restore like under any policy, and end when a script goes wrong.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

use crate::common::*;
use servelab_engine::Nanos;
use servelab_fleet::{Fleet, FleetConfig, Poll};
use servelab_spec::experiment::{EngineSpec, MultiTenantSpec, PolicySpec};

/// Remembers, draws, counts endings and reads every tier.
const STATEFUL: &str = "state.ended = 0; state.last = #{};
fn route(request, replicas) {
    let scores = [];
    for replica in replicas {
        let held = replica.cached_tokens / request.prompt_tokens;
        let stay = if state.last[request.tenant.to_string()] == replica.id { 0.2 } else { 0.0 };
        scores.push(held + stay - 0.1 * replica.waiting - 0.01 * replica.requests + 0.05 * random() * (state.ended % 3));
    }
    let best = 0;
    for (score, at) in scores { if score > scores[best] { best = at; } }
    state.last[request.tenant.to_string()] = replicas[best].id;
    scores
}
fn ended(request, replica) { state.ended += 1; }";

fn config(seed: u64) -> FleetConfig {
    FleetConfig {
        seed,
        ..FleetConfig::priced(3, engine(EngineSpec { blocks: 90, token_budget: 128, ..Default::default() }), cost())
    }
}

fn run(config: FleetConfig, text: &str, tier: u32, seed: u64) -> Fleet {
    let sizes = MultiTenantSpec { requests: 80, system_min: 100, system_max: 200, ..Default::default() };
    fleet(config, tenants(sizes, seed, 8.0), &PolicySpec::scripted(text).with("tier", tier.into()))
}

fn text(fleet: &Fleet) -> String {
    serde_json::to_string(&fleet.save()).unwrap()
}

#[test]
fn a_script_that_remembers_goes_on_byte_for_byte_after_a_restore() {
    for (seed, events) in [(1, 40), (2, 111), (3, 200), (4, 290), (5, 5)] {
        let mut whole = run(config(seed), STATEFUL, 2, seed);
        whole.poll(Nanos::MAX, events);
        let saved = text(&whole);
        let mut restored = Fleet::restore(serde_json::from_str(&saved).unwrap()).unwrap();
        assert_eq!(text(&restored), saved);
        assert_eq!(finish(&mut whole), finish(&mut restored));
        assert_eq!(text(&whole), text(&restored));
        // And all of it again.
        let mut again = run(config(seed), STATEFUL, 2, seed);
        finish(&mut again);
        assert_eq!(text(&again), text(&whole));
    }
}

#[test]
fn runs_of_equal_steps_are_invisible_to_a_script() {
    for seed in 1..4 {
        let records = |max_repeat| {
            let text = STATEFUL.replace("replica.cached_tokens", "replica.tokens");
            finish(&mut run(FleetConfig { max_repeat, ..config(seed) }, &text, 1, seed))
        };
        assert_eq!(records(1), records(1 << 20));
    }
}

#[test]
fn a_fleet_ends_where_its_script_goes_wrong() {
    let script = "state.n = 0;
fn route(request, replicas) {
    state.n += 1;
    if state.n == 20 { return 7; }
    state.n % replicas.len()
}";
    let mut whole = run(config(1), script, 0, 1);
    assert_eq!(whole.poll(Nanos::MAX, u32::MAX), Poll::Failed);
    let fault = whole.fault().unwrap().clone();
    assert_eq!(fault.line, Some(2));
    assert!(fault.message.starts_with("route returned 7, which is none of the replicas"), "{fault}");
    let at = whole.now();
    assert_eq!(whole.poll(Nanos::MAX, u32::MAX), Poll::Failed, "for good");
    assert_eq!(whole.now(), at);
    assert!(!whole.is_done());
    whole.check().unwrap();
    assert_eq!(whole.counts().arrived, 20);
    // It can be looked at, saved and restored, and has still failed.
    let mut restored = Fleet::restore(serde_json::from_str(&text(&whole)).unwrap()).unwrap();
    assert_eq!(restored.frame(0), whole.frame(0));
    assert_eq!((restored.poll(Nanos::MAX, 10), restored.fault()), (Poll::Failed, Some(&fault)));
    // In the hook as well.
    let mut whole =
        run(config(1), "fn route(request, replicas) { 0 }\nfn ended(request, replica) { replica.id }", 0, 1);
    assert_eq!(whole.poll(Nanos::MAX, u32::MAX), Poll::Failed);
    assert_eq!((whole.fault().unwrap().line, whole.counts().finished), (Some(2), 1));
}
