//! Limits hold at their edges, and every refusal names field, value and range.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::experiment::{
    AgentTreeSpec, Coefficients, LongShortSpec, MultiTenantSpec, PolicySpec, SessionsSpec, WorkloadSpec,
};

fn tenant(spec: &mut Spec) -> &mut MultiTenantSpec {
    match &mut spec.workload {
        WorkloadSpec::MultiTenant(w) => w,
        _ => unreachable!("the default workload is multi-tenant"),
    }
}

/// The field that validation blames after `change`.
fn blamed(change: impl FnOnce(&mut Spec)) -> String {
    let mut spec = Spec::default();
    change(&mut spec);
    spec.validate().expect_err("must be refused").field
}

#[test]
fn the_default_is_valid() {
    Spec::default().validate().unwrap();
    Spec { workload: WorkloadSpec::BookTrace, ..Spec::default() }.validate().unwrap();
}

#[test]
fn edges_are_inside_and_beyond_is_outside() {
    for limit in LIMITS {
        limit.check(limit.min).unwrap();
        limit.check(limit.max).unwrap();
        for beyond in [limit.min - 1.0, limit.max + 1.0, f64::NAN, f64::INFINITY] {
            // Adding 1 to 2^53 - 1 is still exact, so the edge of the seed is tested as well.
            let error = limit.check(beyond).expect_err(limit.key);
            assert_eq!(error.field, limit.key);
            assert!(error.accepted.contains("from"), "{error}");
        }
        assert_eq!(limit.check(limit.min + 0.25).is_err(), limit.integer, "{}", limit.key);
    }
}

#[test]
fn each_rule_blames_its_field() {
    assert_eq!(blamed(|s| s.version = 2), "version");
    assert_eq!(blamed(|s| s.version = 0), "version");
    assert_eq!(blamed(|s| s.seed = MAX_SEED + 1), "seed");
    assert_eq!(blamed(|s| s.replicas = 0), "replicas");
    assert_eq!(blamed(|s| s.replicas = 513), "replicas");
    assert_eq!(blamed(|s| s.preset = "A B".into()), "preset");
    assert_eq!(blamed(|s| s.policies.clear()), "policies");
    assert_eq!(blamed(|s| s.policies[1].name = "<b>".into()), "policies.1.name");
    assert_eq!(blamed(|s| s.policies[1] = s.policies[0].clone()), "policies.1");
    assert_eq!(blamed(|s| s.policies[2] = PolicySpec::named("x").with("guard", f64::NAN)), "policies.2.params.guard");
    let seven: Vec<_> = (0..7).map(|i| PolicySpec::named(&format!("p{i}"))).collect();
    assert_eq!(blamed(|s| s.policies = seven), "policies");
    assert_eq!(blamed(|s| tenant(s).rate = f64::NAN), "workload.rate");
    assert_eq!(blamed(|s| tenant(s).rate = 0.0), "workload.rate");
    assert_eq!(blamed(|s| tenant(s).user_min = 33), "workload.user_min");
    assert_eq!(blamed(|s| tenant(s).output_max = 4000), "engine.max_context");
    assert_eq!(blamed(|s| s.engine.token_budget = 7), "engine.token_budget");
    assert_eq!(blamed(|s| s.engine.watermark = 0.6), "engine.watermark");
    assert_eq!(blamed(|s| (s.replicas, s.engine.blocks) = (512, 1_000_000)), "engine.blocks");
    assert_eq!(blamed(|s| s.slo.itl_s = -1.0), "slo.itl_s");
    for mode in [ExecutionMode::Tick, ExecutionMode::Tinygpt] {
        assert_eq!(blamed(|s| (s.store.blocks, s.execution.mode) = (10, mode)), "store.blocks");
    }
    assert_eq!(blamed(|s| (s.store.blocks, s.engine.prefix_cache) = (10, false)), "store.blocks");
    assert_eq!(blamed(|s| s.store.link_gb_per_s = 0.0), "store.link_gb_per_s");
    let priced_by_hand = |bytes: u32| {
        let mut spec = Spec::default();
        spec.execution.cost = "custom".into();
        spec.execution.coefficients = Some(Coefficients { step_us: 5.0, ..Coefficients::default() });
        (spec.store.blocks, spec.store.token_bytes) = (10, bytes);
        spec.validate().map_err(|error| error.field)
    };
    assert_eq!((priced_by_hand(0), priced_by_hand(1)), (Err("store.token_bytes".into()), Ok(())));
    assert_eq!(blamed(|s| s.execution.cost = "custom".into()), "execution.coefficients");
    assert_eq!(
        blamed(|s| {
            s.execution.cost = "custom".into();
            s.execution.coefficients = Some(Coefficients::default());
        }),
        "execution.coefficients"
    );
    assert_eq!(
        blamed(|s| {
            let c = Coefficients { step_us: 5.0, ..Coefficients::default() };
            s.execution.coefficients = Some(c);
        }),
        "execution.coefficients"
    );
    assert_eq!(
        blamed(|s| {
            let c = Coefficients { step_us: f64::INFINITY, ..Coefficients::default() };
            s.execution.coefficients = Some(c);
        }),
        "execution.coefficients.step_us"
    );
    assert_eq!(
        blamed(|s| {
            s.execution.mode = ExecutionMode::Tinygpt;
            s.engine.max_context = 4096;
        }),
        "engine.max_context"
    );
    assert_eq!(
        blamed(|s| {
            s.execution.mode = ExecutionMode::Tinygpt;
            s.replicas = 64;
        }),
        "engine.blocks"
    );
    assert_eq!(
        blamed(|s| {
            s.execution.mode = ExecutionMode::Tick;
            s.tick.tick_s = 3600.0;
            s.tick.miss_ticks = 10_000;
        }),
        "tick.tick_s"
    );
}

