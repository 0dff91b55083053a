//! Envoy's least-request balancer.
//!
//! Where all weights are equal it draws a few hosts, with replacement, and takes the one with the fewest active requests; or it looks at
//! all. Where weights differ it goes by a schedule, earliest deadline first: a host that is picked comes again after 1/weight, its weight divided by
//! (active requests + 1)^bias at that moment (`least_request_lb.cc`). In this mode it does *not* look for the least loaded: load only stretches
//! the time until a host's next turn.

use super::params::{self, Params};
use super::registry::Entry;
use super::ties::Ties;
use super::{Choice, Policy, RouteContext};
use crate::telemetry::Reads;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use servelab_engine::random::Stream;
use servelab_spec::catalog::{Family, PolicyInfo};

const NAME: &str = "envoy_least_request";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> PolicyInfo {
    PolicyInfo {
        name: NAME.into(),
        label: "Envoy least request".into(),
        family: Family::Plain,
        project: "Envoy".into(),
        reads_prompt: false,
        summary: "Draws two replicas and takes the one with fewer active requests; with unequal weights, weighted turns that come later the more is active.".into(),
        reads: "Router-local: requests this router has in flight on each replica. Not the prompt's content.".into(),
        compares: "Active requests of the drawn, the fewest win; with unequal weights, the instant of the next turn, the earliest wins.".into(),
        fails: "The same replica may be drawn twice, so on two replicas a quarter of the decisions cannot avoid the busier one. With unequal weights a replica that is stuck still gets its turn. Each proxy counts its own requests only. Blind to caches.".into(),
        params: vec![
            params::choice("selection", "Selection", 0, &["draw some", "look at all"],
                "With equal weights: compare some replicas drawn by lot, or all of them with ties by lot."),
            // 2: `choice_count`.
            params::integer("choices", "Choices", "replicas", 2, (2, 64),
                "How many are drawn, with replacement; the same one may come up again."),
            params::integer("weighted", "Replicas with a weight", "replicas", 0, (0, 65_536),
                "The first so many replicas have the weight below, the others 1. Slow replicas are the last ones, so weigh the rest."),
            // 1 to 128: Envoy's weights are whole; 128 is its usual upper bound.
            params::integer("weight", "Weight", "", 2, (1, 128),
                "Weight of the first replicas, when some are given one above."),
            // 1: `active_request_bias`; 0 makes it weighted round-robin.
            params::number("bias", "Active request bias", "", 1.0, (0.0, 10.0, 0.1),
                "With unequal weights: how strongly active requests put off a replica's next turn; 0 not at all."),
        ],
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    Box::new(EnvoyLeastRequest {
        full_scan: params.integer("selection") == 1,
        choices: params.integer("choices"),
        weighted: params.integer("weighted"),
        weight: f64::from(params.integer("weight")),
        bias: params.number("bias"),
        unequal: false,
        schedule: Schedule::default(),
    })
}

struct EnvoyLeastRequest {
    full_scan: bool,
    choices: u32,
    weighted: u32,
    weight: f64,
    bias: f64,
    /// The replicas that are ready have different weights.
    unequal: bool,
    schedule: Schedule,
}

/// Whose turn it is.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Schedule {
    /// Deadline of the latest pick.
    now: f64,
    /// Picks so far: of equal deadlines the one set earlier comes first.
    picks: u64,
    turns: Vec<Turn>,
}

/// A replica's next turn.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    replica: u32,
    deadline: f64,
    set_at: u64,
}

impl EnvoyLeastRequest {
    fn weight_of(&self, replica: u32, active: u32) -> f64 {
        let weight = if replica < self.weighted { self.weight } else { 1.0 };
        weight / libm::pow(f64::from(active) + 1.0, self.bias)
    }

