//! Ray Serve's `PrefixCacheAffinityRouter`: while queues are alike, to the replica that got most of the prompt before.
//!
//! `llm/_internal/serve/routing_policies/prefix_aware/`. If queue lengths differ by more than a threshold, two replicas are drawn and the
//! shorter queue wins. Otherwise the prefix tree is asked: with a match of at least a tenth of the prompt, the replicas that have it, else
//! the replicas with the fewest characters in the tree; among those the shortest queue. The threshold is infinite by default (it was 10
//! until #59390), so load only ever decides among equals.
//!
//! A queue's length is what this router has in flight there: Ray asks replicas and adds its own sends to the cached answer, which with one router
//! comes to the same.

use super::params::{self, Params};
use super::radix::{RadixTree, Use};
use super::registry::Entry;
use super::{Choice, Policy, RouteContext, text};
use crate::telemetry::{LocalSignals, Reads};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use servelab_engine::Nanos;
use servelab_engine::random::Stream;
use servelab_spec::catalog::{Family, PolicyInfo};

const NAME: &str = "ray_prefix_cache_affinity";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

/// Stands for infinity: no fleet has as many requests in flight.
const NEVER: u32 = 1_000_000_000;

fn info() -> PolicyInfo {
    PolicyInfo {
        name: NAME.into(),
        label: "Ray prefix cache affinity".into(),
        family: Family::CacheAware,
        project: "Ray Serve".into(),
        reads_prompt: true,
        summary: "Sends a prompt to the shortest queue among the replicas that got most of it before, and a new one to the replicas with the least text in the tree; beyond a difference between queues that is infinite by default, to the better of two drawn ones.".into(),
        reads: "The prompt's text, its own tree of what it sent where, and router-local: requests this router has in flight on each replica.".into(),
        compares: "Characters of the prompt that the replicas with the longest match got before, the most win; below the least match, characters in the tree, the fewest win; out of balance, requests in flight of two.".into(),
        fails: "With the default threshold a popular prefix stays on the replica that got it first, however long its queue. New prompts go to whoever has the least text, not to whoever has the least to do, so a newcomer draws all new prefixes and no known one. The tree is not evicted unless told to. Queue lengths cached and never counted down mislead it (#61755).".into(),
        params: vec![
            // Infinite in the source; 10 until #59390.
            params::integer("imbalanced_threshold", "Imbalance threshold", "requests", NEVER, (0, NEVER),
                "Queues that differ by more than this drop affinity; 1000000000 stands for never."),
            params::number("match_rate", "Least match", "of the prompt", 0.1, (0.0, 1.0, 0.01),
                "A smaller share of the prompt than this does not count as a match."),
            params::switch("evict", "Evict", false, "Cut back the tree at an interval."),
            // 400 000, 360 000 and 10 s: the source's, once eviction is on.
            params::integer("evict_above", "Evict above", "characters a replica", 400_000, (1, 1 << 30),
                "A replica with more characters in the tree than this is cut back."),
            params::integer("evict_to", "Evict to", "characters a replica", 360_000, (0, 1 << 30),
                "What a replica that is cut back keeps, at most."),
            params::number("eviction_s", "Eviction interval", "s", 10.0, (0.1, 86_400.0, 0.1),
                "Time between two evictions."),
        ],
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    Box::new(PrefixCacheAffinity {
        imbalanced_threshold: params.integer("imbalanced_threshold"),
        match_rate: params.number("match_rate"),
        evict: params.switch("evict"),
        evict_above: params.integer("evict_above").into(),
        evict_to: params.integer("evict_to").into(),
        eviction: Nanos::from_secs(params.number("eviction_s")),
        memory: Memory::default(),
        characters: Vec::new(),
        chosen: Vec::new(),
    })
}

struct PrefixCacheAffinity {
    imbalanced_threshold: u32,
    match_rate: f64,
    evict: bool,
    evict_above: u64,
    evict_to: u64,
    eviction: Nanos,
    memory: Memory,
    characters: Vec<u32>,
    /// Positions.
    chosen: Vec<usize>,
}

/// What is saved.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Memory {
    tree: RadixTree,
    /// Evictions that were due so far.
    evictions: u64,
}

/// Two different positions of `n`, or one twice where there is but one.
fn two(n: usize, stream: &mut Stream) -> [usize; 2] {
    let first = stream.below(n as u64) as usize;
    let second = stream.below(n as u64 - 1) as usize;
    if n == 1 { [0, 0] } else { [first, second + usize::from(second >= first)] }
}

