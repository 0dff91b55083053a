//! What can go wrong.

use servelab_engine::{CommitError, ConfigError};
use servelab_spec::validate::SpecError;
use thiserror::Error;

/// A fleet that can not be built, or a driver that spoke out of turn.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FleetError {
    /// A setting out of range.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// An engine setting out of range.
    #[error(transparent)]
    Engine(#[from] ConfigError),
    /// A result for a replica that has no step out for execution.
    #[error("replica {replica} waits for no result; only the replica that Poll::Execute names does")]
    NotExecuting {
        /// The replica named.
        replica: u32,
    },
    /// A time for a replica whose driver was not asked for one.
    #[error("replica {replica} waits for no stage of its start; only the replica that Poll::Start names does")]
    NotStarting {
        /// The replica named.
        replica: u32,
    },
    /// A result that does not belong to the step in flight.
    #[error("replica {replica}: {error}")]
    Commit {
        /// The replica.
        replica: u32,
        /// What is wrong.
        error: CommitError,
    },
}

/// A saved fleet that can not be restored.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RestoreError {
    /// Its policy is not in the registry or its parameters are out of range.
    #[error(transparent)]
    Policy(#[from] SpecError),
    /// The policy's own state is damaged.
    #[error("saved state of policy {policy}: {reason}")]
    PolicyState {
        /// The policy.
        policy: String,
        /// What is wrong.
        reason: String,
    },
    /// The fleet's state contradicts itself.
    #[error("saved fleet: {0}")]
    Damaged(String),
}
