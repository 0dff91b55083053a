//! In a browser: the cases worked by hand, as on the host.
#![cfg(target_arch = "wasm32")]
#![allow(missing_docs)]

#[path = "golden.rs"]
mod golden;

#[path = "queue.rs"]
mod queue;

wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_dedicated_worker);
