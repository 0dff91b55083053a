//! A queueing station as a replica: some slots, drawn service times, first come first served.
//!
//! No blocks, no batch, no tokens until the end. It exists because its behaviour is known exactly: with exponential service one
//! station is M/M/c, with fixed service M/D/1, and the event loop must agree with the formulas. A request's service time
//! depends on the request and the seed alone, so two policies serve the same work.

use super::{Next, ReplicaModel, Spending, tell_whole_answer};
use crate::config::raised;
use crate::record::ReplicaStats;
use crate::scaling::PodSample;
use crate::telemetry::PolledSignals;
use serde::{Deserialize, Serialize};
use servelab_engine::random::Stream;
use servelab_engine::{EngineEvent, Nanos, Refusal, SequenceId, SequenceRequest};
use servelab_spec::validate::SpecError;
use std::collections::VecDeque;

/// Settings of a server replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// Requests served at once, at least 1.
    pub slots: u32,
    /// How service times are drawn.
    pub service: Service,
    /// Mean service time, above 0.
    pub mean: Nanos,
    /// What each request in service, itself included, adds to the service time of one that starts: servers that get in each other's way.
    #[serde(default)]
    pub crowding: Nanos,
    /// Requests that may wait; more are turned away. `None`: as many as there are.
    #[serde(default)]
    pub queue: Option<u32>,
}

impl ServerConfig {
    /// A station with room for everybody who waits, in which nobody is in anybody's way.
    pub fn new(slots: u32, service: Service, mean: Nanos) -> Self {
        ServerConfig { slots, service, mean, crowding: Nanos::ZERO, queue: None }
    }

    /// Slots and queue are so many times what they are.
    pub(crate) fn raise(&mut self, times: f64) {
        self.slots = raised(self.slots, times);
        self.queue = self.queue.map(|most| raised(most, times));
    }
}

/// How service times are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// Exponential: M in Kendall's notation.
    Exponential,
    /// Always the mean: D in Kendall's notation.
    Deterministic,
}

/// A station.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerReplica {
    config: ServerConfig,
    draws: Stream,
    /// Waiting jobs in order of their names, those that were cancelled among them.
    waiting: VecDeque<Job>,
    /// How many of those were cancelled.
    cancelled: u32,
    /// Jobs done at the latest instant, and how long each took.
    latest: Vec<(SequenceId, Nanos)>,
    /// Jobs in service in order of their start.
    serving: Vec<Served>,
    /// Time that turning attempts away will take; it goes before everybody who waits.
    debt: Nanos,
    events: Vec<EngineEvent>,
    busy: Nanos,
    /// What `busy` was when slots were last raised, and how long each slot had been busy by then.
    #[serde(default)]
    raised: (Nanos, Nanos),
    refusing: Nanos,
    done: u64,
    prompt_tokens: u64,
    peak_serving: u32,
    peak_waiting: u32,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    id: SequenceId,
    cancelled: bool,
    arrived: Nanos,
    service: Nanos,
    prompt_tokens: u32,
    output_tokens: u32,
    max_tokens: u32,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Served {
    /// `None`: attempts are turned away.
    job: Option<Job>,
    start: Nanos,
    end: Nanos,
}

impl ServerReplica {
    pub(crate) fn new(config: ServerConfig, seed: u64) -> Result<Self, SpecError> {
        if config.slots == 0 {
            return Err(SpecError::new("server.slots", 0, "use at least 1"));
        }
        if config.mean == Nanos::ZERO {
            return Err(SpecError::new("server.mean", 0, "use a service time above 0"));
        }
        Ok(ServerReplica {
            config,
            draws: Stream::new(seed, b"service"),
            waiting: VecDeque::new(),
            cancelled: 0,
            latest: Vec::new(),
            serving: Vec::new(),
            debt: Nanos::ZERO,
            events: Vec::new(),
            busy: Nanos::ZERO,
            raised: (Nanos::ZERO, Nanos::ZERO),
            refusing: Nanos::ZERO,
            done: 0,
            prompt_tokens: 0,
            peak_serving: 0,
            peak_waiting: 0,
        })
    }

