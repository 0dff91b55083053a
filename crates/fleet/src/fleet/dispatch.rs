//! The way of a request: client, gateway, router, replica, and back.

use super::decisions::DecisionRecord;
use super::flights::{Attempt, InFlight};
use super::timers::Timer;
use super::{Core, Fleet};
use crate::clients::{After, Failure};
use crate::gateway::{Gateway, Verdict};
use crate::record::{Outcome, RequestRecord};
use crate::routing::{RequestView, RouteContext};
use crate::telemetry::LocalSignals;
use servelab_engine::{EngineEvent, Nanos, SequenceId};
use servelab_workload::Request;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Refused by a replica: it can never fit there.
const NEVER_FITS: u16 = 400;
/// No replica may be routed to.
const NO_REPLICA: u16 = 503;

/// Buffers of a decision, reused from one to the next.
pub(super) struct Scratch {
    /// Replicas that may be routed to, ascending.
    ready: Vec<u32>,
    /// Of those, the ones below the gateway's limit.
    candidates: Vec<u32>,
    local: Vec<LocalSignals>,
    scores: Vec<f64>,
}

impl Scratch {
    pub(super) fn new(core: &Core) -> Self {
        let ready = (0u32..).zip(&core.replicas).filter(|(_, replica)| replica.life.may_be_routed_to());
        Scratch {
            ready: ready.map(|(index, _)| index).collect(),
            candidates: Vec::new(),
            local: Vec::new(),
            scores: Vec::new(),
        }
    }

    pub(super) fn ready(&self) -> &[u32] {
        &self.ready
    }
}

/// The request as policies see it.
fn view(request: &Request, attempt: u32) -> RequestView<'_> {
    RequestView {
        index: request.index,
        tenant: request.tenant,
        session: request.session,
        adapter: request.adapter,
        prompt: &request.prompt,
        max_tokens: request.max_tokens,
        attempt,
    }
}

/// What an attempt adds to its replica's outstanding tokens when it is sent.
fn budget(request: &Request) -> u64 {
    u64::from(request.prompt.len) + u64::from(request.max_tokens)
}

impl Fleet {
    /// A request arrives.
    pub(super) fn arrive(&mut self, request: Request) {
        self.core.counts.arrived += 1;
        let place = self.core.flights.requests.insert(InFlight { request, attempts: 0 });
        self.attempt(place);
    }

    /// The client of the request at `place` tries it, for the first time or again.
    pub(super) fn attempt(&mut self, place: u32) {
        let Some(flight) = self.core.flights.requests.get_mut(place) else { return };
        flight.attempts += 1;
        self.core.counts.attempts += 1;
        self.core.counts.retries += u64::from(flight.attempts > 1);
        let room = self.has_room();
        match self.core.gateway.decide(place, room) {
            Verdict::Accept => self.dispatch(place),
            Verdict::Queue => {}
            Verdict::Reject { code, retry_after } => self.failed(place, None, Failure { code, retry_after }),
        }
    }

    /// Some replica may take one more.
    fn has_room(&self) -> bool {
        let limit = self.core.gateway.in_flight_limit();
        limit == u32::MAX || self.scratch.ready.iter().any(|&index| self.core.signals[index as usize].requests < limit)
    }

