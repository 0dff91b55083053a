//! The section on the gateway in front of the routers.

use super::classes::{ClassSpec, parse_classes};
use crate::validate::SpecError;
use serde::{Deserialize, Serialize};

/// What stands in front of the routers. Off, everything goes through. On, everything is off that is 0 or off below.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct GatewaySpec {
    /// There is one.
    pub on: bool,
    /// Priority classes, as [`parse_classes`] reads them; empty: all tenants are alike.
    pub classes: String,
    /// Longest prompt, tokens; 0: any.
    pub max_prompt: u32,
    /// Largest output budget, tokens; 0: any.
    pub max_output: u32,
    /// Highest number of an attempt, the first try being 1; 0: any.
    pub max_attempt: u32,
    /// Retries for each first try, over all clients, 0 to 1; 0: any.
    pub retry_ratio: f64,
    /// Fewer are let through while the servers fail (Envoy's admission control).
    pub success_rate: bool,
    /// Share of attempts that must end well.
    pub success_threshold: f64,
    /// Over which that is counted, seconds.
    pub success_window_s: u32,
    /// How work of negative priority is shed.
    pub shed: ShedKind,
    /// Requests per second of each tenant; 0: any.
    pub rate_per_s: f64,
    /// How many at once.
    pub rate_burst: u32,
    /// Tokens per second of each tenant, input and output budget together; 0: any.
    pub tokens_per_s: f64,
    /// How many at once.
    pub tokens_burst: u32,
    /// Attempts that each replica may have in flight; 0: any.
    pub in_flight: u32,
    /// Attempts in flight over the whole fleet; 0: any.
    pub concurrency: u32,
    /// A limit on attempts in flight that finds itself by latency.
    pub gradient: GradientKind,
    /// Attempts wait while the fleet is saturated, those of lower classes sooner.
    pub hold_back: bool,
    /// By how much sooner the last class is held than the first, 0 to 1.
    pub hold_back_share: f64,
    /// How saturation is measured.
    pub detector: DetectorKind,
    /// Waiting requests of a full replica.
    pub full_queue: f64,
    /// KV usage of a full replica.
    pub full_kv: f64,
    /// Requests in flight on a full replica.
    pub full_in_flight: f64,
    /// Metrics older than that count as full, seconds.
    pub stale_s: f64,
    /// Length of the ramp after recovery, seconds; 0: none.
    pub ramp_s: f64,
    /// Share let through at its beginning.
    pub ramp_least: f64,
    /// Attempts in flight on each replica at its end.
    pub ramp_full: u32,
    /// Attempts of each class that may wait; 0: none.
    pub queue: u32,
    /// Tokens of each class that may wait; 0: any.
    pub queue_tokens: u32,
    /// Who is next, of classes.
    pub order: OrderKind,
    /// Tenants of a class take turns; off: who came first.
    pub turns: bool,
    /// Longest wait, seconds; 0: any.
    pub ttl_s: f64,
    /// Attempts wait while no replica is ready; off: they are turned away with 503.
    pub hold_empty: bool,
    /// Longest wait while no replica is ready, seconds; 0: any.
    pub empty_ttl_s: f64,
    /// Least wait above which a queue is standing, seconds; 0: no controlled delay.
    pub codel_target_s: f64,
    /// Over which the least wait is taken, seconds.
    pub codel_interval_s: f64,
    /// The newest first in a standing queue.
    pub lifo: bool,
    /// What a full queue, a closed gate and a drop answer.
    pub refuse_with: RefuseWith,
    /// What clients that are turned away are told of when to come back.
    pub retry_after: RetryAfterKind,
    /// The fixed time, seconds.
    pub retry_after_s: f64,
    /// Up to so much more, drawn for each, seconds.
    pub retry_spread_s: f64,
    /// Rounded up to whole seconds, as the header has them.
    pub retry_whole: bool,
}

impl Default for GatewaySpec {
    /// llm-d's and Envoy's numbers where they have some; everything off.
    fn default() -> Self {
        GatewaySpec {
            on: false,
            classes: String::new(),
            max_prompt: 0,
            max_output: 0,
            max_attempt: 0,
            retry_ratio: 0.0,
            success_rate: false,
            success_threshold: 0.95,
            success_window_s: 120,
            shed: ShedKind::Off,
            rate_per_s: 0.0,
            rate_burst: 5,
            tokens_per_s: 0.0,
            tokens_burst: 5000,
            in_flight: 0,
            concurrency: 0,
            gradient: GradientKind::Off,
            hold_back: false,
            hold_back_share: 0.2,
            detector: DetectorKind::Metrics,
            full_queue: 5.0,
            full_kv: 0.8,
            full_in_flight: 100.0,
            stale_s: 0.2,
            ramp_s: 0.0,
            ramp_least: 0.1,
            ramp_full: 8,
            queue: 0,
            queue_tokens: 0,
            order: OrderKind::Strict,
            turns: false,
            ttl_s: 60.0,
            hold_empty: false,
            empty_ttl_s: 60.0,
            codel_target_s: 0.0,
            codel_interval_s: 5.0,
            lifo: true,
            refuse_with: RefuseWith::TooMany,
            retry_after: RetryAfterKind::Nothing,
            retry_after_s: 1.0,
            retry_spread_s: 0.0,
            retry_whole: true,
        }
    }
}

impl GatewaySpec {
    /// The priority classes, read.
    ///
    /// # Errors
    /// When the text is no list of classes.
    pub fn class_list(&self) -> Result<Vec<ClassSpec>, SpecError> {
        parse_classes(&self.classes)
    }
}

/// How work of negative priority is shed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ShedKind {
    /// Not at all.
    Off,
    /// All of it while the fleet is full.
    WhenFull,
    /// Each with a probability that grows with saturation: min(1, 300 · saturation⁵).
    Gradually,
}

/// A limit that finds itself by latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GradientKind {
    /// None.
    Off,
    /// By the time to the first token.
    FirstToken,
    /// By the time to the end of the answer.
    Answer,
}

/// How saturation is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DetectorKind {
    /// By engine metrics at the latest scrape.
    Metrics,
    /// By what was sent and has not ended.
    InFlight,
}

/// Order between classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OrderKind {
    /// By priority.
    Strict,
    /// Turns in proportion to weights.
    Weighted,
}

/// What a full queue answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub enum RefuseWith {
    /// 429 Too Many Requests: the caller's quota.
    #[serde(rename = "429")]
    TooMany,
    /// 503 Service Unavailable: no capacity.
    #[serde(rename = "503")]
    Unavailable,
}

/// What clients that are turned away are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RetryAfterKind {
    /// Nothing.
    Nothing,
    /// Always the same.
    Fixed,
    /// By what turned them away, else by the queue.
    Computed,
}
