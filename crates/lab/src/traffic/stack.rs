//! Hits of an LRU cache of every size in one pass (Mattson, Gecsei, Slutz and Traiger, 1970): a block is in a cache of C blocks exactly when fewer
//! than C other blocks have been touched since it was. Of a prompt only leading hits count, so a block counts at the sizes at which
//! all before it do: the largest number of blocks since touched, over the blocks up to it.
//!
//! The same as [`crate::replay`] for each size, which the tests hold it to; that takes a pass for each size.

use crate::replay::TouchOrder;

/// Nobody.
const NONE: u32 = u32::MAX;

/// Blocks by when they were touched.
pub(super) struct Stack {
    order: TouchOrder,
    /// When each block was touched last; [`NONE`]: never.
    touched: Vec<u32>,
    /// The block touched at each time, or [`NONE`] when it has been touched again since.
    at: Vec<u32>,
    /// Fenwick tree over `at`: how many are not [`NONE`].
    sums: Vec<u32>,
    now: u32,
    live: u32,
}

impl Stack {
    /// A stack for blocks `0..blocks`.
    pub(super) fn new(blocks: usize, order: TouchOrder) -> Self {
        let room = (2 * blocks).max(64);
        Stack { order, touched: vec![NONE; blocks], at: vec![NONE; room], sums: vec![0; room + 1], now: 0, live: 0 }
    }

    /// Serves a prompt: `hit(block's place in it, smallest cache that has it and all before it)` for each leading block that some cache has.
    pub(super) fn serve(&mut self, blocks: &[u32], mut hit: impl FnMut(usize, u32)) {
        let mut needed = 0;
        for (place, &block) in blocks.iter().enumerate() {
            let Some(&time) = self.touched.get(block as usize).filter(|&&time| time != NONE) else { break };
            needed = needed.max(self.live - self.before(time));
            hit(place, needed);
        }
        match self.order {
            TouchOrder::RootFirst => blocks.iter().for_each(|&block| self.touch(block)),
            TouchOrder::LeafFirst => blocks.iter().rev().for_each(|&block| self.touch(block)),
        }
    }

    fn touch(&mut self, block: u32) {
        if self.now as usize == self.at.len() {
            self.compact();
        }
        let Some(time) = self.touched.get_mut(block as usize) else { return };
        let before = std::mem::replace(time, self.now);
        if before == NONE {
            self.live += 1;
        } else {
            self.at[before as usize] = NONE;
            self.add(before, false);
        }
        self.at[self.now as usize] = block;
        self.add(self.now, true);
        self.now += 1;
    }

    /// Times anew, without those that nobody is left of: at least half of them.
    fn compact(&mut self) {
        let mut next = 0;
        for time in 0..self.at.len() {
            let block = self.at[time];
            if block != NONE {
                self.at[next] = block;
                self.touched[block as usize] = next as u32;
                next += 1;
            }
        }
        self.at[next..].fill(NONE);
        self.sums.fill(0);
        for place in 1..self.sums.len() {
            self.sums[place] += u32::from(self.at[place - 1] != NONE);
            let above = place + (place & place.wrapping_neg());
            if above < self.sums.len() {
                self.sums[above] += self.sums[place];
            }
        }
        self.now = next as u32;
    }

    /// Live blocks touched before `time`.
    fn before(&self, time: u32) -> u32 {
        let (mut place, mut sum) = (time as usize, 0);
        while place > 0 {
            sum += self.sums[place];
            place &= place - 1;
        }
        sum
    }

    fn add(&mut self, time: u32, one: bool) {
        let mut place = time as usize + 1;
        while place < self.sums.len() {
            self.sums[place] = if one { self.sums[place] + 1 } else { self.sums[place] - 1 };
            place += place & place.wrapping_neg();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{ReplayConfig, replay};
    use servelab_engine::random::Stream;

    /// Against the replay, which keeps a cache for each size: random trees of prompts, long enough that times are compacted many times.
    #[test]
    fn every_size_agrees_with_a_cache_of_that_size() {
        for seed in 0..6 {
            let mut draw = Stream::new(seed, b"test");
            // A block is named by what precedes it: prompts are walks from a root in a tree of three children each.
            let prompts: Vec<Vec<u32>> = (0..400)
                .map(|_| {
                    let mut at = 0;
                    let walk = (0..draw.between(0, 5)).map(|_| {
                        at = 3 * at + draw.between(1, 3);
                        at
                    });
                    walk.collect()
                })
                .collect();
            for order in [TouchOrder::RootFirst, TouchOrder::LeafFirst] {
                let mut stack = Stack::new(400, order);
                let mut smallest = vec![];
                prompts.iter().for_each(|prompt| stack.serve(prompt, |_, cache| smallest.push(cache)));
                for capacity in [1, 2, 3, 5, 8, 20, 60, 200, 400] {
                    let config =
                        ReplayConfig { capacity_blocks: Some(capacity), block_tokens: 1, order, partial_last: true };
                    let ids = prompts.iter().map(|prompt| prompt.iter().map(|&id| u64::from(id)).collect::<Vec<_>>());
                    let lengths = prompts.iter().map(|prompt| prompt.len() as u32);
                    let expected = replay(ids.zip(lengths), config).block_hits;
                    let got = smallest.iter().filter(|&&cache| cache <= capacity).count() as u64;
                    assert_eq!(got, expected, "seed {seed}, {capacity} blocks, {order:?}");
                }
            }
        }
    }
}
