//! Situations that are nothing but another workload: how prompts come to share their beginnings, or do not.

use super::{ask_soonest, guess, preset, tenants, unguarded};
use crate::report::findings::Gap;
use crate::report::verdict::{Case, Judge, soonest};
use crate::stats::{mean, paired};
use crate::words::{digits, duration, percent};
use servelab_spec::catalog::PresetInfo;
use servelab_spec::experiment::{
    AgentTreeSpec, EngineSpec, LongShortSpec, MultiTenantSpec, PolicySpec, RateUnit, SessionsSpec, Spec, WorkloadSpec,
};
use servelab_spec::report::Verdict;

pub(super) fn all() -> Vec<PresetInfo> {
    vec![sessions(), agent_tree(), long_short(), no_reuse(), one_prompt(), memory_cliff()]
}

pub(super) fn judge(name: &str) -> Option<Judge> {
    match name {
        "sessions" | "no-reuse" | "memory-cliff" => Some(soonest),
        "agent-tree" => Some(together_or_spread),
        "long-short" => Some(for_the_short),
        "one-prompt" => Some(how_far_apart),
        _ => None,
    }
}

fn named<const N: usize>(names: [&str; N]) -> Vec<PolicySpec> {
    names.into_iter().map(PolicySpec::named).collect()
}

/// Conversations of two to eight turns that together are several times what the caches hold, so a history is there only where its last turn was.
fn sessions() -> PresetInfo {
    let sizes = SessionsSpec { rate: 1.0, ..Default::default() };
    let policies = named(["round_robin", "least_requests", "session_sticky", "kubeai_prefix_hash"]);
    let spec = Spec { policies, workload: WorkloadSpec::Sessions(sizes), ..Spec::default() };
    let question = "Each turn repeats the conversation so far: must the router follow it?";
    ask_soonest(preset("sessions", "Conversations that grow turn by turn", question, spec))
}

/// Twenty sub-agents on one prompt of some 500 tokens, nearly all within a tenth of a second: a replica's batch holds eight.
fn agent_tree() -> PresetInfo {
    let sizes = AgentTreeSpec { requests: 378, branches: 20, depth: 1, burst_s: 0.05, ..Default::default() };
    let policies = named(["round_robin", "least_tokens", "session_sticky", "prefix_affinity"]);
    let spec = Spec { policies, workload: WorkloadSpec::AgentTree(sizes), ..Spec::default() };
    let ask = "Session-sticky sends all of a task to one replica, round-robin to all in turn. Whose first tokens come sooner, on average?";
    let options = [
        "Kept together: it is all in one cache",
        "Spread: nobody waits behind nineteen others",
        "No difference beyond noise",
    ];
    let question = "A task starts twenty sub-agents at once on one prompt: keep them together, or spread them?";
    guess(preset("agent-tree", "Twenty sub-agents at once", question, spec), ask, &options)
}

/// Session-sticky against round-robin, request by request.
fn together_or_spread(case: &Case<'_>) -> Option<Verdict> {
    let together = case.find(&PolicySpec::named("session_sticky"))?;
    let spread = case.find(&PolicySpec::named("round_robin"))?;
    let (option, told) = match case.gap(together, spread) {
        Gap::Real(gap) if gap.mean < 0.0 => (0, format!("{} sooner when kept together", duration(-gap.mean))),
        Gap::Real(gap) => (1, format!("{} sooner when spread", duration(gap.mean))),
        Gap::None | Gap::Few | Gap::Noise(_) => (2, "no sooner either way, beyond noise".into()),
    };
    let (a, b) = (case.policy(together), case.policy(spread));
    let because = format!(
        "First tokens came {told}: after {} on average with {}, {} with {}. Together, {} of the prompt tokens were reused, spread {}; what is not computed again is paid for by waiting where all the others wait.",
        duration(a.ttft_s.mean),
        a.label,
        duration(b.ttft_s.mean),
        b.label,
        percent(a.reuse.ratio),
        percent(b.reuse.ratio)
    );
    Some(Verdict { option, because })
}

