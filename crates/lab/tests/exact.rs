//! Figures that are known exactly: the fixed trace's reuse and balance, whatever a step costs.

#![allow(clippy::unwrap_used)]

use servelab_lab::{presets, run_priced};
use servelab_spec::Spec;
use servelab_spec::catalog::PresetInfo;
use servelab_spec::experiment::{Coefficients, ExecutionMode};

// The same cases run in a browser, as part of `web.rs`.
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// Reuse published with the trace: 2464 of 10 476 tokens for round-robin (no timing in it), and the ceiling, 7424, for affinity without
/// its guard.
#[test]
fn the_fixed_trace_reuses_what_it_must() {
    let book = presets::find("book-trace").unwrap().spec;
    for cost in ["tinygpt_wasm", "h100_llama3_8b", "l4_llama3_8b", "custom"] {
        for seed in [1, 7] {
            let mut spec = Spec { seed, ..book.clone() };
            spec.execution.cost = cost.into();
            spec.execution.coefficients = (cost == "custom").then(|| Coefficients {
                step_us: 40_000.0,
                prefill_token_us: 900.0,
                ..Default::default()
            });
            let report = run_priced(&spec).unwrap();
            let ceiling = report.workload.ceiling;
            assert_eq!((ceiling.hit_tokens, ceiling.prompt_tokens), (7424, 10_476));
            let round_robin = &report.policies[0];
            assert_eq!(round_robin.name, "round_robin");
            assert_eq!((round_robin.reuse.hit_tokens, round_robin.reuse.prompt_tokens), (2464, 10_476), "{cost}");
            assert_eq!(round_robin.imbalance.assignments, 1.0);
            let unguarded = &report.policies[2];
            assert_eq!(unguarded.label, "Prefix affinity (imbalance guard off)");
            assert_eq!((unguarded.reuse.hit_tokens, unguarded.reuse.prompt_tokens), (7424, 10_476), "{cost}");
            for policy in &report.policies {
                assert_eq!(policy.requests.finished, 24);
                assert_eq!(policy.replicas.iter().map(|replica| replica.assignments).sum::<u64>(), 24);
                assert!(policy.reuse.hit_tokens <= 7424);
                assert_eq!(policy.ttft_s.n, 24);
                assert_eq!(policy.evictions, 0, "demand stays below 384 blocks");
            }
        }
    }
}

/// 610 output tokens in all, and what tenants add up to.
#[test]
fn parts_sum_to_wholes() {
    // Debug builds check every block again and again, and the large preset has 213 600.
    let small = |spec: &Spec| u64::from(spec.workload.requests()) * spec.contenders().len() as u64 <= 30_000;
    let affordable =
        |preset: &PresetInfo| small(&preset.spec) && (!cfg!(debug_assertions) || preset.spec.engine.blocks < 1000);
    let priced = |preset: &PresetInfo| preset.spec.execution.mode != ExecutionMode::Tinygpt;
    for preset in presets::all().into_iter().filter(affordable).filter(priced) {
        let report = run_priced(&preset.spec).unwrap();
        for policy in &report.policies {
            let r = policy.requests;
            assert_eq!(r.total, report.workload.requests);
            assert_eq!(
                r.finished + r.rejected + r.pending + r.lost + r.timed_out + r.abandoned,
                r.total,
                "{}",
                preset.name
            );
            let of_tenants: u64 = policy.tenants.iter().map(|tenant| tenant.requests.total).sum();
            assert_eq!(of_tenants, r.total, "{}", preset.name);
            let hits: u64 = policy.tenants.iter().map(|tenant| tenant.reuse.hit_tokens).sum();
            let prompts: u64 = policy.tenants.iter().map(|tenant| tenant.reuse.prompt_tokens).sum();
            if r.attempts == r.total {
                assert_eq!((hits, prompts), (policy.reuse.hit_tokens, policy.reuse.prompt_tokens), "{}", preset.name);
            } else {
                // A request that was tried again has one end, and several replicas may have taken it in.
                assert!(prompts <= policy.reuse.prompt_tokens, "{}", preset.name);
            }
            assert_eq!(policy.replicas.iter().map(|replica| replica.steps).sum::<u64>(), policy.steps);
            assert_eq!(policy.goodput.good, policy.tenants.iter().map(|tenant| tenant.goodput.good).sum::<u64>());
            assert!(policy.ttft_s.p50 <= policy.ttft_s.p95 && policy.ttft_s.max <= policy.e2e_s.max);
            assert!(policy.reuse.hit_tokens <= report.workload.ceiling.hit_tokens, "{}: {}", preset.name, policy.label);
        }
        if preset.name == "book-trace" {
            let policy = &report.policies[0];
            assert!((policy.output_tokens_per_s * policy.duration_s - 610.0).abs() < 1e-6);
        }
    }
}
