//! Routers: each has counts of its own traffic and a policy that remembers for itself.

use crate::routing::{Policy, registry};
use crate::telemetry::{LocalSignals, Reads};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use servelab_engine::random::Stream;
use servelab_spec::experiment::PolicySpec;
use servelab_spec::validate::SpecError;

/// What a router counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RouterCounts {
    /// One entry for each replica.
    pub(crate) signals: Vec<LocalSignals>,
    /// How often the counts fell to zero.
    pub(crate) resets: u32,
    /// How often the policy started afresh.
    pub(crate) restarts: u32,
}

impl RouterCounts {
    pub(crate) fn new(replicas: u32) -> Self {
        RouterCounts { signals: vec![LocalSignals::default(); replicas as usize], resets: 0, restarts: 0 }
    }

    pub(crate) fn reset(&mut self) {
        self.signals.fill(LocalSignals::default());
        self.resets += 1;
    }
}

/// The routers' policies.
pub(crate) struct Policies {
    spec: PolicySpec,
    pub(crate) each: Vec<Box<dyn Policy>>,
}

impl Policies {
    pub(crate) fn new(spec: PolicySpec, routers: u32) -> Result<Self, SpecError> {
        let each = (0..routers).map(|_| registry::build(&spec)).collect::<Result<_, _>>()?;
        Ok(Policies { spec, each })
    }

    /// Every policy as it was at the start.
    pub(crate) fn restart(&mut self) {
        for policy in &mut self.each {
            if let Ok(fresh) = registry::build(&self.spec) {
                *policy = fresh;
            }
        }
    }

    pub(crate) fn replicas_changed(&mut self, ready: &[u32]) {
        self.each.iter_mut().for_each(|policy| policy.replicas_changed(ready));
    }

    /// What they read, all alike.
    pub(crate) fn reads(&self) -> Reads {
        self.each.first().map_or(Reads::NOTHING, |policy| policy.reads())
    }

    pub(crate) fn spec(&self) -> &PolicySpec {
        &self.spec
    }

    pub(crate) fn save(&self) -> Vec<Value> {
        self.each.iter().map(|policy| policy.save()).collect()
    }

    pub(crate) fn restore(&mut self, states: &[Value]) -> Result<(), String> {
        if states.len() != self.each.len() {
            return Err(format!("{} states for {} routers", states.len(), self.each.len()));
        }
        self.each.iter_mut().zip(states).try_for_each(|(policy, state)| policy.restore(state))
    }
}

/// Which router an attempt goes through: drawn for the attempt, whatever routers know.
pub(crate) fn router_of(draws: &Stream, request: u32, attempt: u32, routers: u32) -> u32 {
    if routers <= 1 {
        return 0;
    }
    draws.split(u64::from(request)).split(u64::from(attempt)).below(routers.into()) as u32
}