/// One request in five is about one of six documents of 1000 to 1600 tokens; the others are 16 to 64 tokens of their own.
fn long_short() -> PresetInfo {
    let policies = named(["round_robin", "least_requests", "least_tokens", "prefix_affinity"]);
    let labels: Vec<String> = policies.iter().map(crate::catalog::policy_label).collect();
    let options: Vec<&str> =
        labels.iter().map(String::as_str).chain(["No two of the best differ beyond noise"]).collect();
    let spec = Spec { policies, workload: WorkloadSpec::LongShort(LongShortSpec::default()), ..Spec::default() };
    let question = "Few long documents among many short questions: who waits behind whom?";
    let ask = "Who gives the first tokens of the short questions (tenant A) soonest, on average?";
    guess(preset("long-short", "Long documents among short questions", question, spec), ask, &options)
}

/// How long the short questions waited under one policy.
struct Waited {
    option: u32,
    at: usize,
    /// By request, in order.
    ttft: Vec<(u32, f64)>,
    mean: f64,
}

impl Waited {
    fn of(case: &Case<'_>, option: u32, at: usize) -> Self {
        let short = case.records(at).iter().filter(|record| record.tenant == 0);
        let mut ttft: Vec<(u32, f64)> =
            short.filter_map(|record| Some((record.index, record.ttft()?.as_secs()))).collect();
        ttft.sort_by_key(|(index, _)| *index);
        let mean = mean(&ttft.iter().map(|(_, ttft)| *ttft).collect::<Vec<_>>());
        Waited { option, at, ttft, mean }
    }
}

/// Judges "who serves the short questions soonest?" as [`soonest`] does, of the first tenant's requests alone.
fn for_the_short(case: &Case<'_>) -> Option<Verdict> {
    let mut ranked: Vec<Waited> = vec![];
    for (option, policy) in (0u32..).zip(&case.preset.spec.policies) {
        ranked.push(Waited::of(case, option, case.find(policy)?));
    }
    ranked.sort_by(|a, b| a.mean.total_cmp(&b.mean));
    let [best, next, ..] = &ranked[..] else { return None };
    let same = next.ttft.iter().zip(&best.ttft).filter(|(a, b)| a.0 == b.0);
    let gap = paired(same.map(|(a, b)| (a.1, b.1)))?;
    let option = if gap.low > 0.0 { best.option } else { ranked.len() as u32 };
    let long = |at: usize| case.policy(at).tenants.get(1).map_or(0.0, |tenant| tenant.ttft_s.mean);
    let because = format!(
        "Short questions waited {} for their first token with {} and {} with {}, the next (95 % interval of the difference {} to {}). Those about documents waited {} and {}: they are {} times as long, and whoever stands behind one that must be computed waits for it.",
        duration(best.mean),
        case.policy(best.at).label,
        duration(next.mean),
        case.policy(next.at).label,
        signed(gap.low),
        signed(gap.high),
        duration(long(best.at)),
        duration(long(next.at)),
        digits(longer(case))
    );
    Some(Verdict { option, because })
}

/// A duration that may be negative.
fn signed(seconds: f64) -> String {
    if seconds < 0.0 { format!("−{}", duration(-seconds)) } else { duration(seconds) }
}

/// How many times as long a request about a document is.
fn longer(case: &Case<'_>) -> f64 {
    let of = |tenant: u32| {
        let lengths = case.records(0).iter().filter(|record| record.tenant == tenant);
        mean(&lengths.map(|record| f64::from(record.prompt_tokens)).collect::<Vec<_>>())
    };
    let short = of(0);
    if short > 0.0 { of(1) / short } else { 0.0 }
}

