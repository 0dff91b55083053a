//! Saving and restoring the whole core, policy included.
//!
//! What is not saved (the order of events, lists of what may start) follows from what is. A state that contradicts itself is refused:
//! it goes through the same checks as every debug run.

use super::routers::Policies;
use super::{Core, Fleet, check};
use crate::error::RestoreError;
use crate::store::KvStore;
use crate::telemetry::Reads;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use servelab_spec::experiment::PolicySpec;
use servelab_workload::Workload;

/// A saved fleet. Cloning one shares interned prompts; serialised, it stands alone.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetState {
    core: Core,
    policy: PolicySpec,
    policy_states: Vec<Value>,
    /// Of the controller, in a fleet that has one.
    #[serde(default)]
    controller_state: Value,
}

impl Fleet {
    /// The fleet as it stands, in the middle of whatever it does. Records not yet taken are part of it.
    pub fn save(&self) -> FleetState {
        FleetState {
            core: self.core.clone(),
            policy: self.policies.spec().clone(),
            policy_states: self.policies.save(),
            controller_state: self.controller.as_ref().map_or(Value::Null, |controller| controller.save()),
        }
    }

    /// A fleet that goes on where [`Fleet::save`] left off, byte for byte.
    ///
    /// # Errors
    /// When the state names an unknown policy or contradicts itself.
    pub fn restore(state: FleetState) -> Result<Self, RestoreError> {
        let FleetState { core, policy: spec, policy_states, controller_state } = state;
        core.config.validate()?;
        let policy = spec.name.clone();
        let mut policies = Policies::new(spec, core.config.telemetry.routers)?;
        policies.restore(&policy_states).map_err(|reason| RestoreError::PolicyState { policy, reason })?;
        let mut controller = super::scaler::controller(&core.config)?;
        if let Some(controller) = &mut controller {
            let restored = controller.restore(&controller_state);
            restored.map_err(|reason| RestoreError::Damaged(format!("the controller's state: {reason}")))?;
        }
        if core.scaler.is_some() != core.config.scaling.is_some() {
            return Err(RestoreError::Damaged("the settings and the state of scaling do not belong together".into()));
        }
        let n = core.config.replicas_ever() as usize;
        let counts = [core.replicas.len(), core.in_flight.len(), core.polled.len()];
        let routed = core.routers.iter().all(|router| router.signals.len() == n);
        if counts != [n; 3] || !routed || core.routers.len() != core.config.telemetry.routers as usize {
            return Err(RestoreError::Damaged(format!(
                "{n} replicas were built; states, counts and metrics are there for {counts:?}"
            )));
        }
        if core.index.is_some() != policies.reads().has(Reads::EVENTS) {
            return Err(RestoreError::Damaged("the policy and the KV index do not belong together".into()));
        }
        if core.store.as_ref().map(KvStore::config) != core.config.store.as_ref() {
            return Err(RestoreError::Damaged("the store and its settings do not belong together".into()));
        }
        if !core.gateway.belongs_to(&core.config.gateway, core.source.tenants()) {
            return Err(RestoreError::Damaged("the gateway and its settings do not belong together".into()));
        }
        if !core.flights.requests.is_sound() || !core.flights.attempts.is_sound() {
            return Err(RestoreError::Damaged("places in flight are vacant and taken".into()));
        }
        if !core.clients.is_sound() || !core.flow.is_sound() {
            return Err(RestoreError::Damaged("the clients' state contradicts their settings".into()));
        }
        check::check(&core, false).map_err(|violation| RestoreError::Damaged(violation.to_string()))?;
        Ok(Fleet::around(core, policies, controller))
    }
}
