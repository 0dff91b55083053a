//! Clients, attempts and faults in the loop: by hand where one server and one client are all there is, and as properties (F1, F5, F8, F9, F11,
//! F12) over any clients, any faults and any replicas. In these (debug) builds every run also checks itself on the way.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

use crate::common::crowds::*;
use servelab_engine::Nanos;
use servelab_fleet::clients::{Backoff, ClientPolicy, ClientsConfig, Crowd, Hedge, Pace, RetryOn};
use servelab_fleet::config::{Change, ChangeKind};
use servelab_fleet::faults::{Fault, FaultKind};
use servelab_fleet::gateway::GatewayConfig;
use servelab_fleet::record::{Loss, RefusedBy};
use servelab_fleet::replica::server::{ServerConfig, Service};
use servelab_fleet::{Fleet, FleetConfig, Outcome, Poll, Refusal, ReplicaConfig, RequestRecord};
use servelab_spec::experiment::PolicySpec;

fn s(seconds: f64) -> Nanos {
    Nanos::from_secs(seconds)
}

/// One server that takes a second for each request, asked by one user who thinks for no time at all.
fn alone(requests: u32, policy: ClientPolicy, cancels: bool) -> (FleetConfig, u32) {
    let crowd = Crowd { pace: Pace::Closed { users: 1, think: Nanos(0) }, cancels, ..Crowd::of(policy) };
    let server = ServerConfig::new(1, Service::Deterministic, s(1.0));
    let clients = ClientsConfig::Crowd(Box::new(crowd));
    (FleetConfig { clients, ..FleetConfig::new(1, ReplicaConfig::Server(server)) }, requests)
}

fn run((config, requests): (FleetConfig, u32)) -> (Fleet, Vec<RequestRecord>) {
    let mut fleet = Fleet::new(config, tiny_requests(requests, 1.0, 1), &PolicySpec::named("round_robin")).unwrap();
    assert_eq!(fleet.poll(Nanos::MAX, u32::MAX), Poll::Done);
    let mut records = Vec::new();
    fleet.take_ended(&mut |record| records.push(record.clone()));
    fleet.check().unwrap();
    (fleet, records)
}

fn impatient() -> ClientPolicy {
    ClientPolicy { attempts: 3, backoff: Backoff::fixed(s(0.1)), timeout: Some(s(0.4)), ..ClientPolicy::default() }
}

/// To within the nanoseconds that pass between the end of one request and the start of the next.
fn close(found: Nanos, seconds: f64) -> bool {
    (found.as_secs() - seconds).abs() < 1e-6
}

/// By hand. A user with a time-out of 0.4 s, three attempts and 0.1 s between them sends attempts at 0, 0.5 and 1.0 and gives up at 1.4; then the next request, at
/// 1.4, 1.9 and 2.4, until 2.8. The server, which nobody tells, works on the first attempt until 1, on the second until 2 and on the third beyond
/// the end.
#[test]
fn abandoned_work_goes_on_unless_the_server_is_told() {
    let (fleet, records) = run(alone(2, impatient(), false));
    assert!(records.iter().all(|record| record.outcome == Outcome::TimedOut && record.attempts == 3));
    assert!(close(records[0].end, 1.4) && close(records[1].arrival, 1.4) && close(records[1].end, 2.8));
    let (counts, fates) = (fleet.counts(), fleet.fates());
    assert_eq!((counts.timed_out, counts.attempts, counts.retries), (2, 6, 4));
    assert_eq!((fates.accepted, fates.timed_out, fates.succeeded), (6, 6, 0));
    assert_eq!(fleet.work().abandoned, s(2.0));
    // Told, it stops at once, and each attempt costs it 0.4 s.
    let (fleet, records) = run(alone(2, impatient(), true));
    assert!(close(records[1].end, 2.8));
    assert_eq!(fleet.work().abandoned, s(2.4));
    assert_eq!(fleet.work().useful, Nanos::ZERO);
}

/// The time-out is void when the answer comes first, or where it counts until the first token and that has come.
#[test]
fn an_answer_in_time_makes_the_time_out_void() {
    let patient = ClientPolicy { timeout: Some(s(1.000_001)), ..impatient() };
    let (fleet, records) = run(alone(5, patient, false));
    assert!(records.iter().all(|record| record.outcome == Outcome::Finished && record.attempts == 1));
    assert_eq!((fleet.work().useful, fleet.counts().timed_out), (s(5.0), 0));
}

