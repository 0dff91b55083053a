//! Replicas that come and go: cold starts, drains, kills, deploys, and what becomes of their requests.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

use crate::common::*;
use proptest::prelude::*;
use servelab_engine::Nanos;
use servelab_fleet::clients::ClientsConfig;
use servelab_fleet::config::{Change, ChangeKind};
use servelab_fleet::gateway::GatewayConfig;
use servelab_fleet::record::Loss;
use servelab_fleet::scaling::{Life, LifeEvent, NodesConfig, ScalePoint, ScalingConfig};
use servelab_fleet::startup::{
    AnswerTime, Link, LinkConfig, ProbeConfig, ProbesConfig, Readiness, Stage, StageWork, StartupConfig,
};
use servelab_fleet::store::StoreConfig;
use servelab_fleet::{Fleet, FleetConfig, Outcome, Poll, RequestRecord};
use servelab_spec::experiment::{ControllerSpec, EngineSpec, FetchRule, MultiTenantSpec, PolicySpec, Victim};
use servelab_spec::frame::ReplicaState;
use std::collections::BTreeSet;

const SECOND: u64 = 1_000_000_000;
const HOLD: GatewayConfig = GatewayConfig::CentralQueue { in_flight: u32::MAX, capacity: u32::MAX };

fn s(seconds: u64) -> Nanos {
    Nanos(seconds * SECOND)
}

fn at(seconds: u64, what: ChangeKind) -> Change {
    Change { at: s(seconds), what }
}

/// A node in 30 s, 10 GB of weights over a store of 1 GB/s that starting replicas share, 5 s of process, 3 s of warm-up.
fn cold() -> StartupConfig {
    StartupConfig {
        stages: vec![
            (Stage::Node, StageWork::Fixed(s(30))),
            (Stage::WeightsToHost, StageWork::Shared { bytes: 10_000_000_000, link: Link::WeightStore }),
            (Stage::Process, StageWork::Fixed(s(5))),
            (Stage::WarmUp, StageWork::Fixed(s(3))),
        ],
        store: LinkConfig { bytes_per_s: 1_000_000_000, each_bytes_per_s: None },
        ..StartupConfig::default()
    }
}

fn config(replicas: u32, scaling: ScalingConfig, changes: Vec<Change>) -> FleetConfig {
    FleetConfig {
        changes,
        gateway: HOLD,
        scaling: Some(scaling),
        horizon: Some(s(2000)),
        ..FleetConfig::priced(replicas, engine(EngineSpec::default()), cost())
    }
}

/// Replicas that serve one request after the other, some nine a second each.
fn slow(config: FleetConfig) -> FleetConfig {
    let spec = EngineSpec { max_batch: 1, ..Default::default() };
    FleetConfig { replica: FleetConfig::priced(1, engine(spec), cost()).replica, ..config }
}

fn controlled(controller: ControllerSpec, scaling: ScalingConfig) -> ScalingConfig {
    ScalingConfig { controller: Some(controller), ..scaling }
}

struct Told {
    fleet: Fleet,
    records: Vec<RequestRecord>,
    points: Vec<ScalePoint>,
    lives: Vec<LifeEvent>,
}

fn run(config: FleetConfig, requests: u32, rate: f64) -> Told {
    let sizes = MultiTenantSpec { requests, ..Default::default() };
    let mut fleet = fleet(config, tenants(sizes, 5, rate), &PolicySpec::named("round_robin"));
    let records = finish(&mut fleet);
    assert_eq!(records.len() as u32, requests, "every request is told of once");
    let (mut points, mut lives) = (vec![], vec![]);
    fleet.take_scaling(&mut points, &mut lives);
    Told { fleet, records, points, lives }
}

impl Told {
    fn when(&self, replica: u32, what: Life) -> Vec<Nanos> {
        let events = self.lives.iter().filter(|event| event.replica == replica && event.what == what);
        events.map(|event| event.at).collect()
    }

    fn lost(&self, cause: Loss) -> usize {
        self.records.iter().filter(|record| record.outcome == Outcome::Lost { cause }).count()
    }
}

