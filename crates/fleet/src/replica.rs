//! What a replica is to the event loop.
//!
//! A model is a small machine on virtual time: it takes sequences, starts what it can, says when it next changes by itself, and at
//! that instant tells what happened. Between those instants only the loop changes it. Three models exist: [`engine`] (paged
//! KV, continuous batching), [`server`] (drawn service times, for checks against queueing theory) and [`tick`] (a memory of
//! a few prefixes, for teaching).

pub(crate) mod engine;
pub mod server;
pub mod tick;

use crate::config::{FleetConfig, ReplicaConfig};
use crate::error::FleetError;
use crate::record::ReplicaStats;
use crate::startup::LifeCycle;
use crate::telemetry::PolledSignals;
use engine::EngineReplica;
use serde::{Deserialize, Serialize};
use servelab_engine::{
    BlockKey, EngineConfig, EngineEvent, FinishReason, KvChange, Nanos, Prompt, Refusal, SequenceId, SequenceRequest,
};
use server::ServerReplica;
use tick::TickReplica;

/// A replica model. Instants given to it never run back.
pub(crate) trait ReplicaModel {
    /// Takes a sequence into its queue.
    fn submit(&mut self, now: Nanos, request: SequenceRequest) -> Result<(), Refusal>;

    /// Starts whatever can start at `now`. The loop calls it once everything else of that instant has happened.
    fn start(&mut self, now: Nanos, max_repeat: u32);

    /// When it next changes by itself.
    fn next(&self) -> Next;

    /// The instant of [`Next::At`] has come: appends what happened.
    fn advance(&mut self, now: Nanos, events: &mut Vec<EngineEvent>);

    /// Number of the step that [`ReplicaModel::advance`] would end, counted from 0.
    fn step(&self) -> u64;

    /// Several steps are under way as one, so that [`ReplicaModel::produced`] may be more than 0.
    fn runs_ahead(&self) -> bool {
        false
    }

    /// Tokens produced by `now` that no event has told yet: those of the finished steps of a run in flight; and the instant at which that
    /// number next grows.
    fn produced(&self, _now: Nanos) -> (u64, Nanos) {
        (0, Nanos::MAX)
    }

    /// Appends what has happened by `now` within whatever is under way, which goes on from the step in progress.
    fn split(&mut self, _now: Nanos, _events: &mut Vec<EngineEvent>) {}

    /// Nothing is under way although something could be.
    fn idles_beside_work(&self) -> bool;

    /// Generated token ids of a sequence in flight or just finished.
    fn output(&self, _id: SequenceId) -> &[u32] {
        &[]
    }

    /// Appends what has changed in its KV cache since the last call.
    fn drain_kv_changes(&mut self, _changes: &mut Vec<KvChange>) {}

    /// Appends the prompt blocks that committed steps have filled since the last call.
    fn drain_filled(&mut self, _keys: &mut Vec<BlockKey>) {}

    /// Prompt tokens that it would find cached now.
    fn cached_tokens(&self, _prompt: &Prompt) -> u32 {
        0
    }

    /// What it says of itself when asked.
    fn metrics(&self, into: &mut PolledSignals);

    /// Totals; assignments and lifetime are the loop's to fill in.
    fn stats(&self) -> ReplicaStats;
}

/// The events of an answer that a model without steps tells all at once, at its end.
fn tell_whole_answer(id: SequenceId, output_tokens: u32, max_tokens: u32, events: &mut Vec<EngineEvent>) {
    let reason = if output_tokens < max_tokens { FinishReason::EndOfText } else { FinishReason::Length };
    events.push(EngineEvent::FirstToken { id });
    events.push(EngineEvent::Tokens { id, count: output_tokens });
    events.push(EngineEvent::Finished { id, output_tokens, reason });
}

/// When a model next changes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Not before something is submitted or started.
    Idle,
    /// At this instant.
    At(Nanos),
    /// When a driver has executed its step.
    Executing,
}

/// The models, dispatched by hand so that they can be saved.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Model {
    Engine(Box<EngineReplica>),
    Server(ServerReplica),
    Tick(TickReplica),
}

impl Model {
    pub(crate) fn get(&self) -> &dyn ReplicaModel {
        match self {
            Model::Engine(engine) => &**engine,
            Model::Server(server) => server,
            Model::Tick(tick) => tick,
        }
    }

    pub(crate) fn get_mut(&mut self) -> &mut dyn ReplicaModel {
        match self {
            Model::Engine(engine) => &mut **engine,
            Model::Server(server) => server,
            Model::Tick(tick) => tick,
        }
    }
}

/// One replica of a fleet.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Replica {
    pub(crate) life: LifeCycle,
    pub(crate) model: Model,
    /// Attempts sent to it.
    pub(crate) assignments: u64,
}

impl Replica {
    /// Replica `index`, which notes changes of its cache when `kv_changes`.
    pub(crate) fn new(config: &FleetConfig, index: u32, kv_changes: bool) -> Result<Self, FleetError> {
        let model = match &config.replica {
            ReplicaConfig::Engine { engine, cost, executed, charge_measured } => {
                let write_through = config.store.is_some();
                let engine = EngineConfig { kv_changes, write_through, materialise: *executed, ..engine.clone() };
                let cost = match config.slowness(index) {
                    1.0 => *cost,
                    slow => cost.scaled(slow),
                };
                Model::Engine(Box::new(EngineReplica::new(engine, cost, *executed, *charge_measured)?))
            }
            ReplicaConfig::Server(server) => Model::Server(ServerReplica::new(*server, config.seed)?),
            ReplicaConfig::Tick(tick) => Model::Tick(TickReplica::new(*tick)?),
        };
        let life = if index < config.replicas { LifeCycle::ready(Nanos::ZERO) } else { LifeCycle::planned() };
        Ok(Replica { life, model, assignments: 0 })
    }

    pub(crate) fn stats(&self, now: Nanos) -> ReplicaStats {
        ReplicaStats { assignments: self.assignments, lifetime: self.life.lifetime(now), ..self.model.get().stats() }
    }
}
