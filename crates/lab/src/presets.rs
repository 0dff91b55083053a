//! Ready-made experiments. A preset that is meant to show a difference has a test that it does, over several seeds and
//! beyond noise (`tests/presets.rs`). Most ask for a guess first; a judge beside the preset reads the right answer off the finished run, so
//! that no answer stands anywhere before it.

mod admission;
mod fleets;
mod live;
mod routing;
mod scaling;
mod starts;
mod storms;
mod workloads;

use crate::catalog::policy_label;
use crate::report::verdict::{Judge, soonest};
use servelab_spec::catalog::{Guess, PresetInfo};
use servelab_spec::experiment::{EngineSpec, MultiTenantSpec, PolicySpec, RateUnit, SloSpec, Spec, WorkloadSpec};

/// All presets, the first one being what a page without an address shows.
pub fn all() -> Vec<PresetInfo> {
    let mut all = vec![multi_tenant(), book_trace(), tiny_cache(), datacenter()];
    all.splice(2..2, routing::all().into_iter().chain(workloads::all()).chain(fleets::all()));
    all.extend(scaling::all());
    all.extend(starts::all());
    all.extend(admission::all());
    all.extend(storms::all());
    all.extend(live::all());
    all
}

/// The preset of that name.
pub fn find(name: &str) -> Option<PresetInfo> {
    all().into_iter().find(|preset| preset.name == name)
}

/// Who judges the guess of the preset of that name.
pub(crate) fn judge(name: &str) -> Option<Judge> {
    match name {
        "multi-tenant" | "tiny-cache" | "datacenter" => Some(soonest),
        _ => routing::judge(name)
            .or_else(|| workloads::judge(name))
            .or_else(|| fleets::judge(name))
            .or_else(|| scaling::judge(name))
            .or_else(|| starts::judge(name))
            .or_else(|| admission::judge(name))
            .or_else(|| storms::judge(name))
            .or_else(|| live::judge(name)),
    }
}

fn preset(name: &str, title: &str, question: &str, spec: Spec) -> PresetInfo {
    let spec = Spec { preset: name.into(), ..spec };
    PresetInfo { name: name.into(), title: title.into(), question: question.into(), prediction: None, spec }
}

/// The preset with a guess to make first.
fn guess(preset: PresetInfo, ask: &str, options: &[&str]) -> PresetInfo {
    let options = options.iter().map(|&option| option.to_owned()).collect();
    PresetInfo { prediction: Some(Guess { ask: ask.into(), options }), ..preset }
}

/// The preset with the guess that [`soonest`] judges.
fn ask_soonest(preset: PresetInfo) -> PresetInfo {
    let labels: Vec<String> = preset.spec.policies.iter().map(policy_label).collect();
    let options: Vec<&str> =
        labels.iter().map(String::as_str).chain(["No two of the best differ beyond noise"]).collect();
    guess(preset, "Who gives first tokens soonest, on average?", &options)
}

fn unguarded() -> PolicySpec {
    PolicySpec::named("prefix_affinity").with("guard", 0.0)
}

fn tenants(sizes: MultiTenantSpec) -> Spec {
    Spec { workload: WorkloadSpec::MultiTenant(sizes), ..Spec::default() }
}

/// Twenty-four tenants, so that no replica's pool holds every system prompt (24 × 26 blocks of 384): a router that scatters
/// them keeps evicting what the next request needs, while with affinity each replica keeps its six. The rate is 1.3 times what the
/// fleet could serve without any reuse: round-robin reuses enough to survive and not enough to keep its queues short.
fn multi_tenant() -> PresetInfo {
    ask_soonest(preset(
        "multi-tenant",
        "Many tenants, one prompt each",
        "Why is round-robin poor here?",
        tenants(MultiTenantSpec { requests: 300, tenants: 24, rate: 1.3, ..Default::default() }),
    ))
}

/// The fixed trace of 24 requests, on which reuse has known values.
fn book_trace() -> PresetInfo {
    let policies = vec![
        PolicySpec::named("round_robin"),
        PolicySpec::named("least_tokens"),
        unguarded(),
        PolicySpec::named("prefix_affinity"),
    ];
    let spec = Spec { policies, workload: WorkloadSpec::BookTrace, ..Spec::default() };
    let question = "Which policy reuses most of a fixed trace, and what does the guard give away?";
    preset("book-trace", "The fixed trace: 24 requests, six tenants", question, spec)
}

/// A quarter of the usual pool: room for two system prompts beside what runs.
fn tiny_cache() -> PresetInfo {
    let sizes = MultiTenantSpec { requests: 300, tenants: 6, ..Default::default() };
    let spec = tenants(sizes);
    let engine = EngineSpec { blocks: 96, ..spec.engine };
    let question = "The cache is too small for everyone: does a good router still help?";
    ask_soonest(preset("tiny-cache", "A cache too small for everyone", question, Spec { engine, ..spec }))
}

/// Eight H100s with Llama 3 8B. Of 80 GB, 72 are used; 15 hold weights; the rest is 26 700 blocks of 16 tokens (2 MiB each).
fn datacenter() -> PresetInfo {
    let sizes = MultiTenantSpec {
        requests: 4000,
        tenants: 400,
        skew: 0.6,
        system_min: 2000,
        system_max: 4000,
        user_min: 50,
        user_max: 400,
        output_min: 50,
        output_max: 350,
        rate: 0.9,
        rate_unit: RateUnit::OfCapacity,
        ..Default::default()
    };
    let mut spec = Spec { replicas: 8, slo: SloSpec { ttft_s: 0.5, itl_s: 0.05 }, ..tenants(sizes) };
    spec.engine = EngineSpec { blocks: 26_700, max_batch: 128, token_budget: 2048, max_context: 8192, ..spec.engine };
    spec.execution.cost = "h100_llama3_8b".into();
    let question = "Does affinity still matter on eight large GPUs?";
    ask_soonest(preset("datacenter", "Eight H100s, four hundred tenants", question, spec))
}
