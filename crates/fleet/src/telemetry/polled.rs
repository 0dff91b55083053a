//! What engines say of themselves when they are asked.

use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;

/// A replica's metrics at the latest scrape.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolledSignals {
    /// When they were taken; `None` before the first scrape that found the replica.
    pub at: Option<Nanos>,
    /// Requests waiting for admission.
    pub waiting: u32,
    /// Requests being served.
    pub running: u32,
    /// Share of KV blocks that running requests hold, 0 to 1.
    pub kv_usage: f64,
    /// KV blocks in its pool; 0 where there are none.
    pub blocks: u32,
    /// Prompt tokens of requests waiting for admission, whatever of them may be cached.
    pub waiting_tokens: u64,
    /// Tokens in the engine: K and V computed of what runs, and prompts of what waits.
    pub tokens: u64,
    /// Adapters it holds, in order of their numbers.
    pub adapters: Vec<u32>,
    /// Adapters that requests wait for it to load, in order of their numbers.
    pub adapters_waiting: Vec<u32>,
    /// Adapters it can hold at once; 0 where it has none.
    pub adapter_slots: u32,
}
