//! Attempts that nobody waits for, and those that are lost.
//!
//! An attempt that its client waits for no longer goes on: the server is told only where cancellation reaches it. It costs what it
//! costs, and that is waste. So a request stays in flight after its end until the last of its attempts has ended.

use super::Fleet;
use super::dispatch::{budget, view};
use super::flights::{Attempt, NOWHERE, Where};
use super::tape::{self, Ending};
use crate::clients::Failure;
use crate::replica::Spending;
use servelab_engine::{Nanos, SequenceId};

impl Fleet {
    /// The server is told that nobody waits for the attempt of that name.
    pub(super) fn cancel_named(&mut self, id: SequenceId) {
        if let Some(place) = self.core.flights.place(id) {
            self.cancel(place);
            self.release();
        }
    }

    /// Everything that nobody waits for is cancelled.
    pub(super) fn cancel_abandoned(&mut self) {
        let attempts = self.core.flights.attempts.iter().filter(|(_, attempt)| !attempt.waited);
        let mut places: Vec<(SequenceId, u32)> = attempts.map(|(place, attempt)| (attempt.id, place)).collect();
        places.sort();
        places.into_iter().for_each(|(_, place)| self.cancel(place));
        self.release();
    }

    /// The attempt at `place`, for which nobody waits, is cancelled wherever it is. Not while steps of this instant end.
    pub(super) fn cancel(&mut self, place: u32) {
        let Some(attempt) = self.core.flights.attempts.get(place) else { return };
        let (id, request, replica, at) = (attempt.id, attempt.request, attempt.replica, attempt.at);
        if at == Where::Replica {
            self.catch_up(replica);
            let Some(attempt) = self.core.flights.by_id(id) else { return };
            let spent = self.spent(attempt, false);
            let clock = self.clock_of(replica);
            if !self.core.replicas[replica as usize].model.get_mut().cancel(self.core.now, clock, id) {
                return;
            }
            self.core.work.abandoned += spent;
            self.core.flow.at(self.core.now).wasted += spent;
            self.stirred.push(replica);
            self.refresh(replica);
        } else if at == Where::Gateway {
            self.withdraw(place);
            self.core.fates.withdrawn += 1;
        }
        self.detach(place);
        tape::note_attempt(&mut self.tape, &self.core, place, Ending::Cancelled);
        self.core.flights.end(place);
        self.core.flights.close(request);
        if replica != NOWHERE {
            self.leave_if_done(replica);
        }
    }

    /// Brings a replica to where single steps would have brought it: whatever steps have ended is told, and at most the one in progress is left of a run.
    pub(super) fn catch_up(&mut self, replica: u32) {
        self.split_run(replica);
        self.core.replicas[replica as usize].model.get_mut().interrupt_run(self.core.now);
        self.refresh(replica);
    }

    /// Has told what the attempt at `place` has produced by now.
    pub(super) fn hear_from(&mut self, place: u32) {
        let attempt = self.core.flights.attempts.get(place).filter(|attempt| attempt.at == Where::Replica);
        if let Some(replica) = attempt.map(|attempt| attempt.replica).filter(|&at| self.running_ahead[at as usize]) {
            self.split_run(replica);
        }
    }

    /// How far a replica's own time has come: one that stands still is where it stopped.
    pub(super) fn clock_of(&self, replica: u32) -> Nanos {
        let ailments = self.core.replicas[replica as usize].ailments;
        if ailments.frozen > 0 { ailments.frozen_at } else { self.core.now }
    }

    /// What its replica has spent on an attempt.
    pub(super) fn spent(&self, attempt: &Attempt, finished: bool) -> Nanos {
        let Some(asked) = self.core.flights.asked(attempt.request) else { return Nanos::ZERO };
        if attempt.at != Where::Replica {
            return Nanos::ZERO;
        }
        let spending = Spending {
            prompt_tokens: asked.prompt.len,
            reused_tokens: attempt.cached_tokens + attempt.fetched_tokens,
            produced: attempt.produced,
            finished,
        };
        let model = self.core.replicas[attempt.replica as usize].model.get();
        model.spent(self.clock_of(attempt.replica), attempt.id, &spending)
    }

    /// The attempt at `place` leaves its replica and what routers and the gateway count there, without having delivered all its output.
    pub(super) fn detach(&mut self, place: u32) {
        let core = &mut self.core;
        let Some(attempt) = core.flights.attempts.get(place).filter(|attempt| attempt.was_sent()) else { return };
        let Some(asked) = core.flights.asked(attempt.request) else { return };
        let (index, router) = (attempt.replica, attempt.routed.router);
        core.in_flight[index as usize] -= 1;
        let counts = &mut core.routers[router as usize];
        let prompt = asked.prompt.len;
        if attempt.routed.counts == counts.resets {
            let signals = &mut counts.signals[index as usize];
            if attempt.first_token.is_none() {
                signals.first_token(prompt, attempt.routed.expected_hit);
            }
            signals.end(prompt, budget(asked) - u64::from(attempt.produced));
        }
        let known = attempt.routed.life == counts.restarts;
        if known {
            let policy = &mut self.policies.each[router as usize];
            policy.ended(core.now, &view(asked, attempt.number), index);
        }
        Fleet::tell_gateway(&mut core.gateway, core.now, asked, attempt, false);
        if known {
            self.heed(router);
        }
    }

    /// Everything that is at a replica, or on its way there, fails.
    pub(super) fn lose_attempts(&mut self, index: u32, failure: Failure) {
        self.split_run(index);
        let attempts = self.core.flights.attempts.iter();
        let mut lost: Vec<(SequenceId, u32)> = (attempts.filter(|(_, attempt)| attempt.replica == index))
            .map(|(place, attempt)| (attempt.id, place))
            .collect();
        lost.sort_unstable();
        let of = |&(_, place): &(SequenceId, u32)| self.core.flights.attempts.get(place);
        let spent = lost.iter().filter_map(of).fold(Nanos::ZERO, |sum, attempt| sum + self.spent(attempt, false));
        self.core.work.lost += spent;
        self.core.flow.at(self.core.now).wasted += spent;
        let clock = self.clock_of(index);
        self.core.replicas[index as usize].model.get_mut().forfeit(clock);
        if !lost.is_empty() {
            self.release_later();
        }
        for (_, place) in lost {
            self.detach(place);
            self.fail(place, failure);
        }
    }
}
