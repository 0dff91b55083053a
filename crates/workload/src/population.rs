//! Tenants: a system prompt interned once, and prompts built on it.
//!
//! The keys of the system prompt's full blocks are computed once and held by reference. A request's own blocks begin with what is
//! left of the system prompt after its last full block.

use servelab_engine::{BlockKey, Prompt};
use std::sync::Arc;

/// One tenant's system prompt.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    tokens: Box<[u32]>,
    keys: Arc<[BlockKey]>,
}

impl Tenant {
    /// Interns a system prompt of bytes, one token each.
    pub(crate) fn new(text: &[u8], block_tokens: u32) -> Self {
        let tokens: Box<[u32]> = text.iter().map(|&byte| u32::from(byte)).collect();
        let mut key = BlockKey::root(0);
        let keys = tokens
            .chunks_exact(block_tokens as usize)
            .map(|block| {
                key = key.child(block);
                key
            })
            .collect();
        Tenant { tokens, keys }
    }

    /// The system prompt followed by `user` tokens; at least one token in all.
    pub(crate) fn prompt(&self, user: impl ExactSizeIterator<Item = u32>, block_tokens: u32) -> Prompt {
        let mut tokens = Vec::with_capacity(self.tokens.len() + user.len());
        tokens.extend_from_slice(&self.tokens);
        tokens.extend(user);
        let mut key = self.keys.last().copied().unwrap_or(BlockKey::root(0));
        let own = &tokens[self.keys.len() * block_tokens as usize..];
        let blocks = own.chunks_exact(block_tokens as usize);
        let rest = blocks.remainder();
        let own_keys = blocks
            .map(|block| {
                key = key.child(block);
                key
            })
            .collect();
        Prompt {
            len: tokens.len() as u32,
            shared_keys: Arc::clone(&self.keys),
            own_keys,
            tail: key.child(rest),
            tokens: Some(tokens.into()),
        }
    }

    /// Length of the system prompt, tokens.
    pub(crate) fn len(&self) -> u32 {
        self.tokens.len() as u32
    }
}

/// Name of a tenant: A to Z, then AA, AB and so on.
pub(crate) fn name(index: u32) -> String {
    let mut letters = Vec::new();
    let mut rest = u64::from(index) + 1;
    while rest > 0 {
        rest -= 1;
        letters.push(b'A' + (rest % 26) as u8);
        rest /= 26;
    }
    letters.iter().rev().map(|&letter| char::from(letter)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_count_like_columns_of_a_sheet() {
        let expected = [(0, "A"), (25, "Z"), (26, "AA"), (51, "AZ"), (52, "BA"), (701, "ZZ"), (702, "AAA")];
        for (index, text) in expected {
            assert_eq!(name(index), text);
        }
    }

    proptest! {
        /// An interned prompt names the same blocks as the same tokens hashed from scratch.
        #[test]
        fn interning_changes_no_key(
            system in prop::collection::vec(any::<u8>(), 0..80),
            user in prop::collection::vec(0u32..256, 1..40),
            block in 1u32..20,
        ) {
            let prompt = Tenant::new(&system, block).prompt(user.iter().copied(), block);
            let all: Vec<u32> = system.iter().map(|&byte| u32::from(byte)).chain(user).collect();
            let plain = Prompt::from_tokens(&all, block, 0);
            prop_assert_eq!(prompt.len, plain.len);
            prop_assert_eq!(&prompt.tokens, &plain.tokens);
            prop_assert_eq!(prompt.tail, plain.tail);
            prop_assert_eq!(prompt.full_blocks(), plain.full_blocks());
            for index in 0..plain.full_blocks() {
                prop_assert_eq!(prompt.key(index), plain.key(index));
            }
        }
    }
}
