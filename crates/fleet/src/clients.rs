//! Clients: who sends, what they do when an attempt fails, and when they give up.
//!
//! A request is not an attempt: each try has a number of its own, and the client decides after each whether the request has ended. What it
//! decides by are mechanisms that know no fleet and are tested against sequences worked by hand:
//!
//! | module | holds |
//! |---|---|
//! | [`backoff`] | how long it waits before it tries again |
//! | [`retry_after`] | what it makes of the server's word on that |
//! | [`budget`] | how many retries a process may send in all |
//! | [`breaker`] | when a process stops calling |
//! | [`throttle`] | what a process drops because the backend would refuse it |
//! | [`layers`] | who else tries again on the way |
//! | [`policy`] | all of it together, for a class of clients; when they send |
//! | [`presets`] | what well-known clients do unless told otherwise |
//! | [`registry`] | client policies by name and parameters |
//!
//! How attempts live and end is the loop's affair (`fleet::attempts`).

pub mod backoff;
pub mod breaker;
pub mod budget;
pub(crate) mod crowd;
pub mod layers;
pub mod policy;
pub mod presets;
pub mod registry;
pub mod retry_after;
pub mod throttle;
pub(crate) mod window;

pub use backoff::{Backoff, Growth, Jitter};
pub use breaker::Breaker;
pub use budget::Budget;
pub use layers::Layer;
pub use policy::{ClientClass, ClientPolicy, Crowd, Hedge, Pace, RetryOn};
pub use retry_after::{Obey, RetryAfter};
pub use throttle::Throttle;

use crate::record::{Loss, Refusal};
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;

/// Which clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Clients with rules of their own.
    Crowd(Box<Crowd>),
}

impl ClientsConfig {
    /// The same, with every rule spelled out.
    pub fn crowd(&self) -> Crowd {
        match self {
            ClientsConfig::OneTry => Crowd::default(),
            ClientsConfig::FixedRetry { attempts, pause } => Crowd::of(ClientPolicy {
                attempts: *attempts,
                backoff: Backoff::fixed(*pause),
                retry_after: RetryAfter::exactly(Nanos::MAX),
                ..ClientPolicy::default()
            }),
            ClientsConfig::Crowd(crowd) => (**crowd).clone(),
        }
    }
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
    /// Its client would not wait any longer.
    TimedOut,
}

impl Failure {
    /// It is turned away with `code`.
    pub(crate) fn refused(code: u16, cause: Refusal) -> Self {
        Failure { code, retry_after: None, cause: Cause::Refused(cause) }
    }

    /// Its replica goes.
    pub(crate) fn lost(code: u16, cause: Loss) -> Self {
        Failure { code, retry_after: None, cause: Cause::Lost(cause) }
    }

    /// Its client waits no longer.
    pub(crate) fn timed_out() -> Self {
        Failure { code: 408, retry_after: None, cause: Cause::TimedOut }
    }
}
