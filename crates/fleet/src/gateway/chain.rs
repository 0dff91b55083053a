//! The chain: stages, gates and the queue behind them.

use super::ask::{Ask, Ended, Refused, View};
use super::classes::{Classes, Turns};
use super::codel::Codel;
use super::gate::Gate;
use super::queue::{Held, Queue};
use super::stage::AnyStage;
use super::{ChainConfig, QueueConfig, Release, Verdict};
use crate::record::Refusal;
use serde::{Deserialize, Serialize};
use servelab_engine::random::Stream;
use servelab_engine::{Nanos, Pace};

/// Draws of an attempt: one stream for each stage, then one for what is said to the client.
const RETRY_AFTER: u64 = u64::MAX;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chain {
    config: ChainConfig,
    classes: Classes,
    stages: Vec<AnyStage>,
    gates: Vec<Gate>,
    queue: Queue,
    turns: Turns,
    codel: Option<Codel>,
    /// How fast what is held gets through.
    pace: Pace,
    /// Attempts that were sent and have not ended.
    sent: u32,
    /// Since when there is no ready replica, while there is none.
    empty: Option<Nanos>,
    /// When the loop has been asked to ring next.
    armed: Nanos,
}

impl Chain {
    pub(crate) fn new(config: ChainConfig, tenants: u32) -> Self {
        let classes = Classes::new(&config.classes, tenants);
        Chain {
            stages: config.stages.iter().map(|&stage| AnyStage::new(stage, tenants)).collect(),
            gates: config.gates.iter().map(|&gate| Gate::new(gate)).collect(),
            queue: Queue::new(config.queue.within, classes.len(), tenants),
            turns: Turns::new(config.queue.order, &classes),
            codel: config.queue.codel.map(Codel::new),
            pace: Pace::default(),
            sent: 0,
            empty: None,
            armed: Nanos::MAX,
            classes,
            config,
        }
    }

    fn queue_config(&self) -> &QueueConfig {
        &self.config.queue
    }

    /// What may be in flight and be held is so many times what it was.
    pub(crate) fn raise(&mut self, times: f64) {
        self.config.raise(times);
        self.gates.iter_mut().for_each(|gate| gate.raise(times));
    }

    pub(crate) fn decide(&mut self, ask: &Ask, view: &View<'_>, draws: &Stream) -> Verdict {
        for at in 0..self.stages.len() {
            let refused = self.stages[at].admit(ask, &self.classes, view, &mut draws.split(at as u64));
            if let Err(refused) = refused {
                self.stages[..at].iter_mut().for_each(|stage| stage.forget(ask));
                return self.turn_away(refused, ask, draws);
            }
        }
        let rank = self.classes.rank_of(ask.tenant);
        let closed = match self.closed(rank, view) {
            // Nobody of the same rank or above overtakes or is overtaken.
            None if (0..=rank).all(|rank| self.queue.of(rank).0 == 0) => return Verdict::Accept,
            None => Refusal::GatewayQueue,
            Some(Refusal::EmptyPool) if !self.queue_config().hold_empty => {
                self.forget(ask);
                return self.turn_away(Refused::new(503, Refusal::EmptyPool), ask, draws);
            }
            Some(closed) => closed,
        };
        let QueueConfig { capacity, capacity_tokens, .. } = *self.queue_config();
        let (held, tokens) = self.queue.of(rank);
        let fits = capacity_tokens == 0 || held == 0 || tokens + ask.tokens() <= capacity_tokens;
        if held >= capacity || !fits {
            self.forget(ask);
            // Without a queue it was the gate that turned it away.
            let cause = if capacity == 0 && closed != Refusal::EmptyPool { closed } else { Refusal::GatewayQueue };
            return self.turn_away(Refused::new(self.config.refuse_with, cause), ask, draws);
        }
        if held == 0 {
            self.turns.woke(rank);
        }
        let Ask { place, tenant, .. } = *ask;
        self.queue.push(rank, Held { place, tenant, since: view.now, tokens: ask.tokens() });
        Verdict::Queue
    }

    /// Why nobody of this class may go on now.
    fn closed(&self, rank: u32, view: &View<'_>) -> Option<Refusal> {
        if view.ready.is_empty() {
            return Some(Refusal::EmptyPool);
        }
        let limit = self.config.in_flight;
        let room = |&index: &u32| view.in_flight.get(index as usize).is_some_and(|&sent| sent < limit);
        if limit != u32::MAX && !view.ready.iter().any(room) {
            return Some(Refusal::GatewayQueue);
        }
        self.gates.iter().find_map(|gate| gate.closed(rank, self.classes.len(), self.sent, view))
    }

    fn next(&self, view: &View<'_>) -> Option<u32> {
        self.turns.next(|rank| self.queue.of(rank).0 > 0 && self.closed(rank, view).is_none())
    }

    pub(crate) fn could_release(&self, view: &View<'_>) -> bool {
        self.queue.held() > 0 && self.next(view).is_some()
    }

    pub(crate) fn release(&mut self, view: &View<'_>) -> Release {
        if self.queue.held() == 0 {
            return Release::Nothing;
        }
        let Some(rank) = self.next(view) else { return Release::Nothing };
        let newest = self.codel.is_some_and(|codel| codel.newest_first());
        let Some(held) = self.queue.pop(rank, newest) else { return Release::Nothing };
        let wait = view.now.since(held.since);
        if self.codel.as_mut().is_some_and(|codel| codel.drops(view.now, wait)) {
            return Release::Drop(held.place, Refused::new(self.config.refuse_with, Refusal::Codel));
        }
        self.turns.took(rank, &self.classes);
        self.pace.note(view.now, held.since);
        Release::Let(held.place)
    }

