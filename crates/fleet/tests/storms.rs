//! F1, F5, F8, F9 and F11 to F13 over any clients, any gateway, any faults and any replicas: whatever happens to a fleet, every attempt is accounted for, runs of
//! equal steps are invisible, and a restored fleet goes on byte for byte. In these (debug) builds every run also checks itself on the way.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

use crate::common::gateways::{gateways, queues};
use crate::common::*;
use proptest::prelude::*;
use servelab_engine::{EngineConfig, Nanos};
use servelab_fleet::clients::*;
use servelab_fleet::config::{Change, ChangeKind};
use servelab_fleet::faults::{Fault, FaultKind};
use servelab_fleet::replica::server::{ServerConfig, Service};
use servelab_fleet::replica::tick::TickConfig;
use servelab_fleet::{Fleet, FleetConfig, Outcome, Poll, ReplicaConfig};
use servelab_spec::experiment::{EngineSpec, MultiTenantSpec, PolicySpec};

const MS: u64 = 1_000_000;

fn backoff() -> impl Strategy<Value = Backoff> {
    let jitter = prop_oneof![
        Just(Jitter::None),
        Just(Jitter::Full),
        Just(Jitter::Equal),
        Just(Jitter::Decorrelated),
        Just(Jitter::Around(0.2)),
        Just(Jitter::Below(0.25)),
    ];
    let growth = prop_oneof![Just(Growth::None), Just(Growth::Fixed), Just(Growth::Exponential)];
    (growth, 1u64..800, jitter).prop_map(|(growth, base, jitter)| Backoff {
        growth,
        base: Nanos(base * MS),
        cap: Nanos(4000 * MS),
        jitter,
        ..Backoff::default()
    })
}

fn budget() -> impl Strategy<Value = Budget> {
    prop_oneof![
        2 => Just(Budget::Unlimited),
        1 => (0.0..3.0f64).prop_map(|min_per_s| Budget::Deposits { ttl: Nanos(4000 * MS), min_per_s, ratio: 0.2 }),
        1 => Just(Budget::Concurrent { min: 2, share: 0.3 }),
        1 => Just(Budget::Throttle { max: 6.0, ratio: 0.2 }),
        1 => any::<bool>().prop_map(|on_request| Budget::Bucket { size: 3.0, deposit: 0.3, on_request }),
    ]
}

fn policy() -> impl Strategy<Value = ClientPolicy> {
    let times = (prop::option::of(20u64..6000), any::<bool>(), prop::option::of(200u64..9000));
    let layer = (any::<bool>(), 1u32..3, backoff()).prop_map(|(on, attempts, backoff)| Layer { on, attempts, backoff });
    let hedge = prop::option::of((10u64..2000, 1u32..3));
    let breaker = prop::option::of((1u32..8, 0.1..0.9f64, 50u64..3000, any::<bool>()));
    let gates = (budget(), breaker, prop::option::of(1.0..3.0f64), hedge);
    let retry_on = prop_oneof![Just(RetryOn::ALL), Just(RetryOn::ANSWERS), Just(RetryOn::ERRORS)];
    let obey = prop_oneof![Just(Obey::Ignored), Just(Obey::Exactly), Just(Obey::Jittered)];
    (1u32..5, backoff(), times, prop::collection::vec(layer, 0..2), gates, (retry_on, obey)).prop_map(
        |(
            attempts,
            backoff,
            (timeout, until_first_token, deadline),
            layers,
            (budget, breaker, k, hedge),
            (retry_on, obey),
        )| {
            ClientPolicy {
                attempts,
                backoff,
                retry_on,
                retry_after: RetryAfter { obey, ..RetryAfter::default() },
                timeout: timeout.map(|time| Nanos(time * MS)),
                until_first_token,
                deadline: deadline.map(|time| Nanos(time * MS)),
                layers,
                budget,
                breaker: breaker.map(|(min_requests, failures, open, retries_only)| Breaker {
                    min_requests,
                    failures,
                    open_for: Nanos(open * MS),
                    retries_only,
                    ..Breaker::default()
                }),
                throttle: k.map(|k| Throttle { k, window: Nanos(5000 * MS) }),
                hedge: hedge.map(|(after, most)| Hedge { after: Nanos(after * MS), most }),
            }
        },
    )
}

fn crowd() -> impl Strategy<Value = Crowd> {
    let class = (0.1..3.0f64, 1u32..4, policy()).prop_map(|(share, processes, policy)| ClientClass {
        share,
        processes,
        policy,
    });
    let pace = prop_oneof![
        2 => Just(Pace::Open),
        1 => (1u32..12, 0u64..500).prop_map(|(users, think)| Pace::Closed { users, think: Nanos(think * MS) }),
    ];
    (prop::collection::vec(class, 1..3), pace, any::<bool>()).prop_map(|(classes, pace, cancels)| Crowd {
        classes,
        pace,
        cancels,
    })
}

