//! Prompts as chains of block keys.
//!
//! A key names a full block *and everything before it*: key = mix(parent key, tokens of the block), and the chain
//! starts from extras such as tenant salt and adapter. Two prompts share a cached block exactly when their keys are equal (64-bit
//! keys: among 10⁷ distinct blocks a false match has probability below 3·10⁻⁶).
//!
//! Long shared prefixes are interned once and held by reference, so a million prompts cost their unique parts. Token
//! ids are present only where a real model or a policy must read them.

use crate::random::mix;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Name of a full block's content and of all content before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlockKey(pub u64);

impl BlockKey {
    /// The start of a chain for the given extras (adapter, tenant salt); 0 for none.
    pub fn root(extras: u64) -> Self {
        BlockKey(mix(0x7365_7276_656c_6162, extras))
    }

    /// The key of the block holding `tokens` after `self`.
    #[must_use]
    pub fn child(self, tokens: &[u32]) -> Self {
        let mut state = self.0;
        for &token in tokens {
            state = mix(state, u64::from(token) + 1);
        }
        BlockKey(mix(state, tokens.len() as u64))
    }
}

/// What a request asks the engine to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// Length in tokens, at least 1.
    pub len: u32,
    /// Keys of the leading full blocks, shared between prompts.
    pub shared_keys: Arc<[BlockKey]>,
    /// Keys of the full blocks after those.
    pub own_keys: Box<[BlockKey]>,
    /// Names the tokens after the last full block, so that generated tokens get keys that later turns can ask for.
    pub tail: BlockKey,
    /// Token ids, all `len` of them, where something must read them.
    pub tokens: Option<Arc<[u32]>>,
}

impl Prompt {
    /// A prompt of token ids, its keys computed for blocks of `block_tokens`.
    ///
    /// # Panics
    /// When `tokens` is empty or `block_tokens` is 0: both are checked where prompts are made.
    pub fn from_tokens(tokens: &[u32], block_tokens: u32, extras: u64) -> Self {
        assert!(!tokens.is_empty() && block_tokens > 0, "a prompt has at least one token");
        let blocks = tokens.chunks_exact(block_tokens as usize);
        let rest = blocks.remainder();
        let mut key = BlockKey::root(extras);
        let own_keys: Box<[BlockKey]> = blocks
            .map(|block| {
                key = key.child(block);
                key
            })
            .collect();
        Prompt {
            len: tokens.len() as u32,
            shared_keys: Arc::from([]),
            own_keys,
            tail: key.child(rest),
            tokens: Some(tokens.into()),
        }
    }

    /// Number of full blocks.
    pub fn full_blocks(&self) -> u32 {
        (self.shared_keys.len() + self.own_keys.len()) as u32
    }

    /// Key of full block `index`, if there is one.
    pub fn key(&self, index: u32) -> Option<BlockKey> {
        let index = index as usize;
        self.shared_keys.get(index).or_else(|| self.own_keys.get(index - self.shared_keys.len())).copied()
    }
}