    /// When the oldest of a class has been held too long.
    fn expiry(&self, rank: u32) -> Option<Nanos> {
        let oldest = self.queue.oldest(rank)?;
        let QueueConfig { ttl, empty_ttl, .. } = *self.queue_config();
        let (since, ttl) = match self.empty {
            Some(empty) if self.config.queue.hold_empty => (oldest.since.max(empty), empty_ttl),
            _ => (oldest.since, ttl),
        };
        (ttl > Nanos::ZERO).then(|| since + ttl)
    }

    /// The next of those that have been held too long by `now`; it is held no longer.
    pub(crate) fn expired(&mut self, now: Nanos) -> Option<(u32, Refused)> {
        let due = |&rank: &u32| self.expiry(rank).is_some_and(|at| at <= now);
        let rank = (0..self.classes.len()).find(due)?;
        let held = self.queue.oldest(rank)?;
        self.queue.remove(held.place);
        // llm-d: 429 when the quota's queue took too long, 503 when there was nobody to serve it.
        Some(match self.empty.filter(|_| self.config.queue.hold_empty) {
            Some(_) => (held.place, Refused::new(503, Refusal::EmptyPool)),
            None => (held.place, Refused::new(429, Refusal::GatewayExpired)),
        })
    }

    /// The loop rings when it may be time for something.
    pub(crate) fn rang(&mut self, now: Nanos) {
        if self.armed <= now {
            self.armed = Nanos::MAX;
        }
        self.gates.iter_mut().for_each(|gate| gate.tick(now));
    }

    /// When the loop should ring, if it has not been asked to ring by then already.
    pub(crate) fn arm(&mut self) -> Option<Nanos> {
        let expiries = (0..self.classes.len()).filter_map(|rank| self.expiry(rank));
        let wake = expiries.chain(self.gates.iter().filter_map(Gate::wake)).min()?;
        (wake < self.armed).then(|| {
            self.armed = wake;
            wake
        })
    }

    pub(crate) fn pool_changed(&mut self, now: Nanos, empty: bool) {
        match (self.empty, empty) {
            (None, true) => self.empty = Some(now),
            (Some(_), false) => {
                self.empty = None;
                self.gates.iter_mut().for_each(|gate| gate.recovered(now));
            }
            _ => {}
        }
    }

    pub(crate) fn sent(&mut self) {
        self.sent += 1;
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.sent
    }

    pub(crate) fn ended(&mut self, ended: &Ended) {
        self.sent = self.sent.saturating_sub(1);
        self.stages.iter_mut().for_each(|stage| stage.ended(ended));
        self.gates.iter_mut().for_each(|gate| gate.ended(ended));
    }

    /// An attempt that all stages let through never reached a replica.
    pub(crate) fn forget(&mut self, ask: &Ask) {
        self.stages.iter_mut().for_each(|stage| stage.forget(ask));
    }

    /// A client gave up an attempt that is held. Answers whether it was.
    pub(crate) fn withdraw(&mut self, ask: &Ask) -> bool {
        let there = self.queue.remove(ask.place).is_some();
        if there {
            self.forget(ask);
        }
        there
    }

    pub(crate) fn turn_away(&self, refused: Refused, ask: &Ask, draws: &Stream) -> Verdict {
        let Refused { code, cause, wait } = refused;
        // Whoever asks for too much is told so, not when to ask again.
        let retry_after = (code != 400).then(|| {
            let held = self.queue.of(self.classes.rank_of(ask.tenant)).0;
            let queue = (!self.pace.is_unused()).then(|| self.pace.wait(held as usize));
            self.config.retry_after.say(wait, queue, &mut draws.split(RETRY_AFTER))
        });
        Verdict::Reject { code, cause, retry_after: retry_after.flatten() }
    }

    /// Made of these settings for so many tenants, as far as a saved state can tell: every list is as long as it must be.
    pub(crate) fn belongs_to(&self, config: &ChainConfig, tenants: u32) -> bool {
        let fresh = Chain::new(config.clone(), tenants);
        self.config == *config
            && self.classes == fresh.classes
            && self.turns.is_for(&self.classes)
            && self.queue.is_like(&fresh.queue)
            && self.codel.map(|codel| codel.config) == config.queue.codel
            && self.stages.len() == fresh.stages.len()
            && self.stages.iter().zip(&fresh.stages).all(|(stage, fresh)| stage.is_like(fresh))
            && self.gates.len() == fresh.gates.len()
            && self.gates.iter().zip(&fresh.gates).all(|(gate, fresh)| gate.is_like(fresh))
    }

    pub(crate) fn in_flight_limit(&self) -> u32 {
        self.config.in_flight
    }

    pub(crate) fn held(&self) -> impl Iterator<Item = u32> + '_ {
        self.queue.iter().map(|held| held.place)
    }

    pub(crate) fn held_count(&self) -> u32 {
        self.queue.held()
    }

    pub(crate) fn reads_metrics(&self) -> bool {
        self.gates.iter().any(Gate::reads_metrics) || self.stages.iter().any(AnyStage::reads_metrics)
    }
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
