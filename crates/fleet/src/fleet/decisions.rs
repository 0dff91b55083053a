//! The latest routing decisions, with what the policy compared. Their number is fixed and their buffers are reused.

use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_spec::protocol::Offer;
use std::borrow::Cow;
use std::collections::VecDeque;

/// Decisions kept. A picture shows 16; a story asks right after its request arrived.
const KEPT: usize = 32;

/// One routing decision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionRecord {
    /// When.
    pub at: Nanos,
    /// Index of the request.
    pub request: u32,
    /// Its tenant.
    pub tenant: u32,
    /// Prompt length, tokens.
    pub prompt_tokens: u32,
    /// The router that decided.
    pub router: u32,
    /// The chosen replica.
    pub replica: u32,
    /// Prompt tokens the router expected to find cached there.
    pub expected_hit: u32,
    /// What each replica had to offer, by index; empty unless this request was to be explained.
    pub offers: Vec<Offer>,
    /// What the policy compared, one value for each replica (none for one that could not be chosen); empty when it compares nothing.
    pub scores: Vec<Option<f64>>,
    /// Why, in a phrase.
    pub why: Cow<'static, str>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Decisions(VecDeque<DecisionRecord>);

impl Decisions {
    /// Keeps a decision; `scores` belong to `candidates`, not a number where one was not looked at.
    pub(crate) fn push(&mut self, decision: DecisionRecord, candidates: &[u32], scores: &[f64], replicas: u32) {
        let mut buffer = match self.0.len() {
            KEPT.. => self.0.pop_front().unwrap_or_default().scores,
            _ => Vec::new(),
        };
        buffer.clear();
        if scores.len() == candidates.len() {
            buffer.resize(replicas as usize, None);
            for (&candidate, &score) in candidates.iter().zip(scores) {
                buffer[candidate as usize] = Some(score).filter(|score| !score.is_nan());
            }
        }
        self.0.push_back(DecisionRecord { scores: buffer, ..decision });
    }

    /// Newest first.
    pub(crate) fn newest(&self) -> impl Iterator<Item = &DecisionRecord> {
        self.0.iter().rev()
    }
}
