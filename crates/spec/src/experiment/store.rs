//! The section on a store behind the replicas.

use serde::{Deserialize, Serialize};

/// A store of KV blocks behind the replicas, one for all of them. Prompt blocks enter it when a replica has computed them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct StoreSpec {
    /// Blocks it holds, the ones used longest ago going first; 0: there is none.
    pub blocks: u32,
    /// Delay of every fetch, seconds.
    pub latency_s: f64,
    /// Bandwidth of each replica's link, 10⁹ bytes a second.
    pub link_gb_per_s: f64,
    /// Bandwidth of the store for all replicas together, 10⁹ bytes a second; 0: it is no limit.
    pub total_gb_per_s: f64,
    /// KV bytes of one token; 0: those of the cost model's own model.
    pub token_bytes: u32,
    /// When what it holds and a replica does not is fetched.
    pub fetch: FetchRule,
}

impl Default for StoreSpec {
    fn default() -> Self {
        // A link of 10 Gbit/s.
        StoreSpec {
            blocks: 0,
            latency_s: 0.001,
            link_gb_per_s: 1.25,
            total_gb_per_s: 0.0,
            token_bytes: 0,
            fetch: FetchRule::Cheaper,
        }
    }
}

/// When what the store holds and a replica does not is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FetchRule {
    /// When it is there sooner than it would be computed.
    Cheaper,
    /// Always.
    Always,
    /// Never: the store only fills.
    Never,
}
