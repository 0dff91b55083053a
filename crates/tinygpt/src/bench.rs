//! How fast a device runs the model: a few numbers that can be compared between devices, and with the cost model.

use crate::executor::TinyGptExecutor;
use crate::forward::Kernels;
use crate::kv::KvShape;
use serde::{Deserialize, Serialize};
use servelab_engine::{ExecuteError, Executor, PlanItem, Sampling, SequenceId, StepPlan};

/// What to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BenchOptions {
    /// Context of decoding sequences, tokens. Default 128.
    pub context: u32,
    /// Prompt that is prefilled, tokens. Default 1024; more than 16.
    pub prompt: u32,
    /// Tokens of the prompt that are computed when the rest is cached. Default 16.
    pub uncached: u32,
    /// Least time spent on each number, seconds. Default 0.5: browsers' clocks tick in steps of up to 100 µs, some of 1 ms.
    pub seconds: f64,
    /// Readings of each number, of which the median is reported. Default 5.
    pub readings: u32,
}

impl Default for BenchOptions {
    fn default() -> Self {
        BenchOptions { context: 128, prompt: 1024, uncached: 16, seconds: 0.5, readings: 5 }
    }
}

/// What was measured: seconds of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchReport {
    /// The device in words.
    pub device: String,
    /// What was asked for.
    pub options: BenchOptions,
    /// A decode step of one sequence.
    pub decode_1: f64,
    /// A decode step of eight sequences.
    pub decode_8: f64,
    /// The whole prompt in one step.
    pub prefill_cold: f64,
    /// The end of the prompt in one step, what is before it being cached.
    pub prefill_cached: f64,
}

impl BenchReport {
    /// Tokens per second of one decoding sequence.
    pub fn decode_1_rate(&self) -> f64 {
        1.0 / self.decode_1
    }

    /// Tokens per second of eight decoding sequences together.
    pub fn decode_8_rate(&self) -> f64 {
        8.0 / self.decode_8
    }

    /// Prompt tokens per second.
    pub fn prefill_rate(&self) -> f64 {
        f64::from(self.options.prompt) / self.prefill_cold
    }

    /// The numbers as rows: what, value, unit.
    pub fn rows(&self) -> [[String; 3]; 5] {
        let BenchOptions { context, prompt, uncached, .. } = self.options;
        let row = |what: String, value: String, unit: &str| [what, value, unit.to_owned()];
        [
            row(format!("decode, batch 1, context {context}"), format!("{:.0}", self.decode_1_rate()), "tok/s"),
            row(format!("decode, batch 8, context {context}"), format!("{:.0}", self.decode_8_rate()), "tok/s"),
            row(format!("prefill {prompt}, cold"), format!("{:.0}", self.prefill_rate()), "tok/s"),
            row(format!("prefill {prompt}, cold"), format!("{:.1}", self.prefill_cold * 1e3), "ms"),
            row(
                format!("prefill {prompt}, all but {uncached} cached"),
                format!("{:.1}", self.prefill_cached * 1e3),
                "ms",
            ),
        ]
    }

    /// The rows as lines, as `cargo xtask bench` reads them: what, value, unit, remark, with tabs between.
    pub fn lines(&self, place: &str) -> Vec<String> {
        let share = format!("{:.1} % of cold", self.cached_share() * 100.0);
        let rows = self.rows();
        let last = rows.len() - 1;
        let line = |(index, [what, value, unit]): (usize, [String; 3])| {
            let remark = if index == last { share.as_str() } else { "" };
            format!("TinyGPT, {place}: {what}\t{value}\t{unit}\t{remark}")
        };
        rows.into_iter().enumerate().map(line).collect()
    }

    /// Cost of a prompt with a cached prefix ÷ cost without.
    pub fn cached_share(&self) -> f64 {
        self.prefill_cached / self.prefill_cold
    }
}