    /// Routes the request at `place` and hands it to the replica chosen.
    fn dispatch(&mut self, place: u32) {
        let Fleet { core, policy, scratch, draws, running_ahead, .. } = self;
        let Some(flight) = core.flights.requests.get(place) else { return };
        let limit = core.gateway.in_flight_limit();
        scratch.candidates.clear();
        scratch
            .candidates
            .extend(scratch.ready.iter().filter(|&&index| core.signals[index as usize].requests < limit).copied());
        if scratch.candidates.is_empty() {
            return self.failed(place, None, Failure { code: NO_REPLICA, retry_after: None });
        }
        scratch.local.clear();
        if policy.reads().is_some() {
            scratch.local.extend(scratch.candidates.iter().map(|&index| {
                let signals = core.signals[index as usize];
                if !running_ahead[index as usize] {
                    return signals;
                }
                let produced = core.replicas[index as usize].model.get().produced(core.now);
                LocalSignals { tokens: signals.tokens - produced, ..signals }
            }));
        }
        scratch.scores.clear();
        let attempt = flight.attempts;
        let request = view(&flight.request, attempt);
        let ctx = RouteContext::new(core.now, request, &scratch.candidates, core.config.block_tokens(), &scratch.local);
        let mut draw = draws.split(core.flights.serial());
        let choice = policy.route(&ctx, &mut scratch.scores, &mut draw);
        let replica = choice.replica;
        assert!(scratch.candidates.contains(&replica), "{} chose replica {replica}, no candidate", policy.name());
        let decision = DecisionRecord {
            at: core.now,
            request: request.index,
            tenant: request.tenant,
            prompt_tokens: request.prompt.len,
            replica,
            scores: Vec::new(),
            why: Cow::Borrowed(choice.why),
        };
        core.decisions.push(decision, &scratch.candidates, &scratch.scores, core.config.replicas);
        let id = core.flights.attempt(place, replica, attempt);
        let Some(flight) = core.flights.requests.get(place) else { return };
        let target = &mut core.replicas[replica as usize];
        if target.model.get_mut().submit(core.now, flight.request.sequence(id)).is_err() {
            core.flights.end(id);
            return self.failed(place, Some(replica), Failure { code: NEVER_FITS, retry_after: None });
        }
        target.assignments += 1;
        let signals = &mut core.signals[replica as usize];
        signals.requests += 1;
        signals.tokens += budget(&flight.request);
        policy.dispatched(&view(&flight.request, attempt), replica);
        self.stirred.push(replica);
        self.refresh(replica);
    }

    /// A try of the request at `place` failed: its client tries again or gives up.
    fn failed(&mut self, place: u32, replica: Option<u32>, failure: Failure) {
        let Some(flight) = self.core.flights.requests.get(place) else { return };
        match self.core.config.clients.after(self.core.now, flight.attempts, failure) {
            After::RetryAt(at) => self.core.timers.insert(at, Timer::Retry(place)),
            After::GiveUp => {
                let Some(flight) = self.core.flights.requests.remove(place) else { return };
                self.core.counts.rejected += 1;
                let outcome = Outcome::Rejected { code: failure.code };
                let record = RequestRecord { replica, ..record(&flight, None, self.core.now, outcome) };
                self.core.ended.push(record);
            }
        }
    }

    /// A replica's step is over.
    pub(super) fn step_end(&mut self, index: u32) {
        let model = self.core.replicas[index as usize].model.get_mut();
        let step = model.step();
        model.advance(self.core.now, &mut self.events);
        self.take_events(index, step);
        self.stirred.push(index);
        self.refresh(index);
        self.release();
    }

    /// Takes in what a replica told; `step` is the step that ended.
    pub(super) fn take_events(&mut self, index: u32, step: u64) {
        let events = std::mem::take(&mut self.events);
        for &event in &events {
            self.take_event(index, step, event);
        }
        self.events = events;
        self.events.clear();
    }

    fn take_event(&mut self, index: u32, step: u64, event: EngineEvent) {
        let core = &mut self.core;
        match event {
            EngineEvent::Admitted { id, at, cached_tokens, first, .. } => {
                if let Some(attempt) = core.flights.by_id_mut(id).filter(|_| first) {
                    attempt.admitted = Some(at);
                    attempt.cached_tokens = cached_tokens;
                }
            }
            EngineEvent::FirstToken { id } => {
                if let Some(attempt) = core.flights.by_id_mut(id) {
                    attempt.first_token = Some(core.now);
                    attempt.first_token_step = step;
                }
            }
            EngineEvent::Tokens { id, count } => {
                if let Some(attempt) = core.flights.by_id_mut(id) {
                    attempt.produced += count;
                    core.signals[index as usize].tokens -= u64::from(count);
                }
            }
            EngineEvent::Finished { id, .. } => self.finished(index, step, id),
            EngineEvent::Preempted { .. } | EngineEvent::Evicted { .. } => {}
        }
    }

