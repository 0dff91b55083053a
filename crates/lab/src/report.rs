//! [`Report`] from the records of a run.
//!
//! Counting is over requests that have ended; reuse, imbalance, peaks and steps are the replicas' own totals, so in a partial
//! report they include what is still under way. A finished request is *good* when it meets both limits; one with a single token has
//! no gap to miss. Refused requests count as offered, so they lower the good share.

pub(crate) mod clients;
pub(crate) mod findings;
pub(crate) mod gateway;
mod scaling;
mod variant;
pub(crate) mod verdict;

use crate::configuration::configuration;
use crate::configuration::gateways::gateways;
use crate::ledger::Tally;
use crate::session::{Run, Session, Stage};
use crate::stats::{max_over_mean, quantiles, ratio};
use crate::{catalog, prediction};
use servelab_engine::Nanos;
use servelab_fleet::{Outcome, ReplicaStats, RequestRecord};
use servelab_spec::experiment::{Charge, Coefficients, Contender, ExecutionMode, Pace, SloSpec, Spec};
use servelab_spec::report::{
    CostReport, Goodput, Imbalance, PolicyReport, ReplicaReport, Report, RequestCounts, Reuse, StoreReport,
    TenantReport, WorkloadReport,
};
use servelab_spec::{SCHEMA_VERSION, report};

/// The report of a session as it stands.
pub(crate) fn build(session: &Session) -> Report {
    let spec = &session.spec;
    let mut report = Report {
        version: SCHEMA_VERSION,
        generator: concat!("servelab ", env!("CARGO_PKG_VERSION")).into(),
        spec: spec.clone(),
        workload: WorkloadReport::default(),
        cost: cost(session),
        policies: vec![],
        configurations: gateways(spec),
        findings: vec![],
        verdict: None,
    };
    match &session.stage {
        Some(stage) => {
            report.workload = workload(spec, stage);
            let runs = stage.runs.iter().zip(spec.contenders());
            report.policies = runs.map(|(run, contender)| policy_report(spec, stage, run, contender)).collect();
            findings::compare(stage, &mut report.policies);
            report.findings = findings::findings(spec, stage, &report);
            report.verdict = session.judged.then(|| verdict::verdict(spec, stage, &report)).flatten();
        }
        None => {
            let empty = |contender: Contender| PolicyReport {
                name: spec.policies[contender.policy].name.clone(),
                label: catalog::contender_label(spec, contender),
                ..PolicyReport::default()
            };
            report.policies = spec.contenders().into_iter().map(empty).collect();
        }
    }
    report
}

fn cost(session: &Session) -> CostReport {
    let spec = &session.spec;
    let coefficients = session.coefficients().unwrap_or_default();
    match &session.live {
        None => CostReport {
            source: match (spec.execution.mode, spec.execution.cost.as_str()) {
                (ExecutionMode::Tick, _) => "ticks".into(),
                (ExecutionMode::Server, _) => "service times".into(),
                (_, "custom") => "custom".into(),
                (_, name) => format!("preset:{name}"),
            },
            device: "none (priced)".into(),
            coefficients: if matches!(spec.execution.mode, ExecutionMode::Tick | ExecutionMode::Server) {
                Coefficients::default()
            } else {
                coefficients
            },
            prediction: None,
            fallback: None,
        },
        Some(live) => CostReport {
            source: if spec.execution.charge == Charge::Measured { "measured" } else { "fitted" }.into(),
            device: live.device.clone(),
            coefficients,
            prediction: session.stage.as_ref().and_then(prediction::predict),
            fallback: live.fallback.clone(),
        },
    }
}

fn workload(spec: &Spec, stage: &Stage) -> WorkloadReport {
    let survey = &stage.survey;
    let span = survey.last_arrival.since(survey.first_arrival).as_secs();
    // n requests have n − 1 gaps between them.
    let scheduled = (survey.last_arrival, ratio(survey.requests.saturating_sub(1) as f64, span));
    let (last_arrival, rate_per_s) = match paced(spec) {
        false => scheduled,
        true => {
            stage.runs.first().map_or(scheduled, |run| (run.ledger.arrivals.last, run.ledger.arrivals.rate_per_s()))
        }
    };
    WorkloadReport {
        requests: survey.requests,
        prompt_tokens: survey.prompt_tokens,
        last_arrival_s: last_arrival.as_secs(),
        rate_per_s,
        ceiling: reuse(survey.ceiling_hit_tokens, survey.prompt_tokens),
        tenants: stage.tenants.clone(),
    }
}

