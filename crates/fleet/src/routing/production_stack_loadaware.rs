//! vLLM production-stack's `loadaware` (#1035): the share of the prompt that is cached, less the load relative to the fleet's.
//!
//! `score = matched ÷ prompt − β · (load − mean) ÷ max(1, mean)`, the highest wins, of equals the first. What is matched comes from the
//! LMCache controller, which engines tell of their blocks: here the event-fed index (the controller answers in chunks of 256 tokens, the index
//! in KV blocks). Load is what this router has in flight. A mean below 1 counts as 1, so that a nearly idle fleet reports no imbalance. When nobody
//! holds anything, the session's place on a hash ring decides, or the fewest arrivals per second, as in `kvaware`.

use super::params::{self, Params};
use super::qps::QpsWindow;
use super::registry::Entry;
use super::ring::Ring;
use super::session_sticky::SESSION;
use super::ties::Ties;
use super::{Choice, Policy, RequestView, RouteContext};
use crate::telemetry::Reads;
use serde_json::Value;
use servelab_engine::Nanos;
use servelab_engine::random::{Stream, mix};
use servelab_spec::catalog::{Family, PolicyInfo};

const NAME: &str = "production_stack_loadaware";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> PolicyInfo {
    PolicyInfo {
        name: NAME.into(),
        label: "production-stack loadaware".into(),
        family: Family::CacheAware,
        project: "vLLM production-stack".into(),
        reads_prompt: true,
        summary: "Scores every replica by the share of the prompt that it holds, less β times how far its requests in flight are above the fleet's mean; the highest score wins.".into(),
        reads: "The prompt's tokens, the event-fed index of who holds which block, and router-local: requests this router has in flight on each replica. Without any holder, the session's id or its own log of arrivals.".into(),
        compares: "Share of the prompt held − β · load relative to the mean, the most wins; when nobody holds anything, arrivals per second, the fewest win.".into(),
        fails: "The index lags: until the first blocks are told, requests with one prefix go by arrivals per second and several replicas compute it. A restarted engine keeps credit for blocks it lost until the controller learns better. β is one number for prompts of all lengths: a miss of 100 tokens weighs as much as one of 10 000.".into(),
        params: vec![
            // 1: the source's default. A replica with twice the mean's load loses as much as a wholly cached prompt gains.
            params::number("beta", "β", "hits per 100 % load", 1.0, (0.0, 100.0, 0.05),
                "How much of a whole cached prompt a load of twice the mean outweighs."),
            Ring::param(160),
            QpsWindow::param(),
            Ties::Lowest.param(),
        ],
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    Box::new(LoadAware {
        beta: params.number("beta"),
        ties: Ties::of(params),
        ring: Ring::new(params.integer(Ring::NAME)),
        arrivals: QpsWindow::of(params),
        matched: Vec::new(),
    })
}

struct LoadAware {
    beta: f64,
    ties: Ties,
    ring: Ring,
    arrivals: QpsWindow,
    /// Blocks by candidate.
    matched: Vec<u32>,
}

impl Policy for LoadAware {
    fn reads(&self) -> Reads {
        Reads::LOCAL.and(Reads::EVENTS)
    }

    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, stream: &mut Stream) -> Choice {
        self.matched.clear();
        ctx.matched_blocks(&mut self.matched);
        if self.matched.iter().all(|&blocks| blocks == 0) {
            let owner = ctx.request.session.and_then(|session| self.ring.first(mix(SESSION, session), ctx.candidates));
            return match owner {
                Some(at) => Choice::new(ctx.candidates[at], "nobody holds it: its session's place on the ring"),
                None => {
                    let at = self.arrivals.lowest(ctx.now, ctx.candidates, scores);
                    Choice::new(ctx.candidates[at], "nobody holds it: fewest arrivals per second")
                }
            };
        }
        let len = ctx.request.prompt.len.max(1);
        let loads = ctx.local();
        let mean = loads.iter().map(|load| f64::from(load.requests)).sum::<f64>() / loads.len() as f64;
        let held = |blocks: u32| blocks.saturating_mul(ctx.block_tokens).min(len);
        scores.extend(self.matched.iter().zip(loads).map(|(&blocks, load)| {
            let relative = (f64::from(load.requests) - mean) / mean.max(1.0);
            f64::from(held(blocks)) / f64::from(len) - self.beta * relative
        }));
        let at = self.ties.most(scores, stream);
        let expected = held(self.matched[at]).min(len - 1);
        Choice::new(ctx.candidates[at], "most cached for its load").expecting(expected)
    }

    fn dispatched(&mut self, now: Nanos, _request: &RequestView<'_>, replica: u32) {
        self.arrivals.sent(now, replica);
    }

    fn replicas_changed(&mut self, ready: &[u32]) {
        self.ring.set(ready);
    }

    fn save(&self) -> Value {
        serde_json::to_value(&self.arrivals).unwrap_or_default()
    }

    fn restore(&mut self, state: &Value) -> Result<(), String> {
        self.arrivals = serde_json::from_value(state.clone()).map_err(|error| error.to_string())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, prompt};
    use super::*;
    use servelab_engine::Prompt;
    use servelab_spec::experiment::PolicySpec;

    fn ids(first: u32) -> Prompt {
        prompt(&(first..first + 64).collect::<Vec<_>>())
    }

    /// By hand: 0 holds 64 of 64 tokens, 1 holds 32, 2 none. (β, in flight) → replica.
    #[test]
    fn a_whole_hit_is_worth_a_mean_of_load() {
        let table = [
            (1.0, [0, 0, 0], 0),
            // Mean 2: +1, −0.5, −0.5. 1 − 1 = 0; 0.5 + 0.5 = 1; 0 + 0.5.
            (1.0, [4, 1, 1], 1),
            // Mean 4: 1 − 0.5; 0.5 − 0; 0 + 0.5. All equal: the first.
            (1.0, [6, 4, 2], 0),
            // Mean 5: 0: 1 − 0.4; 1: 0.5 − 0.4; 2: 0.8. Cold but idle beats warm but busy.
            (1.0, [7, 7, 1], 2),
            (0.5, [7, 7, 1], 0),
            (0.0, [900, 0, 0], 0),
            // Mean 1/3 counts as 1: 0: 1 − 2/3; 1: 0.5 + 1/3.
            (1.0, [1, 0, 0], 1),
            (0.7, [1, 0, 0], 1),
            (0.4, [1, 0, 0], 0),
        ];
        for (beta, loads, replica) in table {
            let mut bench = Bench::new(PolicySpec::named(NAME).with("beta", beta), 3).requests(&loads);
            bench.stored(0, &ids(0), 4);
            bench.stored(1, &ids(0), 2);
            assert_eq!(bench.pick(&ids(0)), replica, "β {beta}, {loads:?}: {:?}", bench.scores);
            let held = [63, 32, 0][replica as usize];
            assert_eq!(bench.choice.expected_hit, held, "at least one token is always computed");
        }
    }

    #[test]
    fn without_holders_the_session_or_arrivals_decide() {
        let mut bench = Bench::of(NAME, 3).requests(&[0, 7, 9]);
        assert_eq!([0, 1, 2].map(|_| bench.send(&ids(0))), [0, 1, 2], "arrivals, not load");
        assert_eq!(bench.choice.why, "nobody holds it: fewest arrivals per second");
        let mut seen = [false; 3];
        for session in 0..40 {
            let asked = ids(0);
            let request = || RequestView { session: Some(session), ..Bench::request(&asked) };
            let first = bench.choose(request());
            assert_eq!(bench.choose(request()), first);
            assert_eq!(bench.choice.why, "nobody holds it: its session's place on the ring");
            seen[first as usize] = true;
        }
        assert_eq!(seen, [true; 3]);
        bench.reload(PolicySpec::named(NAME));
        assert_eq!(bench.pick(&ids(0)), 0);
        assert!(bench.policy.restore(&Value::from(1)).is_err());
    }
}