    /// An attempt delivered all its output, and with it its request has ended.
    fn finished(&mut self, index: u32, step: u64, id: SequenceId) {
        let core = &mut self.core;
        let Some(attempt) = core.flights.end(id) else { return };
        let Some(flight) = core.flights.requests.remove(attempt.request) else { return };
        let signals = &mut core.signals[index as usize];
        signals.requests -= 1;
        signals.tokens -= budget(&flight.request) - u64::from(attempt.produced);
        core.counts.finished += 1;
        let record = RequestRecord {
            last_step: step,
            output: core.replicas[index as usize].model.get().output(id).to_vec(),
            ..record(&flight, Some(&attempt), core.now, Outcome::Finished)
        };
        debug_assert!(
            record.admitted.is_some_and(|at| record.arrival <= at)
                && record.admitted <= record.first_token
                && record.first_token.is_some_and(|at| at <= record.end)
                && record.output_tokens >= 1
                && record.output_tokens <= flight.request.max_tokens
                && record.cached_tokens < record.prompt_tokens,
            "F2 life cycle: {record:?}"
        );
        core.ended.push(record);
        self.policy.ended(&view(&flight.request, attempt.number), index);
    }

    /// Lets through what the gateway holds, as far as there is room.
    fn release(&mut self) {
        while self.core.gateway.held() > 0 && self.has_room() {
            match self.core.gateway.release() {
                Some(place) => self.dispatch(place),
                None => return,
            }
        }
    }

    /// Records everything in flight at the horizon as pending, in order of request. It stays where it is, so that the last picture shows it.
    pub(super) fn pend(&mut self) {
        let Core { flights, replicas, now, counts, ended, .. } = &mut self.core;
        // The latest attempt of a request speaks for it.
        let mut latest: BTreeMap<u32, &Attempt> = BTreeMap::new();
        for (_, attempt) in flights.attempts.iter() {
            let known = latest.entry(attempt.request).or_insert(attempt);
            if attempt.id > known.id {
                *known = attempt;
            }
        }
        let mut records: Vec<RequestRecord> = (flights.requests.iter())
            .map(|(place, flight)| {
                let attempt = latest.get(&place).copied();
                let output = attempt.map_or(Vec::new(), |attempt| {
                    replicas[attempt.replica as usize].model.get().output(attempt.id).to_vec()
                });
                RequestRecord { output, ..record(flight, attempt, *now, Outcome::Pending) }
            })
            .collect();
        records.sort_by_key(|record| record.index);
        counts.pending = records.len() as u64;
        ended.append(&mut records);
    }
}

/// The record of a request whose attempt was `attempt`.
fn record(flight: &InFlight, attempt: Option<&Attempt>, end: Nanos, outcome: Outcome) -> RequestRecord {
    let request = &flight.request;
    RequestRecord {
        index: request.index,
        tenant: request.tenant,
        replica: attempt.map(|attempt| attempt.replica),
        arrival: request.arrival,
        admitted: attempt.and_then(|attempt| attempt.admitted),
        first_token: attempt.and_then(|attempt| attempt.first_token),
        end,
        prompt_tokens: request.prompt.len,
        cached_tokens: attempt.map_or(0, |attempt| attempt.cached_tokens),
        output_tokens: attempt.map_or(0, |attempt| attempt.produced),
        outcome,
        attempts: flight.attempts,
        first_token_step: attempt.map_or(0, |attempt| attempt.first_token_step),
        last_step: 0,
        output: Vec::new(),
    }
}
