//! AIBrix's `prefix-cache`: the best match among those that are not too busy.
//!
//! `pkg/plugins/gateway/algorithms/prefix_cache.go` over `pkg/utils/prefixcacheindexer/hash.go`. If requests in flight differ by more than
//! a threshold, only the idlest pods may match. Pods are ordered by the share of the prompt's blocks that they got before, in whole per
//! cent, then by requests in flight; the first one with no more than the mean and a standard deviation of requests gets the request. Where
//! there is none, the pod with the fewest requests does.
//!
//! The index is one list for the fleet: 200 000 blocks of four characters, a block with all pods that got it, the least recently
//! written one forgotten first. It is written from a prompt's first block to its last, so under pressure the first block goes first,
//! and without it nothing behind it matches.

use super::params::{self, Params};
use super::registry::Entry;
use super::ties::Ties;
use super::{Choice, Policy, RouteContext, text};
use crate::telemetry::{LocalSignals, Reads};
use block_lru::BlockLru;
use serde_json::Value;
use servelab_engine::Nanos;
use servelab_engine::random::Stream;
use servelab_spec::catalog::{Family, PolicyInfo};

mod block_lru;

const NAME: &str = "aibrix_prefix_cache";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> PolicyInfo {
    PolicyInfo {
        name: NAME.into(),
        label: "AIBrix prefix-cache".into(),
        family: Family::CacheAware,
        project: "AIBrix".into(),
        reads_prompt: true,
        summary: "Sends a prompt to the replica that got most of its blocks before and has no more requests in flight than the mean and a standard deviation; to the idlest for want of one.".into(),
        reads: "The prompt's text, one index of blocks for the fleet that it keeps itself, and router-local: requests this router has in flight on each replica.".into(),
        compares: "Per cent of the prompt's blocks that each replica got before, the most win; without a match, requests in flight, the fewest win.".into(),
        fails: "The index holds 0.8 million characters for the whole fleet: long prompts drive each other out, first blocks first, and nothing matches any more. Beyond the imbalance threshold only the idlest may match, which usually got nothing. Several gateways each see a part (#2128). Without the guards the holder of a popular prefix timed out (#842).".into(),
        params: vec![
            // 8: the source's, whatever the size of the fleet or of the requests.
            params::integer("imbalance", "Imbalance threshold", "requests", 8, (0, 1_000_000),
                "When requests in flight differ by more than this, only the idlest replicas may match."),
            // 1: the source's. With two replicas σ is 0.7 of their difference, so the busier one is always within the mean and σ.
            params::number("deviations", "Allowed load", "σ above the mean", 1.0, (0.0, 100.0, 0.1),
                "A replica with more requests in flight than the mean and this many standard deviations is passed over."),
            // 4 characters, about a token of English.
            params::integer("block", "Block", "characters", 4, (1, 65_536),
                "Prompts are compared in whole blocks of this length; what is left at the end does not count."),
            params::integer("capacity", "Index capacity", "blocks", 200_000, (1, 1 << 28),
                "Blocks that the index of the whole fleet holds."),
            params::number("ttl_min", "Time to live", "min", 20.0, (0.1, 10_080.0, 0.1),
                "A block not written for longer than this is forgotten."),
            Ties::Random.param(),
        ],
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    Box::new(PrefixCache {
        imbalance: params.integer("imbalance"),
        deviations: params.number("deviations"),
        block: params.integer("block"),
        ttl: Nanos::from_secs(60.0 * params.number("ttl_min")),
        ties: Ties::of(params),
        index: BlockLru::new(params.integer("capacity")),
        capacity: params.integer("capacity"),
        characters: Vec::new(),
        keys: Vec::new(),
        matched: Vec::new(),
    })
}

struct PrefixCache {
    imbalance: u32,
    deviations: f64,
    block: u32,
    ttl: Nanos,
    ties: Ties,
    index: BlockLru,
    capacity: u32,
    characters: Vec<u32>,
    keys: Vec<u64>,
    /// Blocks by candidate.
    matched: Vec<u32>,
}

/// Most requests that a replica may have and still be matched: the mean, and `deviations` of the sample standard deviation.
fn allowed(loads: &[LocalSignals], deviations: f64) -> f64 {
    let n = loads.len() as f64;
    let mean = loads.iter().map(|load| f64::from(load.requests)).sum::<f64>() / n;
    if loads.len() < 2 {
        return mean;
    }
    let squares: f64 =
        loads.iter().map(|load| (f64::from(load.requests) - mean) * (f64::from(load.requests) - mean)).sum();
    mean + deviations * libm::sqrt(squares / (n - 1.0))
}

impl Policy for PrefixCache {
    fn reads(&self) -> Reads {
        Reads::LOCAL
    }

    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, stream: &mut Stream) -> Choice {
        let text = text::read(ctx.request.prompt, ctx.block_tokens, &mut self.characters);
        self.keys.clear();
        self.keys.extend(text::chunk_keys(text.chunks_exact(self.block as usize)));
        self.index.expire(ctx.now, self.ttl);
        let (pods, loads) = (ctx.candidates, ctx.local());
        let requests = || loads.iter().map(|load| load.requests);
        let idlest = requests().min().unwrap_or(0);
        let gated = requests().max().unwrap_or(0) - idlest > self.imbalance;
        self.index.matched(&self.keys, pods, |at| !gated || loads[at].requests == idlest, &mut self.matched);
        // Whole per cent, rounded down: near matches of a long prompt are equal.
        let blocks = self.keys.len().max(1) as u64;
        let percent = |at: usize| u64::from(self.matched[at]) * 100 / blocks;
        let most = allowed(loads, self.deviations);
        let allowed = |at: usize| self.matched[at] > 0 && f64::from(loads[at].requests) <= most;
        // Best first: more per cent, then fewer requests. What may not be chosen ranks last.
        let rank = |at: usize| if allowed(at) { (0, 100 - percent(at), loads[at].requests) } else { (1, 0, 0) };
        let choice = if (0..pods.len()).any(allowed) {
            scores.extend((0..pods.len()).map(|at| percent(at) as f64));
            let at = self.ties.least((0..pods.len()).map(rank), stream);
            let expected = (self.matched[at] * self.block).min(ctx.request.prompt.len.saturating_sub(1));
            Choice::new(pods[at], "best match that is not too busy").expecting(expected)
        } else {
            scores.extend(requests().map(f64::from));
            Choice::new(pods[self.ties.least(requests(), stream)], "no match: fewest requests in flight")
        };
        self.index.write(ctx.now, &self.keys, choice.replica);
        choice
    }

    fn save(&self) -> Value {
        serde_json::to_value(&self.index).unwrap_or_default()
    }

    fn restore(&mut self, state: &Value) -> Result<(), String> {
        let index: BlockLru = serde_json::from_value(state.clone()).map_err(|error| error.to_string())?;
        if index.capacity() != self.capacity {
            return Err(format!("an index of {} blocks, where {} are set", index.capacity(), self.capacity));
        }
        self.index = index;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, text};
    use super::*;
    use servelab_spec::experiment::PolicySpec;

    fn spec() -> PolicySpec {
        PolicySpec::named(NAME).with("ties", 0.0)
    }

    fn taught(bench: &mut Bench, replica: u32, prompt: &str) {
        let all = bench.candidates.clone();
        bench.replicas(&[replica]);
        bench.pick(&text(prompt));
        bench.replicas(&all);
    }

    /// By hand. 0 got 12 characters of aaaabbbbccccdddd, 1 got 8, 2 none, 3 all: 75, 50, 0 and 100 per cent.
    #[test]
    fn decides_as_written() {
        const MATCH: &str = "best match that is not too busy";
        const IDLEST: &str = "no match: fewest requests in flight";
        let table: [(&str, [u32; 4], u32, &str); 9] = [
            ("the most", [5, 5, 5, 5], 3, MATCH),
            // Mean 3, σ 2.3: five are allowed.
            ("the mean and σ are allowed", [1, 1, 5, 5], 3, MATCH),
            // Mean 2, σ 4: 8 are more than 6, and differ by 8, which is not more than 8.
            ("more is not: the next best", [0, 0, 0, 8], 0, MATCH),
            // Mean 2.75, σ 3.4: seven are too many, four are not.
            ("the best of those allowed, though idler ones match", [4, 0, 0, 7], 0, MATCH),
            // 9 − 0 > 8.
            ("beyond the gate only the idlest match", [9, 0, 0, 9], 1, MATCH),
            ("the idlest got nothing", [9, 1, 0, 9], 2, IDLEST),
            // 8 − 0 is not more than 8. Mean 4.25, σ 4.35: eight are allowed.
            ("at the gate all match", [8, 1, 0, 8], 3, MATCH),
            ("gated, and the idlest is the best", [9, 9, 9, 0], 3, MATCH),
            ("gated, the idlest has least of it", [30, 10, 40, 30], 1, MATCH),
        ];
        for (case, loads, replica, why) in table {
            let mut bench = Bench::new(spec(), 4);
            taught(&mut bench, 0, "aaaabbbbcccc");
            taught(&mut bench, 1, "aaaabbbb");
            taught(&mut bench, 3, "aaaabbbbccccddddeeee");
            bench.set_requests(&loads);
            let got = bench.pick(&text("aaaabbbbccccdddd"));
            assert_eq!((got, bench.choice.why), (replica, why), "{case}");
        }
    }

    #[test]
    fn equal_matches_go_to_the_idler_and_equals_by_chance() {
        let mut bench = Bench::new(PolicySpec::named(NAME), 3);
        for replica in 0..3 {
            taught(&mut bench, replica, "aaaabbbb");
        }
        bench.set_requests(&[2, 1, 2]);
        assert_eq!(bench.counts(&text("aaaacccc"), 20), [0, 20, 0]);
        bench.set_requests(&[1, 1, 2]);
        let hits = bench.counts(&text("aaaabbbb"), 400);
        assert!(hits[2] == 0 && hits[0].abs_diff(200) < 40, "{hits:?}");
        // Nobody has it: the fewest requests, by chance among equals.
        let mut hits = [0u32; 3];
        for unique in 0..400 {
            hits[bench.pick(&text(&format!("{unique:04}"))) as usize] += 1;
        }
        assert!(hits[2] == 0 && hits[0].abs_diff(200) < 40, "{hits:?}");
    }

    /// Per cent are whole: 200 of 201 blocks and 199 of 201 are both 99, and load decides. A policy of longest match gets this wrong.
    #[test]
    fn near_matches_of_a_long_prompt_are_equal() {
        let long: String = (0..201).map(|block| format!("{block:04}")).collect();
        let mut bench = Bench::new(spec(), 2);
        taught(&mut bench, 0, &long[..800]);
        taught(&mut bench, 1, &long[..796]);
        bench.set_requests(&[1, 0]);
        assert_eq!(bench.pick(&text(&long)), 1);
        assert_eq!(bench.scores, [99.0, 99.0]);
    }

    #[test]
    fn what_is_left_of_a_block_does_not_count() {
        let mut bench = Bench::new(spec(), 2).requests(&[1, 0]);
        taught(&mut bench, 0, "aaaabbb");
        assert_eq!(bench.pick(&text("aaaabbb")), 0);
        assert_eq!((bench.scores.as_slice(), bench.choice.expected_hit), ([100.0, 0.0].as_slice(), 4));
        taught(&mut bench, 0, "zzz");
        assert_eq!(bench.pick(&text("zzz")), 1, "too short for any block");
    }

    /// One index for the fleet: another replica's prompts drive a prefix out, and its first block goes first.
    #[test]
    fn long_prompts_drive_each_other_out() {
        let mut bench = Bench::new(spec().with("capacity", 4.0), 2);
        taught(&mut bench, 0, "aaaabbbbcccc");
        taught(&mut bench, 1, "xxxx");
        bench.set_requests(&[1, 0]);
        assert_eq!(bench.pick(&text("aaaabbbbcccc")), 0, "four blocks fit");
        taught(&mut bench, 1, "xxxxyyyy");
        // aaaa is gone, bbbb and cccc are there and can not be found.
        assert_eq!(bench.pick(&text("aaaabbbbcccc")), 1);
        assert_eq!(bench.choice.why, "no match: fewest requests in flight");
    }

    #[test]
    fn what_is_not_written_for_twenty_minutes_is_forgotten() {
        let mut bench = Bench::new(spec(), 2).requests(&[1, 0]);
        taught(&mut bench, 0, "aaaabbbb");
        bench.now = Nanos::from_secs(1200.0);
        assert_eq!(bench.pick(&text("aaaa")), 0);
        bench.reload(spec());
        bench.now = Nanos::from_secs(1200.1);
        // aaaa was written again at 1200 s, bbbb was not.
        assert_eq!(bench.pick(&text("aaaabbbb")), 0);
        assert_eq!(bench.scores, [50.0, 0.0]);
        assert!(bench.policy.restore(&Value::from(1)).is_err());
        let other = Bench::new(spec().with("capacity", 9.0), 2).policy.save();
        assert!(bench.policy.restore(&other).is_err());
    }
}
