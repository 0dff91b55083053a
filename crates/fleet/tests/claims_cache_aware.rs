//! What is published of cache-aware routers, held against this fleet: canaries (a router that does not fail here is not the one it claims
//! to be) and orderings (who beats whom, not by how many milliseconds).
//!
//! Each test states its source, our workload, what must hold and what we get. Numbers after "we get" are of the seeds in [`SEEDS`] and
//! are there to be compared with, not to be met; each test prints its own (`--nocapture`).
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::common::*;
use servelab_engine::{CostModel, Nanos};
use servelab_fleet::config::{Change, ChangeKind};
use servelab_fleet::{Fleet, FleetConfig, RequestRecord};
use servelab_spec::experiment::{Coefficients, EngineSpec, MultiTenantSpec, PolicySpec};
use servelab_workload::{Source, Workload, survey};

const SEEDS: [u64; 3] = [1, 2, 3];

struct Run {
    fleet: Fleet,
    records: Vec<RequestRecord>,
}

fn run(config: FleetConfig, source: &Source, policy: &PolicySpec) -> Run {
    let mut fleet = fleet(config, source.clone(), policy);
    let mut records = finish(&mut fleet);
    records.sort_by_key(|record| record.index);
    assert_eq!(fleet.counts().finished as usize, records.len());
    Run { fleet, records }
}

fn config(replicas: u32, spec: EngineSpec) -> FleetConfig {
    FleetConfig { seed: 11, ..FleetConfig::priced(replicas, engine(spec), cost()) }
}

fn named(name: &str) -> PolicySpec {
    PolicySpec::named(name)
}

fn secs(seconds: f64) -> Nanos {
    Nanos::from_secs(seconds)
}

/// Of these records, the share that each replica got.
fn shares<'a>(records: impl Iterator<Item = &'a RequestRecord>, replicas: u32) -> Vec<f64> {
    let mut counts = vec![0u32; replicas as usize];
    records.for_each(|record| counts[record.replica.unwrap() as usize] += 1);
    let all: u32 = counts.iter().sum();
    counts.iter().map(|&count| f64::from(count) / f64::from(all.max(1))).collect()
}

fn largest(shares: &[f64]) -> f64 {
    shares.iter().copied().fold(0.0, f64::max)
}

/// TTFT in seconds: mean and 95th percentile.
fn ttft<'a>(records: impl Iterator<Item = &'a RequestRecord>) -> (f64, f64) {
    let mut all: Vec<f64> = records.map(|record| record.ttft().unwrap().as_secs()).collect();
    all.sort_by(f64::total_cmp);
    (all.iter().sum::<f64>() / all.len() as f64, all[all.len() * 95 / 100])
}

/// Share of prompt tokens found cached.
fn hits<'a>(records: impl Iterator<Item = &'a RequestRecord>) -> f64 {
    let (hit, all) = records.fold((0u64, 0u64), |(hit, all), record| {
        (hit + u64::from(record.cached_tokens), all + u64::from(record.prompt_tokens))
    });
    hit as f64 / all as f64
}

/// T17, production-stack #957: a system prompt that everybody shares pins all traffic to one engine.
///
/// Workload: one tenant, a system prompt of 512 tokens, 60 requests/s on 4 replicas, of which one can serve some 20 and all together 80. Must
/// hold: prefixaware sends every request to one replica, whatever happens there; its successor with load in the score, and AIBrix
/// with its guards, do not. We get: 100 % on one and a TTFT p95 of 17 to 18 s; with the other two at most 28 % on one and 0.02 s.
#[test]
fn t17_one_hot_prefix_pins_prefixaware_to_one_replica() {
    for seed in SEEDS {
        let sizes =
            MultiTenantSpec { requests: 600, tenants: 1, system_min: 512, system_max: 512, ..Default::default() };
        let source = tenants(sizes, seed, 60.0);
        let share = |policy: &str| {
            let run = run(config(4, EngineSpec::default()), &source, &named(policy));
            (largest(&shares(run.records.iter(), 4)), ttft(run.records.iter()).1)
        };
        let (pinned, slow) = share("production_stack_prefixaware");
        assert_eq!(pinned, 1.0);
        for policy in ["production_stack_loadaware", "aibrix_prefix_cache"] {
            let (spread, quick) = share(policy);
            println!("T17 hot prefix, seed {seed}: {policy} {spread:.2}, p95 {quick:.2} against {slow:.2}");
            assert!(spread < 0.5, "{policy}: {spread}");
            assert!(quick < slow / 4.0, "{policy}: {quick} against {slow}");
        }
    }
}

