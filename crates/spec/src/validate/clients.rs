//! Limits of clients, faults and server replicas, and what must hold between them and the rest.

use super::{Limit, MAX_POLICIES, SpecError, check_name, real, whole};
use crate::experiment::{ExecutionMode, Remedy, Spec};

pub(super) const LIMITS: &[Limit] = &[
    whole("clients.processes", 1, 2_000, ""),
    whole("clients.users", 1, 1_000_000, ""),
    real("clients.think_s", 0.0, 86_400.0, "s"),
    real("clients.patience_s", 0.0, 1e6, "s"),
    whole("faults.down", 0, 512, ""),
    real("faults.down_at_s", 0.0, 1e6, "s"),
    real("faults.down_s", 0.001, 1e6, "s"),
    whole("faults.split", 0, 512, ""),
    real("faults.split_at_s", 0.0, 1e6, "s"),
    real("faults.split_s", 0.001, 1e6, "s"),
    real("faults.stale_at_s", 0.0, 1e6, "s"),
    real("faults.stale_s", 0.001, 1e6, "s"),
    real("faults.errors", 0.0, 1.0, ""),
    real("faults.errors_at_s", 0.0, 1e6, "s"),
    real("faults.errors_s", 0.001, 1e6, "s"),
    whole("faults.poison_request", 0, 1_000_000, ""),
    real("faults.poison_restart_s", 0.001, 1e6, "s"),
    real("faults.reject_cost_s", 0.0, 3600.0, "s"),
    real("faults.remedy_at_s", 0.0, 1e6, "s"),
    real("faults.remedy_share", 0.0, 1.0, ""),
    real("faults.remedy_for_s", 0.0, 1e6, "s"),
    real("faults.remedy_times", 1.0, 1000.0, ""),
    whole("server.slots", 1, 1_000_000, ""),
    real("server.service_s", 0.000_001, 3600.0, "s"),
    real("server.crowding_s", 0.0, 3600.0, "s"),
    whole("server.queue", 0, 10_000_000, ""),
];

pub(super) fn check(spec: &Spec) -> Result<(), SpecError> {
    let clients = &spec.clients;
    // What else is said of clients is kept for when they are switched on again. A remedy would do nothing and not say so.
    if !clients.on && matches!(spec.faults.remedy, Remedy::Budgets | Remedy::Cancel) {
        let found = if spec.faults.remedy == Remedy::Budgets { "budgets" } else { "cancel" };
        let accepted = "it acts on clients: use clients.on=on, or another remedy, or faults.remedy=none";
        return Err(SpecError::new("faults.remedy", found, accepted));
    }
    let limited = spec.execution.mode == ExecutionMode::Server
        || (spec.gateway.on && (spec.gateway.in_flight > 0 || spec.gateway.concurrency > 0 || spec.gateway.queue > 0));
    if spec.faults.remedy == Remedy::RaiseLimits && !limited {
        let accepted = "needs limits to raise: execution.mode=server, or a gateway with a limit on what is in flight or held (gateway.in_flight, gateway.concurrency, gateway.queue)";
        return Err(SpecError::new("faults.remedy", "raise_limits", accepted));
    }
    for (index, policy) in clients.policies.iter().enumerate() {
        let field = format!("clients.policies.{index}");
        check_name(&format!("{field}.name"), &policy.name)?;
        for (param, value) in &policy.params {
            check_name(&format!("{field}.params"), param)?;
            if !value.is_finite() {
                return Err(SpecError::new(format!("{field}.params.{param}"), value, "accepted is a finite number"));
            }
        }
        if clients.policies[..index].contains(policy) {
            let accepted = "accepted is each client policy once with the same parameters";
            return Err(SpecError::new(field, &policy.name, accepted));
        }
    }
    if clients.policies.len() > MAX_POLICIES || spec.contenders().len() > MAX_POLICIES {
        let found = format!("{} with each of {} other runs", clients.policies.len(), spec.policies.len());
        return Err(SpecError::new(
            "clients.policies",
            found,
            format!("accepted are at most {MAX_POLICIES} runs in all"),
        ));
    }
    for (field, many) in [("faults.down", spec.faults.down), ("faults.split", spec.faults.split)] {
        if many > spec.replicas {
            let accepted = format!("accepted is at most {}, the number of replicas", spec.replicas);
            return Err(SpecError::new(field, many, accepted));
        }
    }
    if spec.faults.poison && spec.faults.poison_request >= spec.workload.requests() {
        let accepted = format!("accepted is below {}, the number of requests", spec.workload.requests());
        return Err(SpecError::new("faults.poison_request", spec.faults.poison_request, accepted));
    }
    if spec.execution.mode == ExecutionMode::Server && spec.scaling.on && spec.server.slots > 1000 {
        return Err(SpecError::new(
            "server.slots",
            spec.server.slots,
            "accepted is at most 1000 in a fleet that scales",
        ));
    }
    Ok(())
}
