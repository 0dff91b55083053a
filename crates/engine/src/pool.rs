//! The block pool: reference counts and the free queue.
//!
//! The free queue is one doubly linked list threaded through the blocks themselves, so taking a block from its middle
//! (a cache hit on a block that nobody holds) costs as little as popping its head, and nothing is ever allocated. It
//! is in LRU order: released blocks join at the tail, new content takes the head. Whether a free block still holds
//! shareable content is none of the pool's business ([`crate::cache`]).

use serde::{Deserialize, Serialize};

/// "No block": the end of a list.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Entry {
    /// Block tables that hold it. 0: it is in the free queue.
    refs: u32,
    /// Neighbours in the free queue; NONE while held.
    prev: u32,
    next: u32,
}

/// Reference counts of all blocks, and the free ones in LRU order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BlockPool {
    entries: Vec<Entry>,
    head: u32,
    tail: u32,
    free: u32,
}

impl BlockPool {
    /// `blocks` free blocks, the lowest number first in the queue.
    pub(crate) fn new(blocks: u32) -> Self {
        let mut pool = BlockPool { entries: Vec::with_capacity(blocks as usize), head: NONE, tail: NONE, free: 0 };
        for block in 0..blocks {
            pool.entries.push(Entry { refs: 0, prev: NONE, next: NONE });
            pool.push_tail(block);
        }
        pool
    }

    pub(crate) fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    pub(crate) fn refs(&self, block: u32) -> u32 {
        self.entries[block as usize].refs
    }

    /// The free queue, head first.
    pub(crate) fn free_queue(&self) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.head;
        std::iter::from_fn(move || {
            let block = at;
            at = self.entries.get(block as usize)?.next;
            Some(block)
        })
    }

    /// Takes the head of the free queue; the caller holds it. `None` when nothing is free.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let block = self.head;
        if block == NONE {
            return None;
        }
        self.unlink(block);
        self.entries[block as usize].refs = 1;
        Some(block)
    }

    /// One more holder; takes the block off the free queue when it was there.
    pub(crate) fn hold(&mut self, block: u32) {
        if self.entries[block as usize].refs == 0 {
            self.unlink(block);
        }
        self.entries[block as usize].refs += 1;
    }

    /// One holder less; the last one puts the block at the tail of the free queue. Answers whether it did.
    pub(crate) fn release(&mut self, block: u32) -> bool {
        let entry = &mut self.entries[block as usize];
        debug_assert!(entry.refs > 0, "block {block} is released but nobody holds it");
        entry.refs = entry.refs.saturating_sub(1);
        let freed = entry.refs == 0;
        if freed {
            self.push_tail(block);
        }
        freed
    }

    fn push_tail(&mut self, block: u32) {
        let tail = self.tail;
        let entry = &mut self.entries[block as usize];
        entry.prev = tail;
        entry.next = NONE;
        if tail == NONE {
            self.head = block;
        } else {
            self.entries[tail as usize].next = block;
        }
        self.tail = block;
        self.free += 1;
    }

    fn unlink(&mut self, block: u32) {
        let Entry { prev, next, .. } = self.entries[block as usize];
        if prev == NONE {
            self.head = next;
        } else {
            self.entries[prev as usize].next = next;
        }
        if next == NONE {
            self.tail = prev;
        } else {
            self.entries[next as usize].prev = prev;
        }
        let entry = &mut self.entries[block as usize];
        (entry.prev, entry.next) = (NONE, NONE);
        self.free -= 1;
    }

    /// The free queue is a proper list of exactly the blocks that nobody holds. Never panics, whatever the saved state
    /// said.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut seen = vec![false; self.entries.len()];
        let (mut at, mut prev, mut count) = (self.head, NONE, 0u32);
        while at != NONE {
            let entry = self.entries.get(at as usize).ok_or_else(|| format!("free queue names block {at}"))?;
            if std::mem::replace(&mut seen[at as usize], true) {
                return Err(format!("block {at} is in the free queue twice"));
            }
            if entry.refs != 0 {
                return Err(format!("block {at} is free with {} holders", entry.refs));
            }
            if entry.prev != prev {
                return Err(format!("block {at} has predecessor {} instead of {prev}", entry.prev));
            }
            (prev, at, count) = (at, entry.next, count + 1);
        }
        if prev != self.tail {
            return Err(format!("the free queue ends at {prev} instead of {}", self.tail));
        }
        if count != self.free {
            return Err(format!("{count} blocks are in the free queue, {} are counted", self.free));
        }
        match self.entries.iter().zip(&seen).position(|(entry, &seen)| entry.refs == 0 && !seen) {
            Some(block) => Err(format!("block {block} is held by nobody and not in the free queue")),
            None => Ok(()),
        }
    }
}
