//! Signals and how fresh they are.
//!
//! A policy declares the tier it reads ([`crate::routing::Policy::reads`]) and is shown that tier and nothing fresher. Most
//! production failures of routing are mistakes about tiers, so a tier is part of a policy's type, not of its text.

use serde::{Deserialize, Serialize};

/// Where a signal comes from, hence how old it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// What this router itself sent and saw come back: instant, but each router has only its own.
    RouterLocal,
}

/// What a router knows of a replica from its own traffic. Tokens streamed back pass through it, so it counts them as they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalSignals {
    /// Attempts sent there and not yet ended.
    pub requests: u32,
    /// Σ over those attempts of prompt tokens + output budget − tokens produced so far.
    pub tokens: u64,
}
