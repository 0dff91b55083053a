//! A hasher that is the same on every machine, for maps that are looked up and never iterated.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map from small fixed-size keys. Its order means nothing: only look it up.
pub type KeyMap<K, V> = HashMap<K, V, BuildHasherDefault<FixedHasher>>;

/// A set of small fixed-size keys. Its order means nothing: only look into it.
pub type KeySet<K> = HashSet<K, BuildHasherDefault<FixedHasher>>;

/// Hashes integers by folded multiplication: the same on every machine, and quick.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedHasher(u64);

impl Hasher for FixedHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        let wide = u128::from(self.0 ^ value ^ 0x5851_f42d_4c95_7f2d) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }
}
