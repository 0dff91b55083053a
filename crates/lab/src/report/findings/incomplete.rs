//! What limits every comparison: policies that were not run to their end, and requests that nobody served.

use crate::report::gateway;
use crate::session::{Run, Stage};
use crate::words::{self, count, duration};
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

/// Stops and outages that the run did not see the end of, or never reached: whoever changed its length may not notice.
pub(super) fn faults(spec: &Spec, stage: &Stage) -> Vec<String> {
    let faults = &spec.faults;
    let down = if faults.down_loses { "were to be down" } else { "were to stand still" };
    let all = [
        (faults.down > 0, faults.down_at_s, faults.down_s, down),
        (faults.split > 0, faults.split_at_s, faults.split_s, "were to be cut off"),
        (faults.errors > 0.0, faults.errors_at_s, faults.errors_s, "were to answer with errors"),
    ];
    let mut out = Vec::new();
    for (_, from, lasts, what) in all.into_iter().filter(|(on, ..)| *on) {
        let ends = || stage.runs.iter().filter(|run| run.fleet.is_done()).map(|run| run.fleet.now().as_secs());
        let last = ends().fold(0.0, f64::max);
        if ends().next().is_none() || ends().all(|end| end >= from + lasts) {
            continue;
        }
        out.push(match ends().all(|end| end <= from) {
            true => format!("Replicas {what} from {} on; the run was over after {}.", duration(from), duration(last)),
            false => format!(
                "Replicas {what} from {} on for {}; not every run was long enough to see the end of that.",
                duration(from),
                duration(lasts)
            ),
        });
    }
    out
}

/// How many requests ended without an answer, and how, since times are only of those that got one.
pub(super) fn unanswered(spec: &Spec, stage: &Stage, report: &Report) -> Option<String> {
    let counts = || report.policies.iter().map(|policy| policy.requests);
    let why = why(spec, stage);
    if counts().any(|requests| requests.rejected > 0)
        && counts().all(|requests| requests.finished == 0 && requests.pending == 0)
    {
        return Some(format!("No request was served{why}."));
    }
    let others = |at: usize| others(spec, stage, report, at);
    if (0..report.policies.len()).all(|at| others(at).is_empty()) {
        return refused(report, &why);
    }
    let parts = |at: usize| {
        let rejected = report.policies[at].requests.rejected;
        let refused = (rejected > 0).then(|| (rejected, format!("refused{}", causes(&stage.runs[at..=at]))));
        refused.into_iter().chain(others(at).into_iter().map(|(many, how)| (many, how.to_owned()))).collect::<Vec<_>>()
    };
    let each = report.policies.iter().enumerate().map(|(at, policy)| {
        let parts = parts(at);
        let with = if report.policies.len() == 1 { String::new() } else { format!(" with {}", policy.label) };
        let all: u64 = parts.iter().map(|(many, _)| many).sum();
        let told: Vec<String> = parts.iter().map(|(many, how)| format!("{} {how}", count(*many))).collect();
        match &told[..] {
            [] => format!("none{with}"),
            _ => format!(
                "{} of {}{with} ({})",
                count(all),
                words::many(policy.requests.total, "request"),
                told.join(", ")
            ),
        }
    });
    let each: Vec<String> = each.collect();
    Some(format!(
        "Without an answer to the end were {}; times to first token are only of those that got one.",
        each.join("; ")
    ))
}

/// How requests ended that were neither answered nor refused. Of a fleet that scales what was lost is told with the reason.
fn others(spec: &Spec, stage: &Stage, report: &Report, at: usize) -> Vec<(u64, &'static str)> {
    let requests = &report.policies[at].requests;
    let pending = if stage.runs[at].fleet.is_done() { requests.pending } else { 0 };
    let all = [
        (requests.timed_out, "timed out at the last attempt"),
        (requests.abandoned, "given up at their deadline"),
        (if spec.scaling.on { 0 } else { requests.lost }, "lost with a replica or its connection"),
        (pending, "still waiting where the run ends"),
    ];
    all.into_iter().filter(|(many, _)| *many > 0).collect()
}

/// How many requests were refused, where that is all that happened to those without an answer.
fn refused(report: &Report, why: &str) -> Option<String> {
    let counts = || report.policies.iter().map(|policy| policy.requests);
    let first = counts().find(|requests| requests.rejected > 0)?;
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
    let causes = last_causes(&stage.runs);
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
    self::causes(&stage.runs)
}

/// Status and cause of every refusal that was a request's last.
fn last_causes(runs: &[Run]) -> Vec<(u16, Refusal)> {
    let mut causes: Vec<(u16, Refusal)> = (runs.iter().flat_map(|run| &run.records))
        .filter_map(|record| match record.outcome {
            Outcome::Rejected { code, cause } => Some((code, cause)),
            _ => None,
        })
        .collect();
    causes.sort();
    causes.dedup();
    causes
}

/// The same in brackets; nothing where no records are kept.
fn causes(runs: &[Run]) -> String {
    let causes = last_causes(runs);
    let told: Vec<String> = causes.iter().map(|(code, cause)| format!("{code}, {}", gateway::cause(*cause))).collect();
    if told.is_empty() { String::new() } else { format!(" (status {})", told.join("; ")) }
}
