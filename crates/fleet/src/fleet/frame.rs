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
            replicas: core.replicas.iter().map(|replica| picture(replica, &core.flights, core.now)).collect(),
        }
    }
}

fn picture(replica: &Replica, flights: &Flights, now: Nanos) -> ReplicaFrame {
    let stats = replica.stats(now);
    let frame = ReplicaFrame {
        state: replica.life.state(),
        hit_tokens: stats.hit_tokens,
        prompt_tokens: stats.prompt_tokens,
        evictions: stats.evictions,
        preemptions: stats.preemptions,
        ..ReplicaFrame::default()
    };
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
                waiting_total: engine.waiting().len() as u32,
                running: engine.running().map(|sequence| pill(sequence, flights)).collect(),
                blocks: cells.map(BlockCell::pack).collect(),
                step,
                recent,
                kv_usage: engine.stats().kv_usage(),
                ..frame
            }
        }
        Model::Vacant(_) => frame,
        Model::Server(server) => {
            let job = |(id, prompt_tokens, max_tokens)| Pill { prompt_tokens, max_tokens, ..known(id, flights) };
            ReplicaFrame {
                waiting: server.waiting().take(WAITING).map(job).collect(),
                waiting_total: server.queued(),
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
                waiting_total: tick.waiting().len() as u32,
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
