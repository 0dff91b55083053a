//! The engine as a replica: steps, what they are charged, and runs of equal steps.
//!
//! A priced step's end is known when it is planned. A run of k equal decode steps is one flight whose step boundaries follow
//! from the cost model's closed form, so "how many steps are done by now" and "where does the step in progress end" are binary searches
//! and nothing is simulated. A fetch that ends while nothing runs wakes the replica; one that ends during a run cuts it, as an arrival would. So does the end of somebody's time to live in
//! the queue. An executed step's end is known once its driver has said what it took.

mod recent;

use super::{Next, ReplicaModel, Spending};
use crate::error::FleetError;
use crate::record::ReplicaStats;
use crate::scaling::PodSample;
use crate::telemetry::PolledSignals;
use serde::{Deserialize, Serialize};
use servelab_engine::{
    BlockKey, CostClock, CostModel, Engine, EngineConfig, EngineEvent, KvChange, Nanos, Picos, Prompt, Refusal,
    SequenceId, SequenceRequest, StepOutput, StepPlan, StepWork,
};
use std::collections::VecDeque;

/// Steps kept for pictures.
const RECENT: usize = 24;

/// An engine, its clock and its prices.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EngineReplica {
    pub(crate) engine: Engine,
    cost: CostModel,
    executed: bool,
    charge_measured: bool,
    clock: CostClock,
    flight: Option<Flight>,
    /// When a fetch ends, or somebody's time to live, while all that is here waits for fetches.
    #[serde(default)]
    wake: Option<Nanos>,
    /// Time that turning attempts away will take once the step in flight is over.
    #[serde(default)]
    debt: Nanos,
    /// From when to when it is busy turning attempts away.
    #[serde(default)]
    chore: Option<(Nanos, Nanos)>,
    #[serde(default)]
    refusing: Nanos,
    /// The result of an executed step, between execution and its virtual end.
    output: StepOutput,
    busy: Nanos,
    /// The latest runs that ended, newest last: together at least [`RECENT`] steps, if there were so many.
    recent: VecDeque<Run>,
}

/// The step or run in flight.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flight {
    start: Nanos,
    /// What it is charged; `None` while a driver executes it.
    cost: Option<Picos>,
    /// When it ends; [`Nanos::MAX`] while a driver executes it.
    end: Nanos,
}

/// Steps that ended, as needed to draw each of them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    start: Nanos,
    end: Nanos,
    clock: CostClock,
    work: StepWork,
    repeat: u32,
}

impl EngineReplica {
    pub(crate) fn new(
        config: EngineConfig,
        cost: CostModel,
        executed: bool,
        charge_measured: bool,
    ) -> Result<Self, FleetError> {
        Ok(EngineReplica {
            engine: Engine::new(config)?,
            cost,
            executed,
            charge_measured,
            clock: CostClock::default(),
            flight: None,
            wake: None,
            debt: Nanos::ZERO,
            chore: None,
            refusing: Nanos::ZERO,
            output: StepOutput::default(),
            busy: Nanos::ZERO,
            recent: VecDeque::new(),
        })
    }

    /// What computing tokens `from` to `to` of a prompt is charged, the steps they are in left out.
    pub(crate) fn prefill_cost(&self, from: u32, to: u32) -> Picos {
        self.cost.prefill(from, to.saturating_sub(from))
    }

    /// The step out for execution.
    pub(crate) fn plan(&self) -> Option<&StepPlan> {
        self.flight.filter(|flight| flight.cost.is_none()).and_then(|_| self.engine.in_flight())
    }

    /// A driver has executed the step.
    pub(crate) fn executed(&mut self, output: StepOutput) -> Result<(), servelab_engine::CommitError> {
        let Some(plan) = self.engine.in_flight() else {
            return Err(servelab_engine::CommitError::NothingInFlight);
        };
        let expected = plan.items.iter().filter(|item| item.sample).count() as u32;
        if output.tokens.len() as u32 != expected {
            let got = output.tokens.len() as u32;
            return Err(servelab_engine::CommitError::TokenCount { step: plan.step, expected, got });
        }
        let cost = match output.seconds {
            Some(seconds) if self.charge_measured => Picos::from_secs(seconds),
            _ => self.cost.step(&plan.work),
        };
        if let Some(flight) = &mut self.flight {
            flight.cost = Some(cost);
            flight.end = flight.start + self.clock.preview(cost);
        }
        self.output = output;
        Ok(())
    }

