//! A fleet that is listened to does what it would have done, and what is heard is what it counts.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

use crate::common::*;
use servelab_engine::Nanos;
use servelab_fleet::fleet::{Ending, Heard};
use servelab_fleet::{Fleet, FleetConfig, Poll, RequestRecord};
use servelab_spec::experiment::{EngineSpec, MultiTenantSpec, PolicySpec};

fn build(max_repeat: u32) -> Fleet {
    let spec = EngineSpec { blocks: 40, max_batch: 6, max_context: 160, token_budget: 64, ..Default::default() };
    let sizes = MultiTenantSpec {
        requests: 120,
        tenants: 5,
        system_min: 10,
        system_max: 90,
        output_min: 1,
        output_max: 30,
        ..Default::default()
    };
    let config = FleetConfig { max_repeat, ..FleetConfig::priced(3, engine(spec), cost()) };
    fleet(config, tenants(sizes, 5, 30.0), &PolicySpec::named("least_tokens"))
}

fn run(fleet: &mut Fleet) -> (Vec<RequestRecord>, Heard) {
    let (mut records, mut heard) = (Vec::new(), Heard::default());
    loop {
        let poll = fleet.poll(Nanos::MAX, 7);
        fleet.take_ended(&mut |record| records.push(record.clone()));
        let more = if poll == Poll::Done { fleet.heard_last() } else { fleet.heard() };
        heard.steps.extend(more.steps);
        heard.attempts.extend(more.attempts);
        if poll == Poll::Done {
            return (records, heard);
        }
    }
}

#[test]
fn listening_changes_nothing_and_hears_everything() {
    let (unheard, nothing) = run(&mut build(1));
    assert_eq!(nothing, Heard::default());
    let mut steps = Vec::new();
    for max_repeat in [1, 64] {
        let mut fleet = build(max_repeat);
        fleet.listen();
        let (records, heard) = run(&mut fleet);
        assert_eq!(records, unheard);
        for (at, stats) in (0u32..).zip(fleet.replica_stats()) {
            let of: Vec<_> = heard.steps.iter().filter(|step| step.replica == at).collect();
            assert_eq!(of.len() as u64, stats.steps);
            assert_eq!(of.iter().map(|step| step.end.since(step.start).0).sum::<u64>(), stats.busy.0);
            assert!(of.windows(2).all(|pair| pair[0].end <= pair[1].start));
        }
        assert_eq!(heard.attempts.len(), records.len());
        for (attempt, record) in heard.attempts.iter().zip(&records) {
            assert_eq!((attempt.request, attempt.end), (record.index, record.end));
            assert_eq!((attempt.offered, attempt.admitted), (record.arrival, record.admitted));
            assert_eq!((attempt.first_token, attempt.output_tokens), (record.first_token, record.output_tokens));
            assert_eq!((attempt.number, attempt.ending), (1, Ending::Finished));
        }
        let mut of_this = heard.steps;
        of_this.sort_by_key(|step| (step.replica, step.start));
        steps.push(of_this);
    }
    let spans = |steps: &[servelab_fleet::fleet::StepHeard]| -> Vec<_> {
        steps.iter().map(|step| (step.replica, step.start, step.end)).collect()
    };
    assert_eq!(spans(&steps[0]), spans(&steps[1]), "runs of equal steps are told step by step");
}