fn fault() -> impl Strategy<Value = Fault> {
    let replica = prop::option::of(0u32..3);
    let what = prop_oneof![
        replica.clone().prop_map(|replica| FaultKind::Down { replica }),
        replica.clone().prop_map(|replica| FaultKind::Frozen { replica }),
        replica.prop_map(|replica| FaultKind::Split { replica }),
        Just(FaultKind::Telemetry),
        (0.0..1.0f64).prop_map(|share| FaultKind::Errors { share }),
        (0u32..60, 1u64..3000).prop_map(|(request, ms)| FaultKind::Poison { request, restart: Nanos(ms * MS) }),
    ];
    (0u64..9000, 1u64..5000, what).prop_map(|(from, length, what)| Fault {
        from: Nanos(from * MS),
        until: Nanos((from + length) * MS),
        what,
    })
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let what = prop_oneof![
        Just(ChangeKind::Cancel),
        (0.0..1.0f64).prop_map(|share| ChangeKind::DropLoad { share }),
        budget().prop_map(|budget| ChangeKind::Budgets { budget }),
        (1.0..4.0f64).prop_map(|times| ChangeKind::RaiseLimits { times }),
        Just(ChangeKind::ResetCounts),
        Just(ChangeKind::RestartRouters),
    ];
    prop::collection::vec((0u64..9000, what).prop_map(|(at, what)| Change { at: Nanos(at * MS), what }), 0..2)
}

/// Replicas of any kind; an engine's steps are a millionth as long with `tiny`, so that much happens at the very instant at which one ends.
fn replica() -> impl Strategy<Value = ReplicaConfig> {
    let engine = (8u32..60, 1u32..9, any::<(bool, bool)>(), queues()).prop_map(
        |(blocks, max_batch, (chunked_prefill, prefix_cache), queue)| {
            let spec =
                EngineSpec { blocks, max_batch, chunked_prefill, prefix_cache, token_budget: 64, ..Default::default() };
            let engine = EngineConfig { queue, ..engine(spec) };
            ReplicaConfig::Engine { engine, cost: cost(), executed: false, charge_measured: false }
        },
    );
    let server =
        (1u32..4, prop::option::of(0u32..6), any::<bool>(), 0u64..20).prop_map(|(slots, queue, drawn, crowding)| {
            let service = if drawn { Service::Exponential } else { Service::Deterministic };
            let crowding = Nanos(crowding * MS);
            ReplicaConfig::Server(ServerConfig {
                queue,
                crowding,
                ..ServerConfig::new(slots, service, Nanos(200 * MS))
            })
        });
    prop_oneof![3 => engine, 2 => server, 1 => Just(ReplicaConfig::Tick(TickConfig::default()))]
}

prop_compose! {
    fn fleets()(
        seed in 0u64..1 << 53,
        replicas in 3u32..5,
        replica in replica(),
        gateway in gateways(),
        crowd in crowd(),
        faults in prop::collection::vec(fault(), 0..4),
        changes in changes(),
        reject_cost in prop_oneof![Just(0u64), 1u64..80],
        horizon in prop::option::of(1u64..12_000),
    ) -> FleetConfig {
        FleetConfig {
            seed,
            gateway,
            clients: ClientsConfig::Crowd(Box::new(crowd)),
            faults,
            changes,
            reject_cost: Nanos(reject_cost * MS),
            horizon: horizon.map(|at| Nanos(at * MS)),
            ..FleetConfig::new(replicas, replica)
        }
    }
}

fn sizes() -> MultiTenantSpec {
    MultiTenantSpec {
        requests: 60,
        tenants: 4,
        system_min: 20,
        system_max: 70,
        output_min: 1,
        output_max: 60,
        ..Default::default()
    }
}

