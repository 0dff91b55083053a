//! Any gateway, and any limits of an engine's queue. Times are of the order of what [`super::cost`] charges.

use proptest::prelude::*;
use servelab_engine::{Nanos, QueueConfig};
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
    ChainConfig, ClassConfig, GateConfig, GatewayConfig, Order, QueueConfig as Held, StageConfig, Within,
};

fn nanos(range: std::ops::Range<u64>) -> impl Strategy<Value = Nanos> {
    range.prop_map(Nanos)
}

fn detectors() -> impl Strategy<Value = Detector> {
    let metrics = (0.5..8.0f64, 0.1..1.0f64, nanos(0..300_000_000))
        .prop_map(|(queue, kv, stale_after)| Detector::Metrics { queue, kv, stale_after });
    prop_oneof![metrics, (1.0..10.0f64).prop_map(|per_replica| Detector::InFlight { per_replica })]
}

fn stages() -> impl Strategy<Value = StageConfig> {
    let rule = prop_oneof![
        Just(ShedRule::WhenFull),
        (1.0..300.0f64, 1.0..5.0f64).prop_map(|(factor, exponent)| ShedRule::Gradually { factor, exponent }),
    ];
    prop_oneof![
        (0u32..160, 0u32..60)
            .prop_map(|(max_prompt, max_output)| StageConfig::Length(LengthConfig { max_prompt, max_output })),
        (0u32..4, 0u32..500, 1u32..4).prop_map(|(max_attempt, per_thousand, reserve)| {
            StageConfig::RetryCap(RetryCapConfig { max_attempt, per_thousand, reserve })
        }),
        (1u32..10, 0.5..1.0f64, 1.0..3.0f64, 0.0..1.0f64).prop_map(|(window_s, threshold, aggression, most)| {
            StageConfig::SuccessRate(SuccessRateConfig { window_s, threshold, aggression, most })
        }),
        (detectors(), rule).prop_map(|(detector, rule)| StageConfig::Shed(ShedConfig { detector, rule })),
        (0.5..20.0f64, 1u64..5)
            .prop_map(|(per_s, burst)| StageConfig::RateLimit(RateLimitConfig { rate: Rate::new(per_s, burst) })),
        (50.0..2000.0f64, 100u64..600)
            .prop_map(|(per_s, burst)| StageConfig::TokenBudget(TokenBudgetConfig { rate: Rate::new(per_s, burst) })),
    ]
}

fn gates() -> impl Strategy<Value = GateConfig> {
    let round_trip = prop_oneof![Just(RoundTrip::FirstToken), Just(RoundTrip::Answer)];
    let gradient = (round_trip, 1u64..300_000_000, 0.0..1.0f64, 1u32..8, 1u32..4, 0u64..5_000_000_000);
    prop_oneof![
        (1u32..12).prop_map(|limit| GateConfig::Concurrency { limit }),
        gradient.prop_map(|(round_trip, window, quantile, min_samples, least, min_every)| {
            let (window, min_every) = (Nanos(window), Nanos(min_every));
            let envoy = GradientConfig::ENVOY;
            GateConfig::Gradient(GradientConfig {
                round_trip,
                window,
                quantile,
                min_samples,
                least,
                min_every,
                ..envoy
            })
        }),
        (detectors(), 0.0..1.0f64)
            .prop_map(|(detector, share)| GateConfig::HoldBack(HoldBackConfig { detector, share })),
        (1u64..3_000_000_000, 0.0..1.0f64, 0.5..3.0f64, 1u32..8).prop_map(|(window, least, aggression, full)| {
            GateConfig::Ramp(RampConfig { window: Nanos(window), least, aggression, full })
        }),
    ]
}

fn classes() -> impl Strategy<Value = Vec<ClassConfig>> {
    let class = (-2i32..3, 1u32..5, prop::collection::vec(0u32..5, 0..3));
    prop::collection::vec(class, 0..4).prop_map(|classes| {
        let named = (0..).zip(classes).map(|(at, (priority, weight, tenants))| ClassConfig {
            name: format!("class {at}"),
            priority,
            weight,
            tenants,
        });
        named.collect()
    })
}

