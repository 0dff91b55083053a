//! Requests simulated per second, priced: `cargo run --release -p servelab-fleet --example fleet_bench [requests]`.
#![allow(clippy::disallowed_methods, clippy::print_stdout, missing_docs)]

use servelab_engine::{CostModel, EngineConfig, Nanos};
use servelab_fleet::store::StoreConfig;
use servelab_fleet::{Fleet, FleetConfig, Poll};
use servelab_spec::experiment::{Coefficients, EngineSpec, FetchRule, MultiTenantSpec, PolicySpec, WorkloadSpec};
use servelab_workload::Source;
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let only = std::env::args().nth(2);
    let requests: u32 = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse())?;
    let cost = CostModel::from_coefficients(&Coefficients {
        step_us: 2000.0,
        prefill_token_us: 80.0,
        prefill_context_us: 0.02,
        decode_sequence_us: 900.0,
        decode_context_us: 1.5,
    });
    // A store that holds every prompt, behind links of 10 Gbit/s.
    let shared = StoreConfig {
        blocks: 1 << 20,
        latency: Nanos(1_000_000),
        link_bytes_per_s: 1_250_000_000,
        total_bytes_per_s: 0,
        token_bytes: 3072,
        fetch: FetchRule::Cheaper,
    };
    for (replicas, output) in [(4, 32), (64, 32), (4, 512), (64, 512)] {
        let policies = ["round_robin", "least_tokens", "prefix_affinity"].map(|name| (name, None));
        for (name, store) in policies.into_iter().chain([("least_tokens", Some(shared))]) {
            let title = if store.is_some() { format!("{name}, shared store") } else { name.to_owned() };
            if only.as_ref().is_some_and(|only| *only != format!("{replicas}/{output}/{title}")) {
                continue;
            }
            for max_repeat in [1, 1 << 20] {
                let sizes = MultiTenantSpec {
                    requests,
                    tenants: 6 * replicas,
                    output_min: output / 2,
                    output_max: output,
                    ..Default::default()
                };
                // About 0.7 of what a replica can do without reuse: batches of 8, 430 prompt tokens.
                let per_request_s = 430.0 * 90e-6 + f64::from(output) * 0.75 * 16e-3 / 8.0;
                let rate = 0.7 * f64::from(replicas) / per_request_s;
                let source = Source::new(&WorkloadSpec::MultiTenant(sizes), 1, 16, rate)?;
                let engine = EngineConfig::from_spec(&EngineSpec::default(), false);
                let config = FleetConfig { max_repeat, store, ..FleetConfig::priced(replicas, engine, cost) };
                let mut fleet = Fleet::new(config, source, &PolicySpec::named(name))?;
                let start = Instant::now();
                let mut ended = 0u64;
                while fleet.poll(Nanos::MAX, 1 << 16) != Poll::Done {
                    fleet.take_ended(&mut |_| ended += 1);
                }
                fleet.take_ended(&mut |_| ended += 1);
                let seconds = start.elapsed().as_secs_f64();
                let steps: u64 = fleet.replica_stats().map(|stats| stats.steps).sum();
                let (hit, all) = fleet
                    .replica_stats()
                    .fold((0, 0), |(hit, all), stats| (hit + stats.hit_tokens, all + stats.prompt_tokens));
                println!(
                    "fleet, priced, {replicas} replicas, output {output}, {title}, {}\t{:.0}\trequests/s\t{:.0} steps/s, reuse {:.3}",
                    if max_repeat == 1 { "single steps" } else { "runs of equal steps" },
                    ended as f64 / seconds,
                    steps as f64 / seconds,
                    hit as f64 / all as f64
                );
            }
        }
    }
    Ok(())
}
