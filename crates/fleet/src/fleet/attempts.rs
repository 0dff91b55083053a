//! Requests and their attempts as clients see them: sent, waited for, tried again, given up.
//!
//! An attempt that its client waits for no longer goes on: the server is told only where cancellation reaches it. It costs what it
//! costs, and that is waste. So a request stays in flight after its end until the last of its attempts has ended.
//!
//! A request has one timer at most, for whatever its client does next. Attempts that a hedge has made superfluous are cancelled after the
//! instant's step ends (`Timer::Cancel`): another replica's step may be in the middle of telling what it did.

use super::Fleet;
use super::dispatch::record;
use super::flights::{Attempt, InFlight, NOWHERE, Where};
use super::timers::Timer;
use crate::clients::{Cause, Failure, Pace};
use crate::record::{Outcome, Refusal, RefusalCount, RequestRecord};
use crate::replica::Spending;
use servelab_engine::{Nanos, SequenceId};
use servelab_workload::{Request, Workload};

/// What a client makes of its own refusal.
const UNAVAILABLE: u16 = 503;

impl Fleet {
    /// The workload's next request is due.
    pub(super) fn arrive(&mut self, request: Request) {
        if let Some(request) = self.core.clients.turn(request) {
            self.begin(request, NOWHERE);
        }
    }

    /// A user of a closed loop sends the workload's next request, if there is one.
    pub(super) fn user_sends(&mut self, user: u32) {
        if let Some(request) = self.core.next_request.take() {
            self.core.next_request = self.core.source.next_request();
            self.begin(Request { arrival: self.core.now, ..request }, user);
        }
    }

    /// A session has thought about its latest answer.
    pub(super) fn session_goes_on(&mut self, session: u64) {
        if let Some(request) = self.core.clients.next_turn(session) {
            self.begin(Request { arrival: self.core.now, ..request }, NOWHERE);
        }
    }

    fn begin(&mut self, request: Request, user: u32) {
        let core = &mut self.core;
        core.counts.arrived += 1;
        let whose = core.clients.whose(&request, Some(user).filter(|&user| user != NOWHERE));
        let deadline = core.clients.policy(whose).deadline.map_or(Nanos::MAX, |time| core.now + time);
        let place = core.flights.open(InFlight::new(request, whose, user, deadline));
        self.attempt(place, false);
    }

    /// The client of the request at `place` tries it: for the first time, again, or (`hedge`) beside an attempt that is under way.
    fn attempt(&mut self, place: u32, hedge: bool) {
        let core = &mut self.core;
        let Some(flight) = core.flights.requests.get_mut(place) else { return };
        flight.attempts += 1;
        flight.hedges += u32::from(hedge);
        let (number, whose, index) = (flight.attempts, flight.whose, flight.request.index);
        let retry = number > 1 && !hedge;
        core.counts.attempts += 1;
        core.counts.retries += u64::from(retry);
        core.counts.hedges += u64::from(hedge);
        let bin = core.flow.at(core.now);
        bin.attempts += 1;
        bin.repeats += u32::from(number > 1);
        if let Err(refusal) = core.clients.sends(core.now, whose, index, number) {
            self.count_refusal(refusal, UNAVAILABLE);
            self.core.fates.failed += 1;
            return self.failed(place, None, Failure::refused(UNAVAILABLE, refusal));
        }
        let policy = core.clients.policy(whose);
        let timeout = policy.timeout.map_or(Nanos::MAX, |time| core.now + time);
        let hedge = policy.hedge.filter(|hedge| flight.hedges < hedge.most);
        flight.hedge_at = hedge.map_or(Nanos::MAX, |hedge| core.now + hedge.after);
        if let Some(attempt) = core.flights.begin(place, timeout) {
            self.offer(attempt);
        }
        self.arm(place);
    }

    /// Counts an attempt that is turned away with the status `code`.
    fn count_refusal(&mut self, cause: Refusal, code: u16) {
        let core = &mut self.core;
        *core.fates.refused.entry(cause).or_default() += 1;
        core.flow.at(core.now).refused += 1;
        let known = core.refusals.iter_mut().find(|known| (known.cause, known.code) == (cause, code));
        match known {
            Some(known) => known.attempts += 1,
            None => core.refusals.push(RefusalCount { cause, code, attempts: 1 }),
        }
    }

    /// The attempt at `place` is turned away.
    pub(super) fn refuse(&mut self, place: u32, failure: Failure) {
        if let Cause::Refused(refusal) = failure.cause {
            self.count_refusal(refusal, failure.code);
        }
        self.fail(place, failure);
    }

    /// The attempt at `place` has failed at the server.
    pub(super) fn fail(&mut self, place: u32, failure: Failure) {
        let Some(attempt) = self.core.flights.end(place) else { return };
        if !attempt.waited {
            return self.core.flights.close(attempt.request);
        }
        if let Some(flight) = self.core.flights.requests.get(attempt.request) {
            self.core.clients.ended(flight.whose);
        }
        match failure.cause {
            Cause::Lost(_) => {
                self.core.fates.lost += 1;
                self.core.flow.at(self.core.now).failed += 1;
            }
            Cause::Refused(_) => self.core.fates.failed += 1,
            Cause::TimedOut => {}
        }
        self.failed(attempt.request, Some(&attempt), failure);
    }

