//! What a run says. Field names are the JSON's names and are stable within a schema version.

mod clients;
mod gateway;

pub use clients::{AttemptsReport, CapacityShares, ClientsReport};
pub use gateway::{ClassReport, GatewayReport, RefusalReport};

use crate::experiment::{Coefficients, Spec};
use serde::{Deserialize, Serialize};

/// A whole experiment: one entry per policy, on the same arrivals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Report {
    /// Schema version.
    pub version: u32,
    /// Program and version that made it.
    pub generator: String,
    /// The spec, complete: running it again gives this report (byte for byte when priced).
    pub spec: Spec,
    /// Facts of the workload that no policy changes.
    pub workload: WorkloadReport,
    /// What steps were charged.
    pub cost: CostReport,
    /// One entry per policy, in the spec's order.
    pub policies: Vec<PolicyReport>,
    /// Gateway and queues as settings of real ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configurations: Vec<Configuration>,
    /// What happened, in two or three sentences computed from this run.
    pub findings: Vec<String>,
    /// Which option of the preset's guess this run bears out; absent when the preset asks nothing, the run was stopped, or the
    /// policies that the guess is about were not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

/// What a run says about its preset's guess.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Verdict {
    /// Index of the option that was right.
    pub option: u32,
    /// Why, in two sentences computed from this run.
    pub because: String,
}

/// Facts of the workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct WorkloadReport {
    /// Requests offered.
    pub requests: u64,
    /// Prompt tokens offered.
    pub prompt_tokens: u64,
    /// Last arrival, seconds: as the workload has it, or where clients wait for answers before they ask again, as it was in the first run.
    pub last_arrival_s: f64,
    /// Mean arrival rate, requests per second: the same.
    pub rate_per_s: f64,
    /// What one cache of unlimited size, seeing all requests in order, would reuse.
    pub ceiling: Reuse,
    /// Names of the tenants, by index.
    pub tenants: Vec<String>,
}

/// What steps were charged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct CostReport {
    /// `preset:<name>`, `custom`, `ticks`, `fitted` or `measured`.
    pub source: String,
    /// The device that computed, in words; `none (priced)` for a priced run.
    pub device: String,
    /// The coefficients charged (fitted ones for a live run).
    pub coefficients: Coefficients,
    /// How well the fit predicts the raw measured latencies of a live run.
    pub prediction: Option<Prediction>,
    /// Why the run moved to another device, when it did.
    pub fallback: Option<String>,
}

/// Fitted against measured, over the requests of all policies of a live run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Prediction {
    /// Median of |fitted − measured| ÷ measured of a step's duration.
    pub step_error_p50: f64,
    /// 95th percentile of the same.
    pub step_error_p95: f64,
    /// Σ fitted ÷ Σ measured over all steps.
    pub total_ratio: f64,
    /// Median TTFT when the same schedule is charged the fit, seconds.
    pub ttft_fitted_s: f64,
    /// Median TTFT when the same schedule is charged the measurement, seconds.
    pub ttft_measured_s: f64,
    /// Median ITL when charged the fit, seconds.
    pub itl_fitted_s: f64,
    /// Median ITL when charged the measurement, seconds.
    pub itl_measured_s: f64,
}

impl Prediction {
    /// A choice, not a measurement: when the fit is off by more than a quarter, so may be any difference that is read from it.
    const POOR: f64 = 0.25;

    /// The fit misses steps, TTFT or ITL by more than a quarter, as it does when the machine was busy with other things: times of this run
    /// are rough.
    pub fn is_poor(&self) -> bool {
        let off = |fitted: f64, measured: f64| measured > 0.0 && (fitted / measured - 1.0).abs() > Self::POOR;
        self.step_error_p50 > Self::POOR
            || off(self.ttft_fitted_s, self.ttft_measured_s)
            || off(self.itl_fitted_s, self.itl_measured_s)
    }
}

