//! Whoever computes steps.

use crate::plan::{StepOutput, StepPlan};
use std::future::Future;
use thiserror::Error;

/// Computes steps for replicas that share one set of weights, each with KV tensors of its own.
///
/// Asynchronous because reading back from a GPU in a browser is; a CPU executor returns a ready future, and
/// `pollster` drives it natively. The priced fleet needs no executor at all.
pub trait Executor {
    /// Computes one step on `replica`'s KV tensors.
    ///
    /// # Errors
    /// [`ExecuteError`] when the device can not go on; the step then counts as not run.
    fn execute(&mut self, replica: u32, plan: &StepPlan) -> impl Future<Output = Result<StepOutput, ExecuteError>>;

    /// The device in words, for the report.
    fn device(&self) -> String;
}

/// A step that could not be computed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExecuteError {
    /// The GPU went away. KV content is gone; the run can restart elsewhere.
    #[error("the GPU device was lost: {reason}")]
    DeviceLost {
        /// What the device said.
        reason: String,
    },
    /// Memory ran out.
    #[error("out of memory on {device}: {reason}")]
    OutOfMemory {
        /// The device.
        device: String,
        /// What it said.
        reason: String,
    },
    /// The plan asks for something this executor was not built for.
    #[error("plan step {step}: {reason}")]
    BadPlan {
        /// The step.
        step: u64,
        /// What is wrong.
        reason: String,
    },
}
