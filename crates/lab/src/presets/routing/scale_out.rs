//! "I went from 2 to 8 replicas and TTFT got worse: why?" Six replicas with empty caches join two whose caches have filled.
//!
//! The judges compare each policy with itself: requests that arrived before the six joined with those that arrived after, first tokens
//! being what they are about.

use super::{guess, l4s, preset, unguarded};
use crate::report::verdict::Case;
use crate::words::{count, digits, duration, percent};
use servelab_engine::Nanos;
use servelab_spec::catalog::PresetInfo;
use servelab_spec::experiment::{EventsSpec, PolicySpec, RateUnit, Spec, WorkloadSpec};
use servelab_spec::report::Verdict;

/// When the six join. By then every system prompt has been seen some ten times, so that the two caches are as full as they get.
const JOIN_S: f64 = 60.0;
/// Loading 16 GB of weights at 1.25 GB/s (10 GbE) takes 13 s.
const WARM_UP_S: f64 = 13.0;

fn spec(honest: bool) -> Spec {
    let mut spec = l4s(400, 3.0);
    if let WorkloadSpec::MultiTenant(sizes) = &mut spec.workload {
        (sizes.tenants, sizes.rate_unit) = (12, RateUnit::PerSecond);
    }
    spec.replicas = 2;
    spec.policies = vec![PolicySpec::named("round_robin"), unguarded(), PolicySpec::named("prefix_affinity")];
    spec.events =
        EventsSpec { join: 6, join_at_s: JOIN_S, warm_up_s: WARM_UP_S, honest_readiness: honest, ..spec.events };
    spec
}

pub(super) fn scale_out() -> PresetInfo {
    let ask = "Six empty replicas join two warm ones, and with round-robin the mean TTFT rises. What adds most to it?";
    let options = [
        "They are sent requests before they can serve",
        "Their caches are empty: prompts are computed again on each",
        "Nothing: it does not rise",
    ];
    let question = "I went from 2 to 8 replicas and TTFT got worse: why?";
    guess(preset("scale-out", "From two replicas to eight", question, spec(false)), ask, &options)
}

pub(super) fn scale_out_honest() -> PresetInfo {
    let ask = "The same, but new replicas say that they are ready only once they can serve. How does round-robin's mean TTFT change now when they join?";
    let options = ["It still rises", "It stays about the same, within a tenth", "It falls"];
    let question = "Two replicas to eight again, with honest readiness: is that enough?";
    guess(preset("scale-out-honest", "From two to eight, honestly ready", question, spec(true)), ask, &options)
}

/// A store for the prompts of all tenants, as large as 40 GB of host memory, on links of 25 Gbit/s.
const STORE: [(&str, &str); 2] = [("store.blocks", "20000"), ("store.link_gb_per_s", "3.125")];
const HONEST: (&str, &str) = ("events.honest_readiness", "on");

pub(super) fn scale_out_fixes() -> PresetInfo {
    let mut spec = spec(false);
    spec.policies = vec![PolicySpec::named("round_robin"), PolicySpec::named("prefix_affinity")];
    let ask = "Round-robin's mean TTFT rises when six empty replicas join two warm ones. Which one change brings it down most?";
    let options = [
        "Affinity with a guard instead of round-robin",
        "A shared store behind the replicas' caches",
        "Honest readiness: no requests before a replica can serve",
    ];
    let question = "Two replicas to eight made TTFT worse: which of three fixes helps how much?";
    guess(preset("scale-out-fixes", "From two to eight: three fixes", question, spec), ask, &options)
}

/// What a scale-out does to the caches, seen by six routers.
pub(super) fn scale_out_reuse() -> PresetInfo {
    let mut spec = spec(true);
    let named =
        ["round_robin", "least_requests", "prefix_modulo", "production_stack_prefixaware"].map(PolicySpec::named);
    spec.policies = named.into_iter().chain([unguarded(), PolicySpec::named("prefix_affinity")]).collect();
    let labels: Vec<String> = spec.policies.iter().map(crate::catalog::policy_label).collect();
    let options: Vec<&str> = labels.iter().map(String::as_str).collect();
    let ask = "Six empty replicas join two warm ones. Under which policy is most of the prompts found in a cache from then on?";
    let question = "Scale-out in the router's eyes: what becomes of the hit rate from 2 to 8 replicas?";
    guess(preset("scale-out-reuse", "From two to eight: the hit rate", question, spec), ask, &options)
}

/// Judges "under which policy is most of the prompts found in a cache?", of requests that arrived after the six joined.
pub(super) fn most_reuse(case: &Case<'_>) -> Option<Verdict> {
    let join = Nanos::from_secs(case.spec.events.join_at_s);
    if case.spec.events.join == 0 {
        return None;
    }
    let share = |at: usize, from: Nanos, to: Nanos| {
        let records = case.records(at).iter().filter(move |r| r.arrival >= from && r.arrival < to);
        let (cached, prompt) = records.fold((0u64, 0u64), |(cached, prompt), r| {
            (cached + u64::from(r.cached_tokens), prompt + u64::from(r.prompt_tokens))
        });
        cached as f64 / prompt.max(1) as f64
    };
    let mut ranked: Vec<(usize, f64, f64, usize)> = Vec::new();
    for (option, policy) in case.preset.spec.policies.iter().enumerate() {
        let at = case.find(policy)?;
        ranked.push((option, share(at, join, Nanos::MAX), share(at, Nanos(join.0 / 2), join), at));
    }
    // The larger first; the earlier of equals.
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (best, worst) = (ranked.first()?, ranked.last()?);
    let told = |of: &(usize, f64, f64, usize)| {
        format!(
            "{} of the prompts were found with {}, and {} before",
            percent(of.1),
            case.policy(of.3).label,
            percent(of.2)
        )
    };
    let because = format!("Once the six had joined, {}. At the other end, {}.", told(best), told(worst));
    Some(Verdict { option: best.0 as u32, because })
}

