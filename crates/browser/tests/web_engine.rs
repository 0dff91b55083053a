//! In a browser: the cases worked by hand, as on the host.
#![cfg(all(target_arch = "wasm32", feature = "cpu"))]
#![allow(missing_docs)]

#[path = "../../engine/tests/golden.rs"]
mod golden;

#[path = "../../engine/tests/queue.rs"]
mod queue;

wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_dedicated_worker);
