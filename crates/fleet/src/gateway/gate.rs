//! Gates: each says whether one more may go on to the router now. What finds one closed waits in the queue, or is turned away where there is none.

use super::ask::{Ended, View};
use super::gradient::{Gradient, GradientConfig};
use super::ramp::{Ramp, RampConfig};
use super::saturation::HoldBackConfig;
use crate::config::raised;
use crate::record::Refusal;
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;

/// A gate. All must be open.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum GateConfig {
    /// So many attempts in flight over the whole fleet.
    Concurrency {
        /// Most of them, at least 1.
        limit: u32,
    },
    /// A limit on attempts in flight that finds itself.
    Gradient(GradientConfig),
    /// Saturation, with less for lower classes.
    HoldBack(HoldBackConfig),
    /// A slow ramp after recovery.
    Ramp(RampConfig),
}

/// The gates, dispatched by hand so that they can be saved.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Gate {
    Concurrency { limit: u32 },
    Gradient(Gradient),
    HoldBack(HoldBackConfig),
    Ramp(Ramp),
}

impl Gate {
    pub(crate) fn new(config: GateConfig) -> Self {
        match config {
            GateConfig::Concurrency { limit } => Gate::Concurrency { limit },
            GateConfig::Gradient(config) => Gate::Gradient(Gradient::new(config)),
            GateConfig::HoldBack(config) => Gate::HoldBack(config),
            GateConfig::Ramp(config) => Gate::Ramp(Ramp::new(config)),
        }
    }

    /// Why it is closed to the class of `rank` of `ranks` while `sent` attempts are in flight.
    pub(crate) fn closed(&self, rank: u32, ranks: u32, sent: u32, view: &View<'_>) -> Option<Refusal> {
        let (open, cause) = match self {
            Gate::Concurrency { limit } => (sent < *limit, Refusal::Concurrency),
            Gate::Gradient(gradient) => (sent < gradient.limit(), Refusal::Gradient),
            Gate::HoldBack(hold) => (hold.passes(rank, ranks, view), Refusal::Saturated),
            Gate::Ramp(ramp) => (sent < ramp.limit(view), Refusal::Ramp),
        };
        (!open).then_some(cause)
    }

    /// A limit that is told is so many times what it was; those that find themselves go on finding.
    pub(crate) fn raise(&mut self, times: f64) {
        if let Gate::Concurrency { limit } = self {
            *limit = raised(*limit, times);
        }
    }

    /// It has the same settings.
    pub(crate) fn is_like(&self, other: &Gate) -> bool {
        match (self, other) {
            (Gate::Concurrency { limit: one }, Gate::Concurrency { limit: other }) => one == other,
            (Gate::Gradient(one), Gate::Gradient(other)) => one.config == other.config,
            (Gate::HoldBack(one), Gate::HoldBack(other)) => one == other,
            (Gate::Ramp(one), Gate::Ramp(other)) => one.config == other.config,
            _ => false,
        }
    }

    pub(crate) fn ended(&mut self, ended: &Ended) {
        if let Gate::Gradient(gradient) = self {
            gradient.ended(ended);
        }
    }

    pub(crate) fn recovered(&mut self, now: Nanos) {
        if let Gate::Ramp(ramp) = self {
            ramp.recovered(now);
        }
    }

    pub(crate) fn tick(&mut self, now: Nanos) {
        if let Gate::Ramp(ramp) = self {
            ramp.tick(now);
        }
    }

    /// When it may open by itself.
    pub(crate) fn wake(&self) -> Option<Nanos> {
        match self {
            Gate::Ramp(ramp) => ramp.wake(),
            Gate::Concurrency { .. } | Gate::Gradient(_) | Gate::HoldBack(_) => None,
        }
    }

    pub(crate) fn reads_metrics(&self) -> bool {
        matches!(self, Gate::HoldBack(hold) if hold.detector.reads_metrics())
    }
}
