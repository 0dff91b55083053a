//! Fleets that change on the way: replicas join, leave or are slow, routers are several, restart or lose their counts.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

use crate::common::*;
use proptest::prelude::*;
use servelab_engine::Nanos;
use servelab_fleet::config::{Change, ChangeKind, Slow};
use servelab_fleet::replica::server::{ServerConfig, Service};
use servelab_fleet::telemetry::TelemetryConfig;
use servelab_fleet::{Fleet, FleetConfig, Poll, ReplicaConfig, RequestRecord};
use servelab_spec::experiment::{EngineSpec, MultiTenantSpec, PolicySpec};
use servelab_spec::frame::ReplicaState;

const SECOND: u64 = 1_000_000_000;

fn config(replicas: u32, changes: Vec<Change>) -> FleetConfig {
    FleetConfig { changes, ..FleetConfig::priced(replicas, engine(EngineSpec::default()), cost()) }
}

fn at(seconds: u64, what: ChangeKind) -> Change {
    Change { at: Nanos(seconds * SECOND), what }
}

fn run(config: FleetConfig, policy: &str, requests: u32, rate: f64) -> (Fleet, Vec<RequestRecord>) {
    let sizes = MultiTenantSpec { requests, ..Default::default() };
    let mut fleet = fleet(config, tenants(sizes, 5, rate), &PolicySpec::named(policy));
    let records = finish(&mut fleet);
    assert_eq!(records.len() as u32, requests);
    (fleet, records)
}

fn on(records: &[RequestRecord], replica: u32) -> impl Iterator<Item = &RequestRecord> {
    records.iter().filter(move |record| record.replica == Some(replica))
}

#[test]
fn an_honest_newcomer_is_sent_nothing_before_it_can_serve() {
    let join = ChangeKind::Join { warm_up: Nanos(3 * SECOND), honest: true };
    let (fleet, records) = run(config(2, vec![at(5, join)]), "round_robin", 200, 10.0);
    let ready = Nanos(8 * SECOND);
    assert!(on(&records, 2).all(|record| record.arrival >= ready));
    // From then on every third request is its own, and it starts at once.
    let later = records.iter().filter(|record| record.arrival > ready).count();
    assert!(on(&records, 2).count().abs_diff(later / 3) <= 1 && later > 60);
    let lifetime = stats(&fleet)[2].lifetime;
    assert_eq!(lifetime, fleet.now().since(Nanos(5 * SECOND)), "it lives from its creation");
}

#[test]
fn a_dishonest_newcomer_lets_requests_wait_until_it_is_warm() {
    let join = ChangeKind::Join { warm_up: Nanos(3 * SECOND), honest: false };
    let (_, records) = run(config(2, vec![at(5, join)]), "round_robin", 200, 10.0);
    let early: Vec<_> = on(&records, 2).filter(|record| record.arrival < Nanos(8 * SECOND)).collect();
    assert!(early.len() >= 8, "ten requests a second, a third of them, for three seconds");
    assert!(early.iter().all(|record| record.arrival >= Nanos(5 * SECOND)));
    assert!(early.iter().all(|record| record.admitted.unwrap() >= Nanos(8 * SECOND)));
    let slowest = early.iter().filter_map(|record| record.ttft()).max().unwrap();
    assert!(slowest > Nanos(5 * SECOND / 2), "{slowest:?}");
}

#[test]
fn a_leaver_finishes_what_it_has_and_goes() {
    let changes = vec![at(5, ChangeKind::Leave { replica: 1 })];
    let sizes = MultiTenantSpec { requests: 200, ..Default::default() };
    let mut fleet = fleet(config(3, changes), tenants(sizes, 5, 20.0), &PolicySpec::named("round_robin"));
    assert_eq!(fleet.poll(Nanos(5 * SECOND), u32::MAX), Poll::Reached);
    let state = |fleet: &mut Fleet| fleet.frame(0).replicas[1].state;
    assert_eq!(state(&mut fleet), ReplicaState::Draining, "something was in flight");
    let records = finish(&mut fleet);
    assert_eq!(state(&mut fleet), ReplicaState::Gone);
    assert!(on(&records, 1).all(|record| record.arrival <= Nanos(5 * SECOND)));
    let last = on(&records, 1).map(|record| record.end).max().unwrap();
    assert!(last > Nanos(5 * SECOND));
    assert_eq!(stats(&fleet)[1].lifetime, last, "it lived until its last request was done");
    assert_eq!(fleet.counts().finished, 200);
}

#[test]
fn nobody_left_is_503_and_the_last_arrival_ends_the_run() {
    let leave = |replica| at(5, ChangeKind::Leave { replica });
    let late = at(1_000_000, ChangeKind::RestartRouters);
    let (fleet, records) = run(config(2, vec![leave(0), leave(1), late]), "least_tokens", 100, 10.0);
    assert!(fleet.now() < Nanos(100 * SECOND), "a change that nobody waits for does not prolong the run");
    let refused = records.iter().filter(|record| record.replica.is_none());
    assert!(refused.clone().all(|record| record.arrival >= Nanos(5 * SECOND) && record.end == record.arrival));
    assert_eq!(refused.count() as u64, fleet.counts().rejected);
    let late = records.iter().filter(|record| record.arrival >= Nanos(5 * SECOND)).count();
    assert_eq!(late as u64, fleet.counts().rejected);
    assert!(late > 10);
}

