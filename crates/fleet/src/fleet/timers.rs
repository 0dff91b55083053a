//! Things to do later, in order of instant, then of insertion.

use serde::{Deserialize, Serialize};
use servelab_engine::{Nanos, SequenceId};
use std::collections::BTreeMap;

/// Something to do later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Timer {
    /// A managed API has answered the attempt of this name.
    Outside(SequenceId),
    /// The client of this request (its place in flight) has something to do: to try again, to hedge, or to wait no longer.
    Client(u32),
    /// The server is told that nobody waits for the attempt of this name any more.
    Cancel(SequenceId),
    /// A user of a closed loop sends the next request.
    User(u32),
    /// A session has thought about its latest answer.
    Turn(u64),
    /// The fault of this index in the fleet's configuration begins.
    Fault(u32),
    /// It is over.
    Recovery(u32),
    /// A request crashes this replica.
    Poison {
        /// The replica.
        replica: u32,
        /// The fault of this index.
        fault: u32,
    },
    /// This replica is back after a crash by the fault of that index.
    Back {
        /// The replica.
        replica: u32,
    },
    /// The change of this index in the fleet's configuration happens.
    Change(u32),
    /// The gateway asked to be rung.
    Gateway,
    /// This replica says that it is ready.
    Ready(u32),
    /// This replica can serve.
    Warm(u32),
    /// The signals of scaling are scraped.
    Sample,
    /// The controller evaluates.
    Evaluate,
    /// There may be too many replicas, or too few.
    Reconcile,
    /// A stage of a replica's start is over, in this life of it.
    Stage {
        /// The replica.
        replica: u32,
        /// The life.
        life: u32,
    },
    /// A transfer on this link may be over.
    Link(u32),
    /// A node for the warm pool is there.
    Node,
    /// Probes of a replica are due, in this life of it.
    Probe {
        /// The replica.
        replica: u32,
        /// The life.
        life: u32,
    },
    /// A container that was killed starts again, in this life of its replica.
    Restart {
        /// The replica.
        replica: u32,
        /// The life.
        life: u32,
    },
    /// A replica's time to drain is over, in this life of it.
    Grace {
        /// The replica.
        replica: u32,
        /// The life.
        life: u32,
    },
}

/// Names a timer that was inserted.
pub(crate) type TimerKey = (Nanos, u64);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Saved", into = "Saved")]
pub(crate) struct Timers {
    queue: BTreeMap<TimerKey, Timer>,
    inserted: u64,
}

/// Numbers are kept, since requests in flight remember them.
#[derive(Serialize, Deserialize)]
struct Saved {
    inserted: u64,
    queue: Vec<(Nanos, u64, Timer)>,
}

impl Timers {
    pub(crate) fn insert(&mut self, at: Nanos, timer: Timer) {
        self.set(at, timer);
    }

    /// The same, for whoever may not want it any more later.
    pub(crate) fn set(&mut self, at: Nanos, timer: Timer) -> TimerKey {
        let key = (at, self.inserted);
        self.queue.insert(key, timer);
        self.inserted += 1;
        key
    }

    /// It is not wanted any more.
    pub(crate) fn remove(&mut self, key: TimerKey) {
        self.queue.remove(&key);
    }

    pub(crate) fn get(&self, key: TimerKey) -> Option<Timer> {
        self.queue.get(&key).copied()
    }

    pub(crate) fn first(&self) -> Option<Nanos> {
        self.queue.first_key_value().map(|(&(at, _), _)| at)
    }

    pub(crate) fn pop(&mut self) -> Option<Timer> {
        self.queue.pop_first().map(|(_, timer)| timer)
    }
}

impl From<Saved> for Timers {
    fn from(saved: Saved) -> Self {
        let beyond = saved.queue.iter().map(|&(_, nth, _)| nth.saturating_add(1)).max().unwrap_or(0);
        let queue = saved.queue.into_iter().map(|(at, nth, timer)| ((at, nth), timer)).collect();
        Timers { queue, inserted: saved.inserted.max(beyond) }
    }
}

impl From<Timers> for Saved {
    fn from(timers: Timers) -> Self {
        let queue = timers.queue.into_iter().map(|((at, nth), timer)| (at, nth, timer)).collect();
        Saved { inserted: timers.inserted, queue }
    }
}
