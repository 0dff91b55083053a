//! How fast the reference model is on the browser's WebGPU.

use super::gpu;
use super::network::milliseconds;
use crate::common::suite::weights;
use servelab_tinygpt::bench::{BenchOptions, bench};
use servelab_tinygpt::gpu::GpuKernels;
use servelab_tinygpt::{KvShape, TinyGptConfig, TinyGptExecutor};
use wasm_bindgen_test::{console_log, wasm_bindgen_test};

/// For `cargo xtask bench`: a software adapter needs minutes for it.
#[wasm_bindgen_test]
#[ignore]
async fn the_bench_runs_on_the_gpu() {
    let gpu = gpu().await;
    let kernels = GpuKernels::new(&weights(&TinyGptConfig::default(), 1), &gpu).unwrap();
    let mut executor = TinyGptExecutor::new(kernels, KvShape::default(), None);
    let readings = if gpu.adapter().software { 1 } else { 5 };
    let options = BenchOptions { readings, ..BenchOptions::default() };
    let report = bench(&mut executor, &|| milliseconds() / 1e3, &options).await.unwrap();
    report.lines(&gpu.name()).iter().for_each(|line| console_log!("{line}"));
    let kernels = GpuKernels::decode_dispatches(&TinyGptConfig::default());
    console_log!("TinyGPT, WebGPU: kernels of a decode step\t{kernels}\tdispatches");
}
