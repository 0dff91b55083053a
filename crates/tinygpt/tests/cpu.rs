//! The promises of `common::suite` on the host's CPU, for both sets of kernels, and what only the CPU kernels promise.
#![cfg(all(feature = "flex", not(target_arch = "wasm32")))]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::common::desk::{Desk, Line};
use crate::common::served::{self, serve};
use crate::common::suite::{self, CPU_TOLERANCE, SHAPE, WAYS, weights};
use burn::tensor::Device;
use pollster::block_on;
use servelab_tinygpt::{CpuKernels, KvShape, Portable, TinyGptConfig, Weights};

fn cpu(weights: &Weights, shape: KvShape) -> Desk<CpuKernels> {
    Desk::new(CpuKernels::new(weights), weights, shape)
}

fn portable(weights: &Weights, shape: KvShape) -> Desk<Portable> {
    Desk::new(Portable::new(weights, &Device::flex()), weights, shape)
}

#[test]
fn cpu_kernels_agree_with_the_oracle() {
    for (config, prompt, steps) in [(TinyGptConfig::small(), 200, 40), (TinyGptConfig::default(), 150, 20)] {
        let weights = weights(&config, 11);
        let prompt = suite::prompt(12, prompt);
        let worst = block_on(suite::logits_agree(&mut cpu(&weights, SHAPE), &weights, &prompt, steps, CPU_TOLERANCE));
        println!("{} parameters: largest deviation {worst:.1e}", config.parameters());
    }
}

#[test]
fn portable_operations_agree_with_the_oracle() {
    for (config, prompt, steps) in [(TinyGptConfig::small(), 200, 40), (TinyGptConfig::default(), 70, 5)] {
        let weights = weights(&config, 13);
        let prompt = suite::prompt(14, prompt);
        let mut desk = portable(&weights, SHAPE);
        let worst = block_on(suite::logits_agree(&mut desk, &weights, &prompt, steps, CPU_TOLERANCE));
        println!("{} parameters: largest deviation {worst:.1e}", config.parameters());
    }
}

#[test]
fn shapes_beyond_the_reference_agree_with_the_oracle() {
    let small = TinyGptConfig::small();
    let shapes = [
        TinyGptConfig { heads: 8, kv_heads: 8, ..small.clone() },
        TinyGptConfig { width: 96, heads: 6, kv_heads: 1, vocabulary: 517, ..small.clone() },
        TinyGptConfig { width: 96, heads: 6, kv_heads: 2, hidden: 40, layers: 1, ..small.clone() },
    ];
    for (config, block_tokens) in shapes.iter().zip([8, 16, 5]).chain([(&small, 1), (&small, 64)]) {
        let weights = weights(config, 15);
        let shape = KvShape { blocks: 1600 / block_tokens, block_tokens };
        let prompt = suite::prompt(16, 77);
        block_on(suite::logits_agree(&mut cpu(&weights, shape), &weights, &prompt, 3, CPU_TOLERANCE));
        block_on(suite::logits_agree(&mut portable(&weights, shape), &weights, &prompt, 3, CPU_TOLERANCE));
    }
}

#[test]
fn continuations_are_the_oracles_in_every_way_and_equal_to_the_bit() {
    for (config, output) in [(TinyGptConfig::small(), 24), (TinyGptConfig::default(), 16)] {
        let weights = weights(&config, 17);
        let make = || cpu(&weights, SHAPE);
        let seen = block_on(suite::continuations_agree(make, &weights, &WAYS, output, CPU_TOLERANCE));
        println!("{} tokens, {} within the tolerance of another", seen.tokens, seen.exceptions);
        assert_eq!(seen.tokens, 3 * WAYS.len() * output);
        let alone = &seen.logits[0].1;
        for (way, logits) in &seen.logits {
            assert!(logits == alone, "{way:?}: a row's logits depend on its company");
        }
    }
}

#[test]
fn continuations_of_portable_operations_are_the_oracles() {
    let weights = weights(&TinyGptConfig::small(), 18);
    let make = || portable(&weights, SHAPE);
    let seen = block_on(suite::continuations_agree(make, &weights, &WAYS, 24, CPU_TOLERANCE));
    println!("{} tokens, {} within the tolerance of another", seen.tokens, seen.exceptions);
}

#[test]
fn overwriting_a_cached_block_changes_the_logits() {
    let weights = weights(&TinyGptConfig::default(), 19);
    block_on(suite::blocks_are_read(&mut cpu(&weights, SHAPE), CPU_TOLERANCE));
    block_on(suite::blocks_are_read(&mut portable(&weights, SHAPE), CPU_TOLERANCE));
}

#[test]
fn the_cache_is_written_in_place() {
    let weights = weights(&TinyGptConfig::small(), 20);
    let mut desk = cpu(&weights, SHAPE);
    let address = |desk: &mut Desk<CpuKernels>| {
        let (k, _) = desk.executor.cache(0).unwrap().layer(1).read();
        k.try_into_primitive::<burn::backend::Flex>().unwrap().bytes().as_ptr()
    };
    let before = address(&mut desk);
    let mut lines = [Line::new(&suite::prompt(21, 40))];
    for count in [30, 9, 1] {
        block_on(desk.step(&mut lines, &[(0, count)])).unwrap();
        assert_eq!(address(&mut desk), before);
    }
}

