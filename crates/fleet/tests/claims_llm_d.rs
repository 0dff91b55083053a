//! What is published of llm-d's and Dynamo's routers, against this model: orderings, knees and mechanisms, not milliseconds.
//!
//! Every test states its source, our workload, what must hold, and what we get (mean over the seeds tried). All sources are published by
//! vendors, on other hardware, mostly single runs.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

use crate::common::*;
use servelab_engine::{CostModel, Nanos};
use servelab_fleet::FleetConfig;
use servelab_fleet::config::Slow;
use servelab_fleet::telemetry::TelemetryConfig;
use servelab_spec::experiment::{Coefficients, EngineSpec, MultiTenantSpec, PolicySpec};

/// Qwen3-32B on two H100s, a quarter of the tokens: a prefill of 15 928 tokens/s (llm-d's calibration) becomes 3 982, a step that reads the
/// weights (64 GB at 70 % of 6.7 TB/s, 13.6 ms) stands for four, and so do the rest. Times are those of the original.
fn quarter() -> CostModel {
    CostModel::from_coefficients(&Coefficients {
        step_us: 54_400.0,
        prefill_token_us: 251.0,
        prefill_context_us: 0.0,
        decode_sequence_us: 120.0,
        decode_context_us: 0.9,
    })
}

/// Pods with the quarter of 307 328 KV tokens.
fn pods(n: u32) -> FleetConfig {
    let spec =
        EngineSpec { blocks: 4802, max_batch: 256, token_budget: 2048, max_context: 1 << 20, ..Default::default() };
    FleetConfig::priced(n, engine(spec), quarter())
}

/// Tenants with prompts of exactly these sizes.
fn sizes(requests: u32, tenants: u32, system: u32, user: u32, output: u32) -> MultiTenantSpec {
    MultiTenantSpec {
        requests,
        tenants,
        system_min: system,
        system_max: system,
        user_min: user,
        user_max: user,
        output_min: output,
        output_max: output,
        ..Default::default()
    }
}

/// What a run gives; of several, their mean.
#[derive(Clone, Copy, Debug, Default)]
struct Got {
    /// Tokens/s from the first arrival to the last end.
    output_per_s: f64,
    input_per_s: f64,
    /// Seconds.
    ttft_p90: f64,
    ttft_p99: f64,
    reuse: f64,
    /// Requests of the replica that got most.
    most: f64,
}

/// The mean over runs that differ in their seed.
fn run(config: &FleetConfig, sizes: &MultiTenantSpec, rate: f64, policy: &PolicySpec, seeds: u64) -> Got {
    let mut sum = Got::default();
    for seed in 1..=seeds {
        let config = FleetConfig { seed, ..config.clone() };
        let mut fleet = fleet(config, tenants(sizes.clone(), seed, rate), policy);
        let records = finish(&mut fleet);
        assert_eq!(records.len() as u32, sizes.requests);
        let mut ttft: Vec<f64> = records.iter().map(|record| record.ttft().unwrap().as_secs()).collect();
        ttft.sort_by(f64::total_cmp);
        let quantile = |q: f64| ttft[(ttft.len() as f64 * q) as usize];
        let span = records.iter().map(|record| record.end).max().unwrap().as_secs();
        let output: u64 = records.iter().map(|record| u64::from(record.output_tokens)).sum();
        let (hit, all) = reuse(&fleet);
        sum.output_per_s += output as f64 / span;
        sum.input_per_s += all as f64 / span;
        sum.ttft_p90 += quantile(0.9);
        sum.ttft_p99 += quantile(0.99);
        sum.reuse += hit as f64 / all as f64;
        sum.most += stats(&fleet).iter().map(|stats| stats.assignments).max().unwrap() as f64;
    }
    let n = seeds as f64;
    Got {
        output_per_s: sum.output_per_s / n,
        input_per_s: sum.input_per_s / n,
        ttft_p90: sum.ttft_p90 / n,
        ttft_p99: sum.ttft_p99 / n,
        reuse: sum.reuse / n,
        most: sum.most / n,
    }
}

fn named(name: &str) -> PolicySpec {
    PolicySpec::named(name)
}

