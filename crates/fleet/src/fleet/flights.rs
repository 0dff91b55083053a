//! Requests and attempts in flight.
//!
//! A request is here from its arrival until it has ended and the last of its attempts as well: what nobody waits for any more may still cost
//! a replica its time. While its client only waits to try again, what it asks for is not kept: the workload says it once more when somebody has to read
//! it. A storm of a million clients is mostly that. An attempt is here from when it is sent until it has ended at the server. Whoever holds an attempt knows it by its
//! place; a sequence's name in its engine carries that place, so that an event finds its attempt without a search, and a serial number, so that
//! no name comes twice.

use super::Core;
use super::slab::Slab;
use super::timers::TimerKey;
use crate::clients::crowd::Whose;
use serde::{Deserialize, Serialize};
use servelab_engine::{Nanos, SequenceId};
use servelab_workload::{Request, Workload};

/// Bits of a name that hold the place: 16 million attempts may be in flight at once, 10¹² be made in all.
const PLACE_BITS: u32 = 24;

/// No place.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// A request between arrival and end.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InFlight {
    /// What it asks for ([`Core::recall`]).
    pub(crate) request: Option<Box<Request>>,
    /// Its place in the workload.
    pub(crate) index: u32,
    /// Tries so far.
    pub(crate) attempts: u32,
    /// Of those, hedges.
    pub(crate) hedges: u32,
    /// Who sent it.
    pub(crate) whose: Whose,
    /// The user of a closed loop who sent it, else [`NOWHERE`].
    pub(crate) user: u32,
    /// Place of its newest attempt, from which the others hang; [`NOWHERE`] without one.
    pub(crate) newest: u32,
    /// Attempts that its client waits for.
    pub(crate) waited: u32,
    /// Its end has been told; attempts that nobody waits for are left.
    pub(crate) settled: bool,
    /// It is counted among its process's retries.
    pub(crate) retrying: bool,
    /// A replica has admitted an attempt of it.
    #[serde(default)]
    pub(crate) admitted: bool,
    /// Failures since the backoff last began.
    pub(crate) failures: u32,
    /// When its client first sent it.
    pub(crate) arrival: Nanos,
    /// The latest wait before a retry; [`Nanos::MAX`]: none since the backoff last began.
    pub(crate) waited_for: Nanos,
    /// When it is tried again; [`Nanos::MAX`]: nobody wants to.
    pub(crate) retry_at: Nanos,
    /// When it is hedged; [`Nanos::MAX`]: never.
    pub(crate) hedge_at: Nanos,
    /// When its client gives it up; [`Nanos::MAX`]: never.
    pub(crate) deadline: Nanos,
    /// The timer of its client.
    pub(crate) timer: Option<TimerKey>,
    /// How long attempts of it were held at the gateway, those that are still held left out.
    #[serde(default)]
    pub(crate) held: Nanos,
}

impl InFlight {
    pub(crate) fn new(request: Request, whose: Whose, user: u32, deadline: Nanos) -> Self {
        InFlight {
            index: request.index,
            arrival: request.arrival,
            request: Some(Box::new(request)),
            attempts: 0,
            hedges: 0,
            whose,
            user,
            newest: NOWHERE,
            waited: 0,
            settled: false,
            retrying: false,
            admitted: false,
            failures: 0,
            waited_for: Nanos::MAX,
            retry_at: Nanos::MAX,
            hedge_at: Nanos::MAX,
            deadline,
            timer: None,
            held: Nanos::ZERO,
        }
    }
}

/// Where an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Where {
    /// On its way to the router; the gateway may hold it.
    Gateway,
    /// At the replica it was sent to.
    Replica,
    /// With a managed API.
    Outside,
    /// Neither it nor its answer gets through, while its router believes it at the replica.
    Nowhere,
}

/// A try of a request. In memory its fields stand in this order: what each step tells of is in the first 64 bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[repr(C, align(64))]
pub(crate) struct Attempt {
    /// Its name at the replica; none before it is sent there.
    pub(crate) id: SequenceId,
    pub(crate) admitted: Option<Nanos>,
    /// What its router knew.
    pub(crate) routed: Routed,
    /// Tokens that events told of.
    pub(crate) produced: u32,
    /// Place of its request.
    pub(crate) request: u32,
    /// Where it was sent; [`NOWHERE`] before that.
    pub(crate) replica: u32,
    /// Which try it is, from 1.
    pub(crate) number: u32,
    /// The attempt of the same request before it, of those that are here.
    older: u32,
    pub(crate) at: Where,
    /// Its client waits for it.
    pub(crate) waited: bool,
    /// Until when.
    pub(crate) timeout: Nanos,
    /// When it came to the gateway.
    #[serde(default)]
    pub(crate) asked: Nanos,
    /// When it was sent to its replica.
    #[serde(default)]
    pub(crate) sent: Nanos,
    pub(crate) cached_tokens: u32,
    #[serde(default)]
    pub(crate) fetched_tokens: u32,
    pub(crate) first_token: Option<Nanos>,
    pub(crate) first_token_step: u64,
}

