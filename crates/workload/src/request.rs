//! What a client asks for.

use serde::{Deserialize, Serialize};
use servelab_engine::{Nanos, Prompt, Sampling, SequenceId, SequenceRequest};

/// One request of a workload. A request is not an attempt: clients may try it more than once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Its place in the workload, from 0.
    pub index: u32,
    /// Whose it is.
    pub tenant: u32,
    /// The conversation it continues, if any.
    pub session: Option<u64>,
    /// When the client sends it.
    pub arrival: Nanos,
    /// What to read.
    pub prompt: Prompt,
    /// Where the first user message begins in the prompt, tokens: what stands before is the system prompt.
    pub user_at: u32,
    /// Length of that first user message, tokens.
    pub user_tokens: u32,
    /// Output budget the client states, tokens.
    pub max_tokens: u32,
    /// True output length, tokens, `1..=max_tokens`. Never shown to a policy.
    pub output_tokens: u32,
    /// Go on after end-of-text.
    pub ignore_eos: bool,
    /// How a model chooses its tokens.
    pub sampling: Sampling,
    /// Names its output where there are no token ids.
    pub output_seed: u64,
    /// The adapter (LoRA) it wants, if any.
    pub adapter: Option<u32>,
}

impl Request {
    /// The request as an engine takes it, under the name `id`.
    pub fn sequence(&self, id: SequenceId) -> SequenceRequest {
        SequenceRequest {
            id,
            prompt: self.prompt.clone(),
            max_tokens: self.max_tokens,
            output_tokens: self.output_tokens,
            ignore_eos: self.ignore_eos,
            sampling: self.sampling,
            adapter: self.adapter,
            tenant: self.tenant,
            output_seed: self.output_seed,
        }
    }
}
