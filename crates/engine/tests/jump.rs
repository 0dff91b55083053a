//! A run of equal steps is the same as its steps one by one: state, events and clock, wherever it is interrupted.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, missing_docs)]

use crate::common::{Wish, cases, configs, wishes};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use servelab_engine::{
    CostClock, CostModel, Engine, EngineConfig, EngineEvent, Nanos, QueueConfig, SequenceId, StepOutput, StepWork,
};

#[derive(Clone, Debug)]
enum Outside {
    /// A request, and what is fetched for it: blocks of its prompt, and how long that takes.
    Submit(Wish, Option<(u32, u64)>),
    Cancel(u8),
    Abort,
    /// Interrupts whatever runs, and nothing else.
    Nudge,
}

fn outside() -> impl Strategy<Value = Vec<(u64, Outside)>> {
    let event = prop_oneof![
        5 => (wishes(), prop::option::of((1u32..6, 0u64..60_000))).prop_map(|(wish, fetch)| Outside::Submit(wish, fetch)),
        1 => any::<u8>().prop_map(Outside::Cancel),
        1 => Just(Outside::Abort),
        1 => Just(Outside::Nudge),
    ];
    let gap = prop_oneof![Just(0u64), 0u64..3_000, 0u64..40_000];
    prop::collection::vec((gap, event), 1..40)
}

/// A priced replica: one engine, its clock, and what it does about outside events.
struct Driver {
    engine: Engine,
    cost: CostModel,
    clock: CostClock,
    /// Start, work and length of what is in flight, as the driver was told.
    flight: Option<(Nanos, StepWork, u32)>,
    now: Nanos,
    /// When, and what; tokens apart.
    log: Vec<(Nanos, EngineEvent)>,
    /// Tokens of each sequence.
    tokens: Vec<u32>,
    evicted: u32,
    plans: u32,
}

impl Driver {
    fn new(config: &EngineConfig, cost: CostModel) -> Self {
        Driver {
            engine: Engine::new(config.clone()).unwrap(),
            cost,
            clock: CostClock::default(),
            flight: None,
            now: Nanos::ZERO,
            log: Vec::new(),
            tokens: Vec::new(),
            evicted: 0,
            plans: 0,
        }
    }

    fn end(&self) -> Option<Nanos> {
        self.flight.map(|(start, work, repeat)| start + self.clock.preview(self.cost.run(&work, repeat)))
    }

    fn note(&mut self, events: Vec<EngineEvent>) {
        for event in events {
            match event {
                EngineEvent::Tokens { id, count } => {
                    let index = id.0 as usize;
                    self.tokens.resize(self.tokens.len().max(index + 1), 0);
                    self.tokens[index] += count;
                }
                EngineEvent::Evicted { blocks } => self.evicted += blocks,
                // What was decided with the first step of a run is told at its end.
                EngineEvent::Preempted { .. } | EngineEvent::Admitted { .. } => {
                    self.log.push((Nanos::ZERO, event));
                }
                event => self.log.push((self.now, event)),
            }
        }
    }

    /// Plans and commits until `until`; steps that end at that very instant are left in flight.
    fn run(&mut self, until: Nanos, mut most: impl FnMut() -> u32) {
        loop {
            if self.flight.is_none() {
                let mut events = Vec::new();
                self.engine.expire(self.now, &mut events);
                self.note(events);
                let Some(plan) = self.engine.plan(self.now, most()) else {
                    let next = self.engine.next_fetch().into_iter().chain(self.engine.next_expiry()).min();
                    let Some(next) = next.filter(|&next| next < until) else { return };
                    self.now = next;
                    continue;
                };
                self.flight = Some((self.now, plan.work, plan.repeat));
                self.plans += 1;
                if self.engine.fetch_interrupts()
                    && let Some(next) = self.engine.next_fetch()
                {
                    self.interrupt(next);
                }
                self.cut_at_expiry();
            }
            let end = self.end().unwrap();
            if end >= until {
                return;
            }
            self.commit();
        }
    }

    fn commit(&mut self) {
        self.now = self.end().unwrap();
        let (_, work, repeat) = self.flight.take().unwrap();
        self.clock.charge(self.cost.run(&work, repeat));
        let mut events = Vec::new();
        self.engine.commit(self.now, &StepOutput::default(), &mut events).unwrap();
        self.note(events);
    }

