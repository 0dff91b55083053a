//! What stands in front of the router and decides whether an attempt goes through, waits, or is turned away.
//!
//! # One chain of small parts
//!
//! Gateways differ in what they look at and agree in shape, so there is one, a chain of small parts of three kinds, each in a file of its own with its settings beside it:
//!
//! - [`StageConfig`], in the order in which they stand: each decides alone, on what it has counted, whether an attempt is let through. The first that refuses ends it.
//! - [`GateConfig`]: each says whether one more may go on *now*. All must be open.
//! - [`QueueConfig`]: where an attempt waits that passed the stages and finds a gate closed. Without a queue it is turned away.
//!
//! Why not one list of layers, each wrapping the next, as in tower? There a layer that is not ready makes its caller wait, and the caller's waiting is the
//! queue. Here the queue is what people want to see and to order by class and tenant, so it is a part of its own and stands behind everything that can
//! refuse for good: nobody waits in it who will be refused in the end. And a gate must be asked again whenever something ends, which a layer is not.
//!
//! | part | kind | refuses with | after |
//! |---|---|---|---|
//! | [`length`] | stage | 400 | |
//! | [`retry_cap`] | stage | 429 | Finagle's and tower's retry budgets |
//! | [`success_rate`] | stage | 503 | Envoy's admission control |
//! | [`saturation`], shedding | stage | 429 | llm-d |
//! | [`rate_limit`], [`token_budget`] | stage | 429 | token buckets, for each tenant |
//! | in flight on each replica, over the fleet | gate | a setting | |
//! | [`gradient`] | gate | a setting | Envoy's adaptive concurrency, Netflix |
//! | [`saturation`], hold-back | gate | a setting | llm-d's flow control |
//! | [`ramp`] | gate | a setting | Envoy's slow start |
//! | [`codel`] | queue | a setting | folly |
//! | time to live | queue | 429; 503 while no replica is ready | llm-d |
//! | capacity | queue | a setting | llm-d |
//!
//! 429 says that the caller asks for more than its share, 503 that there is no capacity; clients and other gateways treat them differently, so what a full
//! queue or a closed gate answers is a setting.
//!
//! # Undoing
//!
//! What a stage counted as *made* (a request of a rate limit, a retry) stays counted when a later part refuses. What it *reserved* (tokens of a budget) is given back, and what
//! was reserved and not used is given back when the attempt ends.
//!
//! # Time
//!
//! Parts see instants and never ask for them. Whatever opens by time alone says when and changes at that instant only; whatever depends on
//! the present otherwise can only close by waiting. So a gateway does not show whether the steps of a run were taken one by one.

mod ask;
pub mod bucket;
mod chain;
mod check;
pub mod classes;
pub mod codel;
mod gate;
pub mod gradient;
pub mod length;
mod list;
mod queue;
pub mod ramp;
pub mod rate_limit;
pub mod retry_after;
pub mod retry_cap;
pub mod saturation;
mod stage;
pub mod success_rate;
#[cfg(test)]
mod testing;
pub mod token_budget;

pub(crate) use ask::{Ask, Ended, Refused, View};
pub use classes::{ClassConfig, Order, class_of};
pub use gate::GateConfig;
pub use queue::Within;
pub use stage::StageConfig;

use crate::config::raised;
use crate::record::Refusal;
use chain::Chain;
use codel::CodelConfig;
use retry_after::RetryAfter;
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_engine::random::Stream;

/// Which gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum GatewayConfig {
    /// Everything goes through.
    #[default]
    AcceptAll,
    /// One queue in front of all replicas, first come first served: [`ChainConfig::central_queue`].
    CentralQueue {
        /// Attempts a replica may have in flight; the router sees only replicas below it.
        in_flight: u32,
        /// Attempts the queue may hold; further ones are turned away with 429.
        capacity: u32,
    },
    /// Stages, gates and a queue.
    Chain(Box<ChainConfig>),
}

/// A chain of stages, gates and a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainConfig {
    /// Which tenants belong together, and their priorities; none: all are alike.
    pub classes: Vec<ClassConfig>,
    /// Decide at once, in this order.
    pub stages: Vec<StageConfig>,
    /// Attempts a replica may have in flight, at least 1; the router sees only replicas below it. [`u32::MAX`]: no limit.
    pub in_flight: u32,
    /// Decide whether one more may go on.
    pub gates: Vec<GateConfig>,
    /// Where those wait who may not go on.
    pub queue: QueueConfig,
    /// HTTP status of a full queue, a closed gate without a queue, and a drop: 429 or 503.
    pub refuse_with: u16,
    /// When those who are turned away should come back.
    pub retry_after: RetryAfter,
}

impl Default for ChainConfig {
    /// Nothing stands in the way, and nothing waits but for a ready replica.
    fn default() -> Self {
        ChainConfig {
            classes: Vec::new(),
            stages: Vec::new(),
            in_flight: u32::MAX,
            gates: Vec::new(),
            queue: QueueConfig::default(),
            refuse_with: 429,
            retry_after: RetryAfter::default(),
        }
    }
}

