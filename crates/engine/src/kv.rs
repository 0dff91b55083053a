//! The replica's KV blocks: pool and cache together.
//!
//! A block is *held* (some block table has it) or *free*; independently it is *cached* (a key names its content) or
//! not. Free and cached is what makes reuse across requests: it costs nothing to keep until its turn at the
//! head of the free queue comes, which is eviction.

use crate::cache::PrefixCache;
use crate::pool::{BlockPool, NONE};
use crate::prompt::BlockKey;
use serde::{Deserialize, Serialize};

/// One block as the page draws it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockView {
    /// Who filled it; `None` when it holds nothing.
    pub tenant: Option<u32>,
    /// Sequences that hold it.
    pub refs: u32,
    /// Its content can be shared.
    pub cached: bool,
}

/// A change of what can be found in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KvChange {
    /// Content that was not there can be found now.
    Stored(BlockKey),
    /// The last block with this content is gone.
    Removed(BlockKey),
}

/// All KV blocks of one replica.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KvBlocks {
    pool: BlockPool,
    cache: PrefixCache,
    /// Who filled each block.
    tenants: Vec<u32>,
    /// Free blocks that are cached.
    reusable: u32,
    /// Cached blocks given away so far.
    pub(crate) evictions: u64,
    /// Most blocks ever held.
    pub(crate) peak_used: u32,
    /// Counts changes, so that a look-up that failed is not repeated while nothing has changed.
    #[serde(skip)]
    pub(crate) epoch: u64,
    /// Changes not yet drained; `None` when nobody wants them.
    changes: Option<Vec<KvChange>>,
}

impl KvBlocks {
    pub(crate) fn new(blocks: u32, note_changes: bool) -> Self {
        KvBlocks {
            pool: BlockPool::new(blocks),
            cache: PrefixCache::new(blocks),
            tenants: vec![NONE; blocks as usize],
            reusable: 0,
            evictions: 0,
            peak_used: 0,
            epoch: 0,
            changes: note_changes.then(Vec::new),
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.pool.len()
    }

    pub(crate) fn free(&self) -> u32 {
        self.pool.free()
    }

    pub(crate) fn used(&self) -> u32 {
        self.pool.len() - self.pool.free()
    }

    pub(crate) fn reusable(&self) -> u32 {
        self.reusable
    }

    pub(crate) fn refs(&self, block: u32) -> u32 {
        self.pool.refs(block)
    }

    pub(crate) fn key(&self, block: u32) -> Option<BlockKey> {
        self.cache.key(block)
    }

    pub(crate) fn find(&self, key: BlockKey) -> Option<u32> {
        self.cache.find(key)
    }

    /// Takes a block for new content of `tenant`, evicting what the head of the free queue holds.
    pub(crate) fn take(&mut self, tenant: u32) -> Option<u32> {
        let block = self.pool.pop()?;
        self.epoch += 1;
        if self.forget(block) {
            self.evictions += 1;
            self.reusable -= 1;
        }
        self.tenants[block as usize] = tenant;
        self.peak_used = self.peak_used.max(self.used());
        Some(block)
    }

    /// One more holder of a cached block.
    pub(crate) fn hold(&mut self, block: u32) {
        self.epoch += 1;
        if self.pool.refs(block) == 0 {
            self.reusable -= 1;
        }
        self.pool.hold(block);
        self.peak_used = self.peak_used.max(self.used());
    }

    /// Gives back blocks, the last first, and empties `table`: the end of a chain is of use only with its beginning,
    /// so it goes first when room is needed.
    pub(crate) fn release_all(&mut self, table: &mut Vec<u32>) {
        self.release_to(table, 0);
    }

    /// Gives back all but the first `keep` blocks, the last first.
    pub(crate) fn release_to(&mut self, table: &mut Vec<u32>, keep: u32) {
        while table.len() > keep as usize {
            let Some(block) = table.pop() else { return };
            self.epoch += 1;
            if self.pool.release(block) {
                if self.cache.is_cached(block) {
                    self.reusable += 1;
                } else {
                    self.tenants[block as usize] = NONE;
                }
            }
        }
    }

    /// A held block is full, or will be when the planned step is done: its content can be shared.
    pub(crate) fn publish(&mut self, block: u32, key: BlockKey) {
        debug_assert!(self.pool.refs(block) > 0, "block {block} is published but nobody holds it");
        self.epoch += 1;
        if let Some(changes) = &mut self.changes
            && self.cache.find(key).is_none()
        {
            changes.push(KvChange::Stored(key));
        }
        self.cache.insert(block, key);
    }

    /// Takes a block's content out of the cache; answers whether there was any.
    fn forget(&mut self, block: u32) -> bool {
        let Some(changes) = &mut self.changes else { return self.cache.remove(block) };
        let Some(key) = self.cache.key(block) else { return false };
        self.cache.remove(block);
        if self.cache.find(key).is_none() {
            changes.push(KvChange::Removed(key));
        }
        true
    }

    /// Appends the changes since the last call, in order.
    pub(crate) fn drain_changes(&mut self, into: &mut Vec<KvChange>) {
        if let Some(changes) = &mut self.changes {
            into.append(changes);
        }
    }

    /// Takes back [`KvBlocks::publish`].
    pub(crate) fn withdraw(&mut self, block: u32) {
        self.epoch += 1;
        if self.forget(block) && self.pool.refs(block) == 0 {
            self.reusable -= 1;
            self.tenants[block as usize] = NONE;
        }
    }

    /// Forgets all content, held or not.
    pub(crate) fn withdraw_all(&mut self) {
        for block in 0..self.pool.len() {
            self.withdraw(block);
        }
    }

    pub(crate) fn views(&self) -> impl ExactSizeIterator<Item = BlockView> + '_ {
        (0..self.pool.len()).map(|block| {
            let tenant = self.tenants[block as usize];
            BlockView {
                tenant: (tenant != NONE).then_some(tenant),
                refs: self.pool.refs(block),
                cached: self.cache.is_cached(block),
            }
        })
    }

    /// After restoring: fills what was not saved. Call [`KvBlocks::check`] afterwards.
    ///
    /// # Errors
    /// When the saved state is damaged.
    pub(crate) fn rebuild(&mut self) -> Result<(), String> {
        self.cache.rebuild()
    }

    /// Pool, cache and counters agree. Never panics, whatever the saved state said.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.pool.check()?;
        self.cache.check(self.pool.len())?;
        if self.tenants.len() != self.pool.len() as usize {
            return Err(format!("{} tenants for {} blocks", self.tenants.len(), self.pool.len()));
        }
        let reusable = self.pool.free_queue().filter(|&block| self.cache.is_cached(block)).count();
        if reusable != self.reusable as usize {
            return Err(format!("{reusable} free blocks are cached, {} are counted", self.reusable));
        }
        Ok(())
    }
}
