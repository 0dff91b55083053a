//! vLLM production-stack's `prefixaware`: to whoever got the longest prefix before, whatever its load.
//!
//! `routing_logic.py` (`PrefixAwareRouter`) over `prefix/hashtrie.py`: a trie of chunks of 128 characters that remembers for ever which
//! engine got which chunk. The deepest chunk that a live engine got decides, and chance among the engines that got it. Without any match all
//! live engines are equal. A least length of the match (`--prefix-min-match-length`, #957, #990) sends shorter ones to the engine with the
//! fewest arrivals; by default it is 0, so that never happens.

use super::packed::{Packed, Unpack};
use super::params::{self, Params};
use super::qps::QpsWindow;
use super::registry::Entry;
use super::{Choice, Policy, RequestView, RouteContext, text};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use servelab_engine::Nanos;
use servelab_engine::hash::KeyMap;
use servelab_engine::random::Stream;
use servelab_spec::catalog::{Family, PolicyInfo};

const NAME: &str = "production_stack_prefixaware";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> PolicyInfo {
    PolicyInfo {
        name: NAME.into(),
        label: "production-stack prefixaware".into(),
        family: Family::CacheAware,
        project: "vLLM production-stack".into(),
        reads_prompt: true,
        summary: "Sends a request to a replica that got the longest prefix of its prompt before, drawn at random when several did; nothing is ever forgotten and load plays no part.".into(),
        reads: "The prompt's text, and its own trie of what it sent where. No load; with a least match, its own log of arrivals.".into(),
        compares: "Characters of the prompt that the replicas with the deepest match got before, the most win; below the least match, arrivals per second, the fewest win.".into(),
        fails: "A system prompt that everybody shares pins all traffic to the replica that got it first (#957). Newcomers get nothing that begins like something known. The trie never forgets what engines have long evicted. With a least match, the arrivals it falls back to ignore long requests, and the trie makes that choice permanent (#1073).".into(),
        params: vec![
            // 128: the source's chunk. Shorter chunks tell prompts apart that differ early, and cost memory.
            params::integer("chunk", "Chunk", "characters", 128, (1, 65_536),
                "Prompts are compared in whole chunks of this length."),
            // 0: the source's default. Above a shared system prompt's length it undoes the hot spot, and the reuse of that prompt.
            params::integer("min_match", "Least match", "characters", 0, (0, 1 << 24),
                "A shorter match than this does not count: the replica with the fewest arrivals is taken."),
            QpsWindow::param(),
        ],
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    Box::new(PrefixAware {
        chunk: params.integer("chunk"),
        min_match: params.integer("min_match"),
        memory: Memory { trie: Trie::default(), arrivals: QpsWindow::of(params) },
        characters: Vec::new(),
        keys: Vec::new(),
        owners: Vec::new(),
    })
}

struct PrefixAware {
    chunk: u32,
    min_match: u32,
    memory: Memory,
    characters: Vec<u32>,
    keys: Vec<u64>,
    owners: Vec<usize>,
}

/// What is saved.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Memory {
    trie: Trie,
    arrivals: QpsWindow,
}

impl Policy for PrefixAware {
    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, stream: &mut Stream) -> Choice {
        let text = text::read(ctx.request.prompt, ctx.block_tokens, &mut self.characters);
        self.keys.clear();
        // The last chunk is what is left.
        self.keys.extend(text::chunk_keys(text.chunks(self.chunk as usize)));
        let chunks = self.memory.trie.deepest(&self.keys, ctx.candidates, &mut self.owners);
        // As in the source a match is counted in whole chunks, also where its last one is shorter.
        let matched = (chunks as u64 * u64::from(self.chunk)).min(u64::from(u32::MAX)) as u32;
        let choice = if matched < self.min_match {
            let at = self.memory.arrivals.lowest(ctx.now, ctx.candidates, scores);
            Choice::new(ctx.candidates[at], "match too short: fewest arrivals per second")
        } else if chunks == 0 {
            scores.resize(ctx.candidates.len(), 0.0);
            let at = stream.below(ctx.candidates.len() as u64) as usize;
            Choice::new(ctx.candidates[at], "nothing matches: any replica")
        } else {
            scores.resize(ctx.candidates.len(), 0.0);
            self.owners.iter().for_each(|&at| scores[at] = f64::from(matched));
            let at = self.owners[stream.below(self.owners.len() as u64) as usize];
            let expected = matched.min(ctx.request.prompt.len.saturating_sub(1));
            Choice::new(ctx.candidates[at], "got this prefix before").expecting(expected)
        };
        self.memory.trie.insert(&self.keys, choice.replica);
        choice
    }

    fn dispatched(&mut self, now: Nanos, _request: &RequestView<'_>, replica: u32) {
        self.memory.arrivals.sent(now, replica);
    }

    fn save(&self) -> Value {
        serde_json::to_value(&self.memory).unwrap_or_default()
    }

    fn restore(&mut self, state: &Value) -> Result<(), String> {
        self.memory = serde_json::from_value(state.clone()).map_err(|error| error.to_string())?;
        Ok(())
    }
}

