//! The knee: the highest offered rate at which a policy still keeps the limits, as requests per second and replica.
//!
//! A rate is *good* when 95 % of first tokens come within the TTFT limit ([`Quantiles::p95`](crate::report::Quantiles)) **and** at least [`GOOD_SHARE`] of
//! the requests meet every limit. Rates are tried on a grid of equal ratios, upwards until two in a row are not good; between the highest good one and
//! the next the interval is halved until its ends are [`TOLERANCE`] apart, and the lower end, which was good, is the knee. Each policy and seed
//! is a *trial* of its own. The limits are the spec's (`slo.*`), and so are the length of the run and everything else but the rate.
//!
//! A run starts with empty caches and ends: a longer one gives queues more time to grow beyond the knee, a shorter one less time to
//! fill caches, so the number belongs to the length of the run, which the result states.
//!
//! A recorded trace has no rate of its own to vary: it is played faster or slower, and its rate is its requests ÷ the time from first to last.

use crate::SCHEMA_VERSION;
use crate::experiment::Spec;
use crate::sweep::Band;
use serde::{Deserialize, Serialize};

/// Share of the requests that must meet every limit. The share that a 95th percentile speaks of, so that both halves of the definition ask for
/// the same.
pub const GOOD_SHARE: f64 = 0.95;

/// Ratio of the ends of the interval in which the knee lies at last. Rates of a run of some hundred arrivals are themselves
/// uncertain by some per cent, so a finer search would measure the draw of the arrivals.
pub const TOLERANCE: f64 = 1.02;

/// Whose knee is looked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KneeSpec {
    /// Schema version, [`SCHEMA_VERSION`].
    #[serde(default = "version")]
    pub version: u32,
    /// The experiment; its rate (of a trace, its speed) is what is varied, its seed is the first one.
    pub spec: Spec,
    /// Trials of every policy, with the seeds `spec.seed`, `spec.seed + 1` and so on.
    pub seeds: u32,
}

fn version() -> u32 {
    SCHEMA_VERSION
}

/// Every policy's knee.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KneeReport {
    /// Schema version.
    pub version: u32,
    /// Program and version that wrote it.
    pub generator: String,
    /// Whose knee was looked for.
    pub knee: KneeSpec,
    /// What is called the knee here, in a sentence with the figures of this spec.
    pub definition: String,
    /// One entry per policy, in the spec's order.
    pub policies: Vec<PolicyKnee>,
    /// Every trial, ascending.
    pub trials: Vec<KneeTrial>,
}

/// One policy's knee over its seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyKnee {
    /// Registry name.
    pub name: String,
    /// Name for people, with the parameters that differ from their defaults.
    pub label: String,
    /// Requests per second of the whole fleet: mean over the trials that found it, and its band.
    pub per_s: Option<Band>,
    /// The same ÷ the replicas that the run starts with: the number an autoscaler wants.
    pub per_replica_per_s: Option<Band>,
    /// This policy's knee − the first policy's, per replica, paired by seed.
    pub versus_first: Option<Band>,
    /// Trials in which no rate was good.
    pub never_good: u32,
    /// Trials in which every rate was good.
    pub always_good: u32,
    /// The grid's rates, ascending, with means over the trials that tried them.
    pub curve: Vec<KneePoint>,
}

/// One rate of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KneePoint {
    /// Offered requests per second.
    pub rate_per_s: f64,
    /// Requests meeting every limit, per second.
    pub goodput_per_s: Option<Band>,
    /// Requests meeting every limit ÷ offered.
    pub goodput_fraction: Option<Band>,
    /// 95th percentile of TTFT, seconds.
    pub ttft_p95_s: Option<Band>,
}

/// A curve of a knee's report against the offered rate, both per replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KneeCurve {
    /// Requests meeting every limit.
    Goodput,
    /// 95th percentile of TTFT.
    TtftP95,
}

/// What to draw of a knee's report: a line for each policy, its knee marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KneeChartRequest {
    /// Which curve.
    pub curve: KneeCurve,
    /// Width, CSS pixels.
    pub width: u32,
    /// Height, CSS pixels.
    pub height: u32,
    /// Dark scheme.
    pub dark: bool,
}

/// One policy with one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KneeTrial {
    /// Number: policy · seeds + seed's index.
    pub trial: u32,
    /// Index of the policy.
    pub policy: u32,
    /// The seed.
    pub seed: u64,
    /// How the search ended.
    pub end: KneeEnd,
    /// The knee, requests per second of the whole fleet, when it was found.
    pub per_s: Option<f64>,
    /// Every rate tried, in order.
    pub probes: Vec<Probe>,
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KneeEnd {
    /// Between a good rate and one that is not.
    Found,
    /// Not even the lowest rate was good: the limits ask for more than an idle fleet gives.
    NeverGood,
    /// The highest rate was still good.
    AlwaysGood,
}

/// One rate tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Offered requests per second.
    pub rate_per_s: f64,
    /// Step of the grid; absent between its steps.
    pub step: Option<i32>,
    /// Requests meeting every limit, per second.
    pub goodput_per_s: f64,
    /// Requests meeting every limit ÷ offered.
    pub goodput_fraction: f64,
    /// 95th percentile of TTFT, seconds; absent when nobody was served.
    pub ttft_p95_s: Option<f64>,
    /// Requests of the run.
    #[serde(default)]
    pub requests: u32,
    /// The limits are kept.
    pub good: bool,
}
