//! In a browser: a report is the host's to the byte, and the figures that are known exactly are the same.
//!
//! The host's reports are written by `cargo xtask test --only reports`, from the command line's own output.
#![cfg(all(target_arch = "wasm32", feature = "cpu"))]
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../../lab/tests/exact.rs"]
mod exact;

use servelab_lab::{presets, run_priced};
use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

// Where the lab runs on the page too; on the page itself a long run would hold up the browser's driver.
wasm_bindgen_test_configure!(run_in_dedicated_worker);

/// Equal, or where they part: a whole report in a message helps nobody.
fn same_bytes(preset: &str, host: &str) {
    let report = run_priced(&presets::find(preset).unwrap().spec).unwrap();
    let here = serde_json::to_string_pretty(&report).unwrap() + "\n";
    for (line, (here, host)) in here.lines().zip(host.lines()).enumerate() {
        assert_eq!(here, host, "{preset}: line {}", line + 1);
    }
    assert_eq!(here.len(), host.len(), "{preset}");
    assert!(here == host, "{preset}");
}

#[wasm_bindgen_test]
fn the_fixed_trace_gives_the_hosts_bytes() {
    same_bytes("book-trace", include_str!("../../../tests/generated/book-trace.json"));
}

#[wasm_bindgen_test]
fn the_multi_tenant_preset_gives_the_hosts_bytes() {
    same_bytes("multi-tenant", include_str!("../../../tests/generated/multi-tenant.json"));
}
