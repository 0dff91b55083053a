//! Limits of a spec. Every error names the field, the value found and what would be accepted.

use thiserror::Error;

/// A value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: {found} is not accepted; {accepted}")]
pub struct SpecError {
    /// Dotted key of the field (`workload.rate`).
    pub field: String,
    /// The value found, as text.
    pub found: String,
    /// What would be accepted, as a phrase.
    pub accepted: String,
}

impl SpecError {
    /// An error about `field`.
    pub fn new(field: impl Into<String>, found: impl ToString, accepted: impl Into<String>) -> Self {
        SpecError { field: field.into(), found: found.to_string(), accepted: accepted.into() }
    }
}
