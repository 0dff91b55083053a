//! A storm: a million clients, each with one request, find the server down, try again until they are served, and cost it work whenever it turns them away.
//!
//! `cargo run --release -p servelab-fleet --example retry_storm [clients]`
#![allow(clippy::disallowed_methods, clippy::print_stdout, missing_docs)]

use servelab_engine::Nanos;
use servelab_fleet::clients::{Backoff, ClientPolicy, ClientsConfig, Crowd, Jitter};
use servelab_fleet::faults::{Fault, FaultKind};
use servelab_fleet::replica::server::{ServerConfig, Service};
use servelab_fleet::{Fleet, FleetConfig, Outcome, Poll, ReplicaConfig};
use servelab_spec::experiment::{MultiTenantSpec, PolicySpec, WorkloadSpec};
use servelab_workload::Source;
use std::error::Error;
use std::time::Instant;

/// Resident memory of this process, bytes; 0 where nobody tells.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// `clients` send within a second to a server that is down for ten; then it serves 64 at once and a twentieth of them a second, with room for as many as
/// it serves in a second, and turning one away costs it a fiftieth of an answer.
fn storm(clients: u32) -> Result<Fleet, Box<dyn Error>> {
    let slots = 64;
    let mean = f64::from(slots) * 20.0 / f64::from(clients);
    let server = ServerConfig {
        queue: Some(clients / 20),
        ..ServerConfig::new(slots, Service::Exponential, Nanos::from_secs(mean))
    };
    let policy = ClientPolicy {
        attempts: 1000,
        backoff: Backoff::exponential(Nanos::from_secs(0.5), Nanos::from_secs(60.0), Jitter::Full),
        ..ClientPolicy::default()
    };
    let config = FleetConfig {
        clients: ClientsConfig::Crowd(Box::new(Crowd::of(policy))),
        faults: vec![Fault {
            from: Nanos::ZERO,
            until: Nanos::from_secs(10.0),
            what: FaultKind::Down { replica: None },
        }],
        reject_cost: Nanos::from_secs(mean / 50.0),
        seed: 1,
        ..FleetConfig::new(1, ReplicaConfig::Server(server))
    };
    let sizes = MultiTenantSpec {
        requests: clients,
        tenants: 1,
        system_min: 0,
        system_max: 0,
        user_min: 1,
        user_max: 1,
        output_min: 1,
        output_max: 1,
        ..Default::default()
    };
    let source = Source::new(&WorkloadSpec::MultiTenant(sizes), 1, 16, f64::from(clients))?;
    Ok(Fleet::new(config, source, &PolicySpec::named("round_robin"))?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let clients: u32 = std::env::args().nth(1).map_or(Ok(1_000_000), |text| text.parse())?;
    let mut fleet = storm(clients)?;
    let before = resident();
    let start = Instant::now();
    let (mut finished, mut most) = (0u32, 0);
    loop {
        let poll = fleet.poll(Nanos::MAX, 1 << 18);
        fleet.take_ended(&mut |record| finished += u32::from(record.outcome == Outcome::Finished));
        most = most.max(resident());
        if poll == Poll::Done {
            break;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(finished, clients, "everybody is served in the end");
    let (attempts, refused) = (fleet.counts().attempts, fleet.fates().refused());
    println!(
        "storm, {clients} clients\t{:.0}\tattempts/s\t{attempts} attempts, {refused} refused, {:.0} s of storm in {seconds:.2} s, {:.0} bytes a client",
        attempts as f64 / seconds,
        fleet.now().as_secs(),
        (most.saturating_sub(before)) as f64 / f64::from(clients),
    );
    Ok(())
}
