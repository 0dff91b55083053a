//! Things to do later, in order of instant, then of insertion.
//!
//! A million clients may wait at once, so theirs are kept apart ([`Alarms`]): in 16 bytes each, unordered until their time is near.

mod alarms;

use alarms::Alarms;
use serde::{Deserialize, Serialize};
use servelab_engine::{Nanos, SequenceId};
use std::collections::BTreeMap;
use std::num::NonZeroU64;

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

/// Names a timer that was inserted: its instant and its number, from 1.
pub(crate) type TimerKey = (Nanos, NonZeroU64);

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Saved", into = "Saved")]
pub(crate) struct Timers {
    /// Whatever is no client's, and what clients do so soon that `alarms` has no place for it.
    queue: BTreeMap<TimerKey, Timer>,
    /// What clients do later.
    alarms: Alarms,
    /// The next one's number.
    next: NonZeroU64,
}

impl Default for Timers {
    fn default() -> Self {
        Timers { queue: BTreeMap::new(), alarms: Alarms::default(), next: NonZeroU64::MIN }
    }
}

/// In order; numbers are kept, since requests in flight remember them.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    next: NonZeroU64,
    queue: Vec<(Nanos, NonZeroU64, Timer)>,
}

impl Timers {
    pub(crate) fn insert(&mut self, at: Nanos, timer: Timer) {
        self.set(at, timer);
    }

    /// The same, for whoever may not want it any more later.
    pub(crate) fn set(&mut self, at: Nanos, timer: Timer) -> TimerKey {
        let key = (at, self.next);
        self.next = self.next.saturating_add(1);
        self.place(key, timer);
        key
    }

    fn place(&mut self, key: TimerKey, timer: Timer) {
        match timer {
            Timer::Client(place) if self.alarms.takes(key) => self.alarms.set(key, place),
            _ => {
                self.queue.insert(key, timer);
            }
        }
    }

    /// It is not wanted any more.
    pub(crate) fn remove(&mut self, key: TimerKey) {
        if self.queue.remove(&key).is_none() {
            self.alarms.remove(key);
        }
    }

    pub(crate) fn get(&self, key: TimerKey) -> Option<Timer> {
        self.queue.get(&key).copied().or_else(|| self.alarms.get(key).map(Timer::Client))
    }

    /// The soonest of those that are in order.
    fn first_key(&self) -> Option<TimerKey> {
        let queued = self.queue.first_key_value().map(|(&key, _)| key);
        match (queued, self.alarms.first()) {
            (Some(queued), Some(alarm)) => Some(queued.min(alarm)),
            (queued, alarm) => queued.or(alarm),
        }
    }

    /// The instant of the soonest, if it is not later than `by`; `None` when all are later. What comes after `by` need not be in order yet.
    pub(crate) fn first(&mut self, by: Nanos) -> Option<Nanos> {
        if self.alarms.is_asleep() {
            let queued = self.queue.first_key_value().map_or(Nanos::MAX, |(&(at, _), _)| at);
            self.alarms.wake(by.min(queued));
        }
        self.first_key().map(|(at, _)| at).filter(|&at| at <= by)
    }

    /// Something may ring by then.
    pub(crate) fn may_ring(&self, by: Nanos) -> bool {
        self.first_key().is_some_and(|(at, _)| at <= by) || self.alarms.may_ring(by)
    }

    /// The soonest, which [`Timers::first`] has just told of.
    pub(crate) fn pop(&mut self) -> Option<Timer> {
        let first = self.first_key()?;
        if self.alarms.first() == Some(first) {
            self.alarms.pop().map(Timer::Client)
        } else {
            self.queue.pop_first().map(|(_, timer)| timer)
        }
    }
}

impl From<Saved> for Timers {
    fn from(saved: Saved) -> Self {
        let Saved { next, mut queue } = saved;
        // Alarms are set in order of their numbers; a number that comes twice names one timer.
        queue.sort_by_key(|&(_, number, _)| number);
        queue.dedup_by_key(|&mut (_, number, _)| number);
        let beyond = queue.last().map_or(NonZeroU64::MIN, |&(_, number, _)| number.saturating_add(1));
        let mut timers = Timers { next: next.max(beyond), ..Timers::default() };
        for (at, number, timer) in queue {
            timers.place((at, number), timer);
        }
        timers
    }
}

