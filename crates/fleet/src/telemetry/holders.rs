//! Which replicas hold which block: a row of bits for each key.
//!
//! Looking up how far each replica follows a prompt costs one hash for each block until nobody follows any more, however many
//! replicas there are.

use servelab_engine::BlockKey;
use servelab_engine::hash::KeyMap;

/// Keys and the replicas that hold them.
#[derive(Clone, Debug)]
pub(crate) struct Holders {
    /// 64-bit words of a row.
    words: usize,
    rows: KeyMap<BlockKey, u32>,
    /// One bit a replica, `words` for each row.
    bits: Vec<u64>,
    vacant: Vec<u32>,
}

impl Holders {
    /// More replicas than any fleet has: a damaged state must not make rows of any width.
    pub(crate) const MOST_REPLICAS: u32 = 1 << 18;

    /// Nobody holds anything; room for replicas `0..replicas`.
    pub(crate) fn new(replicas: u32) -> Self {
        let words = (replicas as usize).div_ceil(64).max(1);
        Holders { words, rows: KeyMap::default(), bits: Vec::new(), vacant: Vec::new() }
    }

    /// 64-bit words of a row.
    pub(crate) fn words(&self) -> usize {
        self.words
    }

    /// Replicas there is room for.
    pub(crate) fn room(&self) -> u32 {
        self.words as u32 * 64
    }

    /// Makes room for `replica`.
    pub(crate) fn widen(&mut self, replica: u32) {
        if replica >= self.room() {
            let wider = Holders::from_rows(replica / 64 + 1, self.sorted_rows());
            *self = wider;
        }
    }

    /// `replica`, for which there is room, holds `key`.
    pub(crate) fn add(&mut self, key: BlockKey, replica: u32) {
        let (word, bit) = (replica as usize / 64, 1u64 << (replica % 64));
        let row = match self.rows.get(&key) {
            Some(&row) => row,
            None => {
                let row = self.vacant.pop().unwrap_or_else(|| {
                    self.bits.resize(self.bits.len() + self.words, 0);
                    (self.bits.len() / self.words - 1) as u32
                });
                self.rows.insert(key, row);
                row
            }
        };
        self.bits[row as usize * self.words + word] |= bit;
    }

    /// `replica`, for which there is room, holds `key` no more.
    pub(crate) fn remove(&mut self, key: BlockKey, replica: u32) {
        let (word, bit) = (replica as usize / 64, 1u64 << (replica % 64));
        let Some(&row) = self.rows.get(&key) else { return };
        let bits = &mut self.bits[row as usize * self.words..][..self.words];
        bits[word] &= !bit;
        if bits.iter().all(|&bits| bits == 0) {
            self.rows.remove(&key);
            self.vacant.push(row);
        }
    }

    /// `replica` holds nothing any more.
    pub(crate) fn forget(&mut self, replica: u32) {
        let (word, bit) = (replica as usize / 64, 1u64 << (replica % 64));
        let mut rows = self.sorted_rows();
        for (_, bits) in &mut rows {
            bits[word] &= !bit;
        }
        rows.retain(|(_, bits)| bits.iter().any(|&bits| bits != 0));
        *self = Holders::from_rows(self.words as u32, rows);
    }

    /// How many leading `keys` each of `candidates` holds, appended to `matched` in their order.
    pub(crate) fn matched(&self, keys: impl Iterator<Item = BlockKey>, candidates: &[u32], matched: &mut Vec<u32>) {
        let from = matched.len();
        matched.resize(from + candidates.len(), 0);
        let matched = &mut matched[from..];
        for (nth, key) in (0u32..).zip(keys) {
            let Some(&row) = self.rows.get(&key) else { return };
            let bits = &self.bits[row as usize * self.words..][..self.words];
            let mut any = false;
            for (&replica, matched) in candidates.iter().zip(matched.iter_mut()) {
                let word = bits.get(replica as usize / 64).copied().unwrap_or(0);
                if *matched == nth && word >> (replica % 64) & 1 == 1 {
                    *matched = nth + 1;
                    any = true;
                }
            }
            if !any {
                return;
            }
        }
    }

    /// Every key with its row, by key: the map's own order means nothing.
    pub(crate) fn sorted_rows(&self) -> Vec<(BlockKey, Vec<u64>)> {
        let mut rows: Vec<(BlockKey, Vec<u64>)> = (self.rows.iter())
            .map(|(&key, &row)| (key, self.bits[row as usize * self.words..][..self.words].to_vec()))
            .collect();
        rows.sort_by_key(|(key, _)| *key);
        rows
    }

    /// What [`Holders::sorted_rows`] gave, in rows of `words` words.
    pub(crate) fn from_rows(words: u32, saved: Vec<(BlockKey, Vec<u64>)>) -> Self {
        let words = words.clamp(1, Self::MOST_REPLICAS / 64) as usize;
        let mut bits = Vec::with_capacity(saved.len() * words);
        let mut rows = KeyMap::default();
        for (nth, (key, row)) in (0u32..).zip(saved) {
            rows.insert(key, nth);
            bits.extend((0..words).map(|word| row.get(word).copied().unwrap_or(0)));
        }
        Holders { words, rows, bits, vacant: Vec::new() }
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Against a set of pairs.
        #[test]
        fn rows_are_a_set_of_pairs(
            changes in prop::collection::vec((any::<bool>(), 0u64..6, 0u32..200), 0..120),
            chain in prop::collection::vec(0u64..6, 0..6),
            gone in 0u32..200,
        ) {
            let (mut holders, mut pairs) = (Holders::new(1), BTreeSet::new());
            for (add, key, replica) in changes {
                holders.widen(replica);
                if add {
                    holders.add(BlockKey(key), replica);
                    pairs.insert((key, replica));
                } else {
                    holders.remove(BlockKey(key), replica);
                    pairs.remove(&(key, replica));
                }
            }
            holders.widen(gone);
            holders.forget(gone);
            pairs.retain(|&(_, replica)| replica != gone);
            let candidates: Vec<u32> = (0..300).collect();
            let mut matched = Vec::new();
            holders.matched(chain.iter().map(|&key| BlockKey(key)), &candidates, &mut matched);
            for (replica, matched) in candidates.iter().zip(matched) {
                let expected = chain.iter().take_while(|&&key| pairs.contains(&(key, *replica))).count();
                prop_assert_eq!(matched as usize, expected);
            }
            let again = Holders::from_rows(holders.words() as u32, holders.sorted_rows());
            prop_assert_eq!(again.sorted_rows(), holders.sorted_rows());
        }
    }
}