    /// Waiting requests, next first: name, prompt and budget.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (SequenceId, u32, u32)> {
        let jobs = self.waiting.iter().filter(|job| !job.cancelled);
        jobs.map(|job| (job.id, job.prompt_tokens, job.max_tokens))
    }

    /// How many they are.
    pub(crate) fn queued(&self) -> u32 {
        self.waiting.len() as u32 - self.cancelled
    }

    /// Requests in service, in order of their start.
    pub(crate) fn serving(&self) -> impl Iterator<Item = (SequenceId, u32, u32)> {
        self.serving.iter().filter_map(|served| served.job).map(|job| (job.id, job.prompt_tokens, job.max_tokens))
    }

    /// Slots and queue are so many times what they were.
    pub(crate) fn raise(&mut self, times: f64) {
        self.raised = (self.busy, self.busy_each());
        self.config.raise(times);
    }

    /// How long each slot was busy, on average.
    fn busy_each(&self) -> Nanos {
        let (before, each) = self.raised;
        each + Nanos(self.busy.since(before).0 / u64::from(self.config.slots))
    }

    /// How long a request takes by itself.
    fn service(&self, output_seed: u64) -> Nanos {
        let factor = match self.config.service {
            Service::Exponential => self.draws.split(output_seed).exponential(),
            Service::Deterministic => 1.0,
        };
        Nanos(libm::round(factor * self.config.mean.0 as f64) as u64)
    }

    fn work(&mut self, served: &Served, until: Nanos) {
        let time = until.since(served.start);
        self.busy += time;
        self.refusing += if served.job.is_none() { time } else { Nanos::ZERO };
    }
}

impl ReplicaModel for ServerReplica {
    fn submit(&mut self, now: Nanos, request: SequenceRequest) -> Result<(), Refusal> {
        let SequenceRequest { id, output_tokens, max_tokens, .. } = request;
        if output_tokens == 0 || output_tokens > max_tokens {
            return Err(Refusal::OutputLength { output_tokens, max_tokens });
        }
        let service = self.service(request.output_seed);
        let prompt_tokens = request.prompt.len;
        self.waiting.push_back(Job {
            id,
            cancelled: false,
            arrived: now,
            service,
            prompt_tokens,
            output_tokens,
            max_tokens,
        });
        Ok(())
    }

    fn is_full(&self) -> bool {
        // Whoever finds a free slot does not wait.
        let free = (self.config.slots as usize).saturating_sub(self.serving.len());
        self.config.queue.is_some_and(|most| self.queued() as usize >= most as usize + free)
    }

    fn turn_away(&mut self, _now: Nanos, cost: Nanos) {
        self.debt += cost;
    }

    fn cancel(&mut self, _now: Nanos, clock: Nanos, id: SequenceId) -> bool {
        let served = self.serving.iter().position(|served| served.job.is_some_and(|job| job.id == id));
        if let Some(at) = served {
            let served = self.serving.remove(at);
            self.work(&served, clock);
            return true;
        }
        // Taken out when its turn comes: a queue may be long, and whoever sends it shuts the door often.
        let waiting = self.waiting.binary_search_by_key(&id, |job| job.id);
        let Some(job) = waiting.ok().and_then(|at| self.waiting.get_mut(at)).filter(|job| !job.cancelled) else {
            return false;
        };
        job.cancelled = true;
        self.cancelled += 1;
        true
    }

    fn spent(&self, clock: Nanos, id: SequenceId, of: &Spending) -> Nanos {
        match self.serving.iter().find(|served| served.job.is_some_and(|job| job.id == id)) {
            Some(served) => served.end.min(clock).since(served.start),
            None if of.finished => {
                self.latest.iter().find(|(done, _)| *done == id).map_or(Nanos::ZERO, |(_, time)| *time)
            }
            None => Nanos::ZERO,
        }
    }

