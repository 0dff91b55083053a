//! One cache, no clock: what an LRU cache of so many blocks would find of a stream of prompts.
//!
//! A request is the names of its blocks from the first to the last, each naming all before it, and its length in tokens. It *hits* as many leading
//! blocks as the cache holds without a gap, and in tokens that many blocks' worth, though never more than it has: the last name of a
//! published trace is usually a partial block. Then all its blocks are touched, and whatever exceeds the capacity is dropped, the longest untouched
//! first. There are no replicas, no batches and no blocks in use, hence nothing to tune: two programs must agree to the last digit.

use servelab_engine::hash::KeyMap;
use std::collections::BTreeMap;

/// In which order a request's blocks are touched, and so which of them goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TouchOrder {
    /// First block first: of a chain, the beginning is the oldest and is dropped before what depends on it.
    RootFirst,
    /// Last block first, as engines do that free a sequence's blocks in reverse: what nobody shares is dropped first.
    LeafFirst,
}

/// How a stream is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayConfig {
    /// Blocks that the cache holds; `None`: all.
    pub capacity_blocks: Option<u32>,
    /// Tokens of a block.
    pub block_tokens: u32,
    /// Order of touching.
    pub order: TouchOrder,
    /// A last block that is not full counts as one. Off: it is neither looked for nor kept.
    pub partial_last: bool,
}

/// What a replay found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// Requests.
    pub requests: u64,
    /// Blocks looked for.
    pub blocks: u64,
    /// Of these, found.
    pub block_hits: u64,
    /// Prompt tokens.
    pub tokens: u64,
    /// Of these, in blocks found.
    pub token_hits: u64,
    /// Blocks in the cache at the end.
    pub cached: u64,
}

impl Replay {
    /// Share of blocks found, 0 when there were none.
    pub fn block_ratio(&self) -> f64 {
        crate::stats::ratio(self.block_hits as f64, self.blocks as f64)
    }

    /// Share of tokens found, 0 when there were none.
    pub fn token_ratio(&self) -> f64 {
        crate::stats::ratio(self.token_hits as f64, self.tokens as f64)
    }
}

/// A cache of block names under [`ReplayConfig`].
#[derive(Clone, Debug)]
pub struct ReplayCache {
    config: ReplayConfig,
    /// When each block was touched.
    touched: KeyMap<u64, u64>,
    /// Blocks by when they were touched.
    order: BTreeMap<u64, u64>,
    clock: u64,
}

impl ReplayCache {
    /// An empty cache.
    pub fn new(config: ReplayConfig) -> Self {
        ReplayCache { config, touched: KeyMap::default(), order: BTreeMap::new(), clock: 0 }
    }

    /// Blocks of a request that count.
    fn counted<'a>(&self, ids: &'a [u64], input_tokens: u32) -> &'a [u64] {
        let full = input_tokens.checked_div(self.config.block_tokens).unwrap_or(0) as usize;
        if self.config.partial_last { ids } else { &ids[..full.min(ids.len())] }
    }

    /// Leading blocks of a request that are here, and the tokens in them.
    pub fn matched(&self, ids: &[u64], input_tokens: u32) -> (u32, u32) {
        let ids = self.counted(ids, input_tokens);
        let blocks = ids.iter().take_while(|id| self.touched.contains_key(id)).count() as u32;
        (blocks, blocks.saturating_mul(self.config.block_tokens).min(input_tokens))
    }

    /// Serves a request: all its blocks are here and newest, what is too much is dropped.
    pub fn insert(&mut self, ids: &[u64], input_tokens: u32) {
        let ids = self.counted(ids, input_tokens);
        match self.config.order {
            TouchOrder::RootFirst => ids.iter().for_each(|&id| self.touch(id)),
            TouchOrder::LeafFirst => ids.iter().rev().for_each(|&id| self.touch(id)),
        }
        let capacity = self.config.capacity_blocks.map_or(usize::MAX, |blocks| blocks as usize);
        while self.order.len() > capacity
            && let Some((_, id)) = self.order.pop_first()
        {
            self.touched.remove(&id);
        }
    }

    fn touch(&mut self, id: u64) {
        self.clock += 1;
        if let Some(before) = self.touched.insert(id, self.clock) {
            self.order.remove(&before);
        }
        self.order.insert(self.clock, id);
    }

    /// Number of blocks here.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Nothing is here.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

