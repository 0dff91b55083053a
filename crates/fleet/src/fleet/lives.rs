//! Replicas come and go: created, started stage by stage, ready, drained, killed.

use super::Fleet;
use super::timers::Timer;
use crate::clients::Failure;
use crate::error::FleetError;
use crate::record::Loss;
use crate::replica::Boot;
use crate::scaling::Life;
use crate::startup::{ProbeStep, Prober, Stage, StageWork, Verdict};
use servelab_engine::Nanos;
use servelab_spec::frame::ReplicaState;

/// What a client sees when the replica that served it goes.
pub(super) const BAD_GATEWAY: u16 = 502;

impl Fleet {
    /// A place for one more replica: one that was never used, else the one that is empty for the longest time. So a router that remembers a replica's
    /// cache meets its place again as late as can be.
    fn vacant(&self) -> Option<u32> {
        let places = || (0u32..).zip(&self.core.replicas);
        let unused = places().find(|(_, replica)| replica.life.state() == ReplicaState::Planned);
        let left = || {
            let gone = places().filter_map(|(index, replica)| replica.life.gone().map(|at| (at, index)));
            gone.min()
        };
        unused.map(|(index, _)| index).or_else(|| left().map(|(_, index)| index))
    }

    /// Creates a replica, as a spare or not; `false` when every place is taken.
    pub(super) fn create(&mut self, spare: bool) -> bool {
        let Some(index) = self.vacant() else { return false };
        let core = &mut self.core;
        let (Some(scaler), Some(scaling)) = (&mut core.scaler, &core.config.scaling) else { return false };
        let now = core.now;
        let replica = &mut core.replicas[index as usize];
        replica.create(now, &core.config, index, core.index.is_some());
        replica.spare = spare;
        scaler.count_alive(now, 1);
        scaler.totals.created += 1;
        scaler.tell(now, index, replica.life.number(), Life::Created);
        let (there, pooled) = scaler.nodes.take(now, scaling.nodes());
        let stages = &scaling.startup.stages;
        let after_node = stages.partition_point(|&(stage, _)| stage <= Stage::Node);
        let node = (stages[..after_node].iter()).fold(Nanos::ZERO, |sum, &(_, work)| sum + scaling.startup.alone(work));
        (0..pooled).for_each(|_| core.timers.insert(now + node, Timer::Node));
        replica.boot = Boot { at: if there { after_node as u32 } else { 0 }, ..Boot::default() };
        self.stage_reached(index);
        self.start_stage(index);
        true
    }

    /// Starts the stage that is next, and those after it as long as they take no time.
    fn start_stage(&mut self, index: u32) {
        loop {
            let core = &mut self.core;
            let (Some(scaler), Some(scaling)) = (&mut core.scaler, &core.config.scaling) else { return };
            let replica = &mut core.replicas[index as usize];
            let life = replica.life.number();
            let Some(&(_, work)) = scaling.startup.stages.get(replica.boot.at as usize) else { return };
            match work {
                StageWork::Shared { bytes, link } => {
                    let link = link as u32;
                    replica.boot.link = Some(link);
                    scaler.links[link as usize].join(core.now, index, bytes);
                    return self.expect_transfer(link);
                }
                StageWork::Measured => {
                    replica.boot.asked = true;
                    self.booting.push(index);
                    // In order of index, as a restored fleet will have them.
                    return self.booting.sort_unstable();
                }
                StageWork::Fixed(_) | StageWork::Transfer { .. } => match scaling.startup.alone(work) {
                    Nanos::ZERO => self.stage_over(index),
                    time => return core.timers.insert(core.now + time, Timer::Stage { replica: index, life }),
                },
            }
        }
    }

