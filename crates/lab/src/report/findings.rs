//! What happened, in a few sentences, every figure out of this run.
//!
//! First what limits all that follows: a run that was stopped, requests that were refused ([`incomplete`]). Then who gave first tokens soonest,
//! against the first policy of the list (that is the one a question is about), with the paired difference per request and whether it is
//! more than noise; then why, as far as reuse tells; then what that did to good requests; then what a parameter changed between two variants of one
//! policy; then what stands out: uneven load, or a limit that most requests miss. What does not differ is said to be alike, or left out.

mod incomplete;
mod scaling;

use crate::session::{Run, Stage};
use crate::stats::{Paired, paired};
use crate::sweep::listed;
use crate::words::{count, digits, duration, percent};
use servelab_spec::experiment::Spec;
use servelab_spec::report::{PairedTtft, PolicyReport, Report};

/// Load this uneven is worth a sentence: the busiest replica got half as much again as the mean.
const UNEVEN: f64 = 1.5;
/// A share of the requests worth a word. Whoever leaves that many more without a first token than another one has no lower mean by being quicker: those who
/// would have waited long are missing from it.
pub(crate) const NOTABLE: f64 = 0.01;
/// A mean difference below this share of the median is none, however certain.
const NOTHING: f64 = 1e-3;

pub(super) fn findings(spec: &Spec, stage: &Stage, report: &Report) -> Vec<String> {
    let done: Vec<usize> = (0..stage.runs.len()).filter(|&at| stage.runs[at].fleet.is_done()).collect();
    let partial = done.len() < stage.runs.len();
    let of = |at: usize| &report.policies[at];
    let mut out: Vec<String> = incomplete::stopped(report, partial).into_iter().collect();
    out.extend(incomplete::faults(spec, stage));
    out.extend(incomplete::unanswered(spec, stage, report));
    if spec.scaling.on {
        out.extend(scaling::findings(report, &done));
        return out;
    }
    let served: Vec<usize> = done.iter().copied().filter(|&at| of(at).ttft_s.n > 0).collect();
    let mean = |at: usize| of(at).ttft_s.mean;
    // Who leaves many unanswered comes last, whatever the mean of the rest.
    let full = answering(&report.policies, &served);
    let few = served.iter().copied().filter(|at| !full.contains(at)).min_by_key(|&at| of(at).ttft_s.n);
    let last = few.or_else(|| served.iter().copied().max_by(|&a, &b| mean(a).total_cmp(&mean(b))));
    let (Some(best), Some(worst)) = (soonest(&report.policies, &served), last) else {
        return out;
    };
    if served.len() == 1 {
        let which = if partial { ", which finished," } else { "" };
        out.push(single(of(best), which));
        if reuses(report) {
            let policy = of(best);
            out.push(format!(
                "It reused {} of the prompt tokens{}.",
                percent(policy.reuse.ratio),
                ceiling(report, policy)
            ));
        }
    } else if alike(stage, report, &served) {
        let whom = if partial { "policies that finished" } else { "policies" };
        let first = of(best);
        let reused = match reuses(report) {
            true => format!(
                ", and {} of the prompt tokens were reused{}",
                percent(first.reuse.ratio),
                ceiling(report, first)
            ),
            false => String::new(),
        };
        out.push(format!("The {whom} do not differ here: with each, {}{reused}.", halves(first)));
        out.extend(good(report, &done, served[0]));
    } else {
        // Whom to compare with: the baseline, which stands first; where that is the best one, the worst.
        let worst = if served[0] == best { worst } else { served[0] };
        let gap = Gap::between(&stage.runs[worst], &stage.runs[best], of(best));
        let whom = if partial { "Of the policies that finished, " } else { "" };
        out.push(match full.contains(&worst) {
            true => format!("{whom}{}", race(of(best), of(worst), &gap)),
            false => format!("{whom}{}", answers(of(best), of(worst), &gap)),
        });
        let others = full.iter().copied().filter(|&at| at != best && at != worst);
        let to_best = |at: usize| Gap::between(&stage.runs[at], &stage.runs[best], of(best));
        let tied = others.filter(|&at| matches!(to_best(at), Gap::None | Gap::Noise(_)));
        let tied: Vec<&str> = tied.map(|at| of(at).label.as_str()).collect();
        if !tied.is_empty() {
            let are = if tied.len() == 1 { "is" } else { "are" };
            out.push(format!("{} {are} within noise of {}.", listed(&tied), of(best).label));
        }
        out.extend(why(of(best), of(worst), report, &gap));
        out.extend(good(report, &done, worst));
        out.extend(variants(spec, report, &done));
    }
    out.extend(outstanding(spec, done.iter().map(|&at| of(at))));
    out
}