/// The deadline is one for all attempts: at 0.9 the second attempt has been under way for 0.4 s, and nobody waits for its end.
#[test]
fn a_deadline_ends_a_request_whatever_is_under_way() {
    let policy = ClientPolicy { deadline: Some(s(0.7)), ..impatient() };
    let (fleet, records) = run(alone(1, policy.clone(), true));
    assert_eq!((records[0].outcome, records[0].attempts, records[0].end), (Outcome::Abandoned, 2, s(0.7)));
    assert_eq!((fleet.fates().timed_out, fleet.fates().superseded, fleet.counts().abandoned), (1, 1, 1));
    // A retry that could not begin before the deadline is not waited for.
    let (_, records) = run(alone(1, ClientPolicy { deadline: Some(s(0.45)), ..policy }, true));
    assert_eq!((records[0].outcome, records[0].attempts, records[0].end), (Outcome::TimedOut, 1, s(0.4)));
}

/// Two servers of which one is stuck: after 1.5 s the request goes to the other as well, which answers a second later; and so does the next one.
#[test]
fn a_hedge_is_answered_and_the_loser_cancelled() {
    let policy = ClientPolicy { hedge: Some(Hedge { after: s(1.5), most: 1 }), ..ClientPolicy::default() };
    let (config, _) = alone(2, policy, true);
    let frozen = Fault { from: s(0.25), until: s(9.0), what: FaultKind::Frozen { replica: Some(0) } };
    let (fleet, records) = run((FleetConfig { replicas: 2, faults: vec![frozen], ..config }, 2));
    assert_eq!((records[0].end, records[0].attempts, records[0].replica), (s(2.5), 2, Some(1)));
    assert!(close(records[1].end, 5.0) && records[1].replica == Some(1));
    assert_eq!((fleet.counts().hedges, fleet.counts().retries, fleet.fates().superseded), (2, 0, 2));
    // The stuck server had worked for a quarter of a second on the first.
    assert_eq!((fleet.work().useful, fleet.work().abandoned), (s(2.0), s(0.25)));
}

#[test]
fn a_server_that_stands_still_goes_on_where_it_was() {
    let (config, _) = alone(2, ClientPolicy::default(), false);
    let frozen = Fault { from: s(0.5), until: s(2.5), what: FaultKind::Frozen { replica: None } };
    let (fleet, records) = run((FleetConfig { faults: vec![frozen], ..config }, 2));
    assert!(close(records[0].end, 3.0) && close(records[1].end, 4.0));
    assert_eq!(fleet.work().useful, s(2.0), "standing still is no work");
}

/// Down from 0.5 s to 2.5 s: what is there is lost, what comes is refused by the router, and the client tries once a second.
#[test]
fn a_server_that_is_down_loses_what_it_had_and_is_found_again() {
    let policy = ClientPolicy { attempts: 9, backoff: Backoff::fixed(s(1.0)), ..ClientPolicy::default() };
    let (config, _) = alone(1, policy, false);
    let down = Fault { from: s(0.5), until: s(2.5), what: FaultKind::Down { replica: None } };
    let (fleet, records) = run((FleetConfig { faults: vec![down], ..config.clone() }, 1));
    // Attempts at 0 (lost at 0.5), 1.5 (refused), 2.5 (served).
    assert_eq!((records[0].attempts, records[0].end, records[0].outcome), (3, s(3.5), Outcome::Finished));
    assert_eq!((fleet.fates().lost, fleet.fates().refused[&Refusal::NoReplica]), (1, 1));
    assert_eq!((fleet.work().lost, fleet.work().useful), (s(0.5), s(1.0)));
    let once = Fault { until: s(0.6), ..down };
    let policy = ClientPolicy {
        retry_on: RetryOn { server_errors: false, ..RetryOn::ALL },
        attempts: 9,
        ..ClientPolicy::default()
    };
    let (config, _) = alone(1, policy, false);
    let (_, records) = run((FleetConfig { faults: vec![once], ..config }, 1));
    assert_eq!(records[0].outcome, Outcome::Lost { cause: Loss::Crash });
}

/// The network is split from 0.5 s to 5 s: the answer to the first attempt does not come through, later ones do not arrive, and all hang until the
/// time-out, or until the split is over.
#[test]
fn attempts_hang_in_a_split_network() {
    let split = Fault { from: s(0.5), until: s(5.0), what: FaultKind::Split { replica: None } };
    let policy = ClientPolicy { timeout: Some(s(2.0)), backoff: Backoff::fixed(s(0.5)), ..impatient() };
    let (config, _) = alone(1, policy, true);
    let (fleet, records) = run((FleetConfig { faults: vec![split], ..config.clone() }, 1));
    // Attempts at 0, 2.5 and 5.0: the last one is served.
    assert_eq!((records[0].attempts, records[0].end), (3, s(6.0)));
    assert_eq!((fleet.fates().vanished, fleet.fates().accepted, fleet.fates().timed_out), (1, 2, 2));
    assert_eq!((fleet.work().abandoned, fleet.work().useful), (s(1.0), s(1.0)));
    let patient = ClientPolicy { attempts: 1, timeout: None, ..ClientPolicy::default() };
    let (config, _) = alone(1, patient, true);
    let (_, records) = run((FleetConfig { faults: vec![split], ..config }, 1));
    assert_eq!((records[0].end, records[0].outcome), (s(5.0), Outcome::Lost { cause: Loss::Network }));
}

