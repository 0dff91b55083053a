//! Attempts that a managed API serves in the fleet's place.

use super::tape::{self, Ending};
use super::timers::Timer;
use super::{Fleet, answers};
use crate::record::{Outcome, RequestRecord};
use servelab_engine::SequenceId;

impl Fleet {
    /// Sends the attempt at `place` out if it is to go; answers whether it went.
    pub(super) fn overflows(&mut self, place: u32) -> bool {
        let Some(overflow) = self.core.config.overflow else { return false };
        let core = &mut self.core;
        let busy: u64 = core.in_flight.iter().map(|&many| u64::from(many)).sum();
        let ready = self.scratch.ready().len() as u32;
        if !overflow.takes(core.now, busy + u64::from(core.gateway.held()), ready) {
            return false;
        }
        let Some(request) = core.flights.attempts.get(place).map(|attempt| attempt.request) else { return false };
        core.recall(request);
        let Some(output_tokens) = core.flights.asked(request).map(|asked| asked.output_tokens) else { return false };
        let (_, end) = overflow.serves(core.now, output_tokens);
        let id = core.flights.send_out(place, core.now);
        core.counts.outside += 1;
        core.fates.outside += 1;
        core.timers.insert(end, Timer::Outside(id));
        true
    }

    /// The API has answered the attempt of that name, if it is still under way.
    pub(super) fn answered_outside(&mut self, id: SequenceId) {
        let core = &mut self.core;
        let Some(place) = core.flights.place(id) else { return };
        tape::note_attempt(&mut self.tape, core, place, Ending::Outside);
        let Some(attempt) = core.flights.end(place) else { return };
        let request = attempt.request;
        let Some(flight) = core.flights.requests.get(request) else { return };
        if !attempt.waited {
            return core.flights.close(request);
        }
        let sent = attempt.admitted.unwrap_or(core.now);
        let told = answers::record(flight, Some(&attempt), core.now, Outcome::Finished);
        let Some((told, asked)) = told.zip(flight.request.as_deref()) else { return };
        let record = RequestRecord {
            first_token: core.config.overflow.map(|overflow| overflow.serves(sent, 1).0),
            output_tokens: asked.output_tokens,
            outside: true,
            ..told
        };
        let whose = flight.whose;
        core.fates.succeeded += 1;
        core.clients.ended(whose);
        core.clients.succeeded(core.now, whose);
        self.stop_all(request, true);
        self.end(request, record);
    }
}
