//! What a fleet is built with.

use crate::clients::ClientsConfig;
use crate::gateway::GatewayConfig;
use crate::replica::server::ServerConfig;
use crate::replica::tick::TickConfig;
use serde::{Deserialize, Serialize};
use servelab_engine::{CostModel, EngineConfig, Nanos};

/// Longest run of equal steps taken at once. Runs end at the latest when a sequence finishes, so this bounds nothing in practice
/// but keeps sums of costs far from overflow.
pub const MAX_REPEAT: u32 = 1 << 20;

/// Settings of a fleet, fixed for its life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetConfig {
    /// Number of replicas, at least 1.
    pub replicas: u32,
    /// What each replica is; all are alike.
    pub replica: ReplicaConfig,
    /// What stands in front of the router.
    pub gateway: GatewayConfig,
    /// What clients do when an attempt fails.
    pub clients: ClientsConfig,
    /// Seeds what policies and replicas draw. Arrivals have their own streams in the source.
    pub seed: u64,
    /// Longest run of equal priced steps taken at once, [`MAX_REPEAT`] by default; 1 takes every step alone. Changes speed and
    /// nothing else.
    pub max_repeat: u32,
    /// The run ends here; requests then in flight are pending. `None`: when all requests have ended.
    pub horizon: Option<Nanos>,
}

/// What a replica is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ReplicaConfig {
    /// Continuous batching over paged KV blocks.
    Engine {
        /// Its settings. [`EngineConfig::materialise`] is on exactly for executed fleets.
        engine: EngineConfig,
        /// What steps are charged.
        cost: CostModel,
        /// Steps are handed to a driver ([`crate::Poll::Execute`]) before they are charged.
        executed: bool,
        /// An executed step is charged its measured time, when the driver gives one, instead of the cost model's.
        charge_measured: bool,
    },
    /// A queueing station with drawn service times.
    Server(ServerConfig),
    /// A memory of a few prefixes and a whole number of ticks a request.
    Tick(TickConfig),
}

impl FleetConfig {
    /// A fleet whose steps are priced.
    pub fn priced(replicas: u32, engine: EngineConfig, cost: CostModel) -> Self {
        Self::new(replicas, ReplicaConfig::Engine { engine, cost, executed: false, charge_measured: false })
    }

    /// A fleet whose steps a driver executes.
    pub fn executed(replicas: u32, engine: EngineConfig, cost: CostModel, charge_measured: bool) -> Self {
        let engine = EngineConfig { materialise: true, ..engine };
        Self::new(replicas, ReplicaConfig::Engine { engine, cost, executed: true, charge_measured })
    }

    /// A fleet of any replicas, everything accepted, no horizon.
    pub fn new(replicas: u32, replica: ReplicaConfig) -> Self {
        FleetConfig {
            replicas,
            replica,
            gateway: GatewayConfig::AcceptAll,
            clients: ClientsConfig::OneTry,
            seed: 0,
            max_repeat: MAX_REPEAT,
            horizon: None,
        }
    }

    /// Tokens of a KV block; 0 where there are none.
    pub fn block_tokens(&self) -> u32 {
        match &self.replica {
            ReplicaConfig::Engine { engine, .. } => engine.block_tokens,
            ReplicaConfig::Server(_) | ReplicaConfig::Tick(_) => 0,
        }
    }
}