/// Replays a stream: of each request the names of its blocks and its length in tokens.
pub fn replay(requests: impl IntoIterator<Item = (impl AsRef<[u64]>, u32)>, config: ReplayConfig) -> Replay {
    let mut cache = ReplayCache::new(config);
    let mut out = Replay::default();
    for (ids, input_tokens) in requests {
        let ids = ids.as_ref();
        let (blocks, tokens) = cache.matched(ids, input_tokens);
        out.requests += 1;
        out.blocks += cache.counted(ids, input_tokens).len() as u64;
        out.block_hits += u64::from(blocks);
        out.tokens += u64::from(input_tokens);
        out.token_hits += u64::from(tokens);
        cache.insert(ids, input_tokens);
    }
    out.cached = cache.len() as u64;
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(capacity: u32, order: TouchOrder, partial_last: bool) -> ReplayConfig {
        ReplayConfig { capacity_blocks: Some(capacity), block_tokens: 10, order, partial_last }
    }

    /// By hand, three blocks of room. Request 1 2 3 fills it; 4 drives out the oldest: of the chain its beginning (1) or its end (3). What
    /// is left of 1 2 3 then helps only if its beginning is there.
    #[test]
    fn the_order_of_touching_decides_what_survives() {
        let stream: [(&[u64], u32); 3] = [(&[1, 2, 3], 30), (&[4], 10), (&[1, 2, 3], 30)];
        let root = replay(stream, config(3, TouchOrder::RootFirst, true));
        let leaf = replay(stream, config(3, TouchOrder::LeafFirst, true));
        assert_eq!((root.block_hits, leaf.block_hits), (0, 2));
        assert_eq!((root.blocks, root.tokens, root.cached), (7, 70, 3));
        assert_eq!((leaf.token_hits, leaf.requests), (20, 3));
    }

    /// By hand: 25 tokens are two full blocks and a half. Asked for again, all three hit, and no more tokens than there are.
    #[test]
    fn a_partial_last_block_counts_or_not() {
        let stream: [(&[u64], u32); 2] = [(&[1, 2, 3], 25), (&[1, 2, 3], 25)];
        let with = replay(stream, config(9, TouchOrder::RootFirst, true));
        assert_eq!((with.blocks, with.block_hits, with.tokens, with.token_hits), (6, 3, 50, 25));
        let without = replay(stream, config(9, TouchOrder::RootFirst, false));
        assert_eq!((without.blocks, without.block_hits, without.tokens, without.token_hits), (4, 2, 50, 20));
        assert_eq!((with.token_ratio(), without.block_ratio()), (0.5, 0.5));
    }

    /// Hits are contiguous from the first block; a request longer than the cache leaves what it touched last.
    #[test]
    fn a_gap_ends_the_match() {
        let mut cache = ReplayCache::new(config(4, TouchOrder::RootFirst, true));
        cache.insert(&[1, 2, 3], 30);
        assert_eq!(cache.matched(&[1, 9, 3], 30), (1, 10));
        assert_eq!(cache.matched(&[9, 2, 3], 30), (0, 0));
        cache.insert(&[1, 2, 3, 4, 5, 6], 60);
        assert_eq!((cache.len(), cache.matched(&[3, 4, 5, 6], 40)), (4, (4, 40)));
        assert_eq!(cache.matched(&[1], 10), (0, 0));
        assert!(!cache.is_empty());
        let nothing = replay(std::iter::empty::<(&[u64], u32)>(), config(1, TouchOrder::RootFirst, true));
        assert_eq!((nothing.token_ratio(), nothing.cached), (0.0, 0));
    }
}
