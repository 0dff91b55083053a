//! From a spec's sections on clients, faults and servers to the fleet's settings.

use servelab_engine::Nanos;
use servelab_fleet::FleetConfig;
use servelab_fleet::clients::{Budget, ClientClass, ClientPolicy, ClientsConfig, Crowd, Pace, registry};
use servelab_fleet::config::{Change, ChangeKind};
use servelab_fleet::faults::{Fault, FaultKind};
use servelab_fleet::replica::server::{ServerConfig, Service};
use servelab_spec::experiment::{self, ClientSpec, Remedy, ServerSpec, ServiceLaw, Spec};
use servelab_spec::validate::SpecError;

/// Longest time that an instant can lie in the future without reaching the end of the clock.
const LAST: f64 = 1e9;

/// A server replica's settings.
pub(crate) fn server(spec: &ServerSpec) -> ServerConfig {
    let service = match spec.draws {
        ServiceLaw::Exponential => Service::Exponential,
        ServiceLaw::Fixed => Service::Deterministic,
    };
    ServerConfig {
        crowding: Nanos::from_secs(spec.crowding_s),
        queue: (spec.queue > 0).then_some(spec.queue),
        ..ServerConfig::new(spec.slots, service, Nanos::from_secs(spec.service_s))
    }
}

/// `config` with what goes wrong and what is done about it.
pub(crate) fn faults(spec: &Spec, config: FleetConfig) -> FleetConfig {
    let of = &spec.faults;
    let mut faults = Vec::new();
    let mut add = |from_s: f64, for_s: f64, what| {
        faults.push(Fault { from: Nanos::from_secs(from_s), until: Nanos::from_secs(from_s + for_s), what });
    };
    // All of them are one fault: a replica that comes later is down as well.
    let those = |many: u32| -> Vec<Option<u32>> {
        if many == spec.replicas { vec![None] } else { (0..many).map(Some).collect() }
    };
    for replica in those(of.down) {
        let what = if of.down_loses { FaultKind::Down { replica } } else { FaultKind::Frozen { replica } };
        add(of.down_at_s, of.down_s, what);
    }
    those(of.split).into_iter().for_each(|replica| add(of.split_at_s, of.split_s, FaultKind::Split { replica }));
    if of.stale {
        add(of.stale_at_s, of.stale_s, FaultKind::Telemetry);
    }
    if of.errors > 0.0 {
        add(of.errors_at_s, of.errors_s, FaultKind::Errors { share: of.errors });
    }
    if of.poison {
        let restart = Nanos::from_secs(of.poison_restart_s);
        add(0.0, LAST, FaultKind::Poison { request: of.poison_request, restart });
    }
    let mut changes = config.changes;
    let what = match of.remedy {
        Remedy::None => None,
        Remedy::Cancel => Some(ChangeKind::Cancel),
        Remedy::DropLoad => Some(ChangeKind::DropLoad { share: of.remedy_share }),
        Remedy::RaiseLimits => Some(ChangeKind::RaiseLimits { times: of.remedy_times }),
        Remedy::Budgets => {
            Some(ChangeKind::Budgets { budget: Budget::Bucket { size: 5.0, deposit: 0.1, on_request: false } })
        }
    };
    if of.remedy == Remedy::DropLoad && of.remedy_for_s > 0.0 {
        let at = Nanos::from_secs(of.remedy_at_s + of.remedy_for_s);
        changes.push(Change { at, what: ChangeKind::DropLoad { share: 0.0 } });
    }
    changes.extend(what.map(|what| Change { at: Nanos::from_secs(of.remedy_at_s), what }));
    FleetConfig { faults, changes, reject_cost: Nanos::from_secs(of.reject_cost_s), ..config }
}

/// What a client policy does.
///
/// # Errors
/// When it is unknown, or a parameter is.
pub(crate) fn policy(spec: &ClientSpec) -> Result<ClientPolicy, SpecError> {
    registry::build(&spec.name, &spec.params)
}

/// The same of the policy at `at` of the list, whose faults are named as one types them: `clients.policies.0.params.attempts`.
fn listed(spec: &Spec, at: usize) -> Result<ClientPolicy, SpecError> {
    let of = &spec.clients.policies[at];
    policy(of).map_err(|error| {
        let param = error.field.strip_prefix("clients.policies.").and_then(|rest| rest.split_once('.'));
        let field = match param {
            Some((_, param)) => format!("clients.policies.{at}.params.{param}"),
            None => format!("clients.policies.{at}"),
        };
        SpecError { field, ..error }
    })
}

/// Most attempts of a request, hedges and layers included, of the client policy at `at`, or of any where they act together.
pub(crate) fn most_attempts(spec: &Spec, at: Option<usize>) -> Option<u32> {
    let policies = match at {
        Some(at) => std::slice::from_ref(spec.clients.policies.get(at)?),
        None => &spec.clients.policies[..],
    };
    let most = |of: &ClientSpec| {
        let policy = policy(of).ok()?;
        Some(policy.most_attempts().saturating_add(policy.hedge.map_or(0, |hedge| hedge.most)))
    };
    policies.iter().map(most).try_fold(1, |most, of| Some(of?.max(most)))
}

/// The clients of a run that has the client policy at `at`, or all of them where they act together; `None` where clients have no rules of their own.
///
/// # Errors
/// When a policy is unknown, or a parameter is.
pub(crate) fn clients(spec: &Spec, at: Option<usize>) -> Result<Option<ClientsConfig>, SpecError> {
    let of = &spec.clients;
    if !of.on {
        return Ok(None);
    }
    let class = |policy| ClientClass { share: 1.0, processes: of.processes, policy };
    let mut classes = match at.filter(|&at| at < of.policies.len()) {
        Some(at) => vec![class(listed(spec, at)?)],
        None => (0..of.policies.len()).map(|at| listed(spec, at).map(class)).collect::<Result<_, _>>()?,
    };
    if classes.is_empty() {
        classes.push(class(ClientPolicy::default()));
    }
    let think = Nanos::from_secs(of.think_s);
    let pace = match of.pace {
        experiment::Pace::Open => Pace::Open,
        experiment::Pace::Closed => Pace::Closed { users: of.users, think },
        experiment::Pace::Sessions => Pace::Sessions { think },
    };
    Ok(Some(ClientsConfig::Crowd(Box::new(Crowd { classes, pace, cancels: of.cancels }))))
}
