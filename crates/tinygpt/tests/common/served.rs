//! The model under the real engine: prefix cache, chunked prefill, preemption in a pool that is too small.

use super::oracle::Oracle;
use super::suite::{best, gap, prompt};
use servelab_engine::{
    Engine, EngineConfig, Executor, Nanos, Prompt, Sampling, SequenceId, SequenceRequest, StepOutput,
};
use servelab_tinygpt::{Kernels, KvShape, TinyGptExecutor, Weights};

/// Tokens that each request generates.
const OUTPUT: u32 = 20;
/// Requests, in order of arrival.
const REQUESTS: usize = 6;

/// What serving showed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Served {
    /// The output of each request.
    pub outputs: Vec<Vec<u32>>,
    pub preemptions: u64,
    pub hit_tokens: u64,
    pub steps: u64,
}

/// Engine settings: all the machinery in a pool that is too small for it, and two engines without machinery.
pub fn settings() -> [(&'static str, EngineConfig); 3] {
    let full = EngineConfig {
        block_tokens: 8,
        blocks: 20,
        max_batch: 4,
        token_budget: 24,
        max_context: 256,
        chunked_prefill: true,
        one_prefill: false,
        prefix_cache: true,
        watermark_blocks: 0,
        materialise: true,
        end_of_text: 257,
        adapter_slots: 0,
        kv_changes: false,
        write_through: false,
        queue: Default::default(),
    };
    let plain =
        EngineConfig { blocks: 96, token_budget: 512, chunked_prefill: false, prefix_cache: false, ..full.clone() };
    let single = EngineConfig { max_batch: 1, ..plain.clone() };
    [("everything on, pool too small", full), ("whole prompts, no cache", plain), ("one at a time", single)]
}

/// The prompts: two groups with a common prefix each.
pub fn prompts() -> Vec<Vec<u32>> {
    let prefix = |index: usize| prompt(30 + (index % 2) as u64, 40);
    (0..REQUESTS).map(|index| [prefix(index), prompt(40 + index as u64, 3 + 5 * index)].concat()).collect()
}

/// Serves all requests, the odd ones with temperature if `sampled`. They arrive every third step.
pub async fn serve<K: Kernels>(kernels: K, config: EngineConfig, sampled: bool) -> Served {
    let shape = KvShape { blocks: config.blocks, block_tokens: config.block_tokens };
    let mut executor = TinyGptExecutor::new(kernels, shape, None);
    let block_tokens = config.block_tokens;
    let mut engine = Engine::new(config).unwrap();
    let mut served = Served { outputs: vec![vec![]; REQUESTS], ..Served::default() };
    let mut arriving = prompts().into_iter().enumerate();
    let (mut now, mut step) = (Nanos::default(), 0);
    loop {
        if step % 3 == 0
            && let Some((index, prompt)) = arriving.next()
        {
            let temperature = if sampled && index % 2 == 1 { 0.9 } else { 0.0 };
            let request = SequenceRequest {
                id: SequenceId(index as u64),
                prompt: Prompt::from_tokens(&prompt, block_tokens, 0),
                max_tokens: OUTPUT,
                output_tokens: OUTPUT,
                ignore_eos: true,
                sampling: Sampling { temperature, top_k: 40, top_p: 0.95, seed: index as u64 },
                adapter: None,
                tenant: 0,
                output_seed: 0,
            };
            engine.submit(now, request).unwrap();
        }
        step += 1;
        let Some(plan) = engine.plan(now, 1) else {
            if arriving.len() == 0 {
                break;
            }
            continue;
        };
        let output: StepOutput = executor.execute(0, plan).await.unwrap();
        let sampled: Vec<usize> =
            plan.items.iter().filter(|item| item.sample).map(|item| item.sequence.0 as usize).collect();
        for (&index, &token) in sampled.iter().zip(&output.tokens) {
            served.outputs[index].push(token);
        }
        now = Nanos(now.0 + 1_000_000);
        engine.commit(now, &output, &mut Vec::new()).unwrap();
    }
    let stats = engine.stats();
    served.preemptions = stats.preemptions;
    served.hit_tokens = stats.hit_tokens;
    served.steps = stats.steps;
    served
}

/// Every token of a greedy output must be the oracle's wherever its two best are further apart than the tolerance. Gives the exceptions.
pub fn greedy_outputs_are_the_oracles(served: &Served, weights: &Weights, tolerance: f64) -> usize {
    let mut exceptions = 0;
    for (prompt, output) in prompts().into_iter().zip(&served.outputs) {
        assert_eq!(output.len(), OUTPUT as usize);
        let mut oracle = Oracle::new(weights);
        let mut history = prompt;
        for &token in output {
            let wanted = oracle.logits(&history);
            if token != best(wanted) {
                assert!(gap(wanted) <= tolerance, "token {token} instead of {}, gap {:.2e}", best(wanted), gap(wanted));
                exceptions += 1;
            }
            history.push(token);
        }
    }
    exceptions
}
