//! What the tests share: random settings, random requests, random things that happen.
#![allow(dead_code, clippy::unwrap_used)]

pub mod naive;

use proptest::prelude::*;
use servelab_engine::{EngineConfig, Prompt, Sampling, SequenceId, SequenceRequest};

/// `cases` random cases, or as many as `PROPTEST_CASES` says. Failures print their smallest input; nothing is written
/// beside the sources.
pub fn cases(cases: u32) -> ProptestConfig {
    let told = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { cases: told.unwrap_or(cases), failure_persistence: None, ..ProptestConfig::default() }
}

/// Small settings that get into every kind of trouble: pools of a few blocks, batches of one, budgets of a batch.
pub fn configs(materialise: bool) -> impl Strategy<Value = EngineConfig> {
    let sizes = (1u32..=5, 3u32..=24, 1u32..=5, 0u32..=24, 0u32..=3);
    let switches = (any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.8));
    (sizes, switches).prop_map(move |((block_tokens, blocks, max_batch, spare, watermark), switches)| EngineConfig {
        block_tokens,
        blocks,
        max_batch,
        token_budget: max_batch + spare,
        max_context: 64,
        chunked_prefill: switches.0,
        one_prefill: switches.1,
        prefix_cache: switches.2,
        watermark_blocks: watermark.min(blocks - 1),
        materialise,
        end_of_text: 257,
        adapter_slots: 0,
        kv_changes: false,
        write_through: false,
        queue: Default::default(),
    })
}

/// A request before it has a name.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Whose common beginning.
    pub group: u32,
    /// Tokens of it.
    pub common: u32,
    /// Tokens of its own after it; drawn from few variants, so that equal prompts occur.
    pub own: u32,
    pub variant: u32,
    pub output: u32,
    /// Budget beyond the true length.
    pub spare: u32,
    pub ignore_eos: bool,
}

impl Wish {
    pub fn tokens(&self) -> Vec<u32> {
        let common = (0..self.common).map(|at| self.group * 1000 + at);
        let own = (0..self.own).map(|at| 100_000 + self.group * 10_000 + self.variant * 1000 + at);
        common.chain(own).collect()
    }

    pub fn request(&self, id: u64, block_tokens: u32) -> SequenceRequest {
        SequenceRequest {
            id: SequenceId(id),
            prompt: Prompt::from_tokens(&self.tokens(), block_tokens, 0),
            max_tokens: self.output + self.spare,
            output_tokens: self.output,
            ignore_eos: self.ignore_eos,
            sampling: Sampling { seed: id, ..Sampling::default() },
            adapter: None,
            tenant: self.group,
            output_seed: u64::from(self.variant),
        }
    }

    /// The same, named by keys only.
    pub fn key_request(&self, id: u64, block_tokens: u32) -> SequenceRequest {
        let request = self.request(id, block_tokens);
        SequenceRequest { prompt: Prompt { tokens: None, ..request.prompt }, ..request }
    }
}

pub fn wishes() -> impl Strategy<Value = Wish> {
    (0u32..3, 0u32..24, 1u32..12, 0u32..4, 1u32..16, 0u32..3, any::<bool>()).prop_map(
        |(group, common, own, variant, output, spare, ignore_eos)| Wish {
            group,
            common,
            own,
            variant,
            output,
            spare,
            ignore_eos,
        },
    )
}

/// Something a driver does.
#[derive(Clone, Debug)]
pub enum Op {
    Submit(Wish),
    /// The n-th sequence ever submitted, whatever became of it.
    Cancel(u8),
    Plan,
    Commit,
    Abort,
    /// Save and restore.
    Restore,
    ForgetKv,
}

pub fn ops(most: usize) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => wishes().prop_map(Op::Submit),
        1 => any::<u8>().prop_map(Op::Cancel),
        12 => Just(Op::Plan),
        12 => Just(Op::Commit),
        1 => Just(Op::Abort),
        1 => Just(Op::Restore),
        1 => Just(Op::ForgetKv),
    ];
    prop::collection::vec(op, 1..most)
}
