//! Warm spares: replicas kept started beyond those asked for, without traffic.
//!
//! No controller sees them, and no router. One that is needed takes requests at once if it has started, and as soon as it has otherwise; another
//! is then started in its stead. Scale-in leaves them alone: they are what stays. They are paid for like every replica.

use super::Fleet;
use crate::scaling::Life;
use crate::startup::Prober;
use servelab_spec::frame::ReplicaState;

impl Fleet {
    /// A spare has started: it stays out of rotation, and nobody asks it whether it lives.
    pub(super) fn stand_by(&mut self, index: u32) {
        let now = self.core.now;
        let replica = &mut self.core.replicas[index as usize];
        replica.life.stand_by(now);
        replica.prober = None;
        let number = replica.life.number();
        if let Some(scaler) = &mut self.core.scaler {
            scaler.tell(now, index, number, Life::Standby);
        }
    }

    /// Puts the spare that is furthest in its start to use; `false` when there is none.
    pub(super) fn promote(&mut self) -> bool {
        let spares =
            (0u32..).zip(&self.core.replicas).filter(|(_, replica)| replica.spare && !replica.life.is_draining());
        // Those that stand by first, then those that were created first.
        let best = spares.min_by_key(|(index, replica)| {
            (replica.life.state() != ReplicaState::Standby, replica.life.created(), *index)
        });
        let Some(index) = best.map(|(index, _)| index) else { return false };
        let now = self.core.now;
        let probes = self.core.config.scaling.as_ref().and_then(|scaling| scaling.startup.probes);
        let replica = &mut self.core.replicas[index as usize];
        replica.spare = false;
        if replica.life.state() == ReplicaState::Standby {
            replica.prober = probes.map(|probes| Prober::of_ready(probes, now));
            self.become_ready(index);
            self.expect_probe(index);
        }
        true
    }

    /// Starts the spares that are missing.
    pub(super) fn keep_spares(&mut self) {
        let Some(scaling) = &self.core.config.scaling else { return };
        let wanted = scaling.startup.warm_spares as usize;
        let there = self.core.replicas.iter().filter(|replica| replica.spare && !replica.life.is_draining()).count();
        for _ in there..wanted {
            if !self.create(true) {
                return;
            }
        }
    }
}
