//! The whole model against the oracle, and what a step costs.

use super::gpu;
use crate::common::desk::{Desk, Line};
use crate::common::suite::{
    GPU_TOLERANCE, SHAPE, WAYS, blocks_are_read, continuations_agree, logits_agree, prompt, weights,
};
use js_sys::{Function, Reflect, global};
use servelab_engine::Executor;
use servelab_tinygpt::gpu::GpuKernels;
use servelab_tinygpt::{Portable, TinyGptConfig, TinyGptExecutor};
use wasm_bindgen_test::{console_log, wasm_bindgen_test};

/// Counts what the page asks of WebGPU, below everything of ours and burn's.
struct Counter;

const COUNTED: [&str; 3] = ["dispatches", "submissions", "writes"];

impl Counter {
    /// Wraps the browser's own methods, once.
    fn install() -> Self {
        js_sys::eval(
            "if (!globalThis.gpuCounts) {
                globalThis.gpuCounts = { dispatches: 0, submissions: 0, writes: 0 };
                const wrap = (type, method, count) => {
                    const original = type.prototype[method];
                    type.prototype[method] = function (...rest) {
                        globalThis.gpuCounts[count] += 1;
                        return original.apply(this, rest);
                    };
                };
                wrap(GPUComputePassEncoder, 'dispatchWorkgroups', 'dispatches');
                wrap(GPUQueue, 'submit', 'submissions');
                wrap(GPUQueue, 'writeBuffer', 'writes');
            }",
        )
        .unwrap();
        Counter
    }

    /// Dispatches, submissions and writes so far.
    fn read(&self) -> [usize; 3] {
        let counts = Reflect::get(&global(), &"gpuCounts".into()).unwrap();
        COUNTED.map(|key| Reflect::get(&counts, &key.into()).unwrap().as_f64().unwrap() as usize)
    }
}

pub fn milliseconds() -> f64 {
    let performance = Reflect::get(&global(), &"performance".into()).unwrap();
    let now: Function = Reflect::get(&performance, &"now".into()).unwrap().into();
    now.call0(&performance).unwrap().as_f64().unwrap()
}

async fn desk(config: &TinyGptConfig, seed: u64) -> (Desk<GpuKernels>, servelab_tinygpt::Weights) {
    let weights = weights(config, seed);
    let kernels = GpuKernels::new(&weights, &gpu().await).unwrap();
    (Desk::new(kernels, &weights, SHAPE), weights)
}

#[wasm_bindgen_test]
async fn the_small_model_agrees_with_the_oracle() {
    let (mut desk, weights) = desk(&TinyGptConfig::small(), 11).await;
    let worst = logits_agree(&mut desk, &weights, &prompt(6, 150), 20, GPU_TOLERANCE).await;
    console_log!("small model: logits differ by {worst:.1e} at most");
}

#[wasm_bindgen_test]
async fn every_way_of_computing_a_text_gives_the_same_text() {
    let weights = weights(&TinyGptConfig::small(), 12);
    let gpu = gpu().await;
    let make = || Desk::new(GpuKernels::new(&weights, &gpu).unwrap(), &weights, SHAPE);
    let seen = continuations_agree(make, &weights, &WAYS, 12, GPU_TOLERANCE).await;
    console_log!("{} tokens compared, {} exceptions", seen.tokens, seen.exceptions);
    assert_eq!(seen.tokens, WAYS.len() * 3 * 12);
}

#[wasm_bindgen_test]
async fn a_cached_block_is_really_read() {
    let (mut desk, _) = desk(&TinyGptConfig::small(), 13).await;
    blocks_are_read(&mut desk, GPU_TOLERANCE).await;
}

