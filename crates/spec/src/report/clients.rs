//! What clients did, and where the capacity went.

use super::Configuration;
use serde::{Deserialize, Serialize};

/// What clients did, and what it cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct ClientsReport {
    /// Registry name of the client policy; empty when several act together, or none.
    pub policy: String,
    /// Name for people.
    pub label: String,
    /// Attempts ÷ requests.
    pub amplification: f64,
    /// Attempts after a failed one.
    pub retries: u64,
    /// Attempts beside one that was under way.
    pub hedges: u64,
    /// Retries that a budget or a breaker did not allow.
    pub unpaid: u64,
    /// Attempts that took too long for their clients, whatever became of them on the server's side.
    #[serde(default)]
    pub timed_out: u64,
    /// Mean rate of new requests from the first to the last, a second: that of the workload, unless clients wait for answers before they ask again.
    #[serde(default)]
    pub rate_per_s: f64,
    /// What became of attempts on the server's side.
    pub attempts: AttemptsReport,
    /// Where the capacity of replicas went, as shares of it.
    pub capacity: CapacityShares,
    /// Most attempts in a second (or in one bin of the run's count of attempts over time, if that is longer), a second.
    pub peak_per_s: f64,
    /// The same as a multiple of what the fleet can serve.
    pub peak: f64,
    /// When the last request was answered, seconds; absent when somebody was not.
    pub all_served_s: Option<f64>,
    /// Requests that were given up.
    pub gave_up: u64,
    /// Requests whose clients still wait where the run ends.
    pub waiting: u64,
    /// The client policy as settings of real clients.
    #[serde(default)]
    pub configurations: Vec<Configuration>,
}

/// What became of attempts; the parts sum to the attempts made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct AttemptsReport {
    /// A replica took them in.
    pub accepted: u64,
    /// Never sent: the client's own breaker or throttle held them back.
    pub refused_by_client: u64,
    /// Turned away in front of the router.
    pub refused_by_gateway: u64,
    /// Turned away by the router: no replica was there.
    pub refused_by_router: u64,
    /// Turned away by the replica that was chosen.
    pub refused_by_replica: u64,
    /// Taken out of the gateway's queue because nobody waited any more.
    pub withdrawn: u64,
    /// Sent into a split network.
    pub vanished: u64,
    /// Sent to a managed API instead.
    #[serde(default)]
    pub outside: u64,
    /// Held by the gateway where the run ends.
    pub held: u64,
}

/// Shares of the capacity of all replicas; they sum to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct CapacityShares {
    /// For answers that somebody waited for.
    pub useful: f64,
    /// For attempts that nobody waited for, or that were lost.
    pub wasted: f64,
    /// For turning attempts away.
    pub refusing: f64,
    /// For attempts that have not ended.
    pub unfinished: f64,
    /// Lost while replicas were down or stood still.
    #[serde(default)]
    pub down: f64,
    /// For nothing.
    pub idle: f64,
}
