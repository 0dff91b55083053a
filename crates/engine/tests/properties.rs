//! Properties of whole runs of a priced replica: what every request, the clock and a saved state can rely on.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, missing_docs)]

use crate::common::{Op, Wish, cases, configs, ops};
use proptest::prelude::*;
use servelab_engine::{CostClock, CostModel, Engine, EngineConfig, EngineEvent, Nanos, SequenceId, StepOutput};
use std::collections::BTreeMap;

const COST: CostModel = CostModel {
    step: 1_000_300,
    prefill_token: 20_007,
    prefill_context: 11,
    decode_sequence: 50_001,
    decode_context: 13,
    adapter_load: 0,
};

/// What became of a request.
#[derive(Clone, Debug, Default, PartialEq)]
struct Life {
    arrived: Nanos,
    output: u32,
    admitted: Vec<(Nanos, bool)>,
    first: Option<Nanos>,
    tokens: u32,
    finished: Option<Nanos>,
    cancelled: bool,
}

/// A replica on its own clock, driven by a list of operations: each `Plan` plans and prices, each `Commit` commits.
struct Replica {
    engine: Engine,
    clock: CostClock,
    now: Nanos,
    lives: BTreeMap<u64, Life>,
    events: Vec<EngineEvent>,
}

impl Replica {
    fn new(config: &EngineConfig) -> Self {
        Replica {
            engine: Engine::new(config.clone()).unwrap(),
            clock: CostClock::default(),
            now: Nanos::ZERO,
            lives: BTreeMap::new(),
            events: Vec::new(),
        }
    }

    fn commit(&mut self) {
        let Some(plan) = self.engine.in_flight() else { return };
        self.now += self.clock.charge(COST.run(&plan.work, plan.repeat));
        let mut events = Vec::new();
        self.engine.commit(self.now, &StepOutput::default(), &mut events).unwrap();
        for event in &events {
            match *event {
                EngineEvent::Admitted { id, at, first, queued, .. } => {
                    let life = self.lives.get_mut(&id.0).unwrap();
                    assert_eq!(queued, at - life.arrived);
                    life.admitted.push((at, first));
                }
                EngineEvent::FirstToken { id } => {
                    assert_eq!(self.lives.get_mut(&id.0).unwrap().first.replace(self.now), None, "first token twice");
                }
                EngineEvent::Tokens { id, count } => self.lives.get_mut(&id.0).unwrap().tokens += count,
                EngineEvent::Finished { id, output_tokens, .. } => {
                    let life = self.lives.get_mut(&id.0).unwrap();
                    assert_eq!(life.tokens, output_tokens);
                    assert_eq!(life.finished.replace(self.now), None, "finished twice");
                }
                EngineEvent::Preempted { .. } | EngineEvent::Evicted { .. } | EngineEvent::Expired { .. } => {}
            }
        }
        self.events.extend(events);
    }

    fn apply(&mut self, op: &Op, id: u64, repeat: u32) {
        let block_tokens = self.engine.config().block_tokens;
        match op {
            Op::Submit(wish) => {
                if self.engine.submit(self.now, wish.key_request(id, block_tokens)).is_ok() {
                    let life = Life { arrived: self.now, output: wish.output, ..Life::default() };
                    assert!(self.lives.insert(id, life).is_none());
                }
            }
            Op::Cancel(which) => {
                let id = u64::from(*which);
                if self.engine.cancel(self.now, SequenceId(id)) {
                    let life = self.lives.get_mut(&id).unwrap();
                    assert!(life.finished.is_none() && !life.cancelled, "cancelled after its end");
                    life.cancelled = true;
                }
            }
            Op::Plan => {
                let idle = self.engine.waiting().len() + self.engine.running().len() == 0;
                let flying = self.engine.in_flight().is_some();
                let planned = self.engine.plan(self.now, repeat).is_some();
                assert_eq!(planned, !idle && !flying, "idle beside work");
            }
            Op::Commit => self.commit(),
            Op::Abort => self.engine.abort(),
            Op::Restore => self.engine = restored(&self.engine),
            Op::ForgetKv => self.engine.forget_kv(),
        }
    }

    fn drain(&mut self, repeat: u32) {
        while !self.engine.is_idle() {
            self.apply(&Op::Plan, 0, repeat);
            self.commit();
        }
    }
}

fn restored(engine: &Engine) -> Engine {
    serde_json::from_str(&serde_json::to_string(engine).unwrap()).unwrap()
}

