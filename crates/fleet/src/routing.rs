//! Which replica gets an attempt.
//!
//! A [`Policy`] sees one borrowed [`RouteContext`]: the request without its true output length, the replicas that may be chosen,
//! and the signals of the tier it declared. It answers with a replica and a phrase on why, and may leave the numbers it
//! compared in a buffer that is reused. Draws come from a stream made for this one decision, so how often a policy draws changes
//! nothing else.
//!
//! One policy is one file and one line in [`registry`].

pub mod least_tokens;
mod params;
pub mod prefix_affinity;
pub mod registry;
pub mod round_robin;
mod ties;

use crate::telemetry::{LocalSignals, Tier};
use serde_json::Value;
use servelab_engine::random::Stream;
use servelab_engine::{Nanos, Prompt};
use servelab_spec::experiment::PolicySpec;

/// A routing policy.
pub trait Policy: Send {
    /// Its stable snake_case name in the registry.
    fn name(&self) -> &'static str;

    /// Name and parameters, with which the registry builds it again.
    fn spec(&self) -> PolicySpec;

    /// The signals it reads; `None` for none at all.
    fn reads(&self) -> Option<Tier> {
        None
    }

    /// Chooses one of `ctx.candidates`. `scores` comes empty; a policy that compares numbers leaves one for each candidate, in order.
    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, stream: &mut Stream) -> Choice;

    /// An attempt went to `replica`.
    fn dispatched(&mut self, _request: &RequestView<'_>, _replica: u32) {}

    /// An attempt on `replica` ended, in whatever way.
    fn ended(&mut self, _request: &RequestView<'_>, _replica: u32) {}

    /// The replicas that may be chosen are now these.
    fn replicas_changed(&mut self, _ready: &[u32]) {}

    /// What it remembers, for saving; `Null` when that is nothing.
    fn save(&self) -> Value {
        Value::Null
    }

    /// Takes back what [`Policy::save`] gave.
    ///
    /// # Errors
    /// A phrase on what is wrong with the state.
    fn restore(&mut self, state: &Value) -> Result<(), String> {
        if state.is_null() { Ok(()) } else { Err("this policy remembers nothing".into()) }
    }
}

/// What a decision is made on.
#[derive(Clone, Copy, Debug)]
pub struct RouteContext<'a> {
    /// The instant.
    pub now: Nanos,
    /// The request.
    pub request: RequestView<'a>,
    /// Replicas that may be chosen, ascending; at least one.
    pub candidates: &'a [u32],
    /// Tokens of a KV block; 0 where there are none.
    pub block_tokens: u32,
    local: &'a [LocalSignals],
}

impl<'a> RouteContext<'a> {
    /// A context; `local` has one entry for each candidate, or none for policies that read no signals.
    pub fn new(
        now: Nanos,
        request: RequestView<'a>,
        candidates: &'a [u32],
        block_tokens: u32,
        local: &'a [LocalSignals],
    ) -> Self {
        debug_assert!(!candidates.is_empty() && (local.is_empty() || local.len() == candidates.len()));
        RouteContext { now, request, candidates, block_tokens, local }
    }

    /// Router-local signals, one for each candidate; empty unless [`Policy::reads`] declares a tier.
    pub fn local(&self) -> &'a [LocalSignals] {
        self.local
    }
}

/// A request as policies see it: everything a client states, nothing it will turn out to be.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    /// Its index in the workload.
    pub index: u32,
    /// Whose it is.
    pub tenant: u32,
    /// The conversation it continues.
    pub session: Option<u64>,
    /// The adapter it wants.
    pub adapter: Option<u32>,
    /// What to read.
    pub prompt: &'a Prompt,
    /// Output budget, tokens.
    pub max_tokens: u32,
    /// Which try this is, from 1.
    pub attempt: u32,
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// One of the candidates.
    pub replica: u32,
    /// Why, in a phrase.
    pub why: &'static str,
}

#[cfg(test)]
pub(crate) mod testing {
    //! Contexts to test policies in.

    use super::*;

    /// A prompt of these tokens, blocks of 16.
    pub(crate) fn prompt(tokens: &[u32]) -> Prompt {
        Prompt::from_tokens(tokens, 16, 0)
    }

    /// Routes one request and returns choice and scores.
    pub(crate) fn route(
        policy: &mut dyn Policy,
        prompt: &Prompt,
        candidates: &[u32],
        tokens: &[u64],
        draw: u64,
    ) -> (Choice, Vec<f64>) {
        let local: Vec<LocalSignals> =
            tokens.iter().map(|&tokens| LocalSignals { requests: u32::from(tokens > 0), tokens }).collect();
        let request =
            RequestView { index: 0, tenant: 0, session: None, adapter: None, prompt, max_tokens: 8, attempt: 1 };
        let local = if policy.reads().is_some() { &local[..] } else { &[] };
        let ctx = RouteContext::new(Nanos::ZERO, request, candidates, 16, local);
        let mut scores = Vec::new();
        let choice = policy.route(&ctx, &mut scores, &mut Stream::new(1, b"test").split(draw));
        assert!(candidates.contains(&choice.replica));
        (choice, scores)
    }
}
