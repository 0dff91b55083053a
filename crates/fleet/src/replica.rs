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
use crate::scaling::PodSample;
use crate::scaling::history::TtftCounts;
use crate::startup::{CrashLoop, LifeCycle, Prober, Stage};
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

    /// Its queue is full: it would turn away what is submitted.
    fn is_full(&self) -> bool {
        false
    }

    /// Turning somebody away takes `cost` of its time, before anything else starts.
    fn turn_away(&mut self, now: Nanos, cost: Nanos);

    /// Stops working for a sequence, waiting or running; false when it is not here, or is done. The loop has told what happened by `now`, and a step
    /// that ends at `now` has ended. `clock`: how far its own time has come, which is earlier while it stands still.
    fn cancel(&mut self, now: Nanos, clock: Nanos, id: SequenceId) -> bool;

    /// Of its time, what it has spent on a sequence by `clock`.
    fn spent(&self, clock: Nanos, id: SequenceId, of: &Spending) -> Nanos;

    /// Whatever is under way will never be done; the time it has taken by `clock` counts as spent.
    fn forfeit(&mut self, clock: Nanos);

    /// A step within a run of equal ones ends at this very instant: the run ends with it, at an instant that has come.
    fn ends_step(&mut self, _now: Nanos) -> bool {
        false
    }

    /// Cuts a run of equal steps at the first end of a step not before `now`.
    fn interrupt_run(&mut self, _now: Nanos) {}

    /// It stood still for `time`: what is under way ends so much later.
    fn stood_still(&mut self, time: Nanos);

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

    /// KV blocks with content, in use or not: what is lost when it goes.
    fn cached_blocks(&self) -> u32 {
        0
    }

    /// What it says of itself when asked.
    fn metrics(&self, into: &mut PolledSignals);

    /// What it has counted of its work, for the signals of autoscalers.
    fn counters(&self, into: &mut PodSample);

    /// Totals; assignments and lifetime are the loop's to fill in.
    fn stats(&self) -> ReplicaStats;
}

/// What the loop knows of a sequence whose work is to be priced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spending {
    pub(crate) prompt_tokens: u32,
    /// Of those, not computed: found in the cache or fetched.
    pub(crate) reused_tokens: u32,
    /// Output tokens it has produced.
    pub(crate) produced: u32,
    /// It is done.
    pub(crate) finished: bool,
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
    /// Nothing is there: not yet, or no longer.
    Vacant(Vacant),
}

/// The model of a place without a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Vacant {}

impl ReplicaModel for Vacant {
    fn turn_away(&mut self, _now: Nanos, _cost: Nanos) {}

    fn cancel(&mut self, _now: Nanos, _clock: Nanos, _id: SequenceId) -> bool {
        false
    }

    fn spent(&self, _clock: Nanos, _id: SequenceId, _of: &Spending) -> Nanos {
        Nanos::ZERO
    }

    fn forfeit(&mut self, _clock: Nanos) {}

    fn stood_still(&mut self, _time: Nanos) {}

    fn submit(&mut self, _now: Nanos, _request: SequenceRequest) -> Result<(), Refusal> {
        unreachable!("nobody routes to a place without a replica")
    }

    fn start(&mut self, _now: Nanos, _max_repeat: u32) {}

    fn next(&self) -> Next {
        Next::Idle
    }

    fn advance(&mut self, _now: Nanos, _events: &mut Vec<EngineEvent>) {}

    fn step(&self) -> u64 {
        0
    }

    fn idles_beside_work(&self) -> bool {
        false
    }

    fn metrics(&self, _into: &mut PolledSignals) {}

    fn counters(&self, _into: &mut PodSample) {}

    fn stats(&self) -> ReplicaStats {
        ReplicaStats::default()
    }
}

impl Model {
    pub(crate) fn get(&self) -> &dyn ReplicaModel {
        match self {
            Model::Engine(engine) => &**engine,
            Model::Server(server) => server,
            Model::Tick(tick) => tick,
            Model::Vacant(vacant) => vacant,
        }
    }

    pub(crate) fn get_mut(&mut self) -> &mut dyn ReplicaModel {
        match self {
            Model::Engine(engine) => &mut **engine,
            Model::Server(server) => server,
            Model::Tick(tick) => tick,
            Model::Vacant(vacant) => vacant,
        }
    }
}

/// How far a replica's start has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Boot {
    /// Position of the stage under way in the configuration's list; its length when all are over.
    pub(crate) at: u32,
    /// The link over which the stage under way transfers.
    pub(crate) link: Option<u32>,
    /// The driver is asked how long the stage under way takes.
    #[serde(default)]
    pub(crate) asked: bool,
}

/// One place of a fleet and the replica that lives there, if one does. Places are used again: the fleet's memory grows with what is there.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Replica {
    pub(crate) life: LifeCycle,
    pub(crate) model: Model,
    /// Attempts sent to the present one.
    pub(crate) assignments: u64,
    /// First tokens of the present one by TTFT, where autoscalers ask for them.
    pub(crate) ttft: Option<Box<TtftCounts>>,
    /// When the present one could first run.
    pub(crate) warm_at: Nanos,
    /// How far the present one's start has come.
    pub(crate) boot: Boot,
    /// It is kept beyond those asked for, without traffic.
    #[serde(default)]
    pub(crate) spare: bool,
    /// When its container last started, and how often in a row it was killed soon after.
    #[serde(default)]
    pub(crate) crashes: CrashLoop,
    /// Who asks it whether it lives.
    pub(crate) prober: Option<Prober>,
    /// What ails it at present.
    pub(crate) ailments: Ailments,
    /// Totals of those that lived here before.
    past: ReplicaStats,
}