/// Marks the end of a list.
const NONE: u32 = u32::MAX;
/// Replicas of a fleet are fewer; a saved state that names more is damaged.
const MOST_REPLICAS: u32 = 1 << 16;

/// Who got which prefix. A node is known by the name of its whole prefix, so its children need no list of their own; owners hang in one
/// list for all nodes, because most nodes have one and a few have all.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
struct Trie {
    places: KeyMap<u64, u32>,
    /// Name and latest owner.
    nodes: Vec<(u64, u32)>,
    /// Owner and the one before it.
    owners: Vec<(u32, u32)>,
}

impl Trie {
    /// How many leading `keys` some candidate got, and the positions of those that got the last of them.
    fn deepest(&self, keys: &[u64], candidates: &[u32], owners: &mut Vec<usize>) -> usize {
        let live = |&owner: &u32| candidates.binary_search(&owner).is_ok();
        let mut deepest = None;
        let mut chunks = 0;
        for key in keys {
            match self.places.get(key) {
                Some(&node) if self.owners(node).any(|owner| live(&owner)) => {
                    (deepest, chunks) = (Some(node), chunks + 1)
                }
                _ => break,
            }
        }
        owners.clear();
        if let Some(node) = deepest {
            owners.extend(self.owners(node).filter_map(|owner| candidates.binary_search(&owner).ok()));
            owners.sort();
        }
        chunks
    }

    fn insert(&mut self, keys: &[u64], replica: u32) {
        for &key in keys {
            let node = *self.places.entry(key).or_insert_with(|| {
                self.nodes.push((key, NONE));
                self.nodes.len() as u32 - 1
            });
            if !self.owners(node).any(|owner| owner == replica) {
                let latest = &mut self.nodes[node as usize].1;
                self.owners.push((replica, *latest));
                *latest = self.owners.len() as u32 - 1;
            }
        }
    }

    /// Latest first.
    fn owners(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.nodes[node as usize].1;
        std::iter::from_fn(move || {
            let &(owner, before) = self.owners.get(at as usize)?;
            at = before;
            Some(owner)
        })
    }
}

/// Each node's name and its owners, latest first.
impl From<Trie> for String {
    fn from(trie: Trie) -> Self {
        let mut packed = Packed::default();
        packed.put(trie.nodes.len() as u64);
        for (node, &(key, _)) in (0u32..).zip(&trie.nodes) {
            packed.put(key);
            packed.put(trie.owners(node).count() as u64);
            trie.owners(node).for_each(|owner| packed.put(owner.into()));
        }
        packed.finish()
    }
}

