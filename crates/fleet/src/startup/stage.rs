//! What a cold start consists of and how long each part takes.
//!
//! Stages follow each other in the order of the list; one may be listed more than once, when it has parts of different kinds. Pulling an
//! image, for one, shares the registry with other starts, and unpacking it shares nothing.

use super::probe::{Probe, ProbesConfig};
use super::transfer::{LinkConfig, time_for};
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
pub use servelab_spec::experiment::{Readiness, Stage};

/// What a stage, or a part of one, has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum StageWork {
    /// It takes so long, whoever else starts.
    Fixed(Nanos),
    /// Bytes over a link of the replica's own.
    Transfer {
        /// How many.
        bytes: u64,
        /// How fast, above 0.
        bytes_per_s: u64,
    },
    /// The driver does it for real and says how long it took.
    Measured,
    /// Bytes over a link that replicas starting at the same time share: k of them get a k-th each.
    Shared {
        /// How many.
        bytes: u64,
        /// Over which.
        link: Link,
    },
}

/// Links that starting replicas share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// Where images come from.
    Registry,
    /// Where weights come from.
    WeightStore,
}

impl Link {
    /// All of them.
    pub const ALL: [Link; 2] = [Link::Registry, Link::WeightStore];
}

/// How replicas start. By default at once: a replica that is created is ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartupConfig {
    /// What happens, in order. Nothing is skipped here: a part without work takes no time.
    pub stages: Vec<(Stage, StageWork)>,
    /// The registry's bandwidth.
    pub registry: LinkConfig,
    /// The weight store's bandwidth.
    pub store: LinkConfig,
    /// When a replica says that it is ready.
    pub readiness: Readiness,
    /// Who asks it, and how; `None`: it is believed at once, and never killed.
    pub probes: Option<ProbesConfig>,
    /// Nodes that one replica occupies. They are had all together or not at all, and the failure of one fails the replica.
    pub nodes: u32,
    /// Replicas kept started beyond those asked for, without traffic.
    pub warm_spares: u32,
    /// On a deploy, start the new replica before the old one drains.
    pub surge: bool,
}

impl Default for StartupConfig {
    fn default() -> Self {
        StartupConfig {
            stages: Vec::new(),
            registry: LinkConfig::UNLIMITED,
            store: LinkConfig::UNLIMITED,
            readiness: Readiness::Generation,
            probes: None,
            nodes: 1,
            warm_spares: 0,
            surge: false,
        }
    }
}

impl StartupConfig {
    /// The bandwidth of `link`.
    pub fn link(&self, link: Link) -> LinkConfig {
        match link {
            Link::Registry => self.registry,
            Link::WeightStore => self.store,
        }
    }

    /// How long `work` takes when nobody else starts; nothing is known ahead of what is measured.
    pub fn alone(&self, work: StageWork) -> Nanos {
        match work {
            StageWork::Fixed(time) => time,
            StageWork::Measured => Nanos::ZERO,
            StageWork::Transfer { bytes, bytes_per_s } => time_for(bytes, bytes_per_s),
            StageWork::Shared { bytes, link } => time_for(bytes, self.link(link).alone()),
        }
    }

    /// How long all of it takes when nobody else starts.
    pub fn nominal(&self) -> Nanos {
        self.stages.iter().fold(Nanos::ZERO, |sum, &(_, work)| sum + self.alone(work))
    }

    /// How long it takes, alone, until the replica says that it is ready.
    pub fn nominal_ready(&self) -> Nanos {
        let before = self.stages.iter().take(self.ready_after());
        before.fold(Nanos::ZERO, |sum, &(_, work)| sum + self.alone(work))
    }

    /// How many entries of the list must be done before the replica says that it is ready. What it is asked to serve before all are done, waits.
    pub fn ready_after(&self) -> usize {
        self.done_after(self.readiness)
    }

    /// How many entries must be done before `probe` is answered with yes. Startup and liveness ask no more than the health endpoint: a generation
    /// behind a queue would have busy replicas killed.
    pub fn answers_after(&self, probe: Probe) -> usize {
        match probe {
            Probe::Readiness => self.ready_after(),
            Probe::Startup | Probe::Liveness => self.done_after(self.readiness.min(Readiness::Health)),
        }
    }

    fn done_after(&self, readiness: Readiness) -> usize {
        let last = readiness.last_stage();
        self.stages.iter().rposition(|&(stage, _)| stage <= last).map_or(0, |at| at + 1)
    }

    /// Where a container that was killed begins again: its node and its image are there, and nothing else is.
    pub fn restart_at(&self) -> usize {
        self.stages.iter().position(|&(stage, _)| stage > Stage::Image).unwrap_or(self.stages.len())
    }

    /// Does a start take any time at all?
    pub fn is_instant(&self) -> bool {
        self.stages.iter().all(|&(_, work)| work != StageWork::Measured && self.alone(work) == Nanos::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(s: u64) -> Nanos {
        Nanos(s * 1_000_000_000)
    }

    fn config(readiness: Readiness) -> StartupConfig {
        let link = LinkConfig { bytes_per_s: 1_000_000_000, each_bytes_per_s: None };
        StartupConfig {
            stages: vec![
                (Stage::Node, StageWork::Fixed(seconds(90))),
                (Stage::Image, StageWork::Shared { bytes: 20_000_000_000, link: Link::Registry }),
                (Stage::Image, StageWork::Transfer { bytes: 20_000_000_000, bytes_per_s: 2_000_000_000 }),
                (Stage::WeightsToHost, StageWork::Shared { bytes: 16_000_000_000, link: Link::WeightStore }),
                (Stage::WeightsToDevice, StageWork::Transfer { bytes: 0, bytes_per_s: 1 }),
                (Stage::Process, StageWork::Fixed(seconds(10))),
                (Stage::Compile, StageWork::Fixed(seconds(40))),
                (Stage::WarmUp, StageWork::Fixed(seconds(5))),
            ],
            registry: link,
            store: LinkConfig { bytes_per_s: 4_000_000_000, each_bytes_per_s: None },
            readiness,
            ..StartupConfig::default()
        }
    }

    /// 90 + 20 + 10 + 4 + 0 + 10 + 40 + 5.
    #[test]
    fn parts_add_up_and_readiness_may_come_before_the_end() {
        assert_eq!(config(Readiness::Generation).nominal(), seconds(179));
        assert_eq!(config(Readiness::Generation).nominal_ready(), seconds(179));
        assert_eq!(config(Readiness::Health).nominal_ready(), seconds(174));
        assert_eq!(config(Readiness::Process).nominal_ready(), seconds(134));
        assert_eq!(config(Readiness::Process).ready_after(), 6);
    }

    #[test]
    fn a_killed_container_keeps_its_node_and_its_image() {
        let config = config(Readiness::Health);
        assert_eq!(config.stages[config.restart_at()].0, Stage::WeightsToHost);
        assert_eq!(StartupConfig::default().restart_at(), 0);
    }

    #[test]
    fn by_default_a_replica_is_there_at_once() {
        let config = StartupConfig::default();
        assert!(config.is_instant());
        assert_eq!((config.nominal(), config.ready_after()), (Nanos::ZERO, 0));
        let bytes = StageWork::Shared { bytes: u64::MAX, link: Link::Registry };
        assert_eq!(config.alone(bytes), Nanos::ZERO, "no limit, no time");
    }
}