    /// A try of the request at `place` failed: its client waits for another that is under way, tries again or gives up.
    fn failed(&mut self, place: u32, attempt: Option<&Attempt>, failure: Failure) {
        let core = &mut self.core;
        let Some(flight) = core.flights.requests.get_mut(place) else { return };
        let (now, whose) = (core.now, flight.whose);
        core.clients.failed(now, whose, &failure);
        if flight.waited > 0 {
            return self.arm(place);
        }
        let tries = (flight.attempts, flight.attempts - flight.hedges, flight.failures);
        let wait = if core.clients.policy(whose).retry_on.holds(&failure) {
            core.clients.wait(whose, flight.request.index, tries, flight.waited_for, failure.retry_after)
        } else {
            None
        };
        if let Some((wait, restarts)) = wait {
            // At least a nanosecond, so that a full gateway is not asked again at the same instant for ever.
            let at = now + wait.max(Nanos(1));
            let in_time = at < flight.deadline;
            if in_time && core.clients.pays(now, whose, flight.retrying) {
                flight.retrying = true;
                (flight.retry_at, flight.hedge_at) = (at, Nanos::MAX);
                flight.failures = if restarts { 0 } else { flight.failures + 1 };
                flight.waited_for = Some(wait).filter(|_| !restarts);
                return self.arm(place);
            }
            core.counts.unpaid += u64::from(in_time);
        }
        let outcome = match failure.cause {
            Cause::Lost(cause) => Outcome::Lost { cause },
            Cause::Refused(cause) => Outcome::Rejected { code: failure.code, cause },
            Cause::TimedOut => Outcome::TimedOut,
        };
        let record = record(flight, attempt, now, outcome);
        self.end(place, record);
    }

    /// The request at `place` has ended as `record` says.
    pub(super) fn end(&mut self, place: u32, record: RequestRecord) {
        let core = &mut self.core;
        // What was withdrawn at this very instant counts, and so does what is still held.
        let record = RequestRecord { held: core.flights.held_until(place, core.now), ..record };
        let Some(flight) = core.flights.requests.get_mut(place) else { return };
        debug_assert!(!flight.settled, "F1 conservation: request {} ends twice", record.index);
        flight.settled = true;
        if let Some(key) = flight.timer.take() {
            core.timers.remove(key);
        }
        if std::mem::take(&mut flight.retrying) {
            core.clients.retried(flight.whose);
        }
        let bin = core.flow.at(core.now);
        match record.outcome {
            Outcome::Finished => {
                core.counts.finished += 1;
                bin.finished += 1;
            }
            Outcome::Rejected { .. } => core.counts.rejected += 1,
            Outcome::Lost { .. } => core.counts.lost += 1,
            Outcome::TimedOut => core.counts.timed_out += 1,
            Outcome::Abandoned => core.counts.abandoned += 1,
            Outcome::Pending => {}
        }
        bin.given_up += u32::from(record.outcome != Outcome::Finished);
        core.flights.open -= 1;
        if let Some(think) = core.clients.think(record.index) {
            // At least a nanosecond: nobody sends before this instant is over.
            let at = core.now + think.max(Nanos(1));
            match (core.clients.crowd.pace, flight.request.session) {
                (Pace::Closed { .. }, _) => core.timers.insert(at, Timer::User(flight.user)),
                (Pace::Sessions { .. }, Some(session)) => core.timers.insert(at, Timer::Turn(session)),
                _ => {}
            }
        }
        core.ended.push(record);
        core.flights.close(place);
    }

    /// The timer of the client of the request at `place` rings.
    pub(super) fn client(&mut self, place: u32) {
        let now = self.core.now;
        let Some(flight) = self.core.flights.requests.get_mut(place) else { return };
        flight.timer = None;
        if flight.deadline <= now {
            return self.abandon(place);
        }
        while let Some(late) = self.too_late(place) {
            self.hear_from(late);
            let attempt = self.core.flights.attempts.get(late).cloned();
            self.core.fates.timed_out += 1;
            self.core.flow.at(now).failed += 1;
            self.stop(late, false);
            self.failed(place, attempt.as_ref(), Failure::timed_out());
        }
        let due = |at: fn(&InFlight) -> Nanos, fleet: &Self| {
            fleet.core.flights.requests.get(place).is_some_and(|flight| !flight.settled && at(flight) <= now)
        };
        if due(|flight| flight.retry_at, self) {
            if let Some(flight) = self.core.flights.requests.get_mut(place) {
                flight.retry_at = Nanos::MAX;
            }
            self.attempt(place, false);
        }
        if due(|flight| flight.hedge_at, self) {
            self.hedge(place);
        }
        self.arm(place);
        self.release();
    }

    /// The oldest attempt of the request at `place` that its client has waited for long enough.
    fn too_late(&self, place: u32) -> Option<u32> {
        let flights = &self.core.flights;
        let flight = flights.requests.get(place).filter(|flight| !flight.settled)?;
        let late = |attempt: &Attempt| self.times_out(flight, attempt) <= self.core.now;
        flights.attempts_of(place).filter(|&at| flights.attempts.get(at).is_some_and(late)).last()
    }

