//! The fixed trace's published figures, reached without tuning anything to them.
#![allow(clippy::unwrap_used)]

use crate::common::*;
use servelab_engine::CostModel;
use servelab_fleet::FleetConfig;
use servelab_spec::experiment::{EngineSpec, PolicySpec};

// The same cases run in a browser, as part of `web.rs`.
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

fn costs() -> [CostModel; 3] {
    let slow = CostModel { step: 80_000_000_000, ..cost() };
    let fast = CostModel { step: 1_000_000, prefill_token: 1000, decode_sequence: 1000, ..CostModel::default() };
    [cost(), slow, fast]
}

/// Round-robin's reuse is 2 464 of 10 476 whatever steps cost: who shares a replica does not depend on time, and admission is first
/// come first served.
#[test]
fn round_robin_reuses_2464_of_10476() {
    for cost in costs() {
        let mut fleet = fleet(
            FleetConfig::priced(4, engine(EngineSpec::default()), cost),
            book(),
            &PolicySpec::named("round_robin"),
        );
        let records = finish(&mut fleet);
        assert_eq!(reuse(&fleet), (2464, 10_476));
        assert_eq!(records.iter().map(|record| u64::from(record.cached_tokens)).sum::<u64>(), 2464);
        assert!(stats(&fleet).iter().all(|stats| stats.assignments == 6 && stats.evictions == 0));
    }
}

/// Without the guard every tenant has one home, and reuse is the trace's ceiling.
#[test]
fn unguarded_affinity_reuses_the_ceiling() {
    for (cost, prefix) in costs().into_iter().zip([64.0, 16.0, 50.0]) {
        let config = FleetConfig::priced(4, engine(EngineSpec::default()), cost);
        let mut fleet = fleet(config, book(), &unguarded().with("prefix_tokens", prefix));
        let records = finish(&mut fleet);
        assert_eq!(reuse(&fleet), (7424, 10_476));
        let mut homes = [None; 6];
        for record in &records {
            assert_eq!(*homes[record.tenant as usize].get_or_insert(record.replica), record.replica);
        }
    }
}

/// Least-tokens depends on timing, but can not beat the ceiling; the guard costs reuse and no more than all of it.
#[test]
fn no_policy_beats_the_ceiling() {
    for policy in policies() {
        for cost in costs() {
            let mut fleet = fleet(FleetConfig::priced(4, engine(EngineSpec::default()), cost), book(), &policy);
            assert_eq!(finish(&mut fleet).len(), 24);
            let (hit, all) = reuse(&fleet);
            assert_eq!(all, 10_476);
            assert!(hit <= 7424, "{policy:?}: {hit}");
        }
    }
}

/// One replica is a fleet like any other: every policy does the same there.
#[test]
fn on_one_replica_all_policies_agree() {
    let runs: Vec<_> = policies()
        .iter()
        .map(|policy| {
            let mut fleet = fleet(FleetConfig::priced(1, engine(EngineSpec::default()), cost()), book(), policy);
            finish(&mut fleet)
        })
        .collect();
    assert!(runs.iter().all(|run| *run == runs[0]));
    assert_eq!(runs[0].iter().map(|record| record.cached_tokens).sum::<u32>(), 7424);
}
