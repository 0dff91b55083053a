//! What gateways and bounded queues do in whole runs.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

use crate::common::*;
use servelab_engine::{EngineConfig, Nanos, QueueConfig as EngineQueue};
use servelab_fleet::clients::ClientsConfig;
use servelab_fleet::config::{Change, ChangeKind};
use servelab_fleet::gateway::bucket::Rate;
use servelab_fleet::gateway::ramp::RampConfig;
use servelab_fleet::gateway::rate_limit::RateLimitConfig;
use servelab_fleet::gateway::saturation::{Detector, HoldBackConfig};
use servelab_fleet::gateway::{ChainConfig, ClassConfig, GateConfig, GatewayConfig, QueueConfig, StageConfig, Within};
use servelab_fleet::record::RefusedBy;
use servelab_fleet::telemetry::TelemetryConfig;
use servelab_fleet::{FleetConfig, Outcome, Refusal, RequestRecord};
use servelab_spec::experiment::{EngineSpec, MultiTenantSpec, PolicySpec};
use servelab_workload::Source;

const SECOND: u64 = 1_000_000_000;

fn sizes(requests: u32) -> MultiTenantSpec {
    MultiTenantSpec {
        requests,
        tenants: 4,
        system_min: 40,
        system_max: 60,
        output_min: 8,
        output_max: 24,
        ..Default::default()
    }
}

fn run(config: FleetConfig, source: &Source) -> Vec<RequestRecord> {
    let mut fleet = fleet(config, source.clone(), &PolicySpec::named("least_requests"));
    let mut records = finish(&mut fleet);
    records.sort_by_key(|record| record.index);
    records
}

fn guarded(replicas: u32, chain: ChainConfig) -> FleetConfig {
    let plain = FleetConfig::priced(replicas, engine(EngineSpec { blocks: 200, ..Default::default() }), cost());
    FleetConfig { gateway: GatewayConfig::Chain(Box::new(chain)), ..plain }
}

/// `scaling_overload.md` D25, after the README of llm-d's router: when all metrics are stale, dispatch halts and the time to live sheds what is held.
/// Set-up: two replicas, saturation by metrics with the defaults (stale after 200 ms, fails closed), flow control's 60 s to live; metrics are read once, at the start, and never again.
/// Expected: whoever comes within 200 ms is served, and everybody else gets 429 exactly 60 s after coming. With metrics every 50 ms all are served.
#[test]
fn stale_metrics_halt_dispatch_and_the_time_to_live_sheds() {
    let chain = ChainConfig {
        gates: vec![GateConfig::HoldBack(HoldBackConfig { detector: Detector::LLM_D, share: 0.0 })],
        queue: QueueConfig { capacity: 5000, ttl: Nanos(60 * SECOND), ..QueueConfig::default() },
        ..ChainConfig::default()
    };
    let source = tenants(sizes(120), 4, 40.0);
    let scraped_every = |scrape| {
        let telemetry = TelemetryConfig { scrape, ..TelemetryConfig::default() };
        run(FleetConfig { telemetry, ..guarded(2, chain.clone()) }, &source)
    };
    let lost = scraped_every(Nanos(1_000_000 * SECOND));
    let (fresh, stale): (Vec<_>, Vec<_>) = lost.iter().partition(|record| record.arrival <= Nanos(200_000_000));
    assert!(fresh.len() > 2 && stale.len() > 100);
    assert!(fresh.iter().all(|record| record.outcome == Outcome::Finished));
    for record in stale {
        assert_eq!(record.outcome, Outcome::Rejected { code: 429, cause: Refusal::GatewayExpired });
        assert_eq!((record.end.since(record.arrival), record.held), (Nanos(60 * SECOND), Nanos(60 * SECOND)));
    }
    let told = scraped_every(Nanos(50_000_000));
    assert!(told.iter().all(|record| record.outcome == Outcome::Finished));
}

