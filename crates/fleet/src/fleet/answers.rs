//! What replicas tell, and the records of requests that have ended.

use super::dispatch::{budget, view};
use super::flights::{Attempt, InFlight, Where};
use super::tape::{self, Ending};
use super::timers::Timer;
use super::{Core, Fleet};
use crate::record::{Outcome, RequestRecord};
use servelab_engine::{EngineEvent, Nanos, SequenceId};
use servelab_workload::{Request, Workload};

impl Fleet {
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
                    if let Some(flight) = core.flights.requests.get_mut(request).filter(|flight| !flight.admitted)
                        && let Some(prompt) = flight.request.as_deref().map(|asked| asked.prompt.len)
                    {
                        flight.admitted = true;
                        core.first_sight.prompt_tokens += u64::from(prompt);
                        core.first_sight.hit_tokens += u64::from(cached_tokens);
                    }
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
                    let Some(asked) = core.flights.asked(place) else { return };
                    let counts = &mut core.routers[routed.router as usize];
                    if routed.counts == counts.resets {
                        counts.signals[index as usize].first_token(asked.prompt.len, routed.expected_hit);
                    }
                    if routed.life == counts.restarts {
                        let policy = &mut self.policies.each[routed.router as usize];
                        policy.first_token(core.now, &view(asked, number), index);
                    }
                    let ttft = core.now.since(asked.arrival);
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
        tape::note_attempt(&mut self.tape, core, place, Ending::Finished);
        let Some(attempt) = core.flights.end(place) else { return };
        let Some(flight) = core.flights.requests.get(request) else { return };
        let Some(asked) = flight.request.as_deref() else { return };
        core.in_flight[index as usize] -= 1;
        let counts = &mut core.routers[attempt.routed.router as usize];
        let known = attempt.routed.life == counts.restarts;
        if attempt.routed.counts == counts.resets {
            let left = budget(asked) - u64::from(attempt.produced);
            counts.signals[index as usize].end(asked.prompt.len, left);
        }
        if known {
            let policy = &mut self.policies.each[attempt.routed.router as usize];
            policy.ended(core.now, &view(asked, attempt.number), index);
        }
        Fleet::tell_gateway(&mut core.gateway, core.now, asked, &attempt, true);
        if waited {
            let Some(record) = record(flight, Some(&attempt), core.now, Outcome::Finished) else { return };
            let output = core.replicas[index as usize].model.get().output(id).to_vec();
            let record = RequestRecord { last_step: step, output, ..record };
            debug_assert!(
                record.admitted.is_some_and(|at| record.arrival <= at)
                    && record.admitted <= record.first_token
                    && record.first_token.is_some_and(|at| at <= record.end)
                    && record.output_tokens >= 1
                    && record.output_tokens <= asked.max_tokens
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
        let Core { flights, source, replicas, now, counts, ended, .. } = &mut self.core;
        // The latest attempt of a request that was sent speaks for it.
        let open = flights.requests.iter().filter(|(_, flight)| !flight.settled);
        let mut records: Vec<RequestRecord> = open
            .filter_map(|(place, flight)| {
                let attempts = flights.attempts_of(place).filter_map(|at| flights.attempts.get(at));
                let attempt = attempts.filter(|attempt| attempt.was_sent()).max_by_key(|attempt| attempt.id);
                let output = attempt.map_or(Vec::new(), |attempt| {
                    replicas[attempt.replica as usize].model.get().output(attempt.id).to_vec()
                });
                let told = match &flight.request {
                    Some(asked) => record_of(flight, asked, attempt, *now, Outcome::Pending),
                    None => record_of(flight, &source.request_again(flight.index)?, attempt, *now, Outcome::Pending),
                };
                Some(RequestRecord { output, ..told })
            })
            .collect();
        records.sort_by_key(|record| record.index);
        counts.pending = records.len() as u64;
        ended.append(&mut records);
    }
}

/// The record of a request whose attempt was `attempt`; what it asks for must be there.
pub(super) fn record(
    flight: &InFlight,
    attempt: Option<&Attempt>,
    end: Nanos,
    outcome: Outcome,
) -> Option<RequestRecord> {
    Some(record_of(flight, flight.request.as_deref()?, attempt, end, outcome))
}

fn record_of(
    flight: &InFlight,
    request: &Request,
    attempt: Option<&Attempt>,
    end: Nanos,
    outcome: Outcome,
) -> RequestRecord {
    RequestRecord {
        index: flight.index,
        tenant: request.tenant,
        replica: attempt.filter(|attempt| attempt.was_sent()).map(|attempt| attempt.replica),
        arrival: flight.arrival,
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