    fn by_turn(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>) -> Choice {
        let turns = &self.schedule.turns;
        let place = |replica: u32| turns.binary_search_by_key(&replica, |turn| turn.replica).ok();
        let now = self.schedule.now;
        scores.extend(
            ctx.candidates.iter().map(|&replica| place(replica).map_or(f64::NAN, |at| turns[at].deadline - now)),
        );
        let earliest = (0..ctx.candidates.len()).filter_map(|at| Some((at, place(ctx.candidates[at])?))).min_by(
            |&(_, a), &(_, b)| {
                turns[a].deadline.total_cmp(&turns[b].deadline).then(turns[a].set_at.cmp(&turns[b].set_at))
            },
        );
        let Some((at, place)) = earliest else { return Choice::new(ctx.candidates[0], "no schedule") };
        let weight = self.weight_of(ctx.candidates[at], ctx.local()[at].requests);
        let schedule = &mut self.schedule;
        schedule.now = schedule.now.max(schedule.turns[place].deadline);
        schedule.picks += 1;
        let turn = &mut schedule.turns[place];
        (turn.deadline, turn.set_at) = (schedule.now + 1.0 / weight, schedule.picks);
        Choice::new(ctx.candidates[at], "its turn by weight over active requests")
    }

    fn by_lot(&self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, stream: &mut Stream) -> Choice {
        let local = ctx.local();
        if self.full_scan {
            scores.extend(local.iter().map(|signals| f64::from(signals.requests)));
            let at = Ties::Random.least(local.iter().map(|signals| signals.requests), stream);
            return Choice::new(ctx.candidates[at], "fewest active requests");
        }
        scores.resize(local.len(), f64::NAN);
        let mut chosen = None;
        for _ in 0..self.choices {
            let at = stream.below(local.len() as u64) as usize;
            scores[at] = f64::from(local[at].requests);
            // The first drawn of equals.
            if chosen.is_none_or(|chosen: usize| local[at].requests < local[chosen].requests) {
                chosen = Some(at);
            }
        }
        Choice::new(ctx.candidates[chosen.unwrap_or(0)], "fewest active requests of those drawn")
    }
}