/// Held back by two classes: while the fleet is more than half full only interactive work passes, so its worst time to first token is below batch's best of those that were held.
#[test]
fn batch_waits_while_interactive_passes() {
    let class = |name: &str, priority, tenants: &[u32]| ClassConfig {
        name: name.into(),
        priority,
        weight: 1,
        tenants: tenants.to_vec(),
    };
    let chain = |share| ChainConfig {
        classes: vec![class("interactive", 1, &[]), class("batch", -1, &[2, 3])],
        gates: vec![GateConfig::HoldBack(HoldBackConfig { detector: Detector::InFlight { per_replica: 8.0 }, share })],
        queue: QueueConfig { capacity: 5000, ..QueueConfig::default() },
        ..ChainConfig::default()
    };
    // Half of what comes is batch. All of it, 60 a second, is more than can be served while it comes (45 or so); the interactive half alone is not.
    let source = tenants(sizes(400), 9, 60.0);
    let held = |share, batch: bool| {
        let records = run(guarded(1, chain(share)), &source);
        assert!(records.iter().all(|record| record.outcome == Outcome::Finished));
        let of = records.iter().filter(|record| (record.tenant >= 2) == batch);
        let held: Vec<f64> = of.map(|record| record.held.as_secs()).collect();
        held.iter().sum::<f64>() / held.len() as f64
    };
    assert!(held(0.5, true) > 10.0 * held(0.5, false), "{} {}", held(0.5, true), held(0.5, false));
    // Holding back leaves room for who comes next: strict order alone has them wait for a place.
    assert!(held(0.0, false) > 2.0 * held(0.5, false), "{} {}", held(0.0, false), held(0.5, false));
}

/// One tenant floods the queue. First come first served, everybody waits behind it; in turns, only the tenant itself does.
#[test]
fn turns_of_tenants_keep_a_flood_to_itself() {
    let sizes = MultiTenantSpec { skew: 3.0, ..sizes(400) };
    let source = tenants(sizes, 2, 160.0);
    let held = |within| {
        let queue = QueueConfig { capacity: 5000, within, ..QueueConfig::default() };
        let records = run(guarded(1, ChainConfig { in_flight: 8, queue, ..ChainConfig::default() }), &source);
        let mean = |flood: bool| {
            let of = records.iter().filter(|record| (record.tenant == 0) == flood);
            let held: Vec<f64> = of.map(|record| record.held.as_secs()).collect();
            held.iter().sum::<f64>() / held.len() as f64
        };
        (mean(true), mean(false))
    };
    let (first, turns) = (held(Within::ComeFirst), held(Within::Tenants));
    assert!(first.1 > 0.8 * first.0, "all alike: {first:?}");
    assert!(turns.1 < 0.1 * turns.0, "{turns:?}");
}

/// A rate limit lets a tenant through at its rate, to the nanosecond: so many as are in the bucket, and then as it fills.
#[test]
fn a_rate_limit_passes_exactly_its_rate() {
    let rate = Rate::new(2.0, 5);
    let chain =
        ChainConfig { stages: vec![StageConfig::RateLimit(RateLimitConfig { rate })], ..ChainConfig::default() };
    let source = tenants(sizes(600), 5, 40.0);
    let records = run(guarded(8, chain), &source);
    for tenant in 0..4 {
        let of = || records.iter().filter(|record| record.tenant == tenant);
        // A second reckoning, with a level in exact arithmetic: two half seconds for each token.
        let (mut level, mut then) = (5 * SECOND / 2, 0);
        for record in of() {
            level = (level + record.arrival.0 - then).min(5 * SECOND / 2);
            then = record.arrival.0;
            let passes = level >= SECOND / 2;
            level -= if passes { SECOND / 2 } else { 0 };
            let refused = Outcome::Rejected { code: 429, cause: Refusal::RateLimit };
            assert_eq!(record.outcome, if passes { Outcome::Finished } else { refused }, "{record:?}");
        }
        assert!(of().any(|record| record.outcome != Outcome::Finished));
    }
}

/// The engine's own limits, each alone, at three times what one replica serves.
#[test]
fn an_engine_says_no_by_itself() {
    let limits = |queue: EngineQueue| {
        let plain = engine(EngineSpec { blocks: 200, ..Default::default() });
        let config = FleetConfig::priced(1, EngineConfig { queue, ..plain }, cost());
        let mut causes: Vec<Refusal> = run(config, &tenants(sizes(300), 6, 160.0))
            .iter()
            .filter_map(|record| match record.outcome {
                Outcome::Rejected { code, cause } => {
                    assert_eq!((code, cause.by()), (503, RefusedBy::Replica));
                    if cause == Refusal::EngineExpired {
                        // Between steps, so not at once, but at the next boundary.
                        let waited = record.end.since(record.arrival);
                        assert!(waited >= queue.ttl && waited < queue.ttl + Nanos(SECOND), "{record:?}");
                    }
                    Some(cause)
                }
                _ => None,
            })
            .collect();
        let many = causes.len();
        causes.sort();
        causes.dedup();
        (causes, many)
    };
    let none = EngineQueue::default();
    assert_eq!(limits(none).1, 0);
    for (queue, cause) in [
        (EngineQueue { max_requests: 4, ..none }, Refusal::EngineQueue),
        (EngineQueue { max_tokens: 200, ..none }, Refusal::EngineTokens),
        (EngineQueue { max_wait: Nanos(SECOND / 2), ..none }, Refusal::EngineTooLate),
        (EngineQueue { ttl: Nanos(SECOND / 2), ..none }, Refusal::EngineExpired),
    ] {
        let (causes, many) = limits(queue);
        assert_eq!(causes, [cause]);
        assert!((50..250).contains(&many), "{cause:?}: {many}");
    }
}

