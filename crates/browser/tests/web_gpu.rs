//! TinyGPT on a browser's WebGPU, in a page: each kernel against plain f64 loops, then the promises that every device
//! makes, then what is the GPU's own: how many dispatches a step takes, how the device is found, refused and lost.
//!
//! Where there is no GPU, the browser's software adapter computes it; the tests ask for it by name.
#![cfg(all(target_arch = "wasm32", feature = "webgpu"))]
#![allow(clippy::unwrap_used)]

#[path = "../../tinygpt/tests/common/mod.rs"]
mod common;
#[path = "../../tinygpt/tests/gpu/mod.rs"]
mod gpu;

use wasm_bindgen_test::wasm_bindgen_test_configure;

wasm_bindgen_test_configure!(run_in_browser);
