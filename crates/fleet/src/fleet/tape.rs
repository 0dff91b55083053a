//! What a fleet tells while somebody listens: steps, attempts, gauges, conditions of replicas. It is no part of the fleet's state, and nothing that
//! happens depends on it.
//!
//! Everything a replica does goes through [`Fleet::refresh`], so that is where its steps and gauges are noted; attempts are noted where they end.

use super::{Core, Fleet};
use crate::clients::{Cause, Failure};
use crate::record::{Loss, Refusal};
use crate::replica::Model;
use crate::scaling::PodSample;
use servelab_engine::{Nanos, StepWork};
use servelab_spec::frame::ReplicaState;

/// What was heard since the last call of [`Fleet::heard`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heard {
    /// Steps of engines, in order of their ends.
    pub steps: Vec<StepHeard>,
    /// Attempts, in order of their ends.
    pub attempts: Vec<AttemptHeard>,
    /// Gauges, whenever one changed.
    pub gauges: Vec<GaugesHeard>,
    /// Conditions, whenever one changed.
    pub conditions: Vec<ConditionHeard>,
}

/// A step that ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepHeard {
    /// The replica.
    pub replica: u32,
    /// Its start.
    pub start: Nanos,
    /// Its end.
    pub end: Nanos,
    /// What was computed.
    pub work: StepWork,
}

/// An attempt that ended at the server, or was under way when listening ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttemptHeard {
    /// Index of its request.
    pub request: u32,
    /// Which try it is, from 1.
    pub number: u32,
    /// When it came to the gateway; where there is none, when it was routed.
    pub offered: Nanos,
    /// When it was routed, to which replica and by which router, if it was.
    pub sent: Option<(Nanos, u32, u32)>,
    /// When it first entered a batch.
    pub admitted: Option<Nanos>,
    /// When its first token came.
    pub first_token: Option<Nanos>,
    /// When it ended.
    pub end: Nanos,
    /// Prompt tokens found in the cache.
    pub cached_tokens: u32,
    /// Tokens produced.
    pub output_tokens: u32,
    /// How it ended.
    pub ending: Ending,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ending {
    /// All its output was delivered, whether anybody waited or not.
    Finished,
    /// A managed API answered it.
    Outside,
    /// Nobody waited for it any more.
    Cancelled,
    /// It was turned away.
    Refused {
        /// By whom, and why.
        cause: Refusal,
        /// The HTTP status.
        code: u16,
    },
    /// It was lost with its replica.
    Lost {
        /// Why the replica went.
        cause: Loss,
    },
    /// It took too long for its client.
    TimedOut,
    /// It was under way.
    Open,
}

/// A replica's gauges from an instant on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GaugesHeard {
    /// When.
    pub at: Nanos,
    /// The replica.
    pub replica: u32,
    /// What they show.
    pub gauges: Gauges,
}

/// What a replica shows of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Requests waiting.
    pub waiting: u32,
    /// Requests running.
    pub running: u32,
    /// Share of its KV blocks in use by sequences, 0 to 1.
    pub kv_usage: f64,
}

/// A replica's condition from an instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConditionHeard {
    /// When.
    pub at: Nanos,
    /// The replica.
    pub replica: u32,
    /// Where it stands.
    pub condition: Condition,
}

/// Where a replica stands and what ails it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its life-cycle state.
    pub state: ReplicaState,
    /// Its process is not there.
    pub down: bool,
    /// It stands still.
    pub frozen: bool,
    /// The network between it and the routers is split.
    pub split: bool,
}

impl Ending {
    pub(super) fn of(failure: &Failure) -> Self {
        match failure.cause {
            Cause::Refused(cause) => Ending::Refused { cause, code: failure.code },
            Cause::Lost(cause) => Ending::Lost { cause },
            Cause::TimedOut => Ending::TimedOut,
        }
    }
}

/// What is kept between two calls.
#[derive(Debug)]
pub(super) struct Tape {
    heard: Heard,
    /// Of each replica, the end of the latest step heard.
    until: Vec<Nanos>,
    gauges: Vec<Option<Gauges>>,
    conditions: Vec<Option<Condition>>,
}

impl Fleet {
    /// From now on it tells what happens. A fleet with runs of equal steps tells each of their steps when the run is over.
    pub fn listen(&mut self) {
        let n = self.core.replicas.len();
        self.tape = Some(Box::new(Tape {
            heard: Heard::default(),
            until: vec![self.core.now; n],
            gauges: vec![None; n],
            conditions: vec![None; n],
        }));
        (0..n as u32).for_each(|index| self.note_replica(index));
        self.note_conditions();
    }

