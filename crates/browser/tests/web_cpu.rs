//! The CPU kernels in a browser: `wasm-pack test --headless --chrome crates/browser --test web_cpu`.
#![cfg(all(target_arch = "wasm32", feature = "cpu"))]
#![allow(clippy::unwrap_used)]

#[path = "../../tinygpt/tests/common/mod.rs"]
mod common;

use burn::tensor::Device;
use common::desk::Desk;
use common::suite::{self, CPU_TOLERANCE, SHAPE, WAYS, weights};
use servelab_tinygpt::bench::{BenchOptions, bench};
use servelab_tinygpt::{CpuKernels, KvShape, Portable, TinyGptConfig, TinyGptExecutor};
use wasm_bindgen_test::{console_log, wasm_bindgen_test, wasm_bindgen_test_configure};

wasm_bindgen_test_configure!(run_in_dedicated_worker);

#[wasm_bindgen_test]
async fn the_small_model_agrees_with_the_oracle() {
    let weights = weights(&TinyGptConfig::small(), 11);
    let mut desk = Desk::new(CpuKernels::new(&weights), &weights, SHAPE);
    suite::logits_agree(&mut desk, &weights, &suite::prompt(12, 100), 10, CPU_TOLERANCE).await;
    let make = || Desk::new(CpuKernels::new(&weights), &weights, SHAPE);
    let seen = suite::continuations_agree(make, &weights, &WAYS, 12, CPU_TOLERANCE).await;
    console_log!("{} tokens, {} within the tolerance of another", seen.tokens, seen.exceptions);
    assert_eq!(seen.tokens, 3 * WAYS.len() * 12);
}

#[wasm_bindgen_test]
async fn the_reference_model_agrees_with_the_oracle() {
    let weights = weights(&TinyGptConfig::default(), 11);
    let mut desk = Desk::new(CpuKernels::new(&weights), &weights, SHAPE);
    let worst = suite::logits_agree(&mut desk, &weights, &suite::prompt(12, 40), 3, CPU_TOLERANCE).await;
    console_log!("largest deviation {worst:.1e}");
}

#[wasm_bindgen_test]
async fn burns_own_operations_agree_with_the_oracle() {
    let weights = weights(&TinyGptConfig::small(), 13);
    let mut desk = Desk::new(Portable::new(&weights, &Device::flex()), &weights, SHAPE);
    suite::logits_agree(&mut desk, &weights, &suite::prompt(14, 60), 3, CPU_TOLERANCE).await;
}

#[wasm_bindgen_test]
async fn the_bits_are_the_hosts() {
    let weights = weights(&TinyGptConfig::small(), 29);
    let mut desk = Desk::new(CpuKernels::new(&weights), &weights, SHAPE);
    assert_eq!(suite::fingerprint(&mut desk).await, suite::CPU_FINGERPRINT);
}

#[wasm_bindgen_test]
async fn the_bench_runs() {
    let weights = weights(&TinyGptConfig::default(), 1);
    let mut executor = TinyGptExecutor::new(CpuKernels::new(&weights), KvShape::default(), None);
    let began = web_time::Instant::now();
    let clock = || began.elapsed().as_secs_f64();
    let options = BenchOptions { seconds: 0.2, readings: 3, ..BenchOptions::default() };
    let report = bench(&mut executor, &clock, &options).await.unwrap();
    report.lines("wasm CPU, one thread").iter().for_each(|line| console_log!("{line}"));
    assert!(report.cached_share() < 0.5, "a cached prefix saves work");
}
