//! The loop's part of the gateway: asks it about attempts, tells it what became of them, and lets through what it holds.

use super::flights::{Attempt, Flights, Where};
use super::timers::Timer;
use super::{Core, Fleet};
use crate::clients::{Cause, Failure};
use crate::gateway::{self, Ask, Ended, Gateway, Refused, Release, Verdict, View};
use crate::record::{Refusal, RefusalCount};
use servelab_engine::{Nanos, SequenceId};
use servelab_workload::Request;

/// HTTP status of a request that a full engine turns away: vLLM's and SGLang's.
const ENGINE_FULL: u16 = 503;
/// HTTP status of a request that can never fit.
const NEVER_FITS: u16 = 400;

/// The attempt at `place` as the gateway sees it, and the index of its request.
fn ask(flights: &Flights, place: u32) -> Option<(Ask, u32)> {
    let number = flights.attempts.get(place)?.number;
    let &Request { index, tenant, ref prompt, max_tokens, .. } = flights.of(place)?.request.as_deref()?;
    Some((Ask { place, tenant, prompt: prompt.len, max_tokens, attempt: number }, index))
}

/// What the gateway is told of an attempt that has ended.
fn ended(now: Nanos, request: &Request, attempt: &Attempt, ok: bool) -> Ended {
    Ended {
        now,
        tenant: request.tenant,
        max_tokens: request.max_tokens,
        produced: attempt.produced,
        ok,
        sent: attempt.sent,
        first_token: attempt.first_token,
    }
}

/// The fleet as the gateway sees it.
macro_rules! seen {
    ($core:expr, $scratch:expr) => {
        View { now: $core.now, ready: $scratch.ready(), in_flight: &$core.in_flight, polled: &$core.polled }
    };
}

/// What an engine's refusal is to the client: status and cause.
pub(super) fn engine_refusal(refusal: servelab_engine::Refusal) -> Failure {
    use servelab_engine::Refusal as Engine;
    let (code, cause) = match refusal {
        Engine::QueueFull { .. } => (ENGINE_FULL, Refusal::EngineQueue),
        Engine::QueueTokens { .. } => (ENGINE_FULL, Refusal::EngineTokens),
        Engine::TooLate { .. } => (ENGINE_FULL, Refusal::EngineTooLate),
        _ => (NEVER_FITS, Refusal::NeverFits),
    };
    Failure::refused(code, cause)
}

impl Fleet {
    /// The attempt at `place` comes to the gateway.
    pub(super) fn ask_gateway(&mut self, place: u32) {
        if self.core.gateway.chain().is_none() {
            return self.dispatch(place);
        }
        let now = self.core.now;
        let Some(attempt) = self.core.flights.attempts.get_mut(place) else { return };
        attempt.asked = now;
        let request = attempt.request;
        self.core.recall(request);
        let Some((asks, index)) = ask(&self.core.flights, place) else { return };
        self.freshen();
        let Fleet { core, scratch, admission, .. } = self;
        let seen = seen!(core, scratch);
        let Some(chain) = core.gateway.chain_mut() else { return };
        let verdict = chain.decide(&asks, &seen, &gateway::draws(admission, index, asks.attempt));
        match verdict {
            Verdict::Accept => self.dispatch(place),
            Verdict::Queue => {}
            Verdict::Reject { code, cause, retry_after } => {
                self.refuse(place, Failure { code, retry_after, cause: Cause::Refused(cause) });
            }
        }
        // Whatever became of it, metrics that were read for it may let others through.
        self.release();
        if verdict == Verdict::Queue {
            self.arm_gateway();
        }
    }

    /// Lets through what the gateway holds, as far as it may.
    pub(super) fn release(&mut self) {
        if self.core.gateway.held() == 0 {
            return;
        }
        self.freshen();
        loop {
            let Fleet { core, scratch, .. } = self;
            let seen = seen!(core, scratch);
            let Some(chain) = core.gateway.chain_mut() else { return };
            match chain.release(&seen) {
                Release::Nothing => return,
                Release::Let(place) => self.dispatch(place),
                Release::Drop(place, refused) => self.turned_away(place, refused),
            }
        }
    }

    /// What the gateway held is turned away.
    fn turned_away(&mut self, place: u32, refused: Refused) {
        self.core.note_held(place);
        let Some((asks, index)) = ask(&self.core.flights, place) else { return };
        let draws = gateway::draws(&self.admission, index, asks.attempt);
        let Some(chain) = self.core.gateway.chain_mut() else { return };
        chain.forget(&asks);
        if let Verdict::Reject { code, cause, retry_after } = chain.turn_away(refused, &asks, &draws) {
            self.refuse(place, Failure { code, retry_after, cause: Cause::Refused(cause) });
        }
    }

    /// Nobody waits any more for the attempt at `place`, which the gateway holds.
    pub(super) fn withdraw(&mut self, place: u32) {
        self.core.note_held(place);
        let Some((asks, _)) = ask(&self.core.flights, place) else { return };
        let Some(chain) = self.core.gateway.chain_mut() else { return };
        let there = chain.withdraw(&asks);
        debug_assert!(there, "F13 gateway: attempt {place} was not held");
    }

