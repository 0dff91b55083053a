//! The engine against a second, deliberately naive one: same plans to the block, same events, over random runs.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, missing_docs)]

use crate::common::naive::{Item, Naive};
use crate::common::{Op, cases, configs, ops};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use servelab_engine::{Engine, EngineConfig, EngineStats, Nanos, SequenceId, StepOutput, StepPlan};

fn items(plan: &StepPlan) -> Vec<Item> {
    plan.items
        .iter()
        .map(|item| Item {
            id: item.sequence.0,
            start: item.start as usize,
            tokens: plan.item_tokens(item).to_vec(),
            table: plan.item_table(item).iter().map(|&block| block as usize).collect(),
            sample: item.sample,
            decode: item.decode,
        })
        .collect()
}

/// Few different tokens, so that generated text repeats between sequences; now and then end-of-text.
fn token(item: &Item) -> u32 {
    let sum = item.tokens.iter().fold(item.start as u32, |sum, token| sum.wrapping_mul(31) + token);
    if sum.is_multiple_of(23) { 257 } else { sum % 3 }
}

fn same(engine: &Engine, naive: &Naive) -> Result<(), TestCaseError> {
    let refs: Vec<u32> = engine.blocks().map(|block| block.refs).collect();
    let cached: Vec<bool> = engine.blocks().map(|block| block.cached).collect();
    prop_assert_eq!(refs, naive.refs());
    prop_assert_eq!(cached, naive.cached());
    let waiting: Vec<u64> = engine.waiting().map(|sequence| sequence.id.0).collect();
    let running: Vec<u64> = engine.running().map(|sequence| sequence.id.0).collect();
    prop_assert_eq!((waiting, running), naive.ids());
    let stats = engine.stats();
    prop_assert_eq!(stats.hit_tokens as usize, naive.hits);
    prop_assert_eq!(stats.evictions as u32, naive.evictions);
    prop_assert_eq!(stats.preemptions as u32, naive.preemptions);
    engine.check().map_err(|violation| TestCaseError::fail(violation.to_string()))
}

fn both(config: &EngineConfig, ops: &[Op]) -> Result<EngineStats, TestCaseError> {
    let mut engine = Engine::new(config.clone()).unwrap();
    let mut naive = Naive::new(config);
    let mut submitted = 0u64;
    let commit = |engine: &mut Engine, naive: &mut Naive, now: u64| {
        let tokens: Vec<u32> = naive.flight.iter().flatten().filter(|item| item.sample).map(token).collect();
        let mut events = Vec::new();
        engine.commit(Nanos(now), &StepOutput { tokens: tokens.clone(), seconds: None }, &mut events).unwrap();
        prop_assert_eq!(events, naive.commit(&tokens));
        Ok(())
    };
    for (now, op) in ops.iter().enumerate() {
        let now = now as u64;
        match op {
            Op::Submit(wish) => {
                submitted += 1;
                let request = wish.request(submitted, config.block_tokens);
                let taken = engine.submit(Nanos(now), request.clone()).is_ok();
                prop_assert_eq!(taken, naive.submit(now, request));
            }
            Op::Cancel(which) => {
                let id = u64::from(*which) % (submitted + 1);
                prop_assert_eq!(engine.cancel(Nanos(now), SequenceId(id)), naive.cancel(id));
            }
            Op::Plan => prop_assert_eq!(engine.plan(Nanos(now), 9).map(items), naive.plan(now)),
            Op::Commit if naive.flight.is_some() => commit(&mut engine, &mut naive, now)?,
            Op::Commit => {
                let nothing = engine.commit(Nanos(now), &StepOutput::default(), &mut Vec::new());
                prop_assert!(nothing.is_err());
            }
            Op::Abort => {
                engine.abort();
                naive.abort();
            }
            Op::Restore => {
                engine = serde_json::from_str(&serde_json::to_string(&engine).unwrap()).unwrap();
            }
            Op::ForgetKv => {
                engine.forget_kv();
                naive.forget_kv();
            }
        }
        same(&engine, &naive)?;
    }
    // Whatever is left comes to an end, and soon: in every step the oldest sequence gains a token for good.
    let mut now = ops.len() as u64;
    let work: u32 = engine.waiting().chain(engine.running()).map(|seq| seq.prompt_tokens + seq.max_tokens).sum();
    let last = now + u64::from(work) + 1;
    if naive.flight.is_some() {
        commit(&mut engine, &mut naive, now)?;
    }
    while let Some(plan) = engine.plan(Nanos(now), 1) {
        prop_assert_eq!(Some(items(plan)), naive.plan(now));
        commit(&mut engine, &mut naive, now)?;
        same(&engine, &naive)?;
        now += 1;
        prop_assert!(now <= last, "no end in sight");
    }
    prop_assert!(engine.is_idle());
    prop_assert_eq!(engine.stats().used_blocks, 0);
    prop_assert_eq!(engine.stats().submitted, engine.stats().finished + engine.stats().cancelled);
    Ok(*engine.stats())
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn the_naive_engine_does_the_same(config in configs(true), ops in ops(120)) {
        both(&config, &ops)?;
    }
}

/// The comparison would be worth little if random runs were all plain sailing.
#[test]
fn random_runs_get_into_trouble() {
    let mut runner = TestRunner::deterministic();
    let mut runs = [0; 5];
    for _ in 0..400 {
        let (config, ops) = (configs(true), ops(120)).new_tree(&mut runner).unwrap().current();
        let stats = both(&config, &ops).unwrap();
        let seen = [stats.preemptions, stats.evictions, stats.hit_tokens, stats.cancelled, stats.refused];
        for (runs, seen) in runs.iter_mut().zip(seen) {
            *runs += u32::from(seen > 0);
        }
    }
    assert!(runs.iter().all(|&runs| runs >= 60), "preempted, evicted, hit, cancelled, refused: {runs:?} runs of 400");
}
