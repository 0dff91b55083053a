//! F10, and what a fetch changes: times by hand, the break-even point, and that runs and restored fleets are the same with a store behind them.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

use crate::common::*;
use proptest::prelude::*;
use servelab_engine::{CostModel, Nanos};
use servelab_fleet::config::{Change, ChangeKind};
use servelab_fleet::replica::tick::TickConfig;
use servelab_fleet::store::{StoreConfig, StoreStats};
use servelab_fleet::{Fleet, FleetConfig, FleetError, Poll, ReplicaConfig, RequestRecord};
use servelab_spec::experiment::{EngineSpec, FetchRule, MultiTenantSpec, PolicySpec};

fn store() -> StoreConfig {
    StoreConfig {
        blocks: 1000,
        latency: Nanos(1_000_000),
        link_bytes_per_s: 1_000_000_000,
        total_bytes_per_s: 0,
        token_bytes: 10_000,
        fetch: FetchRule::Cheaper,
    }
}

/// One tenant whose prompts are 160 tokens of system prompt (ten blocks) and 8 of their own.
fn one_tenant(requests: u32) -> MultiTenantSpec {
    MultiTenantSpec {
        requests,
        tenants: 1,
        system_min: 160,
        system_max: 160,
        user_min: 8,
        user_max: 8,
        output_min: 1,
        output_max: 1,
        ..Default::default()
    }
}

/// a = 1 ms a step, b = 50 µs a prompt token, nothing else.
fn plain() -> CostModel {
    CostModel { step: 1_000_000_000, prefill_token: 50_000_000, ..CostModel::default() }
}

/// Two requests far apart, on two replicas in turn.
fn two(store: Option<StoreConfig>, cost: CostModel) -> (Vec<RequestRecord>, Option<StoreStats>) {
    let config = FleetConfig { store, ..FleetConfig::priced(2, engine(EngineSpec::default()), cost) };
    let mut fleet = fleet(config, tenants(one_tenant(2), 1, 0.01), &PolicySpec::named("round_robin"));
    (finish(&mut fleet), fleet.store_stats())
}

/// 160 tokens of 10 kB at 1 GB/s take 1.6 ms, and 1 ms of latency; then a step for the 8 others: 1 ms + 8 · 50 µs. Computed, it would be
/// 1 ms + 168 · 50 µs.
#[test]
fn a_fetch_takes_what_it_takes_by_hand() {
    let (alone, none) = two(None, plain());
    assert_eq!(none, None);
    assert!(
        alone.iter().all(|record| record.ttft() == Some(Nanos(1_000_000 + 168 * 50_000)) && record.fetched_tokens == 0)
    );
    let (records, stats) = two(Some(store()), plain());
    assert_eq!(records[0].ttft(), alone[0].ttft(), "nobody had computed it before");
    assert_eq!((records[1].cached_tokens, records[1].fetched_tokens), (0, 160));
    assert_eq!(records[1].admitted.unwrap().since(records[1].arrival), Nanos(1_600_000 + 1_000_000));
    assert_eq!(records[1].ttft(), Some(Nanos(1_600_000 + 1_000_000 + 1_000_000 + 8 * 50_000)));
    let stats = stats.unwrap();
    assert_eq!((stats.fetches, stats.fetched_tokens, stats.bytes), (1, 160, 1_600_000));
    assert_eq!((stats.held, stats.written, stats.time), (10, 20 - 10, Nanos(2_600_000)));
}

/// 160 tokens cost 2.6 ms to fetch, so 16.25 µs a token breaks even.
#[test]
fn what_is_cheaper_to_compute_is_computed() {
    let of = |prefill_token| two(Some(store()), CostModel { prefill_token, ..plain() });
    for (picos, fetched, declined) in [(16_250_000, 0, 1), (16_250_001, 160, 0)] {
        let (records, stats) = of(picos);
        assert_eq!((records[1].fetched_tokens, stats.unwrap().declined), (fetched, declined), "{picos} ps a token");
    }
    // The context term counts: Σ 1..=160 is 12 880, so 16.15 µs + 12 880 · 1.5 ns ÷ 160 is beyond it.
    let cost = CostModel { prefill_token: 16_150_000, prefill_context: 1500, ..plain() };
    assert_eq!(two(Some(store()), cost).0[1].fetched_tokens, 160);
    let always = StoreConfig { fetch: FetchRule::Always, ..store() };
    assert_eq!(two(Some(always), CostModel { prefill_token: 1, ..plain() }).0[1].fetched_tokens, 160);
    let never = StoreConfig { fetch: FetchRule::Never, ..store() };
    assert_eq!(two(Some(never), plain()).0[1].fetched_tokens, 0);
}

