//! The approximate prefix index: what a router believes each replica to have cached, from its own dispatches alone.
//!
//! A prompt is cut into entries of whole KV blocks, at least [`ENTRY_TOKENS`] tokens each by default; an entry is the chained key of its last block, so
//! it names everything before it. Dispatching a prompt writes its entries under the replica, least recently used ones
//! first out. Outputs are not written, evictions in the engine are not seen, and other routers' traffic neither: the index is a guess.
//!
//! Source: llm-d `approximateprefix` (the former prefix plugin of the gateway API inference extension). Its capacity is a number of *entries*;
//! set to the engine's number of *blocks*, as its auto-tuning does, entries of four blocks each credit a replica with four
//! times the tokens it can hold.

use super::lru::LruSet;
use super::packed::{Packed, Unpack};
use crate::telemetry::holders::Holders;
use serde_json::Value;
use servelab_engine::{BlockKey, Prompt};
use std::collections::BTreeMap;

/// llm-d's floor for the size of an entry, tokens: smaller ones made the index itself too large.
pub(crate) const ENTRY_TOKENS: u32 = 64;

/// llm-d's capacity for a replica when the engine does not tell its own, entries: 64 GB of KV at 128 KB a token are 500 000 tokens, in
/// blocks of 16.
pub(crate) const ENTRIES: u32 = 31_250;

/// In which order an entry's chain is touched: the last one touched stays longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// As llm-d does: a chain loses its root first, and with it all its worth.
    RootFirst,
    /// As vLLM frees blocks: a chain loses its end first.
    LeafFirst,
}

/// The index. Of a saved fleet it keeps everything but the rows, which follow from the rest.
#[derive(Clone, Debug)]
pub(crate) struct ApproxIndex {
    entry_tokens: u32,
    touch: Touch,
    pods: BTreeMap<u32, LruSet>,
    holders: Holders,
}

impl ApproxIndex {
    /// An empty index with entries of at least `entry_tokens` tokens.
    pub(crate) fn new(entry_tokens: u32, touch: Touch) -> Self {
        ApproxIndex { entry_tokens, touch, pods: BTreeMap::new(), holders: Holders::new(1) }
    }

    /// Blocks in an entry. Without blocks of its own a fleet still has the keys that its prompts were made with.
    pub(crate) fn stride(&self, block_tokens: u32) -> u32 {
        if block_tokens == 0 { 1 } else { self.entry_tokens.div_ceil(block_tokens).max(1) }
    }

    /// Leading entries of `prompt` that each of `candidates` is believed to hold, appended to `matched` in their order.
    pub(crate) fn matched(&self, prompt: &Prompt, block_tokens: u32, candidates: &[u32], matched: &mut Vec<u32>) {
        self.holders.matched(entries(prompt, self.stride(block_tokens)), candidates, matched);
    }

    /// `prompt` went to `replica`, which is believed to hold at most `capacity` entries.
    pub(crate) fn write(&mut self, prompt: &Prompt, block_tokens: u32, replica: u32, capacity: u32) {
        let stride = self.stride(block_tokens);
        self.holders.widen(replica);
        let ApproxIndex { pods, holders, touch, .. } = self;
        let pod = pods.entry(replica).or_insert_with(|| LruSet::new(capacity));
        if pod.capacity() != capacity.max(1) {
            pod.resize(capacity, |key| holders.remove(BlockKey(key), replica));
        }
        let mut write = |key: BlockKey| {
            if let Some(out) = pod.touch(key.0) {
                holders.remove(BlockKey(out), replica);
            }
            holders.add(key, replica);
        };
        match touch {
            Touch::RootFirst => entries(prompt, stride).for_each(&mut write),
            Touch::LeafFirst => {
                let last = prompt.full_blocks() / stride;
                (0..last).rev().filter_map(|nth| prompt.key(nth * stride + stride - 1)).for_each(&mut write);
            }
        }
    }

    /// Only `ready` replicas may be chosen any more, so only they are worth remembering. (llm-d sweeps every two minutes; nobody can tell
    /// the difference, as a replica that left is no candidate.)
    pub(crate) fn keep(&mut self, ready: &[u32]) {
        let gone: Vec<u32> = self.pods.keys().copied().filter(|pod| ready.binary_search(pod).is_err()).collect();
        for replica in gone {
            self.pods.remove(&replica);
            self.holders.forget(replica);
        }
    }

    /// What each replica is believed to hold, oldest first.
    pub(crate) fn save(&self) -> Value {
        let mut packed = Packed::default();
        packed.put(self.pods.len() as u64);
        for (&replica, pod) in &self.pods {
            packed.put(replica.into());
            packed.put(pod.capacity().into());
            let keys: Vec<u64> = pod.iter().collect();
            packed.put_all(keys.into_iter());
        }
        Value::from(packed.finish())
    }