/// The only replica leaves and another comes: what is held in between goes out slowly, and what waits too long for a replica gets 503.
#[test]
fn after_recovery_the_ramp_lets_through_little_by_little() {
    let ramp = RampConfig { window: Nanos(10 * SECOND), least: 0.1, aggression: 1.0, full: 10 };
    let chain = ChainConfig {
        gates: vec![GateConfig::Ramp(ramp)],
        queue: QueueConfig { capacity: 5000, hold_empty: true, empty_ttl: Nanos(4 * SECOND), ..QueueConfig::default() },
        ..ChainConfig::default()
    };
    let at = |at_s: u64, what| Change { at: Nanos(at_s * SECOND), what };
    let changes =
        vec![at(2, ChangeKind::Leave { replica: 0 }), at(8, ChangeKind::Join { warm_up: Nanos::ZERO, honest: true })];
    let source = tenants(sizes(200), 7, 8.0);
    let records = run(FleetConfig { changes, ..guarded(1, chain) }, &source);
    let second = |record: &&RequestRecord| record.arrival.0 / SECOND;
    // Whoever came until 4 s had waited four seconds at 8 s, or before.
    for record in records.iter().filter(|record| (2..4).contains(&second(record))) {
        assert_eq!(record.outcome, Outcome::Rejected { code: 503, cause: Refusal::EmptyPool });
        assert_eq!(record.held, Nanos(4 * SECOND));
    }
    assert!(records.iter().filter(|record| second(record) >= 4).all(|record| record.outcome == Outcome::Finished));
    // In the ramp's first tenth one at a time is there, so the first ones out follow each other's ends.
    let mut out: Vec<(Nanos, Nanos)> = (records.iter())
        .filter(|record| (4..8).contains(&second(record)))
        .map(|record| (record.arrival + record.held, record.end))
        .collect();
    out.sort();
    assert!(out[1].0 >= out[0].1 && out[0].0 == Nanos(8 * SECOND), "{out:?}");
    let in_flight = |at: Nanos| records.iter().filter(|r| r.arrival + r.held <= at && at < r.end).count();
    for (at_s, most) in [(8.5, 1), (10.0, 2), (13.0, 5), (16.0, 8)] {
        let there = in_flight(Nanos::from_secs(at_s));
        assert!(there <= most, "{there} at {at_s} s");
    }
}

/// A gateway that turns away tells when to come back, and clients that obey come then.
#[test]
fn clients_come_back_when_told() {
    use servelab_fleet::gateway::retry_after::{RetryAfter, RetryAfterMode};
    let rate = Rate::new(1.0, 1);
    let stages = vec![StageConfig::RateLimit(RateLimitConfig { rate })];
    let retry_after = RetryAfter { mode: RetryAfterMode::Computed, ..RetryAfter::default() };
    let chain = ChainConfig { stages, retry_after, ..ChainConfig::default() };
    let clients = ClientsConfig::FixedRetry { attempts: 2, pause: Nanos(1) };
    let sizes = MultiTenantSpec { tenants: 1, ..sizes(12) };
    // All twelve at once, nearly. The bucket has one; the others are told when it has another, all the same, and one of them is first.
    let records = run(FleetConfig { clients, ..guarded(4, chain) }, &tenants(sizes, 3, 1e6));
    let served = records.iter().filter(|record| record.outcome == Outcome::Finished).count();
    assert_eq!(served, 2, "obedient clients come back together");
    assert_eq!(records.iter().filter(|record| record.attempts == 2).count(), 11);
}
