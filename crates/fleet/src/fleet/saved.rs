//! Saving and restoring the whole core, policy included.
//!
//! What is not saved (the order of events, lists of what may start) follows from what is. A state that contradicts itself is refused:
//! it goes through the same checks as every debug run.

use super::{Core, Fleet, check};
use crate::error::RestoreError;
use crate::routing::registry;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use servelab_spec::experiment::PolicySpec;

/// A saved fleet. Cloning one shares interned prompts; serialised, it stands alone.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetState {
    core: Core,
    policy: PolicySpec,
    policy_state: Value,
}

impl Fleet {
    /// The fleet as it stands, in the middle of whatever it does. Records not yet taken are part of it.
    pub fn save(&self) -> FleetState {
        FleetState { core: self.core.clone(), policy: self.policy.spec(), policy_state: self.policy.save() }
    }

    /// A fleet that goes on where [`Fleet::save`] left off, byte for byte.
    ///
    /// # Errors
    /// When the state names an unknown policy or contradicts itself.
    pub fn restore(state: FleetState) -> Result<Self, RestoreError> {
        let FleetState { core, policy: spec, policy_state } = state;
        let mut policy = registry::build(&spec)?;
        policy
            .restore(&policy_state)
            .map_err(|reason| RestoreError::PolicyState { policy: spec.name.clone(), reason })?;
        let n = core.config.replicas as usize;
        if n == 0 || core.replicas.len() != n || core.signals.len() != n {
            let (replicas, signals) = (core.replicas.len(), core.signals.len());
            return Err(RestoreError::Damaged(format!(
                "{n} replicas were built, {replicas} are there, {signals} have signals"
            )));
        }
        if !core.flights.requests.is_sound() || !core.flights.attempts.is_sound() {
            return Err(RestoreError::Damaged("places in flight are vacant and taken".into()));
        }
        check::check(&core, false).map_err(|violation| RestoreError::Damaged(violation.to_string()))?;
        Ok(Fleet::around(core, policy))
    }
}
