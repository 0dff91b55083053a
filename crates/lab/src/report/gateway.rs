//! What gateway and queues turned away or held.

use super::Numbers;
use crate::admission;
use crate::session::Run;
use crate::stats::quantiles;
use servelab_fleet::RequestRecord;
use servelab_fleet::gateway::{ClassConfig, class_of};
use servelab_fleet::record::{Refusal, RefusedBy};
use servelab_spec::experiment::Spec;
use servelab_spec::report::{ClassReport, GatewayReport, Quantiles, RefusalReport};

/// Of a run with a gateway.
pub(super) fn report(spec: &Spec, run: &Run, duration_s: f64) -> Option<GatewayReport> {
    if !spec.gateway.on {
        return None;
    }
    let classes = admission::classes(&spec.gateway);
    let held = |records: &mut dyn Iterator<Item = &RequestRecord>| -> Quantiles {
        quantiles(records.map(|record| record.held.as_secs()).collect())
    };
    let of_class = |at: usize| {
        let of = |record: &&RequestRecord| class_of(&classes, record.tenant) == at;
        run.records.iter().filter(of).collect::<Vec<_>>()
    };
    let report = |(at, class): (usize, &ClassConfig)| {
        let tally = run.ledger.classes.get(at)?;
        let records = if run.keeps { of_class(at) } else { Vec::new() };
        let numbers = match run.keeps {
            true => Numbers::of(&records, &spec.slo, records.len() as u64, duration_s),
            false => Numbers::tallied(tally, tally.ended(), duration_s),
        };
        Some(ClassReport {
            name: class.name.clone(),
            requests: numbers.requests,
            ttft_s: numbers.ttft_s,
            held_s: match run.keeps {
                true => held(&mut records.into_iter()),
                false => tally.held.quantiles(),
            },
            goodput: numbers.goodput,
        })
    };
    Some(GatewayReport {
        held_s: match run.keeps {
            true => held(&mut run.records.iter()),
            false => run.ledger.all.held.quantiles(),
        },
        classes: classes.iter().enumerate().filter_map(report).collect(),
    })
}

/// Attempts turned away, those with the most first.
pub(super) fn refusals(run: &Run) -> Vec<RefusalReport> {
    let mut all: Vec<_> = run.fleet.refusals().to_vec();
    all.sort_by_key(|of| (std::cmp::Reverse(of.attempts), of.cause, of.code));
    let told = all.into_iter().map(|of| RefusalReport {
        layer: layer(of.cause.by()).into(),
        cause: cause(of.cause).into(),
        code: of.code,
        attempts: of.attempts,
    });
    told.collect()
}

fn layer(layer: RefusedBy) -> &'static str {
    match layer {
        RefusedBy::Client => "client",
        RefusedBy::Gateway => "gateway",
        RefusedBy::Router => "router",
        RefusedBy::Replica => "replica",
    }
}

/// Why an attempt was turned away, as what follows "because".
pub(crate) fn cause(cause: Refusal) -> &'static str {
    match cause {
        Refusal::NeverFits => "it can never fit a replica",
        Refusal::NoReplica => "no replica may be chosen",
        Refusal::GatewayQueue => "the gateway's queue is full",
        Refusal::ReplicaQueue => "the replica's queue is full",
        Refusal::ReplicaError => "the replica answers with an error",
        Refusal::LoadDropped => "part of the load is dropped at the door",
        Refusal::ClientBreaker => "its client's circuit breaker is open",
        Refusal::ClientThrottle => "its client expects to be refused",
        Refusal::GatewayExpired => "it was held at the gateway too long",
        Refusal::TooLong => "prompt or output budget is too long",
        Refusal::RateLimit => "its tenant makes too many requests",
        Refusal::TokenBudget => "its tenant asks for too many tokens",
        Refusal::RetryCap => "too much is tried again",
        Refusal::Failing => "the servers fail too often",
        Refusal::Shed => "its priority is negative and the fleet is full",
        Refusal::Concurrency => "as much is in flight as may be",
        Refusal::Gradient => "as much is in flight as latency lets it",
        Refusal::Saturated => "the fleet is too full for its class",
        Refusal::Ramp => "the fleet has just come back",
        Refusal::Codel => "it waited long in a queue that does not empty",
        Refusal::EmptyPool => "no replica is ready",
        Refusal::EngineQueue => "the replica's queue holds as many requests as it may",
        Refusal::EngineTokens => "the replica's queue holds as many tokens as it may",
        Refusal::EngineTooLate => "it would have waited at the replica too long",
        Refusal::EngineExpired => "it waited at the replica too long",
    }
}
