//! Saved states to come back to: few, evenly spread, however long the run.
//!
//! A state is kept every so many events. When there are too many, every second one is dropped and the distance doubles, so at any
//! time they are about evenly spread and coming back costs at most one distance of simulation.
//!
//! A state is as large as what is in flight. Where a million clients wait, few are kept, and as many events lie between them as requests are saved.

use servelab_engine::Nanos;
use servelab_fleet::{Fleet, FleetState};
use servelab_spec::experiment::Spec;

/// Most states of one run.
const MOST: usize = 64;

/// KV blocks over all kept states of one run. A block is some 50 bytes of bookkeeping, so this is some 100 MB.
const BLOCKS: u64 = 2_000_000;

/// Requests in flight over all kept states of one run, beyond the first two. One is some 150 bytes, so this is some 150 MB.
const REQUESTS: u64 = 1_000_000;

/// First distance between states, events. Simulating on over so many takes about a millisecond.
const DISTANCE: u32 = 512;

/// Where to come back to.
pub(crate) struct Keyframe {
    pub(crate) at: Nanos,
    /// Entries of the log that had been used.
    pub(crate) log: usize,
    pub(crate) state: FleetState,
    /// Requests in flight.
    requests: u64,
}

pub(crate) struct Keyframes {
    kept: Vec<Keyframe>,
    most: usize,
    /// Most requests in flight over all of them, once there are more than two.
    room: u64,
    distance: u32,
    /// Events from the latest state to the next: the distance, or as many as requests are in flight.
    wait: u32,
    since: u32,
}

impl Keyframes {
    pub(crate) fn new(spec: &Spec) -> Self {
        let blocks = u64::from(spec.replicas_ever()) * u64::from(spec.engine.blocks);
        let most = (BLOCKS / blocks.max(1)).clamp(2, MOST as u64) as usize;
        // Saving copies every block's record; as many events take longer than that.
        let distance = DISTANCE.max(u32::try_from(blocks / 16).unwrap_or(u32::MAX));
        Keyframes { kept: vec![], most, room: REQUESTS, distance, wait: distance, since: 0 }
    }

    /// Keeps nothing.
    pub(crate) fn none() -> Self {
        Keyframes { kept: vec![], most: 0, room: 0, distance: u32::MAX, wait: u32::MAX, since: 0 }
    }

    /// Events until the next state is due.
    pub(crate) fn due(&self) -> u32 {
        (self.wait - self.since.min(self.wait)).max(1)
    }

    /// So many events have passed (or fewer, when the run ended in them).
    pub(crate) fn passed(&mut self, events: u32, fleet: &Fleet, log: usize) {
        self.since = self.since.saturating_add(events);
        let requests = fleet.waiting();
        self.wait = self.distance.max(u32::try_from(requests).unwrap_or(u32::MAX));
        if self.since < self.wait || self.most == 0 {
            return;
        }
        self.since = 0;
        self.kept.push(Keyframe { at: fleet.now(), log, state: fleet.save(), requests });
        while self.kept.len() > self.most || self.kept.len() > 2 && self.requests() > self.room {
            let mut index = 0;
            self.kept.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            self.distance = self.distance.saturating_mul(2);
            self.wait = self.wait.max(self.distance);
        }
    }

    /// Requests in flight over all kept states.
    fn requests(&self) -> u64 {
        self.kept.iter().map(|frame| frame.requests).sum()
    }

    /// The last state at or before `t`.
    pub(crate) fn before(&self, t: Nanos) -> Option<&Keyframe> {
        let after = self.kept.partition_point(|frame| frame.at <= t);
        after.checked_sub(1).map(|index| &self.kept[index])
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::session::Run;
    use crate::{Session, presets};
    use servelab_spec::experiment::WorkloadSpec;

    /// A state is as large as what waits: as many events pass before the next one is kept, and together they stay within their room.
    #[test]
    fn few_states_are_kept_where_many_wait() {
        let mut spec = presets::find("retry-storm").unwrap().spec;
        let WorkloadSpec::MultiTenant(sizes) = &mut spec.workload else { unreachable!() };
        (sizes.requests, sizes.rate) = (20_000, 1.0);
        (spec.server.slots, spec.server.service_s) = (64, 0.032);
        (spec.faults.down_at_s, spec.faults.down_s) = (0.0, 10.0);
        spec.clients.policies.truncate(1);
        for room in [REQUESTS, 30_000] {
            let mut session = Session::new(spec.clone()).unwrap();
            session.stage.as_mut().unwrap().runs[0].keyframes.room = room;
            let (mut events, mut waited) = (0, 0);
            while session.simulated(0) < Nanos::from_secs(9.9) {
                session.advance(1024).unwrap();
                events += 1024;
                let Run { keyframes, fleet, .. } = &session.stage.as_ref().unwrap().runs[0];
                waited = waited.max(fleet.waiting());
                let kept = keyframes.requests();
                assert!(kept <= events, "{kept} requests are kept after {events} events");
                assert!(kept <= room || keyframes.kept.len() <= 2, "{kept} requests in {}", keyframes.kept.len());
                assert!(!keyframes.kept.is_empty(), "none after {events} events");
            }
            assert!(waited > 19_000, "{waited}");
        }
    }

    #[test]
    fn states_stay_few_and_evenly_spread() {
        let mut session = Session::new(presets::find("hot-tenant").unwrap().spec).unwrap();
        while !session.advance(50).unwrap().done {}
        let stage = session.stage.as_ref().unwrap();
        let mut frames = Keyframes { most: 8, distance: 1, wait: 1, ..Keyframes::new(&session.spec) };
        for events in 1..=1000usize {
            frames.passed(1, &stage.runs[0].fleet, events);
            assert!(frames.kept.len() <= 8 && frames.due() >= 1);
        }
        let at: Vec<usize> = frames.kept.iter().map(|frame| frame.log).collect();
        assert!(at.len() >= 4 && at.windows(2).all(|pair| pair[1] - pair[0] <= 256 && pair[1] > pair[0]), "{at:?}");
        assert!(1000 - at[at.len() - 1] <= 256, "{at:?}");
        for run in &stage.runs {
            let kept = &run.keyframes.kept;
            assert!(!kept.is_empty() && kept.len() <= MOST);
            assert!(kept.windows(2).all(|pair| pair[0].at <= pair[1].at));
            assert_eq!(run.keyframes.before(Nanos::MAX).map(|frame| frame.at), kept.last().map(|frame| frame.at));
            assert!(run.keyframes.before(Nanos::ZERO).is_none());
        }
    }
}
