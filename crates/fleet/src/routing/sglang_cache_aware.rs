//! SGLang's `cache_aware` (its gateway, now smg): to whom the prompt is put down in a radix tree, while the fleet is balanced.
//!
//! `sgl-model-gateway/src/policies/cache_aware.rs` and smg's of the same name. When requests in flight differ too much between the busiest and
//! the idlest worker, the whole fleet leaves affinity and the idlest gets the request. Otherwise the tree of sent texts is asked: if the match
//! is a large enough share of the prompt, the worker it is put down to gets it; else the idlest, of equals the one that was chosen
//! least often.
//!
//! Two sets of defaults are in use, so there are two entries: the launcher's, which a deployment gets, and those of the library's struct,
//! which its tests and benchmarks get.

use super::params::{self, Params};
use super::radix::{Found, RadixTree, Use};
use super::registry::Entry;
use super::{Choice, Policy, RouteContext, text};
use crate::telemetry::{LocalSignals, Reads};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use servelab_engine::Nanos;
use servelab_engine::random::Stream;
use servelab_spec::catalog::{Family, PolicyInfo};

pub(crate) const LAUNCHER: Entry = Entry { name: "sglang_cache_aware", info: launcher, build };
pub(crate) const LIBRARY: Entry = Entry { name: "sglang_cache_aware_library", info: library, build };

/// What the two differ in.
struct Defaults {
    cache_threshold: f64,
    balance_abs: u32,
    balance_rel: f64,
    max_tree: u32,
    eviction_s: f64,
}

fn launcher() -> PolicyInfo {
    let defaults =
        Defaults { cache_threshold: 0.3, balance_abs: 64, balance_rel: 1.5, max_tree: 1 << 26, eviction_s: 60.0 };
    info(LAUNCHER.name, "SGLang cache_aware", &defaults)
}

fn library() -> PolicyInfo {
    let defaults =
        Defaults { cache_threshold: 0.5, balance_abs: 32, balance_rel: 1.1, max_tree: 10_000, eviction_s: 30.0 };
    info(LIBRARY.name, "SGLang cache_aware, library defaults", &defaults)
}

fn info(name: &str, label: &str, defaults: &Defaults) -> PolicyInfo {
    PolicyInfo {
        name: name.into(),
        label: label.into(),
        family: Family::CacheAware,
        project: "SGLang gateway (smg)".into(),
        reads_prompt: true,
        summary: "While requests in flight are balanced, sends a prompt to the worker that a radix tree of sent texts puts most of it down to, or, for want of a large enough match, to the idlest; when they are not, to the idlest in any case.".into(),
        reads: "The prompt's text, its own tree of what it sent where, and router-local: requests this router has in flight on each worker.".into(),
        compares: "Characters of the prompt put down to each worker, the most win; without a large enough match or while out of balance, requests in flight, the fewest win (with the smallest tree: characters in the tree).".into(),
        fails: "Out of balance the whole fleet leaves affinity, also for prompts whose worker is idle (#32195, fork's #238). A shared prefix is put down to one worker only, which gets everything until the load differs by more than the absolute threshold. Workers that went stay in the tree: their prompts all go to the first healthy one (smg). The older fallback to the smallest tree ignored load and kept feeding an overloaded worker (#14305). Counts that fall to zero while the tree stays make a hot worker look idle for ever (vllm-project/router #197).".into(),
        params: vec![
            // Launcher 0.3, library 0.5. A share of the whole prompt: a long question behind a shared system prompt falls below it.
            params::number("cache_threshold", "Cache threshold", "of the prompt", defaults.cache_threshold, (0.0, 1.0, 0.01),
                "The match must be a larger share of the prompt than this."),
            // Launcher 64, library 32: requests, whatever their size. A fleet that never holds that many never leaves affinity.
            params::integer("balance_abs", "Absolute imbalance", "requests", defaults.balance_abs, (0, 1_000_000),
                "Out of balance only when the busiest worker has more than this many requests more than the idlest."),
            // Launcher 1.5, library 1.1. An idle worker makes every load unbalanced by this rule.
            params::number("balance_rel", "Relative imbalance", "× idlest", defaults.balance_rel, (0.0, 1000.0, 0.1),
                "Out of balance only when the busiest worker has more than this multiple of the idlest."),
            // Launcher 2²⁶, library 10 000: the library's is a few prompts, so almost nothing is remembered.
            params::integer("max_tree", "Tree limit", "characters a worker", defaults.max_tree, (1, 1 << 30),
                "Each worker's part of the tree is cut back to this at every eviction, least recently used leaves first."),
            // Launcher 60 s (a command-line binding says 120), library 30 s. Between two evictions the tree grows freely.
            params::number("eviction_s", "Eviction interval", "s", defaults.eviction_s, (0.0, 86_400.0, 1.0),
                "Time between two evictions; 0: never."),
            params::switch("smallest_tree", "Fall back to the smallest tree", false,
                "Until late 2025: without a large enough match, take the worker with the fewest characters in the tree, whatever its load."),
            params::switch("last_sender", "Put down to the latest", false,
                "A stretch of text is put down to the worker that last got a prompt ending there, not to the one that got it first, as the source has it."),
            params::switch("forget_removed", "Forget removed workers", false,
                "As the gateway did before it became smg: a worker that goes is taken out of the tree."),
        ],
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    Box::new(CacheAware {
        cache_threshold: params.number("cache_threshold"),
        balance_abs: params.integer("balance_abs"),
        balance_rel: params.number("balance_rel"),
        max_tree: params.integer("max_tree").into(),
        eviction: Nanos::from_secs(params.number("eviction_s")),
        smallest_tree: params.switch("smallest_tree"),
        last_sender: params.switch("last_sender"),
        forget_removed: params.switch("forget_removed"),
        memory: Memory::default(),
        characters: Vec::new(),
    })
}

struct CacheAware {
    cache_threshold: f64,
    balance_abs: u32,
    balance_rel: f64,
    max_tree: u64,
    eviction: Nanos,
    smallest_tree: bool,
    last_sender: bool,
    forget_removed: bool,
    memory: Memory,
    characters: Vec<u32>,
}

/// What is saved.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Memory {
    tree: RadixTree,
    /// How often each worker was chosen, by index.
    processed: Vec<u64>,
    /// Evictions that were due so far.
    evictions: u64,
}