fn held() -> impl Strategy<Value = Held> {
    let codel = (1u64..500_000_000, 1u64..2_000_000_000, any::<bool>())
        .prop_map(|(target, interval, lifo)| CodelConfig { target: Nanos(target), interval: Nanos(interval), lifo });
    let order = prop_oneof![Just(Order::Strict), Just(Order::Weighted)];
    let within = prop_oneof![Just(Within::ComeFirst), Just(Within::Tenants)];
    let ttl = prop_oneof![Just(Nanos::ZERO), nanos(1..3_000_000_000)];
    let empty_ttl = prop_oneof![Just(Nanos::ZERO), nanos(1..3_000_000_000)];
    let capacity_tokens = prop_oneof![Just(0u64), 100u64..1000];
    (0u32..12, capacity_tokens, order, within, ttl, any::<bool>(), empty_ttl, prop::option::of(codel)).prop_map(
        |(capacity, capacity_tokens, order, within, ttl, hold_empty, empty_ttl, codel)| Held {
            capacity,
            capacity_tokens,
            order,
            within,
            // Where a gate may stay closed for ever, something must end the wait.
            ttl: if ttl == Nanos::ZERO { Nanos(20_000_000_000) } else { ttl },
            hold_empty,
            empty_ttl,
            codel,
        },
    )
}

fn retry_after() -> impl Strategy<Value = RetryAfter> {
    let mode = prop_oneof![Just(RetryAfterMode::Nothing), Just(RetryAfterMode::Fixed), Just(RetryAfterMode::Computed)];
    (mode, nanos(0..2_000_000_000), nanos(0..2_000_000_000), any::<bool>())
        .prop_map(|(mode, fixed, spread, whole_seconds)| RetryAfter { mode, fixed, spread, whole_seconds })
}

/// Any chain.
pub fn chains() -> impl Strategy<Value = ChainConfig> {
    let in_flight = prop_oneof![Just(u32::MAX), 1u32..6];
    let code = prop_oneof![Just(429u16), Just(503)];
    let stages = prop::collection::vec(stages(), 0..4);
    let gates = prop::collection::vec(gates(), 0..3);
    (classes(), stages, in_flight, gates, held(), code, retry_after()).prop_map(
        |(classes, stages, in_flight, gates, queue, refuse_with, retry_after)| ChainConfig {
            classes,
            stages,
            in_flight,
            gates,
            queue,
            refuse_with,
            retry_after,
        },
    )
}

/// Any gateway.
pub fn gateways() -> impl Strategy<Value = GatewayConfig> {
    prop_oneof![
        2 => Just(GatewayConfig::AcceptAll),
        2 => (1u32..6, 0u32..10).prop_map(|(in_flight, capacity)| GatewayConfig::CentralQueue { in_flight, capacity }),
        6 => chains().prop_map(|chain| GatewayConfig::Chain(Box::new(chain))),
    ]
}

/// Any limits of an engine's queue; mostly none.
pub fn queues() -> impl Strategy<Value = QueueConfig> {
    let limits = (0u32..6, any::<bool>(), 0u32..300, nanos(0..1_500_000_000), nanos(0..1_500_000_000));
    prop::option::weighted(0.4, limits).prop_map(|limits| {
        let Some((max_requests, count_running, max_tokens, ttl, max_wait)) = limits else {
            return QueueConfig::default();
        };
        QueueConfig { max_requests, count_running, max_tokens, ttl, max_wait }
    })
}

/// The same with times `scale` times shorter.
pub fn hurried_queue(queue: QueueConfig, scale: u64) -> QueueConfig {
    QueueConfig { ttl: Nanos(queue.ttl.0 / scale), max_wait: Nanos(queue.max_wait.0 / scale), ..queue }
}

/// The same with the times of its queue and ramp `scale` times shorter.
pub fn hurried(gateway: GatewayConfig, scale: u64) -> GatewayConfig {
    let GatewayConfig::Chain(mut chain) = gateway else { return gateway };
    let shorter = |time: Nanos| Nanos((time.0 / scale).max(1));
    chain.queue.ttl = shorter(chain.queue.ttl);
    for gate in &mut chain.gates {
        match gate {
            GateConfig::Ramp(ramp) => ramp.window = shorter(ramp.window),
            GateConfig::Gradient(gradient) => gradient.window = shorter(gradient.window),
            _ => {}
        }
    }
    if let Some(codel) = &mut chain.queue.codel {
        (codel.target, codel.interval) = (shorter(codel.target), shorter(codel.interval));
    }
    GatewayConfig::Chain(chain)
}