    /// All K and V are gone: the step in flight never happened and everything running is computed again.
    pub(crate) fn lose_device(&mut self, events: &mut Vec<EngineEvent>) {
        self.flight = None;
        self.output = StepOutput::default();
        self.engine.forget_kv();
        self.engine.drain_events(events);
    }

    /// End of the first `steps` steps of the flight, from its start.
    fn boundary(&self, work: &StepWork, steps: u32) -> Nanos {
        self.clock.preview(self.cost.run(work, steps))
    }

    /// Steps of the run in flight that have ended by `now`.
    fn steps_done(&self, now: Nanos) -> u32 {
        let (Some(flight), Some(plan)) = (&self.flight, self.engine.in_flight()) else { return 0 };
        if plan.repeat <= 1 {
            return u32::from(now >= flight.end);
        }
        self.cost.run_cost(&plan.work).steps_over(plan.repeat, &self.clock, now.since(flight.start))
    }

    /// Cuts the run in flight at the first step boundary not before `now`.
    fn interrupt(&mut self, now: Nanos) {
        let (Some(flight), Some(plan)) = (&self.flight, self.engine.in_flight()) else { return };
        if plan.repeat <= 1 {
            return;
        }
        let done = self.steps_done(now);
        let exact = done > 0 && flight.start + self.boundary(&plan.work, done) == now;
        let steps = if exact { done } else { done + 1 };
        if steps >= plan.repeat {
            return;
        }
        let cost = self.cost.run(&plan.work, steps);
        let end = flight.start + self.clock.preview(cost);
        self.engine.truncate(steps);
        if let Some(flight) = &mut self.flight {
            flight.cost = Some(cost);
            flight.end = end;
        }
    }

    /// A run ends where somebody has waited too long.
    fn cut_at_expiry(&mut self) {
        if let Some(at) = self.engine.next_expiry() {
            self.interrupt(at);
        }
    }

    fn remember(&mut self, run: Run) {
        self.recent.push_back(run);
        // The oldest run may go when the others hold enough steps; a run is at least one step.
        while self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }
}

impl ReplicaModel for EngineReplica {
    fn submit(&mut self, now: Nanos, request: SequenceRequest) -> Result<(), Refusal> {
        self.engine.admissible(&request)?;
        self.wake = None;
        if self.engine.arrival_interrupts() {
            self.interrupt(now);
        }
        self.engine.submit(now, request)?;
        self.cut_at_expiry();
        Ok(())
    }

    fn turn_away(&mut self, now: Nanos, cost: Nanos) {
        if cost > Nanos::ZERO {
            self.debt += cost;
            self.interrupt(now);
        }
    }

    fn cancel(&mut self, now: Nanos, _clock: Nanos, id: SequenceId) -> bool {
        // Whoever waits behind it may be next, so a run of steps in which nobody could come in is over.
        self.interrupt(now);
        self.wake = None;
        self.engine.cancel(now, id)
    }

    /// What its tokens cost by themselves: the part of a step that is the same for every batch is nobody's.
    fn spent(&self, _clock: Nanos, id: SequenceId, of: &Spending) -> Nanos {
        let computed = match of.finished || of.produced > 0 {
            true => of.prompt_tokens,
            false => self.engine.running().find(|view| view.id == id).map_or(0, |view| view.computed_tokens),
        };
        let prefill =
            self.cost.prefill(of.reused_tokens, computed.min(of.prompt_tokens).saturating_sub(of.reused_tokens));
        // The first token comes with the prefill; each further one reads everything before it.
        let decodes = u64::from(of.produced.saturating_sub(1));
        let (from, to) = (u64::from(of.prompt_tokens) + 1, u64::from(of.prompt_tokens) + decodes);
        let context = (from + to) * decodes / 2;
        let decode = self.cost.decode_sequence * decodes + self.cost.decode_context * context;
        Nanos((prefill.0 + decode) / 1000)
    }

    fn forfeit(&mut self, clock: Nanos) {
        if let Some((start, _)) = self.chore.take() {
            self.busy += clock.since(start);
            self.refusing += clock.since(start);
        }
        (self.debt, self.flight, self.wake) = (Nanos::ZERO, None, None);
    }

