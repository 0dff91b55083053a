//! Adapters in their slots: worked by hand.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, missing_docs)]

use servelab_engine::{
    CostModel, Engine, EngineConfig, EngineEvent, Nanos, Prompt, Sampling, SequenceId, SequenceRequest, StepOutput,
};

fn engine(slots: u32, max_batch: u32) -> Engine {
    let config = EngineConfig { block_tokens: 4, blocks: 64, max_batch, adapter_slots: slots, ..Default::default() };
    Engine::new(config).unwrap()
}

/// Sequence `id` with `output` tokens to come and an adapter; every prompt differs.
fn submit(engine: &mut Engine, id: u32, adapter: Option<u32>, output: u32) {
    let tokens: Vec<u32> = (0..6).map(|at| id * 10 + at).collect();
    let request = SequenceRequest {
        id: SequenceId(id.into()),
        prompt: Prompt::from_tokens(&tokens, 4, u64::from(adapter.map_or(0, |adapter| adapter + 1))),
        max_tokens: output,
        output_tokens: output,
        ignore_eos: true,
        sampling: Sampling::default(),
        adapter,
        tenant: id,
        output_seed: id.into(),
    };
    engine.submit(Nanos::ZERO, request).unwrap();
}

/// One step (or a run of equal ones): who is in it, and how many adapters it loads.
fn step(engine: &mut Engine, most: u32) -> (Vec<u64>, u64) {
    let plan = engine.plan(Nanos::ZERO, most).unwrap();
    let told = (plan.items.iter().map(|item| item.sequence.0).collect(), plan.work.adapter_loads);
    let mut events: Vec<EngineEvent> = Vec::new();
    engine.commit(Nanos::ZERO, &StepOutput::default(), &mut events).unwrap();
    told
}

#[test]
fn an_adapter_is_loaded_once_and_the_one_used_longest_ago_makes_room() {
    let mut engine = engine(2, 4);
    submit(&mut engine, 1, Some(7), 1);
    assert_eq!(step(&mut engine, 1), (vec![1], 1));
    submit(&mut engine, 2, Some(8), 1);
    submit(&mut engine, 3, Some(7), 1);
    assert_eq!(step(&mut engine, 1), (vec![2, 3], 1), "7 is there");
    assert_eq!(engine.adapters(), [8, 7], "7 was used last");
    submit(&mut engine, 4, Some(9), 1);
    assert_eq!(step(&mut engine, 1), (vec![4], 1));
    assert_eq!(engine.adapters(), [7, 9]);
    submit(&mut engine, 5, None, 1);
    assert_eq!(step(&mut engine, 1), (vec![5], 0), "none is needed");
    assert_eq!(engine.stats().adapter_loads, 3);
}

#[test]
fn who_needs_a_slot_waits_until_one_is_idle_and_others_pass() {
    let mut engine = engine(1, 4);
    submit(&mut engine, 1, Some(7), 3);
    submit(&mut engine, 2, Some(8), 1);
    submit(&mut engine, 3, Some(7), 1);
    submit(&mut engine, 4, None, 1);
    assert_eq!(step(&mut engine, 1), (vec![1, 3, 4], 1), "2 would need the slot of 1");
    assert_eq!(step(&mut engine, 1), (vec![1], 0));
    assert_eq!(step(&mut engine, 1), (vec![1], 0));
    assert_eq!(step(&mut engine, 1), (vec![2], 1));
    assert_eq!(engine.adapters(), [8]);
    assert!(engine.is_idle());
}

/// While somebody waits for a slot, a run of equal steps goes on; a newcomer that needs no slot may enter, so it interrupts.
#[test]
fn a_newcomer_may_pass_who_waits_for_a_slot() {
    let mut engine = engine(1, 4);
    submit(&mut engine, 1, Some(7), 9);
    submit(&mut engine, 2, Some(8), 1);
    step(&mut engine, 1);
    assert!(engine.plan(Nanos::ZERO, 100).unwrap().repeat > 1);
    assert!(engine.arrival_interrupts());
    engine.truncate(1);
    submit(&mut engine, 3, None, 1);
    engine.commit(Nanos::ZERO, &StepOutput::default(), &mut Vec::new()).unwrap();
    assert_eq!(step(&mut engine, 1), (vec![1, 3], 0));
}

#[test]
fn an_aborted_step_loaded_nothing() {
    let mut engine = engine(2, 4);
    submit(&mut engine, 1, Some(7), 2);
    engine.plan(Nanos::ZERO, 1).unwrap();
    assert_eq!(engine.adapters(), [7]);
    engine.abort();
    assert_eq!((engine.adapters(), engine.stats().adapter_loads), (&[][..], 0));
    assert_eq!(step(&mut engine, 1), (vec![1], 1));
    engine.forget_kv();
    assert_eq!(step(&mut engine, 1), (vec![1], 1), "a lost device loses its adapters too");
}

#[test]
fn loading_is_charged_to_the_step() {
    let cost = CostModel { step: 10, adapter_load: 1000, ..CostModel::default() };
    let mut engine = engine(4, 4);
    submit(&mut engine, 1, Some(7), 1);
    submit(&mut engine, 2, Some(8), 1);
    let work = engine.plan(Nanos::ZERO, 1).unwrap().work;
    assert_eq!(cost.step(&work).0, 2010);
    assert_eq!(cost.scaled(3.0).step(&work).0, 6030);
}

#[test]
fn without_slots_adapters_cost_nothing() {
    let mut engine = engine(0, 4);
    submit(&mut engine, 1, Some(7), 1);
    submit(&mut engine, 2, Some(8), 1);
    assert_eq!(step(&mut engine, 1), (vec![1, 2], 0));
}