impl PrefixCacheAffinity {
    fn cut_back(&mut self, now: Nanos) {
        let due = if self.evict { now.0.checked_div(self.eviction.0).unwrap_or(0) } else { 0 };
        if due <= self.memory.evictions {
            return;
        }
        self.memory.evictions = due;
        let tree = &mut self.memory.tree;
        let known: Vec<u32> = tree.known().collect();
        for replica in known {
            let size = tree.size(replica).unwrap_or(0);
            if size > self.evict_above {
                tree.take(replica, size.saturating_sub(self.evict_to));
            }
        }
    }
}

fn shortest(positions: &[usize], loads: &[LocalSignals]) -> usize {
    positions.iter().copied().min_by_key(|&at| loads[at].requests).unwrap_or(0)
}

impl Policy for PrefixCacheAffinity {
    fn reads(&self) -> Reads {
        Reads::LOCAL
    }

    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, stream: &mut Stream) -> Choice {
        self.cut_back(ctx.now);
        let text = text::read(ctx.request.prompt, ctx.block_tokens, &mut self.characters);
        let (tree, replicas, loads) = (&mut self.memory.tree, ctx.candidates, ctx.local());
        let queues = loads.iter().map(|load| load.requests);
        let differ = queues.clone().max().unwrap_or(0) - queues.clone().min().unwrap_or(0);
        self.chosen.clear();
        let choice = if differ > self.imbalanced_threshold {
            scores.extend(queues.map(f64::from));
            let at = shortest(&two(replicas.len(), stream), loads);
            Choice::new(replicas[at], "out of balance: shorter queue of two")
        } else {
            let found = tree.longest(text, Some(replicas));
            if f64::from(found.chars) >= self.match_rate * text.len() as f64 {
                let owners = tree.owners(found).filter_map(|owner| replicas.binary_search(&owner).ok());
                self.chosen.extend(owners);
                if found.chars == 0 {
                    // No match is match enough: everybody has as much.
                    self.chosen.extend(0..replicas.len());
                }
                scores.resize(replicas.len(), 0.0);
                self.chosen.iter().for_each(|&at| scores[at] = found.chars.into());
                let at = shortest(&self.chosen, loads);
                let expected = found.chars.min(ctx.request.prompt.len.saturating_sub(1));
                Choice::new(replicas[at], "got most of it before").expecting(expected)
            } else {
                let size = |at: usize| tree.size(replicas[at]).unwrap_or(0);
                scores.extend((0..replicas.len()).map(|at| size(at) as f64));
                let smallest = (0..replicas.len()).map(size).min();
                self.chosen.extend((0..replicas.len()).filter(|&at| Some(size(at)) == smallest));
                Choice::new(replicas[shortest(&self.chosen, loads)], "match too small: least text in the tree")
            }
        };
        tree.insert(text, choice.replica, Use::Path);
        choice
    }

    fn replicas_changed(&mut self, ready: &[u32]) {
        let tree = &mut self.memory.tree;
        let gone: Vec<u32> = tree.known().filter(|replica| ready.binary_search(replica).is_err()).collect();
        gone.into_iter().for_each(|replica| tree.remove(replica));
        ready.iter().for_each(|&replica| tree.add(replica));
    }

    fn save(&self) -> Value {
        serde_json::to_value(&self.memory).unwrap_or_default()
    }

    fn restore(&mut self, state: &Value) -> Result<(), String> {
        self.memory = serde_json::from_value(state.clone()).map_err(|error| error.to_string())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, text};
    use super::*;
    use servelab_spec::experiment::PolicySpec;

    /// By hand: (queues, prompt) → (replica, why), in this order, everything remembered.
    #[test]
    fn decides_as_written() {
        let mut bench = Bench::of(NAME, 3);
        let new = "match too small: least text in the tree";
        let known = "got most of it before";
        let table: [(&[u32; 3], &str, u32, &str); 9] = [
            // All trees are empty: the shortest queue, of equals the first.
            (&[1, 0, 0], "aaaaaaaaaa", 1, new),
            (&[1, 0, 0], "bbbbbbbbbbbbbbb", 2, new),
            // 0 has the least text and by far the longest queue: a router that looks at load gets this wrong.
            (&[99, 0, 0], "cccccccccccccccccccc", 0, new),
            // Texts 20, 10, 15.
            (&[0, 9, 0], "dddddddddd", 1, new),
            // 1 of 10 is a match.
            (&[0, 500, 0], "axxxxxxxxx", 1, known),
            // 1 of 11 is not: texts 20, 29, 15.
            (&[0, 0, 7], "axyyyyyyyyy", 1, known),
            (&[0, 0, 7], "byyyyyyyyyyy", 2, new),
            // Both 1 and 2 get to know e: the shorter queue of the two, whatever 0 does.
            (&[0, 0, 7], "eeeeeeeeee", 0, new),
            (&[5, 4, 3], "eeeeezzzzz", 0, known),
        ];
        for (row, (loads, prompt, replica, why)) in table.into_iter().enumerate() {
            bench.set_requests(loads);
            assert_eq!((bench.pick(&text(prompt)), bench.choice.why), (replica, why), "row {row}");
        }
        assert_eq!((bench.scores.as_slice(), bench.choice.expected_hit), ([5.0, 0.0, 0.0].as_slice(), 5));
    }

    #[test]
    fn several_holders_share_by_queue() {
        let mut bench = Bench::of(NAME, 3);
        for replica in [0, 2] {
            bench.replicas(&[replica]);
            bench.pick(&text("aaaaaaaaaa"));
        }
        // Each was purged when the other was alone.
        bench.replicas(&[0, 1, 2]);
        bench.set_requests(&[3, 0, 9]);
        assert_eq!(bench.pick(&text("aaaaaaaaaa")), 2, "0's text was purged");
        let mut bench = Bench::new(PolicySpec::named(NAME).with("imbalanced_threshold", 20.0), 2);
        bench.pick(&text("aaaaaaaaaa"));
        bench.set_requests(&[21, 0]);
        assert_eq!(bench.pick(&text("aaaaaaaaaa")), 1, "of two the shorter queue");
        assert_eq!(bench.choice.why, "out of balance: shorter queue of two");
        for (loads, replica) in [([3, 2], 1), ([2, 3], 0), ([2, 2], 0), ([20, 0], 1)] {
            bench.set_requests(&loads);
            assert_eq!(bench.pick(&text("aaaaaaaaaa")), replica);
            assert_eq!(bench.choice.why, "got most of it before");
        }
    }

    #[test]
    fn out_of_balance_two_are_drawn() {
        let mut bench = Bench::new(PolicySpec::named(NAME).with("imbalanced_threshold", 0.0), 3).requests(&[2, 1, 0]);
        let hits = bench.counts(&text("aaaaaaaaaa"), 900);
        // Pairs 01, 02, 12 are equally likely: 1, 2 and 2 win. 600 ± 4 standard deviations of 14.
        assert!(hits[0] == 0 && hits[2].abs_diff(600) < 57, "{hits:?}");
        let mut alone = Bench::new(PolicySpec::named(NAME).with("imbalanced_threshold", 0.0), 1).requests(&[2]);
        assert_eq!(alone.pick(&text("a")), 0);
        let mut stream = Stream::new(1, b"two");
        assert_eq!(two(1, &mut stream), [0, 0]);
    }

    #[test]
    fn a_newcomer_draws_all_that_is_new() {
        let mut bench = Bench::of(NAME, 3);
        bench.replicas(&[0, 1]);
        for prompt in ["aaaaaaaaaa", "bbbbbbbbbb"] {
            bench.send(&text(prompt));
        }
        bench.replicas(&[0, 1, 2]);
        bench.set_requests(&[0, 0, 40]);
        assert_eq!(bench.pick(&text("cccccccc")), 2);
        assert_eq!(bench.pick(&text("dd")), 2, "8 characters are fewer than 10");
        assert_eq!(bench.pick(&text("ee")), 0, "10 are not: the shorter queue");
        assert_eq!(bench.pick(&text("aaaaaaaaaa")), 0);
    }

    #[test]
    fn evicts_when_told_to() {
        let spec = PolicySpec::named(NAME).with("evict", 1.0).with("evict_above", 25.0).with("evict_to", 12.0);
        let mut bench = Bench::new(spec.clone(), 1);
        for prompt in ["aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc"] {
            bench.send(&text(prompt));
        }
        bench.reload(spec);
        bench.now = Nanos::from_secs(9.9);
        bench.pick(&text("zaaa"));
        assert_eq!(bench.scores, [30.0]);
        bench.now = Nanos::from_secs(10.0);
        // 34 characters: 22 have to go, and a, b and c go whole.
        bench.pick(&text("yyyy"));
        assert_eq!(bench.scores, [4.0]);
        assert!(bench.policy.restore(&Value::from(1)).is_err());
    }
}
