//! What befalls replicas from outside: a deploy that replaces them all, a crash.

use super::Fleet;
use super::timers::Timer;
use crate::record::Loss;
use servelab_spec::frame::ReplicaState;

impl Fleet {
    /// Every replica is to be replaced, one after the other.
    pub(super) fn deploy(&mut self) {
        let there = (0u32..)
            .zip(&self.core.replicas)
            .filter(|(_, replica)| replica.life.is_there() && replica.life.state() != ReplicaState::Draining);
        let mut old: Vec<u32> = there.map(|(index, _)| index).collect();
        old.reverse();
        if let Some(scaler) = &mut self.core.scaler {
            scaler.deploy = old;
        }
        self.deploy_on();
        self.core.timers.insert(self.core.now, Timer::Reconcile);
    }

    /// Replaces the next one of a deploy, if enough others are ready.
    pub(super) fn deploy_on(&mut self) {
        let ready = self.core.replicas.iter().filter(|replica| replica.may_be_routed_to()).count() as u32;
        let core = &mut self.core;
        let (Some(scaler), Some(scaling)) = (&mut core.scaler, &core.config.scaling) else { return };
        while let Some(&old) = scaler.deploy.last() {
            let life = &core.replicas[old as usize].life;
            if !life.is_there() || life.state() == ReplicaState::Draining {
                scaler.deploy.pop();
            } else if ready >= scaler.current + u32::from(scaling.startup.surge) {
                scaler.deploy.pop();
                core.timers.insert(core.now, Timer::Reconcile);
                return self.drain(old);
            } else {
                return;
            }
        }
    }

    /// As many of the replicas in rotation as `many` crash, and their nodes with them.
    pub(super) fn crash(&mut self, many: u32) {
        let ready = (0u32..).zip(&self.core.replicas).filter(|(_, replica)| replica.may_be_routed_to());
        let victims: Vec<u32> = ready.map(|(index, _)| index).take(many as usize).collect();
        victims.into_iter().for_each(|index| self.remove(index, Some(Loss::Crash), true));
    }
}
