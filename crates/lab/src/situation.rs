//! From a spec's sections on ticks, signals and events to the fleet's settings.

use servelab_engine::Nanos;
use servelab_fleet::FleetConfig;
use servelab_fleet::config::{Change, ChangeKind, Slow};
use servelab_fleet::replica::tick::TickConfig;
use servelab_fleet::telemetry::TelemetryConfig;
use servelab_spec::experiment::{Spec, TickSpec};

/// `config` with the seed, the signals and the events of `spec`.
pub(crate) fn apply(spec: &Spec, config: FleetConfig) -> FleetConfig {
    let (routing, events) = (&spec.routing, &spec.events);
    let telemetry = TelemetryConfig {
        routers: routing.routers,
        scrape: Nanos::from_secs(routing.scrape_s),
        event_delay: Nanos::from_secs(routing.event_delay_s),
        event_loss: routing.event_loss,
    };
    let at = |at_s: f64, what| Change { at: Nanos::from_secs(at_s), what };
    let join = ChangeKind::Join { warm_up: Nanos::from_secs(events.warm_up_s), honest: events.honest_readiness };
    let mut changes = vec![at(events.join_at_s, join); events.join as usize];
    let leaving = spec.replicas.saturating_sub(events.leave)..spec.replicas;
    changes.extend(leaving.map(|replica| at(events.leave_at_s, ChangeKind::Leave { replica })));
    if events.restart {
        changes.push(at(events.restart_at_s, ChangeKind::RestartRouters));
    }
    let slow = (events.slow > 0).then_some(Slow { replicas: events.slow, factor: events.slow_factor });
    FleetConfig { seed: spec.seed, telemetry, changes, slow, ..config }
}

/// A tick replica's settings.
pub(crate) fn tick(spec: &TickSpec) -> TickConfig {
    TickConfig {
        tick: Nanos::from_secs(spec.tick_s),
        prefixes: spec.prefixes,
        hit_ticks: spec.hit_ticks,
        miss_ticks: spec.miss_ticks,
    }
}
