//! The contract between scheduler and executor: what one step computes, and what comes back.
//!
//! A step is a mixed batch. Every [`PlanItem`] computes the K and V of `len` consecutive tokens of one sequence, in
//! all layers, writes them to its slots, and attends over `start + len` tokens of context through its block
//! table. **Every layer writes all of the batch's K and V before it attends**: an item may read blocks that another
//! item of the same step fills.

use crate::request::{Sampling, SequenceId};
use serde::{Deserialize, Serialize};

/// What one step computes. The buffers are reused from step to step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepPlan {
    /// Counts the engine's steps from 0.
    pub step: u64,
    /// How many equal decode steps this stands for; 1 for anything an executor computes.
    pub repeat: u32,
    /// What the cost model charges for the first of them.
    pub work: StepWork,
    /// The batch: running sequences first, in admission order.
    pub items: Vec<PlanItem>,
    /// Token ids of all items, one after the other (empty when the engine was told that nobody reads them).
    pub tokens: Vec<u32>,
    /// Block tables of all items, one after the other: block of each 16 (block size) tokens of context.
    pub tables: Vec<u32>,
}

/// One sequence's part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanItem {
    /// The sequence.
    pub sequence: SequenceId,
    /// Position of the first token computed: tokens before it are in the cache.
    pub start: u32,
    /// Tokens computed, at least 1.
    pub len: u32,
    /// The last position's logits are sampled. False for a prefill chunk that is not the last.
    pub sample: bool,
    /// Decoding (one token that the model itself produced), as opposed to prefill.
    pub decode: bool,
    /// Index of the token that sampling would produce, counted from the first generated one: with
    /// [`Sampling::seed`] it decides the draw, so that preemption and batching leave it as it was.
    pub output_index: u32,
    /// How to sample; the default where plans are not materialised, since nobody does.
    pub sampling: Sampling,
    /// Where its token ids start in [`StepPlan::tokens`].
    pub tokens_at: u32,
    /// Where its block table starts in [`StepPlan::tables`].
    pub table_at: u32,
    /// Entries of its block table: ⌈(start + len) ÷ block size⌉.
    pub table_len: u32,
}

impl StepPlan {
    /// Token ids of an item; empty when the plan carries none.
    pub fn item_tokens(&self, item: &PlanItem) -> &[u32] {
        let at = item.tokens_at as usize;
        self.tokens.get(at..at + item.len as usize).unwrap_or_default()
    }

    /// Block table of an item; empty when the plan carries none.
    pub fn item_table(&self, item: &PlanItem) -> &[u32] {
        let at = item.table_at as usize;
        self.tables.get(at..at + item.table_len as usize).unwrap_or_default()
    }

    /// Slot (block × block size + offset) of `position` in an item's sequence.
    ///
    /// # Panics
    /// When the plan carries no tables or `position` lies beyond the item's context.
    pub fn slot(&self, item: &PlanItem, position: u32, block_tokens: u32) -> u32 {
        self.item_table(item)[(position / block_tokens) as usize] * block_tokens + position % block_tokens
    }

    /// Forgets the step but keeps the buffers.
    pub fn clear(&mut self) {
        self.step = 0;
        self.repeat = 1;
        self.work = StepWork::default();
        self.items.clear();
        self.tokens.clear();
        self.tables.clear();
    }
}

/// What the cost model charges for. Context is counted logically: sharing a block saves memory, not attention reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepWork {
    /// Prefill tokens computed (cached ones are not).
    pub prefill_tokens: u64,
    /// Σ over prefill tokens of the context each attends to, itself included.
    pub prefill_context: u64,
    /// Sequences that decode.
    pub decode_sequences: u64,
    /// Σ over decoding sequences of the context each reads, itself included.
    pub decode_context: u64,
    /// Adapters loaded first.
    #[serde(default)]
    pub adapter_loads: u64,
}

impl StepWork {
    /// Adds `len` prefill tokens from position `start`.
    pub fn add_prefill(&mut self, start: u32, len: u32) {
        let (start, len) = (u64::from(start), u64::from(len));
        self.prefill_tokens += len;
        self.prefill_context += len * start + len * (len + 1) / 2;
    }

    /// Adds a decode whose context, itself included, is `context` tokens.
    pub fn add_decode(&mut self, context: u32) {
        self.decode_sequences += 1;
        self.decode_context += u64::from(context);
    }
}

/// What an executor gives back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepOutput {
    /// One token for each item with [`PlanItem::sample`], in the plan's order; empty when nothing computed tokens.
    pub tokens: Vec<u32>,
    /// Measured seconds of the step, when something was measured.
    pub seconds: Option<f64>,
}
