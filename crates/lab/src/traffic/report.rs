//! Figures of a trace.

use serde::Serialize;
use servelab_spec::report::Quantiles;

/// What a trace looks like.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Traffic {
    /// Its name in specs.
    pub trace: String,
    /// The format it was read as.
    pub format: String,
    /// Requests.
    pub requests: u64,
    /// From the first arrival to the last, seconds.
    pub span_s: f64,
    /// Requests ÷ span.
    pub rate_per_s: f64,
    /// Sum of prompt lengths, tokens.
    pub prompt_tokens: u64,
    /// Sum of output lengths, tokens.
    pub output_tokens: u64,
    /// Prompt lengths, tokens.
    pub prompt: Quantiles,
    /// Output lengths, tokens.
    pub output: Quantiles,
    /// When requests come.
    pub arrivals: Arrivals,
    /// Conversations, where the file tells them.
    pub sessions: Option<Sessions>,
    /// Whose requests there are, most requests first.
    pub tenants: Vec<TenantTraffic>,
    /// What prompts share, where the file tells it or it can be inferred.
    pub sharing: Option<Sharing>,
}

/// When requests come.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Arrivals {
    /// Standard deviation ÷ mean of the gaps between arrivals; 1 for a Poisson process. Where arrivals were recorded on a grid, after
    /// spreading them over its step.
    pub gap_cv: f64,
    /// The grid that arrivals were recorded on, seconds; 0: none.
    pub step_s: f64,
    /// Length of a bin, seconds.
    pub bin_s: f64,
    /// Requests in each bin.
    pub bins: Vec<u32>,
    /// Largest bin ÷ mean bin.
    pub peak_over_mean: f64,
    /// Share of bins without a request.
    pub empty_share: f64,
}

/// Conversations.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sessions {
    /// How many.
    pub count: u64,
    /// Requests that belong to one.
    pub requests: u64,
    /// Requests of each.
    pub turns: Quantiles,
    /// Time between a request and the next one of its conversation, seconds.
    pub gap_s: Quantiles,
}

/// One tenant.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TenantTraffic {
    /// Its name; empty where the file names nobody.
    pub name: String,
    /// Its requests.
    pub requests: u64,
    /// Mean prompt length, tokens.
    pub prompt_mean: f64,
    /// Mean output length, tokens.
    pub output_mean: f64,
}

/// What prompts share.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sharing {
    /// The file has no keys; this follows from conversations that grow, or from named beginnings.
    pub inferred: bool,
    /// Tokens of a block; 0 when inferred.
    pub block_tokens: u32,
    /// Blocks of all prompts.
    pub blocks: u64,
    /// Distinct ones.
    pub unique_blocks: u64,
    /// Share of the distinct ones that one request alone has.
    pub once_share: f64,
    /// Distinct first blocks.
    pub first_blocks: u64,
    /// Share of requests with the most frequent first block.
    pub first_block_share: f64,
    /// Blocks at the beginning that all requests share.
    pub common_blocks: u64,
    /// Prompt tokens that a cache of unlimited size would find ÷ prompt tokens.
    pub unlimited: f64,
    /// The same for a cache of so many blocks, least recently used out first, the end of a prompt before its beginning. Empty when inferred.
    pub curve: Vec<CachePoint>,
}

/// Hits of one cache size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CachePoint {
    /// Blocks that it holds.
    pub blocks: u32,
    /// The same in tokens.
    pub tokens: u64,
    /// Prompt tokens found ÷ prompt tokens.
    pub ratio: f64,
}
