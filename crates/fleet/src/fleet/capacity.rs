//! What became of the time that replicas had.

use super::Fleet;
use super::flights::Where;
use crate::replica::Model;
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;

/// Where the capacity went, in replica seconds (of a server: slot seconds). The parts sum to `total`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// What replicas had: their lifetimes, times the slots of a server.
    pub total: f64,
    /// For answers that somebody waited for.
    pub useful: f64,
    /// For attempts that nobody waited for, or that were lost.
    pub wasted: f64,
    /// For turning attempts away.
    pub refusing: f64,
    /// For attempts that have not ended.
    pub unfinished: f64,
    /// Lost while replicas were down or stood still.
    #[serde(default)]
    pub down: f64,
    /// For nothing.
    pub idle: f64,
}

impl Fleet {
    /// Where the capacity went so far. Of engines the time of steps is split in proportion to what the tokens of useful, wasted and unfinished attempts
    /// cost by themselves; of servers and of replicas in ticks it is exact.
    pub fn capacity(&self) -> Capacity {
        let core = &self.core;
        let slots = f64::from(core.config.server_slots());
        let engines = core.replicas.iter().any(|replica| matches!(replica.model, Model::Engine(_)));
        let (mut total, mut worked, mut refusing, mut away) = (-core.lacked.as_secs(), 0.0, 0.0, 0.0);
        for (stats, replica) in self.replica_stats().zip(&core.replicas) {
            total += stats.lifetime.as_secs() * slots;
            // Of a place where nobody lived yet nothing is lost.
            away += replica.ailments.away(core.now).min(stats.lifetime).as_secs() * slots;
            worked += stats.worked.as_secs();
            refusing += stats.refusing.as_secs();
        }
        let attempts = core.flights.attempts.iter().filter(|(_, attempt)| attempt.at == Where::Replica);
        let open = attempts.fold(Nanos::ZERO, |sum, (_, attempt)| sum + self.spent(attempt, false));
        let (useful, wasted) = (core.work.useful.as_secs(), (core.work.abandoned + core.work.lost).as_secs());
        let parts = useful + wasted + open.as_secs();
        // The time of attempts in servers is counted when they end, that of steps when the steps do.
        let scale = if !engines || parts == 0.0 { 1.0 } else { (worked - refusing) / parts };
        let (useful, wasted, unfinished) = (useful * scale, wasted * scale, open.as_secs() * scale);
        let rest = (total - useful - wasted - refusing - unfinished).max(0.0);
        let down = away.min(rest);
        Capacity { total, useful, wasted, refusing, unfinished, down, idle: rest - down }
    }
}
