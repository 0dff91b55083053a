//! Measures a device and fits the cost model to it.
//!
//! A fixed list of steps spans what a fleet will ask for: short and long prefills, with and without context before them, decodes alone and
//! in batches, at short and long context. Each runs once outside the clock (pipelines compile, caches fill) and a few times inside; the
//! median counts, since one hiccup of a browser tab must not bend the model. The steps write into the blocks of replica 0 before the run
//! starts: no engine has published those blocks yet, so nothing reads what is left there, and no memory is taken for it.

use crate::error::RunError;
use crate::fit::{Fit, Timing, fit};
use servelab_engine::{EngineConfig, Executor, PlanItem, Sampling, SequenceId, StepPlan, StepWork};

/// Times each step is measured. Odd, so that the median is one of them.
const REPEATS: usize = 3;

/// Prefills: (tokens before, tokens computed). Together some 420 tokens, a second or two on a slow CPU with all repetitions.
const PREFILLS: [(u32, u32); 6] = [(0, 16), (0, 64), (0, 192), (64, 32), (512, 64), (512, 16)];

/// Decodes: (sequences, context of each, the token itself included).
const DECODES: [(u32, u32); 8] = [(1, 16), (1, 256), (1, 1024), (2, 128), (4, 64), (8, 16), (8, 128), (8, 512)];

/// Measures `executor` on steps that fit `engine`, and fits the cost model.
///
/// # Errors
/// What the executor says; [`RunError::Unmeasured`] when it gives no timings.
pub async fn calibrate<E: Executor>(executor: &mut E, engine: &EngineConfig) -> Result<Fit, RunError> {
    let mut timings = Vec::new();
    for (step, plan) in (0u64..).zip(plans(engine)) {
        let plan = StepPlan { step, ..plan };
        executor.execute(0, &plan).await?;
        let mut seconds = Vec::with_capacity(REPEATS);
        for _ in 0..REPEATS {
            seconds.extend(executor.execute(0, &plan).await?.seconds.filter(|s| s.is_finite() && *s > 0.0));
        }
        seconds.sort_by(f64::total_cmp);
        if let Some(&median) = seconds.get(seconds.len() / 2) {
            timings.push(Timing { work: plan.work, seconds: median });
        }
    }
    fit(&timings).ok_or_else(|| RunError::Unmeasured { device: executor.device() })
}

/// The steps of the list that fit a replica's pool, batch and context.
pub fn plans(engine: &EngineConfig) -> Vec<StepPlan> {
    let fits = |sequences: u32, context: u32| {
        context <= engine.max_context
            && sequences <= engine.max_batch
            && u64::from(sequences) * u64::from(engine.blocks_for(context)) <= u64::from(engine.blocks)
    };
    let prefills = PREFILLS.iter().filter(|&&(start, len)| fits(1, start + len) && len <= engine.token_budget);
    let decodes = DECODES.iter().filter(|&&(sequences, context)| fits(sequences, context));
    let mut out: Vec<StepPlan> = Vec::new();
    for &(start, len) in prefills {
        let mut plan = StepPlan { repeat: 1, ..StepPlan::default() };
        add(&mut plan, engine, 0, start, len, false);
        out.push(plan);
    }
    for &(sequences, context) in decodes {
        let mut plan = StepPlan { repeat: 1, ..StepPlan::default() };
        for sequence in 0..sequences {
            add(&mut plan, engine, sequence, context - 1, 1, true);
        }
        out.push(plan);
    }
    out
}

/// Adds a sequence with blocks of its own.
fn add(plan: &mut StepPlan, engine: &EngineConfig, sequence: u32, start: u32, len: u32, decode: bool) {
    let blocks = engine.blocks_for(start + len);
    plan.items.push(PlanItem {
        sequence: SequenceId(u64::from(sequence)),
        start,
        len,
        sample: true,
        decode,
        output_index: 0,
        sampling: Sampling::default(),
        tokens_at: plan.tokens.len() as u32,
        table_at: plan.tables.len() as u32,
        table_len: blocks,
    });
    // Printable bytes; what they are does not change what they cost.
    plan.tokens.extend((0..len).map(|position| 32 + (start + position) % 95));
    plan.tables.extend((0..blocks).map(|block| sequence * blocks + block));
    let mut work = StepWork::default();
    if decode {
        work.add_decode(start + len)
    } else {
        work.add_prefill(start, len)
    }
    plan.work.prefill_tokens += work.prefill_tokens;
    plan.work.prefill_context += work.prefill_context;
    plan.work.decode_sequences += work.decode_sequences;
    plan.work.decode_context += work.decode_context;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn plans_fit_the_replica() {
        let tiny =
            EngineConfig { blocks: 40, max_batch: 4, token_budget: 64, max_context: 300, ..EngineConfig::default() };
        for engine in [EngineConfig::default(), tiny] {
            let plans = plans(&engine);
            assert!(plans.iter().any(|plan| plan.work.prefill_tokens > 0));
            assert!(plans.iter().any(|plan| plan.work.decode_sequences > 1));
            for plan in plans {
                let mut blocks = plan.tables.clone();
                blocks.sort();
                blocks.dedup();
                assert_eq!(blocks.len(), plan.tables.len(), "sequences share no block");
                assert!(blocks.iter().all(|&block| block < engine.blocks));
                for item in &plan.items {
                    assert_eq!(plan.item_tokens(item).len(), item.len as usize);
                    assert_eq!(item.table_len, engine.blocks_for(item.start + item.len));
                }
            }
        }
        assert_eq!(super::plans(&EngineConfig::default()).len(), PREFILLS.len() + DECODES.len());
    }
}
