//! Held-out loss in bits per byte, through the serving kernels: what the shipped weights are worth.

use super::TrainError;
use crate::executor::TinyGptExecutor;
use crate::forward::Kernels;
use servelab_engine::{PlanItem, Sampling, SequenceId, StepPlan};

/// Windows that are computed side by side.
const SIDE_BY_SIDE: usize = 32;

/// What a text costs a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    /// Tokens of the text; every one is counted once.
    pub tokens: usize,
    /// Bits in all.
    pub bits: f64,
}

/// Measures a text's loss in windows of `length` tokens that overlap by half: every token but those of the first window has at least
/// `length ÷ 2` tokens before it. The very first token has none and counts log₂ of the vocabulary. `progress` is told of tokens done.
///
/// The cache needs [`blocks`] blocks of `block_tokens`.
///
/// # Errors
/// When the kernels fail.
pub async fn held_out<K: Kernels>(
    executor: &mut TinyGptExecutor<K>,
    text: &[u32],
    length: usize,
    mut progress: impl FnMut(usize),
) -> Result<Loss, TrainError> {
    let vocabulary = executor.config().vocabulary;
    let half = (length / 2).max(1);
    let mut loss = Loss { tokens: 1, bits: libm::log2(vocabulary as f64) };
    // A window predicts the tokens from `from` to `to`, after those from `start`.
    let mut windows = vec![(0, 1, text.len().min(length))];
    while let Some(&(start, _, to)) = windows.last()
        && to < text.len()
    {
        windows.push((start + half, to, text.len().min(start + half + length)));
    }
    for group in windows.chunks(SIDE_BY_SIDE) {
        let longest = group.iter().map(|&(_, from, to)| to - from).max().unwrap_or(0);
        for round in 0..longest {
            let mut plan = StepPlan { repeat: 1, ..StepPlan::default() };
            let mut wanted = Vec::new();
            for (lane, &(start, from, to)) in group.iter().enumerate() {
                let target = from + round;
                if target >= to {
                    continue;
                }
                // The first round computes all that lies before, later ones one token more.
                let known = if round == 0 { start } else { target - 1 };
                push(&mut plan, executor.shape(), lane, known - start, &text[known..target]);
                wanted.push(text[target]);
            }
            let logits = executor.logits(0, &plan).await?;
            for (row, &token) in logits.chunks_exact(vocabulary).zip(&wanted) {
                loss.bits += bits(row, token);
                loss.tokens += 1;
            }
        }
        progress(loss.tokens);
    }
    Ok(loss)
}

/// Blocks that [`held_out`] needs.
pub fn blocks(length: usize, block_tokens: u32) -> u32 {
    SIDE_BY_SIDE as u32 * (length as u32).div_ceil(block_tokens)
}

fn push(plan: &mut StepPlan, shape: crate::kv::KvShape, lane: usize, start: usize, tokens: &[u32]) {
    let lanes = shape.blocks / SIDE_BY_SIDE as u32;
    let first = lane as u32 * lanes;
    let table_len = (start + tokens.len()).div_ceil(shape.block_tokens as usize) as u32;
    plan.items.push(PlanItem {
        sequence: SequenceId(lane as u64),
        start: start as u32,
        len: tokens.len() as u32,
        sample: true,
        decode: tokens.len() == 1,
        output_index: 0,
        sampling: Sampling::default(),
        tokens_at: plan.tokens.len() as u32,
        table_at: plan.tables.len() as u32,
        table_len,
    });
    plan.tokens.extend_from_slice(tokens);
    plan.tables.extend(first..first + table_len);
}

/// −log₂ of a token's share in the softmax.
fn bits(logits: &[f32], token: u32) -> f64 {
    let most = logits.iter().copied().fold(f32::MIN, f32::max);
    let sum: f64 = logits.iter().map(|&logit| libm::exp(f64::from(logit - most))).sum();
    (libm::log(sum) - f64::from(logits[token as usize] - most)) / core::f64::consts::LN_2
}