/// Prompts of 64 to 1200 tokens that share not one block: affinity then is a hash, and a hash knows nothing of load.
fn no_reuse() -> PresetInfo {
    let sizes = MultiTenantSpec {
        requests: 300,
        tenants: 1,
        system_min: 1,
        system_max: 1,
        user_min: 64,
        user_max: 1200,
        output_max: 128,
        rate: 0.7,
        ..Default::default()
    };
    let policies = vec![PolicySpec::named("round_robin"), PolicySpec::named("least_tokens"), unguarded()];
    let spec = Spec { policies, ..tenants(sizes) };
    let question = "Nothing can be reused: what does affinity cost then?";
    ask_soonest(preset("no-reuse", "Every prompt is new", question, spec))
}

/// One system prompt for everybody, which every replica has after its first request.
fn one_prompt() -> PresetInfo {
    let sizes = MultiTenantSpec { requests: 400, tenants: 1, rate: 0.9, ..Default::default() };
    let policies = named(["round_robin", "least_tokens", "power_of_two", "prefix_affinity"]);
    let spec = Spec { policies, ..tenants(sizes) };
    let ask = "How far apart are the policies' mean times to first token?";
    let options =
        ["Affinity is ahead by more than a tenth", "All are within a tenth", "Affinity is behind by more than a tenth"];
    let question = "Every request begins with the same system prompt: does the router matter?";
    guess(preset("one-prompt", "One shared prompt, nothing else", question, spec), ask, &options)
}

/// What a person would call alike.
const ALIKE: f64 = 0.1;

/// Affinity against the mean of the others.
fn how_far_apart(case: &Case<'_>) -> Option<Verdict> {
    let affinity = case.find(&PolicySpec::named("prefix_affinity"))?;
    let others: Vec<usize> = (0..case.spec.policies.len()).filter(|&at| at != affinity).collect();
    let ttft = |at: usize| case.policy(at).ttft_s.mean;
    let average = mean(&others.iter().map(|&at| ttft(at)).collect::<Vec<_>>());
    if others.is_empty() || average <= 0.0 {
        return None;
    }
    let ratio = ttft(affinity) / average;
    let option = if ratio < 1.0 - ALIKE {
        0
    } else if ratio > 1.0 + ALIKE {
        2
    } else {
        1
    };
    let reuse = |at: usize| case.policy(at).reuse.ratio;
    let (low, high) =
        others.iter().fold((1.0_f64, 0.0_f64), |(low, high), &at| (low.min(reuse(at)), high.max(reuse(at))));
    let others_reuse =
        if percent(low) == percent(high) { percent(low) } else { format!("{} to {}", percent(low), percent(high)) };
    let because = format!(
        "Affinity gave first tokens after {} on average, the others after {}. It reused {} of the prompt tokens and they {}, since each replica computes the one prompt once, and its busiest replica got {} times the mean of the requests.",
        duration(ttft(affinity)),
        duration(average),
        percent(reuse(affinity)),
        others_reuse,
        digits(case.policy(affinity).imbalance.assignments)
    );
    Some(Verdict { option, because })
}

/// Long answers on 96 blocks: a sequence begins with 9 of them on average and ends with 25, so there is room for the beginning of a batch of eight and
/// not for its end: running sequences are thrown out and computed again. With a third more blocks the same traffic hardly waits, which is the cliff (`tests/presets.rs`).
fn memory_cliff() -> PresetInfo {
    let sizes = MultiTenantSpec {
        requests: 300,
        system_min: 32,
        system_max: 48,
        user_min: 32,
        user_max: 160,
        output_min: 64,
        output_max: 448,
        rate: 7.0,
        rate_unit: RateUnit::PerSecond,
        ..Default::default()
    };
    let spec = tenants(sizes);
    let engine = EngineSpec { blocks: 96, ..spec.engine };
    let question =
        "The KV pool holds half of what the batch allows: what does that do to the tail, and does a router help?";
    ask_soonest(preset("memory-cliff", "Too little memory for what runs", question, Spec { engine, ..spec }))
}