/// A crash at 10 s: the successors are decided on at once, have a node at 40 s, share the store for 20 s, and serve 8 s later.
#[test]
fn a_cold_start_takes_the_time_of_its_stages() {
    let scaling = ScalingConfig { startup: cold(), ..ScalingConfig::default() };
    let told = run(config(3, scaling, vec![at(10, ChangeKind::Crash { replicas: 2 })]), 400, 2.0);
    for replica in [3, 4] {
        assert_eq!(told.when(replica, Life::Created), [s(10)]);
        assert_eq!(told.when(replica, Life::Stage(Stage::Node)), [s(40)]);
        assert_eq!(told.when(replica, Life::Stage(Stage::WeightsToHost)), [s(60)], "ten seconds alone, twenty for two");
        assert_eq!(told.when(replica, Life::Stage(Stage::Process)), [s(65)]);
        assert_eq!(told.when(replica, Life::Ready), [s(68)]);
        let first =
            told.records.iter().filter(|record| record.replica == Some(replica)).map(|record| record.arrival).min();
        assert!(first.unwrap() >= s(68), "nobody is sent to a replica that is not ready");
    }
    let lost = told.lost(Loss::Crash);
    assert!(lost > 0 && lost as u64 == told.fleet.counts().lost);
    assert_eq!(told.fleet.counts().finished + told.fleet.counts().lost, 400);
    let totals = told.fleet.scaling_totals().unwrap();
    assert_eq!((totals.created, totals.wasted), (2, 0));
    // Nodes: one throughout, two for ten seconds that were lost, two from ten seconds on.
    let end = told.fleet.now().as_secs();
    assert_eq!(totals.node_s, (end + 2.0 * 10.0 + 2.0 * (end - 10.0)) as u64);
}

#[test]
fn whoever_is_ready_too_early_lets_its_first_users_wait() {
    let last_first_token = |readiness| {
        let startup = StartupConfig { readiness, ..cold() };
        let scaling = ScalingConfig { startup, ..ScalingConfig::default() };
        let told = run(config(2, scaling, vec![at(10, ChangeKind::Crash { replicas: 1 })]), 300, 2.0);
        let ready = told.when(2, Life::Ready)[0];
        let on: Vec<&RequestRecord> = told.records.iter().filter(|record| record.replica == Some(2)).collect();
        let first = on.iter().filter_map(|record| record.admitted).min().unwrap();
        let waited = on.iter().filter_map(|record| record.ttft()).max().unwrap();
        (ready, first, waited)
    };
    let (ready, first, honest) = last_first_token(Readiness::Generation);
    assert_eq!(ready, s(58));
    assert!(first >= s(58));
    let (ready, first, early) = last_first_token(Readiness::Health);
    assert_eq!(ready, s(55), "all but the warm-up");
    assert!(first >= s(58), "it can not serve before it is warm");
    assert!(early > s(1) && early.0 > 10 * honest.0, "{early:?} against {honest:?}");
    assert_eq!(last_first_token(Readiness::Process).0, s(55));
}

/// A crash with a retry loses nobody.
#[test]
fn lost_requests_that_are_sent_again_are_served() {
    let scaling = ScalingConfig { startup: cold(), ..ScalingConfig::default() };
    let config = FleetConfig {
        clients: ClientsConfig::FixedRetry { attempts: 2, pause: Nanos(1) },
        ..config(3, scaling, vec![at(10, ChangeKind::Crash { replicas: 2 })])
    };
    let told = run(config, 400, 20.0);
    let counts = told.fleet.counts();
    assert!(counts.retries > 0);
    assert_eq!((counts.finished, counts.lost), (400, 0));
    assert!(told.records.iter().all(|record| record.attempts <= 2));
}

#[test]
fn while_nobody_is_ready_requests_are_held_or_refused() {
    let scaling = || ScalingConfig { startup: cold(), ..ScalingConfig::default() };
    let crash = || vec![at(10, ChangeKind::Crash { replicas: 1 })];
    let held = run(config(1, scaling(), crash()), 60, 1.0);
    let waited = held.records.iter().filter(|record| record.arrival > s(10) && record.arrival < s(58));
    assert!(waited.clone().count() > 20);
    assert!(waited.clone().all(|record| record.outcome == Outcome::Finished && record.first_token > Some(s(58))));
    let open = FleetConfig { gateway: GatewayConfig::AcceptAll, ..config(1, scaling(), crash()) };
    let refused = run(open, 60, 1.0);
    let refused = refused.records.iter().filter(|record| matches!(record.outcome, Outcome::Rejected { code: 503, .. }));
    assert_eq!(refused.count(), waited.count());
}

