//! The prefix cache: which block holds the content that a key names.
//!
//! Block tables are append-only, so a block that turns out equal to one already cached stays where it is: several
//! blocks may carry one key until they are reused. They form a list in order of registration, threaded through the
//! blocks; look-up answers the oldest. The map is used for look-up only, never iterated, and is rebuilt rather than saved.

use crate::pool::NONE;
use crate::prompt::BlockKey;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes one `u64` by folded multiplication: the same on every machine, and quick. Keys are well mixed as a rule, but
/// a trace may bring small integers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FixedHasher(u64);

impl Hasher for FixedHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let wide = u128::from(self.0 ^ value ^ 0x5851_f42d_4c95_7f2d) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }
}

/// A map with [`FixedHasher`]; for look-up, not for iteration.
pub(crate) type FixedMap<K, V> = HashMap<K, V, BuildHasherDefault<FixedHasher>>;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Entry {
    key: BlockKey,
    cached: bool,
    /// Neighbours among the blocks of one key, older and newer.
    older: u32,
    newer: u32,
}

/// Keys of blocks and blocks of keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PrefixCache {
    entries: Vec<Entry>,
    /// Oldest and newest block of each key.
    #[serde(skip)]
    map: FixedMap<BlockKey, (u32, u32)>,
}

impl PrefixCache {
    pub(crate) fn new(blocks: u32) -> Self {
        let mut map = FixedMap::default();
        map.reserve(blocks as usize);
        let empty = Entry { key: BlockKey::default(), cached: false, older: NONE, newer: NONE };
        PrefixCache { entries: vec![empty; blocks as usize], map }
    }

    /// The oldest block with this content.
    pub(crate) fn find(&self, key: BlockKey) -> Option<u32> {
        self.map.get(&key).map(|&(oldest, _)| oldest)
    }

    pub(crate) fn is_cached(&self, block: u32) -> bool {
        self.entries[block as usize].cached
    }

    pub(crate) fn key(&self, block: u32) -> Option<BlockKey> {
        let entry = &self.entries[block as usize];
        entry.cached.then_some(entry.key)
    }

    /// `block` holds, or is about to hold, the content of `key`.
    pub(crate) fn insert(&mut self, block: u32, key: BlockKey) {
        debug_assert!(!self.is_cached(block), "block {block} is cached already");
        let older = match self.map.get_mut(&key) {
            Some((_, newest)) => std::mem::replace(newest, block),
            None => {
                self.map.insert(key, (block, block));
                NONE
            }
        };
        if older != NONE {
            self.entries[older as usize].newer = block;
        }
        self.entries[block as usize] = Entry { key, cached: true, older, newer: NONE };
    }

    /// Forgets a block's content; answers whether there was any.
    pub(crate) fn remove(&mut self, block: u32) -> bool {
        let Entry { key, cached, older, newer } = self.entries[block as usize];
        if !cached {
            return false;
        }
        if older != NONE {
            self.entries[older as usize].newer = newer;
        }
        if newer != NONE {
            self.entries[newer as usize].older = older;
        }
        match (older, newer) {
            (NONE, NONE) => {
                self.map.remove(&key);
            }
            (NONE, _) => {
                if let Some(ends) = self.map.get_mut(&key) {
                    ends.0 = newer;
                }
            }
            (_, NONE) => {
                if let Some(ends) = self.map.get_mut(&key) {
                    ends.1 = older;
                }
            }
            _ => {}
        }
        self.entries[block as usize] = Entry { key: BlockKey::default(), cached: false, older: NONE, newer: NONE };
        true
    }

    /// Fills the map after the rest was restored. Call [`PrefixCache::check`] afterwards.
    pub(crate) fn rebuild(&mut self) {
        self.map.clear();
        self.map.reserve(self.entries.len());
        for (block, entry) in self.entries.iter().enumerate().filter(|(_, entry)| entry.cached) {
            let ends = self.map.entry(entry.key).or_insert((NONE, NONE));
            if entry.older == NONE {
                ends.0 = block as u32;
            }
            if entry.newer == NONE {
                ends.1 = block as u32;
            }
        }
    }

    /// Every cached block is in the list of its key, and the map knows the ends of every list. Never panics, whatever
    /// the saved state said.
    pub(crate) fn check(&self, blocks: u32) -> Result<(), String> {
        if self.entries.len() != blocks as usize {
            return Err(format!("the cache knows {} blocks, the pool {blocks}", self.entries.len()));
        }
        let mut cached = 0;
        let mut ends = 0;
        for (block, entry) in self.entries.iter().enumerate().filter(|(_, entry)| entry.cached) {
            cached += 1;
            let (oldest, newest) =
                self.map.get(&entry.key).copied().ok_or_else(|| format!("block {block} is not in the map"))?;
            let linked = |at: u32, back: fn(&Entry) -> u32, end: u32| match at {
                NONE => end as usize == block,
                at => self
                    .entries
                    .get(at as usize)
                    .is_some_and(|other| other.cached && other.key == entry.key && back(other) as usize == block),
            };
            if !linked(entry.older, |other| other.newer, oldest) || !linked(entry.newer, |other| other.older, newest) {
                return Err(format!("block {block} is badly linked among the blocks of its key"));
            }
            ends += usize::from(entry.older == NONE);
        }
        if ends != self.map.len() {
            return Err(format!("{cached} cached blocks make {ends} lists, the map has {}", self.map.len()));
        }
        Ok(())
    }
}