impl Memory {
    fn processed(&self, worker: u32) -> u64 {
        self.processed.get(worker as usize).copied().unwrap_or(0)
    }

    /// `worker` is chosen for `text`.
    fn choose(&mut self, worker: u32, text: &[u32]) {
        self.tree.insert(text, worker, Use::End);
        let at = worker as usize;
        if at >= self.processed.len() {
            self.processed.resize(at + 1, 0);
        }
        self.processed[at] += 1;
    }

    /// The worker that what was found is put down to.
    fn owner(&mut self, found: Found, latest: bool) -> Option<u32> {
        let owner = if latest { self.tree.latest(found) } else { self.tree.maker(found) };
        owner.inspect(|&owner| self.tree.touch(found, owner))
    }
}

/// Position of the smallest; of equals the first.
fn first_least<T: Ord>(n: usize, of: impl Fn(usize) -> T) -> usize {
    (0..n).min_by_key(|&at| of(at)).unwrap_or(0)
}

fn busiest_and_idlest(loads: &[LocalSignals]) -> (u32, u32) {
    loads.iter().fold((0, u32::MAX), |(most, least), load| (most.max(load.requests), least.min(load.requests)))
}

impl CacheAware {
    /// Evicts if an eviction was due since the last decision. Nobody reads the tree in between, so when exactly makes no difference.
    fn evict(&mut self, now: Nanos) {
        let due = now.0.checked_div(self.eviction.0).unwrap_or(0);
        if due > self.memory.evictions {
            self.memory.evictions = due;
            self.memory.tree.cut_back(self.max_tree);
        }
    }
}