    /// Until when the client waits for an attempt, as things stand.
    fn times_out(&self, flight: &InFlight, attempt: &Attempt) -> Nanos {
        let begun = attempt.first_token.is_some() && self.core.clients.policy(flight.whose).until_first_token;
        if attempt.waited && !begun { attempt.timeout } else { Nanos::MAX }
    }

    /// A second attempt beside the one under way, if somebody pays for it.
    fn hedge(&mut self, place: u32) {
        let core = &mut self.core;
        let Some(flight) = core.flights.requests.get_mut(place) else { return };
        flight.hedge_at = Nanos::MAX;
        if flight.waited > 0 && core.clients.pays(core.now, flight.whose, flight.retrying) {
            flight.retrying = true;
            self.attempt(place, true);
        }
    }

    /// The client of the request at `place` gives it up, whatever is under way.
    fn abandon(&mut self, place: u32) {
        let attempts: Vec<u32> = self.core.flights.attempts_of(place).collect();
        attempts.into_iter().for_each(|attempt| self.hear_from(attempt));
        let flights = &self.core.flights;
        let Some(flight) = flights.requests.get(place) else { return };
        let latest =
            flights.attempts_of(place).filter_map(|at| flights.attempts.get(at)).find(|attempt| attempt.waited);
        let record = record(flight, latest, self.core.now, Outcome::Abandoned);
        self.stop_all(place, false);
        self.end(place, record);
        self.release();
    }

    /// Nobody waits for any attempt of the request at `place` any more.
    pub(super) fn stop_all(&mut self, place: u32, later: bool) {
        loop {
            let flights = &self.core.flights;
            let waited = |&at: &u32| flights.attempts.get(at).is_some_and(|attempt| attempt.waited);
            let Some(attempt) = flights.attempts_of(place).find(waited) else { return };
            self.core.fates.superseded += 1;
            self.stop(attempt, later);
        }
    }

    /// The client waits no longer for the attempt at `place`. `later`: the server is not told before this instant's steps have ended.
    fn stop(&mut self, place: u32, later: bool) {
        let core = &mut self.core;
        let Some(attempt) = core.flights.attempts.get_mut(place) else { return };
        attempt.waited = false;
        let (id, held) = (attempt.id, attempt.at == Where::Gateway);
        if let Some(flight) = core.flights.requests.get_mut(attempt.request) {
            flight.waited -= 1;
            core.clients.ended(flight.whose);
        }
        match (core.clients.crowd.cancels, later && !held) {
            (false, _) => {}
            (true, true) => core.timers.insert(core.now, Timer::Cancel(id)),
            (true, false) => self.cancel(place),
        }
    }

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
    fn cancel(&mut self, place: u32) {
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
    fn hear_from(&mut self, place: u32) {
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
        let Some(flight) = self.core.flights.requests.get(attempt.request) else { return Nanos::ZERO };
        if attempt.at != Where::Replica {
            return Nanos::ZERO;
        }
        let spending = Spending {
            prompt_tokens: flight.request.prompt.len,
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
        let Some(flight) = core.flights.requests.get(attempt.request) else { return };
        let (index, router) = (attempt.replica, attempt.routed.router);
        core.in_flight[index as usize] -= 1;
        let counts = &mut core.routers[router as usize];
        let prompt = flight.request.prompt.len;
        if attempt.routed.counts == counts.resets {
            let signals = &mut counts.signals[index as usize];
            if attempt.first_token.is_none() {
                signals.first_token(prompt, attempt.routed.expected_hit);
            }
            signals.end(prompt, super::dispatch::budget(&flight.request) - u64::from(attempt.produced));
        }
        let known = attempt.routed.life == counts.restarts;
        if known {
            let policy = &mut self.policies.each[router as usize];
            policy.ended(core.now, &super::dispatch::view(&flight.request, attempt.number), index);
        }
        Fleet::tell_gateway(&mut core.gateway, core.now, &flight.request, attempt, false);
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

    /// Sets the timer of the client of the request at `place` to whatever it does next.
    fn arm(&mut self, place: u32) {
        let flights = &self.core.flights;
        let Some(flight) = flights.requests.get(place).filter(|flight| !flight.settled) else { return };
        let attempts = flights.attempts_of(place).filter_map(|at| flights.attempts.get(at));
        let timeout = attempts.map(|attempt| self.times_out(flight, attempt)).min().unwrap_or(Nanos::MAX);
        let next = timeout.min(flight.retry_at).min(flight.hedge_at).min(flight.deadline);
        let known = flight.timer;
        if known.map_or(Nanos::MAX, |(at, _)| at) == next {
            return;
        }
        let core = &mut self.core;
        known.into_iter().for_each(|key| core.timers.remove(key));
        let key = (next != Nanos::MAX).then(|| core.timers.set(next, Timer::Client(place)));
        if let Some(flight) = core.flights.requests.get_mut(place) {
            flight.timer = key;
        }
    }
}
