//! The life cycle of replicas: which states there are, who may be routed to, who can run, and how long each replica has lived.
//!
//! ```text
//! planned ──create──▶ starting ──admit──▶ ready ──drain──▶ draining ──leave──▶ gone
//!    ▲                    ▲  ◀─restart──    │ ▲                                  │
//!    │                    │          suspend▼ │admit                             │
//!    │                    │            not ready                                 │
//!    └────────────────────┴──────────────────create again (another life)─────────┘
//! ```
//!
//! A spare comes from *starting* to *standby*, and is admitted from there when it is needed.
//!
//! Readiness and ability are two things: a replica that says it is ready before its weights are loaded takes requests and serves none until
//! it is warm, and one that fails its readiness probe goes on with what it has.
//!
//! What a cold start consists of stands in [`stage`], links that starting replicas share in [`transfer`], who is asked whether it lives in
//! [`probe`]. None of them knows the fleet.

mod crash_loop;
pub mod probe;
pub mod stage;
pub mod transfer;

pub(crate) use crash_loop::CrashLoop;
pub use probe::{AnswerTime, Probe, ProbeConfig, ProbeStep, Prober, ProbesConfig, Verdict};
pub use stage::{Link, Readiness, Stage, StageWork, StartupConfig};
pub use transfer::{LinkConfig, SharedLink};

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
    /// When it entered its state.
    since: Nanos,
    /// Which life of this place it is, from 0; a container that is started again begins another one.
    number: u32,
}

impl LifeCycle {
    /// A replica that is ready and warm at once.
    pub fn ready(now: Nanos) -> Self {
        let state = ReplicaState::Ready;
        LifeCycle { state, warm: true, created: Some(now), gone: None, since: now, number: 0 }
    }

    /// A replica that will be created later.
    pub fn planned() -> Self {
        let state = ReplicaState::Planned;
        LifeCycle { state, warm: false, created: None, gone: None, since: Nanos::ZERO, number: 0 }
    }

    /// Where it stands.
    pub fn state(&self) -> ReplicaState {
        self.state
    }

    /// When it came to stand there.
    pub fn since(&self) -> Nanos {
        self.since
    }

    /// When it was decided on, if it was.
    pub fn created(&self) -> Option<Nanos> {
        self.created
    }

    /// Which life of its place this is.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// New attempts may be sent to it.
    pub fn may_be_routed_to(&self) -> bool {
        self.state == ReplicaState::Ready
    }

    /// It may run steps: it is there and warm, whether it takes new attempts or not.
    pub fn may_run(&self) -> bool {
        self.warm && matches!(self.state, ReplicaState::Ready | ReplicaState::NotReady | ReplicaState::Draining)
    }

    /// It takes no more requests and goes when it is done.
    pub fn is_draining(&self) -> bool {
        self.state == ReplicaState::Draining
    }

    /// It exists, in whatever state.
    pub fn is_there(&self) -> bool {
        !matches!(self.state, ReplicaState::Planned | ReplicaState::Gone)
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

    fn enter(&mut self, state: ReplicaState, now: Nanos) {
        (self.state, self.since) = (state, now);
    }

    /// It comes into being, cold: for the first time, or again in the place of one that went.
    pub(crate) fn create(&mut self, now: Nanos) {
        let number = match self.state {
            ReplicaState::Planned => self.number,
            ReplicaState::Gone => self.number + 1,
            _ => return,
        };
        let state = ReplicaState::Starting;
        *self = LifeCycle { state, warm: false, created: Some(now), gone: None, since: now, number };
    }

    /// It says that it is ready.
    pub(crate) fn admit(&mut self, now: Nanos) {
        if matches!(self.state, ReplicaState::Starting | ReplicaState::NotReady | ReplicaState::Standby) {
            self.enter(ReplicaState::Ready, now);
        }
    }

    /// It could take requests, and is kept without.
    pub(crate) fn stand_by(&mut self, now: Nanos) {
        if matches!(self.state, ReplicaState::Starting | ReplicaState::NotReady) {
            self.enter(ReplicaState::Standby, now);
        }
    }

    /// It no longer says that it is ready, and goes on with what it has.
    pub(crate) fn suspend(&mut self, now: Nanos) {
        if self.state == ReplicaState::Ready {
            self.enter(ReplicaState::NotReady, now);
        }
    }

    /// It can serve.
    pub(crate) fn warm_up(&mut self) {
        self.warm = true;
    }

    /// Its process is killed and started again in the same place.
    pub(crate) fn restart(&mut self, now: Nanos) {
        if self.is_there() {
            self.warm = false;
            self.number += 1;
            self.enter(ReplicaState::Starting, now);
        }
    }

    /// It takes no more requests and finishes those it has; before its creation it is given up. Answers whether that changes anything.
    pub(crate) fn drain(&mut self, now: Nanos) -> bool {
        match self.state {
            ReplicaState::Planned => self.enter(ReplicaState::Gone, now),
            ReplicaState::Starting | ReplicaState::Ready | ReplicaState::NotReady | ReplicaState::Standby => {
                self.enter(ReplicaState::Draining, now);
            }
            ReplicaState::Draining | ReplicaState::Gone => return false,
        }
        true
    }

    /// It has nothing left to do and goes.
    pub(crate) fn leave(&mut self, now: Nanos) {
        if self.state == ReplicaState::Draining {
            self.end(now);
        }
    }

    /// It goes, whatever it does.
    pub(crate) fn end(&mut self, now: Nanos) {
        if self.is_there() {
            self.gone = Some(now);
            self.enter(ReplicaState::Gone, now);
        }
    }
}
