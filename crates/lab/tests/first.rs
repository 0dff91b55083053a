//! What the page shows a first visitor before anything has run is what the run gives.

#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

use servelab_lab::{presets, run_priced};

#[test]
fn the_answer_that_is_there_before_the_run_is_the_runs_to_the_byte() {
    let first = presets::all().remove(0);
    let report = serde_json::to_string_pretty(&run_priced(&first.spec).unwrap()).unwrap() + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../www/first.json");
    let kept = std::fs::read_to_string(path).unwrap();
    assert!(kept == report, "www/first.json is older: `servelab run {} --format json > www/first.json`", first.name);
}
