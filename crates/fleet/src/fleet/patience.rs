//! What a client does as time passes: it waits no longer, tries again, hedges, gives up.
//!
//! A request has one timer at most, for whatever its client does next. Attempts that a hedge has made superfluous are cancelled after the
//! instant's step ends (`Timer::Cancel`): another replica's step may be in the middle of telling what it did.

use super::Fleet;
use super::answers::record;
use super::flights::{Attempt, InFlight, Where};
use super::timers::Timer;
use crate::clients::Failure;
use crate::record::Outcome;
use servelab_engine::Nanos;

impl Fleet {
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
        self.core.recall(place);
        let flights = &self.core.flights;
        let Some(flight) = flights.requests.get(place) else { return };
        let latest =
            flights.attempts_of(place).filter_map(|at| flights.attempts.get(at)).find(|attempt| attempt.waited);
        let Some(record) = record(flight, latest, self.core.now, Outcome::Abandoned) else { return };
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

    /// Sets the timer of the client of the request at `place` to whatever it does next.
    pub(super) fn arm(&mut self, place: u32) {
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