impl Attempt {
    /// It is counted as in flight on its replica.
    pub(crate) fn was_sent(&self) -> bool {
        matches!(self.at, Where::Replica | Where::Nowhere)
    }
}

/// Who routed an attempt, and what it is counted under there.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Routed {
    pub(crate) router: u32,
    /// The router's counts when it was sent; counts reset since know nothing of it.
    pub(crate) counts: u32,
    /// The router's policy when it was sent; one started since knows nothing of it.
    pub(crate) life: u32,
    /// Prompt tokens the router expected to be cached.
    pub(crate) expected_hit: u32,
}

/// All that is in flight.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Flights {
    pub(crate) requests: Slab<InFlight>,
    pub(crate) attempts: Slab<Attempt>,
    /// Requests that have not ended.
    pub(crate) open: u64,
    /// Attempts ever sent to a replica.
    serial: u64,
}

impl Flights {
    /// A request arrives.
    pub(crate) fn open(&mut self, flight: InFlight) -> u32 {
        self.open += 1;
        self.requests.insert(flight)
    }

    /// A new attempt of the request at `request`, which its client waits for until `timeout`. Answers with its place.
    pub(crate) fn begin(&mut self, request: u32, timeout: Nanos) -> Option<u32> {
        let flight = self.requests.get_mut(request)?;
        let place = self.attempts.insert(Attempt {
            id: SequenceId(u64::MAX),
            request,
            older: flight.newest,
            at: Where::Gateway,
            replica: NOWHERE,
            routed: Routed::default(),
            number: flight.attempts,
            waited: true,
            timeout,
            asked: Nanos::ZERO,
            sent: Nanos::ZERO,
            admitted: None,
            cached_tokens: 0,
            fetched_tokens: 0,
            first_token: None,
            first_token_step: 0,
            produced: 0,
        });
        debug_assert!(place < 1 << PLACE_BITS, "too many attempts in flight");
        flight.newest = place;
        flight.waited += 1;
        Some(place)
    }

    /// The attempt at `place` is sent to `replica`, under the name that this answers with.
    pub(crate) fn send(&mut self, now: Nanos, place: u32, replica: u32, routed: Routed) -> SequenceId {
        let id = SequenceId(self.serial << PLACE_BITS | u64::from(place));
        self.serial += 1;
        if let Some(attempt) = self.attempts.get_mut(place) {
            (attempt.id, attempt.replica, attempt.routed, attempt.at) = (id, replica, routed, Where::Replica);
            attempt.sent = now;
        }
        id
    }

    /// The attempt at `place` goes to a managed API, under the name that this answers with.
    pub(crate) fn send_out(&mut self, place: u32, now: Nanos) -> SequenceId {
        let id = SequenceId(self.serial << PLACE_BITS | u64::from(place));
        self.serial += 1;
        if let Some(attempt) = self.attempts.get_mut(place) {
            (attempt.id, attempt.at, attempt.admitted) = (id, Where::Outside, Some(now));
        }
        id
    }

    /// Attempts sent so far; numbers the next one's draws.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// Where the attempt of that name is, if it is in flight.
    pub(crate) fn place(&self, id: SequenceId) -> Option<u32> {
        let place = (id.0 & ((1 << PLACE_BITS) - 1)) as u32;
        self.attempts.get(place).filter(|attempt| attempt.id == id).map(|_| place)
    }

    /// The attempt of that name, if it is in flight.
    pub(crate) fn by_id(&self, id: SequenceId) -> Option<&Attempt> {
        self.attempts.get(self.place(id)?)
    }

    /// The same, to change.
    pub(crate) fn by_id_mut(&mut self, id: SequenceId) -> Option<&mut Attempt> {
        self.attempts.get_mut(self.place(id)?)
    }

    /// What the request at `request` asks for, if it is kept at present.
    pub(crate) fn asked(&self, request: u32) -> Option<&Request> {
        self.requests.get(request)?.request.as_deref()
    }

    /// The request of the attempt at `place`.
    pub(crate) fn of(&self, place: u32) -> Option<&InFlight> {
        self.requests.get(self.attempts.get(place)?.request)
    }