/// A request that crashes whoever serves it, tried four times on three replicas, takes them down one after the other.
#[test]
fn a_poison_request_goes_from_replica_to_replica() {
    let policy = ClientPolicy { attempts: 4, backoff: Backoff::fixed(s(0.1)), ..ClientPolicy::default() };
    let (config, _) = alone(3, policy, false);
    let poison = Fault { from: s(0.0), until: s(1e6), what: FaultKind::Poison { request: 1, restart: s(60.0) } };
    let (fleet, records) = run((FleetConfig { replicas: 3, faults: vec![poison], ..config }, 3));
    // Its admission is told when a server is done with it: a second each, and then nobody is left to take the fourth attempt.
    let poisoned = &records[1];
    assert_eq!((poisoned.index, poisoned.attempts), (1, 4));
    assert_eq!(poisoned.outcome, Outcome::Rejected { code: 503, cause: Refusal::NoReplica });
    assert!(close(poisoned.end, 1.0 + 3.0 * 1.1));
    assert_eq!((fleet.fates().lost, fleet.work().lost), (3, s(3.0)));
    let next = records.iter().find(|record| record.index == 2).unwrap();
    assert_eq!(next.outcome, Outcome::Rejected { code: 503, cause: Refusal::NoReplica }, "the innocent pay");
}

/// No server is there until 2 s, and the gateway holds what comes. Attempts at 0, 0.5 and 1.0 are each waited for 0.4 s; the next request's at 1.4, 1.9 and 2.4.
/// Told, the gateway lets go of what nobody waits for. Else it holds all of it and sends it on at 2 s.
#[test]
fn the_gateway_holds_for_nobody_unless_it_is_told() {
    let held = |cancels| {
        let (config, requests) = alone(2, impatient(), cancels);
        let down = Fault { from: s(0.0), until: s(2.0), what: FaultKind::Down { replica: None } };
        let gateway = GatewayConfig::CentralQueue { in_flight: u32::MAX, capacity: 9 };
        run((FleetConfig { gateway, faults: vec![down], ..config }, requests))
    };
    let (fleet, records) = held(true);
    assert!(records.iter().all(|record| record.outcome == Outcome::TimedOut && record.attempts == 3));
    assert!(close(records[0].held, 1.2) && close(records[1].held, 0.5), "{records:?}");
    // Of the second request the second attempt gets through at 2 s, and the third in its place.
    assert_eq!((fleet.fates().withdrawn, fleet.fates().accepted), (4, 2));
    assert!(close(fleet.work().abandoned, 0.7));
    let (fleet, records) = held(false);
    assert!(close(records[0].end, 1.4) && close(records[1].end, 2.8));
    assert!(close(records[0].held, 1.4 + 0.9 + 0.4) && close(records[1].held, 0.6 + 0.1), "{records:?}");
    assert_eq!((fleet.fates().withdrawn, fleet.fates().accepted), (0, 6));
}

/// Ten requests at once to a server with room for two: one is served, two wait, seven are turned away for 0.2 s of its time each, which goes before
/// those who wait.
#[test]
fn turning_attempts_away_costs_the_server_its_time() {
    let server = ServerConfig { queue: Some(2), ..ServerConfig::new(1, Service::Deterministic, s(1.0)) };
    let config = FleetConfig { reject_cost: s(0.2), ..FleetConfig::new(1, ReplicaConfig::Server(server)) };
    let (fleet, records) = {
        let mut fleet = Fleet::new(config, tiny_requests(10, 1e9, 1), &PolicySpec::named("round_robin")).unwrap();
        assert_eq!(fleet.poll(Nanos::MAX, u32::MAX), Poll::Done);
        let mut records = Vec::new();
        fleet.take_ended(&mut |record| records.push(record.clone()));
        (fleet, records)
    };
    assert_eq!((fleet.fates().refused[&Refusal::ReplicaQueue], fleet.fates().refused_by(RefusedBy::Replica)), (7, 7));
    let ends: Vec<Nanos> =
        records.iter().filter(|record| record.outcome == Outcome::Finished).map(|record| record.end).collect();
    assert!(close(ends[0], 1.0) && close(ends[1], 3.4) && close(ends[2], 4.4), "{ends:?}");
    let stats = fleet.replica_stats().next().unwrap();
    assert!(close(stats.refusing, 1.4) && close(stats.worked, 4.4));
}