/// How two policies differ in TTFT, request by request.
pub(crate) enum Gap {
    /// By nothing at all worth a word.
    None,
    /// Fewer than two requests have both.
    Few,
    /// Within noise.
    Noise(Paired),
    /// The first one's mean is lower, or higher, beyond noise.
    Real(Paired),
}

impl Gap {
    /// `slow` − `fast`; `median` is that of `fast`.
    pub(super) fn between(slow: &Run, fast: &Run, median: &PolicyReport) -> Gap {
        let pairs = pairs(slow, fast);
        let nothing = NOTHING * median.ttft_s.p50;
        if pairs.iter().all(|(slow, fast)| (slow - fast).abs() <= nothing) {
            return Gap::None;
        }
        match paired(pairs) {
            None => Gap::Few,
            Some(d) if d.significant() && d.mean.abs() > nothing => Gap::Real(d),
            Some(d) => Gap::Noise(d),
        }
    }
}

/// TTFT under both policies of every request that has both, seconds, in the order of requests.
fn pairs(first: &Run, second: &Run) -> Vec<(f64, f64)> {
    let by_index = |run: &Run| {
        let ttft = run.records.iter().filter_map(|record| Some((record.index, record.ttft()?.as_secs())));
        let mut list: Vec<(u32, f64)> = ttft.collect();
        list.sort_by_key(|(index, _)| *index);
        list
    };
    let (first, second) = (by_index(first), by_index(second));
    let pairs = first.iter().filter_map(|(index, one)| {
        second.binary_search_by_key(index, |(index, _)| *index).ok().map(|at| (*one, second[at].1))
    });
    pairs.collect()
}

/// Those of these policies that answered as many requests as any other, but for less than a notable share.
pub(crate) fn answering(policies: &[PolicyReport], of: &[usize]) -> Vec<usize> {
    let most = of.iter().map(|&at| policies[at].ttft_s.n).max().unwrap_or(0);
    let few = |at: usize| (most - policies[at].ttft_s.n) as f64 > NOTABLE * policies[at].requests.total as f64;
    of.iter().copied().filter(|&at| !few(at)).collect()
}

/// Of these policies the one whose first tokens came soonest on average, the first of equals, among those that answered as many as any. Headline, table
/// and verdict all go by it: what they compare it with are mean differences over the same requests.
fn soonest(policies: &[PolicyReport], of: &[usize]) -> Option<usize> {
    let full = answering(policies, of);
    full.into_iter().min_by(|&a, &b| policies[a].ttft_s.mean.total_cmp(&policies[b].ttft_s.mean))
}

/// Compares every finished policy with the one whose mean TTFT is the lowest, the first of equals, among those that answered as many as any.
pub(super) fn compare(stage: &Stage, policies: &mut [PolicyReport]) {
    let served = |at: &usize| stage.runs[*at].fleet.is_done() && policies[*at].ttft_s.n > 0;
    let served: Vec<usize> = (0..policies.len()).filter(served).collect();
    let Some(best) = soonest(policies, &served) else { return };
    let nothing = NOTHING * policies[best].ttft_s.p50;
    for at in served.into_iter().filter(|&at| at != best) {
        policies[at].versus_best = paired(pairs(&stage.runs[at], &stage.runs[best])).map(|d| PairedTtft {
            n: d.n as u64,
            mean_s: d.mean,
            low_s: d.low,
            high_s: d.high,
            significant: d.significant() && d.mean.abs() > nothing,
        });
    }
}

/// Every served policy gives each request its first token as soon as the first one does, and reuses as much.
fn alike(stage: &Stage, report: &Report, served: &[usize]) -> bool {
    let first = &report.policies[served[0]];
    served[1..].iter().all(|&at| {
        let other = &report.policies[at];
        let gap = Gap::between(&stage.runs[at], &stage.runs[served[0]], first);
        other.ttft_s.n == first.ttft_s.n
            && matches!(gap, Gap::None)
            && percent(other.reuse.ratio) == percent(first.reuse.ratio)
    })
}

fn single(policy: &PolicyReport, which: &str) -> String {
    if policy.ttft_s.n == 1 {
        return format!("{}{which} gave its one first token after {}.", policy.label, duration(policy.ttft_s.p50));
    }
    let (half, most) = (duration(policy.ttft_s.p50), duration(policy.ttft_s.p95));
    if policy.unanswered() > 0 {
        let (answered, all) = (count(policy.ttft_s.n), count(policy.requests.total));
        let first = if half == most { String::new() } else { format!("half of those came within {half} and ") };
        let label = &policy.label;
        return format!("{label}{which} gave {answered} of {all} requests a first token: {first}95 % within {most}.");
    }
    if half == most {
        return format!("{}{which} gave 95 % of all first tokens within {most}.", policy.label);
    }
    format!("{}{which} gave half of all first tokens within {half} and 95 % within {most}.", policy.label)
}

