//! What a fleet is built with.

use crate::clients::{Budget, ClientsConfig};
use crate::faults::Fault;
use crate::gateway::GatewayConfig;
use crate::overflow::OverflowConfig;
use crate::replica::server::ServerConfig;
use crate::replica::tick::TickConfig;
use crate::scaling::ScalingConfig;
use crate::store::StoreConfig;
use crate::telemetry::TelemetryConfig;
use serde::{Deserialize, Serialize};
use servelab_engine::{CostModel, EngineConfig, Nanos};

/// Longest run of equal steps taken at once. Runs end at the latest when a sequence finishes, so this bounds nothing in practice
/// but keeps sums of costs far from overflow.
pub const MAX_REPEAT: u32 = 1 << 20;

/// Settings of a fleet, fixed for its life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetConfig {
    /// Number of replicas at the start, at least 1.
    pub replicas: u32,
    /// What each replica is; all are alike.
    pub replica: ReplicaConfig,
    /// What stands in front of the router.
    pub gateway: GatewayConfig,
    /// What clients do when an attempt fails.
    pub clients: ClientsConfig,
    /// How signals reach the routers, and how many routers there are.
    pub telemetry: TelemetryConfig,
    /// A store of KV blocks behind the replicas, which are priced engines then.
    #[serde(default)]
    pub store: Option<StoreConfig>,
    /// What turning an attempt away costs a replica, of its time.
    #[serde(default)]
    pub reject_cost: Nanos,
    /// What goes wrong for a while, in any order.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// What happens to the fleet on the way, in any order.
    pub changes: Vec<Change>,
    /// Replicas slower than the rest.
    pub slow: Option<Slow>,
    /// How replicas come and go by themselves; `None`: only [`FleetConfig::changes`] does that.
    #[serde(default)]
    pub scaling: Option<ScalingConfig>,
    /// A managed API that takes what can not be served in time.
    #[serde(default)]
    pub overflow: Option<OverflowConfig>,
    /// Seeds what policies and replicas draw. Arrivals have their own streams in the source.
    pub seed: u64,
    /// Longest run of equal priced steps taken at once, [`MAX_REPEAT`] by default; 1 takes every step alone. Changes speed and
    /// nothing else.
    pub max_repeat: u32,
    /// The run ends here; requests then in flight are pending. `None`: when all requests have ended.
    pub horizon: Option<Nanos>,
}

/// Something that happens to the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// When.
    pub at: Nanos,
    /// What.
    pub what: ChangeKind,
}

/// What can happen to a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ChangeKind {
    /// A replica is added, with an empty cache. It gets the next index.
    Join {
        /// Time until it can serve.
        warm_up: Nanos,
        /// It says that it is ready only once it can serve. Off: at once, and what is sent there waits.
        honest: bool,
    },
    /// A replica takes no more requests, finishes those it has, and goes. Its cache goes with it.
    Leave {
        /// Its index.
        replica: u32,
    },
    /// Every router starts afresh: counts, indexes and whatever else policies remember are gone. Streams in flight go on.
    RestartRouters,
    /// Every router's counts fall to zero while what policies remember stays.
    ResetCounts,
    /// Every replica is replaced, one after the other. Only in a fleet that scales.
    Deploy,
    /// From now on the server learns when nobody waits any more; what nobody waits for now is cancelled.
    Cancel,
    /// From now on this share of requests is turned away at the door, all their attempts; 0 ends it.
    DropLoad {
        /// Share, 0 to 1.
        share: f64,
    },
    /// From now on all clients keep to this budget, each process to one of its own.
    Budgets {
        /// The budget.
        budget: Budget,
    },
    /// From now on limits are so many times what they are: attempts that the gateway lets be in flight and holds, slots and queues of servers. Quotas of
    /// tenants stay, and so do engines.
    RaiseLimits {
        /// How many times, 1 or more.
        times: f64,
    },
    /// Replicas crash, and their nodes with them. Only in a fleet that scales.
    Crash {
        /// How many.
        replicas: u32,
    },
}

/// Replicas slower than the rest: the last ones of those that are there at the start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slow {
    /// How many.
    pub replicas: u32,
    /// How many times as long their steps take, above 0.
    pub factor: f64,
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

/// A limit raised to so many times what it is; none stays none.
pub(crate) fn raised(limit: u32, times: f64) -> u32 {
    if limit == u32::MAX { limit } else { libm::round(f64::from(limit) * times) as u32 }
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
            telemetry: TelemetryConfig::default(),
            store: None,
            reject_cost: Nanos::ZERO,
            faults: Vec::new(),
            changes: Vec::new(),
            slow: None,
            scaling: None,
            overflow: None,
            seed: 0,
            max_repeat: MAX_REPEAT,
            horizon: None,
        }
    }

    /// Places there are: those of the start and of those that join, or as many as scaling needs.
    pub fn replicas_ever(&self) -> u32 {
        if let Some(scaling) = &self.scaling {
            return scaling.places(self.replicas);
        }
        let joins = self.changes.iter().filter(|change| matches!(change.what, ChangeKind::Join { .. })).count();
        self.replicas.saturating_add(joins as u32)
    }

    /// How many times as long as the others' the steps of `replica` take.
    pub(crate) fn slowness(&self, replica: u32) -> f64 {
        let slow =
            self.slow.filter(|slow| replica < self.replicas && replica >= self.replicas.saturating_sub(slow.replicas));
        slow.map_or(1.0, |slow| slow.factor)
    }

    /// Slots of a server; 1 of other replicas.
    pub(crate) fn server_slots(&self) -> u32 {
        match &self.replica {
            ReplicaConfig::Server(server) => server.slots,
            ReplicaConfig::Engine { .. } | ReplicaConfig::Tick(_) => 1,
        }
    }

    /// Raises the limits of the gateway and of servers to so many times what they are.
    pub(crate) fn raise_limits(&mut self, times: f64) {
        self.gateway.raise(times);
        if let ReplicaConfig::Server(server) = &mut self.replica {
            server.raise(times);
        }
    }

    /// Steps are handed to a driver.
    pub(crate) fn executes(&self) -> bool {
        matches!(self.replica, ReplicaConfig::Engine { executed: true, .. })
    }

    /// Tokens of a KV block; 0 where there are none.
    pub fn block_tokens(&self) -> u32 {
        match &self.replica {
            ReplicaConfig::Engine { engine, .. } => engine.block_tokens,
            ReplicaConfig::Server(_) | ReplicaConfig::Tick(_) => 0,
        }
    }
}
