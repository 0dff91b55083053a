//! A fleet for a trace: the experiment that asks which router is best for this traffic, as a start for one's own.

use super::Traffic;
use crate::{costs, presets};
use servelab_engine::cost::CostModel;
use servelab_spec::experiment::{PolicySpec, Spec, TraceSpec, WorkloadSpec};

/// Share of what the fleet could serve without any reuse that a trace offers it: queues are felt, and the fleet keeps up.
const LOAD: f64 = 0.7;

/// Fewest and most replicas of a proposal.
const REPLICAS: (f64, f64) = (4.0, 64.0);

/// Who is compared: turns, load, affinity, and the three routers that people deploy most.
const POLICIES: [&str; 5] = ["round_robin", "least_tokens", "prefix_affinity", "sglang_cache_aware", "llm_d_default"];

/// Large GPUs, as many as the trace keeps busy, and limits that its longest request fits. `trace` must be on the shelf.
pub fn propose(traffic: &Traffic) -> Spec {
    let mut spec = presets::find("datacenter").map_or_else(Spec::default, |preset| preset.spec);
    let engine = &mut spec.engine;
    let pool = u64::from(engine.blocks) * u64::from(engine.block_tokens);
    // What no pool holds would be refused; the beginning of it can be served.
    let output_cap = (traffic.output.max as u64).clamp(1, 100_000).min(pool / 4) as u32;
    let most = pool.saturating_sub(u64::from(output_cap) + u64::from(engine.block_tokens));
    let prompt_cap = (traffic.prompt.max as u64).clamp(1, most.clamp(1, 1_800_000)) as u32;
    engine.max_context = engine.max_context.max(prompt_cap + output_cap);
    spec.workload = WorkloadSpec::Trace(TraceSpec {
        trace: traffic.trace.clone(),
        tenants: (traffic.tenants.len() as u32).clamp(1, 8),
        prompt_cap,
        output_cap,
        ..TraceSpec::default()
    });
    spec.policies = POLICIES.map(PolicySpec::named).into();
    if let Ok(coefficients) = costs::resolve(&spec) {
        let each = costs::replica_capacity_per_s(&spec, &CostModel::from_coefficients(&coefficients), 0.0);
        let replicas = libm::ceil(traffic.rate_per_s / (LOAD * each));
        spec.replicas = replicas.clamp(REPLICAS.0, REPLICAS.1) as u32;
    }
    spec
}
