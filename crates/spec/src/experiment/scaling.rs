//! Who decides how many replicas there are, and how replicas come and go.

use super::OverflowSpec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How replicas come and go. Off, the number of replicas is what [`super::Spec::replicas`] and the events make it. On without a controller, it stays what
/// it was at the start: replicas that are lost are replaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ScalingSpec {
    /// Replicas come and go.
    pub on: bool,
    /// Autoscalers to compare, each with every policy; none: no autoscaler.
    pub controllers: Vec<ControllerSpec>,
    /// Fewest replicas.
    pub min: u32,
    /// Most replicas.
    pub max: u32,
    /// Seconds between two scrapes of the signals that controllers read.
    pub scrape_s: f64,
    /// Who goes when there are too many.
    pub victim: Victim,
    /// How long a replica may drain before it is killed, seconds.
    pub grace_s: f64,
    /// Requests that find no ready replica wait for one; off: they are refused with 503.
    pub hold: bool,
    /// A request whose replica goes is sent again, once.
    pub retry_lost: bool,
    /// How long a node without a replica is kept and paid for, seconds.
    pub node_linger_s: f64,
    /// Cores of a replica's host.
    pub host_cores: u32,
    /// Core time of a request, µs.
    pub host_request_us: f64,
    /// Core time of a step, µs.
    pub host_step_us: f64,
    /// How long after the last arrival a run goes on, seconds: what is then still in flight is pending.
    pub patience_s: f64,
    /// A managed API that takes what the fleet can not serve in time.
    pub overflow: OverflowSpec,
}

impl Default for ScalingSpec {
    fn default() -> Self {
        ScalingSpec {
            on: false,
            controllers: vec![],
            min: 1,
            max: 8,
            scrape_s: 15.0,
            victim: Victim::Newest,
            grace_s: 30.0,
            hold: true,
            retry_lost: false,
            node_linger_s: 600.0,
            host_cores: 8,
            host_request_us: 2000.0,
            host_step_us: 1000.0,
            patience_s: 1800.0,
            overflow: OverflowSpec::default(),
        }
    }
}

/// An autoscaler by its registry name, with the parameters that differ from its defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ControllerSpec {
    /// Stable snake_case name from the registry.
    pub name: String,
    /// Parameters by name; switches are 0 and 1, choices the index of the option.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, f64>,
}

impl ControllerSpec {
    /// The controller with all its defaults.
    pub fn named(name: &str) -> Self {
        ControllerSpec { name: name.into(), params: BTreeMap::new() }
    }

    /// The controller with one parameter set.
    #[must_use]
    pub fn with(mut self, param: &str, value: f64) -> Self {
        self.params.insert(param.into(), value);
        self
    }
}

/// Who goes when there are too many replicas. Whoever is not ready goes before whoever is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Victim {
    /// The one created last: Kubernetes.
    Newest,
    /// The one with the fewest requests in flight.
    Idlest,
    /// The one with the fewest cached blocks.
    Coldest,
}