/// T17, vllm-project/router #197: a health check that zeroes load counters while the tree of prefixes stays makes a hot worker look
/// idle again and again, and it keeps getting everything.
///
/// Workload: the report's thresholds (0.5, 4, 1.1), one hot prefix, 40 requests/s on 3 workers, of which one can serve some 20; counts
/// fall to zero every 50 ms, two arrivals on average, so that a difference above 4 is hardly ever seen. Must hold: with counts kept no worker
/// gets half; with counts lost the hot one gets nearly everything, and waits explode. We get: 46 to 49 % and a TTFT p95 of 0.02 s;
/// 97 to 99 % and 7 to 9 s.
#[test]
fn t17_counts_that_are_reset_let_a_hot_worker_run_away() {
    let policy =
        named("sglang_cache_aware").with("cache_threshold", 0.5).with("balance_abs", 4.0).with("balance_rel", 1.1);
    for seed in SEEDS {
        let sizes =
            MultiTenantSpec { requests: 400, tenants: 1, system_min: 512, system_max: 512, ..Default::default() };
        let source = tenants(sizes, seed, 40.0);
        let measure = |changes: Vec<Change>| {
            let run = run(FleetConfig { changes, ..config(3, EngineSpec::default()) }, &source, &policy);
            (largest(&shares(run.records.iter(), 3)), ttft(run.records.iter()).1)
        };
        let resets = (1..400).map(|at| Change { at: Nanos(at * 50_000_000), what: ChangeKind::ResetCounts });
        let (kept, lost) = (measure(vec![]), measure(resets.collect()));
        println!("T17 resets, seed {seed}: kept {kept:.2?}, lost {lost:.2?}");
        assert!(kept.0 < 0.5 && lost.0 > 0.85, "{kept:?} {lost:?}");
        assert!(lost.1 > 4.0 * kept.1, "{kept:?} {lost:?}");
    }
}

/// T17, sglang #14305: without a match the router of 2025 took the worker with the smallest tree, however busy: all that is new goes to it
/// while others idle.
///
/// Workload: unique prompts of some 300 tokens, 20/s on 2 workers; at 15 s a third joins, its tree empty, and can not carry it all. Must
/// hold: until it has caught up, the smallest tree sends it all there is, the fewest requests do not, and waits show it. We get, in the
/// 6 s after: 100 % and a TTFT p95 of 0.7 to 1.8 s; 40 to 43 % (of equally idle workers the one that was chosen least often wins, so a
/// newcomer gets more than its third) and 0.03 s.
#[test]
fn t17_the_smallest_tree_feeds_one_worker_whatever_its_load() {
    for seed in SEEDS {
        let sizes = MultiTenantSpec {
            requests: 460,
            tenants: 1,
            system_min: 0,
            system_max: 0,
            user_min: 300,
            user_max: 300,
            ..Default::default()
        };
        let source = tenants(sizes, seed, 20.0);
        let join = Change { at: secs(15.0), what: ChangeKind::Join { warm_up: Nanos::ZERO, honest: true } };
        let measure = |smallest_tree: f64| {
            let policy = named("sglang_cache_aware").with("smallest_tree", smallest_tree);
            let config = FleetConfig { changes: vec![join], ..config(2, EngineSpec::default()) };
            let run = run(config, &source, &policy);
            // Half of what came before is what each of the two old ones has: the newcomer needs some 7 s for as much.
            let after = || run.records.iter().filter(|record| (secs(15.0)..secs(21.0)).contains(&record.arrival));
            (shares(after(), 3)[2], ttft(after()).1)
        };
        let (smallest, fewest) = (measure(1.0), measure(0.0));
        println!("T17 smallest tree, seed {seed}: {smallest:.2?}, fewest requests {fewest:.2?}");
        assert_eq!(smallest.0, 1.0);
        assert!(fewest.0 < 0.5 && smallest.1 > 1.5 * fewest.1, "{smallest:?} {fewest:?}");
    }
}

