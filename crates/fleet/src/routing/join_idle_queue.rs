//! Join-idle-queue: replicas with a free slot stand in a queue at the router, and the next in the queue gets the request.
//!
//! Lu et al. (2011) let an idle server put itself into the idle queue of one dispatcher, so that a decision costs no look at any load: the
//! work of finding an idle server is done when it becomes idle, off the request's path. With continuous batching a replica takes many
//! requests at once, so here it stands in the queue once for each free slot. It comes back when a request of this router ends there: a router
//! hears of no other.

use super::params::{self, Params};
use super::registry::Entry;
use super::{Choice, Policy, RequestView, RouteContext};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use servelab_engine::Nanos;
use servelab_engine::random::Stream;
use servelab_spec::catalog::{Family, PolicyInfo};
use std::collections::VecDeque;

const NAME: &str = "join_idle_queue";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> PolicyInfo {
    PolicyInfo {
        name: NAME.into(),
        label: "Join-idle-queue".into(),
        family: Family::Plain,
        project: String::new(),
        reads_prompt: false,
        summary: "Replicas with a free slot queue up at the router; the first in that queue gets the request, and one drawn by lot when it is empty.".into(),
        reads: "Its own queue of free slots: replicas come back to it when a request of this router ends. Not the prompt's content.".into(),
        compares: String::new(),
        fails: "Once no slot is free it is random routing. Several routers each believe in slots that the others have filled; a slot count above the engine's batch means queues at replicas while others have room. Blind to caches.".into(),
        params: vec![
            // 8: the batch of the default engine, so that a slot here is a slot there.
            params::integer("slots", "Slots", "per replica", 8, (1, 1024),
                "Requests a replica serves at once: with fewer in flight it stands in the idle queue. Set it to the engine's batch."),
        ],
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    Box::new(JoinIdleQueue { slots: params.integer("slots"), ready: Vec::new(), state: State::default() })
}

struct JoinIdleQueue {
    slots: u32,
    /// Ascending.
    ready: Vec<u32>,
    state: State,
}

/// What is saved.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    /// Replicas with a free slot, an entry for each, the next first.
    idle: VecDeque<u32>,
    /// Replicas that were ever ready, ascending, with the requests of this router in flight there.
    known: Vec<(u32, u32)>,
}

impl State {
    fn in_flight(&mut self, replica: u32) -> Option<&mut u32> {
        let at = self.known.binary_search_by_key(&replica, |&(known, _)| known).ok()?;
        Some(&mut self.known[at].1)
    }
}

impl Policy for JoinIdleQueue {
    fn route(&mut self, ctx: &RouteContext<'_>, _scores: &mut Vec<f64>, stream: &mut Stream) -> Choice {
        // All that is ready may be chosen, unless the gateway holds some back: then the first that may.
        let all = ctx.candidates.len() == self.ready.len();
        let next = self.state.idle.iter().find(|&replica| all || ctx.candidates.binary_search(replica).is_ok());
        match next {
            Some(&replica) => Choice::new(replica, "first in the idle queue"),
            None => {
                let at = stream.below(ctx.candidates.len() as u64) as usize;
                Choice::new(ctx.candidates[at], "nobody idle: drawn by lot")
            }
        }
    }

    fn dispatched(&mut self, _now: Nanos, _request: &RequestView<'_>, replica: u32) {
        if let Some(in_flight) = self.state.in_flight(replica) {
            *in_flight += 1;
        }
        if let Some(at) = self.state.idle.iter().position(|&idle| idle == replica) {
            self.state.idle.remove(at);
        }
    }

    fn ended(&mut self, _now: Nanos, _request: &RequestView<'_>, replica: u32) {
        let slots = self.slots;
        let Some(in_flight) = self.state.in_flight(replica) else { return };
        *in_flight = in_flight.saturating_sub(1);
        if *in_flight < slots && self.ready.binary_search(&replica).is_ok() {
            self.state.idle.push_back(replica);
        }
    }

    fn replicas_changed(&mut self, ready: &[u32]) {
        let (slots, state) = (self.slots, &mut self.state);
        state.idle.retain(|replica| ready.binary_search(replica).is_ok());
        // How often each should stand there more than it does: newcomers with all their slots, and after a restore nobody.
        let mut missing: Vec<(u32, u32)> = Vec::with_capacity(ready.len());
        for &replica in ready {
            let in_flight = match state.in_flight(replica) {
                Some(&mut in_flight) => in_flight,
                None => {
                    let at = state.known.partition_point(|&(known, _)| known < replica);
                    state.known.insert(at, (replica, 0));
                    0
                }
            };
            missing.push((replica, slots.saturating_sub(in_flight)));
        }
        for idle in &state.idle {
            if let Ok(at) = missing.binary_search_by_key(idle, |&(replica, _)| replica) {
                missing[at].1 = missing[at].1.saturating_sub(1);
            }
        }
        // A slot of each in turn, or the first requests would all go to the first replica.
        for slot in 0..slots {
            let open = missing.iter().filter(|&&(_, missing)| slot < missing);
            state.idle.extend(open.map(|&(replica, _)| replica));
        }
        self.ready.clear();
        self.ready.extend(ready);
    }