    /// What has happened since the last call; nothing unless it was told to [`Fleet::listen`].
    pub fn heard(&mut self) -> Heard {
        self.tape.as_mut().map(|tape| std::mem::take(&mut tape.heard)).unwrap_or_default()
    }

    /// The same for the last time: with everything that is under way.
    pub fn heard_last(&mut self) -> Heard {
        let mut open: Vec<u32> = self.core.flights.attempts.iter().map(|(place, _)| place).collect();
        open.sort_by_key(|&place| {
            self.core.flights.attempts.get(place).map(|attempt| (attempt.request, attempt.number))
        });
        for place in open {
            note_attempt(&mut self.tape, &self.core, place, Ending::Open);
        }
        let heard = self.heard();
        self.tape = None;
        heard
    }

    /// What each replica shows of itself, by index.
    pub fn gauges(&self) -> Vec<Gauges> {
        (0..self.core.replicas.len()).map(|index| gauges(&self.core, index)).collect()
    }

    /// Something of a replica has changed.
    pub(super) fn note_replica(&mut self, index: u32) {
        let Some(tape) = &mut self.tape else { return };
        let at = index as usize;
        if let Model::Engine(engine) = &self.core.replicas[at].model {
            let after = tape.until[at];
            engine.steps_after(after, &mut |start, end, work| {
                tape.until[at] = end;
                tape.heard.steps.push(StepHeard { replica: index, start, end, work: *work });
            });
        }
        let gauges = gauges(&self.core, at);
        if tape.gauges[at].replace(gauges) != Some(gauges) {
            tape.heard.gauges.push(GaugesHeard { at: self.core.now, replica: index, gauges });
        }
    }

    /// An event is over: replicas may stand elsewhere.
    pub(super) fn note_conditions(&mut self) {
        let Some(tape) = &mut self.tape else { return };
        for (at, (replica, known)) in self.core.replicas.iter().zip(&mut tape.conditions).enumerate() {
            let ailments = replica.ailments;
            let condition = Condition {
                state: replica.life.state(),
                down: ailments.down > 0,
                frozen: ailments.frozen > 0,
                split: ailments.split > 0,
            };
            if known.replace(condition) != Some(condition) {
                tape.heard.conditions.push(ConditionHeard { at: self.core.now, replica: at as u32, condition });
            }
        }
    }

    /// The client's own rules have held back a try of the request at `place`.
    pub(super) fn note_held_back(&mut self, place: u32, failure: &Failure) {
        let (Some(tape), Some(flight)) = (&mut self.tape, self.core.flights.requests.get(place)) else { return };
        let now = self.core.now;
        tape.heard.attempts.push(AttemptHeard {
            request: flight.index,
            number: flight.attempts,
            offered: now,
            sent: None,
            admitted: None,
            first_token: None,
            end: now,
            cached_tokens: 0,
            output_tokens: 0,
            ending: Ending::of(failure),
        });
    }
}

/// The attempt at `place` is about to end.
pub(super) fn note_attempt(tape: &mut Option<Box<Tape>>, core: &Core, place: u32, ending: Ending) {
    let (Some(tape), Some(attempt)) = (tape, core.flights.attempts.get(place)) else { return };
    let Some(flight) = core.flights.of(place) else { return };
    let sent = attempt.was_sent().then_some((attempt.sent, attempt.replica, attempt.routed.router));
    let routed = sent.map(|(at, ..)| at).or(attempt.admitted);
    let gateway = core.gateway.chain().is_some();
    tape.heard.attempts.push(AttemptHeard {
        request: flight.index,
        number: attempt.number,
        offered: if gateway { attempt.asked } else { routed.unwrap_or(core.now) },
        sent,
        admitted: attempt.admitted,
        first_token: attempt.first_token,
        end: core.now,
        cached_tokens: attempt.cached_tokens,
        output_tokens: attempt.produced,
        ending,
    });
}

fn gauges(core: &Core, index: usize) -> Gauges {
    if let Model::Engine(model) = &core.replicas[index].model {
        let stats = model.engine.stats();
        return Gauges { waiting: stats.waiting, running: stats.running, kv_usage: stats.kv_usage() };
    }
    let mut sample = PodSample::default();
    core.replicas[index].model.get().counters(&mut sample);
    Gauges { waiting: sample.waiting, running: sample.running, kv_usage: sample.kv_usage }
}
