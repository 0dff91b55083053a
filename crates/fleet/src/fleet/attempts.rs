//! Requests and their attempts as clients see them: sent, answered, tried again, ended.
//!
//! What a client does as time passes is in [`super::patience`], what becomes of attempts that nobody waits for in [`super::cancels`].

use super::Fleet;
use super::answers::record;
use super::flights::{Attempt, InFlight, NOWHERE};
use super::tape::{self, Ending};
use super::timers::Timer;
use crate::clients::{Cause, Failure, Pace};
use crate::record::{Outcome, Refusal, RefusalCount, RequestRecord};
use servelab_engine::Nanos;
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
    pub(super) fn attempt(&mut self, place: u32, hedge: bool) {
        let core = &mut self.core;
        let Some(flight) = core.flights.requests.get_mut(place) else { return };
        flight.attempts += 1;
        flight.hedges += u32::from(hedge);
        let (number, whose, index) = (flight.attempts, flight.whose, flight.index);
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
            let failure = Failure::refused(UNAVAILABLE, refusal);
            self.note_held_back(place, &failure);
            return self.failed(place, None, failure);
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
        tape::note_attempt(&mut self.tape, &self.core, place, Ending::of(&failure));
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
    pub(super) fn failed(&mut self, place: u32, attempt: Option<&Attempt>, failure: Failure) {
        let core = &mut self.core;
        let Some(flight) = core.flights.requests.get_mut(place) else { return };
        let (now, whose) = (core.now, flight.whose);
        core.clients.failed(now, whose, &failure);
        if flight.waited > 0 {
            return self.arm(place);
        }
        let tries = (flight.attempts, flight.attempts - flight.hedges, flight.failures);
        let wait = if core.clients.policy(whose).retry_on.holds(&failure) {
            let previous = Some(flight.waited_for).filter(|&wait| wait != Nanos::MAX);
            core.clients.wait(whose, flight.index, tries, previous, failure.retry_after)
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
                flight.waited_for = if restarts { Nanos::MAX } else { wait };
                self.core.flights.close(place);
                return self.arm(place);
            }
            core.counts.unpaid += u64::from(in_time);
        }
        let outcome = match failure.cause {
            Cause::Lost(cause) => Outcome::Lost { cause },
            Cause::Refused(cause) => Outcome::Rejected { code: failure.code, cause },
            Cause::TimedOut => Outcome::TimedOut,
        };
        core.recall(place);
        if let Some(record) = core.flights.requests.get(place).and_then(|flight| record(flight, attempt, now, outcome))
        {
            self.end(place, record);
        }
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
            let session = flight.request.as_ref().and_then(|request| request.session);
            match (core.clients.crowd.pace, session) {
                (Pace::Closed { .. }, _) => core.timers.insert(at, Timer::User(flight.user)),
                (Pace::Sessions { .. }, Some(session)) => core.timers.insert(at, Timer::Turn(session)),
                _ => {}
            }
        }
        core.ended.push(record);
        core.flights.close(place);
    }
}