    fn save(&self) -> Value {
        serde_json::to_value(&self.state).unwrap_or_default()
    }

    fn restore(&mut self, state: &Value) -> Result<(), String> {
        let mut state: State = serde_json::from_value(state.clone()).map_err(|error| error.to_string())?;
        if !state.known.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Err("replicas are not ascending".into());
        }
        let idle = state.idle.clone();
        if let Some(replica) = idle.iter().find(|&&replica| state.in_flight(replica).is_none()) {
            return Err(format!("replica {replica} is idle and unknown"));
        }
        self.state = state;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, prompt};
    use super::*;
    use servelab_spec::experiment::PolicySpec;

    fn slots(slots: f64) -> PolicySpec {
        PolicySpec::named(NAME).with("slots", slots)
    }

    fn send(bench: &mut Bench, n: usize) -> Vec<u32> {
        (0..n).map(|_| bench.send(&prompt(&[1]))).collect()
    }

    /// One slot each is the paper's server. By hand: who becomes idle first is served first, however the indices lie.
    #[test]
    fn the_first_to_become_idle_is_the_first_to_be_sent_to() {
        let mut bench = Bench::new(slots(1.0), 3);
        assert_eq!(send(&mut bench, 3), [0, 1, 2]);
        let one = prompt(&[1]);
        bench.end(&one, 2);
        bench.end(&one, 0);
        assert_eq!(send(&mut bench, 2), [2, 0]);
        assert_eq!(bench.choice.why, "first in the idle queue");
        // Nobody is idle: by lot, the busiest as likely as the rest.
        let counts = bench.counts(&one, 3000);
        assert!(counts.iter().all(|count| count.abs_diff(1000) < 110), "{counts:?}");
        // The lot falls twice on somebody. Who ends with requests left is not idle: it takes two ends.
        let busy = bench.send(&one);
        bench.end(&one, busy);
        assert_eq!(bench.choice.why, "nobody idle: drawn by lot");
        bench.pick(&one);
        assert_eq!(bench.choice.why, "nobody idle: drawn by lot");
        bench.end(&one, busy);
        assert_eq!(bench.pick(&one), busy);
    }

    #[test]
    fn a_replica_stands_there_once_for_each_free_slot() {
        let mut bench = Bench::new(slots(2.0), 2);
        assert_eq!(send(&mut bench, 4), [0, 1, 0, 1]);
        let one = prompt(&[1]);
        bench.end(&one, 1);
        bench.end(&one, 1);
        bench.end(&one, 0);
        assert_eq!(send(&mut bench, 3), [1, 1, 0]);
    }

    #[test]
    fn who_may_not_be_chosen_is_passed_over_and_who_leaves_is_forgotten() {
        let mut bench = Bench::new(slots(1.0), 4);
        bench.replicas(&[0, 1, 2]);
        // The gateway holds 0 back: it keeps its place.
        bench.candidates = vec![1, 2];
        assert_eq!(send(&mut bench, 1), [1]);
        bench.replicas(&[0, 1]);
        assert_eq!(send(&mut bench, 1), [0]);
        let one = prompt(&[1]);
        assert!([0, 1].contains(&bench.pick(&one)), "2 has left the queue");
        bench.end(&one, 1);
        // A newcomer has all its slots free and stands behind those who came before it.
        bench.replicas(&[0, 1, 3]);
        assert_eq!(send(&mut bench, 1), [1]);
        assert_eq!(send(&mut bench, 1), [3]);
    }

    #[test]
    fn goes_on_after_a_save_and_refuses_damage() {
        let mut bench = Bench::new(slots(2.0), 3);
        send(&mut bench, 4);
        bench.end(&prompt(&[1]), 1);
        bench.reload(slots(2.0));
        assert_eq!(send(&mut bench, 3), [1, 2, 1]);
        for damaged in [
            r#"{"idle":[5],"known":[[0,1]]}"#,
            r#"{"idle":[],"known":[[1,0],[0,0]]}"#,
            r#"{"idle":[]}"#,
            r#"{"idle":[],"known":[[0,-1]]}"#,
        ] {
            let state: Value = serde_json::from_str(damaged).unwrap_or_default();
            assert!(bench.policy.restore(&state).is_err(), "{damaged}");
        }
    }
}
