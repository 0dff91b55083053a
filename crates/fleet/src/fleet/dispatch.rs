//! The way of a request: client, gateway, router, replica, and back.

use super::admission::engine_refusal;
use super::decisions::DecisionRecord;
use super::flights::{Attempt, InFlight, Routed, Where};
use super::routers::router_of;
use super::timers::Timer;
use super::{Core, Fleet};
use crate::clients::Failure;
use crate::record::{Outcome, Refusal, RequestRecord};
use crate::routing::{Choice, RequestView, RouteContext, Signals};
use crate::telemetry::{LocalSignals, Reads};
use servelab_engine::{EngineEvent, Nanos, SequenceId};
use servelab_spec::protocol::Offer;
use servelab_workload::Request;
use std::borrow::Cow;

/// No replica may be routed to.
const NO_REPLICA: u16 = 503;
/// A replica's queue is full.
const REPLICA_FULL: u16 = 503;
/// A replica answers with an error.
const REPLICA_ERROR: u16 = 500;
/// Load is dropped at the door.
const SHED: u16 = 503;

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
        let ready = (0u32..).zip(&core.replicas).filter(|(_, replica)| replica.may_be_routed_to());
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
pub(super) fn view(request: &Request, attempt: u32) -> RequestView<'_> {
    RequestView {
        index: request.index,
        tenant: request.tenant,
        session: request.session,
        adapter: request.adapter,
        prompt: &request.prompt,
        user_at: request.user_at,
        user_tokens: request.user_tokens,
        max_tokens: request.max_tokens,
        attempt,
    }
}

/// What an attempt adds to its replica's outstanding tokens when it is sent.
pub(super) fn budget(request: &Request) -> u64 {
    u64::from(request.prompt.len) + u64::from(request.max_tokens)
}

/// What each replica has to offer `request`.
fn offers(core: &Core, candidates: &[u32], request: &Request) -> Vec<Offer> {
    let mut offers: Vec<Offer> = (0u32..)
        .zip(&core.replicas)
        .map(|(index, replica)| Offer {
            candidate: candidates.binary_search(&index).is_ok(),
            cached_tokens: replica.model.get().cached_tokens(&request.prompt),
            requests: core.in_flight[index as usize],
            tokens: 0,
        })
        .collect();
    for (_, attempt) in core.flights.attempts.iter().filter(|(_, attempt)| attempt.was_sent()) {
        if let Some(flight) = core.flights.requests.get(attempt.request) {
            offers[attempt.replica as usize].tokens += budget(&flight.request) - u64::from(attempt.produced);
        }
    }
    for (offer, replica) in offers.iter_mut().zip(&core.replicas) {
        offer.tokens -= replica.model.get().produced(core.now).0;
    }
    offers
}

impl Fleet {
    /// The attempt at `place` reaches the gateway, or a managed API in its place.
    pub(super) fn offer(&mut self, place: u32) {
        if self.overflows(place) {
            return;
        }
        if self.sheds(place) {
            return self.refuse(place, Failure::refused(SHED, Refusal::LoadDropped));
        }
        self.ask_gateway(place);
    }

