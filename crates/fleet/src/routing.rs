//! Which replica gets an attempt.
//!
//! A [`Policy`] sees one borrowed [`RouteContext`]: the request without its true output length, the replicas that may be chosen,
//! and the signals of the tiers it declared. It answers with a replica and a phrase on why, and may leave the numbers it
//! compared in a buffer that is reused. Draws come from a stream made for this one decision, so how often a policy draws changes
//! nothing else.
//!
//! One policy is one file and one line in [`registry`].

mod active_blocks;
mod aibrix_prefix_cache;
mod approx_index;
mod blend;
mod composed;
mod dynamo_kv;
mod envoy_least_request;
mod expiring;
mod guard;
mod join_idle_queue;
mod kubeai_prefix_hash;
mod least_kv_cache;
mod least_qps;
mod least_requests;
mod least_tokens;
mod llm_d_affinity;
mod llm_d_default;
mod lru;
mod packed;
pub(crate) mod params;
mod power_of_two;
mod prefix;
mod prefix_affinity;
mod prefix_modulo;
mod production_stack_loadaware;
mod production_stack_prefixaware;
mod qps;
mod radix;
mod random;
mod ray_prefix_cache_affinity;
pub mod registry;
mod ring;
mod round_robin;
mod scoring;
mod script;
mod session_sticky;
mod sglang_cache_aware;
mod smg_least_load;
mod smg_prefix_hash;
mod text;
mod ties;

use crate::telemetry::{KvIndex, LocalSignals, PolledSignals, Reads};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use servelab_engine::random::Stream;
use servelab_engine::{Nanos, Prompt};
use thiserror::Error;

pub use script::reference as script_reference;

/// A routing policy. Each router of a fleet has an instance of its own.
pub trait Policy: Send {
    /// The signals it reads.
    fn reads(&self) -> Reads {
        Reads::NOTHING
    }

    /// Chooses one of `ctx.candidates`. `scores` comes empty; a policy that compares numbers leaves one for each candidate, in order:
    /// not a number for one that it did not look at.
    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, stream: &mut Stream) -> Choice;

    /// An attempt that this router routed went to `replica`.
    fn dispatched(&mut self, _now: Nanos, _request: &RequestView<'_>, _replica: u32) {}

    /// The first token of such an attempt came back.
    fn first_token(&mut self, _now: Nanos, _request: &RequestView<'_>, _replica: u32) {}

    /// Such an attempt ended, in whatever way.
    fn ended(&mut self, _now: Nanos, _request: &RequestView<'_>, _replica: u32) {}

    /// The replicas that may be chosen are now these, ascending.
    fn replicas_changed(&mut self, _ready: &[u32]) {}

    /// Why it can not go on, once it can not: the run ends. Asked after every decision and every ending; only a policy whose text is the
    /// user's own can fail.
    fn fault(&self) -> Option<&PolicyFault> {
        None
    }

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

/// Why a policy can not go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[error("{}{message}", .line.map(|line| format!("line {line}: ")).unwrap_or_default())]
#[serde(deny_unknown_fields)]
pub struct PolicyFault {
    /// Line of its text, from 1, when one is to blame.
    pub line: Option<u32>,
    /// What happened.
    pub message: String,
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
    signals: Signals<'a>,
}

/// The signals of a decision, each present only when the policy reads its tier.
#[derive(Clone, Copy, Debug, Default)]
pub struct Signals<'a> {
    /// One entry for each candidate.
    pub local: &'a [LocalSignals],
    /// One entry for each replica of the fleet, by index.
    pub polled: &'a [PolledSignals],
    /// Which replica holds which block.
    pub index: Option<&'a KvIndex>,
}

impl<'a> RouteContext<'a> {
    /// A context of these signals.
    pub fn new(
        now: Nanos,
        request: RequestView<'a>,
        candidates: &'a [u32],
        block_tokens: u32,
        signals: Signals<'a>,
    ) -> Self {
        debug_assert!(!candidates.is_empty());
        debug_assert!(signals.local.is_empty() || signals.local.len() == candidates.len());
        RouteContext { now, request, candidates, block_tokens, signals }
    }

    /// Router-local signals, one for each candidate.
    ///
    /// Empty unless [`Policy::reads`] has [`Reads::LOCAL`].
    pub fn local(&self) -> &'a [LocalSignals] {
        self.signals.local
    }

    /// Metrics of the candidate at position `at`, as of the latest scrape.
    ///
    /// # Panics
    /// Unless [`Policy::reads`] has [`Reads::POLLED`].
    pub fn polled(&self, at: usize) -> &'a PolledSignals {
        &self.signals.polled[self.candidates[at] as usize]
    }

    /// Appends how many leading full blocks of the prompt each candidate holds, as events told; zeros unless
    /// [`Policy::reads`] has [`Reads::EVENTS`].
    pub fn matched_blocks(&self, matched: &mut Vec<u32>) {
        match self.signals.index {
            Some(index) => index.matched(self.request.prompt, self.candidates, matched),
            None => matched.resize(matched.len() + self.candidates.len(), 0),
        }
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
    /// Where the first user message begins in it, tokens: what stands before is the system prompt.
    pub user_at: u32,
    /// Length of that first user message, tokens. Later turns of a conversation stand behind it.
    pub user_tokens: u32,
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
    /// Prompt tokens that the router expects to find cached there; 0 for a policy that expects nothing. Counted in
    /// [`LocalSignals::prefill_tokens`].
    pub expected_hit: u32,
}

impl Choice {
    /// A choice that expects no cached token.
    pub fn new(replica: u32, why: &'static str) -> Self {
        Choice { replica, why, expected_hit: 0 }
    }

    /// The same, expecting `tokens` to be cached.
    #[must_use]
    pub fn expecting(self, tokens: u32) -> Self {
        Choice { expected_hit: tokens, ..self }
    }
}

#[cfg(test)]
mod moves;
#[cfg(test)]
pub(crate) mod testing;