#[test]
fn slow_replicas_take_their_factor() {
    let slow = FleetConfig { slow: Some(Slow { replicas: 1, factor: 3.0 }), ..config(2, vec![]) };
    // Far apart, so that each is alone.
    let sizes = MultiTenantSpec { requests: 40, tenants: 40, output_min: 8, output_max: 8, ..Default::default() };
    let source = tenants(sizes, 5, 0.01);
    let mut both =
        [slow, config(2, vec![])].map(|config| fleet(config, source.clone(), &PolicySpec::named("round_robin")));
    let [slow, even] = both.each_mut().map(finish);
    for (slow, even) in slow.iter().zip(&even) {
        let factor = if slow.replica == Some(1) { 3.0 } else { 1.0 };
        let took = |record: &RequestRecord| record.end.since(record.arrival).as_secs();
        assert!((took(slow) / took(even) - factor).abs() < 1e-6, "{factor}");
    }
}

#[test]
fn routers_take_turns_each_for_itself_and_begin_again_when_restarted() {
    let telemetry = TelemetryConfig { routers: 3, ..Default::default() };
    let config = FleetConfig { telemetry, ..config(4, vec![at(5, ChangeKind::RestartRouters)]) };
    let sizes = MultiTenantSpec { requests: 120, ..Default::default() };
    let mut fleet = fleet(config, tenants(sizes, 5, 12.0), &PolicySpec::named("round_robin"));
    let mut turns = [0u32; 3];
    let mut restarted = false;
    let mut seen = 0u32;
    for request in 0..120 {
        while fleet.decision(request).is_none() {
            assert_ne!(fleet.poll(Nanos::MAX, 1), Poll::Done);
        }
        if !restarted && fleet.now() >= Nanos(5 * SECOND) {
            (turns, restarted) = ([0; 3], true);
        }
        let decision = fleet.decision(request).unwrap();
        let turn = &mut turns[decision.router as usize];
        assert_eq!(decision.replica, *turn % 4, "request {request}");
        *turn += 1;
        seen |= 1 << decision.router;
    }
    assert_eq!((seen, restarted), (7, true));
}

/// Router #197 of the vLLM router: counters fall to zero while requests are in flight. What was sent before is not counted, and does not
/// make counts negative when it ends.
#[test]
fn reset_counts_know_nothing_of_what_was_sent_before() {
    let (fleet, records) = run(config(3, vec![at(5, ChangeKind::ResetCounts)]), "least_tokens", 300, 25.0);
    assert_eq!(fleet.counts().finished, 300);
    // Just after the reset all three look idle to the router, so the lowest index is chosen although it is not the least loaded.
    let first = records.iter().filter(|record| record.arrival > Nanos(5 * SECOND)).min_by_key(|record| record.arrival);
    assert_eq!(first.unwrap().replica, Some(0));
}

/// Readings of engines in which nothing can change are left out: a year of fifty-millisecond readings would be 630 million events.
#[test]
fn long_steps_are_not_read_again_and_again() {
    let server = ServerConfig::new(1, Service::Deterministic, Nanos(1_000_000 * SECOND));
    let config = FleetConfig::new(3, ReplicaConfig::Server(server));
    let sizes = MultiTenantSpec { requests: 100, ..Default::default() };
    let mut fleet = fleet(config, tenants(sizes, 5, 1.0), &PolicySpec::named("least_kv_cache"));
    assert_eq!(fleet.poll(Nanos::MAX, 2_000), Poll::Done, "at {:?}", fleet.now());
    assert!(fleet.now() > Nanos(30_000_000 * SECOND));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(8, 160), failure_persistence: None, ..Default::default() })]
    #[test]
    fn changing_fleets_keep_every_invariant_and_go_on_when_restored(
        seed in 0u64..1 << 53,
        routers in 1u32..4,
        changes in prop::collection::vec((0u64..12_000, 0u32..6, 0u64..4_000, any::<bool>()), 0..6),
        scrape in 0u64..300,
        policy in any_policy(),
        events in 0u32..500,
        loss in 0.0..1.0f64,
    ) {
        let changes: Vec<Change> = changes
            .into_iter()
            .map(|(at, kind, warm, honest)| {
                let what = match kind {
                    0 | 1 => ChangeKind::Join { warm_up: Nanos(warm * 1_000_000), honest },
                    2 | 3 => ChangeKind::Leave { replica: kind - 1 },
                    4 => ChangeKind::RestartRouters,
                    _ => ChangeKind::ResetCounts,
                };
                Change { at: Nanos(at * 1_000_000), what }
            })
            .collect();
        let telemetry = TelemetryConfig {
            routers, scrape: Nanos(scrape * 1_000_000), event_delay: Nanos(20_000_000), event_loss: loss,
        };
        let config = FleetConfig { seed, telemetry, ..config(3, changes) };
        let sizes = MultiTenantSpec { requests: 90, system_min: 100, system_max: 200, ..Default::default() };
        let mut whole = fleet(config, tenants(sizes, seed, 15.0), &policy);
        whole.poll(Nanos::MAX, events);
        prop_assert_eq!(whole.check(), Ok(()));
        let saved = serde_json::to_string(&whole.save()).unwrap();
        let mut restored = Fleet::restore(serde_json::from_str(&saved).unwrap()).unwrap();
        prop_assert_eq!(serde_json::to_string(&restored.save()).unwrap(), saved);
        prop_assert_eq!(finish(&mut whole), finish(&mut restored));
        prop_assert_eq!(serde_json::to_string(&whole.save()).unwrap(), serde_json::to_string(&restored.save()).unwrap());
    }
}
