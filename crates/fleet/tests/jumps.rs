//! F8: runs of equal steps change speed and nothing else.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

use crate::common::gateways::{gateways, hurried, hurried_queue, queues};
use crate::common::*;
use proptest::prelude::*;
use servelab_engine::{EngineConfig, Nanos};
use servelab_fleet::clients::ClientsConfig;
use servelab_fleet::telemetry::Reads;
use servelab_fleet::{FleetConfig, Poll};
use servelab_spec::experiment::{EngineSpec, MultiTenantSpec, PolicySpec};
use servelab_workload::Source;

/// Everything a run tells, as text: records, totals and, at some instants on the way, the whole picture.
fn told(
    config: &FleetConfig,
    source: &Source,
    policy: &PolicySpec,
    max_repeat: u32,
    pictures: &[Nanos],
) -> (String, u64) {
    let config = FleetConfig { max_repeat, ..config.clone() };
    let mut fleet = fleet(config, source.clone(), policy);
    let mut text = String::new();
    for &at in pictures {
        if fleet.poll(at, u32::MAX) == Poll::Reached {
            assert_eq!(fleet.now(), at);
            text += &serde_json::to_string(&fleet.frame(0)).unwrap();
        }
    }
    let mut events = 0;
    while fleet.poll(Nanos::MAX, 1) == Poll::Paused {
        events += 1;
    }
    let mut records = Vec::new();
    fleet.take_ended(&mut |record| records.push(record.clone()));
    text += &serde_json::to_string(&(&records, stats(&fleet), fleet.counts(), fleet.now())).unwrap();
    (text, events)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(2, 96), failure_persistence: None, ..Default::default() })]
    #[test]
    fn runs_are_invisible(
        seed in 0u64..1 << 53,
        replicas in 1u32..6,
        policy in any_policy(),
        blocks in 12u32..60,
        max_batch in 1u32..9,
        rate in 1.0..60.0f64,
        output_max in 1u32..120,
        chunked: bool,
        prefix_cache: bool,
        horizon in prop::option::of(0u64..20_000_000_000),
        mut pictures in prop::collection::vec(0u64..8_000_000_000, 0..4),
        gateway in gateways(),
        queue in queues(),
        tiny: bool,
    ) {
        // Steps of a few nanoseconds: arrivals, retries and pictures often fall on the very instant at which a step ends.
        let scale = if tiny { 1_000_000 } else { 1 };
        let (gateway, queue) = (hurried(gateway, scale), hurried_queue(queue, scale));
        let clients = ClientsConfig::FixedRetry { attempts: 3, pause: Nanos(300_000_000 / scale) };
        let spec = EngineSpec { blocks, max_batch, chunked_prefill: chunked, prefix_cache, token_budget: 64, ..Default::default() };
        let sizes = MultiTenantSpec {
            requests: 60,
            tenants: 4,
            system_min: 20,
            system_max: 70,
            output_min: 1,
            output_max,
            ..Default::default()
        };
        pictures.sort_unstable();
        let pictures: Vec<Nanos> = pictures.into_iter().map(|at| Nanos(at / scale)).collect();
        let source = tenants(sizes, seed, rate * scale as f64);
        let cost = if tiny { tiny_cost() } else { cost() };
        let config = FleetConfig {
            gateway,
            clients, seed, horizon: horizon.map(|at| Nanos(at / scale)), ..FleetConfig::priced(replicas, EngineConfig { queue, ..engine(spec) }, cost) };
        let (single, _) = told(&config, &source, &policy, 1, &pictures);
        for max_repeat in [2, 7, 1 << 20] {
            let (run, _) = told(&config, &source, &policy, max_repeat, &pictures);
            prop_assert_eq!(&run, &single, "max_repeat {}", max_repeat);
        }
    }
}

/// The same, where it pays: long outputs, so that runs are long and interrupted often.
#[test]
fn runs_are_long_and_still_invisible() {
    let sizes = MultiTenantSpec { requests: 80, output_min: 200, output_max: 400, ..Default::default() };
    let spec = EngineSpec { blocks: 384, ..Default::default() };
    // With their defaults: the property above has all their choices.
    for policy in policies().into_iter().filter(|policy| policy.params.is_empty()) {
        let config = FleetConfig::priced(4, engine(spec), cost());
        let source = tenants(sizes.clone(), 5, 1.0);
        let (single, all) = told(&config, &source, &policy, 1, &[]);
        let (run, few) = told(&config, &source, &policy, 1 << 20, &[]);
        assert_eq!(run, single, "{policy:?}");
        // A scrape every 50 ms looks into every run, about every tenth step. Events are told each at its instant, so with them there are no runs.
        let fewer = match reads(&policy) {
            tiers if tiers.has(Reads::EVENTS) => continue,
            tiers if tiers.has(Reads::POLLED) => 2,
            _ => 10,
        };
        assert!(few * fewer < all, "{policy:?}: {few} events instead of {all}");
    }
}