impl ChainConfig {
    /// One queue in front of all replicas.
    pub fn central_queue(in_flight: u32, capacity: u32) -> Self {
        ChainConfig {
            in_flight: in_flight.max(1),
            queue: QueueConfig { capacity, hold_empty: true, ..QueueConfig::default() },
            ..ChainConfig::default()
        }
    }
}

/// Where attempts wait. Everything is for each class by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueConfig {
    /// Most attempts held; 0: nobody waits. llm-d: 5 000.
    pub capacity: u32,
    /// Most tokens (prompts and output budgets) held; 0: no limit. One attempt may exceed it alone.
    pub capacity_tokens: u64,
    /// Who is next, of classes.
    pub order: Order,
    /// Who is next, of a class.
    pub within: Within,
    /// Longest time held; 0: no limit. llm-d: 60 s.
    pub ttl: Nanos,
    /// Attempts are held while no replica is ready; off, they are turned away with 503.
    pub hold_empty: bool,
    /// Longest time held without a ready replica; 0: no limit.
    pub empty_ttl: Nanos,
    /// Controlled delay.
    pub codel: Option<CodelConfig>,
}

/// What becomes of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// To the router, now.
    Accept,
    /// Turned away.
    Reject {
        /// HTTP status.
        code: u16,
        /// Why.
        cause: Refusal,
        /// When to try again, if the gateway says.
        retry_after: Option<Nanos>,
    },
    /// The gateway keeps it and releases it later.
    Queue,
}

/// What is done about what is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// Nothing can be done.
    Nothing,
    /// This one goes on to the router.
    Let(u32),
    /// This one is turned away.
    Drop(u32, Refused),
}

/// The gateway of a fleet. Without one, nothing is counted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Gateway {
    AcceptAll,
    Chain(Box<Chain>),
}

impl ChainConfig {
    /// What may be in flight and be held is so many times what it is.
    fn raise(&mut self, times: f64) {
        self.in_flight = raised(self.in_flight, times);
        self.queue.capacity = raised(self.queue.capacity, times);
        self.queue.capacity_tokens = libm::round(self.queue.capacity_tokens as f64 * times) as u64;
        for gate in &mut self.gates {
            if let GateConfig::Concurrency { limit } = gate {
                *limit = raised(*limit, times);
            }
        }
    }
}

impl GatewayConfig {
    /// What may be in flight and be held is so many times what it is.
    pub(crate) fn raise(&mut self, times: f64) {
        match self {
            GatewayConfig::AcceptAll => {}
            GatewayConfig::CentralQueue { in_flight, capacity } => {
                // Its chain lets one be in flight at least.
                *in_flight = raised((*in_flight).max(1), times);
                *capacity = raised(*capacity, times);
            }
            GatewayConfig::Chain(config) => config.raise(times),
        }
    }

    /// As a chain; nothing where there is none.
    fn chain(&self) -> Option<ChainConfig> {
        match self {
            GatewayConfig::AcceptAll => None,
            &GatewayConfig::CentralQueue { in_flight, capacity } => {
                Some(ChainConfig::central_queue(in_flight, capacity))
            }
            GatewayConfig::Chain(config) => Some((**config).clone()),
        }
    }
}

impl Gateway {
    pub(crate) fn new(config: &GatewayConfig, tenants: u32) -> Self {
        match config.chain() {
            None => Gateway::AcceptAll,
            Some(chain) => Gateway::Chain(Box::new(Chain::new(chain, tenants))),
        }
    }

    /// Made of these settings for so many tenants.
    pub(crate) fn belongs_to(&self, config: &GatewayConfig, tenants: u32) -> bool {
        match (self.chain(), config.chain()) {
            (None, None) => true,
            (Some(chain), Some(config)) => chain.belongs_to(&config, tenants),
            _ => false,
        }
    }

    pub(crate) fn chain(&self) -> Option<&Chain> {
        match self {
            Gateway::AcceptAll => None,
            Gateway::Chain(chain) => Some(chain),
        }
    }

    pub(crate) fn chain_mut(&mut self) -> Option<&mut Chain> {
        match self {
            Gateway::AcceptAll => None,
            Gateway::Chain(chain) => Some(chain),
        }
    }

    /// Most attempts a replica may have in flight.
    pub(crate) fn in_flight_limit(&self) -> u32 {
        self.chain().map_or(u32::MAX, Chain::in_flight_limit)
    }

    /// Attempts held.
    pub(crate) fn held(&self) -> u32 {
        self.chain().map_or(0, Chain::held_count)
    }

    /// It looks at engine metrics.
    pub(crate) fn reads_metrics(&self) -> bool {
        self.chain().is_some_and(Chain::reads_metrics)
    }
}

/// Draws of attempt number `attempt` of request `index`.
pub(crate) fn draws(seed: &Stream, index: u32, attempt: u32) -> Stream {
    seed.split(u64::from(index)).split(u64::from(attempt))
}