    fn ends_step(&mut self, now: Nanos) -> bool {
        if self.engine.in_flight().is_none_or(|plan| plan.repeat <= 1) {
            return false;
        }
        let (done, Some(plan), Some(flight)) = (self.steps_done(now), self.engine.in_flight(), self.flight) else {
            return false;
        };
        // The last end of a run is an event of its own.
        if done == 0 || done >= plan.repeat || flight.start + self.boundary(&plan.work, done) != now {
            return false;
        }
        self.interrupt(now);
        true
    }

    fn interrupt_run(&mut self, now: Nanos) {
        self.interrupt(now);
    }

    fn stood_still(&mut self, time: Nanos) {
        if let Some(flight) = &mut self.flight {
            (flight.start, flight.end) = (flight.start + time, flight.end + time);
        }
        if let Some((start, end)) = &mut self.chore {
            (*start, *end) = (*start + time, *end + time);
        }
        // Fetches went on, and so did the time to live of those that wait: the engine is asked again.
        self.wake = None;
    }

    fn start(&mut self, now: Nanos, max_repeat: u32) {
        if self.flight.is_none() && self.chore.is_none() && self.debt > Nanos::ZERO {
            self.chore = Some((now, now + std::mem::take(&mut self.debt)));
        }
        if self.chore.is_some() {
            return;
        }
        // Asked again before anything has changed, the engine would say the same.
        let sleeps = self.wake.is_some_and(|at| at > now);
        if self.flight.is_some() || sleeps || self.engine.is_idle() {
            return;
        }
        // Whoever waited too long before this replica could run goes first; that is told as an event.
        if self.engine.next_expiry().is_some_and(|at| at <= now) {
            self.wake = Some(now);
            return;
        }
        let max_repeat = if self.executed { 1 } else { max_repeat };
        let Some(plan) = self.engine.plan(now, max_repeat) else {
            self.wake = self.engine.next_fetch().into_iter().chain(self.engine.next_expiry()).min();
            return;
        };
        let cost = (!self.executed).then(|| self.cost.run(&plan.work, plan.repeat));
        let end = cost.map_or(Nanos::MAX, |cost| now + self.clock.preview(cost));
        self.flight = Some(Flight { start: now, cost, end });
        if self.engine.fetch_interrupts()
            && let Some(at) = self.engine.next_fetch()
        {
            self.interrupt(at);
        }
        self.cut_at_expiry();
    }

    fn next(&self) -> Next {
        if let Some((_, end)) = self.chore {
            return Next::At(end);
        }
        match &self.flight {
            None => self.wake.map_or(Next::Idle, Next::At),
            Some(flight) if flight.cost.is_none() => Next::Executing,
            Some(flight) => Next::At(flight.end),
        }
    }

    fn advance(&mut self, now: Nanos, events: &mut Vec<EngineEvent>) {
        self.wake = None;
        if let Some((start, end)) = self.chore.take() {
            self.busy += end.since(start);
            self.refusing += end.since(start);
            return;
        }
        let Some(Flight { start, cost: Some(cost), end }) = self.flight.take() else {
            return self.engine.expire(now, events);
        };
        debug_assert_eq!(now, end, "a step is committed at its end");
        if let Some(plan) = self.engine.in_flight() {
            let run = Run { start, end, clock: self.clock, work: plan.work, repeat: plan.repeat };
            self.remember(run);
        }
        self.busy += self.clock.charge(cost);
        let committed = self.engine.commit(now, &self.output, events);
        debug_assert_eq!(committed, Ok(()), "the result was checked when it was handed in");
        self.output.tokens.clear();
        self.output.seconds = None;
        self.engine.expire(now, events);
    }

    fn step(&self) -> u64 {
        self.engine.in_flight().map_or(0, |plan| plan.step + u64::from(plan.repeat.max(1)) - 1)
    }

    fn runs_ahead(&self) -> bool {
        self.engine.in_flight().is_some_and(|plan| plan.repeat > 1)
    }

    fn produced(&self, now: Nanos) -> (u64, Nanos) {
        match (&self.flight, self.engine.in_flight()) {
            (Some(flight), Some(plan)) if plan.repeat > 1 => {
                let done = self.steps_done(now);
                let next =
                    if done < plan.repeat { flight.start + self.boundary(&plan.work, done + 1) } else { Nanos::MAX };
                (u64::from(done) * plan.work.decode_sequences, next)
            }
            _ => (0, Nanos::MAX),
        }
    }