    /// Takes back what [`ApproxIndex::save`] gave.
    pub(crate) fn restore(&mut self, state: &Value) -> Result<(), String> {
        let mut unpack = Unpack::new(state.as_str().ok_or("an index is packed text")?);
        let pods =
            unpack.take_all(|unpack| Ok((unpack.take_u32()?, unpack.take_u32()?, unpack.take_all(Unpack::take)?)))?;
        unpack.end()?;
        (self.pods, self.holders) = (BTreeMap::new(), Holders::new(1));
        for (replica, capacity, keys) in pods {
            if replica >= Holders::MOST_REPLICAS {
                return Err(format!("an index of replica {replica} of at most {}", Holders::MOST_REPLICAS));
            }
            self.holders.widen(replica);
            let pod = self.pods.entry(replica).or_insert_with(|| LruSet::new(capacity));
            for key in keys {
                if pod.touch(key).is_some() {
                    return Err("a replica is believed to hold more than it can".into());
                }
                self.holders.add(BlockKey(key), replica);
            }
        }
        Ok(())
    }
}

/// Keys of a prompt's entries: of every `stride`-th block.
fn entries(prompt: &Prompt, stride: u32) -> impl Iterator<Item = BlockKey> + '_ {
    (1..).map_while(move |nth: u32| prompt.key(nth.checked_mul(stride)? - 1))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::testing::prompt;
    use super::*;

    fn ids(from: u32, len: u32) -> Prompt {
        prompt(&(from..from + len).collect::<Vec<_>>())
    }

    fn matched(index: &ApproxIndex, prompt: &Prompt) -> Vec<u32> {
        let mut out = vec![];
        index.matched(prompt, 16, &[0, 1, 70], &mut out);
        out
    }

    #[test]
    fn entries_are_four_blocks_and_only_whole_ones_count() {
        let mut index = ApproxIndex::new(ENTRY_TOKENS, Touch::RootFirst);
        assert_eq!((index.stride(16), index.stride(128), index.stride(48), index.stride(0)), (4, 1, 2, 1));
        // 200 tokens: twelve blocks, three entries.
        index.write(&ids(0, 200), 16, 70, ENTRIES);
        assert_eq!(matched(&index, &ids(0, 200)), [0, 0, 3]);
        assert_eq!(matched(&index, &ids(0, 191)), [0, 0, 2], "the third entry ends at 192");
        assert_eq!(matched(&index, &ids(0, 63)), [0, 0, 0]);
        assert_eq!(matched(&index, &ids(1, 200)), [0, 0, 0], "another beginning");
        index.write(&ids(0, 130), 16, 1, ENTRIES);
        assert_eq!(matched(&index, &ids(0, 200)), [0, 2, 3]);
        index.keep(&[0, 1]);
        assert_eq!(matched(&index, &ids(0, 200)), [0, 2, 0]);
    }

    #[test]
    fn the_order_of_touch_decides_what_a_full_index_forgets() {
        for (touch, expected) in [(Touch::RootFirst, 0), (Touch::LeafFirst, 2)] {
            let mut index = ApproxIndex::new(ENTRY_TOKENS, touch);
            index.write(&ids(0, 192), 16, 0, 4);
            // Two entries more than fit: one drives the older chain's first touched entry out.
            index.write(&ids(1000, 128), 16, 0, 4);
            assert_eq!(matched(&index, &ids(0, 192))[0], expected, "{touch:?}");
            assert_eq!(matched(&index, &ids(1000, 128))[0], 2);
            // A smaller replica than was thought.
            index.write(&ids(1000, 64), 16, 0, 1);
            assert_eq!(matched(&index, &ids(0, 192))[0], 0);
            assert_eq!(matched(&index, &ids(1000, 128))[0], 1);
        }
    }

    #[test]
    fn it_is_saved_whole() {
        let mut index = ApproxIndex::new(ENTRY_TOKENS, Touch::LeafFirst);
        for at in 0..20 {
            index.write(&ids(at % 7 * 1000, 200 + at), 16, at % 3, 8);
        }
        let state = index.save();
        let mut again = ApproxIndex::new(ENTRY_TOKENS, Touch::LeafFirst);
        again.restore(&state).unwrap();
        assert_eq!(again.save(), state);
        for at in 0..7 {
            assert_eq!(matched(&again, &ids(at * 1000, 250)), matched(&index, &ids(at * 1000, 250)));
        }
        let packed = |numbers: &[u64]| {
            let mut packed = Packed::default();
            numbers.iter().for_each(|&number| packed.put(number));
            Value::from(packed.finish())
        };
        assert!(again.restore(&packed(&[1, 0, 2, 2, 5, 6])).is_ok());
        let too_many = packed(&[1, 0, 1, 2, 5, 6]);
        for damaged in [Value::Null, Value::from("!"), packed(&[1, 0, 2, 2, 5]), too_many, packed(&[1, 1 << 31, 2, 0])]
        {
            assert!(again.restore(&damaged).is_err(), "{damaged}");
        }
    }
}
