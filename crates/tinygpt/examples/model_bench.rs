//! Prints how fast this machine's CPU runs the reference model, as rows of what, value, unit, remark:
//! `cargo run --release -p servelab-tinygpt --example model_bench [portable]`.
#![allow(clippy::print_stdout)]

use burn::tensor::Device;
use servelab_tinygpt::bench::{BenchOptions, BenchReport, bench};
use servelab_tinygpt::{CpuKernels, Kernels, KvShape, Portable, TinyGptConfig, TinyGptExecutor, Weights};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let weights = Weights::random(&TinyGptConfig::default(), 1)?;
    print("host CPU", &run(CpuKernels::new(&weights))?);
    if std::env::args().any(|argument| argument == "portable") {
        print("host CPU, burn's operations", &run(Portable::new(&weights, &Device::flex()))?);
    }
    Ok(())
}

fn run<K: Kernels>(kernels: K) -> Result<BenchReport, Box<dyn std::error::Error>> {
    let began = Instant::now();
    let mut executor = TinyGptExecutor::new(kernels, KvShape::default(), None);
    let clock = || began.elapsed().as_secs_f64();
    Ok(pollster::block_on(bench(&mut executor, &clock, &BenchOptions::default()))?)
}

fn print(place: &str, report: &BenchReport) {
    report.lines(place).iter().for_each(|line| println!("{line}"));
}