/// A policy before and after.
struct Change {
    before: f64,
    after: f64,
    /// Seconds that requests waited at replicas which said that they were ready and were not, all requests together.
    unready: f64,
    /// Prompt tokens computed after, beyond what as many requests computed before.
    again: f64,
    /// What computing those took.
    again_s: f64,
}

fn change(case: &Case<'_>, at: usize) -> Option<Change> {
    let events = case.spec.events;
    let (join, warm) = (Nanos::from_secs(events.join_at_s), Nanos::from_secs(events.join_at_s + events.warm_up_s));
    if events.join == 0 {
        return None;
    }
    // The first half of the time before is that of empty caches everywhere.
    let settled = Nanos(join.0 / 2);
    let records = case.records(at);
    let of = |from: Nanos, to: Nanos| records.iter().filter(move |r| r.arrival >= from && r.arrival < to);
    let computed = |from, to| {
        of(from, to).map(|r| u64::from(r.prompt_tokens - r.cached_tokens - r.fetched_tokens)).sum::<u64>() as f64
    };
    let (n_before, n_after) = (of(settled, join).count() as f64, of(join, Nanos::MAX).count() as f64);
    let again = (computed(join, Nanos::MAX) - computed(settled, join) / n_before.max(1.0) * n_after).max(0.0);
    let early = of(join, warm).filter(|r| r.replica.is_some_and(|replica| replica >= case.spec.replicas));
    let unready = if events.honest_readiness { 0.0 } else { early.map(|r| warm.since(r.arrival).as_secs()).sum() };
    Some(Change {
        before: case.mean_ttft(at, settled, join)?,
        after: case.mean_ttft(at, join, Nanos::MAX)?,
        unready,
        again,
        again_s: again * case.report.cost.coefficients.prefill_token_us / 1e6,
    })
}

/// Below a tenth a person would call it no change.
const SAME: f64 = 0.1;

pub(super) fn why_worse(case: &Case<'_>) -> Option<Verdict> {
    let turns = change(case, case.find(&PolicySpec::named("round_robin"))?)?;
    let affine = change(case, case.find(&PolicySpec::named("prefix_affinity"))?)?;
    let rises = turns.after > (1.0 + SAME) * turns.before;
    let option = match (rises, turns.unready > turns.again_s) {
        (false, _) => 2,
        (true, true) => 0,
        (true, false) => 1,
    };
    let because = format!(
        "Round-robin's mean TTFT went from {} before the six joined to {} after: requests sent to replicas that could not serve yet waited {} for them, all together, and computing {} prompt tokens again took {}. With affinity and its guard it went from {} to {} ({} of waiting, {} of computing again).",
        duration(turns.before),
        duration(turns.after),
        duration(turns.unready),
        count(turns.again as u64),
        duration(turns.again_s),
        duration(affine.before),
        duration(affine.after),
        duration(affine.unready),
        duration(affine.again_s)
    );
    Some(Verdict { option, because })
}

pub(super) fn how_much_better(case: &Case<'_>) -> Option<Verdict> {
    let turns = change(case, case.find(&PolicySpec::named("round_robin"))?)?;
    let affine = change(case, case.find(&PolicySpec::named("prefix_affinity"))?)?;
    let ratio = turns.after / turns.before;
    let option = if ratio > 1.0 + SAME {
        0
    } else if ratio < 1.0 - SAME {
        2
    } else {
        1
    };
    let because = format!(
        "Round-robin's mean TTFT went from {} before the six joined to {} after, {} times as much: {} prompt tokens were computed again in empty caches. With affinity and its guard it went from {} to {}, with {} tokens computed again.",
        duration(turns.before),
        duration(turns.after),
        digits(ratio),
        count(turns.again as u64),
        duration(affine.before),
        duration(affine.after),
        count(affine.again as u64)
    );
    Some(Verdict { option, because })
}

/// Each fix alone, and all of them, against round-robin as it is. The run itself has affinity; the others are the same spec with their settings changed.
pub(super) fn which_fix(case: &Case<'_>) -> Option<Verdict> {
    let (turns, affine) = (PolicySpec::named("round_robin"), PolicySpec::named("prefix_affinity"));
    let before = change(case, case.find(&turns)?)?;
    let affinity = change(case, case.find(&affine)?)?.after;
    let after = |policy: &PolicySpec, changes: &[(&str, &str)]| {
        let variant = case.variant(std::slice::from_ref(policy), changes)?;
        Some(change(&variant.case()?, 0)?.after)
    };
    let store = after(&turns, &STORE)?;
    let honest = after(&turns, &[HONEST])?;
    let all = after(&affine, &[STORE[0], STORE[1], HONEST])?;
    let fixes = [affinity, store, honest];
    let (option, _) = fixes.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1))?;
    let because = format!(
        "Round-robin's mean TTFT went from {} before the six joined to {} after, for {} of waiting at replicas that could not serve and {} of computing prompts again. Instead of {} it would have been {} with affinity and its guard, {} with a shared store, {} with honest readiness, and {} with all three.",
        duration(before.before),
        duration(before.after),
        duration(before.unready),
        duration(before.again_s),
        duration(before.after),
        duration(affinity),
        duration(store),
        duration(honest),
        duration(all)
    );
    Some(Verdict { option: option as u32, because })
}