/// The reference configuration: one prefill with tiles, a few decodes, on the GPU and nowhere else, counted and timed.
#[wasm_bindgen_test]
async fn the_reference_model_agrees_in_few_dispatches() {
    let counter = Counter::install();
    let config = TinyGptConfig::default();
    let (mut desk, weights) = desk(&config, 14).await;
    assert!(Executor::device(&desk.executor).starts_with("WebGPU"), "{}", Executor::device(&desk.executor));

    gpu().await.client().sync().await.unwrap();
    let before = counter.read();
    let worst = logits_agree(&mut desk, &weights, &prompt(7, 40), 2, GPU_TOLERANCE).await;
    console_log!("reference model: logits differ by {worst:.1e} at most");
    let during: [usize; 3] = std::array::from_fn(|i| counter.read()[i] - before[i]);
    assert_eq!(during[0], 3 * dispatches(&config) + 1, "a prefill, which packs its one sampled row, and two decodes");

    // Eight sequences decode together.
    let mut lines: Vec<Line> = (0..8).map(|seed| Line::new(&prompt(20 + seed, 5))).collect();
    let prefill: Vec<(usize, usize)> = (0..8).map(|index| (index, 5)).collect();
    let began = milliseconds();
    desk.step(&mut lines, &prefill).await.unwrap();
    console_log!("prefill of 8 × 5 tokens: {:.0} ms", milliseconds() - began);
    for round in 0..3 {
        for line in &mut lines {
            line.tokens.push(round);
        }
        let work: Vec<(usize, usize)> = (0..8).map(|index| (index, 1)).collect();
        let (before, began) = (counter.read(), milliseconds());
        desk.step(&mut lines, &work).await.unwrap();
        let during: [usize; 3] = std::array::from_fn(|i| counter.read()[i] - before[i]);
        let [dispatched, submitted, written] = during;
        console_log!(
            "decode of 8: {dispatched} dispatches, {submitted} submissions, {written} writes, {:.0} ms on {}",
            milliseconds() - began,
            Executor::device(&desk.executor),
        );
        assert_eq!(dispatched, dispatches(&config));
        assert!(submitted <= 4, "a step took {submitted} submissions");
    }
}

/// What the page is told that a decode takes; ten a layer is the bound that matters.
fn dispatches(config: &TinyGptConfig) -> usize {
    let told = GpuKernels::decode_dispatches(config) as usize;
    assert!(told <= 10 * config.layers + 4);
    told
}

/// The same network by burn's own operations on the same device: a second implementation, and the count that own kernels save.
#[wasm_bindgen_test]
async fn burns_own_operations_agree_in_many_dispatches() {
    let counter = Counter::install();
    let (config, gpu) = (TinyGptConfig::small(), gpu().await);
    let weights = weights(&config, 15);
    let mut desk = Desk::new(Portable::new(&weights, gpu.device()), &weights, SHAPE);
    gpu.client().sync().await.unwrap();
    let before = counter.read()[0];
    let worst = logits_agree(&mut desk, &weights, &prompt(8, 20), 2, GPU_TOLERANCE).await;
    let counted = (counter.read()[0] - before) / 3;
    console_log!("burn's operations: {worst:.1e}, {counted} dispatches a step where ours take {}", dispatches(&config));
    assert!(counted > dispatches(&config));
    gpu.check().unwrap();
}

/// The engine's executor on the GPU: tokens come out, and a step that samples nothing ends, too.
#[wasm_bindgen_test]
async fn the_executor_runs_on_the_gpu() {
    let (mut desk, weights) = desk(&TinyGptConfig::small(), 16).await;
    let mut lines = [Line::new(&prompt(9, 40))];
    let chunks = [desk.plan(&mut lines, &[(0, 25)]), desk.plan(&mut lines, &[(0, 15)])];
    let kernels = GpuKernels::new(&weights, &gpu().await).unwrap();
    let clock = Box::new(|| milliseconds() / 1000.0);
    let mut executor = TinyGptExecutor::new(kernels, SHAPE, Some(clock));
    let first = executor.execute(3, &chunks[0]).await.unwrap();
    assert!(first.tokens.is_empty() && first.seconds.is_some_and(|seconds| seconds > 0.0));
    let second = executor.execute(3, &chunks[1]).await.unwrap();
    assert_eq!(second.tokens.len(), 1);
    assert!(executor.config().vocabulary > second.tokens[0] as usize);
}
