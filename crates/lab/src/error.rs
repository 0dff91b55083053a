//! What can stop a run.

use servelab_engine::ExecuteError;
use servelab_fleet::{FleetError, PolicyFault, RestoreError};
use servelab_spec::validate::SpecError;
use thiserror::Error;

/// A run that can not start or go on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunError {
    /// A value of the spec, or of a request for a picture, that can not be used.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The executor could not compute a step. After [`ExecuteError::DeviceLost`] a run can go on with another executor, see
    /// [`crate::Session::device_lost`].
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// The executor measured nothing, so no cost model can be fitted.
    #[error("{device} gave no timings to fit a cost model to; an executor must measure its steps")]
    Unmeasured {
        /// The device.
        device: String,
    },
    /// The fleet refused a setting or a result.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// A saved run that can not be restored.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// A saved or recorded run that contradicts itself.
    #[error("saved run: {0}")]
    Damaged(String),
    /// A policy of the user's own failed; what was simulated until then can be looked at.
    #[error("{field}: {fault}")]
    Policy {
        /// Dotted key of its text.
        field: String,
        /// What happened, and in which line.
        fault: PolicyFault,
    },
    /// A run was advanced in a way that its spec does not ask for.
    #[error("{0}")]
    Mode(&'static str),
}

impl RunError {
    /// Dotted key of the field at fault, when one is.
    pub fn field(&self) -> Option<&str> {
        match self {
            RunError::Spec(error) | RunError::Fleet(FleetError::Spec(error)) => Some(&error.field),
            RunError::Policy { field, .. } => Some(field),
            _ => None,
        }
    }
}