/// One policy's result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct PolicyReport {
    /// Registry name.
    pub name: String,
    /// Name for people, with the parameters that differ from the defaults.
    pub label: String,
    /// The policy as its project's own configuration, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<Configuration>,
    /// How replicas came and went, where they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<ScalingReport>,
    /// What clients did, and what became of their attempts; absent where they have no rules of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<ClientsReport>,
    /// What the gateway did, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayReport>,
    /// Attempts that were turned away, by cause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<RefusalReport>,
    /// How requests ended.
    pub requests: RequestCounts,
    /// Time to first token, seconds.
    pub ttft_s: Quantiles,
    /// Mean gap after the first token, per request, seconds.
    pub itl_s: Quantiles,
    /// This policy's TTFT − that of the policy with the lowest mean, request by request; absent for that policy itself and for those
    /// that can not be compared with it.
    #[serde(default)]
    pub versus_best: Option<PairedTtft>,
    /// Arrival to last token, seconds.
    pub e2e_s: Quantiles,
    /// Time in a replica's queue before admission, seconds.
    pub queue_s: Quantiles,
    /// Output tokens ÷ duration.
    pub output_tokens_per_s: f64,
    /// Requests meeting every SLO.
    pub goodput: Goodput,
    /// Of the requests that arrived in the last fifth of the time in which requests arrive, the share whose first token came within its limit: whether a
    /// run ends well. Absent when none of them has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_time_at_end: Option<f64>,
    /// Prompt tokens served from cache.
    pub reuse: Reuse,
    /// What came from the store behind the replicas; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<StoreReport>,
    /// Max ÷ mean over replicas.
    pub imbalance: Imbalance,
    /// Highest share of a replica's blocks in use by sequences (reusable ones left out).
    pub kv_peak: f64,
    /// Sequences preempted.
    pub preemptions: u64,
    /// Cached blocks evicted.
    pub evictions: u64,
    /// Engine steps.
    pub steps: u64,
    /// First arrival to last end, seconds.
    pub duration_s: f64,
    /// One entry per tenant, by index.
    pub tenants: Vec<TenantReport>,
    /// One entry per replica, by index.
    pub replicas: Vec<ReplicaReport>,
}

/// Serde's way of asking.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference in")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// How replicas came and went in one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct ScalingReport {
    /// Registry name of the controller; empty where nobody decided.
    pub controller: String,
    /// Its name for people, with the parameters that differ from the defaults.
    pub label: String,
    /// The controller as its project's own configuration, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<Configuration>,
    /// Σ lifetimes of replicas, seconds.
    pub replica_s: f64,
    /// Node time paid for, seconds: nodes outlive their replicas.
    pub node_s: f64,
    /// Most replicas in rotation at once.
    pub peak_ready: u32,
    /// Replicas decided on after the start.
    pub created: u32,
    /// Of those, given up before they were ready.
    pub wasted: u32,
    /// Containers started again after a probe had failed.
    pub restarts: u32,
    /// Cached tokens thrown away with replicas that went.
    pub cache_lost_tokens: u64,
    /// Requests lost because a replica's time to drain was too short.
    pub lost_grace: u64,
    /// Requests lost because a probe had its replica killed.
    pub lost_probe: u64,
    /// Requests lost because a replica crashed.
    pub lost_crash: u64,
    /// Requests that a managed API served.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub outside: u64,
    /// What that cost, dollars at the stated prices.
    #[serde(default)]
    pub outside_usd: f64,
    /// What the nodes cost, dollars at the stated price.
    #[serde(default)]
    pub nodes_usd: f64,
    /// Time in whose bins (see `bin_s`) some request that arrived was late, turned away or lost, seconds.
    pub late_s: f64,
    /// Length of a bin, seconds.
    pub bin_s: f64,
    /// Where the time went between the first late request and the relief that followed, in order; empty when nobody was late or no replica came.
    pub delays: Vec<Delay>,
}

/// A part of the time between the first late request and relief.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Delay {
    /// What took it.
    pub what: String,
    /// How long, seconds.
    pub seconds: f64,
}

impl PolicyReport {
    /// Prompt tokens that were neither in a cache nor fetched, those of retries included.
    pub fn computed_tokens(&self) -> u64 {
        self.replicas.iter().map(|replica| replica.uncached_tokens).sum()
    }

    /// Requests whose first token never came, so that no time to it is known of them.
    pub fn unanswered(&self) -> u64 {
        self.requests.total.saturating_sub(self.ttft_s.n)
    }
}

