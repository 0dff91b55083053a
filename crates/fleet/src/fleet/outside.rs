//! Requests that a managed API serves in the fleet's place.

use super::timers::Timer;
use super::{Fleet, dispatch};
use crate::record::{Outcome, RequestRecord};

impl Fleet {
    /// Sends the request at `place` out if it is to go; answers whether it went.
    pub(super) fn overflows(&mut self, place: u32) -> bool {
        let Some(overflow) = self.core.config.overflow else { return false };
        let core = &mut self.core;
        let busy: u64 = core.in_flight.iter().map(|&many| u64::from(many)).sum();
        let ready = self.scratch.ready().len() as u32;
        if !overflow.takes(core.now, busy + u64::from(core.gateway.held()), ready) {
            return false;
        }
        let Some(flight) = core.flights.requests.get_mut(place) else { return false };
        flight.outside = Some(core.now);
        let (_, end) = overflow.serves(core.now, flight.request.output_tokens);
        core.counts.outside += 1;
        core.timers.insert(end, Timer::Outside(place));
        true
    }

    /// The API has answered the request at `place`.
    pub(super) fn answered_outside(&mut self, place: u32) {
        let core = &mut self.core;
        let Some(flight) = core.flights.requests.remove(place) else { return };
        let sent = flight.outside.unwrap_or(core.now);
        let first = core.config.overflow.map(|overflow| overflow.serves(sent, 1).0);
        core.counts.finished += 1;
        core.ended.push(RequestRecord {
            admitted: Some(sent),
            first_token: first,
            output_tokens: flight.request.output_tokens,
            outside: true,
            ..dispatch::record(&flight, None, core.now, Outcome::Finished)
        });
    }
}
