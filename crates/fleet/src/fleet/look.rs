//! What can be seen of a fleet.

use super::flow::Flow;
use super::{DecisionRecord, Fleet};
use crate::config::FleetConfig;
use crate::record::{Counts, Fates, FirstSight, ReplicaStats, RequestRecord, Work};
use crate::scaling::{Over, Signal};
use crate::store::{KvStore, StoreStats};
use servelab_engine::Nanos;
use servelab_workload::{Source, Workload};

impl Fleet {
    /// The clock.
    pub fn now(&self) -> Nanos {
        self.core.now
    }

    /// When something next happens after a poll came back; `None` when nothing will, or while a step is out for execution. Runs of
    /// equal steps are split at the present instant, so the answer is the end of a single step.
    pub fn next_event_time(&mut self) -> Option<Nanos> {
        if self.executing.is_some() || self.core.done {
            return None;
        }
        self.show_runs();
        self.next_event().map(|(at, _)| at)
    }

    /// Every request has ended or the horizon is reached.
    pub fn is_done(&self) -> bool {
        self.core.done
    }

    /// Hands out the records of requests that ended since the last call, in order of their ends.
    pub fn take_ended(&mut self, each: &mut dyn FnMut(&RequestRecord)) {
        self.core.ended.iter().for_each(each);
        self.core.ended.clear();
    }

    /// How many requests came to which end so far.
    pub fn counts(&self) -> Counts {
        self.core.counts
    }

    /// What became of attempts so far.
    pub fn fates(&self) -> &Fates {
        &self.core.fates
    }

    /// What replicas have spent on attempts that have ended.
    pub fn work(&self) -> Work {
        self.core.work
    }

    /// Prompt tokens of the requests admitted so far, and those of them that were reused, each request counted once.
    pub fn first_sight(&self) -> FirstSight {
        self.core.first_sight
    }

    /// What became of attempts over time.
    pub fn flow(&self) -> &Flow {
        &self.core.flow
    }

    /// Requests in flight that have not ended, turns that wait for the one before included.
    pub fn waiting(&self) -> u64 {
        self.core.flights.open + self.core.clients.held()
    }

    /// Requests of the workload, arrived or not.
    pub fn total_requests(&self) -> u32 {
        self.core.source.total()
    }

    /// Each replica's totals by now.
    pub fn replica_stats(&self) -> impl ExactSizeIterator<Item = ReplicaStats> + '_ {
        self.core.replicas.iter().map(|replica| replica.stats(self.core.now))
    }

    /// What the store has done so far; `None` without one.
    pub fn store_stats(&self) -> Option<StoreStats> {
        self.core.store.as_ref().map(KvStore::stats)
    }

    /// The latest decision about a request, if it is among the last 32.
    pub fn decision(&self, request: u32) -> Option<DecisionRecord> {
        self.core.decisions.about(request)
    }

    /// Explains how `request` will be routed: its [`DecisionRecord::offers`] are recorded. Ask before it arrives.
    pub fn explain(&mut self, request: u32) {
        self.explain = Some(request);
    }

    /// Tokens a request has produced so far, when somebody computed them; `None` unless it is at a replica.
    pub fn output(&self, request: u32) -> Option<&[u32]> {
        let flights = &self.core.flights;
        let (_, attempt) = flights.attempts.iter().find(|(_, attempt)| {
            attempt.was_sent() && flights.requests.get(attempt.request).is_some_and(|flight| flight.index == request)
        })?;
        Some(self.core.replicas[attempt.replica as usize].model.get().output(attempt.id))
    }

    /// The source, as far as it has been read.
    pub fn source(&self) -> &Source {
        &self.core.source
    }

    /// What the latest scrape of scaling made of `signal`, over the whole fleet: a sum or a mean, as [`Signal::adds_up`] says.
    pub fn scaling_signal(&self, signal: Signal, over: Over) -> Option<f64> {
        self.core.scaler.as_ref()?.history.fleet(signal, over)
    }

    /// Replicas that take requests.
    pub fn ready(&self) -> u32 {
        self.core.replicas.iter().filter(|replica| replica.life.may_be_routed_to()).count() as u32
    }

    /// Its settings.
    pub fn config(&self) -> &FleetConfig {
        &self.core.config
    }
}
