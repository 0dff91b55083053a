//! KV blocks of the prompts that a router has in flight, each counted once a replica: Dynamo's active sequences.
//!
//! Prompts in flight that begin alike share those blocks, so a replica that serves ten requests of one long system prompt holds it once. Blocks of
//! outputs are not tracked, as in Dynamo by default.

use crate::telemetry::holders::Holders;
use serde_json::Value;
use servelab_engine::hash::KeyMap;
use servelab_engine::random::mix;
use servelab_engine::{BlockKey, Prompt};

/// The blocks, with how many requests in flight need each.
#[derive(Clone, Debug)]
pub(crate) struct ActiveBlocks {
    holders: Holders,
    /// By key and replica, mixed into one.
    uses: KeyMap<u64, u32>,
    /// Different blocks of each replica.
    blocks: Vec<u32>,
}

fn place(key: BlockKey, replica: u32) -> u64 {
    mix(key.0, u64::from(replica))
}

fn keys(prompt: &Prompt) -> impl Iterator<Item = BlockKey> + '_ {
    (0..).map_while(|block| prompt.key(block))
}

impl ActiveBlocks {
    /// Nothing in flight.
    pub(crate) fn new() -> Self {
        ActiveBlocks { holders: Holders::new(1), uses: KeyMap::default(), blocks: Vec::new() }
    }

    /// Different blocks in flight on `replica`.
    pub(crate) fn blocks(&self, replica: u32) -> u32 {
        self.blocks.get(replica as usize).copied().unwrap_or(0)
    }

    /// Leading blocks of `prompt` that are in flight on each of `candidates` already, appended to `matched`.
    pub(crate) fn matched(&self, prompt: &Prompt, candidates: &[u32], matched: &mut Vec<u32>) {
        self.holders.matched(keys(prompt), candidates, matched);
    }

    /// A request for `prompt` went to `replica`.
    pub(crate) fn add(&mut self, prompt: &Prompt, replica: u32) {
        self.holders.widen(replica);
        for key in keys(prompt) {
            self.use_of(key, replica, 1);
        }
    }

    /// Such a request ended.
    pub(crate) fn end(&mut self, prompt: &Prompt, replica: u32) {
        for key in keys(prompt) {
            let place = place(key, replica);
            let Some(uses) = self.uses.get_mut(&place) else { continue };
            *uses -= 1;
            if *uses == 0 {
                self.uses.remove(&place);
                self.holders.remove(key, replica);
                self.blocks[replica as usize] -= 1;
            }
        }
    }

    /// `more` requests, at least one, that need `key` on `replica`, for which there is room.
    fn use_of(&mut self, key: BlockKey, replica: u32, more: u32) {
        if self.blocks.len() <= replica as usize {
            self.blocks.resize(replica as usize + 1, 0);
        }
        let uses = self.uses.entry(place(key, replica)).or_insert(0);
        if *uses == 0 {
            self.holders.add(key, replica);
            self.blocks[replica as usize] += 1;
        }
        *uses = uses.saturating_add(more);
    }

    /// Key, replica and number of requests, by key and replica.
    pub(crate) fn save(&self) -> Value {
        let mut saved: Vec<(BlockKey, u32, u32)> = Vec::new();
        for (key, row) in self.holders.sorted_rows() {
            for replica in (0u32..).zip(&row).flat_map(|(word, bits)| {
                (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word * 64 + bit)
            }) {
                saved.push((key, replica, self.uses.get(&place(key, replica)).copied().unwrap_or(0)));
            }
        }
        serde_json::to_value(saved).unwrap_or_default()
    }

    /// Takes back what [`ActiveBlocks::save`] gave.
    pub(crate) fn restore(&mut self, state: &Value) -> Result<(), String> {
        let saved: Vec<(BlockKey, u32, u32)> =
            serde_json::from_value(state.clone()).map_err(|error| error.to_string())?;
        *self = ActiveBlocks::new();
        let last = saved.iter().map(|&(_, replica, _)| replica).max().unwrap_or(0);
        if last >= Holders::MOST_REPLICAS {
            return Err(format!("blocks of replica {last} of at most {}", Holders::MOST_REPLICAS));
        }
        self.holders.widen(last);
        for (key, replica, uses) in saved {
            if uses == 0 || self.uses.contains_key(&place(key, replica)) {
                return Err("a block in flight that nobody needs, or twice".into());
            }
            self.use_of(key, replica, uses);
        }
        Ok(())
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::testing::prompt;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Against the requests themselves.
        #[test]
        fn blocks_are_those_of_what_is_in_flight(
            sent in prop::collection::vec((0u32..3, 0u32..3, 0u32..4, 0usize..9), 1..40),
        ) {
            // Three beginnings of 32 tokens, up to three blocks of one of three continuations.
            let ask = |head: u32, tail: u32, blocks: u32| {
                let rest = (0..blocks * 16 + 3).map(move |at| 1000 + tail * 7 + at);
                prompt(&(0..32).map(|at| head * 100 + at).chain(rest).collect::<Vec<_>>())
            };
            let (mut active, mut in_flight) = (ActiveBlocks::new(), Vec::new());
            for (head, tail, blocks, end) in sent {
                let (asked, replica) = (ask(head, tail, blocks), tail * 40);
                active.add(&asked, replica);
                in_flight.push((asked, replica));
                if end < in_flight.len() {
                    let (asked, replica) = in_flight.swap_remove(end);
                    active.end(&asked, replica);
                }
                for replica in [0, 40, 80] {
                    let of = in_flight.iter().filter(|(_, other)| *other == replica);
                    let expected: BTreeSet<BlockKey> = of.flat_map(|(asked, _)| keys(asked)).collect();
                    prop_assert_eq!(active.blocks(replica) as usize, expected.len());
                    let asked = ask(head, 1, 3);
                    let mut matched = vec![];
                    active.matched(&asked, &[replica], &mut matched);
                    let held = keys(&asked).take_while(|key| expected.contains(key)).count();
                    prop_assert_eq!(matched[0] as usize, held);
                }
                let mut again = ActiveBlocks::new();
                again.restore(&active.save()).unwrap();
                prop_assert_eq!(again.save(), active.save());
                prop_assert_eq!(&again.blocks[..], &active.blocks[..again.blocks.len()]);
            }
        }
    }

    #[test]
    fn damaged_states_are_refused() {
        for state in ["1", "[[5,0,0]]", "[[5,0,1],[5,0,2]]", "[[5,4000000000,1]]"] {
            let state = serde_json::from_str(state).unwrap();
            assert!(ActiveBlocks::new().restore(&state).is_err(), "{state}");
        }
    }
}
