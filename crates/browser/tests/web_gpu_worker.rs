//! WebGPU in a dedicated worker, where the page runs it: found, computed with, agreeing with the oracle.
#![cfg(all(target_arch = "wasm32", feature = "webgpu"))]
#![allow(clippy::unwrap_used)]

#[path = "../../tinygpt/tests/common/mod.rs"]
mod common;

use common::desk::Desk;
use common::suite::{GPU_TOLERANCE, SHAPE, logits_agree, prompt, weights};
use servelab_tinygpt::TinyGptConfig;
use servelab_tinygpt::gpu::{Gpu, GpuKernels, GpuOptions};
use wasm_bindgen::JsCast;
use wasm_bindgen_test::{console_log, wasm_bindgen_test, wasm_bindgen_test_configure};

wasm_bindgen_test_configure!(run_in_dedicated_worker);

#[wasm_bindgen_test]
async fn the_small_model_agrees_with_the_oracle_in_a_worker() {
    assert!(js_sys::global().has_type::<web_sys::DedicatedWorkerGlobalScope>());
    console_error_panic_hook::set_once();
    let gpu = Gpu::acquire(GpuOptions { allow_software: true }).await.unwrap();
    let weights = weights(&TinyGptConfig::small(), 21);
    let mut desk = Desk::new(GpuKernels::new(&weights, &gpu).unwrap(), &weights, SHAPE);
    let worst = logits_agree(&mut desk, &weights, &prompt(11, 40), 3, GPU_TOLERANCE).await;
    console_log!("in a worker on {}: {worst:.1e}", gpu.name());
}