/// T6, SGLang v0.4: 64 groups of 16 prompts of 2 048 + 128 tokens, 8 workers: hit rate 20 → 75 %, 1.9 times the throughput.
///
/// Workload: as many groups and tokens, 256 of output, groups drawn at random, twice what round-robin can serve of an 8B model on A100s. The ceilings
/// are counted exactly: with affinity every group is cold once, with round-robin once on each worker that it meets, which is known
/// beforehand because request i goes to worker i mod 8. Must hold: round-robin hits its ceiling exactly (nothing is evicted,
/// admission is in order), cache_aware comes close to the other one and serves more tokens a second. We get: ceilings of 53 to 54 % and
/// 88 % (facts §10 estimates 45 and 85; 47 would be every group on every worker), hits of 53 to 54 % and 87 to 88 %, and 1.3 to 1.4 times
/// the throughput. The published hit rates are lower than their ceilings, as with caches that hold less than ours.
#[test]
fn t6_cache_aware_hits_more_and_serves_more_than_round_robin() {
    for seed in SEEDS {
        let sizes = MultiTenantSpec {
            requests: 1024,
            tenants: 64,
            system_min: 2048,
            system_max: 2048,
            user_min: 128,
            user_max: 128,
            output_min: 256,
            output_max: 256,
            ..Default::default()
        };
        let source = tenants(sizes, seed, 90.0);
        let spec =
            EngineSpec { blocks: 24_000, max_batch: 64, token_budget: 2048, max_context: 4096, ..Default::default() };
        let measure = |policy: &str| {
            let run =
                run(FleetConfig { seed: 11, ..FleetConfig::priced(8, engine(spec), a100()) }, &source, &named(policy));
            let tokens: u64 =
                run.records.iter().map(|record| u64::from(record.prompt_tokens + record.output_tokens)).sum();
            assert_eq!(stats(&run.fleet).iter().map(|stats| stats.evictions).sum::<u64>(), 0);
            (hits(run.records.iter()), tokens as f64 / run.fleet.now().as_secs())
        };
        let facts = survey(&source);
        let affine = facts.ceiling_hit_tokens as f64 / facts.prompt_tokens as f64;
        let turns = turns_ceiling(&source, 8);
        let (scattered, homed) = (measure("round_robin"), measure("sglang_cache_aware"));
        println!("T6, seed {seed}: ceilings {turns:.3} {affine:.3}, got {scattered:.3?} {homed:.3?}");
        assert_eq!(scattered.0, turns);
        assert!((0.45..0.55).contains(&turns) && (0.85..0.9).contains(&affine), "{turns} {affine}");
        assert!(homed.0 <= affine && homed.0 > affine - 0.1, "{} of {affine}", homed.0);
        assert!(homed.1 > 1.2 * scattered.1, "{} against {} tokens/s", homed.1, scattered.1);
    }
}

/// An 8B model in 16 bits on an A100, from the datasheet: 16 GB of weights at 2 TB/s a step, 16 GFLOP a token at half of 312 TFLOP/s, 131 072 bytes of K
/// and V a token of context read at 2 TB/s.
fn a100() -> CostModel {
    CostModel::from_coefficients(&Coefficients {
        step_us: 8000.0,
        prefill_token_us: 100.0,
        prefill_context_us: 0.001,
        decode_sequence_us: 10.0,
        decode_context_us: 0.066,
    })
}

/// What round-robin can reuse at most when nothing is evicted: whole blocks of a group's system prompt that its worker has seen.
fn turns_ceiling(source: &Source, workers: usize) -> f64 {
    let mut source = source.clone();
    let mut seen = vec![std::collections::BTreeSet::new(); workers];
    let (mut hit, mut all) = (0u64, 0u64);
    while let Some(request) = source.next_request() {
        all += u64::from(request.prompt.len);
        if !seen[request.index as usize % workers].insert(request.tenant) {
            hit += u64::from(request.user_at / 16 * 16);
        }
    }
    hit as f64 / all as f64
}

/// T7, sglang #21199: one group, 26 % of each prompt shared, 2 workers: round-robin's TTFT (627 ms) beats cache_aware's (1 617 ms).
///
/// Workload: 256 shared of 984 tokens, 6 requests/s: two workers carry it and one is at its limit, as in the report. Characters are tokens here, so
/// the match is 26 % of the prompt, below the launcher's threshold of 0.3; there the router takes the worker with the fewest requests, and
/// the claim does *not* come out: the two are at par. It comes out where the match counts, as when the shared part is a third
/// of the characters rather than of the tokens: then one worker gets everything, because a difference of more than 64 requests never
/// occurs (the report's client allows 36 in flight). Must hold: parity below the threshold; above it nearly everything on one worker and a TTFT more than
/// twice as long. We get: 1.00 to 1.02 times round-robin's mean TTFT below; all on one and 19 to 45 times above, in an open loop.
#[test]
fn t7_round_robin_beats_cache_aware_where_one_group_counts_as_a_match() {
    for seed in SEEDS {
        let sizes = MultiTenantSpec {
            requests: 300,
            tenants: 1,
            system_min: 256,
            system_max: 256,
            user_min: 728,
            user_max: 728,
            output_min: 43,
            output_max: 43,
            ..Default::default()
        };
        let source = tenants(sizes, seed, 6.0);
        let measure = |policy: PolicySpec| {
            let run = run(config(2, EngineSpec::default()), &source, &policy);
            (largest(&shares(run.records.iter(), 2)), ttft(run.records.iter()).0)
        };
        let turns = measure(named("round_robin"));
        let below = measure(named("sglang_cache_aware"));
        let above = measure(named("sglang_cache_aware").with("cache_threshold", 0.25));
        println!("T7, seed {seed}: round-robin {turns:.3?}, below {below:.3?}, above {above:.3?}");
        assert!(below.1 < 1.1 * turns.1, "{below:?} {turns:?}");
        assert!(above.0 > 0.9 && above.1 > 2.0 * turns.1, "{above:?} {turns:?}");
    }
}

