//! The section on a managed API that takes what the fleet can not serve in time.

use serde::{Deserialize, Serialize};

/// A managed API beside a fleet that scales. Requests go there while nobody is ready, while every ready replica has as much as it may, and by night.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct OverflowSpec {
    /// There is one.
    pub on: bool,
    /// Requests in flight for each ready replica from which on one more goes out.
    pub load: f64,
    /// Hour of the day at which every request begins to go out.
    pub from_h: f64,
    /// Hour at which that ends; the same hour: it never does so by the clock.
    pub until_h: f64,
    /// Its time to first token, seconds.
    pub ttft_s: f64,
    /// Its time for each further token, seconds.
    pub token_s: f64,
    /// Its price of a million prompt tokens, dollars.
    pub prompt_usd: f64,
    /// Its price of a million output tokens, dollars.
    pub output_usd: f64,
    /// Price of an hour of one of the fleet's own nodes, dollars: what the API's is compared with.
    pub node_usd: f64,
}

impl Default for OverflowSpec {
    /// Round figures of the order that is asked for a model of 8 to 70 billion parameters and for a GPU by the hour; they are nobody's list price.
    fn default() -> Self {
        OverflowSpec {
            on: false,
            load: 16.0,
            from_h: 0.0,
            until_h: 0.0,
            ttft_s: 0.6,
            token_s: 0.015,
            prompt_usd: 0.5,
            output_usd: 1.5,
            node_usd: 2.0,
        }
    }
}