/// Faults that a replica suffers from, each counted: they may overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ailments {
    /// It is down: its process is not there.
    pub(crate) down: u32,
    /// It stands still: nothing moves, and nothing is lost.
    pub(crate) frozen: u32,
    /// Since when.
    pub(crate) frozen_at: Nanos,
    /// The network between it and the routers is split.
    pub(crate) split: u32,
    /// When it was last found neither down nor still, and became so.
    #[serde(default)]
    pub(crate) away_from: Nanos,
    /// For how long it was down or stood still before that, while it existed.
    #[serde(default)]
    pub(crate) away_before: Nanos,
}

impl Ailments {
    fn is_away(&self) -> bool {
        self.down > 0 || self.frozen > 0
    }

    /// `change` is made to what ails it at `now`.
    pub(crate) fn change(&mut self, now: Nanos, change: impl FnOnce(&mut Ailments)) {
        let before = self.is_away();
        change(self);
        match (before, self.is_away()) {
            (false, true) => self.away_from = now,
            (true, false) => self.away_before += now.since(self.away_from),
            _ => {}
        }
    }

    /// For how long it has been down or stood still by `now`.
    pub(crate) fn away(&self, now: Nanos) -> Nanos {
        let present = if self.is_away() { now.since(self.away_from) } else { Nanos::ZERO };
        self.away_before + present
    }
}

impl Replica {
    /// Replica `index`, which notes changes of its cache when `kv_changes`.
    pub(crate) fn new(config: &FleetConfig, index: u32, kv_changes: bool) -> Result<Self, FleetError> {
        let (life, model) = if index < config.replicas {
            (LifeCycle::ready(Nanos::ZERO), build(config, index, kv_changes)?)
        } else if config.scaling.is_some() {
            (LifeCycle::planned(), Model::Vacant(Vacant {}))
        } else {
            (LifeCycle::planned(), build(config, index, kv_changes)?)
        };
        let ttft = config.scaling.as_ref().map(|_| Box::default());
        let probes = config.scaling.as_ref().and_then(|scaling| scaling.startup.probes);
        let prober = probes.filter(|_| life.is_there()).map(|probes| Prober::of_ready(probes, Nanos::ZERO));
        // Whoever is there at the start has started.
        let at = config.scaling.as_ref().map_or(0, |scaling| scaling.startup.stages.len() as u32);
        let boot = Boot { at, ..Boot::default() };
        let past = ReplicaStats::default();
        Ok(Replica {
            life,
            model,
            assignments: 0,
            ttft,
            warm_at: Nanos::ZERO,
            boot,
            spare: false,
            crashes: CrashLoop::default(),
            ailments: Ailments::default(),
            prober,
            past,
        })
    }

    /// New attempts may be sent to it, as far as its routers know: nobody tells them of a split network.
    pub(crate) fn may_be_routed_to(&self) -> bool {
        self.life.may_be_routed_to() && self.ailments.down == 0
    }

    /// It may run steps.
    pub(crate) fn may_run(&self) -> bool {
        self.life.may_run() && self.ailments.down == 0 && self.ailments.frozen == 0
    }

    /// Its process dies, and an empty one takes its place: whatever it had is gone.
    pub(crate) fn die(&mut self, now: Nanos, config: &FleetConfig, index: u32, kv_changes: bool) {
        let process = ReplicaStats { lifetime: Nanos::ZERO, ..self.present(now) };
        self.past = self.past.and(process);
        self.fill(config, index, kv_changes);
    }

    /// A new replica comes into being here, cold.
    pub(crate) fn create(&mut self, now: Nanos, config: &FleetConfig, index: u32, kv_changes: bool) {
        self.life.create(now);
        self.crashes = CrashLoop::default();
        self.fill(config, index, kv_changes);
    }

    /// Its process is killed and started again; its cache is gone.
    pub(crate) fn restart(&mut self, now: Nanos, config: &FleetConfig, index: u32, kv_changes: bool) {
        // The place lives on, so only what the process did is past.
        let process = ReplicaStats { lifetime: Nanos::ZERO, ..self.present(now) };
        self.past = self.past.and(process);
        self.life.restart(now);
        self.fill(config, index, kv_changes);
    }

    /// The replica that went leaves its place. Its totals stay.
    pub(crate) fn vacate(&mut self, now: Nanos) {
        self.past = self.past.and(self.present(now));
        self.model = Model::Vacant(Vacant {});
        self.assignments = 0;
        self.spare = false;
        self.prober = None;
    }

    /// It is created and has no node yet.
    pub(crate) fn waits_for_node(&self, config: &FleetConfig) -> bool {
        let stages = config.scaling.as_ref().map_or(&[][..], |scaling| &scaling.startup.stages);
        stages.get(self.boot.at as usize).is_some_and(|&(stage, _)| stage == Stage::Node)
    }

    fn fill(&mut self, config: &FleetConfig, index: u32, kv_changes: bool) {
        // The same settings built replicas when the fleet was made.
        if let Ok(model) = build(config, index, kv_changes) {
            self.model = model;
        }
        self.assignments = 0;
        if let Some(ttft) = &mut self.ttft {
            ttft.fill(0);
        }
    }

    /// Totals of the one that lives here.
    fn present(&self, now: Nanos) -> ReplicaStats {
        ReplicaStats { assignments: self.assignments, lifetime: self.life.lifetime(now), ..self.model.get().stats() }
    }

    /// Totals of all that ever lived here.
    pub(crate) fn stats(&self, now: Nanos) -> ReplicaStats {
        match &self.model {
            Model::Vacant(_) => self.past,
            _ => self.past.and(self.present(now)),
        }
    }
}

fn build(config: &FleetConfig, index: u32, kv_changes: bool) -> Result<Model, FleetError> {
    Ok(match &config.replica {
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
    })
}