/// A deploy replaces every replica. With a successor first there are never fewer than before; without, there are.
#[test]
fn a_deploy_replaces_everybody_one_after_the_other() {
    for (surge, fewest) in [(true, 3), (false, 2)] {
        let startup = StartupConfig { surge, ..cold() };
        let scaling = ScalingConfig { startup, grace: s(300), ..ScalingConfig::default() };
        let told = run(config(3, scaling, vec![at(20, ChangeKind::Deploy)]), 900, 3.0);
        assert_eq!(told.fleet.counts().finished, 900, "a deploy with enough grace loses nobody");
        for replica in 0..3 {
            assert_eq!(told.when(replica, Life::Draining).len(), 1, "surge {surge}: replica {replica}");
            assert_eq!(told.when(replica, Life::Gone).len(), 1);
        }
        assert_eq!(told.fleet.scaling_totals().unwrap().created, 3);
        let least = told.points.iter().map(|point| point.ready).min().unwrap();
        assert_eq!(least, fewest, "surge {surge}");
        let last = told.points.last().unwrap();
        assert_eq!((last.ready, last.starting, last.draining), (3, 0, 0));
        // The second one comes on the node that the first one left.
        let starts: Vec<Nanos> = (3..6).map(|replica| told.when(replica, Life::Created)[0]).collect();
        assert!(starts[0] < starts[1] && starts[1] < starts[2]);
        assert!(
            told.when(4, Life::Stage(Stage::Node)).is_empty()
                == told.when(0, Life::Gone).first().is_some_and(|&gone| gone <= starts[1])
        );
        assert!(told.fleet.scaling_totals().unwrap().cache_lost_tokens > 0, "three caches went");
    }
}

/// `kthena#1589`: a grace shorter than the generations cuts streams; long enough, none.
#[test]
fn a_grace_shorter_than_the_answers_cuts_them() {
    let lost = |grace| {
        let startup = StartupConfig { surge: true, ..cold() };
        let scaling = ScalingConfig { startup, grace, ..ScalingConfig::default() };
        // 60 answers of 600 tokens, at 3 ms to 10 ms a step: some seconds each.
        let sizes = MultiTenantSpec { requests: 120, output_min: 600, output_max: 600, ..Default::default() };
        let mut fleet = fleet(
            config(2, scaling, vec![at(40, ChangeKind::Deploy)]),
            tenants(sizes, 5, 1.0),
            &PolicySpec::named("least_requests"),
        );
        let records = finish(&mut fleet);
        assert_eq!(records.len(), 120);
        records.iter().filter(|record| record.outcome == Outcome::Lost { cause: Loss::Grace }).count()
    };
    assert!(lost(Nanos(SECOND / 2)) > 0);
    assert_eq!(lost(s(600)), 0);
}

/// `llm-d-benchmark#1734`: a saturated engine answers its health check late, and goes out of rotation although nothing is wrong with it; a longer
/// time-out cures that.
#[test]
fn a_saturated_health_check_empties_the_rotation() {
    let not_ready = |timeout, failures| {
        let readiness = ProbeConfig { period: s(5), timeout, failures, ..ProbeConfig::default() };
        let probes = ProbesConfig {
            readiness: Some(readiness),
            answer: AnswerTime { base: Nanos::ZERO, per_request: Nanos(100_000_000) },
            ..ProbesConfig::default()
        };
        let startup = StartupConfig { probes: Some(probes), ..cold() };
        let scaling = ScalingConfig { startup, ..ScalingConfig::default() };
        // Offered 40 a second, two of them fall behind at once: eleven in flight answer after more than a second.
        let told = run(slow(config(2, scaling, vec![])), 800, 40.0);
        assert_eq!(told.fleet.counts().finished, 800);
        told.lives.iter().filter(|event| event.what == Life::NotReady).map(|event| event.at).collect::<Vec<_>>()
    };
    let out = not_ready(s(1), 3);
    assert!(out.len() >= 2, "both leave the rotation");
    assert!(out[0] >= s(11) && out[0] <= s(16), "three probes five seconds apart: {:?}", out[0]);
    assert!(not_ready(s(15), 10).is_empty());
}

