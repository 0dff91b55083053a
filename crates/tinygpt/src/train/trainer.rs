//! One step after the other.

use super::TrainError;
use super::adamw::{AdamW, Moments};
use super::corpus::Corpus;
use super::graph::{Dropout, Graph};
use super::schedule::Schedule;
use crate::weights::Weights;
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};
use servelab_engine::random::Stream;

/// How a run learns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Names windows and dropout.
    pub seed: u64,
    /// Sequences a step.
    pub batch: usize,
    /// Tokens of a sequence.
    pub length: usize,
    /// Sequences that a thread computes at once: what fits its caches.
    pub micro: usize,
    /// Of 256 activations, how many are dropped.
    pub dropout: u8,
    /// The learning rate.
    pub schedule: Schedule,
    /// The optimiser.
    pub optimiser: AdamW,
}

/// Everything a run needs to go on.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Steps done.
    pub step: u64,
    /// The network.
    pub weights: Weights,
    /// The optimiser's means.
    pub moments: Moments,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Mean loss, nats a token.
    pub loss: f64,
    /// Norm of the gradient before clipping.
    pub norm: f64,
    /// Learning rate.
    pub rate: f64,
}

impl Settings {
    /// Whether the numbers fit together.
    ///
    /// # Errors
    /// [`TrainError::Setting`] naming the field.
    pub fn validate(&self, context: usize) -> Result<(), TrainError> {
        let refuse = |field, value: String, accepted: String| Err(TrainError::Setting { field, value, accepted });
        if self.batch == 0 || self.batch > 4096 {
            return refuse("batch", self.batch.to_string(), "1 to 4 096".into());
        }
        if self.length < 2 || self.length > context {
            return refuse("length", self.length.to_string(), format!("2 to the model's context, {context}"));
        }
        if self.micro == 0 || !self.batch.is_multiple_of(self.micro) {
            return refuse("micro", self.micro.to_string(), format!("a divisor of the batch, {}", self.batch));
        }
        let peak = self.schedule.peak;
        if !(peak > 0.0 && peak < 1.0) {
            return refuse("peak", peak.to_string(), "a rate above 0 and below 1".into());
        }
        Ok(())
    }
}

impl State {
    /// Weights to start from: those of [`Weights::random`] with gains of 1, a smaller embedding, and a head small enough that the
    /// first guess is nearly uniform.
    ///
    /// # Errors
    /// When the configuration is not valid.
    pub fn new(config: &crate::config::TinyGptConfig, seed: u64) -> Result<Self, TrainError> {
        let mut weights = Weights::random(config, seed)?;
        weights.final_norm.fill(1.0);
        for layer in &mut weights.layers {
            layer.attention_norm.fill(1.0);
            layer.feed_forward_norm.fill(1.0);
        }
        weights.embedding.iter_mut().for_each(|x| *x *= 0.5);
        weights.head.iter_mut().for_each(|x| *x *= 0.1);
        let moments = Moments { first: Weights::zeros(config)?, second: Weights::zeros(config)? };
        Ok(State { step: 0, weights, moments })
    }

    /// Learns from one step's windows on `threads` threads.
    ///
    /// # Errors
    /// [`TrainError::Diverged`] when the loss is not finite; the weights are then as they were.
    pub fn advance(&mut self, corpus: &Corpus, settings: &Settings, threads: usize) -> Result<Outcome, TrainError> {
        let windows = corpus.windows(settings.seed, self.step, settings.batch, settings.length);
        let parts: Vec<&[&[u32]]> = windows.chunks(settings.micro).collect();
        let threads = threads.clamp(1, parts.len());
        let share = parts.len().div_ceil(threads);
        let (step, weights) = (self.step, &self.weights);
        let work = |first: usize, parts: &[&[&[u32]]]| gradients(weights, settings, step, first, parts);
        let work = &work;
        let sums: Vec<(Weights, f64)> = std::thread::scope(|scope| {
            let running: Vec<_> = parts
                .chunks(share)
                .enumerate()
                .map(|(thread, parts)| scope.spawn(move || work(thread * share, parts)))
                .collect();
            running.into_iter().map(|thread| thread.join().expect("a training thread does not panic")).collect()
        });
        let mut sums = sums.into_iter();
        let (mut gradient, mut loss) = sums.next().expect("there is at least one window");
        for (more, more_loss) in sums {
            loss += more_loss;
            for (sum, (_, more)) in gradient.tensors_mut().into_iter().zip(more.tensors()) {
                sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
            }
        }
        if !loss.is_finite() {
            return Err(TrainError::Diverged { step, loss });
        }
        let rate = settings.schedule.rate(step);
        let norm = settings.optimiser.update(&mut self.weights, &mut self.moments, &gradient, step, rate);
        self.step += 1;
        Ok(Outcome { loss, norm, rate })
    }

