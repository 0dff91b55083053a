//! Prompts as chains of block keys.
//!
//! A key names a full block *and everything before it*: it is the state, at the block's end, of one chain that starts
//! from extras such as tenant salt and adapter and takes in every token. So a key can be continued token by token:
//! the state after a prompt's last, partial block is its [`Prompt::tail`], from which generated tokens go on. Two
//! prompts share a cached block exactly when their keys are equal (64-bit keys: among 10⁷ distinct blocks a false
//! match has probability below 3·10⁻⁶).
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

    /// The chain after `tokens` more: the key of a block when it ends there. `key.child(a).child(b)` is
    /// `key.child(ab)`.
    #[must_use]
    pub fn child(self, tokens: &[u32]) -> Self {
        let mut state = self.0;
        for &token in tokens {
            state = mix(state, u64::from(token) + 1);
        }
        BlockKey(state)
    }
}

/// Key of block `block` (counted from the prompt's first) of a sequence whose generated tokens have no ids, as in
/// priced runs: a function of the prompt's tail, [`crate::SequenceRequest::output_seed`] and the block's position.
///
/// It names a block that holds at least one generated token; blocks before those are named by the prompt. A workload
/// uses it, or [`continuation_keys`], to name what a session's next turn starts with.
pub fn output_key(tail: BlockKey, output_seed: u64, block: u32) -> BlockKey {
    BlockKey(mix(mix(tail.0 ^ 0x6f75_7470_7574_6b65, output_seed), u64::from(block)))
}

/// Keys of the full blocks of `prompt` + `output_tokens` generated tokens that the prompt alone does not fill, as a
/// priced run caches them. With the prompt's own keys they are the leading keys of the session's next prompt.
pub fn continuation_keys(
    prompt: &Prompt,
    output_seed: u64,
    output_tokens: u32,
    block_tokens: u32,
) -> impl Iterator<Item = BlockKey> + use<> {
    let (tail, first) = (prompt.tail, prompt.full_blocks());
    let end = prompt.len.saturating_add(output_tokens) / block_tokens.max(1);
    (first..end).map(move |block| output_key(tail, output_seed, block))
}

/// What a request asks the engine to read.
///
/// In memory its fields stand in this order: see [`SequenceRequest`](crate::SequenceRequest).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub struct Prompt {
    /// Length in tokens, at least 1.
    pub len: u32,
    /// Keys of the leading full blocks, shared between prompts.
    pub shared_keys: Arc<[BlockKey]>,
    /// Keys of the full blocks after those.
    pub own_keys: Box<[BlockKey]>,
    /// The chain's state after the whole prompt, the tokens after the last full block included: generated tokens go on
    /// from it, so that later turns can ask for the blocks they fill.
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

    /// Number of full blocks; `len ÷ block size`, rounded down.
    pub fn full_blocks(&self) -> u32 {
        (self.shared_keys.len() + self.own_keys.len()) as u32
    }

    /// Key of full block `index`, if there is one.
    pub fn key(&self, index: u32) -> Option<BlockKey> {
        let index = index as usize;
        self.shared_keys.get(index).or_else(|| self.own_keys.get(index - self.shared_keys.len())).copied()
    }
}
