//! Tick replicas against what is known of them: the exact hit rate of an LRU under independent draws, and M/D/1.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

use crate::common::*;
use servelab_engine::Nanos;
use servelab_fleet::replica::tick::TickConfig;
use servelab_fleet::{Fleet, FleetConfig, Poll, ReplicaConfig};
use servelab_spec::experiment::{MultiTenantSpec, PolicySpec};
use servelab_spec::frame::BlockCell;

/// Requests of one run; the memory of three is full after a handful.
const REQUESTS: u32 = 200_000;

fn sizes(tenants: u32, skew: f64) -> MultiTenantSpec {
    MultiTenantSpec {
        requests: REQUESTS,
        tenants,
        skew,
        system_min: 32,
        system_max: 32,
        user_min: 1,
        user_max: 1,
        output_min: 1,
        output_max: 1,
        ..Default::default()
    }
}

fn ticks(config: TickConfig, replicas: u32, sizes: MultiTenantSpec, rate: f64, policy: &str) -> Fleet {
    let config = FleetConfig { seed: 5, ..FleetConfig::new(replicas, ReplicaConfig::Tick(config)) };
    fleet(config, tenants(sizes, 5, rate), &PolicySpec::named(policy))
}

/// Runs to the end: the share of requests whose prefix was remembered.
fn hit_rate(fleet: &mut Fleet) -> f64 {
    let records = finish(fleet);
    assert_eq!(records.len(), REQUESTS as usize);
    records.iter().filter(|record| record.cached_tokens > 0).count() as f64 / f64::from(REQUESTS)
}

/// Hit rate of an LRU of three under independent draws with probabilities `p`: in steady state the memory holds the last three
/// different items, (a, b, c) in order of use with probability p(a) · p(b)/(1 − p(a)) · p(c)/(1 − p(a) − p(b)).
fn lru_of_three(p: &[f64]) -> f64 {
    let mut rate = 0.0;
    for a in 0..p.len() {
        for b in (0..p.len()).filter(|&b| b != a) {
            for c in (0..p.len()).filter(|&c| c != a && c != b) {
                let held = p[a] * p[b] / (1.0 - p[a]) * p[c] / (1.0 - p[a] - p[b]);
                rate += held * (p[a] + p[b] + p[c]);
            }
        }
    }
    rate
}

fn zipf(items: usize, exponent: f64) -> Vec<f64> {
    let weights: Vec<f64> = (1..=items).map(|rank| libm::pow(rank as f64, -exponent)).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

#[test]
fn the_memory_hits_as_often_as_an_lru_must() {
    assert!((lru_of_three(&zipf(8, 0.0)) - 0.375).abs() < 1e-9);
    for exponent in [0.0, 1.0, 1.5] {
        let expected = lru_of_three(&zipf(8, exponent));
        let mut fleet = ticks(TickConfig::default(), 1, sizes(8, exponent), 1.0, "round_robin");
        let found = hit_rate(&mut fleet);
        // Hits follow one another a little; four standard errors of independent ones leave room for it.
        let error = (expected * (1.0 - expected) / f64::from(REQUESTS)).sqrt();
        assert!((found - expected).abs() < 4.0 * error, "Zipf {exponent}: {found}, an LRU hits {expected}");
    }
}

#[test]
fn one_prefix_makes_it_m_d_1() {
    let config = TickConfig { tick: Nanos(1_000_000_000), ..TickConfig::default() };
    let mut fleet = ticks(config, 1, sizes(1, 0.0), 0.7, "round_robin");
    let mut waits = Vec::new();
    for record in finish(&mut fleet) {
        waits.push(record.admitted.unwrap().since(record.arrival).as_secs());
    }
    let mean = waits.iter().sum::<f64>() / waits.len() as f64;
    // ρ ÷ 2(1 − ρ) services; busy periods correlate the waits, hence the width: some 3 % at this length.
    let expected = 0.7 / (2.0 * 0.3);
    assert!((mean - expected).abs() < 0.04 * expected, "{mean}, theory says {expected}");
}

#[test]
fn a_home_for_each_prefix_hits_where_scattering_does_not() {
    let rate = 12.0;
    let mut scattered = ticks(TickConfig::default(), 4, sizes(8, 1.0), rate, "round_robin");
    let mut homed = {
        let config = FleetConfig::new(4, ReplicaConfig::Tick(TickConfig::default()));
        fleet(config, tenants(sizes(8, 1.0), 5, rate), &unguarded().with("prefix_tokens", 32.0))
    };
    // Each replica sees the same mix under round-robin: the hit rate of one.
    let expected = lru_of_three(&zipf(8, 1.0));
    let (scattered, homed) = (hit_rate(&mut scattered), hit_rate(&mut homed));
    assert!((scattered - expected).abs() < 0.01, "{scattered}");
    assert!(homed > 0.85, "{homed}");
}

#[test]
fn it_is_saved_and_goes_on() {
    let sizes = MultiTenantSpec { requests: 500, ..sizes(8, 1.0) };
    let mut whole = ticks(TickConfig::default(), 3, sizes.clone(), 20.0, "round_robin");
    let mut first = ticks(TickConfig::default(), 3, sizes, 20.0, "round_robin");
    assert_eq!(first.poll(Nanos::from_secs(10.0), u32::MAX), Poll::Reached);
    let mut records = Vec::new();
    first.take_ended(&mut |record| records.push(record.clone()));
    let mut second = Fleet::restore(first.save()).unwrap();
    records.extend(finish(&mut second));
    assert!(records == finish(&mut whole), "the restored fleet went another way");
    assert_eq!(stats(&second), stats(&whole));
}

#[test]
fn settings_are_checked() {
    let refused = |config: TickConfig| {
        let config = FleetConfig::new(1, ReplicaConfig::Tick(config));
        Fleet::new(config, book(), &PolicySpec::named("round_robin")).err().unwrap().to_string()
    };
    let config = TickConfig::default();
    assert!(refused(TickConfig { tick: Nanos::ZERO, ..config }).contains("tick.tick"));
    assert!(refused(TickConfig { prefixes: 0, ..config }).contains("tick.prefixes"));
    assert!(refused(TickConfig { hit_ticks: 0, ..config }).contains("tick.hit_ticks"));
    assert!(refused(TickConfig { hit_ticks: 3, ..config }).contains("tick.miss_ticks"));
}

/// A picture shows what is remembered, longest unused first, and what is in use.
#[test]
fn its_memory_is_drawn() {
    let config = FleetConfig::new(1, ReplicaConfig::Tick(TickConfig { prefixes: 4, ..TickConfig::default() }));
    let mut fleet = fleet(config, book(), &PolicySpec::named("round_robin"));
    // The first three requests are of tenants C, B and D; each takes two ticks, the fourth is F's.
    fleet.poll(Nanos(248_300_000 + 3 * 200_000_000 + 1), u32::MAX);
    let cells: Vec<_> = fleet.frame(0).replicas[0]
        .blocks
        .iter()
        .map(|&bits| BlockCell::unpack(bits))
        .map(|cell| (cell.tenant, cell.used))
        .collect();
    assert_eq!(cells, [(Some(2), false), (Some(1), false), (Some(3), false), (Some(5), true)]);
}