    /// The stage that `replica`'s driver was asked for ([`super::Poll::Start`]) takes `time`, from now on.
    ///
    /// # Errors
    /// When that replica is not the one that waits; nothing has changed then.
    pub fn booted(&mut self, replica: u32, time: Nanos) -> Result<(), FleetError> {
        if self.booting.first() != Some(&replica) {
            return Err(FleetError::NotStarting { replica });
        }
        self.booting.remove(0);
        let core = &mut self.core;
        let of = &mut core.replicas[replica as usize];
        of.boot.asked = false;
        core.timers.insert(core.now + time, Timer::Stage { replica, life: of.life.number() });
        Ok(())
    }

    /// Whose driver is asked for a stage, and for which.
    pub(super) fn asks_to_boot(&self) -> Option<(u32, Stage)> {
        let &replica = self.booting.first()?;
        let at = self.core.replicas[replica as usize].boot.at as usize;
        let stages = &self.core.config.scaling.as_ref()?.startup.stages;
        stages.get(at).map(|&(stage, _)| (replica, stage))
    }

    /// Nobody waits any more for a stage of this replica.
    fn stop_asking(&mut self, index: u32) {
        self.core.replicas[index as usize].boot.asked = false;
        self.booting.retain(|&replica| replica != index);
    }

    /// The stage under way is over, if the timer that says so belongs to this life.
    pub(super) fn stage_ends(&mut self, index: u32, life: u32) {
        if self.core.replicas[index as usize].life.number() == life && self.is_booting(index) {
            self.stage_over(index);
            self.start_stage(index);
        }
    }

    fn is_booting(&self, index: u32) -> bool {
        let replica = &self.core.replicas[index as usize];
        let stages = self.core.config.scaling.as_ref().map_or(0, |scaling| scaling.startup.stages.len());
        replica.life.is_there() && (replica.boot.at as usize) < stages
    }

    fn stage_over(&mut self, index: u32) {
        let core = &mut self.core;
        let (Some(scaler), Some(scaling)) = (&mut core.scaler, &core.config.scaling) else { return };
        let replica = &mut core.replicas[index as usize];
        let stages = &scaling.startup.stages;
        let (stage, _) = stages[replica.boot.at as usize];
        scaler.tell(core.now, index, replica.life.number(), Life::Stage(stage));
        replica.boot = Boot { at: replica.boot.at + 1, ..Boot::default() };
        self.stage_reached(index);
    }

    /// A start has come to the stage that [`Boot::at`] names.
    fn stage_reached(&mut self, index: u32) {
        let core = &mut self.core;
        let Some(startup) = core.config.scaling.as_ref().map(|scaling| &scaling.startup) else { return };
        let replica = &mut core.replicas[index as usize];
        let at = replica.boot.at as usize;
        if at == startup.stages.len() {
            replica.warm_at = core.now;
            replica.life.warm_up();
            self.stirred.push(index);
            self.ask_store_for_all(index);
        }
        let core = &mut self.core;
        let Some(startup) = core.config.scaling.as_ref().map(|scaling| &scaling.startup) else { return };
        let replica = &mut core.replicas[index as usize];
        if replica.life.state() != ReplicaState::Starting {
            return;
        }
        match startup.probes {
            // The container starts here, and so do its probes.
            Some(probes) if at == startup.restart_at() => {
                replica.crashes.start(core.now);
                let prober = Prober::new(probes, core.now);
                let ready = prober.is_ready();
                replica.prober = Some(prober);
                if ready {
                    self.become_ready(index);
                }
                self.expect_probe(index);
            }
            Some(_) => {}
            // Nobody asks: it is in rotation from the moment at which it would say yes.
            None if at >= startup.ready_after() => self.become_ready(index),
            None => {}
        }
    }

    /// Sets the clock for what a replica's probes do next.
    pub(super) fn expect_probe(&mut self, index: u32) {
        let core = &mut self.core;
        let replica = &core.replicas[index as usize];
        if let Some((at, ..)) = replica.prober.as_ref().and_then(Prober::next) {
            let timer = Timer::Probe { replica: index, life: replica.life.number() };
            core.timers.insert(at.max(core.now), timer);
        }
    }

