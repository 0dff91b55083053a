//! The life cycle of replicas: which states there are, who may be routed to, who can run, and how long each replica has lived.
//!
//! ```text
//! planned ──create──▶ starting ──admit──▶ ready ──drain──▶ draining ──leave──▶ gone
//! ```
//!
//! Readiness and ability are two things: a replica that says it is ready before its weights are loaded takes requests and serves none until
//! it is warm.

use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_spec::frame::ReplicaState;

/// One replica's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LifeCycle {
    state: ReplicaState,
    warm: bool,
    created: Option<Nanos>,
    gone: Option<Nanos>,
}

impl LifeCycle {
    /// A replica that is ready and warm at once.
    pub fn ready(now: Nanos) -> Self {
        LifeCycle { state: ReplicaState::Ready, warm: true, created: Some(now), gone: None }
    }

    /// A replica that will be created later.
    pub fn planned() -> Self {
        LifeCycle { state: ReplicaState::Planned, warm: false, created: None, gone: None }
    }

    /// Where it stands.
    pub fn state(&self) -> ReplicaState {
        self.state
    }

    /// New attempts may be sent to it.
    pub fn may_be_routed_to(&self) -> bool {
        self.state == ReplicaState::Ready
    }

    /// It may run steps: it is there and warm, whether it takes new attempts or not.
    pub fn may_run(&self) -> bool {
        self.warm && matches!(self.state, ReplicaState::Ready | ReplicaState::Draining)
    }

    /// How long it has lived by `now`.
    pub fn lifetime(&self, now: Nanos) -> Nanos {
        self.created.map_or(Nanos::ZERO, |created| self.gone.unwrap_or(now).since(created))
    }

    /// When it went, if it has.
    pub(crate) fn gone(&self) -> Option<Nanos> {
        self.gone
    }

    /// It was created, whatever became of it.
    pub(crate) fn was_created(&self) -> bool {
        self.created.is_some()
    }

    /// It comes into being, cold.
    pub(crate) fn create(&mut self, now: Nanos) {
        if self.state == ReplicaState::Planned {
            (self.state, self.created) = (ReplicaState::Starting, Some(now));
        }
    }

    /// It says that it is ready.
    pub(crate) fn admit(&mut self) {
        if self.state == ReplicaState::Starting {
            self.state = ReplicaState::Ready;
        }
    }

    /// It can serve.
    pub(crate) fn warm_up(&mut self) {
        self.warm = true;
    }

    /// It takes no more requests and finishes those it has; before its creation it is given up. Answers whether that changes anything.
    pub(crate) fn drain(&mut self) -> bool {
        match self.state {
            ReplicaState::Planned => self.state = ReplicaState::Gone,
            ReplicaState::Starting | ReplicaState::Ready => self.state = ReplicaState::Draining,
            ReplicaState::Draining | ReplicaState::Gone => return false,
        }
        true
    }

    /// It has nothing left to do and goes.
    pub(crate) fn leave(&mut self, now: Nanos) {
        if self.state == ReplicaState::Draining {
            (self.state, self.gone) = (ReplicaState::Gone, Some(now));
        }
    }
}
