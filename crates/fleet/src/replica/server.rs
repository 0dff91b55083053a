//! A queueing station as a replica: some slots, drawn service times, first come first served.
//!
//! No blocks, no batch, no tokens until the end. It exists because its behaviour is known exactly: with exponential service one
//! station is M/M/c, with fixed service M/D/1, and the event loop must agree with the formulas. A request's service time
//! depends on the request and the seed alone, so two policies serve the same work.

use super::{Next, ReplicaModel, tell_whole_answer};
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
    waiting: VecDeque<Job>,
    /// Jobs in service in order of their start.
    serving: Vec<Served>,
    events: Vec<EngineEvent>,
    busy: Nanos,
    done: u64,
    prompt_tokens: u64,
    peak_serving: u32,
    peak_waiting: u32,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    id: SequenceId,
    arrived: Nanos,
    service: Nanos,
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
            serving: Vec::new(),
            events: Vec::new(),
            busy: Nanos::ZERO,
            done: 0,
            prompt_tokens: 0,
            peak_serving: 0,
            peak_waiting: 0,
        })
    }

    /// Waiting requests, next first: name, prompt and budget.
    pub(crate) fn waiting(&self) -> impl ExactSizeIterator<Item = (SequenceId, u32, u32)> {
        self.waiting.iter().map(|job| (job.id, job.prompt_tokens, job.max_tokens))
    }

    /// Requests in service, in order of their start.
    pub(crate) fn serving(&self) -> impl ExactSizeIterator<Item = (SequenceId, u32, u32)> {
        self.serving.iter().map(|served| (served.job.id, served.job.prompt_tokens, served.job.max_tokens))
    }
}

impl ReplicaModel for ServerReplica {
    fn submit(&mut self, now: Nanos, request: SequenceRequest) -> Result<(), Refusal> {
        let SequenceRequest { id, output_tokens, max_tokens, .. } = request;
        if output_tokens == 0 || output_tokens > max_tokens {
            return Err(Refusal::OutputLength { output_tokens, max_tokens });
        }
        let factor = match self.config.service {
            Service::Exponential => self.draws.split(request.output_seed).exponential(),
            Service::Deterministic => 1.0,
        };
        let service = Nanos(libm::round(factor * self.config.mean.0 as f64) as u64);
        let prompt_tokens = request.prompt.len;
        self.waiting.push_back(Job { id, arrived: now, service, prompt_tokens, output_tokens, max_tokens });
        Ok(())
    }

    fn start(&mut self, now: Nanos, _max_repeat: u32) {
        while self.serving.len() < self.config.slots as usize
            && let Some(job) = self.waiting.pop_front()
        {
            self.prompt_tokens += u64::from(job.prompt_tokens);
            self.serving.push(Served { job, start: now, end: now + job.service });
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
        self.peak_waiting = self.peak_waiting.max(self.waiting.len() as u32);
    }

    fn next(&self) -> Next {
        self.serving.iter().map(|served| served.end).min().map_or(Next::Idle, Next::At)
    }

    fn advance(&mut self, now: Nanos, events: &mut Vec<EngineEvent>) {
        events.append(&mut self.events);
        let (busy, done) = (&mut self.busy, &mut self.done);
        self.serving.retain(|&Served { job, start, end }| {
            if end > now {
                return true;
            }
            *busy += end.since(start);
            *done += 1;
            tell_whole_answer(job.id, job.output_tokens, job.max_tokens, events);
            false
        });
    }

    fn step(&self) -> u64 {
        self.done
    }

    fn idles_beside_work(&self) -> bool {
        !self.waiting.is_empty() && self.serving.len() < self.config.slots as usize
    }

    fn metrics(&self, into: &mut PolledSignals) {
        into.waiting = self.waiting.len() as u32;
        into.running = self.serving.len() as u32;
        into.kv_usage = self.serving.len() as f64 / f64::from(self.config.slots);
        let serving = self.serving.iter().map(|served| u64::from(served.job.prompt_tokens)).sum::<u64>();
        into.waiting_tokens = self.waiting.iter().map(|job| u64::from(job.prompt_tokens)).sum();
        into.tokens = into.waiting_tokens + serving;
    }

    fn counters(&self, into: &mut PodSample) {
        into.waiting = self.waiting.len() as u32;
        into.running = self.serving.len() as u32;
        into.kv_usage = self.serving.len() as f64 / f64::from(self.config.slots);
        into.busy_s = self.busy.as_secs() / f64::from(self.config.slots);
        into.compute_s = into.busy_s;
        into.admitted = self.done + u64::from(into.running);
    }

    fn stats(&self) -> ReplicaStats {
        ReplicaStats {
            prompt_tokens: self.prompt_tokens,
            busy: Nanos(self.busy.0 / u64::from(self.config.slots)),
            kv_peak: f64::from(self.peak_serving) / f64::from(self.config.slots),
            steps: self.done,
            peak_waiting: self.peak_waiting,
            ..ReplicaStats::default()
        }
    }
}
