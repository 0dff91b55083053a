//! Whoever computes steps.

use crate::plan::{StepOutput, StepPlan};
use servelab_spec::experiment::Stage;
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

    /// Does one stage of `replica`'s start for real, with weights and buffers of its own from then on, and says how many seconds it took. A stage
    /// whose forerunners were never done here (another executor did them and was lost) does those first. Whoever shares one set of weights
    /// for good refuses.
    ///
    /// # Errors
    /// [`ExecuteError`] when the device can not go on, or nothing can be started here.
    fn boot(&mut self, replica: u32, stage: Stage) -> impl Future<Output = Result<f64, ExecuteError>> {
        async move { Err(ExecuteError::NoStart { replica, stage }) }
    }

    /// `replica` is gone: what it had of its own is not needed any more.
    fn released(&mut self, replica: u32) {
        _ = replica;
    }

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
    /// A replica's start can not be done here.
    #[error("replica {replica}: this executor does no stage of a start ({stage:?})")]
    NoStart {
        /// The replica.
        replica: u32,
        /// What was asked for.
        stage: Stage,
    },
    /// The weights can not be had.
    #[error("replica {replica} does not start: {reason}")]
    Weights {
        /// The replica.
        replica: u32,
        /// What is wrong.
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
