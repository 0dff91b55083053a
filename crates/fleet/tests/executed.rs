//! Fleets whose steps a driver executes.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

use crate::common::*;
use servelab_engine::random::mix;
use servelab_engine::{Nanos, StepOutput, StepPlan};
use servelab_fleet::{Fleet, FleetConfig, FleetError, Outcome, Poll, RequestRecord};
use servelab_spec::experiment::{EngineSpec, MultiTenantSpec, PolicySpec};
use std::collections::BTreeMap;

/// A model that is a function of a sequence's tokens alone, computed through slots as a transformer would: each slot remembers a
/// digest of everything up to its position, so a wrong block table or a stale block gives other tokens.
#[derive(Default)]
struct Digest {
    slots: BTreeMap<(u32, u32), u64>,
}

impl Digest {
    const BLOCK: u32 = 16;

    fn execute(&mut self, replica: u32, plan: &StepPlan) -> StepOutput {
        assert_eq!(plan.repeat, 1, "an executor gets single steps");
        // All writes before any read, as in the plan's contract; a token's digest needs its predecessor's, so position by position.
        let mut todo: Vec<(u32, usize, u32)> = Vec::new();
        for (at, item) in plan.items.iter().enumerate() {
            todo.extend((0..item.len).map(|offset| (item.start + offset, at, offset)));
        }
        todo.sort_unstable();
        for (position, at, offset) in todo {
            let item = &plan.items[at];
            let slot = |position| (replica, plan.slot(item, position, Self::BLOCK));
            let before = position.checked_sub(1).map_or(0, |before| self.slots[&slot(before)]);
            let token = plan.item_tokens(item)[offset as usize];
            self.slots.insert(slot(position), mix(before, u64::from(token) + 1));
        }
        let sampled = plan.items.iter().filter(|item| item.sample);
        let tokens = sampled
            .map(|item| {
                let last = item.start + item.len - 1;
                (self.slots[&(replica, plan.slot(item, last, Self::BLOCK))] % 256) as u32
            })
            .collect();
        StepOutput { tokens, seconds: None }
    }
}

/// What [`Digest`] writes after `prompt`.
fn continuation(prompt: &[u32], len: u32) -> Vec<u32> {
    let mut state = prompt.iter().fold(0, |state, &token| mix(state, u64::from(token) + 1));
    (0..len)
        .map(|_| {
            let token = (state % 256) as u32;
            state = mix(state, u64::from(token) + 1);
            token
        })
        .collect()
}

fn drive(fleet: &mut Fleet, mut execute: impl FnMut(u32, &StepPlan) -> StepOutput) -> Vec<RequestRecord> {
    let mut records = Vec::new();
    loop {
        match fleet.poll(Nanos::MAX, 50) {
            Poll::Execute { replica } => {
                assert_eq!(fleet.poll(Nanos::MAX, 50), Poll::Execute { replica }, "it waits");
                let output = execute(replica, fleet.plan(replica).unwrap());
                fleet.executed(replica, output).unwrap();
            }
            Poll::Paused => fleet.check().unwrap(),
            Poll::Done => break,
            Poll::Reached | Poll::Failed | Poll::Start { .. } => {
                unreachable!("nothing to reach, no script, nobody starts")
            }
        }
        fleet.take_ended(&mut |record| records.push(record.clone()));
    }
    fleet.take_ended(&mut |record| records.push(record.clone()));
    records
}

fn without_output(records: &[RequestRecord]) -> Vec<RequestRecord> {
    records.iter().map(|record| RequestRecord { output: Vec::new(), ..record.clone() }).collect()
}

/// Charged the same, an executed fleet and a priced one do the same to the nanosecond, and the exact figures hold in both.
#[test]
fn executed_and_priced_fleets_agree() {
    for policy in policies() {
        let spec = engine(EngineSpec::default());
        let mut priced = fleet(FleetConfig::priced(4, spec.clone(), cost()), book(), &policy);
        let expected = finish(&mut priced);
        let mut executed = fleet(FleetConfig::executed(4, spec, cost(), false), book(), &policy);
        let mut model = Digest::default();
        let records = drive(&mut executed, |replica, plan| model.execute(replica, plan));
        assert_eq!(without_output(&records), expected);
        assert_eq!(stats(&executed), stats(&priced));
        let source = book();
        for record in &records {
            let request = servelab_workload::Workload::request_again(&source, record.index).unwrap();
            let prompt = request.prompt.tokens.unwrap();
            assert_eq!(record.output, continuation(&prompt, record.output_tokens), "request {}", record.index);
        }
    }
}

/// Under pressure (preemption, eviction) tokens are still those of the sequence alone.
#[test]
fn tokens_do_not_depend_on_pressure() {
    let spec = engine(EngineSpec { blocks: 20, token_budget: 48, ..Default::default() });
    let sizes = MultiTenantSpec {
        requests: 60,
        system_min: 40,
        system_max: 60,
        output_min: 30,
        output_max: 60,
        ..Default::default()
    };
    let source = tenants(sizes, 8, 20.0);
    let mut fleet =
        fleet(FleetConfig::executed(2, spec, cost(), false), source.clone(), &PolicySpec::named("least_tokens"));
    let mut model = Digest::default();
    let records = drive(&mut fleet, |replica, plan| model.execute(replica, plan));
    let stats = stats(&fleet);
    assert!(stats.iter().all(|stats| stats.preemptions > 0 && stats.evictions > 0), "{stats:?}");
    assert_eq!(records.len(), 60);
    for record in &records {
        let request = servelab_workload::Workload::request_again(&source, record.index).unwrap();
        assert_eq!(record.outcome, Outcome::Finished);
        assert_eq!(record.output, continuation(&request.prompt.tokens.unwrap(), request.output_tokens));
    }
}

