//! In a browser: the fixed trace and its published figures, as on the host.
#![cfg(all(target_arch = "wasm32", feature = "cpu"))]
#![allow(missing_docs)]

#[path = "../../fleet/tests/common/mod.rs"]
mod common;

#[path = "../../fleet/tests/book.rs"]
mod book;

wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_dedicated_worker);