    /// Probes are sent to a replica, or their answers come back.
    pub(super) fn probe(&mut self, index: u32, life: u32) {
        let now = self.core.now;
        loop {
            let core = &mut self.core;
            let Some(startup) = core.config.scaling.as_ref().map(|scaling| &scaling.startup) else { return };
            let replica = &mut core.replicas[index as usize];
            // Nobody asks a replica that is on its way out: it is out of rotation, and nothing is gained by killing it.
            if replica.life.number() != life || !replica.life.is_there() || replica.life.is_draining() {
                return;
            }
            let Some(prober) = &mut replica.prober else { return };
            let Some((_, probe, step)) = prober.next().filter(|&(at, ..)| at <= now) else { break };
            if step == ProbeStep::Send {
                let answers = replica.boot.at as usize >= startup.answers_after(probe);
                let takes = startup.probes.map(|probes| probes.answer.at(core.in_flight[index as usize]));
                prober.send(now, probe, takes.filter(|_| answers));
                continue;
            }
            match prober.receive(now, probe).1 {
                Some(Verdict::Ready) => self.become_ready(index),
                Some(Verdict::NotReady) => self.out_of_rotation(index),
                Some(Verdict::Kill) => return self.restart(index, Loss::Probe),
                Some(Verdict::Started) | None => {}
            }
        }
        self.expect_probe(index);
    }

    fn out_of_rotation(&mut self, index: u32) {
        let now = self.core.now;
        let life = &mut self.core.replicas[index as usize].life;
        life.suspend(now);
        let number = life.number();
        if let Some(scaler) = &mut self.core.scaler {
            scaler.tell(now, index, number, Life::NotReady);
        }
        self.replicas_changed();
    }

    /// A replica comes into rotation.
    pub(super) fn become_ready(&mut self, index: u32) {
        let now = self.core.now;
        if self.core.replicas[index as usize].spare {
            return self.stand_by(index);
        }
        let life = &mut self.core.replicas[index as usize].life;
        life.admit(now);
        let number = life.number();
        if let Some(scaler) = &mut self.core.scaler {
            scaler.tell(now, index, number, Life::Ready);
        }
        self.replicas_changed();
        self.release();
        self.deploy_on();
    }

    /// A transfer on `link` may be over.
    pub(super) fn transfers(&mut self, link: u32) {
        let now = self.core.now;
        while let Some(scaler) = &mut self.core.scaler
            && let Some((_, index)) = scaler.links[link as usize].next().filter(|&(at, _)| at <= now)
        {
            scaler.links[link as usize].finish(now, index);
            self.stage_over(index);
            self.start_stage(index);
        }
        self.expect_transfer(link);
    }

    fn expect_transfer(&mut self, link: u32) {
        let next = self.core.scaler.as_ref().and_then(|scaler| scaler.links[link as usize].next());
        if let Some((at, _)) = next {
            self.core.timers.insert(at.max(self.core.now), Timer::Link(link));
        }
    }

    /// A node that was taken from the warm pool is replaced.
    pub(super) fn node_ready(&mut self) {
        if let Some(scaler) = &mut self.core.scaler {
            scaler.nodes.refill();
        }
    }

    /// A replica takes no more requests and goes when it has none; one that never was ready goes at once.
    pub(super) fn drain(&mut self, index: u32) {
        let now = self.core.now;
        let replica = &mut self.core.replicas[index as usize];
        let (state, number) = (replica.life.state(), replica.life.number());
        if state == ReplicaState::Starting && self.core.in_flight[index as usize] == 0 {
            if let Some(scaler) = &mut self.core.scaler {
                scaler.totals.wasted += 1;
            }
            return self.remove(index, None, false);
        }
        if !replica.life.drain(now) {
            return;
        }
        if let Some(scaler) = &mut self.core.scaler {
            scaler.tell(now, index, number, Life::Draining);
        }
        self.replicas_changed();
        if let Some(scaling) = &self.core.config.scaling {
            let grace = now + scaling.grace;
            self.core.timers.insert(grace, Timer::Grace { replica: index, life: number });
        }
        self.leave_if_done(index);
    }

