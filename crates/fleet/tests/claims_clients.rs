//! Published figures about retries, each with its source, set-up, what is expected and what we get.
//!
//! | figure | source | expected | we get (this file asserts it) |
//! |---|---|---|---|
//! | optimistic locking, 100 clients, base 5 ms, cap 2 s, network 10 ± 2 ms, mean of 20 | `aws-samples/aws-arch-backoff-simulator`, run | exponential 1871 calls, 64 s; full jitter 794 calls, 4.9 s | within four standard errors |
//! | half of all calls fail | Brooker, *Fixing retries with token buckets and circuit breakers*, `mbrooker/simulator_example/retry_sim`, run | three retries 1.87 × load, 94 % succeed; bucket 1.19 ×, 60 %; breaker 1.00 ×, 49 % | within 2 % |
//! | all calls fail | the same | three retries 4 × | 4 × |
//! | a spike of 5 s to twice the load, time-out 3 s, three attempts | Brooker, *Metastability and distributed systems*, `simple_collapse_sim`, run | without backoff stuck at about 15/s of 40 at t = 78; with jitter recovered by t = 40; a ramp to 80/s collapses both | stuck below half; recovered; both collapse |
//! | SDK defaults in an outage of 10 s | derived | all attempts spent within 1.5 s | 1.125 to 1.5 s |
//! | load λ, capacity C, A attempts | OSDI'22 *Metastable Failures in the Wild*, borders derived | below C/A it recovers, between C/A and C the trigger decides, above C nothing helps | so |
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::common::crowds::*;
use servelab_engine::Nanos;
use servelab_engine::random::Stream;
use servelab_fleet::clients::*;
use servelab_fleet::faults::{Fault, FaultKind};
use servelab_fleet::replica::server::{ServerConfig, Service};
use servelab_fleet::{Fleet, FleetConfig, Outcome, Poll, ReplicaConfig, RequestRecord};
use servelab_spec::experiment::{DemandSpec, PolicySpec, WorkloadSpec};
use servelab_workload::Source;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

fn s(seconds: f64) -> Nanos {
    Nanos::from_secs(seconds)
}