    fn split(&mut self, now: Nanos, events: &mut Vec<EngineEvent>) {
        let (Some(flight), Some(plan)) = (self.flight, self.engine.in_flight()) else { return };
        // At a boundary the next step is the one in progress; the run's last boundary is an event of its own.
        let done = self.steps_done(now).min(plan.repeat.max(1) - 1);
        if done > 0 {
            let (work, step) =
                (plan.work, Run { start: flight.start, end: now, clock: self.clock, work: plan.work, repeat: done });
            let cost = self.cost.run(&work, done);
            let elapsed = self.clock.charge(cost);
            let start = flight.start + elapsed;
            self.remember(Run { end: start, ..step });
            self.busy += elapsed;
            self.engine.split_run(done + 1);
            if let Some(plan) = self.engine.in_flight() {
                let cost = self.cost.run(&plan.work, plan.repeat);
                self.flight = Some(Flight { start, cost: Some(cost), end: start + self.clock.preview(cost) });
            }
        }
        self.engine.drain_events(events);
    }

    fn idles_beside_work(&self) -> bool {
        let waits = self.wake.is_some_and(|at| self.engine.only_fetches(Nanos(at.0.saturating_sub(1))));
        self.flight.is_none() && self.chore.is_none() && !self.engine.is_idle() && !waits
    }

    fn output(&self, id: SequenceId) -> &[u32] {
        self.engine.output(id).unwrap_or_default()
    }

    fn drain_kv_changes(&mut self, changes: &mut Vec<KvChange>) {
        self.engine.drain_kv_changes(changes);
    }

    fn drain_filled(&mut self, keys: &mut Vec<BlockKey>) {
        self.engine.drain_filled(keys);
    }

    fn cached_tokens(&self, prompt: &Prompt) -> u32 {
        self.engine.cached_tokens(prompt)
    }

    fn metrics(&self, into: &mut PolledSignals) {
        let stats = self.engine.stats();
        into.waiting = stats.waiting;
        into.running = stats.running;
        into.kv_usage = stats.kv_usage();
        into.blocks = stats.total_blocks;
        let computed = self.engine.running().map(|sequence| u64::from(sequence.computed_tokens)).sum::<u64>();
        let queued = self.engine.waiting().map(|sequence| u64::from(sequence.prompt_tokens)).sum::<u64>();
        into.waiting_tokens = queued;
        into.tokens = computed + queued;
        into.adapters.clear();
        into.adapters.extend_from_slice(self.engine.adapters());
        into.adapters.sort();
        into.adapter_slots = self.engine.config().adapter_slots;
        into.adapters_waiting.clear();
        if into.adapter_slots > 0 {
            into.adapters_waiting.extend(self.engine.waiting_adapters());
            into.adapters_waiting.sort();
            into.adapters_waiting.dedup();
        }
    }

    fn cached_blocks(&self) -> u32 {
        let stats = self.engine.stats();
        stats.used_blocks + stats.reusable_blocks
    }

    fn counters(&self, into: &mut PodSample) {
        let stats = self.engine.stats();
        (into.waiting, into.running, into.kv_usage) = (stats.waiting, stats.running, stats.kv_usage());
        into.busy_s = self.busy.as_secs();
        // A token costs the same arithmetic in prefill and in decode, and prefill is what runs at full speed.
        let computed = stats.prefill_tokens + stats.generated_tokens;
        into.compute_s = computed as f64 * self.cost.prefill_token as f64 / 1e12;
        into.preemptions = stats.preemptions;
        into.tokens = stats.generated_tokens;
        into.admitted = stats.admitted;
        into.queue_s = stats.queue_time.as_secs();
    }

    fn stats(&self) -> ReplicaStats {
        let stats = self.engine.stats();
        let share = f64::from(stats.peak_used_blocks) / f64::from(stats.total_blocks.max(1));
        ReplicaStats {
            prompt_tokens: stats.prompt_tokens,
            hit_tokens: stats.hit_tokens,
            fetched_tokens: stats.fetched_tokens,
            busy: self.busy,
            worked: self.busy,
            refusing: self.refusing,
            kv_peak: share,
            steps: stats.steps,
            preemptions: stats.preemptions,
            evictions: stats.evictions,
            peak_waiting: stats.peak_waiting,
            ..ReplicaStats::default()
        }
    }
}
