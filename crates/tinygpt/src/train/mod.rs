//! The trainer: the network in burn's autodiff, AdamW, a cosine schedule, checkpoints, loss on held-out text.
//!
//! | module | holds |
//! |---|---|
//! | [`corpus`] | a text as tokens, its last tenth held out |
//! | [`graph`] | the forward pass with gradients, equal to the serving kernels' |
//! | [`adamw`] | the optimiser, on the host |
//! | [`schedule`] | the learning rate of a step |
//! | [`trainer`] | one step after the other, on several threads |
//! | [`checkpoint`] | everything a run needs to go on, in a safetensors file |
//! | [`measure`] | held-out bits per byte, through the serving kernels |
//!
//! A run is a function of corpus, tokenizer, settings and number of threads: windows and dropout are counter-based draws of the step's number, so a run
//! that resumes goes on as if it had not stopped. Each thread computes whole sequences on tensors of its own, and the threads' sums are added in order.

pub mod adamw;
pub mod checkpoint;
pub mod corpus;
pub mod graph;
pub mod measure;
pub mod schedule;
pub mod trainer;

use thiserror::Error;

/// Why training or measuring stops.
#[derive(Debug, Error)]
pub enum TrainError {
    /// A setting that can not be.
    #[error("training: {field} is {value}; accepted is {accepted}")]
    Setting {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What would be accepted.
        accepted: String,
    },
    /// The loss is no number any more.
    #[error("training: the loss of step {step} is {loss}; a lower learning rate or a longer warm-up may help")]
    Diverged {
        /// The step.
        step: u64,
        /// The loss, nats a token.
        loss: f64,
    },
    /// Weights or checkpoint.
    #[error(transparent)]
    Weights(#[from] crate::weights_file::WeightsError),
    /// Configuration.
    #[error(transparent)]
    Config(#[from] crate::config::ConfigError),
    /// The kernels failed.
    #[error("measuring: {0}")]
    Execute(#[from] servelab_engine::ExecuteError),
}