/// What came from the store behind the replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct StoreReport {
    /// Prompt tokens fetched and not found in the replica's own cache, at first admission.
    pub fetched_tokens: u64,
    /// Those ÷ prompt tokens of admitted requests.
    pub ratio: f64,
    /// Fetches.
    pub fetches: u64,
    /// Times the store held more than the replica and computing it was the cheaper.
    pub declined: u64,
    /// Bytes moved, needed or not.
    pub bytes: u64,
    /// Σ of the time from asking to the last byte, waiting for the link included, seconds.
    pub fetch_s: f64,
    /// Blocks that left the store to make room.
    pub evictions: u64,
}

/// A policy as its project's own configuration: illustrative, field names as the project gives them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Configuration {
    /// The project.
    pub project: String,
    /// A name for the file.
    pub file: String,
    /// What stands in it.
    pub text: String,
}

/// How requests ended; the parts sum to `total`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct RequestCounts {
    /// Offered.
    pub total: u64,
    /// Finished.
    pub finished: u64,
    /// Refused: by the gateway, a router or a replica.
    pub rejected: u64,
    /// Still under way at the horizon.
    pub pending: u64,
    /// Lost with their replica.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// Whose last attempt took too long for their clients.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub timed_out: u64,
    /// Given up by their clients, whose time for all attempts together was over.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub abandoned: u64,
    /// Tries of all requests together.
    pub attempts: u64,
}

/// A distribution in seconds. Quantiles are nearest-rank on all samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Quantiles {
    /// Samples.
    pub n: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// A difference in TTFT over the requests that got a first token from both policies: the same requests at the same instants, so what they share
/// drops out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct PairedTtft {
    /// Requests compared.
    pub n: u64,
    /// Mean difference, seconds.
    pub mean_s: f64,
    /// Lower end of its 95 % interval (Student's t).
    pub low_s: f64,
    /// Upper end.
    pub high_s: f64,
    /// More than noise: the interval leaves out 0, and the mean is worth a word (a thousandth of the best median).
    pub significant: bool,
}

/// Requests meeting every SLO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Goodput {
    /// Good requests ÷ duration.
    pub per_s: f64,
    /// Good requests.
    pub good: u64,
    /// Good ÷ offered.
    pub fraction: f64,
    /// Requests that missed the TTFT limit.
    pub ttft_misses: u64,
    /// Requests that missed the ITL limit.
    pub itl_misses: u64,
}

/// Prompt tokens served from cache. Each request counts once, however often it was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Reuse {
    /// Tokens found in the cache at first admission.
    pub hit_tokens: u64,
    /// Prompt tokens of admitted requests.
    pub prompt_tokens: u64,
    /// hit ÷ prompt; 0 when there was no prompt.
    pub ratio: f64,
}

/// Max ÷ mean over replicas, those left out that joined on the way and never got a request; 1 is even.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Imbalance {
    /// Of requests assigned.
    pub assignments: f64,
    /// Of prompt tokens that had to be computed.
    pub uncached_tokens: f64,
}

/// One tenant under one policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct TenantReport {
    /// Tenant's name.
    pub name: String,
    /// How its requests ended.
    pub requests: RequestCounts,
    /// Time to first token, seconds.
    pub ttft_s: Quantiles,
    /// Mean gap after the first token, seconds.
    pub itl_s: Quantiles,
    /// Requests meeting every SLO.
    pub goodput: Goodput,
    /// Prompt tokens served from cache.
    pub reuse: Reuse,
}

/// One replica under one policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct ReplicaReport {
    /// Requests sent to it.
    pub assignments: u64,
    /// Prompt tokens it had to compute.
    pub uncached_tokens: u64,
    /// Prompt tokens it served from cache.
    pub hit_tokens: u64,
    /// Prompt tokens it fetched from the store.
    #[serde(default)]
    pub fetched_tokens: u64,
    /// Virtual seconds spent in steps.
    pub busy_s: f64,
    /// Virtual seconds it existed.
    pub lifetime_s: f64,
    /// Highest share of blocks in use.
    pub kv_peak: f64,
    /// Steps it ran.
    pub steps: u64,
}