/// When first tokens came, as what follows "with each".
fn halves(policy: &PolicyReport) -> String {
    let (half, most) = (duration(policy.ttft_s.p50), duration(policy.ttft_s.p95));
    match policy.ttft_s.n {
        1 => format!("the one first token came after {half}"),
        _ if half == most => format!("95 % of all first tokens came within {most}"),
        _ => format!("half of all first tokens came within {half} and 95 % within {most}"),
    }
}

/// The requests that a difference is over, as what stands before it.
pub(crate) fn over(d: &Paired, all: u64) -> String {
    match d.n as u64 {
        n if n == all => "per request".into(),
        n => format!("over the {} requests that both answered", count(n)),
    }
}

/// The first one answered notably more: that comes before any latency.
fn answers(first: &PolicyReport, last: &PolicyReport, gap: &Gap) -> String {
    let head = format!(
        "{} gave {} of {} requests a first token, {} {}",
        first.label,
        count(first.ttft_s.n),
        count(first.requests.total),
        last.label,
        count(last.ttft_s.n)
    );
    let all = first.requests.total;
    match gap {
        Gap::None => format!("{head}; to those that both answered they gave it equally soon."),
        Gap::Few => format!("{head}; too few got one from both to compare how soon."),
        Gap::Noise(d) => format!("{head}; {} the difference in time is within noise.", over(d, all)),
        Gap::Real(d) => {
            let which = if d.mean > 0.0 { "sooner" } else { "later" };
            format!("{head}; {} the first one's came {} {which} on average.", over(d, all), duration(d.mean.abs()))
        }
    }
}

fn race(first: &PolicyReport, last: &PolicyReport, gap: &Gap) -> String {
    let (fast, slow) = (duration(first.ttft_s.mean), duration(last.ttft_s.mean));
    let (means, but, and) = if fast == slow {
        (format!("{} and {} give first tokens within {fast} on average", first.label, last.label), ";", ", but")
    } else {
        let (first, last) = (&first.label, &last.label);
        (
            format!("{first} gave first tokens soonest: after {fast} on average, against {slow} with {last}"),
            ", but",
            ";",
        )
    };
    let all = first.requests.total;
    let interval = |d: &Paired| format!("(95 % interval {} to {})", duration(d.low.abs()), duration(d.high.abs()));
    match gap {
        Gap::None => format!("{means}{but} per request they do not differ."),
        Gap::Few => format!("{means}{but} from too few requests to tell it from noise."),
        Gap::Noise(d) if d.n as u64 == all => {
            format!("{means}{but} per request the difference is within noise ({} requests).", count(d.n as u64))
        }
        Gap::Noise(d) => format!("{means}{but} {} the difference is within noise.", over(d, all)),
        Gap::Real(d) if d.mean > 0.0 => {
            let who = if fast == slow { first.label.as_str() } else { "it" };
            let set = over(d, all);
            format!("{means}{and} {set} {who} saved {} on average {}.", duration(d.mean), interval(d))
        }
        Gap::Real(d) => {
            let turned = Paired { low: d.high, high: d.low, ..*d };
            let who = if fast == slow { first.label.as_str() } else { "it" };
            let more = duration(d.mean.abs());
            let set = over(d, all);
            format!("{means}, but {set} {who} took {more} more on average {}.", interval(&turned))
        }
    }
}

/// Why the first is faster, as far as reuse tells; nothing when neither reuse nor the spread of work differs.
fn why(first: &PolicyReport, last: &PolicyReport, report: &Report, gap: &Gap) -> Option<String> {
    let (high, low) = (percent(first.reuse.ratio), percent(last.reuse.ratio));
    if first.reuse.ratio > last.reuse.ratio && high != low {
        return Some(format!(
            "It reused {high} of the prompt tokens where {} reused {low}{}, so its replicas computed {} prompt tokens instead of {}.",
            last.label,
            ceiling(report, first),
            count(first.computed_tokens()),
            count(last.computed_tokens())
        ));
    }
    let (mine, theirs) = (digits(first.imbalance.uncached_tokens), digits(last.imbalance.uncached_tokens));
    if !matches!(gap, Gap::Real(_)) || !spread(first) || mine == theirs {
        return None;
    }
    let reuse = if high == low { format!("{high} with both") } else { format!("{high} against {low}") };
    Some(format!(
        "Reuse does not explain it ({reuse}): its busiest replica computed {mine} times the mean, with {} it was {theirs} times.",
        last.label
    ))
}

