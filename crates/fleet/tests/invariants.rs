//! F1 to F7 over random fleets, workloads and policies. In these (debug) builds every run also checks itself on the way.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

use crate::common::gateways::{gateways, queues};
use crate::common::*;
use proptest::prelude::*;
use servelab_engine::{EngineConfig, Nanos, QueueConfig};
use servelab_fleet::clients::ClientsConfig;
use servelab_fleet::gateway::GatewayConfig;
use servelab_fleet::record::RefusedBy;
use servelab_fleet::{FleetConfig, Outcome, Poll, Refusal};
use servelab_spec::experiment::{EngineSpec, MultiTenantSpec, PolicySpec};
use std::collections::BTreeSet;

fn clients() -> impl Strategy<Value = ClientsConfig> {
    prop_oneof![
        Just(ClientsConfig::OneTry),
        (1u32..5, 0u64..2_000_000_000)
            .prop_map(|(attempts, pause)| ClientsConfig::FixedRetry { attempts, pause: Nanos(pause) }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(16, 1200), failure_persistence: None, ..Default::default() })]
    #[test]
    fn requests_end_once_and_time_adds_up(
        seed in 0u64..1 << 53,
        replicas in 1u32..7,
        policy in any_policy(),
        gateway in gateways(),
        queue in queues(),
        clients in clients(),
        blocks in 4u32..60,
        max_batch in 1u32..9,
        budget in 9u32..200,
        (chunked_prefill, one_prefill, prefix_cache) in any::<(bool, bool, bool)>(),
        rate in 0.5..80.0f64,
        output_max in 1u32..60,
        horizon in prop::option::of(0u64..10_000_000_000),
        pause in 1u32..50,
    ) {
        let spec = EngineSpec {
            blocks, max_batch, chunked_prefill, one_prefill, prefix_cache, token_budget: budget, max_context: 160,
            ..Default::default()
        };
        let sizes = MultiTenantSpec {
            requests: 70, tenants: 5, skew: 1.0, system_min: 10, system_max: 90, output_min: 1, output_max,
            ..Default::default()
        };
        let config = FleetConfig {
            seed, gateway: gateway.clone(), clients, horizon: horizon.map(Nanos),
            ..FleetConfig::priced(replicas, EngineConfig { queue, ..engine(spec) }, cost())
        };
        let mut fleet = fleet(config, tenants(sizes, seed, rate), &policy);
        let mut records = Vec::new();
        let mut before = Nanos::ZERO;
        loop {
            let poll = fleet.poll(Nanos::MAX, pause);
            prop_assert!(fleet.now() >= before, "F3 clock");
            before = fleet.now();
            prop_assert_eq!(fleet.check(), Ok(()));
            fleet.take_ended(&mut |record| records.push(record.clone()));
            if poll == Poll::Done {
                break;
            }
            prop_assert_eq!(poll, Poll::Paused);
        }
        // F1: each that arrived ended exactly once.
        let counts = fleet.counts();
        let ids: BTreeSet<u32> = records.iter().map(|record| record.index).collect();
        prop_assert_eq!(ids.len(), records.len());
        prop_assert_eq!(records.len() as u64, counts.arrived);
        prop_assert_eq!(counts.arrived, counts.finished + counts.rejected + counts.pending);
        if horizon.is_none() {
            prop_assert_eq!((counts.arrived, counts.pending), (70, 0));
        } else {
            prop_assert!(fleet.now() <= Nanos(horizon.unwrap_or(0)));
        }
        // F5.
        prop_assert_eq!(records.iter().map(|record| u64::from(record.attempts)).sum::<u64>(), counts.attempts);
        prop_assert_eq!(counts.attempts, counts.arrived + counts.retries);
        let per_outcome = |wanted: fn(&Outcome) -> bool| records.iter().filter(|record| wanted(&record.outcome)).count() as u64;
        prop_assert_eq!(per_outcome(|outcome| *outcome == Outcome::Finished), counts.finished);
        prop_assert_eq!(per_outcome(|outcome| matches!(outcome, Outcome::Rejected { .. })), counts.rejected);
        for record in &records {
            // F2.
            prop_assert!(record.held <= record.end.since(record.arrival), "held {:?}", record);
            let order = [Some(record.arrival), record.admitted, record.first_token, Some(record.end)];
            let known: Vec<Nanos> = order.into_iter().flatten().collect();
            prop_assert!(known.is_sorted(), "{:?}", record);
            prop_assert!(record.admitted.is_some() || record.first_token.is_none());
            match record.outcome {
                Outcome::Finished => {
                    prop_assert!(record.ttft().unwrap() <= record.end.since(record.arrival), "TTFT ≤ E2E");
                    prop_assert!((1..=output_max).contains(&record.output_tokens));
                }
                // A request that can never fit is refused at once; nobody else is called so.
                Outcome::Rejected { code: 400, cause: Refusal::TooLong } => prop_assert!(record.replica.is_none()),
                Outcome::Rejected { code: 400, cause } => {
                    prop_assert_eq!(cause, Refusal::NeverFits);
                    let tokens = record.prompt_tokens + output_max;
                    prop_assert!(tokens > 160 || (tokens - 1).div_ceil(16) > blocks);
                    prop_assert_eq!(record.replica.is_some(), true);
                    if gateway == GatewayConfig::AcceptAll {
                        prop_assert_eq!(record.end, record.arrival);
                    }
                }
                Outcome::Rejected { code, cause } => {
                    prop_assert!(matches!(code, 429 | 503));
                    match cause.by() {
                        RefusedBy::Gateway => prop_assert!(gateway != GatewayConfig::AcceptAll),
                        RefusedBy::Replica => {
                            prop_assert!(queue != QueueConfig::default() && code == 503 && record.replica.is_some());
                        }
                        RefusedBy::Client | RefusedBy::Router => prop_assert!(false, "a replica is always ready"),
                    }
                }
                Outcome::Pending => prop_assert!(horizon.is_some()),
                Outcome::Lost { .. } => prop_assert!(false, "no replica went"),
                Outcome::TimedOut | Outcome::Abandoned => prop_assert!(false, "clients wait for ever"),
            }
        }
        // Totals of replicas are those of records (of the requests that were admitted and ended or are known to have been).
        let stats = stats(&fleet);
        let admitted = records.iter().filter(|record| record.admitted.is_some());
        let prompt: u64 = admitted.clone().map(|record| u64::from(record.prompt_tokens)).sum();
        let hits: u64 = admitted.map(|record| u64::from(record.cached_tokens)).sum();
        prop_assert_eq!(stats.iter().map(|stats| stats.prompt_tokens).sum::<u64>(), prompt);
        prop_assert_eq!(stats.iter().map(|stats| stats.hit_tokens).sum::<u64>(), hits);
        for stats in &stats {
            prop_assert_eq!(stats.lifetime, fleet.now());
            prop_assert!(stats.busy <= stats.lifetime);
        }
    }
}

