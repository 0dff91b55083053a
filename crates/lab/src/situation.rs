//! From a spec's sections on ticks, signals and events to the fleet's settings.

use crate::{admission, costs, storm};
use servelab_engine::Nanos;
use servelab_fleet::FleetConfig;
use servelab_fleet::clients::ClientsConfig;
use servelab_fleet::config::{Change, ChangeKind, Slow};
use servelab_fleet::gateway::GatewayConfig;
use servelab_fleet::overflow::{Night, OverflowConfig};
use servelab_fleet::replica::tick::TickConfig;
use servelab_fleet::scaling::{HostConfig, NodesConfig, ScalingConfig};
use servelab_fleet::store::StoreConfig;
use servelab_fleet::telemetry::TelemetryConfig;
use servelab_spec::experiment::{ExecutionMode, Spec, TickSpec, WorkloadSpec};
use servelab_workload::{Source, Survey, Workload};
use std::collections::BTreeSet;

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
    if events.deploy {
        changes.push(at(events.deploy_at_s, ChangeKind::Deploy));
    }
    if events.crash > 0 {
        changes.push(at(events.crash_at_s, ChangeKind::Crash { replicas: events.crash }));
    }
    let slow = (events.slow > 0).then_some(Slow { replicas: events.slow, factor: events.slow_factor });
    let gateway = admission::gateway(spec);
    let config = FleetConfig { seed: spec.seed, gateway, telemetry, store: store(spec), changes, slow, ..config };
    let config = storm::faults(spec, config);
    if spec.scaling.on { scaling(spec, config) } else { config }
}

/// `config` with replicas that come and go by themselves. The controller is each contender's own.
fn scaling(spec: &Spec, config: FleetConfig) -> FleetConfig {
    let scaling = &spec.scaling;
    let of = ScalingConfig {
        controller: None,
        min: scaling.min,
        max: scaling.max,
        scrape: Nanos::from_secs(scaling.scrape_s),
        victim: scaling.victim,
        grace: Nanos::from_secs(scaling.grace_s),
        startup: match spec.execution.mode {
            ExecutionMode::Tinygpt => crate::startup::live(&spec.startup),
            _ => crate::startup::config(&spec.startup),
        },
        nodes: NodesConfig {
            linger: Nanos::from_secs(scaling.node_linger_s),
            kept: spec.startup.sleep,
            ..NodesConfig::default()
        },
        host: HostConfig {
            cores: scaling.host_cores,
            request_us: scaling.host_request_us,
            step_us: scaling.host_step_us,
        },
    };
    // Without a limit, what is held is only what finds no ready replica. A gateway of its own says itself whom it holds.
    let gateway = match config.gateway {
        GatewayConfig::AcceptAll if scaling.hold => {
            GatewayConfig::CentralQueue { in_flight: u32::MAX, capacity: u32::MAX }
        }
        gateway => gateway,
    };
    let clients = match scaling.retry_lost {
        true => ClientsConfig::FixedRetry { attempts: 2, pause: Nanos(1) },
        false => config.clients,
    };
    FleetConfig { scaling: Some(of), gateway, clients, overflow: overflow(spec), ..config }
}

/// The managed API beside the fleet, if there is one.
fn overflow(spec: &Spec) -> Option<OverflowConfig> {
    let overflow = &spec.scaling.overflow;
    let hour_s = match &spec.workload {
        WorkloadSpec::Demand(demand) => demand.hour_s,
        _ => 3600.0,
    };
    let at = |hours: f64| Nanos::from_secs(hours * hour_s);
    let night = Night { from: at(overflow.from_h), until: at(overflow.until_h), day: at(24.0) };
    overflow.on.then(|| OverflowConfig {
        load: overflow.load,
        night: (night.from != night.until).then_some(night),
        ttft: Nanos::from_secs(overflow.ttft_s),
        token: Nanos::from_secs(overflow.token_s),
    })
}

/// The store behind the replicas, if there is one.
fn store(spec: &Spec) -> Option<StoreConfig> {
    let store = &spec.store;
    // Rounded to the byte; a limit keeps the link above a thousand of them.
    let bytes_per_s = |gb_per_s: f64| libm::round(gb_per_s * 1e9) as u64;
    (store.blocks > 0).then(|| StoreConfig {
        blocks: store.blocks,
        latency: Nanos::from_secs(store.latency_s),
        link_bytes_per_s: bytes_per_s(store.link_gb_per_s),
        total_bytes_per_s: bytes_per_s(store.total_gb_per_s),
        token_bytes: costs::token_bytes(spec),
        fetch: store.fetch,
    })
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

/// Totals of the workload. A replica in ticks that remembers a prefix reuses all of the prompt but one token, not whole blocks, so its ceiling is
/// that of every request but the first of each prefix.
pub(crate) fn survey(spec: &Spec, source: &Source, tell: &mut dyn FnMut(u64, Nanos)) -> Survey {
    let survey = servelab_workload::survey_telling(source, tell);
    if spec.execution.mode != ExecutionMode::Tick {
        return survey;
    }
    let (mut seen, mut ceiling) = (BTreeSet::new(), 0);
    let mut requests = source.clone();
    while let Some(request) = requests.next_request() {
        if request.prompt.key(0).is_some_and(|key| !seen.insert(key)) {
            ceiling += u64::from(request.prompt.len.saturating_sub(1));
        }
    }
    Survey { ceiling_hit_tokens: ceiling, ..survey }
}
