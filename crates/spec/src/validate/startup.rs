//! Limits of cold starts and probes, and what must hold between their settings.

use super::{Limit, SpecError, real, whole};
use crate::experiment::{ProbeSpec, Spec};

/// A day: longer starts are not starts.
const DAY_S: f64 = 86_400.0;

pub(super) const LIMITS: &[Limit] = &[
    real("startup.parameters_b", 0.0, 10_000.0, "billions"),
    real("startup.bits", 1.0, 64.0, "bits"),
    whole("startup.tensor_parallel", 1, 64, "GPUs"),
    whole("startup.nodes", 1, 64, "nodes"),
    real("startup.node_s", 0.0, DAY_S, "s"),
    real("startup.image_gb", 0.0, 10_000.0, "GB"),
    real("startup.registry_gb_s", 0.001, 10_000.0, "GB/s"),
    real("startup.unpack_gb_s", 0.001, 10_000.0, "GB/s"),
    real("startup.store_gb_s", 0.001, 10_000.0, "GB/s"),
    real("startup.reader_gb_s", 0.0, 10_000.0, "GB/s"),
    real("startup.nvme_gb_s", 0.001, 10_000.0, "GB/s"),
    real("startup.device_gb_s", 0.001, 10_000.0, "GB/s"),
    real("startup.process_s", 0.0, DAY_S, "s"),
    real("startup.process_local_s", 0.0, DAY_S, "s"),
    real("startup.allocator_s", 0.0, DAY_S, "s"),
    real("startup.compile_s", 0.0, DAY_S, "s"),
    real("startup.compile_cached_s", 0.0, DAY_S, "s"),
    real("startup.graphs_s", 0.0, DAY_S, "s"),
    real("startup.graphs_few_s", 0.0, DAY_S, "s"),
    real("startup.warm_up_s", 0.0, DAY_S, "s"),
    whole("startup.warm_spares", 0, 512, ""),
    real("startup.probes.startup.delay_s", 0.0, DAY_S, "s"),
    real("startup.probes.startup.period_s", 0.001, 3600.0, "s"),
    real("startup.probes.startup.timeout_s", 0.001, 3600.0, "s"),
    whole("startup.probes.startup.failures", 1, 10_000, ""),
    whole("startup.probes.startup.successes", 1, 10_000, ""),
    real("startup.probes.readiness.delay_s", 0.0, DAY_S, "s"),
    real("startup.probes.readiness.period_s", 0.001, 3600.0, "s"),
    real("startup.probes.readiness.timeout_s", 0.001, 3600.0, "s"),
    whole("startup.probes.readiness.failures", 1, 10_000, ""),
    whole("startup.probes.readiness.successes", 1, 10_000, ""),
    real("startup.probes.liveness.delay_s", 0.0, DAY_S, "s"),
    real("startup.probes.liveness.period_s", 0.001, 3600.0, "s"),
    real("startup.probes.liveness.timeout_s", 0.001, 3600.0, "s"),
    whole("startup.probes.liveness.failures", 1, 10_000, ""),
    whole("startup.probes.liveness.successes", 1, 10_000, ""),
    real("startup.probes.answer_s", 0.0, 3600.0, "s"),
    real("startup.probes.answer_per_request_s", 0.0, 3600.0, "s"),
];

pub(super) fn check(spec: &Spec) -> Result<(), SpecError> {
    let s = &spec.startup;
    // An optimisation that makes things worse is a slip of the pen.
    for (better, with, worse, without) in [
        ("process_local_s", s.process_local_s, "process_s", s.process_s),
        ("compile_cached_s", s.compile_cached_s, "compile_s", s.compile_s),
        ("graphs_few_s", s.graphs_few_s, "graphs_s", s.graphs_s),
    ] {
        if with > without {
            let accepted = format!("accepted is at most startup.{worse}, which is {without}");
            return Err(SpecError::new(format!("startup.{better}"), with, accepted));
        }
    }
    if s.nodes > s.tensor_parallel {
        let accepted = format!("accepted is at most startup.tensor_parallel, which is {}", s.tensor_parallel);
        return Err(SpecError::new("startup.nodes", s.nodes, accepted));
    }
    if s.streamed && s.mapped {
        let accepted = "accepted is one of startup.streamed and startup.mapped: weights are either sent as they come or read when touched";
        return Err(SpecError::new("startup.mapped", "on", accepted));
    }
    for (kind, probe) in [("startup", &s.probes.startup), ("liveness", &s.probes.liveness)] {
        one_success(kind, probe)?;
    }
    Ok(())
}

fn one_success(kind: &str, probe: &ProbeSpec) -> Result<(), SpecError> {
    if probe.successes == 1 {
        return Ok(());
    }
    let field = format!("startup.probes.{kind}.successes");
    Err(SpecError::new(field, probe.successes, "accepted is 1: Kubernetes lets only readiness ask for more"))
}