    /// What the steps before an abort told, when no commit came after it to deliver that.
    fn drain(&mut self) {
        let mut events = Vec::new();
        self.engine.drain_events(&mut events);
        self.note(events);
    }

    /// Whoever has waited too long is dropped at the first step boundary after that.
    fn cut_at_expiry(&mut self) {
        if let Some(next) = self.engine.next_expiry() {
            self.interrupt(next);
        }
    }

    /// The step in progress at `at` becomes the run's last.
    fn interrupt(&mut self, at: Nanos) {
        if let Some((start, work, repeat)) = &mut self.flight {
            *repeat = self.cost.steps_begun(work, *repeat, &self.clock, at.since(*start));
            self.engine.truncate(*repeat);
        }
    }

    fn happen(&mut self, at: Nanos, event: &Outside, id: u64, lazily: bool) -> bool {
        let block_tokens = self.engine.config().block_tokens;
        let idle = self.flight.is_none();
        let mut taken = false;
        match event {
            Outside::Submit(wish, fetch) => {
                if !lazily || self.engine.arrival_interrupts() {
                    self.interrupt(at);
                }
                taken = self.engine.submit(at, wish.key_request(id, block_tokens)).is_ok();
                self.cut_at_expiry();
                if let Some((blocks, delay)) = fetch.filter(|_| taken) {
                    let until = at + Nanos(delay);
                    taken = self.engine.fetch(SequenceId(id), 0, blocks * block_tokens, until);
                }
            }
            Outside::Cancel(which) => {
                self.interrupt(at);
                taken = self.engine.cancel(at, SequenceId(u64::from(*which) % (id + 1)));
            }
            Outside::Abort => {
                self.interrupt(at);
                if let Some((_, work, repeat)) = self.flight.take() {
                    self.now = at;
                    self.clock.charge(if repeat > 1 { self.cost.run(&work, repeat - 1) } else { Default::default() });
                    self.engine.abort();
                }
            }
            Outside::Nudge => self.interrupt(at),
        }
        if idle {
            self.now = at;
        }
        taken
    }

    /// The engine's state as if the step in progress were aborted now; without the time of its last call.
    fn state(&self) -> serde_json::Value {
        let mut engine = self.engine.clone();
        engine.abort();
        engine.drain_events(&mut Vec::new());
        let mut state = serde_json::to_value(&engine).unwrap();
        // What is in flight, once the steps before it are counted as done.
        let mut split = self.engine.clone();
        split.split_run(u32::MAX);
        state["in_flight"] = serde_json::to_value(split.in_flight()).unwrap();
        state.as_object_mut().unwrap().remove("now").unwrap();
        state
    }
}

/// Compares field by field, so that a difference can be read.
fn same(single: &serde_json::Value, jumping: &serde_json::Value) -> Result<(), TestCaseError> {
    for (field, value) in single.as_object().unwrap() {
        prop_assert_eq!(value, &jumping[field], "{}", field);
    }
    Ok(())
}

/// Steps planned one by one, and planned as runs.
fn compare(
    config: &EngineConfig,
    cost: CostModel,
    outside: &[(u64, Outside)],
    lengths: &[u32],
) -> Result<(u32, u32), TestCaseError> {
    let mut single = Driver::new(config, cost);
    let mut jumping = Driver::new(config, cost);
    let mut lengths = lengths.iter().copied().cycle();
    let mut at = Nanos::ZERO;
    for (id, (gap, event)) in outside.iter().enumerate() {
        at += Nanos(*gap);
        single.run(at, || 1);
        jumping.run(at, || lengths.next().unwrap());
        let lazily = id % 2 == 1;
        let taken = single.happen(at, event, id as u64, false);
        prop_assert_eq!(taken, jumping.happen(at, event, id as u64, lazily));
        if !lazily {
            same(&single.state(), &jumping.state())?;
        }
    }
    single.run(Nanos::MAX, || 1);
    jumping.run(Nanos::MAX, || lengths.next().unwrap());
    single.drain();
    jumping.drain();
    prop_assert!(single.engine.is_idle());
    prop_assert_eq!(&single.log, &jumping.log);
    prop_assert_eq!(&single.tokens, &jumping.tokens);
    prop_assert_eq!(single.evicted, jumping.evicted);
    prop_assert_eq!(u64::from(single.evicted), single.engine.stats().evictions);
    prop_assert_eq!((single.now, single.clock), (jumping.now, jumping.clock));
    same(&single.state(), &jumping.state())?;
    Ok((single.plans, jumping.plans))
}

