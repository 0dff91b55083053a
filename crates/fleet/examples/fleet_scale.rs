//! How fleets scale: every policy at 4, 64 and 512 replicas, and the million-request case.
//!
//! `cargo run --release -p servelab-fleet --example fleet_scale [requests] [policy]`: requests of the small run (100 000 unless told; the large run
//! has ten times as many), and one policy instead of all.
#![allow(clippy::disallowed_methods, clippy::print_stdout, missing_docs)]

use servelab_engine::{CostModel, EngineConfig, Nanos};
use servelab_fleet::{Fleet, FleetConfig, Poll, registry};
use servelab_spec::experiment::{Coefficients, EngineSpec, MultiTenantSpec, PolicySpec, WorkloadSpec};
use servelab_workload::Source;
use std::error::Error;
use std::time::Instant;

/// The case that issues and claims speak of: 64 tenants with prompts of 512 tokens, user parts of 8 to 32, outputs of 16 to 32, batches of 32,
/// 4 096 blocks, at 0.7 of what the fleet serves without reuse.
fn fleet(replicas: u32, requests: u32, policy: &str) -> Result<Fleet, Box<dyn Error>> {
    let sizes = MultiTenantSpec {
        requests,
        tenants: 64,
        system_min: 512,
        system_max: 512,
        user_min: 8,
        user_max: 32,
        output_min: 16,
        output_max: 32,
        ..Default::default()
    };
    let cost = CostModel::from_coefficients(&Coefficients {
        step_us: 2000.0,
        prefill_token_us: 80.0,
        prefill_context_us: 0.02,
        decode_sequence_us: 900.0,
        decode_context_us: 1.5,
    });
    let engine = EngineSpec { blocks: 4096, max_batch: 32, ..Default::default() };
    // Seconds a request of 532 prompt and 24 output tokens takes a replica that never reuses: steps shared by 32, then b, c, d and e.
    let steps = (23.0 + 2.0) / 32.0;
    let per_request_s =
        2e-3 * steps + 80e-6 * 532.0 + 0.02e-6 * 532.0 * 266.5 + 900e-6 * 23.0 + 1.5e-6 * 23.0 * (532.0 + 12.0);
    let rate = 0.7 * f64::from(replicas) / per_request_s;
    let source = Source::new(&WorkloadSpec::MultiTenant(sizes), 1, 16, rate)?;
    let config = FleetConfig::priced(replicas, EngineConfig::from_spec(&engine, false), cost);
    Ok(Fleet::new(config, source, &PolicySpec::named(policy))?)
}

/// Seconds of one run.
fn run(replicas: u32, requests: u32, policy: &str) -> Result<f64, Box<dyn Error>> {
    let mut fleet = fleet(replicas, requests, policy)?;
    let start = Instant::now();
    let mut ended = 0u32;
    while fleet.poll(Nanos::MAX, 1 << 16) != Poll::Done {
        fleet.take_ended(&mut |_| ended += 1);
    }
    fleet.take_ended(&mut |_| ended += 1);
    assert_eq!(ended, requests, "every request ends");
    Ok(start.elapsed().as_secs_f64())
}

fn main() -> Result<(), Box<dyn Error>> {
    let small: u32 = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse())?;
    let only = std::env::args().nth(2);
    for entry in registry::POLICIES.iter().filter(|entry| only.as_ref().is_none_or(|only| *only == entry.name)) {
        for replicas in [4, 64, 512] {
            let short = run(replicas, small, entry.name)?;
            // The long run of every policy at every size would take an hour; 64 replicas are the case with a promise.
            let long =
                if replicas == 64 || only.is_some() { Some(run(replicas, 10 * small, entry.name)?) } else { None };
            let remark = long.map_or(String::new(), |long| {
                format!("\t{} requests in {long:.2} s, {:.1} times as long as {small}", 10 * small, long / short)
            });
            let rate = f64::from(small) / short;
            println!("scale, {replicas} replicas, {small} requests, {}\t{rate:.0}\trequests/s{remark}", entry.name);
        }
    }
    Ok(())
}
