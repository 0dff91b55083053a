//! A storm: a million clients, each with one request, find the server down, try again until they are served, and cost it work whenever it turns them away.
//!
//! `cargo run --release -p servelab-fleet --example retry_storm [clients] [policy]`: four client policies, or one. Seconds are those this process had of a CPU, where
//! the system tells (Linux); bytes are what is allocated beyond the fleet before anybody came, at most, for each client of those that waited at once.
#![allow(clippy::disallowed_methods, clippy::print_stdout, missing_docs)]

#[path = "../tests/common/million.rs"]
mod million;

use million::{Counting, storm, weather};
use std::error::Error;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Policies with what differs from their defaults.
const POLICIES: [(&str, &[(&str, f64)]); 4] = [
    ("every_second", &[]),
    ("exponential", &[("cap_s", 8.0)]),
    ("full_jitter", &[("cap_s", 8.0)]),
    ("openai_sdk", &[]),
];

/// Seconds on a CPU so far, or of the wall since `begun`.
fn seconds(begun: Instant) -> f64 {
    let told = std::fs::read_to_string("/proc/self/schedstat").ok();
    let nanos = told.and_then(|line| line.split(' ').next().and_then(|first| first.parse::<u64>().ok()));
    nanos.map_or_else(|| begun.elapsed().as_secs_f64(), |nanos| nanos as f64 / 1e9)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let clients: u32 = args.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let only = args.next();
    for (policy, params) in POLICIES.into_iter().filter(|(name, _)| only.as_ref().is_none_or(|only| only == name)) {
        let mut fleet = storm(clients, policy, params)?;
        let begun = Instant::now();
        let before = seconds(begun);
        let taken = weather(&mut fleet, 1 << 14);
        let took = seconds(begun) - before;
        assert_eq!(taken.served, clients, "everybody is served in the end");
        let attempts = fleet.counts().attempts;
        println!(
            "storm, {clients} clients, {policy}\t{took:.1}\ts\t{:.1} M attempts, {:.2} M/s; {:.0} s of storm; {:.0} bytes a client, {} at once",
            attempts as f64 / 1e6,
            attempts as f64 / 1e6 / took,
            fleet.now().as_secs(),
            taken.bytes as f64 / taken.waiting as f64,
            taken.waiting,
        );
    }
    Ok(())
}