impl From<Timers> for Saved {
    fn from(timers: Timers) -> Self {
        let queued = timers.queue.iter().map(|(&(at, number), &timer)| (at, number, timer));
        let alarms = timers.alarms.iter().map(|((at, number), place)| (at, number, Timer::Client(place)));
        let mut queue: Vec<(Nanos, NonZeroU64, Timer)> = queued.chain(alarms).collect();
        queue.sort_by_key(|&(at, number, _)| (at, number));
        Saved { next: timers.next, queue }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use servelab_engine::random::Stream;

    /// Against an ordered map, over instants from nanoseconds to minutes, with and without company.
    #[test]
    fn everybody_is_called_in_order_of_instant_and_insertion() {
        for seed in 0..24 {
            let mut draws = Stream::new(seed, b"timers");
            let (mut timers, mut plain) = (Timers::default(), BTreeMap::new());
            let mut now = Nanos::ZERO;
            for _ in 0..4000 {
                match draws.below(8) {
                    0..=4 => {
                        let span = [3, 1 << 20, 1 << 25, 60_000_000_000][draws.below(4) as usize];
                        let at = Nanos(now.0 + draws.below(span));
                        let place = draws.below(1000) as u32;
                        let timer = if draws.below(6) == 0 { Timer::Ready(place) } else { Timer::Client(place) };
                        plain.insert(timers.set(at, timer), timer);
                    }
                    5 => {
                        let nth = draws.below(plain.len() as u64 + 1) as usize;
                        if let Some(&key) = plain.keys().nth(nth) {
                            assert_eq!(timers.get(key), plain.remove(&key));
                            timers.remove(key);
                            assert_eq!(timers.get(key), None);
                        }
                    }
                    6 if draws.below(300) == 0 => {
                        let text = serde_json::to_string(&timers).unwrap();
                        timers = serde_json::from_str(&text).unwrap();
                        assert_eq!(serde_json::to_string(&timers).unwrap(), text);
                    }
                    _ => {
                        let first = plain.pop_first();
                        assert_eq!(timers.first(Nanos::MAX), first.map(|((at, _), _)| at));
                        assert_eq!(timers.pop(), first.map(|(_, timer)| timer));
                        now = first.map_or(now, |((at, _), _)| at);
                    }
                }
                let (by, first) = (Nanos(now.0 + draws.below(1 << 25)), plain.first_key_value());
                let first = first.map(|(&(at, _), _)| at).filter(|&at| at <= by);
                assert!(first.is_none() || timers.may_ring(by));
                assert_eq!(timers.first(by), first);
            }
            while let Some(((at, _), timer)) = plain.pop_first() {
                assert_eq!((timers.first(Nanos::MAX), timers.pop()), (Some(at), Some(timer)));
            }
            assert_eq!((timers.first(Nanos::MAX), timers.pop()), (None, None));
        }
    }

    #[test]
    fn a_damaged_list_of_timers_is_put_in_order() {
        let text = r#"{"next":1,"queue":[[9,5,{"client":1}],[3,7,{"client":2}],[4,5,{"client":3}],[3,6,{"ready":0}]]}"#;
        let mut timers: Timers = serde_json::from_str(text).unwrap();
        assert_eq!(timers.set(Nanos(3), Timer::Sample), (Nanos(3), NonZeroU64::new(8).unwrap()));
        let order = std::iter::from_fn(|| timers.first(Nanos::MAX).and_then(|_| timers.pop())).collect::<Vec<_>>();
        assert_eq!(order, [Timer::Ready(0), Timer::Client(2), Timer::Sample, Timer::Client(1)]);
        assert!(serde_json::from_str::<Timers>(&text.replace("9,5", "9,0")).is_err());
    }
}