/// A start-up probe whose budget is shorter than the fetch kills the container for ever.
#[test]
fn a_startup_probe_shorter_than_the_fetch_never_lets_it_start() {
    let restarts = |failures| {
        let startup_probe = ProbeConfig { failures, ..ProbeConfig::default() };
        let probes = ProbesConfig { startup: Some(startup_probe), ..ProbesConfig::default() };
        let mut startup = StartupConfig { probes: Some(probes), ..cold() };
        // 140 GB at 1 GB/s.
        startup.stages[1].1 = StageWork::Shared { bytes: 140_000_000_000, link: Link::WeightStore };
        let scaling = ScalingConfig { startup, ..ScalingConfig::default() };
        let told = run(config(2, scaling, vec![at(5, ChangeKind::Crash { replicas: 1 })]), 1500, 1.0);
        (told.when(2, Life::Ready).len(), told.when(2, Life::Restarted))
    };
    // Probes at 0, 10 and 20 s after the container's start fail: killed at 35 + 20 s, started again at once, killed 20 s later; from then on the wait
    // before each start doubles from 10 s to five minutes.
    let (ready, killed) = restarts(3);
    assert_eq!((ready, &killed[..9]), (0, &[55, 75, 105, 145, 205, 305, 485, 805, 1125].map(s)[..]));
    let (ready, killed) = restarts(18);
    assert_eq!((ready, killed), (1, vec![]));
}

#[test]
fn a_liveness_probe_that_fails_under_load_loses_the_work() {
    let liveness = ProbeConfig { period: s(5), ..ProbeConfig::default() };
    let probes = ProbesConfig {
        liveness: Some(liveness),
        answer: AnswerTime { base: Nanos::ZERO, per_request: Nanos(100_000_000) },
        ..ProbesConfig::default()
    };
    let scaling =
        ScalingConfig { startup: StartupConfig { probes: Some(probes), ..cold() }, ..ScalingConfig::default() };
    let told = run(slow(config(2, scaling, vec![])), 800, 40.0);
    let lost = told.lost(Loss::Probe);
    assert!(lost > 0);
    assert_eq!(told.fleet.counts().finished + lost as u64, 800);
    assert!(told.fleet.scaling_totals().unwrap().restarts >= 2);
}

/// The schedule asks for four, then for one: three go, and their nodes are paid for until they have been idle for the time that nodes linger.
#[test]
fn nodes_are_paid_for_longer_than_replicas() {
    let schedule = ControllerSpec::named("schedule")
        .with("base", 1.0)
        .with("a_from", 20.0 / 3600.0)
        .with("a_to", 120.0 / 3600.0)
        .with("a_replicas", 4.0);
    let scaling = ScalingConfig {
        startup: cold(),
        nodes: NodesConfig { linger: s(60), ..NodesConfig::default() },
        victim: Victim::Newest,
        ..ScalingConfig::default()
    };
    let told = run(config(1, controlled(schedule, scaling), vec![]), 400, 1.0);
    let totals = told.fleet.scaling_totals().unwrap();
    assert_eq!((totals.created, told.fleet.counts().finished), (3, 400));
    let gone: Vec<f64> = (1..4).map(|replica| told.when(replica, Life::Gone)[0].as_secs()).collect();
    let created: Vec<f64> = (1..4).map(|replica| told.when(replica, Life::Created)[0].as_secs()).collect();
    let end = told.fleet.now().as_secs();
    let nodes = end + gone.iter().zip(&created).map(|(gone, created)| gone - created + 60.0).sum::<f64>();
    assert!((totals.node_s as f64 - nodes).abs() <= 1.0, "{} for {nodes}", totals.node_s);
}

/// One spare beside one replica. A crash at 100 s: the spare, started by 48 s, serves at that instant, and another one is started.
#[test]
fn a_warm_spare_serves_the_moment_it_is_needed() {
    let startup = StartupConfig { warm_spares: 1, ..cold() };
    let scaling = ScalingConfig { startup, ..ScalingConfig::default() };
    let told = run(config(1, scaling.clone(), vec![at(100, ChangeKind::Crash { replicas: 1 })]), 200, 1.0);
    assert_eq!((told.when(1, Life::Created), told.when(1, Life::Standby)), (vec![Nanos::ZERO], vec![s(48)]));
    assert_eq!(told.when(1, Life::Ready), [s(100)]);
    assert_eq!((told.when(2, Life::Created), told.when(2, Life::Standby)), (vec![s(100)], vec![s(148)]));
    assert_eq!(told.fleet.counts().finished + told.lost(Loss::Crash) as u64, 200);
    // Nobody asks a spare to serve, but it is paid for: two replicas all the while.
    let before = told.records.iter().filter(|record| record.end < s(100) && record.outcome == Outcome::Finished);
    assert!(before.clone().count() > 50 && before.clone().all(|record| record.replica == Some(0)));
    let lifetimes: f64 = told.fleet.replica_stats().map(|replica| replica.lifetime.as_secs()).sum();
    assert!((lifetimes - 2.0 * told.fleet.now().as_secs()).abs() < 1e-6, "{lifetimes}");
    // Needed while it still starts, it goes on from where it is.
    let early = run(config(1, scaling, vec![at(40, ChangeKind::Crash { replicas: 1 })]), 100, 1.0);
    assert_eq!(early.when(1, Life::Ready), [s(48)]);
    assert!(early.when(1, Life::Standby).is_empty());
}

