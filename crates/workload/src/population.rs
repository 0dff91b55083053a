//! What prompts are built on: interned beginnings (a tenant's system prompt, a document) and prompts that grow from them.
//!
//! The keys of a beginning's full blocks are computed once and held by reference. A request's own blocks begin with what is
//! left of the beginning after its last full block.

use crate::text;
use servelab_engine::prompt::output_key;
use servelab_engine::random::{Stream, mix};
use servelab_engine::{BlockKey, Prompt};
use std::sync::Arc;

/// Of tokens drawn from 93, so many in a row are not drawn twice: 93¹² is 4·10²³.
const TELLING: u32 = 12;

/// A beginning that many prompts share.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    tokens: Box<[u32]>,
    keys: Arc<[BlockKey]>,
    /// The chain's state at its end.
    tail: BlockKey,
}

impl Tenant {
    /// Interns a text of bytes, one token each. `extras` salt its keys and those of everything built on it: 0 for none.
    pub(crate) fn new(text: &[u8], block_tokens: u32, extras: u64) -> Self {
        let tokens: Box<[u32]> = text.iter().map(|&byte| u32::from(byte)).collect();
        let mut tail = BlockKey::root(extras);
        let blocks = tokens.chunks_exact(block_tokens as usize);
        let rest = blocks.remainder();
        let keys = blocks
            .map(|block| {
                tail = tail.child(block);
                tail
            })
            .collect();
        tail = tail.child(rest);
        Tenant { tokens, keys, tail }
    }

    /// The beginning followed by `user` tokens; at least one token in all.
    pub(crate) fn prompt(&self, user: impl Iterator<Item = u32>, block_tokens: u32) -> Prompt {
        let mut growth = Growth::new(self, user.size_hint().0, block_tokens);
        growth.read(user);
        growth.into_prompt()
    }

    /// The prompt as far as an engine that prices steps needs it, when nobody reads prompts and nobody sends the user's part again: no token ids, and keys
    /// that agree with each other's where those of [`Tenant::prompt`] do. Blocks behind [`TELLING`] tokens of the user's own are met once, so any name
    /// that is theirs alone will do; those before bear the same keys.
    pub(crate) fn sketch(&self, mut user: impl ExactSizeIterator<Item = u32>, block_tokens: u32) -> Prompt {
        let mut growth = Growth { written: false, ..Growth::new(self, 0, block_tokens) };
        growth.own.reserve_exact((growth.begun as usize + user.len()) / block_tokens as usize);
        // To the end of the first block that holds so many, or of the prompt.
        let told = (growth.begun + TELLING).next_multiple_of(block_tokens) - growth.begun;
        growth.read(user.by_ref().take(told as usize));
        growth.len += user.len() as u32;
        let (state, end) = (growth.state, growth.len() / block_tokens);
        let first = (self.keys.len() + growth.own.len()) as u32;
        growth.own.extend((first..end).map(|block| BlockKey(mix(state.0, u64::from(block)))));
        growth.into_prompt()
    }

    /// A prompt of which only the beginning's keys and the length, `user` tokens more, are right.
    pub(crate) fn outline(&self, user: u32) -> Prompt {
        let (shared_keys, own_keys) = (Arc::clone(&self.keys), Box::default());
        Prompt { len: self.len() + user, shared_keys, own_keys, tail: self.tail, tokens: None }
    }

    /// Length of the beginning, tokens.
    pub(crate) fn len(&self) -> u32 {
        self.tokens.len() as u32
    }
}

/// A prompt in the making: a beginning, then parts that somebody wrote and answers that a model gave.
pub(crate) struct Growth<'a> {
    block_tokens: u32,
    beginning: &'a Tenant,
    /// Tokens after the beginning: it is copied once, into the finished prompt. Empty unless `written`.
    tokens: Vec<u32>,
    /// Whether ids are kept.
    written: bool,
    /// Length so far, tokens.
    len: u32,
    own: Vec<BlockKey>,
    state: BlockKey,
    /// Tokens in the block begun.
    begun: u32,
}

impl<'a> Growth<'a> {
    /// A prompt that begins with `beginning`, and to which about `more` tokens will be added.
    pub(crate) fn new(beginning: &'a Tenant, more: usize, block_tokens: u32) -> Self {
        let begun = beginning.len() - beginning.keys.len() as u32 * block_tokens;
        let own = Vec::with_capacity((begun as usize + more) / block_tokens as usize);
        let (tokens, len) = (Vec::with_capacity(more), beginning.len());
        Growth { block_tokens, beginning, tokens, written: true, len, own, state: beginning.tail, begun }
    }