impl std::fmt::Display for BenchReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for [what, value, unit] in self.rows() {
            writeln!(f, "{what}: {value} {unit}")?;
        }
        write!(f, "cached ÷ cold: {:.1} % ({})", self.cached_share() * 100.0, self.device)
    }
}

/// Measures a device. Drops the executor's replicas.
///
/// Each number is the median of several readings, each of as many equal steps as fill its share of the time; the first step
/// (pipelines, page faults, tiers of a browser's compiler) is not counted.
///
/// # Errors
/// When the device fails, or the options do not fit the model.
pub async fn bench<K: Kernels>(
    executor: &mut TinyGptExecutor<K>,
    clock: &dyn Fn() -> f64,
    options: &BenchOptions,
) -> Result<BenchReport, ExecuteError> {
    let shape = executor.shape();
    let blocks = |tokens: u32| tokens.div_ceil(shape.block_tokens);
    executor.reset(KvShape { blocks: blocks(options.prompt).max(8 * blocks(options.context)), ..shape });
    let measured = time_steps(executor, clock, options).await;
    executor.reset(shape);
    let [decode_1, decode_8, prefill_cold, prefill_cached] = measured?;
    let device = executor.device();
    Ok(BenchReport { device, options: options.clone(), decode_1, decode_8, prefill_cold, prefill_cached })
}

/// Seconds of the four steps of a [`BenchReport`].
async fn time_steps<K: Kernels>(
    executor: &mut TinyGptExecutor<K>,
    clock: &dyn Fn() -> f64,
    options: &BenchOptions,
) -> Result<[f64; 4], ExecuteError> {
    let block_tokens = executor.shape().block_tokens;
    let before = options.context.saturating_sub(1);
    let cached = options.prompt.saturating_sub(options.uncached);
    let plans = [
        plan(1, before, options.context, block_tokens),
        plan(8, before, options.context, block_tokens),
        plan(1, 0, options.prompt, block_tokens),
        plan(1, cached, options.prompt, block_tokens),
    ];
    let mut seconds = [0.0; 4];
    for (plan, seconds) in plans.iter().zip(&mut seconds) {
        *seconds = time_step(executor, clock, options, plan).await?;
    }
    Ok(seconds)
}

/// `sequences` sequences that compute tokens `start..end`, each in blocks of its own.
pub(crate) fn plan(sequences: u32, start: u32, end: u32, block_tokens: u32) -> StepPlan {
    let mut plan = StepPlan { repeat: 1, ..StepPlan::default() };
    let table_len = end.div_ceil(block_tokens);
    for sequence in 0..sequences {
        plan.items.push(PlanItem {
            sequence: SequenceId(u64::from(sequence)),
            start,
            len: end.saturating_sub(start),
            sample: true,
            decode: end == start + 1,
            output_index: 0,
            sampling: Sampling::default(),
            tokens_at: plan.tokens.len() as u32,
            table_at: plan.tables.len() as u32,
            table_len,
        });
        plan.tokens.extend((start..end).map(|position| (sequence * 31 + position * 7) % 256));
        plan.tables.extend(sequence * table_len..(sequence + 1) * table_len);
    }
    plan
}

/// Seconds of a step.
async fn time_step<K: Kernels>(
    executor: &mut TinyGptExecutor<K>,
    clock: &dyn Fn() -> f64,
    options: &BenchOptions,
    plan: &StepPlan,
) -> Result<f64, ExecuteError> {
    let readings = options.readings.max(1);
    executor.execute(0, plan).await?;
    let mut all = Vec::new();
    for _ in 0..readings {
        let began = clock();
        let mut steps = 0.0;
        let elapsed = loop {
            executor.execute(0, plan).await?;
            steps += 1.0;
            let elapsed = clock() - began;
            if elapsed * f64::from(readings) >= options.seconds {
                break elapsed;
            }
        };
        all.push(elapsed / steps);
    }
    all.sort_by(f64::total_cmp);
    Ok(all[all.len() / 2])
}