impl Policy for EnvoyLeastRequest {
    fn reads(&self) -> Reads {
        Reads::LOCAL
    }

    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, stream: &mut Stream) -> Choice {
        if self.unequal { self.by_turn(ctx, scores) } else { self.by_lot(ctx, scores, stream) }
    }

    fn replicas_changed(&mut self, ready: &[u32]) {
        let first = ready.partition_point(|&replica| replica < self.weighted);
        self.unequal = self.weight != 1.0 && first > 0 && first < ready.len();
        let known = self.schedule.turns.iter().map(|turn| turn.replica);
        // Envoy makes a new schedule for every new set of hosts, all of them idle as far as it goes.
        if self.unequal && !known.eq(ready.iter().copied()) {
            let turns = ready.iter().map(|&replica| {
                let deadline = 1.0 / self.weight_of(replica, 0);
                Turn { replica, deadline, set_at: 0 }
            });
            self.schedule = Schedule { now: 0.0, picks: 0, turns: turns.collect() };
        }
    }

    fn save(&self) -> Value {
        serde_json::to_value(&self.schedule).unwrap_or_default()
    }

    fn restore(&mut self, state: &Value) -> Result<(), String> {
        let schedule: Schedule = serde_json::from_value(state.clone()).map_err(|error| error.to_string())?;
        if !schedule.turns.is_sorted_by(|a, b| a.replica < b.replica) {
            return Err("turns are not in order of replicas".into());
        }
        self.schedule = schedule;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, prompt};
    use super::*;
    use servelab_spec::experiment::PolicySpec;

    fn spec(params: &[(&str, f64)]) -> PolicySpec {
        params.iter().fold(PolicySpec::named(NAME), |spec, &(name, value)| spec.with(name, value))
    }

    /// With replacement: of n = 3 the best is taken with probability 1 − (2/3)² = 5/9, the next with (2/3)² − (1/3)² = 3/9, the worst with 1/9,
    /// when both draws fall on it. Two *distinct* choices would never take the worst.
    #[test]
    fn two_draws_may_fall_on_the_same() {
        let counts = Bench::of(NAME, 3).requests(&[4, 1, 9]).counts(&prompt(&[1]), 9000);
        for (count, expected) in counts.iter().zip([3000u32, 5000, 1000]) {
            // Standard deviation at most 47.
            assert!(count.abs_diff(expected) < 200, "{counts:?}");
        }
        let three = Bench::new(spec(&[("choices", 3.0)]), 3).requests(&[4, 1, 9]).counts(&prompt(&[1]), 2700);
        // (1/3)³ of 2700.
        assert!(three[2].abs_diff(100) < 45, "{three:?}");
    }

    #[test]
    fn looking_at_all_takes_the_least_and_draws_among_equals() {
        let mut bench = Bench::new(spec(&[("selection", 1.0)]), 4).requests(&[3, 2, 5, 2]);
        let counts = bench.counts(&prompt(&[1]), 400);
        assert_eq!((counts[0], counts[2]), (0, 0));
        assert!(counts[1].abs_diff(200) < 45, "{counts:?}");
        assert_eq!(bench.scores, [3.0, 2.0, 5.0, 2.0]);
    }

    /// Nothing active: weight 2 against 1 and 1. By hand: deadlines ½, 1, 1; 0 at ½ (next 1), then 1 and 2 at 1, set earlier than 0's
    /// second turn, then 0 at 1 (next 1½), 0 at 1½ (next 2), and so on.
    #[test]
    fn idle_weights_are_weighted_turns() {
        let mut bench = Bench::new(spec(&[("weighted", 1.0), ("weight", 2.0)]), 3);
        let turns: Vec<u32> = (0..8).map(|_| bench.pick(&prompt(&[1]))).collect();
        assert_eq!(turns, [0, 1, 2, 0, 0, 1, 2, 0]);
        let counts = bench.counts(&prompt(&[1]), 400);
        assert_eq!(counts, [200, 100, 100]);
    }

    /// Active requests divide the weight: with 3 active on each of the weight 4, as with none on the weight 1. Of 3 replicas with weights 4, 1, 1
    /// and 3, 0, 0 active all come equally often. Least-load would never take the first.
    #[test]
    fn active_requests_put_off_the_next_turn() {
        let weights = [("weighted", 1.0), ("weight", 4.0)];
        let mut bench = Bench::new(spec(&weights), 3).requests(&[3, 0, 0]);
        bench.pick(&prompt(&[1]));
        let counts = bench.counts(&prompt(&[1]), 300);
        assert!(counts.iter().all(|count| count.abs_diff(100) <= 1), "{counts:?}");
        let mut bench = Bench::new(spec(&[weights[0], weights[1], ("bias", 0.0)]), 3).requests(&[3, 0, 0]);
        let counts = bench.counts(&prompt(&[1]), 600);
        assert_eq!(counts, [400, 100, 100], "without bias, weighted round-robin");
        let mut bench = Bench::new(spec(&[weights[0], weights[1], ("bias", 2.0)]), 3).requests(&[3, 0, 0]);
        bench.pick(&prompt(&[1]));
        // 4/16 against 1: a ninth.
        let counts = bench.counts(&prompt(&[1]), 900);
        assert!(counts[0].abs_diff(100) <= 1, "{counts:?}");
    }

    #[test]
    fn equal_weights_have_no_schedule_and_a_schedule_survives_a_save() {
        for equal in [spec(&[("weighted", 3.0)]), spec(&[("weighted", 1.0), ("weight", 1.0)])] {
            let mut bench = Bench::new(equal, 3).requests(&[1, 0, 0]);
            bench.pick(&prompt(&[1]));
            assert!(bench.choice.why.contains("drawn"));
        }
        let weighted = spec(&[("weighted", 1.0), ("weight", 3.0)]);
        let run = |reload: bool| -> Vec<u32> {
            let mut bench = Bench::new(weighted.clone(), 3);
            (0..30)
                .map(|at| {
                    if reload && at == 7 {
                        bench.reload(weighted.clone());
                    }
                    bench.send(&prompt(&[1]))
                })
                .collect()
        };
        assert_eq!(run(true), run(false));
        let mut bench = Bench::new(weighted.clone(), 3);
        bench.replicas(&[0, 2]);
        assert_eq!((0..4).map(|_| bench.pick(&prompt(&[1]))).collect::<Vec<_>>(), [0, 0, 2, 0]);
        for damaged in [
            r#"{"now":0.0,"picks":0,"turns":[{"replica":1,"deadline":1.0,"set_at":0},{"replica":0,"deadline":1.0,"set_at":0}]}"#,
            r#"{"now":null,"picks":0,"turns":[]}"#,
            "3",
        ] {
            let state: Value = serde_json::from_str(damaged).unwrap_or_default();
            assert!(bench.policy.restore(&state).is_err(), "{damaged}");
        }
    }
}