proptest! {
    #![proptest_config(cases(800))]

    /// Ends exactly once, with its own length; first token after admission, and the end not before it.
    #[test]
    fn every_request_ends_exactly_once(config in configs(false), ops in ops(150), repeat in 1u32..30) {
        let mut replica = Replica::new(&config);
        for (id, op) in ops.iter().enumerate() {
            let before = replica.now;
            replica.apply(op, id as u64, repeat);
            prop_assert!(replica.now >= before);
        }
        replica.drain(repeat);
        let mut reused = 0;
        for life in replica.lives.values() {
            prop_assert!(life.finished.is_some() != life.cancelled);
            prop_assert_eq!(life.admitted.iter().filter(|admission| admission.1).count() <= 1, true);
            if let Some(finished) = life.finished {
                let (admitted, first) = life.admitted[0];
                prop_assert!(first);
                let first_token = life.first.unwrap();
                prop_assert!(life.arrived <= admitted && admitted < first_token && first_token <= finished);
                prop_assert_eq!(life.tokens, life.output);
                reused += 1;
            }
        }
        let stats = replica.engine.stats();
        prop_assert_eq!(stats.finished, reused);
        prop_assert_eq!(stats.submitted as usize, replica.lives.len());
        prop_assert_eq!((stats.used_blocks, stats.waiting, stats.running), (0, 0, 0));
        let tokens: u32 = replica.lives.values().map(|life| life.tokens).sum();
        prop_assert_eq!(stats.generated_tokens, u64::from(tokens));
        prop_assert!(stats.peak_used_blocks <= config.blocks && stats.peak_running <= config.max_batch);
    }

    /// A run saved and restored at any point goes on as if nothing had been: same events, same bytes.
    #[test]
    fn a_restored_engine_goes_on_the_same(
        config in configs(false), ops in ops(100), at in any::<prop::sample::Index>(), repeat in 1u32..30,
    ) {
        let mut kept = Replica::new(&config);
        let at = at.index(ops.len());
        let mut other = None;
        for (id, op) in ops.iter().enumerate() {
            if id == at {
                let engine = restored(&kept.engine);
                let (clock, now, lives, events) = (kept.clock, kept.now, kept.lives.clone(), kept.events.clone());
                other = Some(Replica { engine, clock, now, lives, events });
            }
            kept.apply(op, id as u64, repeat);
            if let Some(other) = &mut other {
                other.apply(op, id as u64, repeat);
            }
        }
        let mut other = other.unwrap();
        kept.drain(repeat);
        other.drain(repeat);
        prop_assert_eq!(kept.events, other.events);
        let bytes = |engine: &Engine| serde_json::to_string(engine).unwrap();
        prop_assert_eq!(bytes(&kept.engine), bytes(&other.engine));
    }

    /// A damaged state is an error or a sound engine, never a panic.
    #[test]
    fn a_damaged_state_does_not_get_in(
        config in configs(false), ops in ops(60), at in any::<prop::sample::Index>(), value in 0u64..40,
    ) {
        let mut replica = Replica::new(&config);
        for (id, op) in ops.iter().enumerate() {
            replica.apply(op, id as u64, 3);
        }
        let mut state = serde_json::to_value(&replica.engine).unwrap();
        let value = if value < 30 { value } else { u64::MAX >> ((value - 30) * 6) };
        let mut numbers = Vec::new();
        each_number(&mut state, &mut |_| numbers.push(()));
        let target = at.index(numbers.len());
        let mut index = 0;
        each_number(&mut state, &mut |number| {
            if index == target {
                *number = value.into();
            }
            index += 1;
        });
        if let Ok(engine) = serde_json::from_value::<Engine>(state) {
            prop_assert_eq!(engine.check(), Ok(()));
        }
    }

    /// Without eviction and preemption, reuse does not depend on timing: after a group's first request every other
    /// one finds all full blocks of the common beginning, whether it comes at once or much later.
    #[test]
    fn hits_do_not_depend_on_timing(
        arrivals in prop::collection::vec((0u32..4, 0u64..60_000), 1..24),
        commons in prop::collection::vec(16u32..200, 4),
        budget in 8u32..300,
        chunked_prefill in any::<bool>(),
    ) {
        let config = EngineConfig {
            blocks: 1024, token_budget: budget, chunked_prefill, prefix_cache: true, ..EngineConfig::default()
        };
        let mut replica = Replica::new(&config);
        let mut expected = 0;
        let mut seen = [false; 4];
        for (id, &(group, gap)) in arrivals.iter().enumerate() {
            // Commits what ends before the arrival, then lets it in beside the step in flight.
            let arrival = replica.now + Nanos(gap);
            loop {
                replica.apply(&Op::Plan, 0, 1);
                let Some(plan) = replica.engine.in_flight() else { break };
                if replica.now + replica.clock.preview(COST.run(&plan.work, 1)) > arrival {
                    break;
                }
                replica.commit();
            }
            let common = commons[group as usize];
            let wish = Wish { group, common, own: 20, variant: id as u32, output: 6, spare: 0, ignore_eos: true };
            replica.apply(&Op::Submit(wish), id as u64, 1);
            if std::mem::replace(&mut seen[group as usize], true) {
                expected += u64::from(common / 16 * 16);
            }
        }
        replica.drain(1);
        prop_assert_eq!(replica.engine.stats().hit_tokens, expected);
        prop_assert_eq!(replica.engine.stats().evictions + replica.engine.stats().preemptions, 0);
    }
}

fn each_number(value: &mut serde_json::Value, act: &mut impl FnMut(&mut serde_json::Value)) {
    match value {
        serde_json::Value::Number(_) => act(value),
        serde_json::Value::Array(items) => items.iter_mut().for_each(|item| each_number(item, act)),
        serde_json::Value::Object(fields) => fields.values_mut().for_each(|field| each_number(field, act)),
        _ => {}
    }
}
