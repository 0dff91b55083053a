//! Limits of the gateway's settings and of the engine's queue, and what must hold between them and the rest.

use super::{Limit, SpecError, real, whole};
use crate::experiment::{DetectorKind, ExecutionMode, ShedKind, Spec};

/// A day.
const DAY_S: f64 = 86_400.0;

pub(super) const LIMITS: &[Limit] = &[
    whole("engine.max_queued", 0, 1_000_000, "requests"),
    whole("engine.max_queued_tokens", 0, 1_000_000_000, "tokens"),
    real("engine.queue_ttl_s", 0.0, DAY_S, "s"),
    real("engine.max_wait_s", 0.0, DAY_S, "s"),
    whole("gateway.max_prompt", 0, 2_000_000, "tokens"),
    whole("gateway.max_output", 0, 2_000_000, "tokens"),
    whole("gateway.max_attempt", 0, 1000, "attempts"),
    real("gateway.retry_ratio", 0.0, 1.0, "retries per request"),
    real("gateway.success_threshold", 0.01, 1.0, ""),
    whole("gateway.success_window_s", 1, 3600, "s"),
    real("gateway.rate_per_s", 0.0, 1e6, "requests/s"),
    whole("gateway.rate_burst", 1, 1_000_000, "requests"),
    real("gateway.tokens_per_s", 0.0, 1e9, "tokens/s"),
    whole("gateway.tokens_burst", 1, 1_000_000_000, "tokens"),
    whole("gateway.in_flight", 0, 100_000, "attempts"),
    whole("gateway.concurrency", 0, 1_000_000, "attempts"),
    real("gateway.hold_back_share", 0.0, 1.0, ""),
    real("gateway.full_queue", 0.01, 100_000.0, "requests"),
    real("gateway.full_kv", 0.01, 1.0, ""),
    real("gateway.full_in_flight", 0.01, 100_000.0, "attempts"),
    real("gateway.stale_s", 0.0, 3600.0, "s"),
    real("gateway.ramp_s", 0.0, DAY_S, "s"),
    real("gateway.ramp_least", 0.0, 1.0, ""),
    whole("gateway.ramp_full", 1, 100_000, "attempts"),
    whole("gateway.queue", 0, 1_000_000, "attempts"),
    whole("gateway.queue_tokens", 0, 1_000_000_000, "tokens"),
    real("gateway.ttl_s", 0.0, DAY_S, "s"),
    real("gateway.empty_ttl_s", 0.0, DAY_S, "s"),
    real("gateway.codel_target_s", 0.0, 3600.0, "s"),
    real("gateway.codel_interval_s", 0.001, 3600.0, "s"),
    real("gateway.retry_after_s", 0.0, 3600.0, "s"),
    real("gateway.retry_spread_s", 0.0, 3600.0, "s"),
];

pub(super) fn check(spec: &Spec) -> Result<(), SpecError> {
    let gateway = &spec.gateway;
    let classes = gateway.class_list()?;
    if spec.execution.mode == ExecutionMode::Tick {
        let needs = "accepted is 0 in a run in ticks: its replicas have no queue of this kind";
        let queue = [
            ("max_queued", f64::from(spec.engine.max_queued)),
            ("max_queued_tokens", f64::from(spec.engine.max_queued_tokens)),
            ("queue_ttl_s", spec.engine.queue_ttl_s),
            ("max_wait_s", spec.engine.max_wait_s),
        ];
        if let Some((field, value)) = queue.into_iter().find(|(_, value)| *value > 0.0) {
            return Err(SpecError::new(format!("engine.{field}"), value, needs));
        }
    }
    if !gateway.on {
        return Ok(());
    }
    let tenants = spec.workload.tenants();
    if let Some(tenant) = classes.iter().flat_map(|class| &class.tenants).find(|&&tenant| tenant >= tenants) {
        let found = format!("tenant number {}", tenant + 1);
        return Err(SpecError::new("gateway.classes", found, format!("accepted are the workload's {tenants} tenants")));
    }
    let longest = spec.longest_request();
    if gateway.tokens_per_s > 0.0 && u64::from(gateway.tokens_burst) < longest {
        let accepted = format!("accepted is at least {longest}, the longest request: a smaller bucket never has room");
        return Err(SpecError::new("gateway.tokens_burst", gateway.tokens_burst, accepted));
    }
    if gateway.shed != ShedKind::Off && classes.iter().all(|class| class.priority >= 0) {
        let accepted = "accepted is off unless a class in gateway.classes has a negative priority: only that is shed";
        return Err(SpecError::new("gateway.shed", "on", accepted));
    }
    let metrics = gateway.detector == DetectorKind::Metrics && (gateway.hold_back || gateway.shed != ShedKind::Off);
    if metrics && spec.execution.mode == ExecutionMode::Tick {
        let accepted = "accepted is in_flight in a run in ticks: its replicas have no metrics to scrape";
        return Err(SpecError::new("gateway.detector", "metrics", accepted));
    }
    let waits = gateway.queue > 0 && gateway.hold_back && gateway.detector == DetectorKind::Metrics;
    if waits && gateway.ttl_s == 0.0 {
        let accepted = "accepted is above 0 with gateway.hold_back by metrics: when they grow stale nobody passes, and the run would not end";
        return Err(SpecError::new("gateway.ttl_s", 0, accepted));
    }
    if gateway.hold_empty && gateway.queue == 0 {
        let accepted = "accepted is off with gateway.queue=0: there is nowhere to wait";
        return Err(SpecError::new("gateway.hold_empty", "on", accepted));
    }
    Ok(())
}