/// Clients wait for answers before they ask again, so that it is the run that says when requests come, and not the workload.
pub(crate) fn paced(spec: &Spec) -> bool {
    spec.clients.on && spec.clients.pace != Pace::Open
}

fn reuse(hit_tokens: u64, prompt_tokens: u64) -> Reuse {
    Reuse { hit_tokens, prompt_tokens, ratio: ratio(hit_tokens as f64, prompt_tokens as f64) }
}

fn policy_report(spec: &Spec, stage: &Stage, run: &Run, contender: Contender) -> PolicyReport {
    let policy = &spec.policies[contender.policy];
    let fleet_counts = run.fleet.counts();
    let replicas: Vec<ReplicaStats> = run.fleet.replica_stats().collect();
    let ended = if run.fleet.is_done() { run.ledger.last_end } else { run.fleet.now() };
    let first = if paced(spec) { run.ledger.arrivals.first } else { stage.survey.first_arrival };
    let duration_s = ended.since(first).as_secs();
    let all: Vec<&RequestRecord> = run.records.iter().collect();
    let numbers = match run.keeps {
        true => Numbers::of(&all, &spec.slo, fleet_counts.arrived, duration_s),
        false => Numbers::tallied(&run.ledger.all, fleet_counts.arrived, duration_s),
    };
    let mut by_tenant: Vec<Vec<&RequestRecord>> = vec![vec![]; stage.tenants.len()];
    for record in &run.records {
        if let Some(list) = by_tenant.get_mut(record.tenant as usize) {
            list.push(record);
        }
    }
    let sum = |count: fn(&ReplicaStats) -> u64| replicas.iter().map(count).sum::<u64>();
    // One that joined on the way and got nothing was there for none of the requests, or for the last few: it says nothing of how they were spread.
    let served = |(at, replica): &(usize, &ReplicaStats)| *at < spec.replicas as usize || replica.assignments > 0;
    let serving: Vec<&ReplicaStats> = replicas.iter().enumerate().filter(served).map(|(_, replica)| replica).collect();
    let even = |count: fn(&ReplicaStats) -> u64| {
        max_over_mean(&serving.iter().map(|replica| count(replica)).collect::<Vec<_>>())
    };
    let e2e = |record: &RequestRecord| {
        (record.outcome == Outcome::Finished).then(|| record.end.since(record.arrival).as_secs())
    };
    let queue = |record: &RequestRecord| record.admitted.map(|at| at.since(record.arrival).as_secs());
    PolicyReport {
        name: policy.name.clone(),
        label: catalog::contender_label(spec, contender),
        configuration: configuration(spec, policy),
        scaling: scaling::report(spec, run, contender),
        clients: clients::report(spec, stage, run, contender),
        gateway: gateway::report(spec, run, duration_s),
        refusals: gateway::refusals(run),
        requests: RequestCounts { attempts: fleet_counts.attempts, ..numbers.requests },
        ttft_s: numbers.ttft_s,
        itl_s: numbers.itl_s,
        versus_best: None,
        e2e_s: match run.keeps {
            true => quantiles(run.records.iter().filter_map(e2e).collect()),
            false => run.ledger.all.e2e.quantiles(),
        },
        queue_s: match run.keeps {
            true => quantiles(run.records.iter().filter_map(queue).collect()),
            false => run.ledger.all.queue.quantiles(),
        },
        output_tokens_per_s: ratio(run.ledger.all.output_tokens as f64, duration_s),
        goodput: numbers.goodput,
        in_time_at_end: run.ledger.in_time_at_end(),
        reuse: match fleet_counts.attempts > fleet_counts.arrived {
            // What a retry finds of its own earlier attempt is nothing that a cache of any size could give.
            true => {
                let first = run.fleet.first_sight();
                reuse(first.hit_tokens, first.prompt_tokens)
            }
            false => reuse(sum(|replica| replica.hit_tokens), sum(|replica| replica.prompt_tokens)),
        },
        store: run.fleet.store_stats().map(|stats| {
            let fetched = sum(|replica| replica.fetched_tokens);
            StoreReport {
                fetched_tokens: fetched,
                ratio: ratio(fetched as f64, sum(|replica| replica.prompt_tokens) as f64),
                fetches: stats.fetches,
                declined: stats.declined,
                bytes: stats.bytes,
                fetch_s: stats.time.as_secs(),
                evictions: stats.evicted,
            }
        }),
        imbalance: Imbalance {
            assignments: even(|replica| replica.assignments),
            uncached_tokens: even(ReplicaStats::uncached_tokens),
        },
        kv_peak: replicas.iter().map(|replica| replica.kv_peak).fold(0.0, f64::max),
        preemptions: sum(|replica| replica.preemptions),
        evictions: sum(|replica| replica.evictions),
        steps: sum(|replica| replica.steps),
        duration_s,
        tenants: by_tenant
            .iter()
            .zip(&run.ledger.tenants)
            .zip(&stage.tenants)
            .map(|((records, tally), name)| {
                let numbers = match run.keeps {
                    true => Numbers::of(records, &spec.slo, records.len() as u64, duration_s),
                    false => Numbers::tallied(tally, tally.ended(), duration_s),
                };
                TenantReport {
                    name: name.clone(),
                    requests: numbers.requests,
                    ttft_s: numbers.ttft_s,
                    itl_s: numbers.itl_s,
                    goodput: numbers.goodput,
                    reuse: reuse(tally.cached_tokens, tally.prompt_tokens),
                }
            })
            .collect(),
        replicas: replicas
            .iter()
            .map(|replica| ReplicaReport {
                assignments: replica.assignments,
                uncached_tokens: replica.uncached_tokens(),
                hit_tokens: replica.hit_tokens,
                fetched_tokens: replica.fetched_tokens,
                busy_s: replica.busy.as_secs(),
                lifetime_s: replica.lifetime.as_secs(),
                kv_peak: replica.kv_peak,
                steps: replica.steps,
            })
            .collect(),
    }
}