/// Times a millionth as long.
fn hurried(config: FleetConfig) -> FleetConfig {
    let short = |time: &mut Nanos| *time = Nanos((time.0 / 1_000_000).max(u64::from(time.0 > 0)));
    let mut config = config;
    config.faults.iter_mut().for_each(|fault| {
        short(&mut fault.from);
        short(&mut fault.until);
        fault.until = fault.until.max(Nanos(fault.from.0 + 1));
        if let FaultKind::Poison { restart, .. } = &mut fault.what {
            short(restart);
        }
    });
    config.changes.iter_mut().for_each(|change| short(&mut change.at));
    config.horizon.iter_mut().for_each(short);
    short(&mut config.reject_cost);
    config.gateway = gateways::hurried(config.gateway, 1_000_000);
    if let ClientsConfig::Crowd(crowd) = &mut config.clients {
        if let Pace::Closed { think, .. } = &mut crowd.pace {
            short(think);
        }
        for class in &mut crowd.classes {
            let policy = &mut class.policy;
            policy.timeout.iter_mut().chain(&mut policy.deadline).for_each(short);
            for backoff in
                std::iter::once(&mut policy.backoff).chain(policy.layers.iter_mut().map(|layer| &mut layer.backoff))
            {
                short(&mut backoff.base);
                short(&mut backoff.cap);
            }
            policy.hedge.iter_mut().for_each(|hedge| short(&mut hedge.after));
            policy.breaker.iter_mut().for_each(|breaker| short(&mut breaker.open_for));
        }
    }
    match &mut config.replica {
        ReplicaConfig::Engine { engine, cost, .. } => {
            *cost = tiny_cost();
            engine.queue = gateways::hurried_queue(engine.queue, 1_000_000);
        }
        ReplicaConfig::Server(server) => {
            short(&mut server.mean);
            short(&mut server.crowding);
        }
        ReplicaConfig::Tick(tick) => short(&mut tick.tick),
    }
    config
}

/// Everything a fleet tells.
fn told(config: &FleetConfig, rate: f64, policy: &PolicySpec, max_repeat: u32, picture: Nanos) -> String {
    let config = FleetConfig { max_repeat, ..config.clone() };
    let seed = config.seed;
    let mut fleet = fleet(config, tenants(sizes(), seed, rate), policy);
    let mut text = String::new();
    if fleet.poll(picture, u32::MAX) == Poll::Reached {
        text += &serde_json::to_string(&fleet.frame(0)).unwrap();
    }
    let records = finish(&mut fleet);
    let tallies = (fleet.counts(), fleet.fates(), fleet.work(), fleet.flow());
    text.push_str(&serde_json::to_string(&(&records, stats(&fleet), tallies, fleet.now())).unwrap());
    text
}

/// Who was admitted before a fault began crashes nobody, and finishes as if there were none; who is admitted after takes its replica with it.
#[test]
fn a_request_poisons_only_whoever_admits_it_while_it_does() {
    let run = |poison: Option<(u32, Nanos)>| {
        let what = |request| FaultKind::Poison { request, restart: Nanos(MS) };
        let faults = poison.map(|(request, from)| Fault { from, until: Nanos(u64::MAX / 2), what: what(request) });
        let config = FleetConfig {
            faults: faults.into_iter().collect(),
            ..FleetConfig::priced(2, engine(EngineSpec::default()), cost())
        };
        let mut fleet = fleet(config, tenants(sizes(), 5, 30.0), &PolicySpec::named("round_robin"));
        let records = finish(&mut fleet);
        (records, fleet.fates().lost)
    };
    let (calm, _) = run(None);
    let one = calm.iter().find(|record| record.output_tokens > 10).unwrap();
    let (first, end) = (one.first_token.unwrap(), one.end);
    let late = Nanos(first.0 + (end.0 - first.0) / 2);
    assert_eq!(run(Some((one.index, late))), (calm.clone(), 0));
    let (poisoned, lost) = run(Some((one.index, Nanos::ZERO)));
    assert!(lost > 0 && poisoned.iter().any(|record| matches!(record.outcome, Outcome::Lost { .. })));
}

