//! What a fleet that scales is built with.

use crate::startup::StartupConfig;
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_spec::experiment::{ControllerSpec, Victim};
use servelab_spec::validate::SpecError;

/// How replicas come and go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScalingConfig {
    /// Who decides how many there are; without one, as many as at the start: those that are lost are replaced.
    pub controller: Option<ControllerSpec>,
    /// Fewest replicas.
    pub min: u32,
    /// Most replicas, at least 1.
    pub max: u32,
    /// Time between two scrapes of the signals that controllers read, above 0.
    pub scrape: Nanos,
    /// Who goes when there are too many.
    pub victim: Victim,
    /// How long a replica may drain before it is killed.
    pub grace: Nanos,
    /// The way from the decision to readiness.
    pub startup: StartupConfig,
    /// What replicas run on.
    pub nodes: NodesConfig,
    /// What the host's cores do.
    pub host: HostConfig,
}

impl Default for ScalingConfig {
    fn default() -> Self {
        ScalingConfig {
            controller: None,
            min: 1,
            max: 8,
            scrape: Nanos(15_000_000_000),
            victim: Victim::Newest,
            grace: Nanos(30_000_000_000),
            startup: StartupConfig::default(),
            nodes: NodesConfig::default(),
            host: HostConfig::default(),
        }
    }
}

/// What replicas run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodesConfig {
    /// Nodes of a replica, at least 1: the start-up's. It gets all of them or none.
    pub per_replica: u32,
    /// How long a node without a replica is kept, and paid for: 10 minutes by default, the cluster autoscaler's
    /// `scale-down-unneeded-time`. A replica that comes meanwhile finds it there.
    pub linger: Nanos,
    /// Nodes kept ready for replicas to come. One that is taken is replaced in the time a node takes.
    pub warm: u32,
    /// Every replica there may be has its nodes for good: those that are not needed sleep on them, and they are paid for.
    #[serde(default)]
    pub kept: bool,
}

impl Default for NodesConfig {
    fn default() -> Self {
        NodesConfig { per_replica: 1, linger: Nanos(600_000_000_000), warm: 0, kept: false }
    }
}

/// What the host's cores do beside the accelerator: a plain sum, so that "CPU utilisation" can be shown for what it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// Cores of a replica's host, at least 1.
    pub cores: u32,
    /// Core time of a request (HTTP, tokenizing), µs.
    pub request_us: f64,
    /// Core time of a step (scheduling, launching, detokenizing), µs.
    pub step_us: f64,
}

impl Default for HostConfig {
    /// Eight cores, 2 ms a request, 1 ms a step: an assumption, not a measurement.
    fn default() -> Self {
        HostConfig { cores: 8, request_us: 2000.0, step_us: 1000.0 }
    }
}

impl ScalingConfig {
    /// What replicas run on, with as many nodes for each as its start asks for.
    pub(crate) fn nodes(&self) -> NodesConfig {
        NodesConfig { per_replica: self.startup.nodes, ..self.nodes }
    }

    /// Places a fleet of these bounds needs: those that drain do not keep their successors waiting.
    pub(crate) fn places(&self, replicas: u32) -> u32 {
        self.max.max(replicas).saturating_mul(2).saturating_add(self.startup.warm_spares)
    }

    pub(crate) fn validate(&self, replicas: u32) -> Result<(), SpecError> {
        if self.max == 0 || self.min > self.max {
            let accepted = format!("use at least 1 and at least scaling.min, which is {}", self.min);
            return Err(SpecError::new("scaling.max", self.max, accepted));
        }
        if replicas > self.max || (replicas < self.min) {
            let accepted = format!("use {} to {}, the bounds of scaling", self.min, self.max);
            return Err(SpecError::new("replicas", replicas, accepted));
        }
        if self.scrape == Nanos::ZERO {
            return Err(SpecError::new("scaling.scrape_s", 0, "use a time above 0"));
        }
        if self.startup.nodes == 0 {
            return Err(SpecError::new("startup.tensor_parallel", 0, "use at least 1"));
        }
        if self.host.cores == 0 {
            return Err(SpecError::new("scaling.host_cores", 0, "use at least 1"));
        }
        Ok(())
    }
}
