//! How fast one priced engine runs on this machine: `cargo run --release --example engine_bench [--json]`.
//!
//! Each row serves the same kind of work as a fleet would give one replica: Poisson arrivals at about nine tenths of its
//! capacity, tenants with common beginnings, keys only. Steps count single decode steps, plans the calls that made them.
//! Seconds are those this process had of a CPU, where the system tells (Linux), so that a busy machine does not count.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

use servelab_engine::random::Stream;
use servelab_engine::{
    BlockKey, CostClock, CostModel, Engine, EngineConfig, EngineEvent, Nanos, Prompt, Sampling, SequenceId,
    SequenceRequest, StepOutput,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The system's allocator, counted.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` came from `System` with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of 900 decode steps of a batch of eight, through block allocations and evictions.
fn allocations_of_decode() -> u64 {
    let config = EngineConfig { max_context: 4096, blocks: 800, ..EngineConfig::default() };
    let mut engine = Engine::new(config).unwrap();
    let (none, mut events) = (StepOutput::default(), Vec::with_capacity(64));
    let (mut now, mut before) = (0, 0);
    for round in 0..3 {
        for id in round * 8..round * 8 + 8 {
            let request = SequenceRequest {
                id: SequenceId(id),
                prompt: Prompt::from_tokens(&[id as u32; 64], 16, 0),
                max_tokens: 1100,
                output_tokens: 1100,
                ignore_eos: true,
                sampling: Sampling::default(),
                adapter: None,
                tenant: 0,
                output_seed: id,
            };
            engine.submit(Nanos(now), request).unwrap();
        }
        while engine.plan(Nanos(now), 1).is_some() {
            if now == 2300 {
                before = ALLOCATIONS.load(Ordering::Relaxed);
            }
            if now == 3200 {
                assert!(engine.stats().evictions > 400, "the pool was meant to be used up");
                return ALLOCATIONS.load(Ordering::Relaxed) - before;
            }
            now += 1;
            engine.commit(Nanos(now), &none, &mut events).unwrap();
            events.clear();
        }
    }
    unreachable!("three rounds are 3 300 steps, and 3 200 were asked for")
}

struct Case {
    name: &'static str,
    config: EngineConfig,
    cost: CostModel,
    requests: u64,
    tenants: u64,
    common: u32,
    own: (u32, u32),
    output: (u32, u32),
    rate: f64,
}

struct Result {
    name: &'static str,
    steps: f64,
    plans: f64,
    requests: f64,
    tokens: f64,
    reuse: f64,
    speed: f64,
}

/// Seconds on a CPU, or of the wall where the system does not tell.
fn seconds(begun: Instant) -> f64 {
    let told = std::fs::read_to_string("/proc/self/schedstat").ok();
    let nanos = told.and_then(|line| line.split(' ').next().and_then(|first| first.parse::<u64>().ok()));
    nanos.map_or_else(|| begun.elapsed().as_secs_f64(), |nanos| nanos as f64 / 1e9)
}

fn run(case: &Case, most: u32) -> Result {
    let block_tokens = case.config.block_tokens;
    let commons: Vec<Arc<[BlockKey]>> = (0..case.tenants)
        .map(|tenant| {
            let keys = (0..case.common / block_tokens)
                .scan(BlockKey::root(tenant), |key, at| {
                    *key = key.child(&[at]);
                    Some(*key)
                })
                .collect::<Vec<_>>();
            keys.into()
        })
        .collect();
    let mut stream = Stream::new(1, b"bench");
    let mut arrivals = Vec::new();
    let mut at = 0.0;
    for id in 0..case.requests {
        at += stream.exponential() / case.rate;
        let tenant = stream.below(case.tenants);
        let len = case.common + stream.between(case.own.0, case.own.1);
        let shared = case.common / block_tokens;
        let own = (shared..len / block_tokens).map(|_| BlockKey(stream.next_u64())).collect();
        let output = stream.between(case.output.0, case.output.1);
        arrivals.push((
            Nanos::from_secs(at),
            SequenceRequest {
                id: SequenceId(id),
                prompt: Prompt {
                    len,
                    shared_keys: commons[tenant as usize].clone(),
                    own_keys: own,
                    tail: BlockKey(stream.next_u64()),
                    tokens: None,
                },
                max_tokens: output,
                output_tokens: output,
                ignore_eos: true,
                sampling: Sampling::default(),
                adapter: None,
                tenant: tenant as u32,
                output_seed: 0,
            },
        ));
    }

    let clock_start = Instant::now();
    let begun = seconds(clock_start);
    let mut engine = Engine::new(case.config.clone()).unwrap();
    let mut clock = CostClock::default();
    let mut events = Vec::new();
    let (mut now, mut plans, mut finished) = (Nanos::ZERO, 0u64, 0u64);
    let mut arrivals = arrivals.into_iter().peekable();
    let none = StepOutput::default();
    loop {
        while let Some((_, request)) = arrivals.next_if(|(at, _)| *at <= now) {
            engine.submit(now, request).unwrap();
        }
        let Some(plan) = engine.plan(now, most) else {
            match arrivals.peek() {
                Some((at, _)) => now = *at,
                None => break,
            }
            continue;
        };
        plans += 1;
        let (work, mut repeat) = (plan.work, plan.repeat);
        let mut end = now + clock.preview(case.cost.run(&work, repeat));
        while let Some((at, request)) = arrivals.next_if(|(at, _)| *at <= end) {
            if engine.arrival_interrupts() {
                repeat = case.cost.steps_begun(&work, repeat, &clock, at.since(now));
                engine.truncate(repeat);
                end = now + clock.preview(case.cost.run(&work, repeat));
            }
            engine.submit(at, request).unwrap();
        }
        clock.charge(case.cost.run(&work, repeat));
        now = end;
        engine.commit(now, &none, &mut events).unwrap();
        finished += events.drain(..).filter(|event| matches!(event, EngineEvent::Finished { .. })).count() as u64;
    }
    let seconds = seconds(clock_start) - begun;
    assert_eq!(finished, case.requests);
    let stats = engine.stats();
    Result {
        name: case.name,
        steps: stats.steps as f64 / seconds,
        plans: plans as f64 / seconds,
        requests: case.requests as f64 / seconds,
        tokens: stats.generated_tokens as f64 / seconds,
        reuse: stats.reuse(),
        speed: now.as_secs() / seconds,
    }
}

fn main() {
    // About a TinyGPT replica in a browser, and about an 8-billion-parameter model on a large GPU.
    let small = CostModel {
        step: 2_000_000_000,
        prefill_token: 400_000_000,
        prefill_context: 100_000,
        decode_sequence: 500_000_000,
        decode_context: 1_000_000,
        adapter_load: 0,
    };
    let large = CostModel {
        step: 8_000_000_000,
        prefill_token: 40_000_000,
        prefill_context: 1_000,
        decode_sequence: 20_000_000,
        decode_context: 100_000,
        adapter_load: 0,
    };
    let big = EngineConfig {
        blocks: 20_000,
        max_batch: 128,
        token_budget: 8192,
        max_context: 32_768,
        ..EngineConfig::default()
    };
    let cases = [
        Case {
            name: "default replica, chat",
            config: EngineConfig::default(),
            cost: small,
            requests: 100_000,
            tenants: 6,
            common: 400,
            own: (33, 125),
            output: (16, 32),
            rate: 8.0,
        },
        Case {
            name: "default replica, long answers",
            config: EngineConfig::default(),
            cost: small,
            requests: 50_000,
            tenants: 6,
            common: 400,
            own: (33, 125),
            output: (100, 300),
            rate: 3.5,
        },
        Case {
            name: "default replica, no cache",
            config: EngineConfig { prefix_cache: false, ..EngineConfig::default() },
            cost: small,
            requests: 50_000,
            tenants: 6,
            common: 400,
            own: (33, 125),
            output: (100, 300),
            rate: 2.0,
        },
        Case {
            name: "large GPU, long prompts",
            config: big,
            cost: large,
            requests: 50_000,
            tenants: 50,
            common: 2048,
            own: (200, 6000),
            output: (100, 500),
            rate: 5.0,
        },
    ];
    if !cfg!(debug_assertions) {
        let allocations = allocations_of_decode();
        assert_eq!(allocations, 0, "decode steps allocate");
    }
    let json = std::env::args().any(|argument| argument == "--json");
    for case in &cases {
        for (most, label) in [(1, "1"), (u32::MAX, "runs")] {
            let r = run(case, most);
            if json {
                let fields =
                    format!("\"case\":\"{}\",\"plans_at_once\":\"{label}\",\"steps_per_s\":{:.0}", r.name, r.steps);
                println!("{{{fields},\"plans_per_s\":{:.0},\"requests_per_s\":{:.0}}}", r.plans, r.requests);
            } else {
                let plans = if most == 1 { "single steps" } else { "runs of equal steps" };
                println!(
                    "engine, priced, {}, {plans}\t{:.2}\tM steps/s\t{:.2} M plans/s, {:.0} k requests/s, {:.1} M tokens/s, reuse {:.2}, {:.0} × real time",
                    r.name,
                    r.steps / 1e6,
                    r.plans / 1e6,
                    r.requests / 1e3,
                    r.tokens / 1e6,
                    r.reuse,
                    r.speed
                );
            }
        }
    }
}
