//! What gateway and queues turned away or held.

use super::{Goodput, Quantiles, RequestCounts};
use serde::{Deserialize, Serialize};

/// Attempts turned away for one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct RefusalReport {
    /// Who turned them away: client, gateway, router or replica.
    pub layer: String,
    /// Why, for people.
    pub cause: String,
    /// HTTP status.
    pub code: u16,
    /// Attempts; a request that was tried again counts each time.
    pub attempts: u64,
}

/// What a gateway did in one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct GatewayReport {
    /// Time held at the gateway, all attempts of a request together, seconds; of all requests that ended.
    pub held_s: Quantiles,
    /// One entry per priority class, in the order given; empty without classes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassReport>,
}

/// One priority class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct ClassReport {
    /// Its name.
    pub name: String,
    /// How its requests ended.
    pub requests: RequestCounts,
    /// Time to first token, seconds.
    pub ttft_s: Quantiles,
    /// Time held at the gateway, seconds.
    pub held_s: Quantiles,
    /// Requests meeting every SLO.
    pub goodput: Goodput,
}
