//! What a commit tells.

use crate::request::SequenceId;
use crate::time::Nanos;
use serde::{Deserialize, Serialize};

/// Something that happened, delivered by [`crate::Engine::commit`] in this order: first what was decided when the
/// step was planned (preemptions, admissions, evictions), then its results in the order of the batch.
///
/// A sequence cancelled while its step was in flight may still be named by what happened before it was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EngineEvent {
    /// A sequence entered the batch.
    Admitted {
        /// The sequence.
        id: SequenceId,
        /// When: the instant the step was planned.
        at: Nanos,
        /// Prompt tokens found in the cache.
        cached_tokens: u32,
        /// Prompt tokens that a fetch brought beyond those.
        #[serde(default)]
        fetched_tokens: u32,
        /// How long it waited since it arrived.
        queued: Nanos,
        /// False when it comes back after a preemption; such an admission does not count as reuse.
        first: bool,
    },
    /// A sequence's first token. Its [`EngineEvent::Tokens`] follows.
    FirstToken {
        /// The sequence.
        id: SequenceId,
    },
    /// Generated tokens, the first one included; more than one after a run of equal steps.
    Tokens {
        /// The sequence.
        id: SequenceId,
        /// How many.
        count: u32,
    },
    /// A sequence is done and gone from the engine.
    Finished {
        /// The sequence.
        id: SequenceId,
        /// Tokens it generated.
        output_tokens: u32,
        /// Why it ended.
        reason: FinishReason,
    },
    /// A sequence lost its blocks, when the step was planned, to an older one and waits again at the head of the queue.
    /// Its tokens are kept.
    Preempted {
        /// The sequence.
        id: SequenceId,
    },
    /// A sequence waited longer than the queue lets anybody wait and is gone ([`crate::Engine::expire`] tells it, not a commit).
    Expired {
        /// The sequence.
        id: SequenceId,
    },
    /// Cached blocks were given away for new content, when the step was planned or during the run of equal steps.
    Evicted {
        /// How many.
        blocks: u32,
    },
}

/// Why a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// Its output budget was used up.
    Length,
    /// The model wrote end-of-text, or the sequence reached its true length, which stands for it, before the budget.
    EndOfText,
}
