//! The way of a request: client, gateway, router, replica.

use super::admission::engine_refusal;
use super::decisions::DecisionRecord;
use super::flights::{Routed, Where};
use super::routers::router_of;
use super::{Core, Fleet};
use crate::clients::Failure;
use crate::record::Refusal;
use crate::routing::{Choice, RequestView, RouteContext, Signals};
use crate::telemetry::{LocalSignals, Reads};
use servelab_engine::Nanos;
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
        if let Some(asked) = core.flights.asked(attempt.request) {
            offers[attempt.replica as usize].tokens += budget(asked) - u64::from(attempt.produced);
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
        let Some(index) = self.core.flights.of(place).map(|flight| flight.index) else { return };
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
        let Some(asked) = core.flights.asked(request) else { return };
        let target = &mut core.replicas[replica as usize];
        let refused = if target.ailments.split > 0 {
            core.fates.vanished += 1;
            None
        } else if errs {
            Some(Failure::refused(REPLICA_ERROR, Refusal::ReplicaError))
        } else if target.model.get().is_full() {
            Some(Failure::refused(REPLICA_FULL, Refusal::ReplicaQueue))
        } else if let Err(refusal) = target.model.get_mut().submit(core.now, asked.sequence(id)) {
            Some(engine_refusal(refusal))
        } else {
            core.fates.accepted += 1;
            None
        };
        if let Some(failure) = refused {
            target.model.get_mut().turn_away(core.now, core.config.reject_cost);
            if let Some(attempt) = core.flights.attempts.get(place) {
                Fleet::tell_gateway(&mut core.gateway, core.now, asked, attempt, false);
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
        let Some(asked) = core.flights.asked(request) else { return };
        counts.signals[replica as usize].send(asked.prompt.len, budget(asked), expected_hit);
        policies.each[router as usize].dispatched(core.now, &view(asked, number), replica);
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
        // Not sooner: whoever asks while nobody is there is not read.
        let asks = self.core.flights.attempts.get(place)?.request;
        self.core.recall(asks);
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
        let asked = core.flights.asked(asks)?;
        let request = view(asked, core.flights.attempts.get(place)?.number);
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
        let offers = if *explain == Some(request.index) { offers(core, &scratch.candidates, asked) } else { vec![] };
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
}