fn mean_and_error(samples: &[f64]) -> (f64, f64) {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let variance = samples.iter().map(|sample| (sample - mean) * (sample - mean)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

/// What a client of the optimistically locked row does next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Read,
    Write { version: u32 },
}

/// Clients that each update one row once: read its version, write if nobody else has since, else wait and begin again. Calls (writes) and seconds.
fn optimistic_locking(backoff: Backoff, seed: u64) -> (f64, f64) {
    let mut net = Stream::new(seed, b"net");
    let mut delay = move || Nanos::from_secs((10.0 + 2.0 * net.normal()).abs() / 1000.0);
    let mut draws = Stream::new(seed, b"backoff");
    let mut failures = [0u32; 100];
    let mut waited = [None; 100];
    let mut queue = BinaryHeap::new();
    let (mut version, mut calls, mut end) = (0, 0, Nanos::ZERO);
    (0..100usize).for_each(|client| queue.push(Reverse((delay(), client, Step::Read))));
    while let Some(Reverse((now, client, step))) = queue.pop() {
        match step {
            // The answer comes back, and the write goes out.
            Step::Read => queue.push(Reverse((now + delay() + delay(), client, Step::Write { version }))),
            Step::Write { version: read } => {
                calls += 1;
                let back = now + delay();
                end = end.max(back);
                if read == version {
                    version += 1;
                    continue;
                }
                failures[client] += 1;
                let wait = backoff.wait(failures[client], waited[client], &mut draws);
                waited[client] = Some(wait);
                queue.push(Reverse((back + wait + delay(), client, Step::Read)));
            }
        }
    }
    (f64::from(calls), end.as_secs())
}

#[test]
fn jitter_saves_calls_and_time_under_contention() {
    for (jitter, calls, seconds) in [(Jitter::None, 1871.0, 64.0), (Jitter::Full, 794.0, 4.9)] {
        let backoff = Backoff::exponential(s(0.005), s(2.0), jitter);
        let runs: Vec<(f64, f64)> = (0..20).map(|seed| optimistic_locking(backoff, seed)).collect();
        for (name, published, of) in [
            ("calls", calls, runs.iter().map(|run| run.0).collect::<Vec<_>>()),
            ("seconds", seconds, runs.iter().map(|run| run.1).collect()),
        ] {
            let (mean, error) = mean_and_error(&of);
            // The published figure is a mean of 20 as well, with an error of its own, and rounded to its last digit.
            let rounding = if name == "calls" { 0.5 } else { seconds * 0.01 };
            let most = 4.0 * std::f64::consts::SQRT_2 * error + rounding;
            println!("{jitter:?}: {name} {mean:.1} ± {error:.1}, published {published}");
            assert!((mean - published).abs() < most, "{jitter:?}: {mean} ± {error} {name}, published {published}");
        }
    }
}

fn finish(config: FleetConfig, source: Source) -> (Fleet, Vec<RequestRecord>) {
    let mut fleet = Fleet::new(config, source, &PolicySpec::named("round_robin")).unwrap();
    let mut records = Vec::new();
    loop {
        let poll = fleet.poll(Nanos::MAX, 50_000);
        fleet.take_ended(&mut |record| records.push(record.clone()));
        if poll == Poll::Done {
            return (fleet, records);
        }
    }
}

/// A server that answers at once, whatever comes.
fn instant() -> ReplicaConfig {
    ReplicaConfig::Server(ServerConfig::new(1 << 16, Service::Deterministic, Nanos(1000)))
}

/// 100 clients of 10 requests a second for 5 s, of whose calls a share fails; attempts for each request, and share of requests that succeed.
fn failing(share: f64, policy: ClientPolicy) -> (f64, f64) {
    let class = ClientClass { share: 1.0, processes: 100, policy };
    let crowd = Crowd { classes: vec![class], ..Crowd::default() };
    let config = FleetConfig {
        clients: ClientsConfig::Crowd(Box::new(crowd)),
        faults: vec![Fault { from: Nanos::ZERO, until: s(1e6), what: FaultKind::Errors { share } }],
        seed: 3,
        ..FleetConfig::new(1, instant())
    };
    let (fleet, _) = finish(config, tiny_requests(5000, 1000.0, 5));
    let counts = fleet.counts();
    (counts.attempts as f64 / 5000.0, counts.finished as f64 / 5000.0)
}

#[test]
fn budgets_and_breakers_bound_what_retries_cost() {
    let three = ClientPolicy { attempts: 4, ..ClientPolicy::default() };
    let bucket = ClientPolicy {
        attempts: 1000,
        budget: Budget::Bucket { size: 5.0, deposit: 0.1, on_request: true },
        ..ClientPolicy::default()
    };
    let window = s(1e6);
    let breaker = Breaker { window, min_requests: 1, failures: 0.1, retries_only: true, ..Breaker::default() };
    let breaker = ClientPolicy { breaker: Some(breaker), ..three.clone() };
    for (name, policy, load, success) in
        [("three retries", three.clone(), 1.87, 0.94), ("bucket", bucket, 1.19, 0.60), ("breaker", breaker, 1.00, 0.49)]
    {
        let (found_load, found_success) = failing(0.5, policy);
        println!("{name}: {found_load:.3} × load, {:.1} % succeed", 100.0 * found_success);
        // 5000 requests: a share near a half has a standard error of 0.7 %, attempts for each request one of about 1 %.
        assert!((found_load - load).abs() < 0.03, "{name}: {found_load} times the load, published {load}");
        assert!((found_success - success).abs() < 0.025, "{name}: {found_success} succeed, published {success}");
    }
    assert_eq!(failing(1.0, three), (4.0, 0.0));
}

/// Requests at the rate `curve` says (seconds and requests a second) against a server that takes a second and 10 ms more for each request in service. The
/// published network takes 0.1 s each way on average; here the time-out of 3 s is so much shorter. Successes per second in each span.
fn collapse(curve: &str, backoff: Backoff, spans: &[(f64, f64)]) -> Vec<f64> {
    let demand = DemandSpec {
        curve: curve.into(),
        hour_s: 1.0,
        rate: 1.0,
        tenants: 1,
        system_min: 0,
        system_max: 0,
        user_min: 1,
        user_max: 1,
        output_min: 1,
        output_max: 1,
        ..DemandSpec::default()
    };
    let policy = ClientPolicy { attempts: 3, timeout: Some(s(2.8)), backoff, ..ClientPolicy::default() };
    let server = ServerConfig { crowding: s(0.01), ..ServerConfig::new(1 << 20, Service::Deterministic, s(1.0)) };
    let mut rates = vec![0.0; spans.len()];
    for seed in 0..10 {
        let config = FleetConfig {
            clients: ClientsConfig::Crowd(Box::new(Crowd::of(policy.clone()))),
            horizon: Some(s(80.0)),
            seed,
            ..FleetConfig::new(1, ReplicaConfig::Server(server))
        };
        let source = Source::new(&WorkloadSpec::Demand(demand.clone()), seed, 16, 1.0).unwrap();
        let (_, records) = finish(config, source);
        for (rate, &(from, to)) in rates.iter_mut().zip(spans) {
            let good = records
                .iter()
                .filter(|record| record.outcome == Outcome::Finished && record.end >= s(from) && record.end < s(to));
            *rate += good.count() as f64 / (to - from) / 10.0;
        }
    }
    rates
}

#[test]
fn a_spike_is_survived_with_jitter_and_not_without() {
    let spike = "0:40,20:40,20.001:80,25:80,25.001:40,80:40";
    let spans = [(5.0, 20.0), (40.0, 60.0), (76.0, 80.0)];
    let none = Backoff::default();
    // The published client doubles 10 s before it draws from it for the first time.
    let jitter = Backoff::exponential(s(20.0), s(1e5), Jitter::Full);
    let (stuck, healed) = (collapse(spike, none, &spans), collapse(spike, jitter, &spans));
    println!("spike: no backoff {stuck:?}/s, jitter {healed:?}/s");
    for before in [stuck[0], healed[0]] {
        // 150 s of 40 a second: four standard errors are 2.1.
        assert!((before - 40.0).abs() < 2.5, "{before}");
    }
    assert!(stuck[2] < 20.0, "{stuck:?}: published about 15/s");
    assert!(healed[1] > 37.0 && healed[2] > 37.0, "{healed:?}");
    // Up to 80 a second at 25 s and down again: nothing helps.
    let ramp = "0:40,25:80,75:0,80:0";
    let offered_late = 80.0 - 1.6 * 10.0;
    for backoff in [none, jitter] {
        let found = collapse(ramp, backoff, &[(33.0, 37.0)]);
        println!("ramp, {:?}: {found:?}/s of {offered_late}", backoff.jitter);
        assert!(found[0] < 0.6 * offered_late, "{backoff:?}: {found:?}");
    }
}

#[test]
fn sdk_defaults_give_up_long_before_an_outage_of_ten_seconds_is_over() {
    let policy = (presets::find("openai_sdk").unwrap().policy)();
    let config = FleetConfig {
        clients: ClientsConfig::Crowd(Box::new(Crowd::of(policy))),
        faults: vec![Fault { from: Nanos::ZERO, until: s(10.0), what: FaultKind::Down { replica: None } }],
        ..FleetConfig::new(1, instant())
    };
    let (_, records) = finish(config, tiny_requests(1000, 100.0, 5));
    let mut early = records.iter().filter(|record| record.arrival < s(8.5)).peekable();
    assert!(early.peek().is_some());
    for record in early {
        let spent = record.end.since(record.arrival).as_secs();
        assert!(matches!(record.outcome, Outcome::Rejected { code: 503, .. }) && record.attempts == 3, "{record:?}");
        assert!((1.125..=1.5).contains(&spent), "{spent} s");
    }
    let lucky =
        records.iter().filter(|record| record.arrival >= s(8.875)).filter(|record| record.outcome == Outcome::Finished);
    assert!(lucky.count() > 50, "whoever comes near the end is served");
}

/// Successes per second long after a server that does 10 requests a second stood still for `stop` seconds, at `load` requests a second of three attempts each.
fn after_a_stop(load: f64, stop: f64) -> f64 {
    let policy = ClientPolicy { attempts: 3, timeout: Some(s(2.0)), ..ClientPolicy::default() };
    let config = FleetConfig {
        clients: ClientsConfig::Crowd(Box::new(Crowd::of(policy))),
        faults: vec![Fault { from: s(50.0), until: s(50.0 + stop), what: FaultKind::Frozen { replica: None } }],
        horizon: Some(s(500.0)),
        ..FleetConfig::new(1, ReplicaConfig::Server(ServerConfig::new(1, Service::Deterministic, s(0.1))))
    };
    let (_, records) = finish(config, tiny_requests((load * 520.0) as u32, load, 7));
    let good = records.iter().filter(|record| record.outcome == Outcome::Finished && record.end >= s(400.0));
    good.count() as f64 / 100.0
}

/// Capacity 10, three attempts: the borders are 3.3 and 10.
#[test]
fn the_trigger_decides_between_the_borders_and_nowhere_else() {
    let healthy = |load: f64, found: f64| (found - load).abs() < 4.0 * (load / 100.0f64).sqrt() + 0.05;
    for (load, stop, recovers) in
        [(2.5, 30.0, true), (5.0, 30.0, false), (8.0, 30.0, false), (5.0, 0.5, true), (8.0, 0.2, true)]
    {
        let found = after_a_stop(load, stop);
        println!("λ = {load}, stopped for {stop} s: {found}/s");
        match recovers {
            true => assert!(healthy(load, found), "λ = {load}, {stop} s: {found}"),
            false => assert!(found < 0.2 * load, "λ = {load}, {stop} s: {found}"),
        }
    }
    assert!(after_a_stop(11.5, 1e-3) < 3.0, "above capacity no trigger is needed");
}
