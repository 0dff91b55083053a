//! The teaching replica: it remembers a few prefixes, and a request takes a whole number of ticks, few when its prefix is
//! remembered and more when not.
//!
//! No blocks, no batch, no tokens until the end: what is left is the one trade-off that routing is about. A prompt's prefix
//! is its first full block; a prompt shorter than a block has none and always misses. The memory forgets what was
//! used longest ago, so under independent draws its hit rate is known exactly, and the event loop must agree with it.

use super::{Next, ReplicaModel, Spending, tell_whole_answer};
use crate::record::ReplicaStats;
use crate::scaling::PodSample;
use crate::telemetry::PolledSignals;
use serde::{Deserialize, Serialize};
use servelab_engine::{BlockKey, EngineEvent, Nanos, Prompt, Refusal, SequenceId, SequenceRequest};
use servelab_spec::validate::SpecError;
use std::collections::VecDeque;

/// Settings of a tick replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TickConfig {
    /// Length of a tick, above 0; 100 ms by default.
    pub tick: Nanos,
    /// Prefixes remembered, at least 1; 3 by default.
    pub prefixes: u32,
    /// Ticks of a request whose prefix is remembered, at least 1; 1 by default.
    pub hit_ticks: u32,
    /// Ticks of any other request, at least as many; 2 by default.
    pub miss_ticks: u32,
}

impl Default for TickConfig {
    fn default() -> Self {
        TickConfig { tick: Nanos(100_000_000), prefixes: 3, hit_ticks: 1, miss_ticks: 2 }
    }
}

impl TickConfig {
    fn validate(self) -> Result<(), SpecError> {
        if self.tick == Nanos::ZERO {
            return Err(SpecError::new("tick.tick", 0, "use a tick above 0"));
        }
        if self.prefixes == 0 {
            return Err(SpecError::new("tick.prefixes", 0, "use at least 1"));
        }
        if self.hit_ticks == 0 {
            return Err(SpecError::new("tick.hit_ticks", 0, "use at least 1"));
        }
        if self.miss_ticks < self.hit_ticks {
            return Err(SpecError::new("tick.miss_ticks", self.miss_ticks, "use at least tick.hit_ticks"));
        }
        Ok(())
    }
}

/// A replica that counts ticks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TickReplica {
    config: TickConfig,
    /// Remembered prefixes and who used each first, the one used last at the end.
    remembered: Vec<(BlockKey, u32)>,
    waiting: VecDeque<Job>,
    serving: Option<Served>,
    /// The request that was done last, and how long it took.
    #[serde(default)]
    latest: Option<(SequenceId, Nanos)>,
    /// Time that turning attempts away will take once the request in service is done.
    #[serde(default)]
    debt: Nanos,
    /// From when to when it is busy turning attempts away.
    #[serde(default)]
    chore: Option<(Nanos, Nanos)>,
    events: Vec<EngineEvent>,
    totals: ReplicaStats,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    id: SequenceId,
    arrived: Nanos,
    prefix: Option<BlockKey>,
    tenant: u32,
    prompt_tokens: u32,
    output_tokens: u32,
    max_tokens: u32,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Served {
    job: Job,
    start: Nanos,
    end: Nanos,
    hit: bool,
}

impl TickReplica {
    pub(crate) fn new(config: TickConfig) -> Result<Self, SpecError> {
        config.validate()?;
        Ok(TickReplica {
            config,
            remembered: Vec::with_capacity(config.prefixes as usize),
            waiting: VecDeque::new(),
            serving: None,
            latest: None,
            debt: Nanos::ZERO,
            chore: None,
            events: Vec::new(),
            totals: ReplicaStats::default(),
        })
    }

    /// Waiting requests, next first: name, prompt and budget.
    pub(crate) fn waiting(&self) -> impl ExactSizeIterator<Item = (SequenceId, u32, u32)> {
        self.waiting.iter().map(|job| (job.id, job.prompt_tokens, job.max_tokens))
    }