/// What was fetched lies in the replica's cache like anything else, and what the replica has is not fetched.
#[test]
fn fetched_blocks_are_cached_blocks() {
    let config = FleetConfig { store: Some(store()), ..FleetConfig::priced(2, engine(EngineSpec::default()), plain()) };
    let mut fleet = fleet(config, tenants(one_tenant(6), 1, 0.01), &PolicySpec::named("round_robin"));
    let records = finish(&mut fleet);
    let told: Vec<(u32, u32)> = records.iter().map(|record| (record.cached_tokens, record.fetched_tokens)).collect();
    assert_eq!(told, [(0, 0), (0, 160), (160, 0), (160, 0), (160, 0), (160, 0)]);
}

/// A replica that says it is ready and is not cannot fetch either: it asks when it is warm.
#[test]
fn a_replica_that_is_not_warm_asks_later() {
    let join = ChangeKind::Join { warm_up: Nanos(500_000_000_000), honest: false };
    let changes = vec![Change { at: Nanos::ZERO, what: join }];
    let config =
        FleetConfig { store: Some(store()), changes, ..FleetConfig::priced(1, engine(EngineSpec::default()), plain()) };
    let mut fleet = fleet(config, tenants(one_tenant(4), 1, 0.1), &PolicySpec::named("round_robin"));
    let records = finish(&mut fleet);
    let late: Vec<&RequestRecord> = records.iter().filter(|record| record.replica == Some(1)).collect();
    assert_eq!(late.len(), 2);
    // Both asked at the same instant, the second behind the first on the link; then the first's blocks are there, and it waited in vain.
    let warm = Nanos(500_000_000_000);
    assert_eq!(late[0].admitted.unwrap(), warm + Nanos(2_600_000));
    assert_eq!((late[0].fetched_tokens, late[1].fetched_tokens, late[1].cached_tokens), (160, 0, 160));
}

#[test]
fn what_can_not_fetch_is_refused() {
    let named = |config: FleetConfig| match Fleet::new(config, book(), &PolicySpec::named("round_robin")) {
        Err(FleetError::Spec(error)) => error.field,
        _ => panic!("refusal expected"),
    };
    let priced =
        |store| FleetConfig { store: Some(store), ..FleetConfig::priced(2, engine(EngineSpec::default()), plain()) };
    assert_eq!(named(priced(StoreConfig { blocks: 0, ..store() })), "store.blocks");
    assert_eq!(named(priced(StoreConfig { link_bytes_per_s: 0, ..store() })), "store.link_bytes_per_s");
    assert_eq!(named(priced(StoreConfig { token_bytes: 0, ..store() })), "store.token_bytes");
    let no_cache = engine(EngineSpec { prefix_cache: false, ..EngineSpec::default() });
    let live = FleetConfig::executed(2, engine(EngineSpec::default()), plain(), false);
    let tick = ReplicaConfig::Tick(TickConfig { tick: Nanos(1), prefixes: 3, hit_ticks: 1, miss_ticks: 2 });
    for config in [FleetConfig::priced(2, no_cache, plain()), live, FleetConfig::new(2, tick)] {
        assert_eq!(named(FleetConfig { store: Some(store()), ..config }), "store");
    }
}

fn config(store: StoreConfig, replicas: u32, blocks: u32, max_batch: u32, chunked: bool, seed: u64) -> FleetConfig {
    let spec = EngineSpec { blocks, max_batch, chunked_prefill: chunked, token_budget: 64, ..Default::default() };
    let join = ChangeKind::Join { warm_up: Nanos(700_000_000), honest: seed.is_multiple_of(2) };
    let changes = vec![
        Change { at: Nanos(900_000_000), what: join },
        Change { at: Nanos(2_000_000_000), what: ChangeKind::Leave { replica: 0 } },
    ];
    FleetConfig { store: Some(store), changes, seed, ..FleetConfig::priced(replicas, engine(spec), cost()) }
}

