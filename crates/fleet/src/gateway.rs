//! What stands in front of the router and decides whether an attempt goes through.
//!
//! Two gateways exist. [`GatewayConfig::AcceptAll`] lets everything through: queues form at the replicas. [`GatewayConfig::CentralQueue`]
//! holds attempts, first come first served, until some replica has less than its share in flight, and turns them away when
//! the queue is full.

use crate::record::Refusal;
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use std::collections::VecDeque;

/// Which gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum GatewayConfig {
    /// Everything goes through.
    AcceptAll,
    /// One queue in front of all replicas.
    CentralQueue {
        /// Attempts a replica may have in flight; the router sees only replicas below it.
        in_flight: u32,
        /// Attempts the queue may hold; further ones are turned away with 429.
        capacity: u32,
    },
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

/// A gateway. `attempt` is the loop's number for an attempt in flight.
pub(crate) trait Gateway {
    /// Decides on an attempt. `room`: some replica may take one more.
    fn decide(&mut self, attempt: u32, room: bool) -> Verdict;

    /// There is room: the next attempt to let through, if one is held.
    fn release(&mut self) -> Option<u32>;

    /// Nobody waits any more for an attempt that is held.
    fn forget(&mut self, attempt: u32);

    /// Most attempts a replica may have in flight.
    fn in_flight_limit(&self) -> u32 {
        u32::MAX
    }

    /// Attempts held.
    fn held(&self) -> u32;
}

/// The gateways, dispatched by hand so that they can be saved.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AnyGateway {
    AcceptAll,
    CentralQueue(CentralQueue),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CentralQueue {
    in_flight: u32,
    capacity: u32,
    queue: VecDeque<u32>,
}

impl AnyGateway {
    pub(crate) fn new(config: GatewayConfig) -> Self {
        match config {
            GatewayConfig::AcceptAll => AnyGateway::AcceptAll,
            GatewayConfig::CentralQueue { in_flight, capacity } => {
                AnyGateway::CentralQueue(CentralQueue { in_flight: in_flight.max(1), capacity, queue: VecDeque::new() })
            }
        }
    }
}

impl Gateway for AnyGateway {
    fn decide(&mut self, attempt: u32, room: bool) -> Verdict {
        match self {
            AnyGateway::AcceptAll => Verdict::Accept,
            AnyGateway::CentralQueue(central) => central.decide(attempt, room),
        }
    }

    fn forget(&mut self, attempt: u32) {
        match self {
            AnyGateway::AcceptAll => {}
            AnyGateway::CentralQueue(central) => central.queue.retain(|&held| held != attempt),
        }
    }

    fn release(&mut self) -> Option<u32> {
        match self {
            AnyGateway::AcceptAll => None,
            AnyGateway::CentralQueue(central) => central.queue.pop_front(),
        }
    }

    fn in_flight_limit(&self) -> u32 {
        match self {
            AnyGateway::AcceptAll => u32::MAX,
            AnyGateway::CentralQueue(central) => central.in_flight,
        }
    }

    fn held(&self) -> u32 {
        match self {
            AnyGateway::AcceptAll => 0,
            AnyGateway::CentralQueue(central) => central.queue.len() as u32,
        }
    }
}

impl CentralQueue {
    fn decide(&mut self, attempt: u32, room: bool) -> Verdict {
        if room && self.queue.is_empty() {
            return Verdict::Accept;
        }
        if self.queue.len() >= self.capacity as usize {
            return Verdict::Reject { code: 429, cause: Refusal::GatewayQueue, retry_after: None };
        }
        self.queue.push_back(attempt);
        Verdict::Queue
    }
}
