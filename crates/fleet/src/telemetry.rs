//! Signals and how fresh they are.
//!
//! A policy declares the tiers it reads ([`crate::routing::Policy::reads`]) and is shown those and nothing fresher. Most
//! production failures of routing are mistakes about tiers, so a tier is part of a policy's type, not of its text.
//!
//! | tier | what | how old | module |
//! |---|---|---|---|
//! | router-local | what this router sent and saw come back | not at all, but each router has only its own | [`local`] |
//! | polled | what engines say of themselves | up to a scrape period | [`polled`] |
//! | event-fed | which replica holds which KV block | a delay, and events may be lost | [`index`] |

pub(crate) mod holders;
pub mod index;
pub mod local;
pub mod polled;

pub use index::KvIndex;
pub use local::LocalSignals;
pub use polled::PolledSignals;

use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_spec::validate::SpecError;

/// The tiers a policy reads, a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads(u8);

impl Reads {
    /// No signal at all.
    pub const NOTHING: Reads = Reads(0);
    /// Router-local counts.
    pub const LOCAL: Reads = Reads(1);
    /// Polled engine metrics.
    pub const POLLED: Reads = Reads(2);
    /// The event-fed KV index.
    pub const EVENTS: Reads = Reads(4);

    /// Both sets.
    #[must_use]
    pub const fn and(self, other: Reads) -> Reads {
        Reads(self.0 | other.0)
    }

    /// Every tier of `other` is in this set.
    pub const fn has(self, other: Reads) -> bool {
        self.0 & other.0 == other.0
    }
}

/// How signals reach the routers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TelemetryConfig {
    /// Routers that share the traffic, at least 1, each with counts and indexes of its own.
    pub routers: u32,
    /// Time between two scrapes of engine metrics. 0: fresh at every decision, which nothing real is: a bound.
    pub scrape: Nanos,
    /// Age of KV events when they reach the routers.
    pub event_delay: Nanos,
    /// Share of KV events that never reach them, 0 to 1.
    pub event_loss: f64,
}

impl Default for TelemetryConfig {
    /// One router, 50 ms between scrapes (llm-d, AIBrix), events 10 ms old, none lost.
    fn default() -> Self {
        TelemetryConfig { routers: 1, scrape: Nanos(50_000_000), event_delay: Nanos(10_000_000), event_loss: 0.0 }
    }
}

impl TelemetryConfig {
    /// Most routers of a fleet.
    pub const MAX_ROUTERS: u32 = 64;

    pub(crate) fn validate(&self) -> Result<(), SpecError> {
        if self.routers == 0 || self.routers > Self::MAX_ROUTERS {
            let accepted = format!("use 1 to {}", Self::MAX_ROUTERS);
            return Err(SpecError::new("routing.routers", self.routers, accepted));
        }
        if !(0.0..=1.0).contains(&self.event_loss) {
            return Err(SpecError::new("routing.event_loss", self.event_loss, "use 0 (none) to 1 (all)"));
        }
        Ok(())
    }
}
