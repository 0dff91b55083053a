//! What happened, in two or three sentences, every figure out of this run.
//!
//! First who gave first tokens soonest, against the first policy of the list (that is the one a question is about), with the paired
//! difference per request and whether it is more than noise; then why, as far as reuse tells; then what that did to good requests; then what
//! a parameter changed between two variants of one policy; then what stands out: uneven load, or a limit that most requests miss.

use crate::session::{Run, Stage};
use crate::stats::{Paired, paired};
use crate::words::{digits, duration, percent};
use servelab_spec::experiment::Spec;
use servelab_spec::report::{PolicyReport, Report};

/// Load this uneven is worth a sentence: the busiest replica got half as much again as the mean.
const UNEVEN: f64 = 1.5;

pub(super) fn findings(spec: &Spec, stage: &Stage, report: &Report) -> Vec<String> {
    let done: Vec<usize> = (0..stage.runs.len()).filter(|&at| stage.runs[at].fleet.is_done()).collect();
    let policies = |at: &usize| &report.policies[*at];
    let median = |at: &usize| policies(at).ttft_s.p50;
    let served = || done.iter().copied().filter(|at| policies(at).ttft_s.n > 0);
    let best = served().min_by(|a, b| median(a).total_cmp(&median(b)));
    let worst = served().max_by(|a, b| median(a).total_cmp(&median(b)));
    let (Some(best), Some(worst)) = (best, worst) else { return vec![] };
    // Whom to compare with: the baseline, which stands first; where that is the best one, the worst.
    let worst = served().next().filter(|&baseline| baseline != best).unwrap_or(worst);
    let (first, last) = (&report.policies[best], &report.policies[worst]);
    let mut out = Vec::new();
    if done.len() == 1 || best == worst {
        out.push(format!(
            "{} gave half of all first tokens within {} and 95 % within {}.",
            first.label,
            duration(first.ttft_s.p50),
            duration(first.ttft_s.p95)
        ));
        out.push(format!("It reused {} of the prompt tokens{}.", percent(first.reuse.ratio), ceiling(report)));
    } else {
        let difference = ttft_difference(&stage.runs[worst], &stage.runs[best]);
        out.push(race(first, last, difference));
        out.push(why(first, last, report));
        out.extend(good(report, &done, worst));
        out.extend(variants(spec, report, &done));
    }
    out.extend(outstanding(spec, done.iter().map(policies)));
    out
}

/// Worst − best in TTFT, request by request.
fn ttft_difference(worst: &Run, best: &Run) -> Option<Paired> {
    let by_index = |run: &Run| {
        let mut list: Vec<(u32, f64)> =
            run.records.iter().filter_map(|record| record.ttft().map(|ttft| (record.index, ttft.as_secs()))).collect();
        list.sort_by_key(|(index, _)| *index);
        list
    };
    let (worst, best) = (by_index(worst), by_index(best));
    let pairs = worst.iter().filter_map(|(index, slow)| {
        best.binary_search_by_key(index, |(index, _)| *index).ok().map(|at| (*slow, best[at].1))
    });
    paired(pairs)
}

fn race(first: &PolicyReport, last: &PolicyReport, difference: Option<Paired>) -> String {
    let medians = format!(
        "{} gave first tokens soonest: {} at the median, against {} with {}",
        first.label,
        duration(first.ttft_s.p50),
        duration(last.ttft_s.p50),
        last.label
    );
    match difference {
        Some(d) if d.significant() && d.mean > 0.0 => format!(
            "{medians}; per request it saved {} on average (95 % interval {} to {}).",
            duration(d.mean),
            duration(d.low),
            duration(d.high)
        ),
        Some(d) => format!("{medians}, but per request the difference is within noise ({} requests).", d.n),
        None => format!("{medians}, from too few requests to tell it from noise."),
    }
}

fn why(first: &PolicyReport, last: &PolicyReport, report: &Report) -> String {
    let (high, low) = (first.reuse.ratio, last.reuse.ratio);
    if high > low {
        format!(
            "It reused {} of the prompt tokens where {} reused {}{}, so its replicas computed {} prompt tokens instead of {}.",
            percent(high),
            last.label,
            percent(low),
            ceiling(report),
            first.reuse.prompt_tokens - first.reuse.hit_tokens,
            last.reuse.prompt_tokens - last.reuse.hit_tokens
        )
    } else {
        format!(
            "Reuse does not explain it ({} against {}): its busiest replica computed {} times the mean, with {} it was {} times.",
            percent(high),
            percent(low),
            digits(first.imbalance.uncached_tokens),
            last.label,
            digits(last.imbalance.uncached_tokens)
        )
    }
}

/// Who served most requests well, when that is not the baseline.
fn good(report: &Report, done: &[usize], baseline: usize) -> Option<String> {
    let of = |at: usize| &report.policies[at];
    // Of equals the first.
    let most = done.iter().copied().rev().max_by_key(|&at| of(at).goodput.good)?;
    (of(most).goodput.good > of(baseline).goodput.good).then(|| {
        format!(
            "Within every limit were {} of {} requests with {}, {} with {}.",
            of(most).goodput.good,
            of(most).requests.total,
            of(most).label,
            of(baseline).goodput.good,
            of(baseline).label
        )
    })
}

/// What a parameter changed: the first policy that was run twice, side by side.
fn variants(spec: &Spec, report: &Report, done: &[usize]) -> Option<String> {
    let pairs = done.iter().enumerate().flat_map(|(i, &a)| done[i + 1..].iter().map(move |&b| (a, b)));
    let (a, b) = pairs.into_iter().find(|&(a, b)| {
        spec.policies[a].name == spec.policies[b].name && report.policies[a].label != report.policies[b].label
    })?;
    let (a, b) = (&report.policies[a], &report.policies[b]);
    Some(format!(
        "{} against {}: reuse {} and {}, median TTFT {} and {}, busiest replica {} and {} times the mean.",
        b.label,
        a.label,
        percent(b.reuse.ratio),
        percent(a.reuse.ratio),
        duration(b.ttft_s.p50),
        duration(a.ttft_s.p50),
        digits(b.imbalance.assignments),
        digits(a.imbalance.assignments)
    ))
}

fn ceiling(report: &Report) -> String {
    format!(" (at most {} can be reused)", percent(report.workload.ceiling.ratio))
}

/// The one thing besides that stands out most, if any does.
fn outstanding<'a>(spec: &Spec, policies: impl Iterator<Item = &'a PolicyReport> + Clone) -> Option<String> {
    let missed = |policy: &&PolicyReport| policy.goodput.itl_misses > policy.goodput.ttft_misses;
    let bound = policies.clone().filter(missed).max_by_key(|policy| policy.goodput.itl_misses);
    if let Some(policy) = bound.filter(|policy| 2 * policy.goodput.itl_misses > policy.requests.total) {
        return Some(format!(
            "Gaps between tokens hold goodput back: with {}, {} of {} requests miss the ITL limit of {}, {} the TTFT limit of {}.",
            policy.label,
            policy.goodput.itl_misses,
            policy.requests.total,
            duration(spec.slo.itl_s),
            policy.goodput.ttft_misses,
            duration(spec.slo.ttft_s)
        ));
    }
    let uneven = policies.max_by(|a, b| a.imbalance.assignments.total_cmp(&b.imbalance.assignments))?;
    (uneven.imbalance.assignments >= UNEVEN).then(|| {
        format!(
            "{} is uneven: its busiest replica got {} times the mean of the requests.",
            uneven.label,
            digits(uneven.imbalance.assignments)
        )
    })
}
