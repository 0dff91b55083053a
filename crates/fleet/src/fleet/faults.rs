//! Faults begin and end.

use super::Fleet;
use super::flights::Where;
use super::lives::BAD_GATEWAY;
use super::timers::Timer;
use crate::clients::Failure;
use crate::faults::FaultKind;
use crate::record::Loss;
use servelab_engine::{Nanos, SequenceId};

/// What a client sees when a connection into a split network breaks.
const GATEWAY_TIMEOUT: u16 = 504;

impl Fleet {
    /// The fault at position `at` of the configuration begins.
    pub(super) fn fault_begins(&mut self, at: u32) {
        let Some(fault) = self.core.config.faults.get(at as usize).copied() else { return };
        for index in fault.replicas(self.core.replicas.len() as u32) {
            match fault.what {
                FaultKind::Down { .. } => self.goes_down(index),
                FaultKind::Frozen { .. } => self.freezes(index),
                FaultKind::Split { .. } => self.core.replicas[index as usize].ailments.split += 1,
                FaultKind::Telemetry | FaultKind::Errors { .. } | FaultKind::Poison { .. } => {}
            }
        }
        if fault.what == FaultKind::Telemetry {
            // What was left out because it would have said the same is dated first.
            self.date_metrics();
            self.core.stale += 1;
        }
    }

    /// It is over.
    pub(super) fn fault_ends(&mut self, at: u32) {
        let Some(fault) = self.core.config.faults.get(at as usize).copied() else { return };
        for index in fault.replicas(self.core.replicas.len() as u32) {
            match fault.what {
                FaultKind::Down { .. } => self.comes_back(index),
                FaultKind::Frozen { .. } => self.thaws(index),
                FaultKind::Split { .. } => self.heals(index),
                FaultKind::Telemetry | FaultKind::Errors { .. } | FaultKind::Poison { .. } => {}
            }
        }
        if fault.what == FaultKind::Telemetry {
            self.core.stale -= 1;
            self.core.fresh_from = self.core.now;
        }
        self.release();
    }

    /// A replica's process dies and does not come back for now.
    fn goes_down(&mut self, index: u32) {
        let now = self.core.now;
        self.core.replicas[index as usize].ailments.change(now, |of| of.down += 1);
        if self.core.replicas[index as usize].ailments.down > 1 {
            return;
        }
        self.lose_attempts(index, Failure::lost(BAD_GATEWAY, Loss::Crash));
        let core = &mut self.core;
        if core.replicas[index as usize].life.is_there() {
            core.replicas[index as usize].die(core.now, &core.config, index, core.index.is_some());
        }
        if let Some(known) = &mut core.index {
            known.forget(index);
        }
        self.replicas_changed();
        self.refresh(index);
        self.leave_if_done(index);
    }

    /// A replica's process is there again, empty.
    pub(super) fn comes_back(&mut self, index: u32) {
        let now = self.core.now;
        self.core.replicas[index as usize].ailments.change(now, |of| of.down -= 1);
        if self.core.replicas[index as usize].ailments.down == 0 {
            self.replicas_changed();
            self.stirred.push(index);
            self.release();
        }
    }

    /// A replica stops in the middle of whatever it does.
    fn freezes(&mut self, index: u32) {
        self.core.replicas[index as usize].ailments.frozen += 1;
        if self.core.replicas[index as usize].ailments.frozen > 1 {
            return;
        }
        self.core.replicas[index as usize].ailments.frozen -= 1;
        self.catch_up(index);
        let now = self.core.now;
        self.core.replicas[index as usize].ailments.change(now, |of| (of.frozen, of.frozen_at) = (1, now));
        self.refresh(index);
    }

    /// A replica goes on where it stopped.
    fn thaws(&mut self, index: u32) {
        let now = self.core.now;
        let replica = &mut self.core.replicas[index as usize];
        replica.ailments.change(now, |of| of.frozen -= 1);
        if replica.ailments.frozen == 0 {
            replica.model.get_mut().stood_still(now.since(replica.ailments.frozen_at));
            self.refresh(index);
            self.ask_store_for_all(index);
            self.stirred.push(index);
        }
    }

    /// The network to a replica is whole again: connections that hung in it break.
    fn heals(&mut self, index: u32) {
        self.core.replicas[index as usize].ailments.split -= 1;
        if self.core.replicas[index as usize].ailments.split > 0 {
            return;
        }
        let attempts = self.core.flights.attempts.iter();
        let mut hung: Vec<(SequenceId, u32)> = attempts
            .filter(|(_, attempt)| attempt.replica == index && attempt.at == Where::Nowhere)
            .map(|(place, attempt)| (attempt.id, place))
            .collect();
        hung.sort_unstable();
        for (_, place) in hung {
            self.detach(place);
            self.fail(place, Failure::lost(GATEWAY_TIMEOUT, Loss::Network));
        }
        self.leave_if_done(index);
    }

    /// The fault that makes the request at `place` crash whoever serves it, now, if there is one.
    pub(super) fn poisonous(&self, place: u32) -> Option<u32> {
        if self.core.config.faults.is_empty() {
            return None;
        }
        let index = self.core.flights.requests.get(place)?.index;
        let now = self.core.now;
        let mut faults = (0u32..).zip(&self.core.config.faults);
        let found = faults.find(|(_, fault)| match fault.what {
            FaultKind::Poison { request, .. } => request == index && fault.from <= now && now < fault.until,
            _ => false,
        });
        found.map(|(at, _)| at)
    }

    /// A replica crashes of what it serves.
    pub(super) fn poisoned(&mut self, replica: u32, fault: u32) {
        self.core.crashing.retain(|&(crashes, _)| crashes != replica);
        let Some(FaultKind::Poison { restart, .. }) =
            self.core.config.faults.get(fault as usize).map(|fault| fault.what)
        else {
            return;
        };
        // Told twice by one request, or too late.
        if self.core.replicas[replica as usize].ailments.down > 0 {
            return;
        }
        self.goes_down(replica);
        self.core.timers.insert(self.core.now + restart.max(Nanos(1)), Timer::Back { replica });
        self.release();
    }

    /// A replica answers this attempt with an error.
    pub(super) fn replica_errs(&self, request: u32, number: u32) -> bool {
        let now = self.core.now;
        (0u64..).zip(&self.core.config.faults).any(|(at, fault)| match fault.what {
            FaultKind::Errors { share } if fault.from <= now && now < fault.until => {
                let draw = self.errors.split(at).split(request.into()).split(number.into()).unit();
                draw < share
            }
            _ => false,
        })
    }

    /// The attempt at `place` is one of those that are dropped at the door.
    pub(super) fn sheds(&self, place: u32) -> bool {
        let share = self.core.dropping;
        share > 0.0
            && self.core.flights.of(place).is_some_and(|flight| {
                let mut draw = self.errors.split(u64::MAX).split(flight.index.into());
                draw.unit() < share
            })
    }
}
