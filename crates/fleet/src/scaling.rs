//! How many replicas there should be.
//!
//! A [`Controller`] is asked once in each of its periods. It sees one borrowed [`ScaleView`]: how many replicas were last asked for, what
//! has become of them, and the [`History`] of what scrapes found: nothing fresher, and nothing of replicas that no scrape has reached. It answers
//! with a number of replicas; creating them, choosing who goes and draining are the fleet's affair. What it remembers (recommendations, cool-downs,
//! panic) is its own and is saved with the run.
//!
//! A [`Decision`] says apart what the rule computed from the signal and what was left of it after windows of stabilisation, delays and rate limits.
//! So "where did the delay go" is read off a run and not guessed.
//!
//! One controller is one file and one line in [`registry`].

mod aibrix_apa;
mod behavior;
#[cfg(test)]
mod claims;
pub mod config;
mod dynamo_planner;
pub mod history;
mod keda;
mod knative_kpa;
mod kubernetes_hpa;
mod llm_d_wva;
mod naive_ratio;
pub(crate) mod nodes;
mod oracle;
#[cfg(test)]
mod properties;
mod ray_serve;
pub mod registry;
pub(crate) mod scaler;
mod schedule;
mod shared;
pub mod signal;
mod skyserve;
#[cfg(test)]
mod testing;

pub use config::{HostConfig, NodesConfig, ScalingConfig};
pub use history::{History, PodSample, Sample};
pub use scaler::{Life, LifeEvent, ScalePoint, ScalingTotals};
pub use signal::{Over, Signal};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use servelab_engine::Nanos;

/// An autoscaler.
pub trait Controller: Send {
    /// Time between two evaluations, above 0.
    fn period(&self) -> Nanos;

    /// How far back it looks: samples are kept that long.
    fn window(&self) -> Nanos;

    /// One evaluation.
    fn decide(&mut self, view: &ScaleView<'_>) -> Decision;

    /// What it remembers, for saving; `Null` when that is nothing.
    fn save(&self) -> Value {
        Value::Null
    }

    /// Takes back what [`Controller::save`] gave.
    ///
    /// # Errors
    /// A phrase on what is wrong with the state.
    fn restore(&mut self, state: &Value) -> Result<(), String> {
        if state.is_null() { Ok(()) } else { Err("this controller remembers nothing".into()) }
    }
}

/// What an evaluation is made on.
#[derive(Clone, Copy)]
pub struct ScaleView<'a> {
    /// The instant.
    pub now: Nanos,
    /// Replicas last asked for (what Kubernetes calls `spec.replicas`).
    pub current: u32,
    /// Fewest replicas allowed.
    pub min: u32,
    /// Most replicas allowed, at least `min`.
    pub max: u32,
    /// Replicas there are or that are on their way, by index; those that drain left out.
    pub pods: &'a [Pod],
    /// What scrapes found.
    pub history: &'a History,
    /// What nobody can know: only a controller that is labelled a bound may look.
    pub future: Option<&'a dyn Future>,
}

impl std::fmt::Debug for ScaleView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ScaleView { now, current, min, max, pods, .. } = self;
        f.debug_struct("ScaleView")
            .field("now", now)
            .field("current", current)
            .field("bounds", &(min, max))
            .field("pods", pods)
            .finish_non_exhaustive()
    }
}

impl ScaleView<'_> {
    /// Replicas in `phase`.
    pub fn count(&self, phase: Phase) -> u32 {
        self.pods.iter().filter(|pod| pod.phase == phase).count() as u32
    }

    /// `wanted` within the bounds.
    pub fn clamp(&self, wanted: u32) -> u32 {
        wanted.clamp(self.min, self.max.max(self.min))
    }
}

/// The load to come.
pub trait Future {
    /// Most requests per second planned for any instant from `from` to `to`.
    fn peak_rate(&self, from: Nanos, to: Nanos) -> f64;
}

/// A replica as controllers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pod {
    /// Its index.
    pub replica: u32,
    /// Where it stands.
    pub phase: Phase,
    /// When it was decided on.
    pub created: Nanos,
    /// When it entered its phase.
    pub since: Nanos,
}

/// Where a replica stands, in Kubernetes' sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It has no node yet.
    Pending,
    /// Its process starts: it runs and is not ready.
    Starting,
    /// It takes requests.
    Ready,
}

/// What an evaluation comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What the rule makes of the signal, before stabilisation, delays and rate limits.
    pub wanted: u32,
    /// How many replicas there should be from now on. The fleet keeps it within the bounds.
    pub desired: u32,
    /// Why, in a phrase.
    pub why: &'static str,
}

impl Decision {
    /// What the rule says goes at once.
    pub fn now(wanted: u32, why: &'static str) -> Self {
        Decision { wanted, desired: wanted, why }
    }

    /// What the rule says is held back: it stays at `desired`.
    pub fn held(wanted: u32, desired: u32, why: &'static str) -> Self {
        Decision { wanted, desired, why }
    }
}