/// Replicas do not slow each other down: with a replica each, requests take what they take alone.
#[test]
fn each_replica_lives_on_its_own_clock() {
    let sizes = MultiTenantSpec { requests: 8, tenants: 8, ..Default::default() };
    let source = tenants(sizes, 2, 1e6);
    let run = |replicas| {
        let config = FleetConfig::priced(replicas, engine(EngineSpec::default()), cost());
        let mut fleet = fleet(config, source.clone(), &PolicySpec::named("round_robin"));
        let mut records = finish(&mut fleet);
        records.sort_by_key(|record| record.index);
        (records, stats(&fleet))
    };
    let (together, stats) = run(8);
    for (record, stats) in together.iter().zip(&stats) {
        assert_eq!(record.end.since(record.arrival), stats.busy, "busy exactly while its one request is there");
        // Alone: one prefill of everything, then a decode a token.
        let mut work = servelab_engine::StepWork::default();
        work.add_prefill(0, record.prompt_tokens);
        let mut expected = cost().step(&work).0;
        for token in 1..record.output_tokens {
            let mut work = servelab_engine::StepWork::default();
            work.add_decode(record.prompt_tokens + token);
            expected += cost().step(&work).0;
        }
        assert_eq!(record.end.since(record.arrival).0, expected / 1000, "the cost model, to the nanosecond");
    }
}