    /// Adds tokens that are named by their ids.
    pub(crate) fn read(&mut self, ids: impl Iterator<Item = u32>) {
        for id in ids {
            if self.written {
                self.tokens.push(id);
            }
            self.len += 1;
            self.state = self.state.child(&[id]);
            self.begun += 1;
            if self.begun == self.block_tokens {
                self.own.push(self.state);
                self.begun = 0;
            }
        }
    }

    /// Adds the answer to the prompt as it stands. Its blocks bear the names under which a priced run caches what decoding fills
    /// ([`output_key`] under `seed`), since nobody computes an answer's ids there; `ids` are what policies read in their place.
    pub(crate) fn answer(&mut self, seed: u64, ids: impl Iterator<Item = u32>) {
        let (tail, first) = (self.state, self.len() / self.block_tokens);
        let before = self.tokens.len();
        self.tokens.extend(ids);
        self.len += (self.tokens.len() - before) as u32;
        let (end, begun) = (self.len() / self.block_tokens, self.len() % self.block_tokens);
        self.own.extend((first..end).map(|block| output_key(tail, seed, block)));
        // The block begun goes on from the name it would have if the answer filled it: nothing else has that name.
        self.state = output_key(tail, seed, end);
        self.begun = begun;
    }

    /// Length so far, tokens.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The prompt as it stands.
    pub(crate) fn into_prompt(self) -> Prompt {
        Prompt {
            len: self.len(),
            shared_keys: Arc::clone(&self.beginning.keys),
            tokens: self.written.then(|| self.beginning.tokens.iter().chain(&self.tokens).copied().collect()),
            own_keys: self.own.into(),
            tail: self.state,
        }
    }
}

/// Tokens of somebody's own text: printable bytes but the space, 33 to 125, so that policies which read text find some.
pub(crate) fn text_ids(mut stream: Stream, len: u32) -> impl ExactSizeIterator<Item = u32> {
    (0..len).map(move |_| stream.between(33, 125))
}

/// The same kind of tokens, eight from a draw: for prompts that are built anew from many parts. Of 93 ids some come up 3 times in 256 and others
/// twice, which nobody who compares texts can tell.
pub(crate) fn many_ids(mut stream: Stream, len: u32) -> impl ExactSizeIterator<Item = u32> {
    let mut bytes = 0;
    (0..len).map(move |at| {
        bytes = if at % 8 == 0 { stream.next_u64() } else { bytes >> 8 };
        33 + (((bytes & 0xff) * 93) >> 8) as u32
    })
}

/// Who asks: draws ranks by Zipf's law.
#[derive(Clone, Debug)]
pub(crate) struct Popularity {
    /// Running sums of the shares, the last one 1.
    sums: Box<[f64]>,
}

impl Popularity {
    /// `many` ranks, `share ∝ 1 ÷ rank^skew`.
    pub(crate) fn new(many: u32, skew: f64) -> Self {
        Popularity::noisy(many, skew, 1.0)
    }

    /// The same with the first rank's share `noisy` times as large before all are made to sum to 1.
    pub(crate) fn noisy(many: u32, skew: f64, noisy: f64) -> Self {
        let mut sum = 0.0;
        let mut sums: Box<[f64]> = (1..=many)
            .map(|rank| {
                sum += libm::pow(f64::from(rank), -skew) * if rank == 1 { noisy } else { 1.0 };
                sum
            })
            .collect();
        sums.iter_mut().for_each(|entry| *entry /= sum);
        Popularity { sums }
    }

    /// The rank, from 0, that the next draw of `stream` falls on.
    pub(crate) fn draw(&self, mut stream: Stream) -> u32 {
        let share = stream.unit();
        self.sums.partition_point(|&sum| sum <= share).min(self.sums.len() - 1) as u32
    }
}

