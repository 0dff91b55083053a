//! A client of a storm takes little memory while it waits, and everybody is served in the end. A million of them are measured in `examples/retry_storm.rs`.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

#[path = "common/million.rs"]
mod million;

use million::{Counting, storm, weather};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What a client may take, bytes: an aim of the project.
const MOST: f64 = 200.0;

#[test]
fn a_client_of_a_storm_takes_less_than_two_hundred_bytes() {
    const CLIENTS: u32 = 100_000;
    let mut fleet = storm(CLIENTS, "every_second", &[("base_s", 4.0)]).unwrap();
    let taken = weather(&mut fleet, 8192);
    assert_eq!(taken.served, CLIENTS, "everybody is served in the end");
    assert!(taken.waiting > 99_000, "nearly all waited at once, {}", taken.waiting);
    let each = taken.bytes as f64 / taken.waiting as f64;
    assert!(each < MOST, "{each} bytes a client");
    // What is kept of one is more than its alarm: the count counts.
    assert!(each > 100.0, "{each} bytes a client");
}
