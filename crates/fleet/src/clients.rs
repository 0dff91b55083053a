//! What clients do when an attempt ends.
//!
//! Clients are open loop: requests arrive when the workload says, whatever became of earlier ones. A request is not an attempt: each
//! try has a number of its own, and the client decides after each whether the request has ended.

use crate::record::{Loss, Refusal};
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;

/// Which clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ClientsConfig {
    /// One attempt for each request.
    #[default]
    OneTry,
    /// A request turned away by the gateway (429, 503) or lost with its replica (502) is tried again after a fixed pause.
    FixedRetry {
        /// Most attempts of a request, the first included.
        attempts: u32,
        /// Pause between them, unless the gateway names another.
        pause: Nanos,
    },
}

/// How an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// HTTP status the client sees.
    pub(crate) code: u16,
    /// When to try again, if the server said.
    pub(crate) retry_after: Option<Nanos>,
    /// What happened to it.
    pub(crate) cause: Cause,
}

/// What happened to an attempt that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It was turned away.
    Refused(Refusal),
    /// Its replica went while it was there.
    Lost(Loss),
}

impl Failure {
    /// It is turned away with `code`.
    pub(crate) fn refused(code: u16, cause: Refusal) -> Self {
        Failure { code, retry_after: None, cause: Cause::Refused(cause) }
    }
}

/// What a client does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The request has ended with this failure.
    GiveUp,
    /// It tries again at this instant.
    RetryAt(Nanos),
}

impl ClientsConfig {
    /// What a client does after attempt number `attempt` (from 1) failed at `now`.
    pub(crate) fn after(&self, now: Nanos, attempt: u32, failure: Failure) -> After {
        match *self {
            ClientsConfig::FixedRetry { attempts, pause }
                if attempt < attempts && matches!(failure.code, 429 | 502 | 503) =>
            {
                // At least a nanosecond, so that a full gateway is not asked again at the same instant for ever.
                After::RetryAt(now + failure.retry_after.unwrap_or(pause).max(Nanos(1)))
            }
            _ => After::GiveUp,
        }
    }
}
