//! The engine as its drivers see it.
//!
//! A driver calls [`Engine::plan`], computes or prices the step, and calls [`Engine::commit`] at the step's virtual
//! end. In between, the step is *in flight*: requests may arrive, sequences may be cancelled, and the whole step may
//! be aborted.
//!
//! A planned step may stand for a run of equal decode steps. Something that happens during the run interrupts it: the
//! driver works out which step of the run is in progress (the `j`-th, from the cost model), calls
//! [`Engine::truncate`] with `j`, tells the engine what happened, and commits at the end of that step. The result is
//! the same as if every step had been planned alone.

use crate::adapters::Adapters;
use crate::config::{ConfigError, EngineConfig};
use crate::error::Refusal;
use crate::events::EngineEvent;
use crate::invariants::InvariantViolation;
use crate::kv::{BlockView, KvBlocks, KvChange};
use crate::plan::StepPlan;
use crate::pool::NONE;
use crate::prompt::{BlockKey, Prompt};
use crate::queue::Pace;
use crate::request::{SequenceId, SequenceRequest};
use crate::sequence::{Sequence, SequenceView, Sequences};
use crate::stats::EngineStats;
use crate::time::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// One replica's engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "crate::saved::SavedEngine")]
pub struct Engine {
    pub(crate) config: EngineConfig,
    pub(crate) kv: KvBlocks,
    pub(crate) sequences: Sequences,
    /// Places of waiting sequences, the next to be admitted first.
    pub(crate) waiting: VecDeque<u32>,
    /// Places of running sequences, in order of admission.
    pub(crate) running: Vec<u32>,
    pub(crate) flight: Flight,
    pub(crate) adapters: Adapters,
    pub(crate) stats: EngineStats,
    /// What happened since the last commit.
    pub(crate) pending: Vec<EngineEvent>,
    /// Generated tokens of the sequences that the last commit finished.
    pub(crate) finished: Vec<(SequenceId, Vec<u32>)>,
    /// Prompt blocks that committed steps have filled, not yet drained.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) filled: Vec<BlockKey>,
    pub(crate) now: Nanos,
    #[serde(skip_serializing_if = "Pace::is_unused")]
    pub(crate) pace: Pace,
    #[serde(skip)]
    pub(crate) scratch: Scratch,
}

/// The step in flight.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Flight {
    pub(crate) flying: bool,
    pub(crate) plan: StepPlan,
    /// Place of each item's sequence; [`NONE`] once it was cancelled.
    pub(crate) places: Vec<u32>,
    /// Sequences that this step admitted, in order.
    pub(crate) admitted: Vec<u32>,
    /// Whether each of them was admitted before.
    pub(crate) readmitted: Vec<bool>,
    /// Blocks that this step fills.
    pub(crate) published: Vec<u32>,
    /// Adapters that this step loads.
    #[serde(default)]
    pub(crate) loaded: Vec<u32>,
}

/// Buffers and hints that are not state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) hits: Vec<u32>,
    pub(crate) order: Vec<(u32, u32)>,
    /// The head of the queue that did not fit, the blocks' epoch and the token budget then.
    pub(crate) blocked: Option<(u32, u64, u32)>,
    /// When fetches of waiting sequences end, soonest first; those that have ended by the latest plan left out.
    pub(crate) fetches: VecDeque<Nanos>,
}

impl Engine {
    /// An empty engine.
    ///
    /// # Errors
    /// When a setting is out of range.
    pub fn new(config: EngineConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let kv = KvBlocks::new(config.blocks, config.kv_changes);
        let stats = EngineStats { total_blocks: config.blocks, ..EngineStats::default() };
        Ok(Engine {
            kv,
            sequences: Sequences::default(),
            waiting: VecDeque::new(),
            running: Vec::with_capacity(config.max_batch.min(1024) as usize),
            flight: Flight::default(),
            adapters: Adapters::default(),
            stats,
            pending: Vec::new(),
            finished: Vec::new(),
            filled: Vec::new(),
            now: Nanos::ZERO,
            pace: Pace::default(),
            scratch: Scratch::default(),
            config,
        })
    }

