//! Counters and gauges of one engine, kept incrementally.

use crate::time::Nanos;
use serde::{Deserialize, Serialize};

/// One engine's statistics. Gauges show the state now (a planned step's blocks included), counters the time since it
/// began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineStats {
    /// Gauge: sequences waiting.
    pub waiting: u32,
    /// Gauge: sequences running.
    pub running: u32,
    /// Gauge: blocks that some sequence holds. Cached blocks that nobody holds do not count: they can be had at once.
    pub used_blocks: u32,
    /// Blocks in the pool.
    pub total_blocks: u32,
    /// Gauge: blocks with shareable content that nobody holds.
    pub reusable_blocks: u32,
    /// Most sequences ever waiting at once.
    pub peak_waiting: u32,
    /// Most sequences ever running at once.
    pub peak_running: u32,
    /// Most blocks ever held at once.
    pub peak_used_blocks: u32,
    /// Gauge: prompt tokens of sequences without a first token.
    #[serde(default)]
    pub prefill_backlog: u64,
    /// Requests taken.
    pub submitted: u64,
    /// Requests refused.
    pub refused: u64,
    /// Sequences that ended by themselves.
    pub finished: u64,
    /// Sequences cancelled.
    pub cancelled: u64,
    /// Sequences that waited too long.
    #[serde(default)]
    pub expired: u64,
    /// First admissions.
    pub admitted: u64,
    /// Prompt tokens of first admissions.
    pub prompt_tokens: u64,
    /// Of those, tokens found in the cache.
    pub hit_tokens: u64,
    /// Of those, tokens brought by a fetch and not found in the cache.
    #[serde(default)]
    pub fetched_tokens: u64,
    /// Σ of the time from arrival to first admission.
    pub queue_time: Nanos,
    /// Preemptions.
    pub preemptions: u64,
    /// Cached blocks given away for new content.
    pub evictions: u64,
    /// Adapters loaded.
    #[serde(default)]
    pub adapter_loads: u64,
    /// Steps committed, each of a run of equal ones counted.
    pub steps: u64,
    /// Prefill tokens computed, recomputation included.
    pub prefill_tokens: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
}

impl EngineStats {
    /// Share of the pool that sequences hold, 0 to 1.
    pub fn kv_usage(&self) -> f64 {
        if self.total_blocks == 0 { 0.0 } else { f64::from(self.used_blocks) / f64::from(self.total_blocks) }
    }

    /// Share of prompt tokens found in the cache at first admission, 0 to 1.
    pub fn reuse(&self) -> f64 {
        if self.prompt_tokens == 0 { 0.0 } else { self.hit_tokens as f64 / self.prompt_tokens as f64 }
    }
}
