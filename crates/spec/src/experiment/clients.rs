//! The sections on clients and on what goes wrong.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Who sends requests, and what they do when one fails. Off: each request is sent once, when the workload says, whatever else stands here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ClientsSpec {
    /// Clients have rules of their own.
    pub on: bool,
    /// Client policies to compare, each run on the same arrivals; none: one try.
    pub policies: Vec<ClientSpec>,
    /// They all act in one run, each on an equal share of the requests. Off: a run for each.
    pub together: bool,
    /// Processes that requests come from; each has a budget, a breaker and a throttle of its own.
    pub processes: u32,
    /// When requests are sent.
    pub pace: Pace,
    /// Users of a closed loop.
    pub users: u32,
    /// Mean time of thinking of a closed loop and of sessions, seconds.
    pub think_s: f64,
    /// The server learns when nobody waits any more, and stops.
    pub cancels: bool,
    /// How long after the last arrival a run goes on, seconds: who then still waits is counted as waiting.
    pub patience_s: f64,
}

impl Default for ClientsSpec {
    fn default() -> Self {
        ClientsSpec {
            on: false,
            policies: vec![],
            together: false,
            processes: 1,
            pace: Pace::Open,
            users: 100,
            think_s: 1.0,
            cancels: false,
            patience_s: 600.0,
        }
    }
}

/// A client policy by its registry name, with the parameters that differ from its defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClientSpec {
    /// Stable snake_case name from the registry.
    pub name: String,
    /// Parameters by name; switches are 0 and 1, choices the index of the option.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, f64>,
}

impl ClientSpec {
    /// The policy with all its defaults.
    pub fn named(name: &str) -> Self {
        ClientSpec { name: name.into(), params: BTreeMap::new() }
    }

    /// The policy with one parameter set.
    #[must_use]
    pub fn with(mut self, param: &str, value: f64) -> Self {
        self.params.insert(param.into(), value);
        self
    }
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// When the workload says, whatever became of earlier ones.
    Open,
    /// By so many users, each of whom waits for an answer and thinks before asking again.
    Closed,
    /// When the workload says, but no turn of a session before the answer to the one before and a time of thinking.
    Sessions,
}

/// What goes wrong for a while, and what is done about it. Instants are virtual seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct FaultsSpec {
    /// Replicas that are down for a while, the first ones; 0: none.
    pub down: u32,
    /// When they go down.
    pub down_at_s: f64,
    /// For how long.
    pub down_s: f64,
    /// What is there is lost. Off: they stand still and go on where they were, and nobody knows.
    pub down_loses: bool,
    /// Replicas that the network cuts off from the routers, the first ones; 0: none.
    pub split: u32,
    /// When that begins.
    pub split_at_s: f64,
    /// For how long.
    pub split_s: f64,
    /// Nobody scrapes for a while: routers and autoscalers go on with what they last read.
    pub stale: bool,
    /// When that begins.
    pub stale_at_s: f64,
    /// For how long.
    pub stale_s: f64,
    /// Share of attempts that replicas answer with an error (500), 0 to 1.
    pub errors: f64,
    /// When that begins.
    pub errors_at_s: f64,
    /// For how long.
    pub errors_s: f64,
    /// One request crashes whatever replica serves it.
    pub poison: bool,
    /// Which: its index in the workload.
    pub poison_request: u32,
    /// How long a replica is away that it crashed, seconds.
    pub poison_restart_s: f64,
    /// What turning an attempt away costs a replica of its time, seconds.
    pub reject_cost_s: f64,
    /// What is done about it.
    pub remedy: Remedy,
    /// When.
    pub remedy_at_s: f64,
    /// Share of requests that the remedy of dropping load turns away at the door, 0 to 1.
    pub remedy_share: f64,
    /// How long it turns them away, seconds; 0: to the end.
    pub remedy_for_s: f64,
    /// How many times what they were the remedy of raising limits makes them.
    pub remedy_times: f64,
}

impl Default for FaultsSpec {
    fn default() -> Self {
        FaultsSpec {
            down: 0,
            down_at_s: 10.0,
            down_s: 10.0,
            down_loses: true,
            split: 0,
            split_at_s: 10.0,
            split_s: 10.0,
            stale: false,
            stale_at_s: 10.0,
            stale_s: 10.0,
            errors: 0.0,
            errors_at_s: 10.0,
            errors_s: 10.0,
            poison: false,
            poison_request: 10,
            poison_restart_s: 10.0,
            reject_cost_s: 0.0,
            remedy: Remedy::None,
            remedy_at_s: 60.0,
            remedy_share: 0.5,
            remedy_for_s: 0.0,
            remedy_times: 2.0,
        }
    }
}

/// What is done in mid-run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// Nothing.
    None,
    /// Work that nobody waits for is cancelled, from then on at once.
    Cancel,
    /// A share of the requests is turned away at the door, all their attempts.
    DropLoad,
    /// Every client process gets a budget of retries: a tenth of its successes.
    Budgets,
    /// More may be in flight: limits and queue of the gateway, slots and queues of servers.
    RaiseLimits,
}

/// A replica that is a queueing station: some slots, drawn service times, first come first served.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ServerSpec {
    /// Requests served at once.
    pub slots: u32,
    /// Mean service time, seconds.
    pub service_s: f64,
    /// How service times are drawn.
    pub draws: ServiceLaw,
    /// What each request in service adds to the service time of one that starts, seconds.
    pub crowding_s: f64,
    /// Requests that may wait, more are turned away with 503; 0: as many as there are.
    pub queue: u32,
}

impl Default for ServerSpec {
    fn default() -> Self {
        ServerSpec { slots: 1, service_s: 0.1, draws: ServiceLaw::Exponential, crowding_s: 0.0, queue: 0 }
    }
}

/// How service times are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ServiceLaw {
    /// From an exponential distribution.
    Exponential,
    /// Always the mean.
    Fixed,
}
