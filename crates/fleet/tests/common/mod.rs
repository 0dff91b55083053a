//! Fleets to test with.
#![allow(dead_code, clippy::unwrap_used)]

#[cfg(not(target_arch = "wasm32"))]
pub mod crowds;
#[cfg(not(target_arch = "wasm32"))]
pub mod gateways;

use servelab_engine::{CostModel, EngineConfig, Nanos};
use servelab_fleet::routing::registry;
#[cfg(not(target_arch = "wasm32"))]
use servelab_fleet::store::StoreConfig;
use servelab_fleet::telemetry::Reads;
use servelab_fleet::{Fleet, FleetConfig, Poll, ReplicaStats, RequestRecord};
use servelab_spec::catalog::{Family, ParamKind};
#[cfg(not(target_arch = "wasm32"))]
use servelab_spec::experiment::FetchRule;
use servelab_spec::experiment::{Coefficients, EngineSpec, MultiTenantSpec, PolicySpec, WorkloadSpec};
use servelab_workload::Source;

/// A cost model of a small model on a slow device; the odd digits leave remainders below a nanosecond.
pub fn cost() -> CostModel {
    CostModel::from_coefficients(&Coefficients {
        step_us: 2_000.000_123,
        prefill_token_us: 80.000_457,
        prefill_context_us: 0.020_011,
        decode_sequence_us: 900.000_789,
        decode_context_us: 1.500_333,
    })
}

/// The same a million times faster: steps of a few nanoseconds.
pub fn tiny_cost() -> CostModel {
    CostModel {
        step: 2000,
        prefill_token: 80,
        prefill_context: 0,
        decode_sequence: 900,
        decode_context: 2,
        adapter_load: 7000,
    }
}

pub fn engine(spec: EngineSpec) -> EngineConfig {
    EngineConfig::from_spec(&spec, false)
}

pub fn unguarded() -> PolicySpec {
    PolicySpec::named("prefix_affinity").with("guard", 0.0)
}

/// Every registered policy, with its defaults and with each of its switches and choices set otherwise. Scripts are tested with scripts.
pub fn policies() -> Vec<PolicySpec> {
    let mut specs = Vec::new();
    for info in registry::catalog().iter().filter(|info| info.family != Family::Script) {
        let plain = PolicySpec::named(&info.name);
        specs.push(plain.clone());
        for param in &info.params {
            let options = match &param.kind {
                ParamKind::Switch => 2,
                ParamKind::Choice(options) => options.len() as u32,
                ParamKind::Number | ParamKind::Integer => 0,
            };
            let others = (0..options).map(f64::from).filter(|&option| option != param.default);
            specs.extend(others.map(|option| plain.clone().with(&param.name, option)));
        }
    }
    specs
}

/// Any of [`policies`].
#[cfg(not(target_arch = "wasm32"))]
pub fn any_policy() -> impl proptest::strategy::Strategy<Value = PolicySpec> {
    proptest::sample::select(policies())
}

/// Any store, with times like those of the steps of [`cost`].
#[cfg(not(target_arch = "wasm32"))]
pub fn stores() -> impl proptest::strategy::Strategy<Value = StoreConfig> {
    use proptest::prelude::*;
    let rule = prop_oneof![2 => Just(FetchRule::Cheaper), 2 => Just(FetchRule::Always), 1 => Just(FetchRule::Never)];
    let total = prop_oneof![Just(0u64), 1_000u64..100_000];
    (1u32..60, 0u64..40_000_000, 1_000u64..100_000, total, 1u32..40, rule).prop_map(
        |(blocks, latency, link_bytes_per_s, total_bytes_per_s, token_bytes, fetch)| StoreConfig {
            blocks,
            latency: Nanos(latency),
            link_bytes_per_s,
            total_bytes_per_s,
            token_bytes,
            fetch,
        },
    )
}

/// Cases of a property over any policy: so many for each, on average, and not more than `most`.
pub fn cases(for_each: u32, most: u32) -> u32 {
    most.min(for_each * policies().len() as u32)
}

/// The tiers it reads.
pub fn reads(policy: &PolicySpec) -> Reads {
    registry::build(policy).unwrap().reads()
}

pub fn book() -> Source {
    Source::new(&WorkloadSpec::BookTrace, 0, 16, 1.0).unwrap()
}

pub fn tenants(sizes: MultiTenantSpec, seed: u64, rate: f64) -> Source {
    Source::new(&WorkloadSpec::MultiTenant(sizes), seed, 16, rate).unwrap()
}

pub fn fleet(config: FleetConfig, source: Source, policy: &PolicySpec) -> Fleet {
    Fleet::new(config, source, policy).unwrap()
}

/// Runs to the end.
pub fn finish(fleet: &mut Fleet) -> Vec<RequestRecord> {
    assert_eq!(fleet.poll(Nanos::MAX, u32::MAX), Poll::Done);
    let mut records = Vec::new();
    fleet.take_ended(&mut |record| records.push(record.clone()));
    fleet.check().unwrap();
    records
}

pub fn stats(fleet: &Fleet) -> Vec<ReplicaStats> {
    fleet.replica_stats().collect()
}

pub fn reuse(fleet: &Fleet) -> (u64, u64) {
    fleet.replica_stats().fold((0, 0), |(hit, all), stats| (hit + stats.hit_tokens, all + stats.prompt_tokens))
}
