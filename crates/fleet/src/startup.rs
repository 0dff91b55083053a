//! The life cycle of replicas: which states there are, who may be routed to, and how long each replica has lived.
//!
//! Every replica is ready from the start. Cold start, drain and loss are transitions of [`LifeCycle`]; router, signals and accounting
//! already go by its state.

use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_spec::frame::ReplicaState;

/// One replica's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LifeCycle {
    state: ReplicaState,
    created: Nanos,
    gone: Option<Nanos>,
}

impl LifeCycle {
    /// A replica that is ready at once.
    pub fn ready(now: Nanos) -> Self {
        LifeCycle { state: ReplicaState::Ready, created: now, gone: None }
    }

    /// Where it stands.
    pub fn state(&self) -> ReplicaState {
        self.state
    }

    /// New attempts may be sent to it.
    pub fn may_be_routed_to(&self) -> bool {
        self.state == ReplicaState::Ready
    }

    /// It may run steps: it is there, whether it takes new attempts or not.
    pub fn may_run(&self) -> bool {
        matches!(self.state, ReplicaState::Ready | ReplicaState::Draining)
    }

    /// How long it has lived by `now`.
    pub fn lifetime(&self, now: Nanos) -> Nanos {
        self.gone.unwrap_or(now).since(self.created)
    }
}