    /// Mean loss over consecutive windows of a text that has not been learnt from, nats a token and tokens: quick, each window starting anew.
    /// [`measure`](super::measure) is slower, kinder to the model, and goes through the serving kernels.
    pub fn glance(&self, tokens: &[u32], settings: &Settings, threads: usize) -> f64 {
        let length = settings.length;
        let windows: Vec<&[u32]> =
            (0..(tokens.len() - 1) / length).map(|i| &tokens[i * length..=(i + 1) * length]).collect();
        let share = windows.len().div_ceil(threads.max(1));
        let weights = &self.weights;
        let run = |windows: &[&[u32]]| {
            let graph = Graph::new(weights, length, &Device::flex());
            let parts = windows.chunks(settings.micro.max(1));
            parts.map(|part| sum_of(&graph.losses(&inputs(part), &targets(part), None))).sum::<f64>()
        };
        let run = &run;
        let sums: Vec<f64> = std::thread::scope(|scope| {
            let running: Vec<_> = windows.chunks(share).map(|part| scope.spawn(move || run(part))).collect();
            running.into_iter().map(|thread| thread.join().expect("a training thread does not panic")).collect()
        });
        sums.iter().sum::<f64>() / (windows.len() * length) as f64
    }
}

fn inputs(windows: &[&[u32]]) -> Vec<u32> {
    windows.iter().flat_map(|window| window[..window.len() - 1].iter().copied()).collect()
}

fn targets(windows: &[&[u32]]) -> Vec<u32> {
    windows.iter().flat_map(|window| window[1..].iter().copied()).collect()
}

fn sum_of(losses: &Tensor<2>) -> f64 {
    losses.clone().without_autodiff().into_data().iter::<f64>().sum()
}

/// One thread's part of a step: the gradient of its windows' losses, as a share of the whole step's mean, and that share of the loss.
fn gradients(weights: &Weights, settings: &Settings, step: u64, first: usize, parts: &[&[&[u32]]]) -> (Weights, f64) {
    let graph = Graph::new(weights, settings.length, &Device::flex().autodiff());
    let tokens = (settings.batch * settings.length) as f64;
    let mut sum: Vec<Option<Tensor<2>>> = Vec::new();
    let mut loss = 0.0;
    for (index, part) in parts.iter().enumerate() {
        let stream = Stream::new(settings.seed, b"dropout").split(step).split((first + index) as u64);
        let mut dropout = Dropout { share: settings.dropout, stream };
        let losses = graph.losses(&inputs(part), &targets(part), Some(&mut dropout));
        loss += sum_of(&losses) / tokens;
        let backward = (losses.sum() * (1.0 / tokens) as f32).backward();
        let new = graph.gradients(backward);
        sum = if sum.is_empty() { new } else { sum.into_iter().zip(new).map(|(sum, new)| Some(sum? + new?)).collect() };
    }
    let mut gradient = Weights::zeros(&weights.config).expect("the weights' own configuration");
    for (out, sum) in gradient.tensors_mut().into_iter().zip(sum) {
        if let Some(sum) = sum {
            let data = sum.into_data();
            match data.as_slice::<f32>() {
                Ok(values) => out.copy_from_slice(values),
                Err(_) => out.iter_mut().zip(data.iter::<f32>()).for_each(|(out, x)| *out = x),
            }
        }
    }
    (gradient, loss)
}