/// There are replicas enough, and requests enough for them, that their evenness says something.
fn spread(policy: &PolicyReport) -> bool {
    let replicas = policy.replicas.len() as u64;
    replicas > 1 && policy.replicas.iter().map(|replica| replica.assignments).sum::<u64>() >= 2 * replicas
}

/// Who served most requests well, when that is not the baseline.
fn good(report: &Report, done: &[usize], baseline: usize) -> Option<String> {
    let of = |at: usize| &report.policies[at];
    // Of equals the first.
    let most = done.iter().copied().rev().max_by_key(|&at| of(at).goodput.good)?;
    (of(most).goodput.good > of(baseline).goodput.good).then(|| {
        format!(
            "Within every limit were {} of {} requests with {}, {} with {}.",
            count(of(most).goodput.good),
            count(of(most).requests.total),
            of(most).label,
            count(of(baseline).goodput.good),
            of(baseline).label
        )
    })
}

/// What a parameter changed: the first policy that was run twice, side by side.
fn variants(spec: &Spec, report: &Report, done: &[usize]) -> Option<String> {
    let pairs = done.iter().enumerate().flat_map(|(i, &a)| done[i + 1..].iter().map(move |&b| (a, b)));
    let runs = spec.contenders();
    let (a, b) = pairs.into_iter().find(|&(a, b)| {
        let (of_a, of_b) = (runs[a], runs[b]);
        let alone = of_a.policy != of_b.policy && (of_a.controller, of_a.clients) == (of_b.controller, of_b.clients);
        alone
            && report.policies[a].name == report.policies[b].name
            && report.policies[a].label != report.policies[b].label
    })?;
    let (a, b) = (&report.policies[a], &report.policies[b]);
    let mut figures = vec![("reuse", "", percent(b.reuse.ratio), percent(a.reuse.ratio))];
    if a.ttft_s.n > 0 && b.ttft_s.n > 0 {
        figures.push(("median TTFT", "", duration(b.ttft_s.p50), duration(a.ttft_s.p50)));
    }
    if spread(a) && spread(b) {
        let (mine, theirs) = (digits(b.imbalance.assignments), digits(a.imbalance.assignments));
        figures.push(("busiest replica", " times the mean", mine, theirs));
    }
    let told: Vec<String> = (figures.iter())
        .map(|(name, unit, mine, theirs)| match mine == theirs {
            true => format!("{name} {mine}{unit} with both"),
            false => format!("{name} {mine} and {theirs}{unit}"),
        })
        .collect();
    Some(format!("{} against {}: {}.", b.label, a.label, told.join(", ")))
}

/// Something of the prompts was reused, or could have been.
fn reuses(report: &Report) -> bool {
    report.workload.ceiling.hit_tokens > 0 || report.policies.iter().any(|policy| policy.reuse.hit_tokens > 0)
}

/// What could have been reused, which is said of all that was offered: those that were let in may have had more in common.
fn ceiling(report: &Report, policy: &PolicyReport) -> String {
    let most = report.workload.ceiling.ratio;
    match policy.reuse.ratio <= most {
        true => format!(" (at most {} can be reused)", percent(most)),
        false => format!(" of requests it let in (of all requests at most {} can be reused)", percent(most)),
    }
}

/// The one thing besides that stands out most, if any does.
fn outstanding<'a>(spec: &Spec, policies: impl Iterator<Item = &'a PolicyReport> + Clone) -> Option<String> {
    let missed = |policy: &&PolicyReport| policy.goodput.itl_misses > policy.goodput.ttft_misses;
    let bound = policies.clone().filter(missed).max_by_key(|policy| policy.goodput.itl_misses);
    if let Some(policy) = bound.filter(|policy| 2 * policy.goodput.itl_misses > policy.requests.total) {
        return Some(format!(
            "Gaps between tokens hold goodput back: with {}, {} of {} requests miss the ITL limit of {}, {} the TTFT limit of {}.",
            policy.label,
            count(policy.goodput.itl_misses),
            count(policy.requests.total),
            duration(spec.slo.itl_s),
            count(policy.goodput.ttft_misses),
            duration(spec.slo.ttft_s)
        ));
    }
    let policies = policies.filter(|policy| spread(policy));
    let uneven = policies.max_by(|a, b| a.imbalance.assignments.total_cmp(&b.imbalance.assignments))?;
    (uneven.imbalance.assignments >= UNEVEN).then(|| {
        format!(
            "{} is uneven: its busiest replica got {} times the mean of the requests.",
            uneven.label,
            digits(uneven.imbalance.assignments)
        )
    })
}
