//! What the engine is asked to serve.

use crate::prompt::Prompt;
use serde::{Deserialize, Serialize};

/// Names a sequence within one engine; chosen by the caller (the attempt's number) and never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SequenceId(pub u64);

/// A prompt to continue.
///
/// In memory its fields stand in this order: what every step asks of every running sequence lies together, at the beginning, so that a step
/// touches one line of the processor's cache for each and not three.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[repr(C)]
pub struct SequenceRequest {
    /// Its name.
    pub id: SequenceId,
    /// Output budget the client stated, tokens, at least 1. The only length that schedulers and policies see.
    pub max_tokens: u32,
    /// True output length, tokens, `1..=max_tokens`: where the sequence ends when the executor gives no end-of-text.
    pub output_tokens: u32,
    /// What to read.
    pub prompt: Prompt,
    /// Go on after end-of-text.
    pub ignore_eos: bool,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// The adapter (LoRA) it runs with. The keys of its prompt differ from those of others already.
    pub adapter: Option<u32>,
    /// Whose it is; colours the blocks it fills.
    pub tenant: u32,
    /// Seeds the synthetic output keys of sequences without token ids, so that a session's next turn can name them.
    pub output_seed: u64,
}

/// How a model's next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// 0 is greedy.
    pub temperature: f32,
    /// Keep the k most likely tokens; 0 keeps all.
    pub top_k: u32,
    /// Keep the fewest tokens whose probability sums to at least this; 1 keeps all.
    pub top_p: f32,
    /// Seed of this request's draws.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling { temperature: 0.0, top_k: 0, top_p: 1.0, seed: 0 }
    }
}