/// Measured seconds are charged only when asked for, each to its own replica.
#[test]
fn measured_time_is_charged_on_request() {
    let spec = engine(EngineSpec::default());
    let run = |measured| {
        let config = FleetConfig::executed(4, spec.clone(), cost(), measured);
        let mut fleet = fleet(config, book(), &PolicySpec::named("round_robin"));
        let mut model = Digest::default();
        let mut steps = [0u64; 4];
        drive(&mut fleet, |replica, plan| {
            steps[replica as usize] += 1;
            StepOutput { seconds: Some(0.25), ..model.execute(replica, plan) }
        });
        (stats(&fleet), steps)
    };
    let (charged, steps) = run(true);
    for (stats, steps) in charged.iter().zip(steps) {
        assert_eq!((stats.busy, stats.steps), (Nanos(steps * 250_000_000), steps));
    }
    let (fitted, _) = run(false);
    let mut priced = fleet(FleetConfig::priced(4, spec.clone(), cost()), book(), &PolicySpec::named("round_robin"));
    finish(&mut priced);
    assert_eq!(fitted, stats(&priced));
}

/// The device is lost with steps in flight: its content is gone, yet every request ends with the tokens it would have had.
#[test]
fn a_lost_device_costs_time_and_nothing_else() {
    for lose_at in [0, 1, 7, 23, 60] {
        let mut fleet = fleet(
            FleetConfig::executed(3, engine(EngineSpec::default()), cost(), false),
            book(),
            &PolicySpec::named("prefix_affinity"),
        );
        let mut model = Digest::default();
        let mut records = Vec::new();
        let mut executed = 0;
        loop {
            match fleet.poll(Nanos::MAX, u32::MAX) {
                Poll::Execute { .. } if executed == lose_at => {
                    // Everything in memory is gone, and the step out for execution never happened.
                    fleet.device_lost();
                    model = Digest::default();
                    executed += 1;
                    fleet.check().unwrap();
                }
                Poll::Execute { replica } => {
                    let output = model.execute(replica, fleet.plan(replica).unwrap());
                    fleet.executed(replica, output).unwrap();
                    executed += 1;
                }
                Poll::Done => break,
                other => unreachable!("{other:?}"),
            }
        }
        fleet.take_ended(&mut |record| records.push(record.clone()));
        assert_eq!(records.len(), 24);
        for record in &records {
            let request = servelab_workload::Workload::request_again(&book(), record.index).unwrap();
            assert_eq!(record.output, continuation(&request.prompt.tokens.unwrap(), request.output_tokens));
        }
    }
}

/// A fleet saved while a step is out asks for that step again.
#[test]
fn a_step_out_for_execution_survives_a_save() {
    let new = || {
        fleet(
            FleetConfig::executed(2, engine(EngineSpec::default()), cost(), false),
            book(),
            &PolicySpec::named("least_tokens"),
        )
    };
    let mut model = Digest::default();
    let expected = drive(&mut new(), |replica, plan| model.execute(replica, plan));
    let mut fleet = new();
    let mut model = Digest::default();
    let mut records = Vec::new();
    loop {
        match fleet.poll(Nanos::MAX, u32::MAX) {
            Poll::Execute { replica } => {
                let text = serde_json::to_string(&fleet.save()).unwrap();
                fleet = Fleet::restore(serde_json::from_str(&text).unwrap()).unwrap();
                let output = model.execute(replica, fleet.plan(replica).unwrap());
                fleet.executed(replica, output).unwrap();
            }
            Poll::Done => break,
            other => unreachable!("{other:?}"),
        }
    }
    fleet.take_ended(&mut |record| records.push(record.clone()));
    assert_eq!(records, expected);
}

#[test]
fn a_driver_that_speaks_out_of_turn_is_told() {
    let mut fleet = fleet(
        FleetConfig::executed(2, engine(EngineSpec::default()), cost(), false),
        book(),
        &PolicySpec::named("round_robin"),
    );
    assert_eq!(fleet.executed(0, StepOutput::default()), Err(FleetError::NotExecuting { replica: 0 }));
    assert_eq!(fleet.poll(Nanos(1), u32::MAX), Poll::Reached);
    assert!(fleet.plan(0).is_none());
    let Poll::Execute { replica } = fleet.poll(Nanos::MAX, u32::MAX) else { unreachable!("an arrival starts a step") };
    assert_eq!(
        fleet.executed(1 - replica, StepOutput::default()),
        Err(FleetError::NotExecuting { replica: 1 - replica })
    );
    assert!(
        matches!(fleet.executed(replica, StepOutput::default()), Err(FleetError::Commit { .. })),
        "a token is missing"
    );
    assert_eq!(fleet.executed(9, StepOutput::default()), Err(FleetError::NotExecuting { replica: 9 }));
    assert_eq!(fleet.poll(Nanos::MAX, u32::MAX), Poll::Execute { replica }, "it still waits");
    assert_eq!(fleet.output(0), Some(&[][..]));
}
