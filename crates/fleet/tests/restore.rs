//! F9: the whole core can be saved and restored anywhere, policies included. And reruns are the same bytes.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

use crate::common::gateways::{gateways, queues};
use crate::common::*;
use proptest::prelude::*;
use servelab_engine::Nanos;
use servelab_fleet::clients::ClientsConfig;
use servelab_fleet::gateway::GatewayConfig;
use servelab_fleet::{Fleet, FleetConfig, FleetState, ReplicaConfig, RestoreError};
use servelab_spec::experiment::{EngineSpec, MultiTenantSpec, PolicySpec};

fn config(gateway: GatewayConfig, seed: u64) -> FleetConfig {
    FleetConfig {
        gateway,
        seed,
        clients: ClientsConfig::FixedRetry { attempts: 3, pause: Nanos(150_000_000) },
        ..FleetConfig::priced(3, engine(EngineSpec { blocks: 90, token_budget: 128, ..Default::default() }), cost())
    }
}

fn text(state: &FleetState) -> String {
    serde_json::to_string(state).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(8, 320), failure_persistence: None, ..Default::default() })]
    #[test]
    fn a_restored_fleet_goes_on_byte_for_byte(
        seed in 0u64..1 << 53,
        policy in any_policy(),
        events in 0u32..600,
        gateway in gateways(),
        queue in queues(),
        store in prop::option::of(stores()),
        rate in 4.0..40.0f64,
    ) {
        let sizes = MultiTenantSpec { requests: 80, system_min: 100, system_max: 200, ..Default::default() };
        let mut config = FleetConfig { store, ..config(gateway, seed) };
        if let ReplicaConfig::Engine { engine, .. } = &mut config.replica {
            engine.queue = queue;
        }
        let mut whole = fleet(config, tenants(sizes, seed, rate), &policy);
        whole.poll(Nanos::MAX, events);
        let saved = text(&whole.save());
        let mut restored = Fleet::restore(serde_json::from_str(&saved).unwrap()).unwrap();
        prop_assert_eq!(text(&restored.save()), saved, "restoring changes nothing");
        // Some way on, in the middle, and at the end, and in a picture.
        whole.poll(Nanos::MAX, 37);
        restored.poll(Nanos::MAX, 37);
        prop_assert_eq!(text(&whole.save()), text(&restored.save()));
        prop_assert_eq!(whole.frame(0), restored.frame(0));
        prop_assert_eq!(finish(&mut whole), finish(&mut restored));
        prop_assert_eq!(text(&whole.save()), text(&restored.save()));
    }
}

#[test]
fn a_rerun_is_the_same_bytes() {
    for policy in policies() {
        let run = || {
            let mut fleet =
                fleet(config(GatewayConfig::AcceptAll, 3), tenants(MultiTenantSpec::default(), 3, 6.0), &policy);
            let records = finish(&mut fleet);
            serde_json::to_string(&(records, fleet.save())).unwrap()
        };
        assert_eq!(run(), run());
    }
}

/// Changing the policy leaves arrivals, prompts and lengths as they were.
#[test]
fn policies_see_the_same_arrivals() {
    let runs: Vec<_> = policies()
        .iter()
        .map(|policy| {
            let mut fleet =
                fleet(config(GatewayConfig::AcceptAll, 3), tenants(MultiTenantSpec::default(), 3, 6.0), policy);
            let mut records = finish(&mut fleet);
            records.sort_by_key(|record| record.index);
            records.into_iter().map(|r| (r.arrival, r.tenant, r.prompt_tokens, r.output_tokens)).collect::<Vec<_>>()
        })
        .collect();
    assert!(runs.iter().all(|run| *run == runs[0] && run.len() == 200));
}

#[test]
fn damaged_states_are_refused() {
    let mut fleet = fleet(
        config(GatewayConfig::AcceptAll, 1),
        tenants(MultiTenantSpec::default(), 1, 20.0),
        &PolicySpec::named("round_robin"),
    );
    fleet.poll(Nanos::MAX, 100);
    let saved = text(&fleet.save());
    let restore = |from: &str, to: &str| {
        assert!(saved.contains(from), "{from}");
        serde_json::from_str(&saved.replacen(from, to, 1))
            .map_err(|_| None)
            .and_then(|state| Fleet::restore(state).map_err(Some))
    };
    assert!(restore("\"now\":", "\"now\":").is_ok());
    assert!(matches!(restore("\"round_robin\"", "\"fastest\""), Err(Some(RestoreError::Policy(_)))));
    assert!(matches!(restore("\"policy_states\":", "\"policy_states\":[],\"y\":"), Err(None)));
    assert!(matches!(
        restore("\"counts\":{\"arrived\":", "\"counts\":{\"arrived\":9"),
        Err(Some(RestoreError::Damaged(_)))
    ));
    assert!(matches!(restore("\"replicas\":3", "\"replicas\":4"), Err(Some(RestoreError::Damaged(_)))));
    assert!(matches!(
        restore("\"signals\":[{\"requests\":", "\"signals\":[{\"requests\":7"),
        Err(Some(RestoreError::Damaged(_)))
    ));
}