#[test]
fn each_workload_has_rules_of_its_own() {
    let blamed = |workload: WorkloadSpec| blamed(|spec| spec.workload = workload);
    let sessions = SessionsSpec::default();
    let longer = SessionsSpec { turns_max: 100, ..sessions.clone() };
    assert_eq!(blamed(WorkloadSpec::Sessions(longer)), "engine.max_context");
    assert_eq!(blamed(WorkloadSpec::Sessions(SessionsSpec { turns_min: 9, ..sessions.clone() })), "workload.turns_min");
    assert_eq!(blamed(WorkloadSpec::Sessions(SessionsSpec { think_s: -1.0, ..sessions })), "workload.think_s");
    let tree = AgentTreeSpec { branches: 64, depth: 3, ..AgentTreeSpec::default() };
    assert_eq!(tree.agents(), 1 + 64 + 64 * 64 + 64 * 64 * 64);
    assert_eq!(blamed(WorkloadSpec::AgentTree(tree)), "workload.branches");
    let tree = AgentTreeSpec { task_min: 513, ..AgentTreeSpec::default() };
    assert_eq!(blamed(WorkloadSpec::AgentTree(tree)), "workload.task_min");
    let long = LongShortSpec { document_min: 2000, ..LongShortSpec::default() };
    assert_eq!(blamed(WorkloadSpec::LongShort(long)), "workload.document_min");
    let long = LongShortSpec { documents: 1000, document_max: 1_000_000, ..LongShortSpec::default() };
    assert_eq!(blamed(WorkloadSpec::LongShort(long)), "workload.documents");
    let live = |workload: WorkloadSpec| {
        let mut spec = Spec { workload, ..Spec::default() };
        spec.execution.mode = ExecutionMode::Tinygpt;
        spec.validate()
    };
    assert_eq!(live(WorkloadSpec::Sessions(SessionsSpec::default())).expect_err("no").field, "workload.kind");
    live(WorkloadSpec::AgentTree(AgentTreeSpec::default())).unwrap();
}

#[test]
fn a_newer_version_is_refused_with_a_sentence() {
    let error = Spec { version: 9, ..Spec::default() }.validate().expect_err("newer");
    assert_eq!(
        error.to_string(),
        "version: 9 is not accepted; this ServeLab reads spec versions 1 to 1; a newer ServeLab made this"
    );
}

#[test]
fn cold_starts_and_probes_blame_their_field() {
    assert_eq!(blamed(|s| s.startup.node_s = -1.0), "startup.node_s");
    assert_eq!(blamed(|s| s.startup.store_gb_s = 0.0), "startup.store_gb_s");
    assert_eq!(blamed(|s| s.startup.bits = f64::NAN), "startup.bits");
    assert_eq!(blamed(|s| s.startup.tensor_parallel = 0), "startup.tensor_parallel");
    assert_eq!(blamed(|s| s.startup.nodes = 2), "startup.nodes");
    assert_eq!(blamed(|s| s.startup.compile_cached_s = 1.0), "startup.compile_cached_s");
    assert_eq!(blamed(|s| s.startup.graphs_few_s = 1.0), "startup.graphs_few_s");
    assert_eq!(blamed(|s| s.startup.process_local_s = 1.0), "startup.process_local_s");
    assert_eq!(blamed(|s| (s.startup.streamed, s.startup.mapped) = (true, true)), "startup.mapped");
    assert_eq!(blamed(|s| s.startup.probes.liveness.successes = 2), "startup.probes.liveness.successes");
    assert_eq!(blamed(|s| s.startup.probes.readiness.period_s = 0.0), "startup.probes.readiness.period_s");
    assert_eq!(blamed(|s| s.startup.probes.startup.failures = 0), "startup.probes.startup.failures");
    let mut spec = Spec::default();
    (spec.startup.compile_s, spec.startup.compile_cached_s) = (40.0, 13.0);
    spec.startup.probes.readiness.successes = 2;
    spec.validate().unwrap();
}
