//! What a replica's engine is built with.

use crate::error::Refusal;
use crate::queue::QueueConfig;
use crate::request::SequenceRequest;
use crate::time::Nanos;
use serde::{Deserialize, Serialize};
use servelab_spec::experiment::EngineSpec;
use thiserror::Error;

/// The reference tokenizer's end-of-text token.
pub const END_OF_TEXT: u32 = 257;

/// Settings of one replica's engine. All numbers are fixed for the engine's life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineConfig {
    /// Tokens in one KV block, at least 1. Small blocks share more and cost more bookkeeping; 16 by default.
    pub block_tokens: u32,
    /// KV blocks in the pool, at least 1; 384 by default.
    pub blocks: u32,
    /// Most sequences running at once, at least 1; 8 by default.
    pub max_batch: u32,
    /// Most new tokens computed in one step, prefill and decode together; at least `max_batch`, so that a full batch
    /// can always decode. 512 by default.
    pub token_budget: u32,
    /// Longest prompt plus output budget, tokens; 2 048 by default.
    pub max_context: u32,
    /// Split a long prefill over steps. Off: a prompt is computed whole, and the first prefill of a step may exceed the
    /// token budget.
    pub chunked_prefill: bool,
    /// At most one prefill in a step.
    pub one_prefill: bool,
    /// Keep and share full blocks by content.
    pub prefix_cache: bool,
    /// Blocks that admission leaves free, so that running sequences can grow. Concerns admission only, and not that
    /// into an empty batch (where there is nobody to grow, and waiting would be for ever).
    pub watermark_blocks: u32,
    /// Fill [`crate::StepPlan::tokens`] and [`crate::StepPlan::tables`] for an executor. Off for priced runs, where
    /// nobody reads them. On, prompts must bring their token ids, and every step must bring its tokens.
    pub materialise: bool,
    /// The token that ends a sequence unless its request ignores it.
    pub end_of_text: u32,
    /// Adapters (LoRA) held at once. 0: adapters cost nothing and are always there. Memory for the slots is not part of `blocks`.
    #[serde(default)]
    pub adapter_slots: u32,
    /// Note every change of what the cache holds, for somebody who keeps an index of it
    /// ([`crate::Engine::drain_kv_changes`]).
    #[serde(default)]
    pub kv_changes: bool,
    /// Note the prompt blocks that steps fill, for a store behind the replicas ([`crate::Engine::drain_filled`]).
    #[serde(default)]
    pub write_through: bool,
    /// Limits of the waiting queue.
    #[serde(default)]
    pub queue: QueueConfig,
}

impl EngineConfig {
    /// Most blocks of a pool: block numbers and the end-of-list mark must fit in 32 bits, slots too.
    pub const MAX_BLOCKS: u32 = 1 << 26;

    /// From the spec's section; the watermark share becomes whole blocks, rounded down.
    pub fn from_spec(spec: &EngineSpec, materialise: bool) -> Self {
        EngineConfig {
            block_tokens: spec.block_tokens,
            // What the slots take is gone for good.
            blocks: spec.blocks.saturating_sub(spec.adapter_slots.saturating_mul(spec.adapter_blocks)),
            max_batch: spec.max_batch,
            token_budget: spec.token_budget,
            max_context: spec.max_context,
            chunked_prefill: spec.chunked_prefill,
            one_prefill: spec.one_prefill,
            prefix_cache: spec.prefix_cache,
            watermark_blocks: libm::floor(spec.watermark.clamp(0.0, 1.0) * f64::from(spec.blocks)) as u32,
            materialise,
            end_of_text: END_OF_TEXT,
            adapter_slots: spec.adapter_slots,
            kv_changes: false,
            write_through: false,
            queue: QueueConfig {
                max_requests: spec.max_queued,
                count_running: spec.queued_count_running,
                max_tokens: spec.max_queued_tokens,
                ttl: Nanos::from_secs(spec.queue_ttl_s),
                max_wait: Nanos::from_secs(spec.max_wait_s),
            },
        }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// [`ConfigError`], naming the field, its value and what would be accepted.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let fields = [
            ("block_tokens", self.block_tokens, 1, 1 << 16),
            ("blocks", self.blocks, 1, Self::MAX_BLOCKS),
            ("max_batch", self.max_batch, 1, 1 << 20),
            ("token_budget", self.token_budget, self.max_batch, 1 << 30),
            ("max_context", self.max_context, 2, 1 << 30),
            ("watermark_blocks", self.watermark_blocks, 0, self.blocks - self.blocks.min(1)),
        ];
        for (field, value, least, most) in fields {
            if value < least || value > most {
                return Err(ConfigError { field, value, least, most });
            }
        }
        if u64::from(self.blocks) * u64::from(self.block_tokens) > u64::from(u32::MAX) {
            let most = u32::MAX / self.block_tokens;
            return Err(ConfigError { field: "blocks", value: self.blocks, least: 1, most });
        }
        Ok(())
    }

    /// Whether a request makes sense and fits an empty engine with these settings. It is judged by its output
    /// budget, never by its true length.
    ///
    /// # Errors
    /// Why not.
    pub fn can_serve(&self, request: &SequenceRequest) -> Result<(), Refusal> {
        let SequenceRequest { prompt, max_tokens, output_tokens, .. } = request;
        let (max_tokens, output_tokens) = (*max_tokens, *output_tokens);
        if prompt.len == 0 {
            return Err(Refusal::EmptyPrompt);
        }
        if max_tokens == 0 {
            return Err(Refusal::NoOutput);
        }
        if output_tokens == 0 || output_tokens > max_tokens {
            return Err(Refusal::OutputLength { output_tokens, max_tokens });
        }
        let tokens = u64::from(prompt.len) + u64::from(max_tokens);
        if tokens > u64::from(self.max_context) {
            return Err(Refusal::TooLong { tokens, max_context: self.max_context });
        }
        // The last token is never fed back, so it needs no slot.
        let needed = (tokens - 1).div_ceil(u64::from(self.block_tokens));
        if needed > u64::from(self.blocks) {
            return Err(Refusal::TooManyBlocks { needed, blocks: self.blocks });
        }
        let (keys, expected) = (prompt.full_blocks(), prompt.len / self.block_tokens);
        if self.prefix_cache && keys != expected {
            return Err(Refusal::Keys { len: prompt.len, keys, expected });
        }
        let given = prompt.tokens.as_ref().map(|tokens| tokens.len() as u32);
        if given.unwrap_or(if self.materialise { 0 } else { prompt.len }) != prompt.len {
            return Err(Refusal::Tokens { len: prompt.len, given: given.unwrap_or(0) });
        }
        Ok(())
    }

    /// Blocks that hold `tokens` tokens.
    pub fn blocks_for(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.block_tokens)
    }
}

impl Default for EngineConfig {
    fn default() -> Self {
        EngineConfig::from_spec(&EngineSpec::default(), false)
    }
}

/// A setting outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("engine.{field} is {value}; accepted is {least} to {most}")]
pub struct ConfigError {
    /// The field.
    pub field: &'static str,
    /// What it was.
    pub value: u32,
    /// Smallest accepted.
    pub least: u32,
    /// Largest accepted.
    pub most: u32,
}
