//! A model of paper: a slot holds a hash of all tokens up to its own. Whatever the scheduler does, every item must
//! find in its slots what its sequence says, and the text must be what the sequence alone would get.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, missing_docs)]

use crate::common::{Op, cases, configs, ops};
use proptest::prelude::*;
use servelab_engine::random::mix;
use servelab_engine::{Engine, EngineConfig, EngineEvent, Nanos, SequenceId, SequenceRequest, StepOutput, StepPlan};
use std::collections::BTreeMap;

fn hash(before: u64, token: u32) -> u64 {
    mix(before, u64::from(token))
}

/// The next token after a context: one of three, now and then end-of-text.
fn next(context: u64) -> u32 {
    if context.is_multiple_of(29) { 257 } else { (context % 3) as u32 }
}

/// What the request alone would get, without any engine.
fn alone(request: &SequenceRequest) -> Vec<u32> {
    let mut context = request.prompt.tokens.as_ref().unwrap().iter().fold(0, |before, &token| hash(before, token));
    let mut output = Vec::new();
    while output.len() < request.output_tokens as usize {
        let token = next(context);
        context = hash(context, token);
        output.push(token);
        if token == 257 && !request.ignore_eos {
            break;
        }
    }
    output
}

struct Paper {
    slots: Vec<u64>,
    block_tokens: u32,
    /// Σ over requests of the tokens computed.
    computed: u64,
}

impl Paper {
    /// As the executors must: all writes of the batch, then all reads. `broken`: the step stops half-way, and its
    /// slots hold anything.
    fn execute(
        &mut self,
        plan: &StepPlan,
        requests: &BTreeMap<u64, (SequenceRequest, Vec<u32>)>,
        broken: bool,
    ) -> Vec<u32> {
        let context_of = |item: &servelab_engine::PlanItem| -> Vec<u64> {
            let (request, output) = &requests[&item.sequence.0];
            let tokens = request.prompt.tokens.as_ref().unwrap().iter().chain(output);
            let chain = tokens.scan(0, |before, &token| {
                *before = hash(*before, token);
                Some(*before)
            });
            chain.take((item.start + item.len) as usize).collect()
        };
        for item in &plan.items {
            let (request, output) = &requests[&item.sequence.0];
            let known: Vec<u32> = request.prompt.tokens.as_ref().unwrap().iter().chain(output).copied().collect();
            let (from, to) = (item.start as usize, (item.start + item.len) as usize);
            assert_eq!(plan.item_tokens(item), &known[from..to], "token ids of the plan");
            assert_eq!(item.sample, to == known.len());
            assert_eq!(item.output_index as usize, output.len());
            for (position, &context) in context_of(item).iter().enumerate().skip(from) {
                let slot = plan.slot(item, position as u32, self.block_tokens) as usize;
                self.slots[slot] = if broken { 0xdead } else { context };
                self.computed += 1;
            }
        }
        if broken {
            return Vec::new();
        }
        let mut tokens = Vec::new();
        for item in &plan.items {
            let context = context_of(item);
            for (position, &context) in context.iter().enumerate() {
                let slot = plan.slot(item, position as u32, self.block_tokens) as usize;
                assert_eq!(self.slots[slot], context, "sequence {} position {position}", item.sequence.0);
            }
            if item.sample {
                tokens.push(next(*context.last().unwrap()));
            }
        }
        tokens
    }
}

fn serve(config: &EngineConfig, ops: &[Op]) -> Result<(), TestCaseError> {
    let mut engine = Engine::new(config.clone()).unwrap();
    let slots = vec![0; (config.blocks * config.block_tokens) as usize];
    let mut paper = Paper { slots, block_tokens: config.block_tokens, computed: 0 };
    let mut requests = BTreeMap::new();
    let mut finished = BTreeMap::new();
    let mut cancelled = 0;
    let mut now = 0;
    let mut commit =
        |engine: &mut Engine, paper: &mut Paper, requests: &mut BTreeMap<u64, (SequenceRequest, Vec<u32>)>, now| {
            let Some(plan) = engine.in_flight() else { return };
            let tokens = paper.execute(plan, requests, false);
            let mut sampled = plan.items.iter().filter(|item| item.sample).map(|item| item.sequence.0);
            let produced: Vec<(u64, u32)> = tokens.iter().map(|&token| (sampled.next().unwrap(), token)).collect();
            let mut events = Vec::new();
            engine.commit(Nanos(now), &StepOutput { tokens, seconds: None }, &mut events).unwrap();
            for (id, token) in produced {
                requests.get_mut(&id).unwrap().1.push(token);
            }
            for event in events {
                if let EngineEvent::Finished { id, output_tokens, .. } = event {
                    let output = engine.output(id).unwrap().to_vec();
                    assert_eq!(output.len(), output_tokens as usize);
                    assert!(finished.insert(id.0, output).is_none(), "finished twice");
                }
            }
        };
    for op in ops.iter().chain(std::iter::repeat_n(&Op::Plan, 1)) {
        now += 1;
        match op {
            Op::Submit(wish) => {
                let request = wish.request(now, config.block_tokens);
                if engine.submit(Nanos(now), request.clone()).is_ok() {
                    requests.insert(now, (request, Vec::new()));
                }
            }
            Op::Cancel(which) => {
                cancelled += u32::from(engine.cancel(Nanos(now), SequenceId(u64::from(*which))));
            }
            Op::Plan => drop(engine.plan(Nanos(now), 1)),
            Op::Commit => commit(&mut engine, &mut paper, &mut requests, now),
            Op::Abort => {
                if let Some(plan) = engine.in_flight() {
                    paper.execute(plan, &requests, true);
                }
                engine.abort();
            }
            Op::Restore => engine = serde_json::from_str(&serde_json::to_string(&engine).unwrap()).unwrap(),
            Op::ForgetKv => {
                paper.slots.fill(0xdead);
                engine.forget_kv();
            }
        }
    }
    while !engine.is_idle() {
        now += 1;
        commit(&mut engine, &mut paper, &mut requests, now);
        engine.plan(Nanos(now), 1);
    }
    prop_assert_eq!(finished.len() + cancelled as usize, requests.len());
    for (id, output) in finished {
        prop_assert_eq!(&output, &alone(&requests[&id].0), "text of sequence {}", id);
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn every_sequence_reads_its_own_context(config in configs(true), ops in ops(150)) {
        serve(&config, &ops)?;
    }
}