/// T1. llm-d blog 2025-09-24: 8 pods of 307 328 KV tokens, 150 prefixes of 6 000 tokens, questions of 1 200, outputs of 1 000: precise index 8 730
/// output tokens/s and TTFT p90 0.54 s; approximate 6 944, 31 s; load scorers only 4 429, 95 s; random 4 429, 93 s.
///
/// Ours: a quarter of all tokens, 14 requests/s. All prefixes fit the fleet, none of the pods. Must hold: load scorers are as good as random, far below both
/// indexes, of which the precise one is no worse. We get, in original tokens (times four): 8 890, 9 010, 6 280 and 5 870 output tokens/s; 0.65, 0.65, 76 and
/// 76 s.
///
/// **Not shown**: the gap between the indexes. The approximate one believes in four times what a pod holds, but where prefixes are partitioned a pod never
/// comes near its capacity, so the belief is right; and it credits at once, where events come only after a prefill was planned.
#[test]
fn prefix_scorers_beat_load_scorers_which_beat_nothing() {
    let asked = sizes(1200, 150, 1504, 304, 250);
    let arm = |policy: PolicySpec| run(&pods(8), &asked, 14.0, &policy, 2);
    let precise = arm(named("llm_d_default").with("prefix_index", 1.0));
    let approximate = arm(named("llm_d_default"));
    let load_only = arm(named("composed").with("prefix", 0.0));
    let random = arm(named("random"));
    let all = format!("{precise:?}\n{approximate:?}\n{load_only:?}\n{random:?}");
    assert!(precise.output_per_s > 0.97 * approximate.output_per_s, "{all}");
    assert!(approximate.output_per_s > 1.3 * load_only.output_per_s, "{all}");
    assert!((load_only.output_per_s / random.output_per_s - 1.0).abs() < 0.1, "{all}");
    assert!(precise.ttft_p90 < 1.1 * approximate.ttft_p90 && 20.0 * approximate.ttft_p90 < load_only.ttft_p90, "{all}");
    assert!((load_only.ttft_p90 / random.ttft_p90 - 1.0).abs() < 0.2, "{all}");
    assert!(load_only.reuse < 0.3 && precise.reuse > 0.6, "{all}");
}

/// T4. llm-d blog 2026-08-04: against round-robin the affinity profile serves 2.9 times the input tokens/s with prompts of 70 000 tokens, and as much (7.0
/// against 6.8 thousand) with prompts of 1 000 and outputs of 8 000.
///
/// Ours: 4 pods, 32 tenants. Prompts of 8 000 + 200 tokens with outputs of 16 at 12 requests/s; prompts of 192 + 64 with outputs of 500 at 30. Must hold: more
/// than twice where prefill is the bottleneck, within 5 % where it is not. We get 4.5 and 0.98.
#[test]
fn affinity_pays_where_prefill_is_the_bottleneck() {
    let affinity = named("llm_d_affinity").with("prefill_rate", 3982.0);
    let gain = |asked: &MultiTenantSpec, rate: f64| {
        let [affine, even] = [&affinity, &named("round_robin")].map(|policy| run(&pods(4), asked, rate, policy, 2));
        affine.input_per_s / even.input_per_s
    };
    let code = gain(&sizes(300, 32, 8000, 200, 16), 12.0);
    let reasoning = gain(&sizes(200, 32, 192, 64, 500), 30.0);
    assert!(code > 2.0, "{code}");
    assert!((0.95..1.05).contains(&reasoning), "{reasoning}");
}

/// T5. The same blog: with a valve too small the fleet collapses from partitioned to thrashing, with no smooth middle.
///
/// Ours: 4 pods that hold 9 of 32 prompts of 8 000 tokens each, 16 requests/s; one such prompt takes 2.06 s to compute, so 2 s is the last valve that a single
/// miss in front opens. Must hold: two regimes, less than 20 % apart within, more than twofold between them. We get 45.9 thousand input tokens/s and reuse
/// 0.76 with valves of 0.25, 1 and 2 s (to the last digit: what opens them is always a whole miss); 123 and 115 thousand, 0.95 with 4 and 16 s.
#[test]
fn a_valve_is_too_small_or_it_is_not() {
    let asked = sizes(1200, 32, 8000, 200, 16);
    let valve = |seconds: f64| {
        let policy = named("llm_d_affinity").with("prefill_rate", 3982.0).with("valve_s", seconds);
        run(&pods(4), &asked, 16.0, &policy, 2)
    };
    let below = [0.25, 1.0, 2.0].map(valve);
    let above = [4.0, 16.0].map(valve);
    for small in below {
        for large in above {
            assert!(large.input_per_s > 2.0 * small.input_per_s, "{large:?} {small:?}");
            assert!(large.reuse > small.reuse + 0.1, "{large:?} {small:?}");
        }
    }
    let spread = |side: &[Got]| {
        let rates: Vec<f64> = side.iter().map(|got| got.input_per_s).collect();
        rates.iter().copied().fold(0.0, f64::max) / rates.iter().copied().fold(f64::MAX, f64::min)
    };
    assert!(spread(&below) < 1.2 && spread(&above) < 1.2, "{below:?} {above:?}");
}

/// T8. NVIDIA/aicr #1374: without reuse, over three types of GPU, least-loaded has 16 to 36 % more throughput than Dynamo's KV router and 38 to 59 % less
/// TTFT p99.
///
/// Ours: 6 replicas, three of them half as fast, prompts of 16 to 1 000 tokens, outputs of 16 to 160, more load than capacity. Must hold: least-loaded
/// is no worse than 3 %. We get 485 against 493 output tokens/s, TTFT p99 44 against 43 s.
///
/// **Not shown**: the margin. Dynamo's blocks in flight drain faster on a faster replica just as requests do, so both see speed the same way; what made the
/// difference there lies outside this cost (its queue, its transfer of work between processes, or its settings).
#[test]
fn without_reuse_least_loaded_is_as_good_as_kv_routing() {
    let mixed = MultiTenantSpec { user_min: 16, user_max: 1000, output_min: 16, ..sizes(400, 1, 0, 16, 160) };
    let spec =
        EngineSpec { blocks: 4802, max_batch: 16, token_budget: 2048, max_context: 1 << 20, ..Default::default() };
    let config = FleetConfig {
        slow: Some(Slow { replicas: 3, factor: 2.0 }),
        ..FleetConfig::priced(6, engine(spec), quarter())
    };
    let [least, kv] = ["least_requests", "dynamo_kv"].map(|name| run(&config, &mixed, 40.0, &named(name), 3));
    assert_eq!((least.reuse, kv.reuse), (0.0, 0.0));
    assert!(least.output_per_s > 0.97 * kv.output_per_s, "{least:?} {kv:?}");
}

