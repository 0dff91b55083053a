//! What the engine refuses, in types.

use crate::request::SequenceId;
use crate::time::Nanos;
use thiserror::Error;

/// Why a request is refused at once: it could never run here, it contradicts itself, or the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Nothing to read.
    #[error("the prompt is empty; at least one token is needed")]
    EmptyPrompt,
    /// Nothing to write.
    #[error("max_tokens is 0; at least 1 is needed")]
    NoOutput,
    /// The true output length is not within the budget.
    #[error("output_tokens is {output_tokens}; accepted is 1 to max_tokens, {max_tokens}")]
    OutputLength {
        /// The true length given.
        output_tokens: u32,
        /// The budget given.
        max_tokens: u32,
    },
    /// Prompt and budget exceed the model's context.
    #[error("prompt and output budget make {tokens} tokens; the context holds {max_context}")]
    TooLong {
        /// Prompt tokens + `max_tokens`.
        tokens: u64,
        /// Longest accepted.
        max_context: u32,
    },
    /// Prompt and budget exceed the whole pool.
    #[error("prompt and output budget need {needed} KV blocks; the pool has {blocks}")]
    TooManyBlocks {
        /// Blocks needed when the budget is used up.
        needed: u64,
        /// Blocks there are.
        blocks: u32,
    },
    /// A sequence of that name is already here.
    #[error("sequence {} is already waiting or running", id.0)]
    Duplicate {
        /// The name.
        id: SequenceId,
    },
    /// The prompt's keys were made for other blocks.
    #[error("a prompt of {len} tokens has {keys} block keys; {expected} are needed")]
    Keys {
        /// Prompt length, tokens.
        len: u32,
        /// Keys given.
        keys: u32,
        /// Full blocks of that length.
        expected: u32,
    },
    /// The token ids are missing where a model must read them, or are not as many as the prompt says.
    #[error("a prompt of {len} tokens brings {given} token ids")]
    Tokens {
        /// Prompt length, tokens.
        len: u32,
        /// Token ids given.
        given: u32,
    },
    /// The queue holds as many requests as it may.
    #[error("{requests} requests are queued; accepted are {most}")]
    QueueFull {
        /// Requests that count.
        requests: u32,
        /// Most accepted.
        most: u32,
    },
    /// The prompts before a first token would exceed what the queue may hold.
    #[error("{tokens} prompt tokens would wait for a first token; accepted are {most}")]
    QueueTokens {
        /// Tokens with this request's.
        tokens: u64,
        /// Most accepted.
        most: u32,
    },
    /// It would wait longer than anybody may.
    #[error("it would wait {} s; accepted are {} s", wait.as_secs(), most.as_secs())]
    TooLate {
        /// The wait predicted.
        wait: Nanos,
        /// Longest accepted.
        most: Nanos,
    },
}

impl Refusal {
    /// The queue is full for now: the same request may be taken later, or elsewhere.
    pub fn is_for_now(&self) -> bool {
        matches!(self, Refusal::QueueFull { .. } | Refusal::QueueTokens { .. } | Refusal::TooLate { .. })
    }
}

/// A result that does not belong to the step in flight. The engine is left as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CommitError {
    /// There is no step to commit.
    #[error("no step is in flight")]
    NothingInFlight,
    /// Too many or too few tokens.
    #[error("step {step} returned {got} tokens; {expected} items sample one")]
    TokenCount {
        /// The step.
        step: u64,
        /// Items with [`crate::PlanItem::sample`].
        expected: u32,
        /// Tokens given.
        got: u32,
    },
}
