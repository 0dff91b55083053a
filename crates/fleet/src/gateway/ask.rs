//! What a gateway is asked, what it sees and what it is told.

use crate::record::Refusal;
use crate::telemetry::PolledSignals;
use servelab_engine::Nanos;

/// An attempt in front of the gateway. Its true output length is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// The loop's number for the attempt.
    pub(crate) place: u32,
    /// Whose it is.
    pub(crate) tenant: u32,
    /// Prompt length, tokens.
    pub(crate) prompt: u32,
    /// Output budget, tokens.
    pub(crate) max_tokens: u32,
    /// Which try it is, from 1.
    pub(crate) attempt: u32,
}

impl Ask {
    /// Tokens it may cost: prompt and output budget.
    pub(crate) fn tokens(&self) -> u64 {
        u64::from(self.prompt) + u64::from(self.max_tokens)
    }
}

/// The fleet as a gateway sees it at one instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) now: Nanos,
    /// Replicas that may be routed to, ascending.
    pub(crate) ready: &'a [u32],
    /// Attempts in flight on each replica.
    pub(crate) in_flight: &'a [u32],
    /// Each replica's metrics at the latest scrape.
    pub(crate) polled: &'a [PolledSignals],
}

/// An attempt that was sent to a replica has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) now: Nanos,
    pub(crate) tenant: u32,
    /// Output budget, tokens.
    pub(crate) max_tokens: u32,
    /// Tokens produced.
    pub(crate) produced: u32,
    /// It delivered all its output. Anything else counts as a failure of the servers, also that its client waited no longer.
    pub(crate) ok: bool,
    /// When it was sent.
    pub(crate) sent: Nanos,
    /// When its first token came.
    pub(crate) first_token: Option<Nanos>,
}

/// Turned away by one of the gateway's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// HTTP status.
    pub(crate) code: u16,
    pub(crate) cause: Refusal,
    /// After how long the same part would let it through, if it knows.
    pub(crate) wait: Option<Nanos>,
}

impl Refused {
    pub(crate) fn new(code: u16, cause: Refusal) -> Self {
        Refused { code, cause, wait: None }
    }
}
