//! A set of keys that forgets what was used longest ago: what routers remember of a replica.

use servelab_engine::hash::KeyMap;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    key: u64,
    older: u32,
    newer: u32,
}

/// At most `capacity` keys in order of use. Nothing is allocated once it is full.
#[derive(Clone, Debug)]
pub(crate) struct LruSet {
    capacity: u32,
    places: KeyMap<u64, u32>,
    nodes: Vec<Node>,
    oldest: u32,
    newest: u32,
}

impl LruSet {
    /// An empty set of at most `capacity` keys, at least 1.
    pub(crate) fn new(capacity: u32) -> Self {
        let capacity = capacity.max(1);
        LruSet { capacity, places: KeyMap::default(), nodes: Vec::new(), oldest: NONE, newest: NONE }
    }

    /// Puts `key` last in the order, adding it if it is not there, and answers which key that drove out.
    pub(crate) fn touch(&mut self, key: u64) -> Option<u64> {
        let mut driven_out = None;
        let place = match self.places.get(&key) {
            Some(&place) => {
                self.unlink(place);
                place
            }
            None if self.nodes.len() < self.capacity as usize => {
                self.nodes.push(Node { key, older: NONE, newer: NONE });
                self.nodes.len() as u32 - 1
            }
            None => {
                let place = self.oldest;
                let old = self.nodes[place as usize].key;
                self.unlink(place);
                self.places.remove(&old);
                driven_out = Some(old);
                place
            }
        };
        self.places.insert(key, place);
        self.nodes[place as usize] = Node { key, older: self.newest, newer: NONE };
        match self.newest {
            NONE => self.oldest = place,
            newest => self.nodes[newest as usize].newer = place,
        }
        self.newest = place;
        driven_out
    }

    /// Changes how many keys it holds, at least 1. What no longer fits is forgotten, oldest first, and told to `forgotten`.
    pub(crate) fn resize(&mut self, capacity: u32, mut forgotten: impl FnMut(u64)) {
        self.capacity = capacity.max(1);
        let surplus = self.nodes.len().saturating_sub(self.capacity as usize);
        if surplus > 0 {
            let mut kept = LruSet::new(self.capacity);
            for (nth, key) in self.iter().enumerate() {
                if nth < surplus {
                    forgotten(key);
                } else {
                    kept.touch(key);
                }
            }
            *self = kept;
        }
    }

    /// Most keys it holds.
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Keys, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let mut at = self.oldest;
        std::iter::from_fn(move || {
            let node = self.nodes.get(at as usize)?;
            at = node.newer;
            Some(node.key)
        })
    }

    fn unlink(&mut self, place: u32) {
        let Node { older, newer, .. } = self.nodes[place as usize];
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a list that is searched.
        #[test]
        fn forgets_what_was_used_longest_ago(
            capacity in 1u32..6, keys in prop::collection::vec(0u64..9, 0..60), smaller in 1u32..6,
        ) {
            let (mut set, mut plain) = (LruSet::new(capacity), Vec::<u64>::new());
            for key in keys {
                plain.retain(|&other| other != key);
                plain.push(key);
                let out = (plain.len() > capacity as usize).then(|| plain.remove(0));
                prop_assert_eq!(set.touch(key), out);
                prop_assert_eq!(set.iter().collect::<Vec<_>>(), plain.clone());
            }
            let mut out = Vec::new();
            set.resize(smaller, |key| out.push(key));
            let surplus = plain.len().saturating_sub(smaller as usize);
            prop_assert_eq!(&out[..], &plain[..surplus]);
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), plain[surplus..].to_vec());
            prop_assert_eq!(set.touch(99), (plain.len() >= smaller as usize).then(|| plain[surplus]));
        }
    }
}
