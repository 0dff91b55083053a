//! Which policy keeps the limits up to which rate, and whether that is more than noise, in sentences out of a knee's report.

use super::played::too_short;
use crate::sweep::{band, listed};
use crate::words::percent;
use servelab_spec::experiment::WorkloadSpec;
use servelab_spec::knee::{KneeReport, PolicyKnee};
use servelab_spec::sweep::Band;

/// What the knees say; nothing before there is one.
pub fn findings(report: &KneeReport) -> Vec<String> {
    let mut out = vec![];
    let known = |at: &usize| report.policies[*at].per_replica_per_s.is_some();
    let mut ranked: Vec<usize> = (0..report.policies.len()).filter(known).collect();
    let mean = |at: usize| report.policies[at].per_replica_per_s.map_or(0.0, |band| band.mean);
    ranked.sort_by(|&a, &b| mean(b).total_cmp(&mean(a)));
    if let Some((&best, others)) = ranked.split_first() {
        let knee = &report.policies[best];
        let band = knee.per_replica_per_s.as_ref();
        let whole = knee.per_s.map(|band| rate(band.mean)).unwrap_or_default();
        out.push(format!(
            "{} keeps the limits up to {} requests/s per replica{}, {whole} for the whole fleet.",
            knee.label,
            rate(mean(best)),
            band.map(interval).unwrap_or_default()
        ));
        out.extend(versus(report, best, others));
    }
    let heaps = matches!(report.knee.spec.workload, WorkloadSpec::Trace(_));
    out.extend(report.policies.iter().filter_map(|policy| ended(policy, heaps)));
    out.extend(too_short(report));
    out
}

/// The best one against every other, paired by seed.
fn versus(report: &KneeReport, best: usize, others: &[usize]) -> Option<String> {
    if others.is_empty() {
        return None;
    }
    let knees = |policy: usize| report.trials.iter().filter(move |trial| trial.policy as usize == policy);
    let difference = |other: usize| {
        let pairs = knees(other).filter_map(|trial| {
            let same = knees(best).find(|best| best.seed == trial.seed)?;
            Some(same.per_s? - trial.per_s?)
        });
        band(pairs)
    };
    let (mut more, mut alike, mut unknown) = (vec![], vec![], vec![]);
    for &other in others {
        let label = report.policies[other].label.as_str();
        let (mine, its) = (report.policies[best].per_s, report.policies[other].per_s);
        let ratio = mine.zip(its).map(|(mine, its)| mine.mean / its.mean - 1.0);
        let said = ratio.map_or(label.to_owned(), |ratio| format!("{label} (by {})", percent(ratio)));
        match difference(other) {
            Some(band) if band.significant => more.push(said),
            Some(band) if band.low.is_some() => alike.push(label.to_owned()),
            _ => unknown.push(said),
        }
    }
    let words = |list: &[String]| listed(&list.iter().map(String::as_str).collect::<Vec<_>>());
    let mut parts = vec![];
    if !more.is_empty() {
        parts.push(format!("That is more than {}, beyond noise", words(&more)));
    }
    if !alike.is_empty() {
        let are = if alike.len() == 1 { "is" } else { "are" };
        parts.push(format!("{} {are} within noise of it", words(&alike)));
    }
    if !unknown.is_empty() {
        parts.push(format!("It is more than {}, which a single seed can not tell from noise", words(&unknown)));
    }
    Some(format!("{}.", parts.join("; ")))
}

/// A policy of which no search found the knee. `heaps`: requests may be so close together that no rate draws them apart.
fn ended(knee: &PolicyKnee, heaps: bool) -> Option<String> {
    let label = &knee.label;
    let more = "they ask for more than an idle fleet gives";
    match (knee.per_s, knee.never_good, knee.always_good) {
        (None, 1.., 0) if heaps => Some(format!(
            "{label} keeps the limits at no rate: {more} for the trace's longest prompts, or too many requests were recorded at one instant."
        )),
        (None, 1.., 0) => Some(format!("{label} keeps the limits at no rate: {more}.")),
        (None, 0, 1..) => Some(format!("{label} keeps the limits at every rate that was tried.")),
        _ => None,
    }
}

/// Three figures: a search is good to one in fifty.
pub(super) fn rate(value: f64) -> String {
    let decimals = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else if value >= 1.0 {
        2
    } else {
        3
    };
    format!("{value:.decimals$}")
}

fn interval(band: &Band) -> String {
    match (band.low, band.high) {
        (Some(low), Some(high)) => format!(" (95 % interval {} to {})", rate(low.max(0.0)), rate(high)),
        _ => String::new(),
    }
}