    /// Routes the attempt at `place` and hands it to the replica chosen.
    pub(super) fn dispatch(&mut self, place: u32) {
        let Some(attempt) = self.core.flights.attempts.get(place) else { return };
        let (request, number) = (attempt.request, attempt.number);
        let Some(index) = self.core.flights.of(place).map(|flight| flight.request.index) else { return };
        let router = router_of(&self.routing, index, number, self.core.config.telemetry.routers);
        let Some(choice) = self.choose(place, router) else {
            self.not_sent(place);
            return self.refuse(place, Failure::refused(NO_REPLICA, Refusal::NoReplica));
        };
        let errs = self.replica_errs(index, number);
        let Fleet { core, policies, .. } = self;
        Fleet::left_gateway(core, place);
        let counts = &mut core.routers[router as usize];
        let (replica, expected_hit) = (choice.replica, choice.expected_hit);
        let routed = Routed { router, counts: counts.resets, life: counts.restarts, expected_hit };
        let id = core.flights.send(core.now, place, replica, routed);
        let Some(flight) = core.flights.requests.get(request) else { return };
        let target = &mut core.replicas[replica as usize];
        let refused = if target.ailments.split > 0 {
            core.fates.vanished += 1;
            None
        } else if errs {
            Some(Failure::refused(REPLICA_ERROR, Refusal::ReplicaError))
        } else if target.model.get().is_full() {
            Some(Failure::refused(REPLICA_FULL, Refusal::ReplicaQueue))
        } else if let Err(refusal) = target.model.get_mut().submit(core.now, flight.request.sequence(id)) {
            Some(engine_refusal(refusal))
        } else {
            core.fates.accepted += 1;
            None
        };
        if let Some(failure) = refused {
            target.model.get_mut().turn_away(core.now, core.config.reject_cost);
            if let Some(attempt) = core.flights.attempts.get(place) {
                Fleet::tell_gateway(&mut core.gateway, core.now, &flight.request, attempt, false);
            }
            self.stirred.push(replica);
            self.refresh(replica);
            return self.refuse(place, failure);
        }
        if target.ailments.split > 0
            && let Some(attempt) = core.flights.attempts.get_mut(place)
        {
            attempt.at = Where::Nowhere;
        }
        target.assignments += 1;
        core.in_flight[replica as usize] += 1;
        let Some(flight) = core.flights.requests.get(request) else { return };
        counts.signals[replica as usize].send(flight.request.prompt.len, budget(&flight.request), expected_hit);
        policies.each[router as usize].dispatched(core.now, &view(&flight.request, number), replica);
        self.ask_store(replica, id);
        self.stirred.push(replica);
        self.refresh(replica);
        if self.reads.has(Reads::POLLED) || self.core.gateway.reads_metrics() {
            self.wake_scrapes();
        }
    }

    /// Lets a router choose a replica for the attempt at `place`; `None` when there is none to choose.
    fn choose(&mut self, place: u32, router: u32) -> Option<Choice> {
        let limit = self.core.gateway.in_flight_limit();
        // Without a limit everybody ready may be chosen, and the list stands as it is.
        if limit != u32::MAX || self.scratch.candidates.len() != self.scratch.ready.len() {
            let (ready, in_flight) = (&self.scratch.ready, &self.core.in_flight);
            self.scratch.candidates.clear();
            self.scratch.candidates.extend(ready.iter().filter(|&&index| in_flight[index as usize] < limit));
        }
        if self.scratch.candidates.is_empty() {
            return None;
        }
        if self.reads.has(Reads::POLLED) {
            if self.core.config.telemetry.scrape == Nanos::ZERO && self.core.stale == 0 {
                self.read_metrics();
            }
            self.date_metrics();
        }
        if self.reads.has(Reads::LOCAL) {
            self.gather_local(router);
        }
        let Fleet { core, policies, reads, scratch, draws, explain, .. } = self;
        if let Some(index) = &mut core.index {
            index.receive(core.now);
        }
        let flight = core.flights.of(place)?;
        let request = view(&flight.request, core.flights.attempts.get(place)?.number);
        let signals = Signals {
            local: if reads.has(Reads::LOCAL) { &scratch.local } else { &[] },
            polled: if reads.has(Reads::POLLED) { &core.polled } else { &[] },
            index: core.index.as_ref(),
        };
        let ctx = RouteContext::new(core.now, request, &scratch.candidates, core.config.block_tokens(), signals);
        scratch.scores.clear();
        let mut draw = draws.split(core.flights.serial());
        let choice = policies.each[router as usize].route(&ctx, &mut scratch.scores, &mut draw);
        let Choice { replica, why, .. } = choice;
        assert!(
            scratch.candidates.binary_search(&replica).is_ok(),
            "{}: {replica} is no candidate",
            policies.spec().name
        );
        // At least one token is always computed.
        let expected_hit = choice.expected_hit.min(request.prompt.len.saturating_sub(1));
        let offers =
            if *explain == Some(request.index) { offers(core, &scratch.candidates, &flight.request) } else { vec![] };
        let decision = DecisionRecord {
            at: core.now,
            request: request.index,
            tenant: request.tenant,
            prompt_tokens: request.prompt.len,
            router,
            replica,
            expected_hit,
            scores: Vec::new(),
            offers,
            why: Cow::Borrowed(why),
        };
        core.decisions.push(decision, &scratch.candidates, &scratch.scores, core.replicas.len() as u32);
        self.heed(router);
        Some(Choice { expected_hit, ..choice })
    }