#[test]
fn the_engine_gets_the_oracles_tokens_whatever_it_does() {
    let weights = weights(&TinyGptConfig::small(), 22);
    let mut sampled = Vec::new();
    for (name, config) in served::settings() {
        let greedy = block_on(serve(CpuKernels::new(&weights), config.clone(), false));
        let exceptions = served::greedy_outputs_are_the_oracles(&greedy, &weights, CPU_TOLERANCE);
        println!("{name}: {} steps, {} preemptions, {exceptions} exceptions", greedy.steps, greedy.preemptions);
        assert_eq!(config.prefix_cache, greedy.preemptions > 0 && greedy.hit_tokens > 0, "{name}");
        sampled.push(block_on(serve(CpuKernels::new(&weights), config, true)).outputs);
        assert_ne!(sampled[0], greedy.outputs, "temperature changes something");
    }
    assert!(sampled.iter().all(|outputs| *outputs == sampled[0]), "a draw depends on how it was scheduled");
}

#[test]
fn the_engine_gets_the_oracles_tokens_from_portable_operations() {
    let weights = weights(&TinyGptConfig::small(), 22);
    let (name, config) = served::settings()[0].clone();
    let portable = Portable::new(&weights, &Device::flex());
    let exceptions =
        served::greedy_outputs_are_the_oracles(&block_on(serve(portable, config, false)), &weights, CPU_TOLERANCE);
    println!("{name}: {exceptions} exceptions");
}

#[test]
fn replicas_have_kv_of_their_own_and_reset_drops_it() {
    let weights = weights(&TinyGptConfig::small(), 23);
    let mut desk = cpu(&weights, SHAPE);
    let mut lines = [Line::new(&suite::prompt(24, 33))];
    let plan = desk.plan(&mut lines, &[(0, 32)]);
    block_on(desk.executor.logits(0, &plan)).unwrap();
    let last = desk.plan(&mut lines, &[(0, 1)]);
    let mut logits = |replica| block_on(desk.executor.logits(replica, &last)).unwrap().to_vec();
    let filled = logits(0);
    assert_eq!(filled, logits(0));
    assert_ne!(filled, logits(3), "another replica has not seen the prompt");
    desk.executor.drop_replica(0);
    assert_ne!(filled, block_on(desk.executor.logits(0, &last)).unwrap());
    block_on(desk.executor.logits(0, &plan)).unwrap();
    assert_eq!(filled, block_on(desk.executor.logits(0, &last)).unwrap());
    desk.executor.reset(SHAPE);
    assert_ne!(filled, block_on(desk.executor.logits(0, &last)).unwrap());
}

#[test]
fn a_clock_measures_steps_and_none_measures_nothing() {
    use servelab_engine::Executor;
    let weights = weights(&TinyGptConfig::small(), 25);
    let mut lines = [Line::new(&suite::prompt(26, 9))];
    let plan = cpu(&weights, SHAPE).plan(&mut lines, &[(0, 9)]);
    let time = std::cell::Cell::new(1.0);
    let clock = move || time.replace(time.get() + 0.25);
    for (clock, seconds) in [(None, None), (Some(Box::new(clock) as servelab_tinygpt::Clock), Some(0.25))] {
        let mut executor = servelab_tinygpt::TinyGptExecutor::new(CpuKernels::new(&weights), SHAPE, clock);
        let output = block_on(executor.execute(0, &plan)).unwrap();
        assert_eq!((output.tokens.len(), output.seconds), (1, seconds));
    }
}

#[test]
fn the_bits_are_the_same_on_every_machine() {
    let weights = weights(&TinyGptConfig::small(), 29);
    assert_eq!(block_on(suite::fingerprint(&mut cpu(&weights, SHAPE))), suite::CPU_FINGERPRINT);
}

#[test]
fn the_bench_divides_time_by_steps() {
    use servelab_tinygpt::bench::{BenchOptions, bench};
    let weights = weights(&TinyGptConfig::small(), 31);
    let mut executor = servelab_tinygpt::TinyGptExecutor::new(CpuKernels::new(&weights), SHAPE, None);
    let time = std::cell::Cell::new(0.0);
    let clock = || time.replace(time.get() + 0.25);
    let options = BenchOptions { context: 20, prompt: 64, uncached: 16, seconds: 3.0, readings: 3 };
    let report = block_on(bench(&mut executor, &clock, &options)).unwrap();
    // The clock is read once before and once after each step.
    let steps = [report.decode_1, report.decode_8, report.prefill_cold, report.prefill_cached];
    assert_eq!(steps, [0.25; 4]);
    assert_eq!((report.decode_8_rate(), report.prefill_rate(), report.cached_share()), (32.0, 256.0, 1.0));
    let too_long = BenchOptions { prompt: 4096, ..options };
    assert!(block_on(bench(&mut executor, &clock, &too_long)).is_err());
    assert_eq!(executor.shape(), SHAPE);
}
