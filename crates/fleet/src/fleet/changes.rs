//! What happens to a fleet on the way: replicas come and go, routers restart.

use super::timers::Timer;
use super::{Fleet, dispatch};
use crate::config::{Change, ChangeKind, FleetConfig, Slow};
use crate::replica::Model;
use servelab_engine::Nanos;
use servelab_spec::validate::SpecError;

/// Most replicas: pictures and policies address them by index, and memory is theirs.
const MAX_REPLICAS: u32 = 1 << 16;

impl FleetConfig {
    pub(super) fn validate(&self) -> Result<(), SpecError> {
        let ever = self.replicas_ever();
        if self.replicas == 0 || ever > MAX_REPLICAS {
            return Err(SpecError::new("replicas", ever, format!("use 1 to {MAX_REPLICAS}")));
        }
        for change in &self.changes {
            if let ChangeKind::Leave { replica } = change.what
                && replica >= ever
            {
                return Err(SpecError::new("changes.replica", replica, format!("use 0 to {}", ever - 1)));
            }
        }
        if let Some(scaling) = &self.scaling {
            scaling.validate(self.replicas)?;
            let moved = |change: &Change| matches!(change.what, ChangeKind::Join { .. } | ChangeKind::Leave { .. });
            if self.changes.iter().any(moved) {
                let accepted = "use none in a fleet that scales: how many replicas there are is decided there";
                return Err(SpecError::new("changes", "a replica that joins or leaves", accepted));
            }
        }
        if let Some(Slow { factor, .. }) = self.slow
            && !(factor > 0.0 && factor <= 1e6)
        {
            return Err(SpecError::new("slow.factor", factor, "use a factor above 0, at most 1000000"));
        }
        self.clients.crowd().validate()?;
        self.faults.iter().try_for_each(|fault| fault.validate(ever))?;
        for change in &self.changes {
            match change.what {
                ChangeKind::DropLoad { share } if !(0.0..=1.0).contains(&share) => {
                    return Err(SpecError::new("changes.share", share, "use 0 (none) to 1 (all)"));
                }
                ChangeKind::Budgets { budget } => budget.validate("changes.budget")?,
                ChangeKind::RaiseLimits { times } if !(1.0..=1e6).contains(&times) => {
                    return Err(SpecError::new("changes.times", times, "use 1 (as they are) to 1000000"));
                }
                _ => {}
            }
        }
        if let Some(store) = &self.store {
            store.validate(&self.replica)?;
        }
        if let Some(overflow) = &self.overflow {
            overflow.validate()?;
        }
        self.gateway.validate()?;
        self.telemetry.validate()
    }

    /// Which replica the change at position `at` adds.
    fn joining(&self, at: u32) -> u32 {
        let before = self.changes.iter().take(at as usize);
        self.replicas + before.filter(|change| matches!(change.what, ChangeKind::Join { .. })).count() as u32
    }
}

impl Fleet {
    /// The change at position `at` of the configuration happens.
    pub(super) fn change(&mut self, at: u32) {
        let now = self.core.now;
        let Some(change) = self.core.config.changes.get(at as usize).copied() else { return };
        match change.what {
            ChangeKind::Join { warm_up, honest } => {
                let replica = self.core.config.joining(at);
                self.core.replicas[replica as usize].life.create(now);
                let warm = now + warm_up;
                // Warm first: at one instant a replica can serve before it says so.
                self.core.timers.insert(warm, Timer::Warm(replica));
                self.core.timers.insert(if honest { warm } else { now }, Timer::Ready(replica));
            }
            ChangeKind::Leave { replica } => {
                if self.core.replicas[replica as usize].life.drain(now) {
                    self.replicas_changed();
                    self.leave_if_done(replica);
                }
            }
            ChangeKind::RestartRouters => {
                for router in &mut self.core.routers {
                    router.reset();
                    router.restarts += 1;
                }
                if let Some(index) = &mut self.core.index {
                    index.restart();
                }
                self.policies.restart();
                self.policies.replicas_changed(self.scratch.ready());
            }
            ChangeKind::Deploy => self.deploy(),
            ChangeKind::Crash { replicas } => self.crash(replicas),
            ChangeKind::Cancel => {
                self.core.clients.crowd.cancels = true;
                self.cancel_abandoned();
            }
            ChangeKind::DropLoad { share } => self.core.dropping = share,
            ChangeKind::Budgets { budget } => self.core.clients.set_budget(budget),
            ChangeKind::RaiseLimits { times } => self.raise_limits(times),
            ChangeKind::ResetCounts => self.core.routers.iter_mut().for_each(|router| router.reset()),
        }
    }

    /// Limits are so many times what they were, those of replicas that come later among them.
    fn raise_limits(&mut self, times: f64) {
        let core = &mut self.core;
        let slots = core.config.server_slots();
        core.config.raise_limits(times);
        let more = core.config.server_slots() - slots;
        if let Some(chain) = core.gateway.chain_mut() {
            chain.raise(times);
        }
        for (index, replica) in (0u32..).zip(&mut core.replicas) {
            core.lacked += Nanos(replica.stats(core.now).lifetime.0.saturating_mul(more.into()));
            if let Model::Server(server) = &mut replica.model {
                server.raise(times);
                self.stirred.push(index);
            }
        }
        self.release();
    }

    /// A replica says that it is ready.
    pub(super) fn admit(&mut self, replica: u32) {
        self.core.replicas[replica as usize].life.admit(self.core.now);
        self.replicas_changed();
        self.release();
    }

    /// A replica can serve, so what was sent there before can start.
    pub(super) fn warm_up(&mut self, replica: u32) {
        self.core.replicas[replica as usize].life.warm_up();
        self.ask_store_for_all(replica);
        self.stirred.push(replica);
    }

    /// A draining replica without anything in flight goes, and its cache with it.
    pub(super) fn leave_if_done(&mut self, replica: u32) {
        let core = &mut self.core;
        if core.in_flight[replica as usize] > 0 {
            return;
        }
        if core.scaler.is_some() {
            if core.replicas[replica as usize].life.is_draining() {
                self.remove(replica, None, false);
            }
            return;
        }
        let life = &mut core.replicas[replica as usize].life;
        let before = life.state();
        life.leave(core.now);
        if life.state() != before
            && let Some(index) = &mut core.index
        {
            index.forget(replica);
        }
    }

    pub(super) fn replicas_changed(&mut self) {
        self.scratch = dispatch::Scratch::new(&self.core);
        self.policies.replicas_changed(self.scratch.ready());
        self.gateway_pool_changed();
    }

    /// What all lifetimes must sum to, from the configuration and from when replicas went.
    pub(super) fn expected_lifetimes(core: &super::Core) -> u128 {
        let now = core.now;
        if let Some(scaler) = &core.scaler {
            return scaler.alive_for(now);
        }
        let mut created = vec![Some(Nanos::ZERO); core.config.replicas as usize];
        let joins = core.config.changes.iter().filter(|change| matches!(change.what, ChangeKind::Join { .. }));
        created.extend(joins.map(|change| Some(change.at).filter(|&at| at <= now)));
        let lives = created.iter().zip(&core.replicas).filter_map(|(created, replica)| {
            let end = replica.life.gone().unwrap_or(now);
            created.filter(|&at| at <= end && replica.life.was_created()).map(|at| u128::from(end.since(at).0))
        });
        lives.sum()
    }
}