    /// The router's own counts of each candidate, as they are at this instant.
    fn gather_local(&mut self, router: u32) {
        // With one router, whatever a run of equal steps has produced is its own; with several the run is split to see whose it is.
        let alone = self.core.routers.len() == 1 && self.core.routers[0].resets == 0;
        if !alone {
            for at in 0..self.scratch.candidates.len() {
                let index = self.scratch.candidates[at];
                if self.running_ahead[index as usize] {
                    self.split_run(index);
                }
            }
        }
        let Fleet { core, scratch, running_ahead, ahead, .. } = self;
        scratch.local.clear();
        scratch.local.extend(scratch.candidates.iter().map(|&index| {
            let signals = core.routers[router as usize].signals[index as usize];
            if !alone || !running_ahead[index as usize] {
                return signals;
            }
            let known = &mut ahead[index as usize];
            if known.1 <= core.now {
                *known = core.replicas[index as usize].model.get().produced(core.now);
            }
            LocalSignals { tokens: signals.tokens - known.0, ..signals }
        }));
    }

    /// A replica's step is over.
    pub(super) fn step_end(&mut self, index: u32) {
        let model = self.core.replicas[index as usize].model.get_mut();
        let step = model.step();
        model.advance(self.core.now, &mut self.events);
        self.write_through(index);
        self.take_events(index, step);
        self.stirred.push(index);
        self.refresh(index);
        self.core.freed = true;
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
            EngineEvent::Admitted { id, at, cached_tokens, fetched_tokens, first, .. } => {
                if let Some(attempt) = core.flights.by_id_mut(id).filter(|_| first) {
                    attempt.admitted = Some(at);
                    attempt.cached_tokens = cached_tokens;
                    attempt.fetched_tokens = fetched_tokens;
                    let request = attempt.request;
                    if let Some(fault) = self.poisonous(request) {
                        self.core.crashing.push((index, id));
                        self.core.timers.insert(self.core.now, Timer::Poison { replica: index, fault });
                    }
                }
            }
            EngineEvent::FirstToken { id } => {
                if let Some(attempt) = core.flights.by_id_mut(id) {
                    attempt.first_token = Some(core.now);
                    attempt.first_token_step = step;
                    let (routed, number, place) = (attempt.routed, attempt.number, attempt.request);
                    let Some(flight) = core.flights.requests.get(place) else { return };
                    let counts = &mut core.routers[routed.router as usize];
                    if routed.counts == counts.resets {
                        counts.signals[index as usize].first_token(flight.request.prompt.len, routed.expected_hit);
                    }
                    if routed.life == counts.restarts {
                        let policy = &mut self.policies.each[routed.router as usize];
                        policy.first_token(core.now, &view(&flight.request, number), index);
                    }
                    let ttft = core.now.since(flight.request.arrival);
                    self.count_ttft(index, ttft);
                }
            }
            EngineEvent::Tokens { id, count } => {
                if let Some(attempt) = core.flights.by_id_mut(id) {
                    attempt.produced += count;
                    let counts = &mut core.routers[attempt.routed.router as usize];
                    if attempt.routed.counts == counts.resets {
                        counts.signals[index as usize].tokens -= u64::from(count);
                    }
                }
            }
            EngineEvent::Finished { id, .. } => self.finished(index, step, id),
            EngineEvent::Expired { id } => self.expired_at(index, id),
            EngineEvent::Preempted { .. } | EngineEvent::Evicted { .. } => {}
        }
    }

    /// An attempt delivered all its output, and with it its request has ended, if its client still waited.
    fn finished(&mut self, index: u32, step: u64, id: SequenceId) {
        let Some(place) = self.core.flights.place(id) else { return };
        let Some(attempt) = self.core.flights.attempts.get(place) else { return };
        let (request, waited) = (attempt.request, attempt.waited);
        let spent = self.spent(attempt, true);
        let poisonous = self.core.crashing.contains(&(index, id));
        let core = &mut self.core;
        let split = core.replicas[index as usize].ailments.split > 0;
        let bin = core.flow.at(core.now);
        if poisonous || split {
            // No answer comes of it: its replica is about to crash, or the answer does not get through.
            if let Some(attempt) = core.flights.attempts.get_mut(place) {
                attempt.at = Where::Nowhere;
            }
            *(if poisonous { &mut core.work.lost } else { &mut core.work.abandoned }) += spent;
            bin.wasted += spent;
            return;
        }
        *(if waited { &mut bin.useful } else { &mut bin.wasted }) += spent;
        *(if waited { &mut core.work.useful } else { &mut core.work.abandoned }) += spent;
        let Some(attempt) = core.flights.end(place) else { return };
        let Some(flight) = core.flights.requests.get(request) else { return };
        core.in_flight[index as usize] -= 1;
        let counts = &mut core.routers[attempt.routed.router as usize];
        let known = attempt.routed.life == counts.restarts;
        if attempt.routed.counts == counts.resets {
            let left = budget(&flight.request) - u64::from(attempt.produced);
            counts.signals[index as usize].end(flight.request.prompt.len, left);
        }
        if known {
            let policy = &mut self.policies.each[attempt.routed.router as usize];
            policy.ended(core.now, &view(&flight.request, attempt.number), index);
        }
        Fleet::tell_gateway(&mut core.gateway, core.now, &flight.request, &attempt, true);
        if waited {
            let record = RequestRecord {
                last_step: step,
                output: core.replicas[index as usize].model.get().output(id).to_vec(),
                ..record(flight, Some(&attempt), core.now, Outcome::Finished)
            };
            debug_assert!(
                record.admitted.is_some_and(|at| record.arrival <= at)
                    && record.admitted <= record.first_token
                    && record.first_token.is_some_and(|at| at <= record.end)
                    && record.output_tokens >= 1
                    && record.output_tokens <= flight.request.max_tokens
                    && record.cached_tokens + record.fetched_tokens < record.prompt_tokens,
                "F2 life cycle: {record:?}"
            );
            core.fates.succeeded += 1;
            core.clients.ended(flight.whose);
            core.clients.succeeded(core.now, flight.whose);
            self.stop_all(request, true);
            self.end(request, record);
        } else {
            core.flights.close(request);
        }
        if known {
            self.heed(attempt.routed.router);
        }
        self.leave_if_done(index);
    }

    /// Records everything in flight at the horizon as pending, in order of request. It stays where it is, so that the last picture shows it.
    pub(super) fn pend(&mut self) {
        let Core { flights, replicas, now, counts, ended, .. } = &mut self.core;
        // The latest attempt of a request that was sent speaks for it.
        let open = flights.requests.iter().filter(|(_, flight)| !flight.settled);
        let mut records: Vec<RequestRecord> = open
            .map(|(place, flight)| {
                let attempts = flights.attempts_of(place).filter_map(|at| flights.attempts.get(at));
                let attempt = attempts.filter(|attempt| attempt.was_sent()).max_by_key(|attempt| attempt.id);
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
pub(super) fn record(flight: &InFlight, attempt: Option<&Attempt>, end: Nanos, outcome: Outcome) -> RequestRecord {
    let request = &flight.request;
    RequestRecord {
        index: request.index,
        tenant: request.tenant,
        replica: attempt.filter(|attempt| attempt.was_sent()).map(|attempt| attempt.replica),
        arrival: request.arrival,
        admitted: attempt.and_then(|attempt| attempt.admitted),
        first_token: attempt.and_then(|attempt| attempt.first_token),
        end,
        prompt_tokens: request.prompt.len,
        cached_tokens: attempt.map_or(0, |attempt| attempt.cached_tokens),
        fetched_tokens: attempt.map_or(0, |attempt| attempt.fetched_tokens),
        output_tokens: attempt.map_or(0, |attempt| attempt.produced),
        outcome,
        attempts: flight.attempts,
        outside: false,
        held: flight.held,
        first_token_step: attempt.map_or(0, |attempt| attempt.first_token_step),
        last_step: 0,
        output: Vec::new(),
    }
}
