//! What a router knows by itself.

use serde::{Deserialize, Serialize};

/// What a router knows of a replica from its own traffic. Tokens streamed back pass through it, so it counts them as they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalSignals {
    /// Attempts sent there and not yet ended.
    pub requests: u32,
    /// Σ over those attempts of prompt tokens + output budget − tokens produced so far.
    pub tokens: u64,
    /// Σ over those attempts of prompt tokens.
    pub prompt_tokens: u64,
    /// Σ over those attempts whose first token has not come of prompt tokens − tokens that the router expected to be cached.
    pub prefill_tokens: u64,
}

impl LocalSignals {
    /// An attempt is sent.
    pub(crate) fn send(&mut self, prompt: u32, budget: u64, expected_hit: u32) {
        self.requests += 1;
        self.tokens += budget;
        self.prompt_tokens += u64::from(prompt);
        self.prefill_tokens += u64::from(prompt - expected_hit);
    }

    /// Its first token has come.
    pub(crate) fn first_token(&mut self, prompt: u32, expected_hit: u32) {
        self.prefill_tokens -= u64::from(prompt - expected_hit);
    }

    /// It has ended; `left` is what remained of its budget.
    pub(crate) fn end(&mut self, prompt: u32, left: u64) {
        self.requests -= 1;
        self.tokens -= left;
        self.prompt_tokens -= u64::from(prompt);
    }
}