    /// Metrics are as the gateway may see them now.
    fn freshen(&mut self) {
        if !self.core.gateway.reads_metrics() {
            return;
        }
        if self.core.config.telemetry.scrape == Nanos::ZERO && self.core.stale == 0 {
            self.read_metrics();
        }
        self.date_metrics();
        self.wake_scrapes();
    }

    /// Metrics were read: the gateway may let somebody through.
    pub(super) fn gateway_scraped(&mut self) {
        if self.core.gateway.reads_metrics() {
            self.release();
        }
    }

    /// The gateway wants the next reading even if nothing changes: metrics grow stale.
    pub(super) fn gateway_wants_metrics(&self) -> bool {
        self.core.gateway.held() > 0 && self.core.gateway.reads_metrics()
    }

    /// The gateway asked to be rung.
    pub(super) fn ring_gateway(&mut self) {
        let now = self.core.now;
        if let Some(chain) = self.core.gateway.chain_mut() {
            chain.rang(now);
        }
        while let Some((place, refused)) = self.core.gateway.chain_mut().and_then(|chain| chain.expired(now)) {
            self.turned_away(place, refused);
        }
        self.release();
        self.arm_gateway();
    }

    fn arm_gateway(&mut self) {
        let now = self.core.now;
        if let Some(at) = self.core.gateway.chain_mut().and_then(|chain| chain.arm()) {
            self.core.timers.insert(at.max(now), Timer::Gateway);
        }
    }

    /// Something made room at an instant at which nothing may be let through: it is looked at when that instant's timers ring.
    pub(super) fn release_later(&mut self) {
        if self.core.gateway.held() > 0 {
            self.core.timers.insert(self.core.now, Timer::Gateway);
        }
    }

    /// Other replicas are ready than before.
    pub(super) fn gateway_pool_changed(&mut self) {
        let (now, empty) = (self.core.now, self.scratch.ready().is_empty());
        if let Some(chain) = self.core.gateway.chain_mut() {
            chain.pool_changed(now, empty);
            self.arm_gateway();
            // Without the fullest replica the others have room.
            self.release_later();
        }
    }

    /// A router has chosen a replica for the attempt at `place`, so the gateway is done with it.
    pub(super) fn left_gateway(core: &mut Core, place: u32) {
        core.note_held(place);
        if let Some(chain) = core.gateway.chain_mut() {
            chain.sent();
        }
    }

    /// No replica could be chosen for the attempt at `place`.
    pub(super) fn not_sent(&mut self, place: u32) {
        let Some((asks, _)) = ask(&self.core.flights, place) else { return };
        if let Some(chain) = self.core.gateway.chain_mut() {
            chain.forget(&asks);
        }
    }

    /// The gateway learns that an attempt ended. To be called once for each that a replica was chosen for, whatever became of it.
    pub(super) fn tell_gateway(gateway: &mut Gateway, now: Nanos, request: &Request, attempt: &Attempt, ok: bool) {
        if let Some(chain) = gateway.chain_mut() {
            chain.ended(&ended(now, request, attempt, ok));
        }
    }

    /// Attempts turned away so far, by cause and status.
    pub fn refusals(&self) -> &[RefusalCount] {
        &self.core.refusals
    }

    /// A replica dropped an attempt that had waited there too long.
    pub(super) fn expired_at(&mut self, index: u32, id: SequenceId) {
        let core = &mut self.core;
        let Some(place) = core.flights.place(id) else { return };
        if core.replicas[index as usize].ailments.split > 0 {
            // Nobody hears of it.
            if let Some(attempt) = core.flights.attempts.get_mut(place) {
                attempt.at = Where::Nowhere;
            }
            return;
        }
        // It had been taken in, and is turned away after all.
        core.fates.accepted -= 1;
        core.replicas[index as usize].model.get_mut().turn_away(core.now, core.config.reject_cost);
        self.detach(place);
        self.refuse(place, Failure::refused(ENGINE_FULL, Refusal::EngineExpired));
        self.leave_if_done(index);
    }
}

impl Core {
    /// The attempt at `place` is held no longer.
    fn note_held(&mut self, place: u32) {
        let Some(attempt) = self.flights.attempts.get(place) else { return };
        let (request, time) = (attempt.request, self.now.since(attempt.asked));
        if self.gateway.chain().is_some()
            && let Some(flight) = self.flights.requests.get_mut(request)
        {
            flight.held += time;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_engine_is_no_bad_request() {
        use servelab_engine::Refusal as Engine;
        let code = |refusal| engine_refusal(refusal).code;
        assert_eq!(code(Engine::QueueFull { requests: 3, most: 3 }), 503);
        assert_eq!(code(Engine::QueueTokens { tokens: 3, most: 3 }), 503);
        assert_eq!(code(Engine::TooLate { wait: Nanos(3), most: Nanos(2) }), 503);
        assert_eq!(code(Engine::EmptyPrompt), 400);
    }
}
