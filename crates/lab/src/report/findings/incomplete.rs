//! What limits every comparison: policies that were not run to their end, and requests that nobody served.

use crate::report::gateway;
use crate::session::Stage;
use crate::words::count;
use servelab_fleet::{Outcome, Refusal};
use servelab_spec::experiment::Spec;
use servelab_spec::report::Report;

/// The status of a request that no replica can ever hold.
const NEVER_FITS: u16 = 400;

/// How far each policy came, when not every one came to its end.
pub(super) fn stopped(report: &Report, partial: bool) -> Option<String> {
    partial.then(|| {
        let all = count(report.workload.requests);
        let each = report.policies.iter().enumerate().map(|(at, policy)| {
            let requests = if at == 0 { " requests" } else { "" };
            format!("{} of {all}{requests} with {}", count(policy.requests.finished), policy.label)
        });
        let each: Vec<String> = each.collect();
        format!("The run was stopped before its end: finished are {}.", each.join(", "))
    })
}

/// How many requests were refused, since TTFT and gaps are only of those served, and why.
pub(super) fn refused(spec: &Spec, stage: &Stage, report: &Report) -> Option<String> {
    let counts = || report.policies.iter().map(|policy| policy.requests);
    let first = counts().find(|requests| requests.rejected > 0)?;
    let why = why(spec, stage);
    if counts().all(|requests| requests.finished == 0 && requests.pending == 0) {
        return Some(format!("No request was served{why}."));
    }
    let same = counts().all(|requests| (requests.rejected, requests.total) == (first.rejected, first.total));
    let whom = if same {
        let whose = if report.policies.len() == 1 { "" } else { " with every policy" };
        format!("{} of {} requests{whose}", count(first.rejected), count(first.total))
    } else {
        let some = report.policies.iter().filter(|policy| policy.requests.rejected > 0);
        let each = some.map(|policy| {
            let requests = policy.requests;
            format!("{} of {} requests with {}", count(requests.rejected), count(requests.total), policy.label)
        });
        each.collect::<Vec<_>>().join(", ")
    };
    Some(format!("Refused were {whom}{why}; times to first token are those of the others."))
}

/// The reason as what follows a colon; the refusals of a run nearly always have one and the same.
fn why(spec: &Spec, stage: &Stage) -> String {
    let mut causes: Vec<(u16, Refusal)> = (stage.runs.iter().flat_map(|run| &run.records))
        .filter_map(|record| match record.outcome {
            Outcome::Rejected { code, cause } => Some((code, cause)),
            _ => None,
        })
        .collect();
    causes.sort();
    causes.dedup();
    if causes == [(NEVER_FITS, Refusal::NeverFits)] {
        let engine = &spec.engine;
        let pool = u64::from(engine.blocks) * u64::from(engine.block_tokens);
        let (blocks, tokens) = (count(u64::from(engine.blocks)), count(u64::from(engine.block_tokens)));
        let plural = if engine.blocks == 1 { "" } else { "s" };
        let pool = count(pool);
        return format!(
            ": prompt and output do not fit into a replica's KV pool of {blocks} block{plural} × {tokens} = {pool} tokens"
        );
    }
    let causes: Vec<String> =
        causes.iter().map(|(code, cause)| format!("{code}, {}", gateway::cause(*cause))).collect();
    format!(" (status {})", causes.join("; "))
}
