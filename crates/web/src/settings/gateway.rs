//! Which of the gateway's settings change anything as the others stand.

use servelab_spec::experiment::{DetectorKind, GatewaySpec, GradientKind, RetryAfterKind, ShedKind};

/// A part that is off has no settings that matter.
pub(super) fn matters(gateway: &GatewaySpec, key: &str) -> bool {
    if key == "gateway.on" {
        return true;
    }
    let saturation = gateway.hold_back || gateway.shed != ShedKind::Off;
    let metrics = gateway.detector == DetectorKind::Metrics;
    let queue = gateway.queue > 0;
    let closes = gateway.in_flight > 0
        || gateway.concurrency > 0
        || gateway.gradient != GradientKind::Off
        || gateway.hold_back
        || gateway.ramp_s > 0.0;
    gateway.on
        && match key {
            "gateway.success_threshold" | "gateway.success_window_s" => gateway.success_rate,
            "gateway.rate_burst" => gateway.rate_per_s > 0.0,
            "gateway.tokens_burst" => gateway.tokens_per_s > 0.0,
            "gateway.hold_back_share" => gateway.hold_back && !gateway.classes.trim().is_empty(),
            "gateway.detector" => saturation,
            "gateway.full_queue" | "gateway.full_kv" | "gateway.stale_s" => saturation && metrics,
            "gateway.full_in_flight" => saturation && !metrics,
            "gateway.ramp_least" | "gateway.ramp_full" => gateway.ramp_s > 0.0,
            "gateway.queue" => closes || gateway.hold_empty || queue,
            "gateway.order" => queue && !gateway.classes.trim().is_empty(),
            "gateway.queue_tokens"
            | "gateway.turns"
            | "gateway.ttl_s"
            | "gateway.hold_empty"
            | "gateway.codel_target_s" => queue,
            "gateway.empty_ttl_s" => queue && gateway.hold_empty,
            "gateway.codel_interval_s" | "gateway.lifo" => queue && gateway.codel_target_s > 0.0,
            "gateway.refuse_with" => closes || queue,
            "gateway.retry_after_s" | "gateway.retry_spread_s" | "gateway.retry_whole" => {
                gateway.retry_after != RetryAfterKind::Nothing
            }
            _ => true,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_off_hides_what_belongs_to_it() {
        let off = GatewaySpec::default();
        assert!(matters(&off, "gateway.on") && !matters(&off, "gateway.rate_per_s"));
        let on = GatewaySpec { on: true, ..off };
        assert!(matters(&on, "gateway.rate_per_s") && !matters(&on, "gateway.rate_burst"));
        assert!(!matters(&on, "gateway.queue") && !matters(&on, "gateway.ttl_s"));
        let queue = GatewaySpec { concurrency: 8, queue: 10, ..on };
        assert!(matters(&queue, "gateway.queue") && matters(&queue, "gateway.ttl_s"));
        assert!(!matters(&queue, "gateway.order") && !matters(&queue, "gateway.lifo"));
    }
}
