//! The event loop against queueing theory: server replicas, Poisson arrivals, mean waits within a confidence interval.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use servelab_engine::Nanos;
use servelab_fleet::gateway::GatewayConfig;
use servelab_fleet::replica::server::{ServerConfig, Service};
use servelab_fleet::{FleetConfig, Poll, ReplicaConfig};
use servelab_spec::experiment::{MultiTenantSpec, PolicySpec};

const MEAN: Nanos = Nanos(1_000_000_000);
/// Independent runs for one figure, each with a seed of its own: their means are independent, so their spread gives the error.
const RUNS: u64 = 25;
/// Arrivals of one run.
const REQUESTS: u32 = 20_000;
/// Left out of each run, which starts from an empty system; it forgets that within some 40 service times at utilisation 0.7.
const WARM_UP: usize = 1000;

/// How requests reach servers.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// One replica of c slots.
    OneStation(u32),
    /// c replicas of one slot behind one central queue.
    CentralQueue(u32),
}

/// Mean wait in service times, and its standard error, at utilisation `rho`.
fn mean_wait(shape: Shape, service: Service, rho: f64) -> (f64, f64) {
    let means: Vec<f64> = (0..RUNS).map(|seed| one_mean(shape, service, rho, seed)).collect();
    let n = RUNS as f64;
    let mean = means.iter().sum::<f64>() / n;
    let variance = means.iter().map(|run| (run - mean) * (run - mean)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

/// Mean wait of one run.
fn one_mean(shape: Shape, service: Service, rho: f64, seed: u64) -> f64 {
    let (replicas, slots, gateway) = match shape {
        Shape::OneStation(slots) => (1, slots, GatewayConfig::AcceptAll),
        Shape::CentralQueue(n) => (n, 1, GatewayConfig::CentralQueue { in_flight: 1, capacity: u32::MAX }),
    };
    let sizes = MultiTenantSpec {
        requests: REQUESTS,
        tenants: 1,
        system_min: 0,
        system_max: 0,
        user_min: 1,
        user_max: 1,
        output_min: 1,
        output_max: 1,
        ..Default::default()
    };
    let server = ServerConfig { slots, service, mean: MEAN };
    let config = FleetConfig { seed, gateway, ..FleetConfig::new(replicas, ReplicaConfig::Server(server)) };
    let source = tenants(sizes, seed, rho * f64::from(replicas * slots));
    let mut fleet = fleet(config, source, &PolicySpec::named("least_tokens"));
    let mut waits = Vec::with_capacity(REQUESTS as usize);
    loop {
        let poll = fleet.poll(Nanos::MAX, 100_000);
        fleet.take_ended(&mut |record| {
            waits.push((record.index, record.admitted.unwrap().since(record.arrival).as_secs()));
        });
        if poll == Poll::Done {
            break;
        }
    }
    waits.sort_by_key(|&(index, _)| index);
    let counted = &waits[WARM_UP..];
    counted.iter().map(|&(_, wait)| wait).sum::<f64>() / counted.len() as f64
}

/// Erlang C's mean wait in service times, from the recursion of Erlang B.
fn erlang_c_wait(c: u32, rho: f64) -> f64 {
    let a = f64::from(c) * rho;
    let b = (1..=c).fold(1.0, |b, k| a * b / (f64::from(k) + a * b));
    let waits = b / (1.0 - rho * (1.0 - b));
    waits / (f64::from(c) * (1.0 - rho))
}

/// Within 3.5 standard errors of the formula, and the errors small enough for that to mean something.
fn agrees(name: &str, (mean, error): (f64, f64), expected: f64) {
    assert!(error < 0.06 * expected, "{name}: {mean} ± {error} says too little about {expected}");
    assert!((mean - expected).abs() < 3.5 * error, "{name}: {mean} ± {error}, theory says {expected}");
}

#[test]
fn the_formula_gives_the_tabulated_values() {
    for (rho, c, wait) in [(0.7, 1, 2.333), (0.7, 2, 0.9608), (0.7, 4, 0.3572), (0.7, 8, 0.1128)] {
        assert!((erlang_c_wait(c, rho) - wait).abs() < 5e-4);
    }
    for (rho, c, wait) in [(0.9, 1, 9.0), (0.9, 2, 4.2632), (0.9, 4, 1.9694), (0.9, 8, 0.8769)] {
        assert!((erlang_c_wait(c, rho) - wait).abs() < 5e-4);
    }
}

#[test]
fn stations_are_m_m_c() {
    for slots in [1, 4, 8] {
        let wait = mean_wait(Shape::OneStation(slots), Service::Exponential, 0.7);
        agrees(&format!("M/M/{slots}"), wait, erlang_c_wait(slots, 0.7));
    }
}

#[test]
fn a_central_queue_makes_many_servers_one_station() {
    for replicas in [2, 3] {
        let wait = mean_wait(Shape::CentralQueue(replicas), Service::Exponential, 0.7);
        agrees(&format!("central queue, {replicas}"), wait, erlang_c_wait(replicas, 0.7));
    }
}

#[test]
fn fixed_service_is_m_d_1() {
    let wait = mean_wait(Shape::OneStation(1), Service::Deterministic, 0.7);
    agrees("M/D/1", wait, 1.1667);
}