    /// The time that a replica has to drain is over.
    pub(super) fn grace_over(&mut self, index: u32, life: u32) {
        let of = &self.core.replicas[index as usize].life;
        if of.number() == life && of.state() == ReplicaState::Draining {
            self.remove(index, Some(Loss::Grace), false);
        }
    }

    /// A replica goes, now, and takes with it what it has. `nodes_lost`: its nodes go too.
    pub(super) fn remove(&mut self, index: u32, cause: Option<Loss>, nodes_lost: bool) {
        let routed = self.core.replicas[index as usize].may_be_routed_to();
        self.stop_asking(index);
        self.lose_attempts(index, Failure::lost(BAD_GATEWAY, cause.unwrap_or(Loss::Crash)));
        let core = &mut self.core;
        let (Some(scaler), Some(scaling)) = (&mut core.scaler, &core.config.scaling) else { return };
        let replica = &mut core.replicas[index as usize];
        let number = replica.life.number();
        if let Some(link) = replica.boot.link.take() {
            scaler.links[link as usize].leave(core.now, index);
        }
        let blocks = u64::from(replica.model.get().cached_blocks());
        scaler.totals.cache_lost_tokens += blocks * u64::from(core.config.block_tokens());
        replica.life.end(core.now);
        replica.vacate(core.now);
        scaler.count_alive(core.now, -1);
        scaler.nodes.give_back(core.now, scaling.nodes(), nodes_lost);
        scaler.tell(core.now, index, number, cause.map_or(Life::Gone, Life::Killed));
        if let Some(index_of) = &mut core.index {
            index_of.forget(index);
        }
        // Not at once: a step of another replica may be in the middle of telling what it did.
        core.timers.insert(core.now, Timer::Reconcile);
        if routed {
            self.replicas_changed();
        }
        self.refresh(index);
        for link in 0..self.core.scaler.as_ref().map_or(0, |scaler| scaler.links.len()) {
            self.expect_transfer(link as u32);
        }
    }

    /// A container is killed and started again in its place, after a while if that happens often: image and node are there, all else is done once more.
    pub(super) fn restart(&mut self, index: u32, cause: Loss) {
        let routed = self.core.replicas[index as usize].may_be_routed_to();
        self.stop_asking(index);
        self.lose_attempts(index, Failure::lost(BAD_GATEWAY, cause));
        let core = &mut self.core;
        let (Some(scaler), Some(scaling)) = (&mut core.scaler, &core.config.scaling) else { return };
        let replica = &mut core.replicas[index as usize];
        if let Some(link) = replica.boot.link.take() {
            scaler.links[link as usize].leave(core.now, index);
        }
        let blocks = u64::from(replica.model.get().cached_blocks());
        scaler.totals.cache_lost_tokens += blocks * u64::from(core.config.block_tokens());
        scaler.totals.restarts += 1;
        replica.restart(core.now, &core.config, index, core.index.is_some());
        replica.prober = None;
        let (wait, life) = (replica.crashes.kill(core.now), replica.life.number());
        scaler.tell(core.now, index, life, Life::Restarted);
        replica.boot = Boot { at: scaling.startup.restart_at() as u32, ..Boot::default() };
        if let Some(index_of) = &mut core.index {
            index_of.forget(index);
        }
        if routed {
            self.replicas_changed();
        }
        self.refresh(index);
        match wait {
            Nanos::ZERO => self.started_again(index, life),
            wait => self.core.timers.insert(self.core.now + wait, Timer::Restart { replica: index, life }),
        }
        for link in 0..self.core.scaler.as_ref().map_or(0, |scaler| scaler.links.len()) {
            self.expect_transfer(link as u32);
        }
    }

    /// A container that was killed starts again, if this life of it has not ended meanwhile.
    pub(super) fn started_again(&mut self, index: u32, life: u32) {
        let of = &self.core.replicas[index as usize].life;
        if of.number() == life && of.is_there() && !of.is_draining() {
            self.stage_reached(index);
            self.start_stage(index);
        }
    }
}