fn sizes(output_max: u32) -> MultiTenantSpec {
    MultiTenantSpec {
        requests: 60,
        tenants: 4,
        system_min: 20,
        system_max: 90,
        output_min: 1,
        output_max,
        ..Default::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(4, 200), failure_persistence: None, ..Default::default() })]

    /// F8, F9 and F10 at once: single steps, runs, and a fleet that is saved and restored in the middle tell the same.
    #[test]
    fn runs_and_restored_fleets_are_the_same_with_a_store(
        store in stores(),
        seed in 0u64..1 << 53,
        replicas in 2u32..5,
        policy in any_policy(),
        blocks in 12u32..60,
        max_batch in 1u32..9,
        rate in 1.0..60.0f64,
        output_max in 1u32..120,
        chunked: bool,
        picture in 0u64..6_000_000_000,
        events in 0u32..400,
    ) {
        let config = config(store, replicas, blocks, max_batch, chunked, seed);
        let source = tenants(sizes(output_max), seed, rate);
        let told = |max_repeat: u32, restored: bool| {
            let mut one = fleet(FleetConfig { max_repeat, ..config.clone() }, source.clone(), &policy);
            if restored {
                one.poll(Nanos::MAX, events);
                let saved = serde_json::to_string(&one.save()).unwrap();
                one = Fleet::restore(serde_json::from_str(&saved).unwrap()).unwrap();
                assert_eq!(serde_json::to_string(&one.save()).unwrap(), saved, "restoring changes nothing");
                // Looking does not, either.
                one.frame(0);
            } else if one.poll(Nanos(picture), u32::MAX) == Poll::Reached {
                one.frame(0);
            }
            let records = finish(&mut one);
            (serde_json::to_string(&(&records, stats(&one), one.counts(), one.now(), one.store_stats())).unwrap(), records, one)
        };
        let (single, records, fleet) = told(1, false);
        for (max_repeat, restored) in [(7, false), (1 << 20, false), (1 << 20, true)] {
            prop_assert_eq!(&told(max_repeat, restored).0, &single, "max_repeat {}, restored {}", max_repeat, restored);
        }
        let store_stats = fleet.store_stats().unwrap();
        let used: u64 = records.iter().filter(|r| r.admitted.is_some()).map(|r| u64::from(r.fetched_tokens)).sum();
        prop_assert_eq!(stats(&fleet).iter().map(|replica| replica.fetched_tokens).sum::<u64>(), used);
        prop_assert!(used <= store_stats.fetched_tokens);
        prop_assert_eq!(store_stats.bytes, store_stats.fetched_tokens * u64::from(store.token_bytes));
        prop_assert_eq!(store_stats.written, u64::from(store_stats.held) + store_stats.evicted);
        prop_assert!(store_stats.held <= store.blocks);
        if store.fetch == FetchRule::Never {
            prop_assert_eq!(store_stats.fetches, 0);
        }
    }
}

/// The comparison above would be worth little if fetches and jumps over them were rare.
#[test]
fn fetches_and_runs_meet() {
    let slow = StoreConfig {
        latency: Nanos(20_000_000),
        link_bytes_per_s: 100_000,
        token_bytes: 40,
        fetch: FetchRule::Always,
        ..store()
    };
    let config = FleetConfig {
        store: Some(slow),
        ..FleetConfig::priced(3, engine(EngineSpec { blocks: 60, ..Default::default() }), cost())
    };
    let source =
        tenants(MultiTenantSpec { requests: 200, tenants: 12, output_min: 40, output_max: 120, ..sizes(120) }, 3, 8.0);
    let events = |max_repeat: u32| {
        let mut fleet =
            fleet(FleetConfig { max_repeat, ..config.clone() }, source.clone(), &PolicySpec::named("round_robin"));
        let mut events = 0;
        while fleet.poll(Nanos::MAX, 1) == Poll::Paused {
            events += 1;
        }
        (events, fleet.store_stats().unwrap())
    };
    let ((all, stats), (few, same)) = (events(1), events(1 << 20));
    assert_eq!(stats, same);
    assert!(few * 2 < all, "{few} events instead of {all}");
    assert!(stats.fetches > 40, "{stats:?}");
}

/// Here a block that a running sequence takes evicts what a waiting one's fetch goes on from: computed from the start in chunks, that one needs fewer blocks at
/// first than with all that was fetched, and comes in at that very step. A run of equal steps has to end there.
#[test]
fn an_eviction_that_spoils_a_fetch_can_let_somebody_in() {
    let store = StoreConfig {
        blocks: 30,
        latency: Nanos(11_992_275),
        link_bytes_per_s: 40_816,
        total_bytes_per_s: 0,
        token_bytes: 13,
        fetch: FetchRule::Always,
    };
    let seed = 7_679_342_009_366_396;
    let config = config(store, 2, 12, 2, true, seed);
    let source = tenants(sizes(33), seed, 16.671552528483318);
    let told = |max_repeat: u32| {
        let config = FleetConfig { max_repeat, ..config.clone() };
        let mut one = fleet(config, source.clone(), &PolicySpec::named("join_idle_queue"));
        (finish(&mut one), stats(&one))
    };
    let single = told(1);
    for max_repeat in [2, 7, 1 << 20] {
        assert_eq!(told(max_repeat), single, "max_repeat {max_repeat}");
    }
}
