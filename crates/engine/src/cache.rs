//! The prefix cache: which block holds the content that a key names.
//!
//! A hash table with chaining whose links run through the blocks themselves: there is one link for each block, so it
//! never grows, never rehashes and needs no allocation after the first. Block tables are append-only, so a block that
//! turns out equal to one already cached stays where it is, and several blocks may carry one key until they are
//! reused. New blocks join the end of their chain, so look-up answers the oldest.

use crate::pool::NONE;
use crate::prompt::BlockKey;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Entry {
    key: BlockKey,
    cached: bool,
    /// The next block of the same chain, cached later.
    next: u32,
}

const BLANK: Entry = Entry { key: BlockKey(0), cached: false, next: NONE };

/// Empty chains: a power of two of them, at least twice as many as blocks. Every step of a walk along a chain is a place in memory that nothing has
/// touched for long, so one walk in two goes nowhere.
fn chains(blocks: usize) -> Vec<u32> {
    vec![NONE; 2 * blocks.next_power_of_two()]
}

/// Keys of blocks and blocks of keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PrefixCache {
    entries: Vec<Entry>,
    /// First block of each chain; how many see [`chains`].
    #[serde(skip)]
    chains: Vec<u32>,
}

impl PrefixCache {
    pub(crate) fn new(blocks: u32) -> Self {
        PrefixCache { entries: vec![BLANK; blocks as usize], chains: chains(blocks as usize) }
    }

    /// The chain of a key. Keys are well mixed as a rule, but a trace may bring small integers: hence the
    /// multiplication (by 2⁶⁴ ÷ the golden ratio), of which the upper half counts.
    fn chain(&self, key: BlockKey) -> usize {
        let spread = key.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        spread as usize & (self.chains.len() - 1)
    }

    /// The oldest block with this content.
    #[inline]
    pub(crate) fn find(&self, key: BlockKey) -> Option<u32> {
        let mut at = self.chains[self.chain(key)];
        while at != NONE {
            let entry = &self.entries[at as usize];
            if entry.key == key {
                return Some(at);
            }
            at = entry.next;
        }
        None
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
        self.entries[block as usize] = Entry { key, cached: true, next: NONE };
        *self.link_to(key, NONE) = block;
    }

    /// Forgets a block's content; answers whether there was any.
    pub(crate) fn remove(&mut self, block: u32) -> bool {
        let Entry { key, cached, next } = self.entries[block as usize];
        if cached {
            *self.link_to(key, block) = next;
            self.entries[block as usize] = BLANK;
        }
        cached
    }

    /// The link of `key`'s chain that names `block`, or the chain's last link.
    fn link_to(&mut self, key: BlockKey, block: u32) -> &mut u32 {
        let chain = self.chain(key);
        let (mut from, mut at) = (NONE, self.chains[chain]);
        while at != block && at != NONE {
            (from, at) = (at, self.entries[at as usize].next);
        }
        if from == NONE { &mut self.chains[chain] } else { &mut self.entries[from as usize].next }
    }

    /// After restoring: finds the chains again.
    ///
    /// # Errors
    /// When the links are not those of proper chains. Never panics, whatever the saved state said.
    pub(crate) fn rebuild(&mut self) -> Result<(), String> {
        self.chains = chains(self.entries.len());
        let mut inner = vec![false; self.entries.len()];
        for (block, entry) in self.entries.iter().enumerate().filter(|(_, entry)| entry.next != NONE) {
            match inner.get_mut(entry.next as usize) {
                Some(seen) if entry.cached && !*seen => *seen = true,
                _ => return Err(format!("block {block} is badly linked to block {}", entry.next)),
            }
        }
        for (block, _) in inner.iter().enumerate().filter(|(_, inner)| !**inner) {
            let Entry { key, cached, .. } = self.entries[block];
            let chain = self.chain(key);
            if cached && std::mem::replace(&mut self.chains[chain], block as u32) != NONE {
                return Err(format!("block {block} begins a second chain"));
            }
        }
        self.check(self.entries.len() as u32)
    }

    /// Every cached block is in the chain of its key, once, and no other block is.
    pub(crate) fn check(&self, blocks: u32) -> Result<(), String> {
        if self.entries.len() != blocks as usize {
            return Err(format!("the cache knows {} blocks, the pool {blocks}", self.entries.len()));
        }
        let mut chained = 0;
        for (chain, &first) in self.chains.iter().enumerate() {
            let mut at = first;
            while at != NONE {
                let entry = &self.entries[at as usize];
                if !entry.cached || self.chain(entry.key) != chain {
                    return Err(format!("block {at} is in the wrong chain"));
                }
                chained += 1;
                if chained > blocks {
                    return Err("a chain has no end".into());
                }
                at = entry.next;
            }
        }
        let cached = self.entries.iter().filter(|entry| entry.cached).count();
        if cached != chained as usize {
            return Err(format!("{cached} blocks are cached, {chained} are chained"));
        }
        Ok(())
    }
}
