//! Hand-made step plans for one replica.

use servelab_engine::{ExecuteError, PlanItem, Sampling, SequenceId, StepPlan};
use servelab_tinygpt::{Kernels, KvShape, TinyGptExecutor, Weights};

/// A sequence: its tokens, how many of them have K and V, and where.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pub tokens: Vec<u32>,
    pub computed: usize,
    pub table: Vec<u32>,
    pub prompt: usize,
    pub sampling: Sampling,
}

impl Line {
    pub fn new(prompt: &[u32]) -> Self {
        Line { tokens: prompt.to_vec(), prompt: prompt.len(), ..Line::default() }
    }

    /// Starts after the first `tokens` of another line, whose blocks it reads.
    pub fn after(prompt: &[u32], other: &Line, tokens: usize, block_tokens: usize) -> Self {
        let table = other.table[..tokens / block_tokens].to_vec();
        Line { computed: tokens / block_tokens * block_tokens, table, ..Line::new(prompt) }
    }

    /// Tokens without K and V.
    pub fn left(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// What was generated.
    pub fn output(&self) -> &[u32] {
        &self.tokens[self.prompt..]
    }
}

/// An executor with blocks handed out in a scattered order.
pub struct Desk<K> {
    pub executor: TinyGptExecutor<K>,
    pub vocabulary: usize,
    free: Vec<u32>,
    step: u64,
}

impl<K: Kernels> Desk<K> {
    pub fn new(kernels: K, weights: &Weights, shape: KvShape) -> Self {
        // Odd stride, so that a context's blocks are neither in order nor neighbours; the last is never handed out.
        let usable = shape.blocks - 1;
        let stride = (0..).map(|i| usable / 2 + i).find(|&s| gcd(s, usable) == 1).unwrap();
        let free = (0..usable).map(|i| i * stride % usable).collect();
        let executor = TinyGptExecutor::new(kernels, shape, None);
        Desk { executor, vocabulary: weights.config.vocabulary, free, step: 0 }
    }

    pub fn block_tokens(&self) -> usize {
        self.executor.shape().block_tokens as usize
    }

    /// A block that nobody holds, ever.
    pub fn unused_block(&self) -> u32 {
        self.executor.shape().blocks - 1
    }

    /// Gives a line the blocks for `tokens` tokens.
    pub fn reserve(&mut self, line: &mut Line, tokens: usize) {
        while line.table.len() * self.block_tokens() < tokens {
            line.table.push(self.free.pop().expect("enough blocks for the test"));
        }
    }

    /// The plan that computes the next `count` tokens of some lines.
    pub fn plan(&mut self, lines: &mut [Line], work: &[(usize, usize)]) -> StepPlan {
        let mut plan = StepPlan { step: self.step, repeat: 1, ..StepPlan::default() };
        self.step += 1;
        for &(index, count) in work {
            let line = &mut lines[index];
            self.reserve(line, line.computed + count);
            let sample = count == line.left();
            let blocks = (line.computed + count).div_ceil(self.block_tokens());
            plan.items.push(PlanItem {
                sequence: SequenceId(index as u64),
                start: line.computed as u32,
                len: count as u32,
                sample,
                decode: count == 1 && line.computed >= line.prompt,
                output_index: (line.tokens.len() - line.prompt) as u32,
                sampling: line.sampling,
                tokens_at: plan.tokens.len() as u32,
                table_at: plan.tables.len() as u32,
                table_len: blocks as u32,
            });
            plan.tokens.extend(&line.tokens[line.computed..line.computed + count]);
            plan.tables.extend(&line.table[..blocks]);
            line.computed += count;
        }
        plan
    }

    /// Computes the next `count` tokens of some lines; logits for each line that is then complete.
    pub async fn step(
        &mut self,
        lines: &mut [Line],
        work: &[(usize, usize)],
    ) -> Result<Vec<(usize, Vec<f32>)>, ExecuteError> {
        let plan = self.plan(lines, work);
        let logits = self.executor.logits(0, &plan).await?;
        let rows = logits.chunks_exact(self.vocabulary);
        let sampled: Vec<_> = plan.items.iter().filter(|item| item.sample).collect();
        assert_eq!(rows.len(), sampled.len(), "one row of logits for each sampled item");
        Ok(sampled.iter().zip(rows).map(|(item, row)| (item.sequence.0 as usize, row.to_vec())).collect())
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