fn any_scaling() -> impl Strategy<Value = ScalingConfig> {
    let probe = |period: u64, failures| ProbeConfig { period: Nanos(period), failures, ..ProbeConfig::default() };
    let probes = prop::option::of((any::<[bool; 3]>(), 1u32..4, 100_000_000u64..3_000_000_000).prop_map(
        move |(on, failures, period)| ProbesConfig {
            startup: on[0].then(|| probe(period, failures + 20)),
            readiness: on[1].then(|| probe(period, failures)),
            liveness: on[2].then(|| probe(period, failures + 1)),
            answer: AnswerTime { base: Nanos(1_000_000), per_request: Nanos(40_000_000) },
        },
    ));
    let readiness = prop::sample::select(vec![Readiness::Process, Readiness::Health, Readiness::Generation]);
    let victim = prop::sample::select(vec![Victim::Newest, Victim::Idlest, Victim::Coldest]);
    let controller = prop::sample::select(
        servelab_fleet::scaling::registry::CONTROLLERS.iter().map(|entry| entry.name).collect::<Vec<_>>(),
    );
    (
        probes,
        readiness,
        victim,
        prop::option::of(controller),
        any::<bool>(),
        0u64..8_000_000_000,
        1u64..4_000_000_000,
        (0u64..3, 0u32..3),
    )
        .prop_map(|(probes, readiness, victim, controller, surge, grace, scrape, (speed, warm_spares))| {
            let mut startup = StartupConfig { probes, readiness, surge, warm_spares, ..cold() };
            for (_, work) in &mut startup.stages {
                // Down to no time at all, so that much happens at one instant.
                *work = match *work {
                    StageWork::Fixed(time) => StageWork::Fixed(Nanos(time.0 / 20 * speed)),
                    StageWork::Shared { bytes, link } => StageWork::Shared { bytes: bytes / 20 * speed, link },
                    other => other,
                };
            }
            ScalingConfig {
                controller: controller.map(ControllerSpec::named),
                min: 0,
                max: 6,
                scrape: Nanos(scrape),
                victim,
                grace: Nanos(grace),
                startup,
                nodes: NodesConfig { linger: s(5), warm: 1, ..NodesConfig::default() },
                ..ScalingConfig::default()
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, failure_persistence: None, ..Default::default() })]
    /// Whatever comes and goes: every request ends exactly once and is counted by cause, lifetimes sum to what was there, steps taken one by one give
    /// the same, and a fleet restored in the middle goes on byte for byte.
    #[test]
    fn nothing_is_lost_but_what_is_counted(
        scaling in any_scaling(),
        policy in any_policy(),
        seed in 0u64..1 << 40,
        rate in 2.0..60.0f64,
        (deploy, crash) in (prop::option::of(0u64..20), prop::option::of((0u64..20, 1u32..4))),
        (hold, retry, stored) in any::<(bool, bool, bool)>(),
        pause in 1u32..400,
    ) {
        let mut changes: Vec<Change> = deploy.into_iter().map(|second| at(second, ChangeKind::Deploy)).collect();
        changes.extend(crash.map(|(second, replicas)| at(second, ChangeKind::Crash { replicas })));
        let clients = if retry { ClientsConfig::FixedRetry { attempts: 3, pause: Nanos(1) } } else { ClientsConfig::OneTry };
        let gateway = if hold { HOLD } else { GatewayConfig::AcceptAll };
        let store = stored.then_some(StoreConfig {
            blocks: 40,
            latency: Nanos(5_000_000),
            link_bytes_per_s: 20_000_000,
            total_bytes_per_s: 0,
            token_bytes: 3072,
            fetch: FetchRule::Cheaper,
        });
        let config = FleetConfig { seed, clients, gateway, store, horizon: Some(s(90)), ..config(3, scaling, changes) };
        let sizes = MultiTenantSpec { requests: 150, system_min: 60, system_max: 90, ..Default::default() };
        let source = || tenants(sizes.clone(), seed, rate);
        let mut whole = fleet(config.clone(), source(), &policy);
        whole.poll(Nanos::MAX, pause);
        prop_assert_eq!(whole.check(), Ok(()));
        let saved = serde_json::to_string(&whole.save()).unwrap();
        let mut restored = Fleet::restore(serde_json::from_str(&saved).unwrap()).unwrap();
        prop_assert_eq!(serde_json::to_string(&restored.save()).unwrap(), saved);
        let records = finish(&mut whole);
        prop_assert_eq!(&records, &finish(&mut restored));
        let mut single = fleet(FleetConfig { max_repeat: 1, ..config }, source(), &policy);
        prop_assert_eq!(&records, &finish(&mut single));
        let told = |fleet: &mut Fleet| {
            let (mut points, mut lives) = (vec![], vec![]);
            fleet.take_scaling(&mut points, &mut lives);
            (points, lives)
        };
        let (one, two) = (told(&mut whole), told(&mut single));
        prop_assert_eq!(&one, &two);
        prop_assert_eq!(stats(&whole), stats(&single));

        let counts = whole.counts();
        let ids: BTreeSet<u32> = records.iter().map(|record| record.index).collect();
        prop_assert_eq!(ids.len(), records.len());
        prop_assert_eq!(records.len() as u64, counts.arrived);
        let count = |wanted: fn(&Outcome) -> bool| records.iter().filter(|record| wanted(&record.outcome)).count() as u64;
        prop_assert_eq!(count(|outcome| *outcome == Outcome::Finished), counts.finished);
        prop_assert_eq!(count(|outcome| matches!(outcome, Outcome::Lost { .. })), counts.lost);
        prop_assert_eq!(count(|outcome| matches!(outcome, Outcome::Rejected { .. })), counts.rejected);
        prop_assert_eq!(count(|outcome| *outcome == Outcome::Pending), counts.pending);
        prop_assert!(!hold || counts.rejected == 0);
        prop_assert_eq!(records.iter().map(|record| u64::from(record.attempts)).sum::<u64>(), counts.attempts);
        // Lives: created and gone alternate for each place, and there are never more replicas than places.
        for replica in 0..14 {
            let mut alive = replica < 3;
            for event in one.1.iter().filter(|event| event.replica == replica) {
                match event.what {
                    Life::Created => {
                        prop_assert!(!alive);
                        alive = true;
                    }
                    Life::Gone | Life::Killed(_) => {
                        prop_assert!(alive);
                        alive = false;
                    }
                    _ => prop_assert!(alive),
                }
            }
        }
    }
}

