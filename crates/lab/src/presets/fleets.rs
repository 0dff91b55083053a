//! Situations of the fleet rather than of the workload: replicas in ticks, adapters, a slow replica, routers that restart, replicas that leave.

use super::{ask_soonest, preset, tenants, unguarded};
use crate::report::verdict::{Judge, soonest};
use servelab_spec::catalog::PresetInfo;
use servelab_spec::experiment::{
    EngineSpec, EventsSpec, ExecutionMode, MultiTenantSpec, PolicySpec, RateUnit, SloSpec, Spec,
};

pub(super) fn all() -> Vec<PresetInfo> {
    vec![tick_model(), many_adapters(), slow_replica(), router_restart(), scale_in()]
}

pub(super) fn judge(name: &str) -> Option<Judge> {
    all().iter().any(|preset| preset.name == name).then_some(soonest as Judge)
}

fn named<const N: usize>(names: [&str; N]) -> Vec<PolicySpec> {
    names.into_iter().map(PolicySpec::named).collect()
}

/// Eight prompts with Zipf popularity, three remembered a replica, a tick of 100 ms and six requests a second for each of four replicas: scattered,
/// about half the requests find their prompt (an LRU of three under these draws hits .5356); at home, nearly all do, but the hottest
/// prompt alone brings its replica 8.8 requests a second of the ten it can serve.
fn tick_model() -> PresetInfo {
    let sizes = MultiTenantSpec {
        requests: 2400,
        tenants: 8,
        skew: 1.0,
        system_min: 32,
        system_max: 32,
        user_min: 1,
        user_max: 8,
        output_min: 1,
        output_max: 1,
        rate: 24.0,
        rate_unit: RateUnit::PerSecond,
        ..Default::default()
    };
    // In this model a prefix is one block and load is requests waiting: β is what one more waiting request costs against a hit.
    let blend = PolicySpec::named("blend").with("beta", 0.3);
    // The system prompt alone is the prefix.
    let hash = unguarded().with("prefix_tokens", 32.0);
    let policies = vec![PolicySpec::named("round_robin"), PolicySpec::named("least_requests"), hash, blend];
    let mut spec = Spec { policies, ..tenants(sizes) };
    spec.execution.mode = ExecutionMode::Tick;
    // Answers come whole: there is no gap between tokens to miss.
    spec.slo = SloSpec { ttft_s: 0.5, itl_s: 0.05 };
    let question = "Turns, load, a home for each prompt, or load minus affinity?";
    ask_soonest(preset("tick-model", "Eight prompts, three remembered, in ticks", question, spec))
}

/// Sixteen adapters and room for four on each of four replicas: a router that keeps an adapter's requests together loads each once.
fn many_adapters() -> PresetInfo {
    let sizes = MultiTenantSpec { requests: 400, tenants: 32, adapters: 16, rate: 0.8, ..Default::default() };
    let policies = named(["round_robin", "least_tokens", "kubeai_prefix_hash", "blend"]);
    let mut spec = Spec { policies, ..tenants(sizes) };
    spec.engine = EngineSpec { adapter_slots: 4, adapter_blocks: 8, adapter_load_s: 0.2, ..spec.engine };
    let question = "Sixteen adapters, room for four on a replica: who avoids loading them again and again?";
    ask_soonest(preset("many-adapters", "Many LoRA adapters", question, spec))
}

/// One of four replicas takes three times as long for every step. Turns and hashes do not see it; what is in flight there does.
fn slow_replica() -> PresetInfo {
    let sizes = MultiTenantSpec { requests: 300, tenants: 24, rate: 0.9, ..Default::default() };
    let policies = named(["round_robin", "least_requests", "power_of_two", "prefix_affinity"]);
    let events = EventsSpec { slow: 1, slow_factor: 3.0, ..EventsSpec::default() };
    let spec = Spec { policies, events, ..tenants(sizes) };
    ask_soonest(preset("slow-replica", "One slow replica", "One replica is three times slower: who notices?", spec))
}

/// Half-way through, the routers forget everything. What a hash or a turn decides needs no memory; an index must be learnt again.
fn router_restart() -> PresetInfo {
    let sizes = MultiTenantSpec { requests: 400, tenants: 24, rate: 1.1, ..Default::default() };
    let mut policies = named(["round_robin", "prefix_affinity", "sglang_cache_aware", "llm_d_default"]);
    // The guard counts what is in flight, and those counts are gone too; the hash alone remembers nothing.
    policies[1] = unguarded();
    let events = EventsSpec { restart: true, restart_at_s: 20.0, ..EventsSpec::default() };
    let spec = Spec { policies, events, ..tenants(sizes) };
    let question = "The router restarts and its index is gone: who has to start over?";
    ask_soonest(preset("router-restart", "The router restarts", question, spec))
}

/// Two of six replicas leave, their caches with them. Rendezvous moves what they held and nothing else; modulo moves nearly everything.
fn scale_in() -> PresetInfo {
    let sizes = MultiTenantSpec { requests: 400, tenants: 36, rate: 0.8, ..Default::default() };
    let modulo = PolicySpec::named("prefix_modulo").with("guard", 0.0);
    let policies = vec![PolicySpec::named("least_tokens"), modulo, unguarded(), PolicySpec::named("prefix_affinity")];
    let events = EventsSpec { leave: 2, leave_at_s: 15.0, ..EventsSpec::default() };
    let spec = Spec { replicas: 6, policies, events, ..tenants(sizes) };
    let question = "Two replicas leave and their caches with them: what has to be computed again?";
    ask_soonest(preset("scale-in", "Two replicas leave", question, spec))
}