/// Facts §9, column "add": where prefixes are known, routers that follow them starve a newcomer, and those that weigh load feed it.
///
/// Workload: 16 tenants, all known when a fifth replica joins at 10 s, at about 70 % of what four can serve, until 25 s. Must hold: prefixaware and
/// Ray's router (its threshold is infinite) send the newcomer nothing at all, nor does cache_aware while its fleet counts as balanced;
/// loadaware and AIBrix do, and round-robin a fifth. We get: 0 with the first three; 16 to 17 % with loadaware, 4 to 11 % with AIBrix.
#[test]
fn a_newcomer_starves_where_prefixes_alone_decide() {
    for seed in SEEDS {
        let sizes = MultiTenantSpec { requests: 1625, tenants: 16, ..Default::default() };
        let source = tenants(sizes, seed, 65.0);
        let join = Change { at: secs(10.0), what: ChangeKind::Join { warm_up: Nanos::ZERO, honest: true } };
        let share = |policy: &str| {
            let spec = EngineSpec { blocks: 2000, ..Default::default() };
            let run = run(FleetConfig { changes: vec![join], ..config(4, spec) }, &source, &named(policy));
            let share = shares(run.records.iter().filter(|record| record.arrival > secs(10.0)), 5)[4];
            println!("newcomer, seed {seed}: {policy} {share:.3}");
            share
        };
        for policy in ["production_stack_prefixaware", "ray_prefix_cache_affinity", "sglang_cache_aware"] {
            assert_eq!(share(policy), 0.0, "{policy}");
        }
        // A tenth of its fair share at least: AIBrix moves a prefix only where its holder is busier than the mean and σ.
        for policy in ["production_stack_loadaware", "aibrix_prefix_cache"] {
            assert!(share(policy) > 0.02, "{policy}");
        }
        assert!((share("round_robin") - 0.2).abs() < 0.01);
    }
}

/// Issue 3, "the router restarts (its index is gone; a stateless proxy shrugs)".
///
/// Workload: 32 tenants on 8 replicas, routers restarted at 20 s. Must hold: in the 5 s after, hits dip for every policy with an index, its own or fed by events, against
/// the same run without a restart; for a hash of the prefix not one byte of any record differs. We get: 91 to 94 % fall to 75 to 82 %.
#[test]
fn a_restarted_router_forgets_its_index_and_a_stateless_one_shrugs() {
    for seed in SEEDS {
        let sizes = MultiTenantSpec { requests: 1200, tenants: 32, ..Default::default() };
        let source = tenants(sizes, seed, 40.0);
        let measure = |policy: &PolicySpec, changes: Vec<Change>| {
            let spec = EngineSpec { blocks: 2000, ..Default::default() };
            run(FleetConfig { changes, ..config(8, spec) }, &source, policy)
        };
        let restart = vec![Change { at: secs(20.0), what: ChangeKind::RestartRouters }];
        let after = |run: &Run| {
            let window = secs(20.0)..secs(25.0);
            hits(run.records.iter().filter(|record| window.contains(&record.arrival)))
        };
        for policy in [
            "production_stack_prefixaware",
            "production_stack_loadaware",
            "sglang_cache_aware",
            "ray_prefix_cache_affinity",
            "aibrix_prefix_cache",
        ] {
            let (kept, lost) =
                (after(&measure(&named(policy), vec![])), after(&measure(&named(policy), restart.clone())));
            println!("restart, seed {seed}: {policy} {kept:.3} → {lost:.3}");
            assert!(kept > 0.8 && lost < kept - 0.05, "{policy}: {kept} → {lost}");
        }
        let stateless = unguarded();
        assert!(measure(&stateless, vec![]).records == measure(&stateless, restart).records);
    }
}