/// T17. Dynamo #589: N routers that do not share their counts pile N deep on one worker.
///
/// Ours: 4 workers, one prompt of 1 024 tokens (64 blocks) + 256 of each request's own (16 blocks), 32 requests that all stay in flight. The first one's worker
/// holds the prefix. By hand: a router with m of its own there pays 16 m blocks more than elsewhere and saves 64, so it leaves with its fifth, and after that
/// two workers hold the prefix. Must hold: one router spreads evenly; of 64 routers, which see one or two requests each, none ever leaves. We get 8, 15 (four
/// routers) and 32 of 32 requests on the fullest worker.
#[test]
fn routers_that_do_not_share_counts_pile_up() {
    let asked = sizes(32, 1, 1024, 256, 1000);
    let most = |routers: u32| {
        let cost = CostModel { step: 200_000_000_000, prefill_token: 100_000_000, ..CostModel::default() };
        let spec =
            EngineSpec { blocks: 20_000, max_batch: 64, token_budget: 2048, max_context: 4096, ..Default::default() };
        let telemetry = TelemetryConfig { routers, ..Default::default() };
        let config = FleetConfig { telemetry, ..FleetConfig::priced(4, engine(spec), cost) };
        run(&config, &asked, 0.2, &named("dynamo_kv"), 3).most
    };
    let [one, four, many] = [1, 4, 64].map(most);
    assert!(one <= 10.0 && four > 1.3 * one && many >= 31.0, "{one} {four} {many}");
}

/// T11. inference-sim, staleness sweep: engine metrics up to 5 ms old cost nothing, 100 ms cost +354 % of TTFT p99 (simulated, an older profile).
///
/// Ours: 4 pods at full size without reuse, 60 requests/s, so a scrape of 100 ms is six arrivals old. Must hold, as an ordering: below +30 % at 5 ms, above twofold at
/// 100 ms. We get 94, 116 (+24 %) and 259 ms (+177 %).
#[test]
fn stale_queues_hurt() {
    let asked = MultiTenantSpec { output_min: 4, ..sizes(500, 1, 0, 400, 24) };
    let coefficients =
        Coefficients { step_us: 13_600.0, prefill_token_us: 62.8, decode_sequence_us: 30.0, ..Default::default() };
    let spec =
        EngineSpec { blocks: 19_000, max_batch: 16, token_budget: 2048, max_context: 4096, ..Default::default() };
    let tail = |scrape_ms: u64| {
        let telemetry = TelemetryConfig { scrape: Nanos(scrape_ms * 1_000_000), ..Default::default() };
        let cost = CostModel::from_coefficients(&coefficients);
        let config = FleetConfig { telemetry, ..FleetConfig::priced(4, engine(spec), cost) };
        run(&config, &asked, 60.0, &named("llm_d_default"), 3).ttft_p99
    };
    let [fresh, five, hundred] = [0, 5, 100].map(tail);
    assert!(five < 1.3 * fresh, "{five} against {fresh}");
    assert!(hundred > 2.0 * fresh, "{hundred} against {fresh}");
}

/// No published figure: that adapters reach the routers which read them. 4 replicas with 2 slots each, 8 adapters, a second to load one. Must hold:
/// the LoRA scorer and the blend's bonus each cut TTFT p90 at least by half against the same sum without them. We get 0.02 s against 4.1 s with a weight of
/// three, and 0.22 s against 4.3 s with a bonus of one.
#[test]
fn routers_that_know_adapters_load_fewer() {
    let asked = MultiTenantSpec { adapters: 8, ..sizes(400, 8, 0, 64, 16) };
    let spec = EngineSpec { adapter_slots: 2, max_batch: 16, ..Default::default() };
    let cost = CostModel {
        step: 10_000_000_000,
        prefill_token: 60_000_000,
        adapter_load: 1_000_000_000_000,
        ..CostModel::default()
    };
    let config = FleetConfig::priced(4, engine(spec), cost);
    let tail = |policy: PolicySpec| run(&config, &asked, 6.0, &policy, 3).ttft_p90;
    let load_only = named("composed").with("prefix", 0.0);
    let [without, with] = [0.0, 3.0].map(|weight| tail(load_only.clone().with("lora_affinity", weight)));
    assert!(with < 0.5 * without, "{with} against {without}");
    let [without, with] = [0.0, 1.0].map(|bonus| tail(named("blend").with("adapter_bonus", bonus)));
    assert!(with < 0.5 * without, "{with} against {without}");
}