/// Readings that would say the same are left out by a restored fleet as by one that was never saved: restoring stirs every replica, and only who could start
/// something may count. Frozen replicas, a policy that reads metrics, and a stop after the 28th event show it.
#[test]
fn a_restored_fleet_leaves_out_the_same_readings() {
    let policy = ClientPolicy { attempts: 1, ..ClientPolicy::default() };
    let tick = TickConfig { tick: Nanos(100 * MS), prefixes: 3, hit_ticks: 1, miss_ticks: 2 };
    let config = FleetConfig {
        seed: 2_621_994_519_631_416,
        clients: ClientsConfig::Crowd(Box::new(Crowd {
            classes: vec![ClientClass { share: 0.1, processes: 1, policy }],
            pace: Pace::Open,
            cancels: false,
        })),
        faults: vec![Fault {
            from: Nanos(750 * MS),
            until: Nanos(801 * MS),
            what: FaultKind::Frozen { replica: None },
        }],
        ..FleetConfig::new(3, ReplicaConfig::Tick(tick))
    };
    let policy = PolicySpec::named("llm_d_default").with("engine_capacity", 0.0);
    for events in 0..60 {
        let source = tenants(sizes(), config.seed, 8.198_109_666_187_84);
        let mut whole = fleet(config.clone(), source, &policy);
        whole.poll(Nanos::MAX, events);
        let mut restored = Fleet::restore(whole.save()).unwrap();
        whole.poll(Nanos::MAX, 37);
        restored.poll(Nanos::MAX, 37);
        let text = |fleet: &Fleet| serde_json::to_string(&fleet.save()).unwrap();
        assert!(text(&whole) == text(&restored), "saved after {events} events");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(12, 700), failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_attempt_is_accounted_for(config in fleets(), policy in any_policy(), rate in 1.0..60.0f64, pause in 1u32..50) {
        let seed = config.seed;
        let mut fleet = fleet(config.clone(), tenants(sizes(), seed, rate), &policy);
        let mut records = Vec::new();
        loop {
            let poll = fleet.poll(Nanos::MAX, pause);
            prop_assert_eq!(fleet.check(), Ok(()));
            fleet.take_ended(&mut |record| records.push(record.clone()));
            if poll == Poll::Done {
                break;
            }
            prop_assert_eq!(poll, Poll::Paused);
        }
        let counts = fleet.counts();
        prop_assert_eq!(records.len() as u64, counts.arrived);
        prop_assert_eq!(counts.arrived, counts.ended() + counts.pending);
        if config.horizon.is_none() {
            prop_assert_eq!((counts.arrived, counts.pending), (60, 0));
        }
        prop_assert_eq!(records.iter().map(|record| u64::from(record.attempts)).sum::<u64>(), counts.attempts);
        let ends = |wanted: fn(&Outcome) -> bool| records.iter().filter(|record| wanted(&record.outcome)).count() as u64;
        prop_assert_eq!(ends(|outcome| *outcome == Outcome::TimedOut), counts.timed_out);
        prop_assert_eq!(ends(|outcome| *outcome == Outcome::Abandoned), counts.abandoned);
        prop_assert_eq!(ends(|outcome| matches!(outcome, Outcome::Lost { .. })), counts.lost);
        prop_assert_eq!(ends(|outcome| *outcome == Outcome::Finished), counts.finished);
        prop_assert_eq!(fleet.fates().succeeded, counts.finished);
        // The bins hold all of it.
        let bins = fleet.flow().bins();
        prop_assert_eq!(bins.iter().map(|bin| u64::from(bin.attempts)).sum::<u64>(), counts.attempts);
        prop_assert_eq!(bins.iter().map(|bin| u64::from(bin.finished)).sum::<u64>(), counts.finished);
        prop_assert_eq!(bins.iter().map(|bin| u64::from(bin.given_up)).sum::<u64>(), counts.ended() - counts.finished);
        let work = fleet.work();
        prop_assert_eq!(bins.iter().fold(Nanos::ZERO, |sum, bin| sum + bin.useful), work.useful);
        prop_assert_eq!(bins.iter().fold(Nanos::ZERO, |sum, bin| sum + bin.wasted), work.abandoned + work.lost);
        // Nobody makes more attempts than the rules allow.
        let ClientsConfig::Crowd(crowd) = &config.clients else { unreachable!() };
        let most = crowd.classes.iter().map(|class| class.policy.most_attempts() + class.policy.hedge.map_or(0, |hedge| hedge.most)).max();
        prop_assert!(records.iter().all(|record| Some(record.attempts) <= most));
    }

    #[test]
    fn runs_of_equal_steps_are_invisible(
        config in fleets(), policy in any_policy(), rate in 1.0..60.0f64, tiny: bool, picture in 0u64..8000,
    ) {
        let (config, scale) = if tiny { (hurried(config), 1) } else { (config, 1_000_000) };
        let rate = if tiny { rate * 1e6 } else { rate };
        let picture = Nanos(picture * scale);
        let single = told(&config, rate, &policy, 1, picture);
        for max_repeat in [3, 1 << 20] {
            prop_assert_eq!(&told(&config, rate, &policy, max_repeat, picture), &single, "max_repeat {}", max_repeat);
        }
    }

    #[test]
    fn a_restored_storm_goes_on_byte_for_byte(config in fleets(), policy in any_policy(), events in 0u32..600, rate in 4.0..40.0f64) {
        let seed = config.seed;
        let mut whole = fleet(config, tenants(sizes(), seed, rate), &policy);
        whole.poll(Nanos::MAX, events);
        let saved = serde_json::to_string(&whole.save()).unwrap();
        let mut restored = Fleet::restore(serde_json::from_str(&saved).unwrap()).unwrap();
        prop_assert_eq!(serde_json::to_string(&restored.save()).unwrap(), saved, "restoring changes nothing");
        whole.poll(Nanos::MAX, 37);
        restored.poll(Nanos::MAX, 37);
        prop_assert_eq!(serde_json::to_string(&whole.save()).unwrap(), serde_json::to_string(&restored.save()).unwrap());
        prop_assert_eq!(finish(&mut whole), finish(&mut restored));
        prop_assert_eq!(serde_json::to_string(&whole.save()).unwrap(), serde_json::to_string(&restored.save()).unwrap());
    }
}