    /// The request in service: name, prompt, budget, and how much of the prompt was remembered.
    pub(crate) fn serving(&self) -> Option<(SequenceId, u32, u32, u32)> {
        let served = self.serving?;
        let Job { id, prompt_tokens, max_tokens, .. } = served.job;
        Some((id, prompt_tokens, max_tokens, if served.hit { reused(&served.job) } else { 0 }))
    }

    /// What it remembers, longest unused first: who used it first, and whether it is in use now. As many as it can remember; the rest
    /// are empty.
    pub(crate) fn memory(&self) -> impl Iterator<Item = Option<(u32, bool)>> {
        let serving = self.serving.and_then(|served| served.job.prefix);
        let known = self.remembered.iter().map(move |&(prefix, tenant)| Some((tenant, Some(prefix) == serving)));
        known.chain(std::iter::repeat(None)).take(self.config.prefixes as usize)
    }

    fn work(&mut self, time: Nanos) {
        self.totals.busy += time;
        self.totals.worked += time;
    }

    fn refuse(&mut self, time: Nanos) {
        self.work(time);
        self.totals.refusing += time;
    }

    /// Remembers `prefix` as the one used last: was it remembered already?
    fn touch(&mut self, prefix: BlockKey, tenant: u32) -> bool {
        let found = self.remembered.iter().position(|(known, _)| *known == prefix);
        if let Some(at) = found {
            self.remembered.remove(at);
        } else if self.remembered.len() == self.config.prefixes as usize {
            self.remembered.remove(0);
            self.totals.evictions += 1;
        }
        self.remembered.push((prefix, tenant));
        found.is_some()
    }
}

/// What a hit reuses: all but the last token, which every replica must compute to go on from it.
fn reused(job: &Job) -> u32 {
    job.prompt_tokens.saturating_sub(1)
}

/// The key of a prompt's first full block.
fn prefix(prompt: &Prompt) -> Option<BlockKey> {
    prompt.shared_keys.first().or(prompt.own_keys.first()).copied()
}

impl ReplicaModel for TickReplica {
    fn submit(&mut self, now: Nanos, request: SequenceRequest) -> Result<(), Refusal> {
        let SequenceRequest { id, tenant, output_tokens, max_tokens, .. } = request;
        if output_tokens == 0 || output_tokens > max_tokens {
            return Err(Refusal::OutputLength { output_tokens, max_tokens });
        }
        let (prefix, prompt_tokens) = (prefix(&request.prompt), request.prompt.len);
        self.waiting.push_back(Job { id, arrived: now, prefix, tenant, prompt_tokens, output_tokens, max_tokens });
        Ok(())
    }

    fn turn_away(&mut self, _now: Nanos, cost: Nanos) {
        self.debt += cost;
    }

    fn cancel(&mut self, _now: Nanos, clock: Nanos, id: SequenceId) -> bool {
        if let Some(Served { start, .. }) = self.serving.take_if(|served| served.job.id == id) {
            self.work(clock.since(start));
            return true;
        }
        let waiting = self.waiting.len();
        self.waiting.retain(|job| job.id != id);
        self.waiting.len() < waiting
    }

    fn spent(&self, clock: Nanos, id: SequenceId, of: &Spending) -> Nanos {
        match self.serving.filter(|served| served.job.id == id) {
            Some(served) => served.end.min(clock).since(served.start),
            None if of.finished => self.latest.filter(|(done, _)| *done == id).map_or(Nanos::ZERO, |(_, time)| time),
            None => Nanos::ZERO,
        }
    }

    fn forfeit(&mut self, clock: Nanos) {
        let started = self.serving.take().map(|served| served.start);
        started.into_iter().for_each(|start| self.work(clock.since(start)));
        if let Some((start, _)) = self.chore.take() {
            self.refuse(clock.since(start));
        }
        self.waiting.clear();
        self.debt = Nanos::ZERO;
    }

