//! From a spec's section on the gateway to the fleet's settings.

use servelab_engine::Nanos;
use servelab_fleet::gateway::bucket::Rate;
use servelab_fleet::gateway::codel::CodelConfig;
use servelab_fleet::gateway::gradient::{GradientConfig, RoundTrip};
use servelab_fleet::gateway::length::LengthConfig;
use servelab_fleet::gateway::ramp::RampConfig;
use servelab_fleet::gateway::rate_limit::RateLimitConfig;
use servelab_fleet::gateway::retry_after::{RetryAfter, RetryAfterMode};
use servelab_fleet::gateway::retry_cap::RetryCapConfig;
use servelab_fleet::gateway::saturation::{Detector, HoldBackConfig, ShedConfig, ShedRule};
use servelab_fleet::gateway::success_rate::SuccessRateConfig;
use servelab_fleet::gateway::token_budget::TokenBudgetConfig;
use servelab_fleet::gateway::{
    ChainConfig, ClassConfig, GateConfig, GatewayConfig, Order, QueueConfig, StageConfig, Within, class_of,
};
use servelab_spec::experiment::{
    DetectorKind, GatewaySpec, GradientKind, OrderKind, RefuseWith, RetryAfterKind, ShedKind, Spec,
};

/// Retries saved up at most, where only a share is told: Finagle's and tower's reserve of 10 a second over their window of 10 s.
const RETRY_RESERVE: u32 = 100;

/// The gateway of `spec`.
pub(crate) fn gateway(spec: &Spec) -> GatewayConfig {
    let gateway = &spec.gateway;
    if !gateway.on {
        return GatewayConfig::AcceptAll;
    }
    GatewayConfig::Chain(Box::new(ChainConfig {
        classes: classes(gateway),
        stages: stages(gateway),
        in_flight: if gateway.in_flight == 0 { u32::MAX } else { gateway.in_flight },
        gates: gates(gateway),
        queue: queue(gateway),
        refuse_with: match gateway.refuse_with {
            RefuseWith::TooMany => 429,
            RefuseWith::Unavailable => 503,
        },
        retry_after: RetryAfter {
            mode: match gateway.retry_after {
                RetryAfterKind::Nothing => RetryAfterMode::Nothing,
                RetryAfterKind::Fixed => RetryAfterMode::Fixed,
                RetryAfterKind::Computed => RetryAfterMode::Computed,
            },
            fixed: Nanos::from_secs(gateway.retry_after_s),
            spread: Nanos::from_secs(gateway.retry_spread_s),
            whole_seconds: gateway.retry_whole,
        },
    }))
}

/// The classes; a text that is none has been refused before.
pub(crate) fn classes(gateway: &GatewaySpec) -> Vec<ClassConfig> {
    let classes = gateway.class_list().unwrap_or_default().into_iter();
    let config = |class: servelab_spec::experiment::ClassSpec| ClassConfig {
        name: class.name,
        priority: class.priority,
        weight: class.weight,
        tenants: class.tenants,
    };
    classes.map(config).collect()
}

/// How many priority classes there are, and the one of each tenant.
pub(crate) fn classed(spec: &Spec, tenants: u32) -> (usize, Vec<usize>) {
    let classes = if spec.gateway.on { classes(&spec.gateway) } else { Vec::new() };
    let class_of =
        if classes.is_empty() { Vec::new() } else { (0..tenants).map(|of| class_of(&classes, of)).collect() };
    (classes.len(), class_of)
}

/// From the cheapest look to the one that reserves most.
fn stages(gateway: &GatewaySpec) -> Vec<StageConfig> {
    let mut stages = Vec::new();
    if gateway.max_prompt > 0 || gateway.max_output > 0 {
        stages
            .push(StageConfig::Length(LengthConfig { max_prompt: gateway.max_prompt, max_output: gateway.max_output }));
    }
    if gateway.max_attempt > 0 || gateway.retry_ratio > 0.0 {
        stages.push(StageConfig::RetryCap(RetryCapConfig {
            max_attempt: gateway.max_attempt,
            per_thousand: libm::round(gateway.retry_ratio * 1000.0) as u32,
            reserve: RETRY_RESERVE,
        }));
    }
    if gateway.success_rate {
        stages.push(StageConfig::SuccessRate(SuccessRateConfig {
            window_s: gateway.success_window_s,
            threshold: gateway.success_threshold,
            aggression: 1.0,
            most: 0.8,
        }));
    }
    let rule = match gateway.shed {
        ShedKind::Off => None,
        ShedKind::WhenFull => Some(ShedRule::WhenFull),
        ShedKind::Gradually => Some(ShedRule::Gradually { factor: 300.0, exponent: 5.0 }),
    };
    stages.extend(rule.map(|rule| StageConfig::Shed(ShedConfig { detector: detector(gateway), rule })));
    if gateway.rate_per_s > 0.0 {
        let rate = Rate::new(gateway.rate_per_s, gateway.rate_burst.into());
        stages.push(StageConfig::RateLimit(RateLimitConfig { rate }));
    }
    if gateway.tokens_per_s > 0.0 {
        let rate = Rate::new(gateway.tokens_per_s, gateway.tokens_burst.into());
        stages.push(StageConfig::TokenBudget(TokenBudgetConfig { rate }));
    }
    stages
}

fn gates(gateway: &GatewaySpec) -> Vec<GateConfig> {
    let mut gates = Vec::new();
    if gateway.concurrency > 0 {
        gates.push(GateConfig::Concurrency { limit: gateway.concurrency });
    }
    let round_trip = match gateway.gradient {
        GradientKind::Off => None,
        GradientKind::FirstToken => Some(RoundTrip::FirstToken),
        GradientKind::Answer => Some(RoundTrip::Answer),
    };
    let envoy = |round_trip| GateConfig::Gradient(GradientConfig { round_trip, ..GradientConfig::ENVOY });
    gates.extend(round_trip.map(envoy));
    if gateway.hold_back {
        let share = gateway.hold_back_share;
        gates.push(GateConfig::HoldBack(HoldBackConfig { detector: detector(gateway), share }));
    }
    if gateway.ramp_s > 0.0 {
        gates.push(GateConfig::Ramp(RampConfig {
            window: Nanos::from_secs(gateway.ramp_s),
            least: gateway.ramp_least,
            aggression: 1.0,
            full: gateway.ramp_full,
        }));
    }
    gates
}

fn detector(gateway: &GatewaySpec) -> Detector {
    match gateway.detector {
        DetectorKind::Metrics => Detector::Metrics {
            queue: gateway.full_queue,
            kv: gateway.full_kv,
            stale_after: Nanos::from_secs(gateway.stale_s),
        },
        DetectorKind::InFlight => Detector::InFlight { per_replica: gateway.full_in_flight },
    }
}

fn queue(gateway: &GatewaySpec) -> QueueConfig {
    let codel = (gateway.codel_target_s > 0.0).then(|| CodelConfig {
        target: Nanos::from_secs(gateway.codel_target_s),
        interval: Nanos::from_secs(gateway.codel_interval_s),
        lifo: gateway.lifo,
    });
    QueueConfig {
        capacity: gateway.queue,
        capacity_tokens: gateway.queue_tokens.into(),
        order: match gateway.order {
            OrderKind::Strict => Order::Strict,
            OrderKind::Weighted => Order::Weighted,
        },
        within: if gateway.turns { Within::Tenants } else { Within::ComeFirst },
        ttl: Nanos::from_secs(gateway.ttl_s),
        hold_empty: gateway.hold_empty,
        empty_ttl: Nanos::from_secs(gateway.empty_ttl_s),
        codel,
    }
}