/// Tenants with system prompts of their own, `lengths` (shortest, longest) tokens long; `extras` salts the keys of each.
pub(crate) fn tenants(
    seed: u64,
    many: u32,
    lengths: (u32, u32),
    block_tokens: u32,
    extras: impl Fn(u32) -> u64,
) -> Box<[Tenant]> {
    let draws = Stream::new(seed, b"system_length");
    let texts = Stream::new(seed, b"system_text");
    (0..many)
        .map(|tenant| {
            let len = draws.split(tenant.into()).between(lengths.0, lengths.1);
            let text = text::system_prompt(&name(tenant), len, &mut texts.split(tenant.into()));
            Tenant::new(&text, block_tokens, extras(tenant))
        })
        .collect()
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
    use servelab_engine::prompt::continuation_keys;

    #[test]
    fn names_count_like_columns_of_a_sheet() {
        let expected = [(0, "A"), (25, "Z"), (26, "AA"), (51, "AZ"), (52, "BA"), (701, "ZZ"), (702, "AAA")];
        for (index, text) in expected {
            assert_eq!(name(index), text);
        }
    }

    #[test]
    fn ids_are_printable_and_all_come_up() {
        let ids: Vec<u32> = many_ids(Stream::new(1, b"test"), 20_000).collect();
        let seen: std::collections::BTreeSet<u32> = ids.iter().copied().collect();
        assert_eq!((ids.len(), seen.len()), (20_000, 93));
        assert_eq!((seen.first(), seen.last()), (Some(&33), Some(&125)));
        assert_eq!(many_ids(Stream::new(1, b"test"), 11).collect::<Vec<_>>(), ids[..11]);
    }

    /// Sketches of prompts share exactly the blocks that the prompts themselves share, however little of a user's own is in a block.
    #[test]
    fn sketches_share_what_prompts_share() {
        for (system, user, block) in [(200, 100, 16), (31, 40, 16), (5, 3, 4), (0, 70, 1), (16, 1, 16), (33, 64, 7)] {
            let tenants = [Tenant::new(&vec![b'x'; system], block, 0), Tenant::new(&vec![b'y'; system], block, 0)];
            let mut named = std::collections::BTreeMap::new();
            for at in 0..400 {
                let ids = || many_ids(Stream::new(at, b"test"), user);
                let tenant = &tenants[at as usize % 2];
                let (prompt, sketch) = (tenant.prompt(ids(), block), tenant.sketch(ids(), block));
                assert_eq!((prompt.len, prompt.full_blocks()), (sketch.len, sketch.full_blocks()));
                assert!(sketch.tokens.is_none());
                for index in 0..prompt.full_blocks() {
                    let known = named.entry(prompt.key(index)).or_insert(sketch.key(index));
                    assert_eq!(*known, sketch.key(index), "block {index} of {system} + {user} in {block}s");
                }
            }
            let names: std::collections::BTreeSet<_> = named.values().collect();
            assert_eq!(names.len(), named.len(), "{system} + {user} in {block}s");
        }
    }

    proptest! {
        /// An interned prompt names the same blocks as the same tokens hashed from scratch.
        #[test]
        fn interning_changes_no_key(
            system in prop::collection::vec(any::<u8>(), 0..80),
            user in prop::collection::vec(0u32..256, 1..40),
            block in 1u32..20,
            extras in 0u64..3,
        ) {
            let prompt = Tenant::new(&system, block, extras).prompt(user.iter().copied(), block);
            let all: Vec<u32> = system.iter().map(|&byte| u32::from(byte)).chain(user).collect();
            let plain = Prompt::from_tokens(&all, block, extras);
            prop_assert_eq!(prompt.len, plain.len);
            prop_assert_eq!(&prompt.tokens, &plain.tokens);
            prop_assert_eq!(prompt.tail, plain.tail);
            prop_assert_eq!(prompt.full_blocks(), plain.full_blocks());
            for index in 0..plain.full_blocks() {
                prop_assert_eq!(prompt.key(index), plain.key(index));
            }
        }

        /// A turn's prompt begins with the blocks that serving the turn before left in the cache: those of its prompt, then those that
        /// decoding filled, by the engine's own account.
        #[test]
        fn the_next_turn_begins_with_what_this_one_left(
            system in 0u8..60,
            turns in prop::collection::vec((1u32..40, 1u32..40), 1..5),
            block in 1u32..20,
        ) {
            let tenant = Tenant::new(&vec![b'x'; system.into()], block, 0);
            let ids = |len: u32| text_ids(Stream::new(len.into(), b"test"), len);
            let mut left: Vec<BlockKey> = vec![];
            for many in 1..=turns.len() {
                let mut growth = Growth::new(&tenant, 0, block);
                for (at, &(user, output)) in turns[..many].iter().enumerate() {
                    growth.read(ids(user));
                    if at + 1 < many {
                        growth.answer(at as u64, ids(output));
                    }
                }
                let prompt = growth.into_prompt();
                prop_assert_eq!(prompt.full_blocks(), prompt.len / block);
                prop_assert_eq!(prompt.tokens.as_ref().map(|ids| ids.len() as u32), Some(prompt.len));
                for (index, &key) in (0u32..).zip(&left) {
                    prop_assert_eq!(prompt.key(index), Some(key));
                }
                let output = turns[many - 1].1;
                left = (0..prompt.full_blocks()).filter_map(|index| prompt.key(index)).collect();
                left.extend(continuation_keys(&prompt, many as u64 - 1, output, block));
                // No two blocks of a prompt agree: each names all before it.
                let distinct: std::collections::BTreeSet<_> = left.iter().collect();
                prop_assert_eq!(distinct.len(), left.len());
            }
        }
    }
}