    fn stood_still(&mut self, time: Nanos) {
        if let Some(served) = &mut self.serving {
            (served.start, served.end) = (served.start + time, served.end + time);
        }
        if let Some((start, end)) = &mut self.chore {
            (*start, *end) = (*start + time, *end + time);
        }
    }

    fn start(&mut self, now: Nanos, _max_repeat: u32) {
        if self.serving.is_none() && self.chore.is_none() && self.debt > Nanos::ZERO {
            self.chore = Some((now, now + std::mem::take(&mut self.debt)));
        }
        if self.serving.is_none()
            && self.chore.is_none()
            && let Some(job) = self.waiting.pop_front()
        {
            let hit = job.prefix.is_some_and(|prefix| self.touch(prefix, job.tenant));
            let ticks = if hit { self.config.hit_ticks } else { self.config.miss_ticks };
            let end = Nanos(now.0 + u64::from(ticks) * self.config.tick.0);
            self.serving = Some(Served { job, start: now, end, hit });
            let cached_tokens = if hit { reused(&job) } else { 0 };
            self.totals.prompt_tokens += u64::from(job.prompt_tokens);
            self.totals.hit_tokens += u64::from(cached_tokens);
            self.totals.kv_peak = 1.0;
            let queued = now.since(job.arrived);
            self.events.push(EngineEvent::Admitted {
                id: job.id,
                at: now,
                cached_tokens,
                fetched_tokens: 0,
                queued,
                first: true,
            });
        }
        self.totals.peak_waiting = self.totals.peak_waiting.max(self.waiting.len() as u32);
    }

    fn next(&self) -> Next {
        let end = self.serving.map(|served| served.end).or(self.chore.map(|(_, end)| end));
        end.map_or(Next::Idle, Next::At)
    }

    fn advance(&mut self, now: Nanos, events: &mut Vec<EngineEvent>) {
        events.append(&mut self.events);
        if let Some((start, end)) = self.chore.take_if(|(_, end)| *end <= now) {
            self.refuse(end.since(start));
        }
        let Some(Served { job, start, end, .. }) = self.serving.take_if(|served| served.end <= now) else { return };
        self.work(end.since(start));
        self.latest = Some((job.id, end.since(start)));
        self.totals.steps += 1;
        tell_whole_answer(job.id, job.output_tokens, job.max_tokens, events);
    }

    fn step(&self) -> u64 {
        self.totals.steps
    }

    fn idles_beside_work(&self) -> bool {
        self.serving.is_none() && self.chore.is_none() && !self.waiting.is_empty()
    }

    fn cached_tokens(&self, asked: &Prompt) -> u32 {
        let known = prefix(asked).is_some_and(|prefix| self.remembered.iter().any(|(known, _)| *known == prefix));
        if known { asked.len.saturating_sub(1) } else { 0 }
    }

    fn metrics(&self, into: &mut PolledSignals) {
        into.waiting = self.waiting.len() as u32;
        into.running = u32::from(self.serving.is_some());
        into.kv_usage = self.remembered.len() as f64 / f64::from(self.config.prefixes);
        let serving = self.serving.as_ref().map_or(0, |served| u64::from(served.job.prompt_tokens));
        into.waiting_tokens = self.waiting.iter().map(|job| u64::from(job.prompt_tokens)).sum();
        into.tokens = into.waiting_tokens + serving;
    }

    fn counters(&self, into: &mut PodSample) {
        into.waiting = self.waiting.len() as u32;
        into.running = u32::from(self.serving.is_some());
        into.kv_usage = self.remembered.len() as f64 / f64::from(self.config.prefixes);
        into.busy_s = self.totals.busy.as_secs();
        into.compute_s = into.busy_s;
        into.admitted = self.totals.steps + u64::from(into.running);
    }

    fn stats(&self) -> ReplicaStats {
        self.totals
    }
}
