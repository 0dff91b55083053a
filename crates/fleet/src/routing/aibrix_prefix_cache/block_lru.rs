//! Blocks in order of when they were last written, each with the replicas that got it.

use super::super::packed::{Packed, Unpack};
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_engine::hash::KeyMap;

const NONE: u32 = u32::MAX;
/// Replicas of a fleet are fewer; a saved state that names more is damaged.
const MOST_REPLICAS: u32 = 1 << 16;

/// At most so many blocks. Nothing is allocated for a block once it is full.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(super) struct BlockLru {
    capacity: u32,
    places: KeyMap<u64, u32>,
    blocks: Vec<Block>,
    vacant: Vec<u32>,
    oldest: u32,
    newest: u32,
}

#[derive(Clone, Debug)]
struct Block {
    key: u64,
    written: Nanos,
    /// Ascending.
    replicas: Vec<u32>,
    older: u32,
    newer: u32,
}

impl BlockLru {
    pub(super) fn new(capacity: u32) -> Self {
        BlockLru {
            capacity,
            places: KeyMap::default(),
            blocks: Vec::new(),
            vacant: Vec::new(),
            oldest: NONE,
            newest: NONE,
        }
    }

    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Forgets blocks not written for longer than `ttl`.
    pub(super) fn expire(&mut self, now: Nanos, ttl: Nanos) {
        while let Some(block) = self.blocks.get(self.oldest as usize)
            && now.since(block.written) > ttl
        {
            let place = self.forget_oldest();
            self.vacant.push(place);
        }
    }

    /// How many leading `keys` each candidate got, if the one at its position `may` match; 0 if not.
    pub(super) fn matched(
        &self,
        keys: &[u64],
        candidates: &[u32],
        may: impl Fn(usize) -> bool,
        matched: &mut Vec<u32>,
    ) {
        matched.clear();
        matched.resize(candidates.len(), 0);
        for (depth, key) in (0u32..).zip(keys) {
            let Some(&place) = self.places.get(key) else { return };
            let mut any = false;
            for replica in &self.blocks[place as usize].replicas {
                if let Ok(at) = candidates.binary_search(replica)
                    && matched[at] == depth
                    && may(at)
                {
                    matched[at] = depth + 1;
                    any = true;
                }
            }
            if !any {
                return;
            }
        }
    }

    /// `replica` gets these blocks, the first one first.
    pub(super) fn write(&mut self, now: Nanos, keys: &[u64], replica: u32) {
        for &key in keys {
            let place = self.newest_place(key);
            let block = &mut self.blocks[place as usize];
            block.written = now;
            if let Err(at) = block.replicas.binary_search(&replica) {
                block.replicas.insert(at, replica);
            }
        }
    }

    /// The place of `key`, now the newest, added and an old one driven out if need be.
    fn newest_place(&mut self, key: u64) -> u32 {
        let known = self.places.get(&key).copied();
        let place = match known {
            Some(place) => {
                self.unlink(place);
                place
            }
            None => {
                let place = if self.places.len() >= self.capacity as usize {
                    self.forget_oldest()
                } else if let Some(place) = self.vacant.pop() {
                    place
                } else {
                    let replicas = Vec::with_capacity(1);
                    self.blocks.push(Block { key, written: Nanos::ZERO, replicas, older: NONE, newer: NONE });
                    self.blocks.len() as u32 - 1
                };
                self.blocks[place as usize].key = key;
                self.places.insert(key, place);
                place
            }
        };
        let block = &mut self.blocks[place as usize];
        (block.older, block.newer) = (self.newest, NONE);
        match self.newest {
            NONE => self.oldest = place,
            newest => self.blocks[newest as usize].newer = place,
        }
        self.newest = place;
        place
    }

    fn oldest_first(&self) -> impl Iterator<Item = &Block> {
        let mut at = self.oldest;
        std::iter::from_fn(move || {
            let block = self.blocks.get(at as usize)?;
            at = block.newer;
            Some(block)
        })
    }

    /// Forgets the oldest block and answers with its place.
    fn forget_oldest(&mut self) -> u32 {
        let place = self.oldest;
        self.unlink(place);
        let block = &mut self.blocks[place as usize];
        block.replicas.clear();
        self.places.remove(&block.key);
        place
    }