    /// Its settings.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// Takes a request into the waiting queue. Allowed while a step is in flight; when that is a run of
    /// equal steps and [`Engine::arrival_interrupts`], truncate it first.
    ///
    /// # Errors
    /// [`Refusal`] when the request contradicts itself, is here already, could never be served by this engine, or when the queue is full.
    pub fn submit(&mut self, now: Nanos, request: SequenceRequest) -> Result<(), Refusal> {
        self.advance(now);
        if let Err(refusal) = self.admissible(&request) {
            self.stats.refused += 1;
            return Err(refusal);
        }
        self.stats.prefill_backlog += u64::from(request.prompt.len);
        let place = self.sequences.insert(Sequence::new(request, now));
        self.waiting.push_back(place);
        self.stats.submitted += 1;
        self.after_change();
        Ok(())
    }

    /// Whether [`Engine::submit`] would take this request.
    ///
    /// # Errors
    /// Why it would not.
    pub fn admissible(&self, request: &SequenceRequest) -> Result<(), Refusal> {
        self.config.can_serve(request)?;
        match self.sequences.place(request.id) {
            Some(_) => Err(Refusal::Duplicate { id: request.id }),
            None => self.queue_admits(request),
        }
    }

    /// Removes a sequence, waiting or running, and frees its blocks; false when it is not here. If it is part of the
    /// step in flight, that part of the result is dropped at commit; what it has filled of the cache stays.
    ///
    /// In a run of equal steps, truncate to the step in progress first: the steps before it then count as done.
    pub fn cancel(&mut self, now: Nanos, id: SequenceId) -> bool {
        self.advance(now);
        let Some(place) = self.sequences.place(id) else { return false };
        if let Some(at) = self.waiting.iter().position(|&other| other == place) {
            self.waiting.remove(at);
            self.drop_fetch(place);
            // Its place may go to another, which is not blocked.
            self.scratch.blocked = None;
        } else {
            if self.flight.places.contains(&place) {
                self.settle_run();
            }
            self.running.retain(|&other| other != place);
            for flying in &mut self.flight.places {
                if *flying == place {
                    *flying = NONE;
                }
            }
            if let Some(at) = self.flight.admitted.iter().position(|&other| other == place) {
                self.flight.admitted.remove(at);
                self.flight.readmitted.remove(at);
            }
        }
        if let Some(mut sequence) = self.sequences.remove(place) {
            self.kv.release_all(&mut sequence.table);
            if sequence.outputs == 0 {
                self.stats.prefill_backlog -= u64::from(sequence.request.prompt.len);
            }
        }
        self.stats.cancelled += 1;
        self.after_change();
        true
    }

    /// The next step, or `None` when there is nothing to run (or a step is in flight already, or everybody waits for a fetch). The step is in flight
    /// until [`Engine::commit`] or [`Engine::abort`].
    ///
    /// With `max_repeat` above 1 the answer may be a run of up to that many equal decode steps
    /// ([`StepPlan::repeat`]); never when plans are materialised.
    pub fn plan(&mut self, now: Nanos, max_repeat: u32) -> Option<&StepPlan> {
        self.advance(now);
        if self.flight.flying || self.sequences.len() == 0 {
            return None;
        }
        self.land_fetches(now);
        self.schedule(now, max_repeat);
        self.after_change();
        self.in_flight()
    }

    /// The step in flight.
    pub fn in_flight(&self) -> Option<&StepPlan> {
        self.flight.flying.then_some(&self.flight.plan)
    }

    /// Whether a request that arrives now could be admitted before the run of equal steps in flight is over, so that
    /// the run must be truncated to the step in progress. Ask before submitting. Nobody is admitted while the batch
    /// is full or another request waits (it did not fit, and nothing in the run makes room), unless what it waits for is a slot for its
    /// adapter or a fetch, which a newcomer may not need.
    pub fn arrival_interrupts(&self) -> bool {
        self.flight.flying
            && self.flight.plan.repeat > 1
            && (self.waiting.is_empty() || self.config.adapter_slots > 0 || !self.scratch.fetches.is_empty())
            && self.running.len() < self.config.max_batch as usize
    }

