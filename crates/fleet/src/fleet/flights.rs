//! Requests and attempts in flight.
//!
//! A request is here from its arrival to its end, an attempt from dispatch to end. A sequence's name in its engine carries the
//! attempt's place, so that an event finds its attempt without a search, and a serial number, so that no name comes twice.

use super::slab::Slab;
use serde::{Deserialize, Serialize};
use servelab_engine::{Nanos, SequenceId};
use servelab_workload::Request;

/// Bits of a name that hold the place: 16 million attempts may be in flight at once, 10¹² be made in all.
const PLACE_BITS: u32 = 24;

/// A request between arrival and end.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InFlight {
    pub(crate) request: Request,
    /// Tries so far.
    pub(crate) attempts: u32,
    /// When it was sent to a managed API, if it was.
    #[serde(default)]
    pub(crate) outside: Option<Nanos>,
    /// When the latest try came to the gateway.
    #[serde(default)]
    pub(crate) asked: Nanos,
    /// How long tries were held there, those that are still held left out.
    #[serde(default)]
    pub(crate) held: Nanos,
}

/// A try of a request on a replica.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Attempt {
    pub(crate) id: SequenceId,
    /// Place of its request.
    pub(crate) request: u32,
    pub(crate) replica: u32,
    /// What its router knew.
    pub(crate) routed: Routed,
    /// Which try it is, from 1.
    pub(crate) number: u32,
    /// When it was sent.
    #[serde(default)]
    pub(crate) sent: Nanos,
    pub(crate) admitted: Option<Nanos>,
    pub(crate) cached_tokens: u32,
    #[serde(default)]
    pub(crate) fetched_tokens: u32,
    pub(crate) first_token: Option<Nanos>,
    pub(crate) first_token_step: u64,
    /// Tokens that events told of.
    pub(crate) produced: u32,
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
    /// Attempts ever sent to a replica.
    serial: u64,
}

impl Flights {
    /// A new attempt of the request at `request`. Its place is in its name.
    pub(crate) fn attempt(
        &mut self,
        now: Nanos,
        request: u32,
        replica: u32,
        number: u32,
        routed: Routed,
    ) -> SequenceId {
        let place = self.attempts.insert(Attempt {
            id: SequenceId(0),
            request,
            replica,
            routed,
            number,
            sent: now,
            admitted: None,
            cached_tokens: 0,
            fetched_tokens: 0,
            first_token: None,
            first_token_step: 0,
            produced: 0,
        });
        debug_assert!(place < 1 << PLACE_BITS, "too many attempts in flight");
        let id = SequenceId(self.serial << PLACE_BITS | u64::from(place));
        self.serial += 1;
        if let Some(attempt) = self.attempts.get_mut(place) {
            attempt.id = id;
        }
        id
    }

    /// Attempts sent so far; numbers the next one's draws.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    fn place(id: SequenceId) -> u32 {
        (id.0 & ((1 << PLACE_BITS) - 1)) as u32
    }

    /// The attempt of that name, if it is in flight.
    pub(crate) fn by_id(&self, id: SequenceId) -> Option<&Attempt> {
        self.attempts.get(Self::place(id)).filter(|attempt| attempt.id == id)
    }

    /// The same, to change.
    pub(crate) fn by_id_mut(&mut self, id: SequenceId) -> Option<&mut Attempt> {
        self.attempts.get_mut(Self::place(id)).filter(|attempt| attempt.id == id)
    }

    /// Ends the attempt of that name.
    pub(crate) fn end(&mut self, id: SequenceId) -> Option<Attempt> {
        self.by_id(id)?;
        self.attempts.remove(Self::place(id))
    }
}