fn costs() -> impl Strategy<Value = CostModel> {
    (0u64..900_000, 0u64..9_000, 0u64..900, 0u64..90_000, 0u64..9_000).prop_map(|(a, b, c, d, e)| CostModel {
        step: a,
        prefill_token: b,
        prefill_context: c,
        decode_sequence: d,
        decode_context: e,
        adapter_load: 0,
    })
}

/// Queues without limits, and queues with all of them.
fn queues() -> impl Strategy<Value = QueueConfig> {
    let limits = (0u32..5, any::<bool>(), 0u32..60, 0u64..60_000, 0u64..40_000);
    prop::option::of(limits).prop_map(|limits| {
        let Some((max_requests, count_running, max_tokens, ttl, max_wait)) = limits else {
            return QueueConfig::default();
        };
        QueueConfig { max_requests, count_running, max_tokens, ttl: Nanos(ttl), max_wait: Nanos(max_wait) }
    })
}

fn lengths() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(prop_oneof![1u32..4, 1u32..40], 1..8)
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn runs_equal_single_steps(
        config in configs(false), queue in queues(), cost in costs(), outside in outside(), lengths in lengths(),
    ) {
        let config = EngineConfig { queue, ..config };
        compare(&config, cost, &outside, &lengths)?;
    }
}

/// A run's finished steps count although its only sequence was cancelled and its last step aborted.
#[test]
fn a_cancelled_and_aborted_run_tells_its_finished_steps() {
    let mut engine = Engine::new(EngineConfig { max_context: 512, ..EngineConfig::default() }).unwrap();
    let wish = Wish { group: 0, common: 0, own: 20, variant: 0, output: 50, spare: 0, ignore_eos: true };
    engine.submit(Nanos::ZERO, wish.request(1, 16)).unwrap();
    let mut events = Vec::new();
    engine.plan(Nanos::ZERO, u32::MAX).unwrap();
    engine.commit(Nanos::ZERO, &StepOutput::default(), &mut events).unwrap();
    assert_eq!(engine.plan(Nanos::ZERO, 10).unwrap().repeat, 10);
    engine.truncate(4);
    assert!(engine.cancel(Nanos::ZERO, SequenceId(1)));
    engine.abort();
    assert!(engine.is_idle());
    events.clear();
    engine.drain_events(&mut events);
    assert!(events.contains(&EngineEvent::Tokens { id: SequenceId(1), count: 3 }), "{events:?}");
}

/// The comparison would be worth little if runs were rare.
#[test]
fn runs_are_taken() {
    let mut runner = TestRunner::deterministic();
    let (mut single, mut jumping) = (0, 0);
    for _ in 0..200 {
        let (config, cost, outside) = (configs(false), costs(), outside()).new_tree(&mut runner).unwrap().current();
        let plans = compare(&config, cost, &outside, &[1000]).unwrap();
        single += plans.0;
        jumping += plans.1;
    }
    assert!(jumping * 3 < single * 2, "{jumping} plans instead of {single}");
}

/// One sequence in an empty pool: prefill, then a single run to its end across twelve block allocations.
#[test]
fn a_run_crosses_block_allocations() {
    let config = EngineConfig { max_context: 512, ..EngineConfig::default() };
    let mut engine = Engine::new(config).unwrap();
    let wish = Wish { group: 0, common: 0, own: 20, variant: 0, output: 200, spare: 0, ignore_eos: true };
    engine.submit(Nanos::ZERO, wish.request(1, 16)).unwrap();
    let mut events = Vec::new();
    assert_eq!(engine.plan(Nanos::ZERO, u32::MAX).unwrap().repeat, 1);
    engine.commit(Nanos::ZERO, &StepOutput::default(), &mut events).unwrap();
    assert_eq!(engine.plan(Nanos::ZERO, u32::MAX).unwrap().repeat, 199);
    engine.commit(Nanos::ZERO, &StepOutput::default(), &mut events).unwrap();
    assert!(engine.is_idle());
    // 20 + 199 tokens were computed: 14 blocks, 13 of them full and cached.
    assert_eq!(engine.stats().peak_used_blocks, 14);
    assert_eq!(engine.stats().reusable_blocks, 13);
    assert_eq!(engine.stats().steps, 200);
}