    /// Shortens the run of equal steps in flight to its first `repeat` steps (at least 1); longer or no run is left
    /// alone.
    pub fn truncate(&mut self, repeat: u32) {
        let plan = &mut self.flight.plan;
        plan.repeat = plan.repeat.min(repeat.max(1));
    }

    /// Appends what has happened but was not delivered yet, as [`Engine::commit`] would: for somebody who will not
    /// commit.
    pub fn drain_events(&mut self, events: &mut Vec<EngineEvent>) {
        events.append(&mut self.pending);
    }

    /// Appends what has changed in the cache since the last call, in order; nothing unless
    /// [`EngineConfig::kv_changes`]. Content is findable from the moment a step is planned that will fill it.
    pub fn drain_kv_changes(&mut self, changes: &mut Vec<KvChange>) {
        self.kv.drain_changes(changes);
    }

    /// Prompt tokens that would be found in the cache now: leading full blocks, at least one token left to compute.
    pub fn cached_tokens(&self, prompt: &Prompt) -> u32 {
        if !self.config.prefix_cache {
            return 0;
        }
        let most = prompt.len.saturating_sub(1) / self.config.block_tokens;
        let found = (0..most).take_while(|&at| prompt.key(at).is_some_and(|key| self.kv.find(key).is_some()));
        found.count() as u32 * self.config.block_tokens
    }

    /// Statistics.
    pub fn stats(&self) -> &EngineStats {
        &self.stats
    }

    /// Waiting sequences, the next to be admitted first.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = SequenceView> + '_ {
        self.waiting.iter().map(|&place| self.view(place))
    }

    /// Running sequences in order of admission.
    pub fn running(&self) -> impl ExactSizeIterator<Item = SequenceView> + '_ {
        self.running.iter().map(|&place| self.view(place))
    }

    fn view(&self, place: u32) -> SequenceView {
        match self.sequences.get(place) {
            Some(sequence) => sequence.view(),
            None => unreachable!("place {place} is vacant"),
        }
    }

    /// All blocks, by number.
    pub fn blocks(&self) -> impl ExactSizeIterator<Item = BlockView> + '_ {
        self.kv.views()
    }

    /// Nothing waits, runs or is in flight.
    pub fn is_idle(&self) -> bool {
        self.sequences.len() == 0 && !self.flight.flying
    }

    /// Generated token ids so far, as far as somebody computed them; of a finished sequence until the next commit.
    pub fn output(&self, id: SequenceId) -> Option<&[u32]> {
        if let Some(place) = self.sequences.place(id) {
            return self.sequences.get(place).map(|sequence| sequence.output.as_slice());
        }
        self.finished.iter().find(|(other, _)| *other == id).map(|(_, tokens)| tokens.as_slice())
    }

    /// Checks every invariant of [`crate::invariants`]; done after every call in debug builds.
    ///
    /// # Errors
    /// The first violation found.
    pub fn check(&self) -> Result<(), InvariantViolation> {
        crate::invariants::check(self)
    }

    pub(crate) fn advance(&mut self, now: Nanos) {
        debug_assert!(now >= self.now, "time runs back from {:?} to {now:?}", self.now);
        self.now = self.now.max(now);
    }

    /// Brings gauges and peaks up to date, and in debug builds checks everything.
    pub(crate) fn after_change(&mut self) {
        let stats = &mut self.stats;
        stats.waiting = self.waiting.len() as u32;
        stats.running = self.running.len() as u32;
        stats.used_blocks = self.kv.used();
        stats.reusable_blocks = self.kv.reusable();
        stats.evictions = self.kv.evictions;
        stats.peak_used_blocks = self.kv.peak_used;
        stats.peak_waiting = stats.peak_waiting.max(stats.waiting);
        stats.peak_running = stats.peak_running.max(stats.running);
        debug_assert_eq!(self.check(), Ok(()));
    }
}
