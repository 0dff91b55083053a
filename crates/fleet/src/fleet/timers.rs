//! Things to do later, in order of instant, then of insertion.

use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use std::collections::BTreeMap;

/// Something to do later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Timer {
    /// A client tries this request (its place in flight) again.
    Retry(u32),
    /// A managed API has answered this request.
    Outside(u32),
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

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<(Nanos, u64, Timer)>", into = "Vec<(Nanos, u64, Timer)>")]
pub(crate) struct Timers {
    queue: BTreeMap<(Nanos, u64), Timer>,
    inserted: u64,
}

impl Timers {
    pub(crate) fn insert(&mut self, at: Nanos, timer: Timer) {
        self.queue.insert((at, self.inserted), timer);
        self.inserted += 1;
    }

    pub(crate) fn first(&self) -> Option<Nanos> {
        self.queue.first_key_value().map(|(&(at, _), _)| at)
    }

    pub(crate) fn pop(&mut self) -> Option<Timer> {
        self.queue.pop_first().map(|(_, timer)| timer)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Timer> {
        self.queue.values().copied()
    }
}

impl From<Vec<(Nanos, u64, Timer)>> for Timers {
    fn from(saved: Vec<(Nanos, u64, Timer)>) -> Self {
        let inserted = saved.iter().map(|&(_, nth, _)| nth.saturating_add(1)).max().unwrap_or(0);
        Timers { queue: saved.into_iter().map(|(at, nth, timer)| ((at, nth), timer)).collect(), inserted }
    }
}

impl From<Timers> for Vec<(Nanos, u64, Timer)> {
    fn from(timers: Timers) -> Self {
        // Numbered anew: how many timers there have been means nothing, and a restored fleet does not know it.
        (0..).zip(timers.queue).map(|(nth, ((at, _), timer))| (at, nth, timer)).collect()
    }
}