    fn unlink(&mut self, place: u32) {
        let (older, newer) = (self.blocks[place as usize].older, self.blocks[place as usize].newer);
        match older {
            NONE => self.oldest = newer,
            older => self.blocks[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.blocks[newer as usize].older = older,
        }
    }
}

/// Capacity, then blocks, oldest first: key, time since the one before, replicas.
impl From<BlockLru> for String {
    fn from(lru: BlockLru) -> Self {
        let mut packed = Packed::default();
        packed.put(lru.capacity.into());
        packed.put(lru.places.len() as u64);
        let mut before = Nanos::ZERO;
        for block in lru.oldest_first() {
            packed.put(block.key);
            packed.put(block.written.since(before).0);
            packed.put_all(block.replicas.iter().map(|&replica| replica.into()));
            before = block.written;
        }
        packed.finish()
    }
}

impl TryFrom<String> for BlockLru {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut saved = Unpack::new(&text);
        let capacity = saved.take_u32()?;
        let blocks = saved.take_all(|saved| Ok((saved.take()?, saved.take()?, saved.take_all(Unpack::take_u32)?)))?;
        saved.end()?;
        if blocks.len() > capacity as usize {
            return Err(format!("{} blocks in an index of {capacity}", blocks.len()));
        }
        let mut lru = BlockLru::new(capacity);
        let mut written = Nanos::ZERO;
        for (key, later, replicas) in blocks {
            let sound =
                replicas.is_sorted_by(|a, b| a < b) && replicas.last().is_some_and(|&last| last < MOST_REPLICAS);
            if lru.places.contains_key(&key) || !sound {
                return Err(format!("block {key} stands twice, or with replicas that are none"));
            }
            written += Nanos(later);
            let place = lru.newest_place(key);
            lru.blocks[place as usize].written = written;
            lru.blocks[place as usize].replicas = replicas;
        }
        Ok(lru)
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a list that is searched.
        #[test]
        fn does_what_a_list_does(
            capacity in 1u32..7,
            writes in prop::collection::vec((prop::collection::vec(0u64..9, 0..5), 0u32..4, 0u64..8), 0..40),
            asked in prop::collection::vec(0u64..9, 0..5),
            shut in 0usize..4,
        ) {
            let (mut lru, mut plain) = (BlockLru::new(capacity), Vec::<(u64, Nanos, Vec<u32>)>::new());
            let mut now = Nanos::ZERO;
            for (keys, replica, pause) in writes {
                now += Nanos(pause);
                lru.expire(now, Nanos(10));
                plain.retain(|(_, written, _)| now.since(*written) <= Nanos(10));
                lru.write(now, &keys, replica);
                for key in keys {
                    let at = plain.iter().position(|(other, ..)| *other == key);
                    let (_, _, mut replicas) = at.map_or((key, now, vec![]), |at| plain.remove(at));
                    replicas.push(replica);
                    replicas.sort();
                    replicas.dedup();
                    plain.push((key, now, replicas));
                    if plain.len() > capacity as usize {
                        plain.remove(0);
                    }
                }
                let told = lru.oldest_first().map(|block| (block.key, block.written, block.replicas.clone()));
                prop_assert_eq!(&told.collect::<Vec<_>>(), &plain);
                let mut matched = vec![9];
                let candidates = [0, 1, 3];
                lru.matched(&asked, &candidates, |at| at != shut, &mut matched);
                let plain = &plain;
                let expected = |at: usize| asked.iter().take_while(move |&&key| {
                    at != shut && plain.iter().any(|(other, _, by)| *other == key && by.contains(&candidates[at]))
                });
                prop_assert_eq!(matched, (0..3).map(|at| expected(at).count() as u32).collect::<Vec<_>>());
                let saved = String::from(lru);
                lru = BlockLru::try_from(saved.clone()).unwrap();
                prop_assert_eq!(String::from(lru.clone()), saved);
            }
        }
    }

    #[test]
    fn damage_is_refused() {
        for (numbers, sound) in [
            (&[2, 2, 5, 10, 2, 0, 3, 6, 0, 1, 1][..], true),
            (&[1, 2, 5, 10, 2, 0, 3, 6, 0, 1, 1], false),
            (&[2, 2, 5, 10, 2, 0, 3, 5, 0, 1, 1], false),
            (&[2, 2, 5, 10, 2, 3, 0, 6, 0, 1, 1], false),
            (&[2, 2, 5, 10, 0, 6, 0, 1, 1], false),
            (&[2, 2, 5, 10, 2, 0, 70_000, 6, 0, 1, 1], false),
            (&[2, 2, 5, 10, 2, 0, 3, 6, 0, 1], false),
            (&[2, 2, 5, 10, 2, 0, 3, 6, 0, 1, 1, 1], false),
        ] {
            let mut packed = Packed::default();
            numbers.iter().for_each(|&number| packed.put(number));
            assert_eq!(BlockLru::try_from(packed.finish()).is_ok(), sound, "{numbers:?}");
        }
    }
}