/// What is told of all requests and of each tenant's alike.
struct Numbers {
    requests: RequestCounts,
    ttft_s: report::Quantiles,
    itl_s: report::Quantiles,
    goodput: Goodput,
}

impl Numbers {
    /// Of more requests than are kept: quantiles have the sketch's error.
    fn tallied(tally: &Tally, offered: u64, duration_s: f64) -> Self {
        let lost = tally.lost.iter().sum();
        Numbers {
            requests: RequestCounts {
                total: offered,
                finished: tally.finished,
                rejected: tally.rejected,
                pending: offered - tally.ended(),
                lost,
                timed_out: tally.timed_out,
                abandoned: tally.abandoned,
                attempts: tally.attempts,
            },
            ttft_s: tally.ttft.quantiles(),
            itl_s: tally.itl.quantiles(),
            goodput: Goodput {
                per_s: ratio(tally.good as f64, duration_s),
                good: tally.good,
                fraction: ratio(tally.good as f64, offered as f64),
                ttft_misses: tally.ttft_misses,
                itl_misses: tally.itl_misses,
            },
        }
    }

    fn of(records: &[&RequestRecord], slo: &SloSpec, offered: u64, duration_s: f64) -> Self {
        let count = |wanted: fn(&Outcome) -> bool| records.iter().filter(|r| wanted(&r.outcome)).count() as u64;
        let finished = count(|outcome| *outcome == Outcome::Finished);
        let rejected = count(|outcome| matches!(outcome, Outcome::Rejected { .. }));
        let lost = count(|outcome| matches!(outcome, Outcome::Lost { .. }));
        let timed_out = count(|outcome| *outcome == Outcome::TimedOut);
        let abandoned = count(|outcome| *outcome == Outcome::Abandoned);
        let late = |record: &RequestRecord| record.ttft().is_some_and(|ttft| ttft.as_secs() > slo.ttft_s);
        let slow = |record: &RequestRecord| record.itl_s().is_some_and(|itl| itl > slo.itl_s);
        let good = |record: &RequestRecord| record.outcome == Outcome::Finished && !late(record) && !slow(record);
        let good = records.iter().filter(|record| good(record)).count() as u64;
        Numbers {
            requests: RequestCounts {
                total: offered,
                finished,
                rejected,
                pending: offered - finished - rejected - lost - timed_out - abandoned,
                lost,
                timed_out,
                abandoned,
                attempts: records.iter().map(|record| u64::from(record.attempts)).sum(),
            },
            ttft_s: quantiles(records.iter().filter_map(|r| r.ttft()).map(Nanos::as_secs).collect()),
            itl_s: quantiles(records.iter().filter_map(|record| record.itl_s()).collect()),
            goodput: Goodput {
                per_s: ratio(good as f64, duration_s),
                good,
                fraction: ratio(good as f64, offered as f64),
                ttft_misses: records.iter().filter(|record| late(record)).count() as u64,
                itl_misses: records.iter().filter(|record| slow(record)).count() as u64,
            },
        }
    }
}
