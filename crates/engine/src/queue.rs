//! Limits of the waiting queue: who is turned away at once, and who has waited too long.
//!
//! An unbounded queue takes everybody and makes everybody late. Four limits, each off at 0, turn that into an answer: requests (vLLM
//! `--max-num-queued-reqs` counts those that run as well, SGLang `--max-queued-requests` does not: [`QueueConfig::count_running`]), prompt tokens
//! not yet answered with a first token (vLLM `--max-num-queued-tokens`), a longest time to live in the queue, and a longest wait that may be
//! predicted. All but the time to live are judged when a request is submitted; nothing in a run of equal decode steps changes what they read, so a
//! run does not show in them.
//!
//! Who may wait no longer is dropped between steps ([`Engine::expire`]). So a run must be cut at the first step boundary that is not before
//! [`Engine::next_expiry`], as it is for a fetch. A sequence that has run and was preempted is exempt: its work is kept.
//!
//! The predicted wait is that of somebody at the end of the queue: one place more than there are in it, times what lately passed between one admission and
//! the next while somebody waited. That needs no model of the hardware, follows whatever is scarce (places, blocks or steps), and is wrong by as
//! much as the mix changes.

use crate::engine::Engine;
use crate::error::Refusal;
use crate::events::EngineEvent;
use crate::request::SequenceRequest;
use crate::time::Nanos;
use serde::{Deserialize, Serialize};

/// Limits of an engine's waiting queue. Each is off at 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueConfig {
    /// Most requests that wait.
    pub max_requests: u32,
    /// Running requests count towards [`QueueConfig::max_requests`], as in vLLM.
    pub count_running: bool,
    /// Most prompt tokens of requests without a first token. One request may exceed it alone.
    pub max_tokens: u32,
    /// Longest time in the queue before the first admission.
    pub ttl: Nanos,
    /// Longest predicted time in the queue.
    pub max_wait: Nanos,
}

/// How fast a queue moves: how long its head lately stood there before it was let in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// The latest admission.
    latest: Nanos,
    /// Mean time at the head of the queue, the latest ones weighing most: each sample moves it by an eighth of the way.
    head_ns: u64,
}

impl Pace {
    /// Nothing has been noted yet.
    pub fn is_unused(&self) -> bool {
        *self == Pace::default()
    }

    /// Somebody who came at `arrived` is let in at `now`.
    pub fn note(&mut self, now: Nanos, arrived: Nanos) {
        let head = now.since(self.latest.max(arrived)).0;
        // Not the mean of an empty past: the first sample stands for it.
        self.head_ns = match self.is_unused() {
            true => head,
            false => self.head_ns - self.head_ns / 8 + head / 8,
        };
        self.latest = now;
    }

    /// How long somebody will wait who has `before` before them.
    pub fn wait(&self, before: usize) -> Nanos {
        Nanos(self.head_ns.saturating_mul(before as u64 + 1))
    }
}

impl Engine {
    /// Whether the queue takes one more.
    pub(crate) fn queue_admits(&self, request: &SequenceRequest) -> Result<(), Refusal> {
        let queue = &self.config.queue;
        let waiting = self.waiting.len();
        let counted = waiting + if queue.count_running { self.running.len() } else { 0 };
        if queue.max_requests > 0 && counted >= queue.max_requests as usize {
            return Err(Refusal::QueueFull { requests: counted as u32, most: queue.max_requests });
        }
        let tokens = self.stats.prefill_backlog.saturating_add(u64::from(request.prompt.len));
        if queue.max_tokens > 0 && self.stats.prefill_backlog > 0 && tokens > u64::from(queue.max_tokens) {
            return Err(Refusal::QueueTokens { tokens, most: queue.max_tokens });
        }
        let wait = self.pace.wait(waiting);
        if queue.max_wait > Nanos::ZERO && waiting > 0 && wait > queue.max_wait {
            return Err(Refusal::TooLate { wait, most: queue.max_wait });
        }
        Ok(())
    }

    /// A waiting sequence is admitted for the first time.
    pub(crate) fn note_pace(&mut self, now: Nanos, arrived: Nanos) {
        if self.config.queue.max_wait > Nanos::ZERO {
            self.pace.note(now, arrived);
        }
    }

    /// When the first of those that wait has waited too long.
    pub fn next_expiry(&self) -> Option<Nanos> {
        if self.config.queue.ttl == Nanos::ZERO {
            return None;
        }
        // In order of arrival behind those that were preempted.
        let mut waiting = self.waiting.iter().filter_map(|&place| self.sequences.get(place));
        let first = waiting.find(|sequence| !sequence.admitted)?;
        Some(first.arrived + self.config.queue.ttl)
    }

    /// Drops those that have waited too long by `now` and appends that they did. To be called with nothing in flight, which is when an engine looks
    /// at its queue; otherwise it does nothing.
    pub fn expire(&mut self, now: Nanos, events: &mut Vec<EngineEvent>) {
        if self.flight.flying {
            return;
        }
        while self.next_expiry().is_some_and(|at| at <= now) {
            let first = |&place: &u32| self.sequences.get(place).is_some_and(|sequence| !sequence.admitted);
            let Some(at) = self.waiting.iter().position(first) else { return };
            self.advance(now);
            let Some(place) = self.waiting.remove(at) else { return };
            self.drop_fetch(place);
            self.scratch.blocked = None;
            if let Some(sequence) = self.sequences.remove(place) {
                self.stats.prefill_backlog -= u64::from(sequence.request.prompt.len);
                self.stats.expired += 1;
                events.push(EngineEvent::Expired { id: sequence.request.id });
            }
            self.after_change();
        }
    }
}