/// A session's next turn waits for the answer to the one before and a time of thinking.
#[test]
fn turns_of_a_session_wait_for_the_one_before() {
    let server = ServerConfig::new(1, Service::Exponential, s(3.0));
    let crowd = Crowd { pace: Pace::Sessions { think: s(1.0) }, ..Crowd::default() };
    let clients = ClientsConfig::Crowd(Box::new(crowd));
    let config = FleetConfig { clients, ..FleetConfig::new(2, ReplicaConfig::Server(server)) };
    let mut fleet = Fleet::new(config, sessions(150), &PolicySpec::named("session_sticky")).unwrap();
    let of: Vec<u64> = (0..150)
        .map(|index| servelab_workload::Workload::request_again(fleet.source(), index).unwrap().session.unwrap())
        .collect();
    assert_eq!(fleet.poll(Nanos::MAX, u32::MAX), Poll::Done);
    let mut records = Vec::new();
    fleet.take_ended(&mut |record| records.push(record.clone()));
    assert_eq!((records.len(), fleet.counts().finished), (150, 150));
    records.sort_by_key(|record| record.arrival);
    let mut waited = 0;
    for (at, record) in records.iter().enumerate() {
        let mine = of[record.index as usize];
        if let Some(before) = records[..at].iter().rev().find(|other| of[other.index as usize] == mine) {
            assert!(record.arrival > before.end && record.index > before.index, "{record:?} after {before:?}");
            waited += 1;
        }
    }
    assert!(waited > 100);
}

/// Little's law for a closed loop: users = throughput · (thinking + response).
#[test]
fn a_closed_loop_keeps_its_users_busy() {
    let crowd = Crowd { pace: Pace::Closed { users: 20, think: s(2.0) }, ..Crowd::default() };
    let clients = ClientsConfig::Crowd(Box::new(crowd));
    let server = ServerConfig::new(4, Service::Exponential, s(0.5));
    let config = FleetConfig { clients, ..FleetConfig::new(1, ReplicaConfig::Server(server)) };
    let (fleet, records) = run((config, 20_000));
    let response = records.iter().map(|record| record.end.since(record.arrival).as_secs()).sum::<f64>() / 20_000.0;
    let throughput = 20_000.0 / fleet.now().as_secs();
    // Both means have a relative standard error of about 1 % of 1/√200 (20 000 draws each): 3 % is more than four of them.
    let users = throughput * (2.0 + response);
    assert!((users - 20.0).abs() < 0.6, "{users}");
}

/// A remedy in mid-run. Load at 0.9 of capacity behind a short stop stays in the state in which everybody waits too long; cancelling what nobody waits
/// for heals it.
#[test]
fn cancelling_abandoned_work_heals_what_a_short_stop_broke() {
    let policy = ClientPolicy { attempts: 3, timeout: Some(s(2.0)), ..ClientPolicy::default() };
    let server = ServerConfig::new(1, Service::Exponential, s(0.1));
    let base = FleetConfig {
        clients: ClientsConfig::Crowd(Box::new(Crowd::of(policy))),
        faults: vec![Fault { from: s(50.0), until: s(60.0), what: FaultKind::Frozen { replica: None } }],
        horizon: Some(s(300.0)),
        ..FleetConfig::new(1, ReplicaConfig::Server(server))
    };
    let heal = vec![Change { at: s(200.0), what: ChangeKind::Cancel }];
    let finished = |changes: Vec<Change>, from: f64, to: f64| {
        let mut fleet = Fleet::new(
            FleetConfig { changes, ..base.clone() },
            tiny_requests(3000, 7.0, 3),
            &PolicySpec::named("round_robin"),
        )
        .unwrap();
        assert_eq!(fleet.poll(Nanos::MAX, u32::MAX), Poll::Done);
        let mut good = 0;
        fleet.take_ended(&mut |record| {
            good += u32::from(record.outcome == Outcome::Finished && record.end >= s(from) && record.end < s(to));
        });
        good
    };
    // 7 requests a second, at most 3 attempts each, of which the server does 10 a second.
    assert!(finished(vec![], 0.0, 50.0) > 300, "healthy before");
    let sick = finished(vec![], 250.0, 300.0);
    let healed = finished(heal, 250.0, 300.0);
    assert!(sick < 60 && healed > 300, "{sick} {healed}");
}