impl TryFrom<String> for Trie {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut saved = Unpack::new(&text);
        let mut trie = Trie::default();
        let nodes = saved.take_all(|saved| Ok((saved.take()?, saved.take_all(Unpack::take_u32)?)))?;
        saved.end()?;
        for (key, owners) in nodes {
            if trie.places.contains_key(&key) || owners.is_empty() {
                return Err(format!("prefix {key} stands twice or belongs to nobody"));
            }
            for &owner in owners.iter().rev() {
                if owner >= MOST_REPLICAS {
                    return Err(format!("replica {owner} is none"));
                }
                trie.insert(&[key], owner);
            }
        }
        Ok(trie)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, text};
    use super::*;
    use servelab_spec::experiment::PolicySpec;

    /// By hand: chunks of 4, three replicas.
    #[test]
    fn the_deepest_chunk_of_a_live_owner_decides() {
        let mut bench = Bench::new(PolicySpec::named(NAME).with("chunk", 4.0), 4);
        // Nothing is known: any of those that may be chosen. Only 2 may be.
        bench.replicas(&[2]);
        assert_eq!(bench.send(&text("aaaabbbbcccc")), 2);
        assert_eq!(bench.choice.why, "nothing matches: any replica");
        // Now all may, and 2 is busy: it still gets all that begins alike, which a router that looks at load gets wrong.
        bench.replicas(&[0, 1, 2, 3]);
        bench.set_requests(&[0, 0, 500, 0]);
        assert_eq!(bench.pick(&text("aaaabbbbdddd")), 2);
        assert_eq!(bench.scores, [0.0, 0.0, 8.0, 0.0]);
        assert_eq!(bench.choice.expected_hit, 8);
        assert_eq!(bench.counts(&text("aaaabbbbeeee"), 40), [0, 0, 40, 0]);
        // A last chunk of three characters matches as a chunk of its own or not at all, and then everybody is equal.
        let hits = bench.counts(&text("aaa"), 1);
        assert_eq!((hits.iter().sum::<u32>(), bench.choice.why), (1, "nothing matches: any replica"));
    }

    #[test]
    fn several_owners_share_by_chance() {
        let mut bench = Bench::new(PolicySpec::named(NAME).with("chunk", 4.0), 3);
        for replica in [0, 2] {
            bench.replicas(&[replica]);
            bench.send(&text("aaaabbbb"));
        }
        bench.replicas(&[0, 1, 2]);
        let hits = bench.counts(&text("aaaabbbb"), 600);
        assert_eq!(hits[1], 0);
        // 300 ± 4 standard deviations of 12.2.
        assert!(hits[0].abs_diff(300) < 50, "{hits:?}");
    }

    /// An owner that may not be chosen does not end the match while another one is there, and ends it where it is alone.
    #[test]
    fn owners_that_are_gone_end_the_match_where_they_are_alone() {
        let mut bench = Bench::new(PolicySpec::named(NAME).with("chunk", 4.0), 3);
        bench.replicas(&[0]);
        bench.send(&text("aaaabbbbcccc"));
        bench.replicas(&[1]);
        assert_eq!(bench.send(&text("aaaa")), 1, "nobody alive has it: all that are alive");
        bench.replicas(&[1, 2]);
        // bbbb was only ever sent to 0, which is gone: the match is one chunk long and 1's.
        assert_eq!(bench.counts(&text("aaaabbbbcccc"), 1), [0, 1, 0]);
        assert_eq!(bench.scores, [4.0, 0.0]);
        // The choice was remembered: now 1 has it all.
        bench.replicas(&[0, 1, 2]);
        bench.pick(&text("aaaabbbbcccc"));
        assert_eq!(bench.scores, [12.0, 12.0, 0.0], "and 0 is back with what it had: nothing is forgotten");
    }

    /// #957 and #990: below the least match the fewest arrivals decide, and the trie is told.
    #[test]
    fn a_match_below_the_least_falls_back_to_arrivals() {
        let spec = PolicySpec::named(NAME).with("chunk", 4.0).with("min_match", 8.0);
        let mut bench = Bench::new(spec, 3).requests(&[0, 9, 9]);
        assert_eq!([0, 1, 2].map(|_| bench.send(&text("aaaa"))), [0, 1, 2], "each in turn, as none had any before");
        assert_eq!(bench.send(&text("aaaabbbb")), 0);
        assert_eq!(bench.choice.why, "match too short: fewest arrivals per second");
        assert_eq!(bench.send(&text("aaaabbbb")), 0, "8 characters are not below 8");
        assert_eq!(bench.choice.why, "got this prefix before");
        // A last chunk of two characters counts as four: 8 again.
        assert_eq!(bench.send(&text("ddddee")), 1);
        assert_eq!(bench.send(&text("ddddee")), 1);
        assert_eq!(bench.choice.why, "got this prefix before");
        assert_eq!(bench.choice.expected_hit, 5, "a prompt is never cached whole");
    }

    #[test]
    fn chunks_of_128_by_default() {
        let mut bench = Bench::of(NAME, 8);
        let first = bench.send(&text(&format!("{}{}", "abcdefgh".repeat(16), "x".repeat(30))));
        assert_eq!(bench.counts(&text(&("abcdefgh".repeat(16) + "yyyy")), 50)[first as usize], 50);
        bench.pick(&text(&("abcdefgh".repeat(15) + "yyyyyyyyyy")));
        assert_eq!(bench.choice.why, "nothing matches: any replica", "the first chunk differs");
    }

    #[test]
    fn remembers_over_a_save() {
        let spec = PolicySpec::named(NAME).with("chunk", 4.0).with("min_match", 6.0);
        let mut bench = Bench::new(spec.clone(), 3);
        for word in ["aaaabbbb", "aaaacccc", "bbbb", "aaaabbbbdd"] {
            bench.send(&text(word));
        }
        let state = bench.policy.save();
        bench.reload(spec);
        bench.pick(&text("aaaabbbbdd"));
        assert_eq!((bench.choice.why, bench.choice.expected_hit), ("got this prefix before", 9));
        assert_eq!(bench.policy.save(), state, "nothing new was learnt");
        // Prefix 9 of replica 0; of nobody; of a replica that is none; twice.
        for (numbers, sound) in [
            (&[1, 9, 1, 0][..], true),
            (&[1, 9, 0], false),
            (&[1, 9, 1, 70_000], false),
            (&[2, 9, 1, 0, 9, 1, 0], false),
        ] {
            let mut packed = Packed::default();
            numbers.iter().for_each(|&number| packed.put(number));
            assert_eq!(Trie::try_from(packed.finish()).is_ok(), sound, "{numbers:?}");
        }
        assert!(bench.policy.restore(&Value::from(1)).is_err());
    }
}
