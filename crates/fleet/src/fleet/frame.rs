//! Pictures of the fleet at its present instant.

use super::Fleet;
use super::flights::Flights;
use crate::replica::{Model, Replica};
use servelab_engine::{Nanos, SequenceId, SequenceView};
use servelab_spec::frame::{BlockCell, Decision, Frame, Pill, ReplicaFrame};

/// Decisions in a picture.
const DECISIONS: usize = 16;
/// Waiting requests listed for a replica.
const WAITING: usize = 64;

impl Fleet {
    /// The fleet as it stands. Runs of equal steps are split at the present instant, so that blocks and tokens are those of this very
    /// step; nothing that happens later changes by that.
    pub fn frame(&mut self, policy: u32) -> Frame {
        self.frame_with(policy, |_| true)
    }

    /// The same, with requests, blocks and steps only of the replica `only`, and counts of the others.
    pub fn frame_of(&mut self, policy: u32, only: u32) -> Frame {
        self.frame_with(policy, |index| index == only)
    }

    fn frame_with(&mut self, policy: u32, whole: impl Fn(u32) -> bool) -> Frame {
        self.show_runs();
        let core = &self.core;
        let decisions: Vec<Decision> = (core.decisions.latest(DECISIONS))
            .map(|decision| Decision {
                t_s: decision.at.as_secs(),
                request: decision.request,
                tenant: decision.tenant,
                prompt_tokens: decision.prompt_tokens,
                router: decision.router,
                replica: decision.replica,
                scores: decision.scores,
                why: decision.why.into_owned(),
            })
            .collect();
        Frame {
            policy,
            t_s: core.now.as_secs(),
            arrived: core.counts.arrived as u32,
            finished: core.counts.finished as u32,
            rejected: core.counts.rejected as u32,
            decisions,
            replicas: (0u32..)
                .zip(&core.replicas)
                .map(|(index, replica)| {
                    let counted = counts(replica, core.now);
                    if whole(index) { lists(counted, replica, &core.flights, core.now) } else { counted }
                })
                .collect(),
        }
    }
}

/// State and counts of a replica.
fn counts(replica: &Replica, now: Nanos) -> ReplicaFrame {
    let stats = replica.stats(now);
    let frame = ReplicaFrame {
        state: replica.life.state(),
        hit_tokens: stats.hit_tokens,
        prompt_tokens: stats.prompt_tokens,
        evictions: stats.evictions,
        preemptions: stats.preemptions,
        ..ReplicaFrame::default()
    };
    let (waiting, running, kv_usage) = match &replica.model {
        Model::Engine(model) => {
            let engine = &model.engine;
            (engine.waiting().len() as u32, engine.running().len(), engine.stats().kv_usage())
        }
        Model::Vacant(_) => (0, 0, 0.0),
        Model::Server(server) => (server.queued(), server.serving().count(), 0.0),
        Model::Tick(tick) => (tick.waiting().len() as u32, tick.serving().iter().count(), 0.0),
    };
    ReplicaFrame { waiting_total: waiting, running_total: running as u32, kv_usage, ..frame }
}

/// Adds what is listed: requests, blocks, steps.
fn lists(frame: ReplicaFrame, replica: &Replica, flights: &Flights, now: Nanos) -> ReplicaFrame {
    match &replica.model {
        Model::Engine(model) => {
            let engine = &model.engine;
            let (step, recent) = model.step_frames(now);
            let cells = engine.blocks().map(|block| BlockCell {
                tenant: block.tenant,
                used: block.refs > 0,
                shared: block.refs > 1,
                cached: block.cached,
            });
            ReplicaFrame {
                waiting: engine.waiting().take(WAITING).map(|sequence| pill(sequence, flights)).collect(),
                running: engine.running().map(|sequence| pill(sequence, flights)).collect(),
                blocks: cells.map(BlockCell::pack).collect(),
                step,
                recent,
                ..frame
            }
        }
        Model::Vacant(_) => frame,
        Model::Server(server) => {
            let job = |(id, prompt_tokens, max_tokens)| Pill { prompt_tokens, max_tokens, ..known(id, flights) };
            ReplicaFrame {
                waiting: server.waiting().take(WAITING).map(job).collect(),
                running: server.serving().map(job).collect(),
                ..frame
            }
        }
        Model::Tick(tick) => {
            let job = |(id, prompt_tokens, max_tokens)| Pill { prompt_tokens, max_tokens, ..known(id, flights) };
            let prefix = |(tenant, used)| BlockCell { tenant: Some(tenant), used, shared: false, cached: true };
            let served = |(id, prompt_tokens, max_tokens, cached_tokens)| Pill {
                cached_tokens,
                ..job((id, prompt_tokens, max_tokens))
            };
            ReplicaFrame {
                waiting: tick.waiting().take(WAITING).map(job).collect(),
                running: tick.serving().map(served).into_iter().collect(),
                blocks: tick.memory().map(|held| held.map_or_else(BlockCell::default, prefix).pack()).collect(),
                ..frame
            }
        }
    }
}

/// What the fleet knows of a sequence.
fn known(id: SequenceId, flights: &Flights) -> Pill {
    let Some(attempt) = flights.by_id(id) else { return Pill::default() };
    let (request, tenant) = flights.asked(attempt.request).map_or((0, 0), |asked| (asked.index, asked.tenant));
    Pill { request, tenant, attempt: attempt.number, ..Pill::default() }
}

fn pill(sequence: SequenceView, flights: &Flights) -> Pill {
    Pill {
        prompt_tokens: sequence.prompt_tokens,
        cached_tokens: sequence.cached_tokens,
        fetched_tokens: sequence.fetched_tokens,
        computed_tokens: sequence.computed_tokens.min(sequence.prompt_tokens),
        output_tokens: sequence.output_tokens,
        max_tokens: sequence.max_tokens,
        ..known(sequence.id, flights)
    }
}