    fn forfeit(&mut self, clock: Nanos) {
        for served in std::mem::take(&mut self.serving) {
            self.work(&served, clock);
        }
        self.waiting.clear();
        self.cancelled = 0;
        self.debt = Nanos::ZERO;
    }

    fn stood_still(&mut self, time: Nanos) {
        for served in &mut self.serving {
            (served.start, served.end) = (served.start + time, served.end + time);
        }
    }

    fn start(&mut self, now: Nanos, _max_repeat: u32) {
        if self.debt > Nanos::ZERO && self.serving.len() < self.config.slots as usize {
            let end = now + std::mem::take(&mut self.debt);
            self.serving.push(Served { job: None, start: now, end });
        }
        while self.serving.len() < self.config.slots as usize
            && let Some(job) = self.waiting.pop_front()
        {
            if job.cancelled {
                self.cancelled -= 1;
                continue;
            }
            self.prompt_tokens += u64::from(job.prompt_tokens);
            let crowd = Nanos(self.config.crowding.0.saturating_mul(self.serving.len() as u64 + 1));
            self.serving.push(Served { job: Some(job), start: now, end: now + job.service + crowd });
            let queued = now.since(job.arrived);
            self.events.push(EngineEvent::Admitted {
                id: job.id,
                at: now,
                cached_tokens: 0,
                fetched_tokens: 0,
                queued,
                first: true,
            });
        }
        self.peak_serving = self.peak_serving.max(self.serving.len() as u32);
        self.peak_waiting = self.peak_waiting.max(self.queued());
    }

    fn next(&self) -> Next {
        self.serving.iter().map(|served| served.end).min().map_or(Next::Idle, Next::At)
    }

    fn advance(&mut self, now: Nanos, events: &mut Vec<EngineEvent>) {
        events.append(&mut self.events);
        self.latest.clear();
        let mut at = 0;
        while let Some(&served) = self.serving.get(at) {
            if served.end > now {
                at += 1;
                continue;
            }
            // The order of the others is that of their starts.
            self.serving.remove(at);
            self.work(&served, served.end);
            if let Some(job) = served.job {
                self.done += 1;
                self.latest.push((job.id, served.end.since(served.start)));
                tell_whole_answer(job.id, job.output_tokens, job.max_tokens, events);
            }
        }
    }

    fn step(&self) -> u64 {
        self.done
    }

    fn idles_beside_work(&self) -> bool {
        self.queued() > 0 && self.serving.len() < self.config.slots as usize
    }

    fn metrics(&self, into: &mut PolledSignals) {
        into.waiting = self.queued();
        into.running = self.serving.len() as u32;
        into.kv_usage = self.serving.len() as f64 / f64::from(self.config.slots);
        let serving = self.serving().map(|(_, prompt_tokens, _)| u64::from(prompt_tokens)).sum::<u64>();
        into.waiting_tokens = self.waiting().map(|(_, prompt_tokens, _)| u64::from(prompt_tokens)).sum();
        into.tokens = into.waiting_tokens + serving;
    }

    fn counters(&self, into: &mut PodSample) {
        into.waiting = self.queued();
        into.running = self.serving.len() as u32;
        into.kv_usage = self.serving.len() as f64 / f64::from(self.config.slots);
        into.busy_s = self.busy_each().as_secs();
        into.compute_s = into.busy_s;
        into.admitted = self.done + u64::from(into.running);
    }

    fn stats(&self) -> ReplicaStats {
        ReplicaStats {
            prompt_tokens: self.prompt_tokens,
            busy: self.busy_each(),
            worked: self.busy,
            refusing: self.refusing,
            kv_peak: f64::from(self.peak_serving) / f64::from(self.config.slots),
            steps: self.done,
            peak_waiting: self.peak_waiting,
            ..ReplicaStats::default()
        }
    }
}