    /// Places of the attempts of the request at `request`, newest first.
    pub(crate) fn attempts_of(&self, request: u32) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.requests.get(request).map_or(NOWHERE, |flight| flight.newest);
        std::iter::from_fn(move || {
            let place = at;
            at = self.attempts.get(place)?.older;
            Some(place)
        })
    }

    /// How long attempts of the request at `request` have been held at the gateway by `now`.
    pub(crate) fn held_until(&self, request: u32, now: Nanos) -> Nanos {
        let before = self.requests.get(request).map_or(Nanos::ZERO, |flight| flight.held);
        let attempts = self.attempts_of(request).filter_map(|at| self.attempts.get(at));
        let still = attempts.filter(|attempt| attempt.at == Where::Gateway);
        still.fold(before, |sum, attempt| sum + now.since(attempt.asked))
    }

    /// Ends the attempt at `place`. Its request stays.
    pub(crate) fn end(&mut self, place: u32) -> Option<Attempt> {
        let ended = self.attempts.remove(place)?;
        let flight = self.requests.get_mut(ended.request)?;
        flight.waited -= u32::from(ended.waited);
        if flight.newest == place {
            flight.newest = ended.older;
        } else {
            let mut at = flight.newest;
            while let Some(newer) = self.attempts.get_mut(at) {
                if newer.older == place {
                    newer.older = ended.older;
                    break;
                }
                at = newer.older;
            }
        }
        Some(ended)
    }

    /// Removes the request at `place` if it has ended and nothing of it is left; what it asks for, if its client only waits to try again.
    pub(crate) fn close(&mut self, place: u32) {
        let Some(flight) = self.requests.get_mut(place).filter(|flight| flight.newest == NOWHERE) else { return };
        if flight.settled {
            self.requests.remove(place);
        } else if flight.retry_at != Nanos::MAX {
            flight.request = None;
        }
    }
}

impl Core {
    /// Sees to it that what the request at `place` asks for is there to be read.
    pub(crate) fn recall(&mut self, place: u32) {
        let Some(flight) = self.flights.requests.get_mut(place).filter(|flight| flight.request.is_none()) else {
            return;
        };
        let again = self.source.request_again(flight.index);
        flight.request = again.map(|again| Box::new(Request { arrival: flight.arrival, ..again }));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::clients::ClientsConfig;
    use crate::faults::{Fault, FaultKind};
    use crate::replica::server::{ServerConfig, Service};
    use crate::{Fleet, FleetConfig, ReplicaConfig};
    use servelab_spec::experiment::{DemandSpec, PolicySpec, WorkloadSpec};
    use servelab_workload::Source;

    /// A million clients that wait are a million of these, and their alarms.
    #[test]
    fn a_client_that_waits_takes_little_room() {
        assert!(size_of::<Option<InFlight>>() <= 128, "{}", size_of::<Option<InFlight>>());
    }

    /// Of every workload: what waiting clients ask for is not there, and is what it was when it is recalled.
    #[test]
    fn what_is_recalled_is_what_was_asked_for() {
        for kind in WorkloadSpec::KINDS {
            let spec = match WorkloadSpec::of_kind(kind).unwrap() {
                WorkloadSpec::Demand(sizes) => WorkloadSpec::Demand(DemandSpec { curve: "0:1,0.1:2".into(), ..sizes }),
                other => other,
            };
            let mut source = Source::new(&spec, 7, 16, 40.0).unwrap();
            let server = ServerConfig::new(4, Service::Exponential, Nanos(1_000_000));
            let what = FaultKind::Down { replica: None };
            let config = FleetConfig {
                clients: ClientsConfig::FixedRetry { attempts: 50, pause: Nanos(300_000_000) },
                faults: vec![Fault { from: Nanos::ZERO, until: Nanos(4_000_000_000), what }],
                ..FleetConfig::new(2, ReplicaConfig::Server(server))
            };
            let mut fleet = Fleet::new(config, source.clone(), &PolicySpec::named("least_tokens")).unwrap();
            fleet.poll(Nanos(3_900_000_000), u32::MAX);
            let waiting: Vec<u32> = fleet.core.flights.requests.iter().map(|(place, _)| place).collect();
            assert!(!waiting.is_empty(), "{kind}");
            let asked: Vec<Request> = std::iter::from_fn(|| source.next_request()).take(waiting.len()).collect();
            let mut again = false;
            for place in waiting {
                assert_eq!(fleet.core.flights.asked(place), None, "{kind}");
                fleet.core.recall(place);
                let flight = fleet.core.flights.requests.get(place).unwrap();
                assert_eq!(flight.request.as_deref(), asked.get(flight.index as usize), "{kind}");
                again |= flight.attempts > 1;
            }
            assert!(again, "{kind}: nobody has tried again");
        }
    }
}
