//! What a run says about the guess that its preset asks for. Each preset has a judge of its own beside it; what judges have in common
//! stands here. A verdict is of the run as it was: whoever changes the workload may get another one.

use super::findings::{Gap, answering, over};
use crate::presets;
use crate::session::{Run, Stage};
use crate::words::{duration, percent};
use servelab_engine::Nanos;
use servelab_fleet::RequestRecord;
use servelab_spec::catalog::PresetInfo;
use servelab_spec::experiment::{PolicySpec, Spec};
use servelab_spec::report::{PolicyReport, Report, Verdict};

/// Judges a finished run; nothing when the run does not allow it.
pub(crate) type Judge = fn(&Case<'_>) -> Option<Verdict>;

/// A finished run.
pub(crate) struct Case<'a> {
    pub(crate) preset: PresetInfo,
    pub(crate) spec: &'a Spec,
    pub(crate) report: &'a Report,
    pub(super) stage: &'a Stage,
}

/// The verdict of a finished run.
pub(super) fn verdict(spec: &Spec, stage: &Stage, report: &Report) -> Option<Verdict> {
    if stage.runs.iter().any(|run| !run.fleet.is_done()) {
        return None;
    }
    let (preset, judge) = (presets::find(&spec.preset)?, presets::judge(&spec.preset)?);
    judge(&Case { preset, spec, report, stage })
}

impl<'a> Case<'a> {
    /// Where a policy stands in the run.
    pub(crate) fn find(&self, policy: &PolicySpec) -> Option<usize> {
        self.spec.policies.iter().position(|run| run == policy)
    }

    pub(crate) fn policy(&self, at: usize) -> &'a PolicyReport {
        &self.report.policies[at]
    }

    fn run(&self, at: usize) -> &'a Run {
        &self.stage.runs[at]
    }

    /// When a policy's run ended, seconds.
    pub(crate) fn end_s(&self, at: usize) -> f64 {
        self.run(at).fleet.now().as_secs()
    }

    /// Every request's end under a policy.
    pub(crate) fn records(&self, at: usize) -> &'a [RequestRecord] {
        &self.run(at).records
    }

    /// How much later first tokens came under `slow` than under `fast`, request by request.
    pub(crate) fn gap(&self, slow: usize, fast: usize) -> Gap {
        Gap::between(self.run(slow), self.run(fast), self.policy(fast))
    }

    /// Mean TTFT of the requests that arrived from `from` up to `to`, seconds; `None` when none did.
    pub(crate) fn mean_ttft(&self, at: usize, from: Nanos, to: Nanos) -> Option<f64> {
        let within = |record: &&RequestRecord| record.arrival >= from && record.arrival < to;
        let ttft = self.records(at).iter().filter(within).filter_map(|record| Some(record.ttft()?.as_secs()));
        let (n, sum) = ttft.fold((0u32, 0.0), |(n, sum), ttft| (n + 1, sum + ttft));
        (n > 0).then(|| sum / f64::from(n))
    }
}

/// Judges "who gives first tokens soonest, on average?". The options are the preset's policies in order and, last, that the two best
/// do not differ beyond noise. A policy that was added is not asked about; where it is sooner than the answer, that is said.
pub(crate) fn soonest(case: &Case<'_>) -> Option<Verdict> {
    let mut ranked: Vec<(usize, usize)> = vec![];
    for (option, policy) in case.preset.spec.policies.iter().enumerate() {
        let at = case.find(policy)?;
        if case.policy(at).ttft_s.n == 0 {
            return None;
        }
        ranked.push((option, at));
    }
    // A mean without those who would have waited longest says nothing.
    let asked: Vec<usize> = ranked.iter().map(|(_, at)| *at).collect();
    if answering(&case.report.policies, &asked).len() < asked.len() {
        return None;
    }
    ranked.sort_by(|a, b| case.policy(a.1).ttft_s.mean.total_cmp(&case.policy(b.1).ttft_s.mean));
    let [(option, best), (_, next), ..] = ranked[..] else { return None };
    let (first, second) = (case.policy(best), case.policy(next));
    let means = |at: &PolicyReport| duration(at.ttft_s.mean);
    let added = (0..case.spec.policies.len())
        .filter(|at| ranked.iter().all(|(_, asked)| asked != at) && case.policy(*at).ttft_s.n > 0)
        .filter(|&at| matches!(case.gap(best, at), Gap::Real(gap) if gap.mean > 0.0))
        .min_by(|&a, &b| case.policy(a).ttft_s.mean.total_cmp(&case.policy(b).ttft_s.mean));
    let sooner = added.map_or(String::new(), |at| {
        let policy = case.policy(at);
        format!(" {}, which was not asked about, was sooner still, after {}.", policy.label, means(policy))
    });
    let asked = if added.is_some() { "Of the policies asked about, " } else { "" };
    let Gap::Real(gap) = case.gap(next, best) else {
        let because = format!(
            "{asked}{} and {} are within noise of each other: their first tokens came after {} and {} on average. {}{sooner}",
            first.label,
            second.label,
            means(first),
            means(second),
            traits(first, second)
        );
        return Some(Verdict { option: ranked.len() as u32, because });
    };
    let because = format!(
        "{asked}{} gave first tokens soonest, after {} on average: {} sooner {} than {}, the next (95 % interval {} to {}). {}{sooner}",
        first.label,
        means(first),
        duration(gap.mean),
        over(&gap, first.requests.total),
        second.label,
        duration(gap.low),
        duration(gap.high),
        traits(first, second)
    );
    Some(Verdict { option: option as u32, because })
}

/// Reuse and load of two policies in a sentence.
fn traits(first: &PolicyReport, second: &PolicyReport) -> String {
    format!(
        "It reused {} of the prompt tokens and its busiest replica got {:.1} times the mean of the requests; with {} that was {} and {:.1} times.",
        percent(first.reuse.ratio),
        first.imbalance.assignments,
        second.label,
        percent(second.reuse.ratio),
        second.imbalance.assignments
    )
}
