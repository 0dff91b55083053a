//! The loop's part of the gateway: asks it about attempts, tells it what became of them, and lets through what it holds.

use super::dispatch::{budget, view};
use super::flights::{Attempt, InFlight};
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

/// An attempt as the gateway sees it.
fn ask(place: u32, flight: &InFlight) -> Ask {
    let Request { tenant, ref prompt, max_tokens, .. } = flight.request;
    Ask { place, tenant, prompt: prompt.len, max_tokens, attempt: flight.attempts }
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
    /// An attempt of the request at `place` comes to the gateway.
    pub(super) fn ask_gateway(&mut self, place: u32) {
        let now = self.core.now;
        let Some(flight) = self.core.flights.requests.get_mut(place) else { return };
        flight.asked = now;
        let asks = ask(place, flight);
        let index = flight.request.index;
        if self.core.gateway.chain().is_none() {
            return self.dispatch(place);
        }
        self.freshen();
        let Fleet { core, scratch, admission, .. } = self;
        let seen = seen!(core, scratch);
        let Some(chain) = core.gateway.chain_mut() else { return };
        match chain.decide(&asks, &seen, &gateway::draws(admission, index, asks.attempt)) {
            Verdict::Accept => self.dispatch(place),
            Verdict::Queue => {
                self.release();
                self.arm_gateway();
            }
            Verdict::Reject { code, cause, retry_after } => {
                self.failed(place, None, Failure { code, retry_after, cause: Cause::Refused(cause) });
            }
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
        let Some(flight) = self.core.flights.requests.get_mut(place) else { return };
        flight.held += self.core.now.since(flight.asked);
        let asks = ask(place, flight);
        let draws = gateway::draws(&self.admission, flight.request.index, flight.attempts);
        let Some(chain) = self.core.gateway.chain_mut() else { return };
        chain.forget(&asks);
        if let Verdict::Reject { code, cause, retry_after } = chain.turn_away(refused, &asks, &draws) {
            self.failed(place, None, Failure { code, retry_after, cause: Cause::Refused(cause) });
        }
    }

    /// Metrics are as the gateway may see them now.
    fn freshen(&mut self) {
        if !self.core.gateway.reads_metrics() {
            return;
        }
        if self.core.config.telemetry.scrape == Nanos::ZERO {
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
        }
    }

    /// A router has chosen a replica for the request at `place`, so the gateway is done with it.
    pub(super) fn left_gateway(core: &mut Core, place: u32) {
        if let Some(flight) = core.flights.requests.get_mut(place) {
            flight.held += core.now.since(flight.asked);
        }
        if let Some(chain) = core.gateway.chain_mut() {
            chain.sent();
        }
    }

    /// No replica could be chosen for the request at `place`.
    pub(super) fn not_sent(&mut self, place: u32) {
        let Some(flight) = self.core.flights.requests.get(place) else { return };
        let asks = ask(place, flight);
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

    /// Counts an attempt that is turned away.
    pub(super) fn note_refusal(&mut self, failure: Failure) {
        let Cause::Refused(cause) = failure.cause else { return };
        let refusals = &mut self.core.refusals;
        let known = refusals.iter_mut().find(|known| (known.cause, known.code) == (cause, failure.code));
        match known {
            Some(known) => known.attempts += 1,
            None => refusals.push(RefusalCount { cause, code: failure.code, attempts: 1 }),
        }
    }

    /// Attempts turned away so far, by cause and status.
    pub fn refusals(&self) -> &[RefusalCount] {
        &self.core.refusals
    }

    /// An attempt is over that did not deliver all its output: whoever counted it counts it no longer. It is off its replica and out of flight already.
    pub(super) fn take_back(&mut self, index: u32, attempt: &Attempt) {
        let core = &mut self.core;
        let Some(flight) = core.flights.requests.get(attempt.request) else { return };
        core.in_flight[index as usize] -= 1;
        let router = attempt.routed.router;
        let counts = &mut core.routers[router as usize];
        let prompt = flight.request.prompt.len;
        if attempt.routed.counts == counts.resets {
            let signals = &mut counts.signals[index as usize];
            if attempt.first_token.is_none() {
                signals.first_token(prompt, attempt.routed.expected_hit);
            }
            signals.end(prompt, budget(&flight.request) - u64::from(attempt.produced));
        }
        let known = attempt.routed.life == counts.restarts;
        if known {
            let policy = &mut self.policies.each[router as usize];
            policy.ended(core.now, &view(&flight.request, attempt.number), index);
        }
        Fleet::tell_gateway(&mut core.gateway, core.now, &flight.request, attempt, false);
        if known {
            self.heed(router);
        }
    }

    /// A replica dropped an attempt that had waited there too long.
    pub(super) fn expired_at(&mut self, index: u32, id: SequenceId) {
        let Some(attempt) = self.core.flights.end(id) else { return };
        self.take_back(index, &attempt);
        self.failed(attempt.request, Some(&attempt), Failure::refused(ENGINE_FULL, Refusal::EngineExpired));
        self.leave_if_done(index);
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