#[test]
fn bounds_that_contradict_each_other_are_refused() {
    let refused = |replicas, scaling: ScalingConfig, changes| {
        let source = tenants(MultiTenantSpec::default(), 1, 1.0);
        Fleet::new(config(replicas, scaling, changes), source, &PolicySpec::named("random")).err().unwrap().to_string()
    };
    let d = ScalingConfig::default;
    assert!(refused(2, ScalingConfig { min: 3, max: 2, ..d() }, vec![]).starts_with("scaling.max: 2"));
    assert!(refused(9, d(), vec![]).starts_with("replicas: 9"));
    assert!(refused(1, ScalingConfig { scrape: Nanos::ZERO, ..d() }, vec![]).starts_with("scaling.scrape_s"));
    let unknown = controlled(ControllerSpec::named("psychic"), d());
    assert!(refused(1, unknown, vec![]).starts_with("scaling.controllers.name: psychic"));
    assert!(refused(1, d(), vec![at(1, ChangeKind::Leave { replica: 0 })]).starts_with("changes"));
    let mut fleet =
        fleet(config(1, d(), vec![]), tenants(MultiTenantSpec::default(), 1, 1.0), &PolicySpec::named("random"));
    assert_eq!(fleet.poll(Nanos::MAX, u32::MAX), Poll::Done);
    assert_eq!(fleet.frame(0).replicas[0].state, ReplicaState::Ready);
}