impl Policy for CacheAware {
    fn reads(&self) -> Reads {
        Reads::LOCAL
    }

    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, _stream: &mut Stream) -> Choice {
        self.evict(ctx.now);
        let text = text::read(ctx.request.prompt, ctx.block_tokens, &mut self.characters);
        let (memory, workers, loads) = (&mut self.memory, ctx.candidates, ctx.local());
        let (busiest, idlest) = busiest_and_idlest(loads);
        if busiest - idlest > self.balance_abs && f64::from(busiest) > self.balance_rel * f64::from(idlest) {
            scores.extend(loads.iter().map(|load| f64::from(load.requests)));
            let worker = workers[first_least(workers.len(), |at| loads[at].requests)];
            memory.choose(worker, text);
            return Choice::new(worker, "out of balance: fewest requests in flight");
        }
        let found = memory.tree.longest(text, None);
        let owner = memory.owner(found, self.last_sender);
        let matched = f64::from(found.chars) / text.len().max(1) as f64;
        if let Some(owner) = owner.filter(|_| matched > self.cache_threshold) {
            scores.resize(workers.len(), 0.0);
            let Ok(at) = workers.binary_search(&owner) else {
                // Not told to the tree: the next such prompt goes the same way.
                return Choice::new(workers[0], "its worker is gone: first healthy one");
            };
            scores[at] = f64::from(found.chars);
            memory.choose(owner, text);
            let expected = found.chars.min(ctx.request.prompt.len.saturating_sub(1));
            return Choice::new(owner, "most of it was sent there").expecting(expected);
        }
        let (at, why) = if self.smallest_tree {
            let size = |at: usize| memory.tree.size(workers[at]).unwrap_or(0);
            scores.extend((0..workers.len()).map(|at| size(at) as f64));
            (first_least(workers.len(), size), "match too small: smallest tree")
        } else {
            scores.extend(loads.iter().map(|load| f64::from(load.requests)));
            let at = first_least(workers.len(), |at| (loads[at].requests, memory.processed(workers[at])));
            (at, "match too small: fewest requests in flight")
        };
        memory.choose(workers[at], text);
        Choice::new(workers[at], why)
    }

    fn replicas_changed(&mut self, ready: &[u32]) {
        if self.forget_removed {
            let gone: Vec<u32> =
                self.memory.tree.known().filter(|worker| ready.binary_search(worker).is_err()).collect();
            gone.into_iter().for_each(|worker| self.memory.tree.remove(worker));
        }
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

    fn spec() -> PolicySpec {
        PolicySpec::named(LAUNCHER.name)
    }

    /// By hand: (in flight, prompt) → (worker, why), in this order, everything remembered. Thresholds 0.3, 64, 1.5.
    #[test]
    fn decides_as_written() {
        let mut bench = Bench::new(spec(), 3);
        let idle = "match too small: fewest requests in flight";
        let affine = "most of it was sent there";
        let unbalanced = "out of balance: fewest requests in flight";
        let table: [(&[u32; 3], &str, u32, &str); 14] = [
            // Nothing is known and all are idle: whoever was chosen least often, then the first.
            (&[0, 0, 0], "aaaaaaaaaa", 0, idle),
            (&[0, 0, 0], "bbbbbbbbbb", 1, idle),
            (&[0, 0, 0], "cccccccccc", 2, idle),
            (&[0, 0, 0], "dddddddddd", 0, idle),
            // 4 of 10 are more than 0.3; the worker is the busiest by 64, which is not more than 64.
            (&[64, 0, 0], "aaaaxxxxxx", 0, affine),
            // 3 of 10 are not.
            (&[64, 5, 5], "aaayyyyyyy", 1, idle),
            // By 65: the whole fleet leaves affinity, also b, whose worker is not the busiest one. Of equals the first.
            (&[65, 1, 0], "bbbbbbbbbb", 2, unbalanced),
            (&[65, 0, 0], "aaaaxxxxxx", 1, unbalanced),
            // By more than 64, but not by more than half: 200 > 1.5 · 130 is true, 195 > 1.5 · 130 is not.
            (&[195, 130, 140], "aaaazzzzzz", 0, affine),
            (&[200, 130, 140], "aaaazzzzzz", 1, unbalanced),
            // What was sent elsewhere out of balance is still put down to who got it first.
            (&[0, 0, 0], "bbbbbbbbbb", 1, affine),
            // Shared beginnings: aaa was cut from what 0 got first, y is 1's.
            (&[0, 0, 0], "aaayyyyyyy", 1, affine),
            (&[0, 9, 9], "aaayxxxxxx", 1, affine),
            // Least load before least often chosen.
            (&[2, 3, 1], "eeeeeeeeee", 2, idle),
        ];
        for (row, (loads, prompt, worker, why)) in table.into_iter().enumerate() {
            bench.set_requests(loads);
            assert_eq!((bench.pick(&text(prompt)), bench.choice.why), (worker, why), "row {row}");
        }
        assert_eq!(bench.scores, [2.0, 3.0, 1.0]);
    }

    /// A router that scores all owners would share; this one puts a prefix down to one of them.
    #[test]
    fn a_prefix_is_put_down_to_one_worker() {
        for (last_sender, expected) in [(0.0, 0), (1.0, 1)] {
            let mut bench = Bench::new(spec().with("last_sender", last_sender), 3);
            assert_eq!(bench.pick(&text("aaaaaaaaaa")), 0);
            bench.set_requests(&[100, 0, 9]);
            assert_eq!(bench.pick(&text("aaaaaaaaaa")), 1);
            bench.set_requests(&[0, 0, 0]);
            assert_eq!(bench.counts(&text("aaaaaaaaaa"), 20)[expected], 20);
        }
    }

    #[test]
    fn prompts_of_a_worker_that_went_all_go_to_the_first() {
        let mut bench = Bench::new(spec(), 4);
        bench.replicas(&[3]);
        bench.send(&text("aaaaaaaaaa"));
        bench.replicas(&[1, 2]);
        bench.set_requests(&[0, 60, 0, 0]);
        for round in 0..5 {
            assert_eq!(bench.send(&text(&format!("aaaaaaaaa{round}"))), 1, "the busier one, again and again");
            assert_eq!(bench.choice.why, "its worker is gone: first healthy one");
        }
        // The gateway before smg: forgotten, so the idlest, and then its own.
        let mut bench = Bench::new(spec().with("forget_removed", 1.0), 4);
        bench.replicas(&[3]);
        bench.send(&text("aaaaaaaaaa"));
        bench.replicas(&[1, 2]);
        bench.set_requests(&[0, 60, 0, 0]);
        assert_eq!(bench.send(&text("aaaaaaaaaa")), 2);
        assert_eq!(bench.send(&text("aaaaaaaaaa")), 2);
        assert_eq!(bench.choice.why, "most of it was sent there");
    }

    /// #14305: unique requests go to the worker whose tree is smallest, however much it has to do.
    #[test]
    fn the_smallest_tree_ignores_load() {
        let mut bench = Bench::new(spec().with("smallest_tree", 1.0), 2);
        assert_eq!(bench.send(&text(&"s".repeat(400))), 0);
        bench.set_requests(&[0, 50]);
        for unique in 'a'..='h' {
            assert_eq!(bench.pick(&text(&unique.to_string().repeat(40))), 1, "0 is idle");
        }
        assert_eq!(bench.scores, [400.0, 280.0]);
        assert_eq!(bench.choice.why, "match too small: smallest tree");
    }

    #[test]
    fn trees_are_cut_back_at_each_interval() {
        let spec = spec().with("max_tree", 20.0).with("eviction_s", 30.0);
        let mut bench = Bench::new(spec.clone(), 1);
        let prompts = ["aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc"];
        prompts.iter().for_each(|prompt| {
            bench.send(&text(prompt));
        });
        let known = |bench: &mut Bench, prompt: &str| {
            bench.pick(&text(prompt));
            bench.choice.expected_hit > 0
        };
        bench.now = Nanos::from_secs(29.9);
        assert!(known(&mut bench, "aaaaaaaaaax"), "over the limit, but not yet evicted");
        bench.now = Nanos::from_secs(30.0);
        // a was used last, with an x: 11 characters. b was used longest ago, then c: both go, 31 → 21 → 11.
        assert!(known(&mut bench, "aaaaaaaaaax"));
        assert!(!known(&mut bench, "bbbbbbbbbb") && !known(&mut bench, "cccccccccc"));
        bench.reload(spec);
        assert!(known(&mut bench, "bbbbbbbbbb"), "31 characters again, the next eviction is at 60 s");
        bench.now = Nanos::from_secs(1000.0);
        assert!(!known(&mut bench, "dddddddddd"));
        assert!(bench.policy.restore(&Value::from(1)).is_err());
    }

    #[test]
    fn the_library_has_defaults_of_its_own() {
        let mut bench = Bench::of(LIBRARY.name, 2);
        bench.pick(&text("aaaaaaaaaa"));
        bench.set_requests(&[32, 0]);
        assert_eq!(bench.pick(&text("aaaaaaaaaa")), 0);
        assert_eq!(bench.pick(&text("aaaaaxxxxx")), 1, "half is not more than half");
        bench.set_requests(&[33, 0]);
        assert_eq!(bench.pick(&text("aaaaaaaaaa")), 1);
    }
}
