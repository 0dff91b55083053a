//! Prompts as characters, for policies that look at text.
//!
//! A token is a character: the reference model's vocabulary is bytes. Where a workload has keys and no token ids, each block yields characters
//! that are a function of its key: prompts that share blocks share exactly those characters.

use servelab_engine::random::mix;
use servelab_engine::{BlockKey, Prompt};

/// The prompt's characters, `len` of them. `block_tokens` is the size of blocks that keys were made for.
pub(crate) fn chars(prompt: &Prompt, block_tokens: u32) -> impl Iterator<Item = u32> + '_ {
    chars_from(prompt, block_tokens, 0)
}

/// The same from character `from` on, without a look at those before.
pub(crate) fn chars_from(prompt: &Prompt, block_tokens: u32, from: u32) -> impl Iterator<Item = u32> + '_ {
    let ids = prompt.tokens.as_deref();
    (from..prompt.len).map(move |at| match ids {
        Some(ids) => ids.get(at as usize).copied().unwrap_or(0),
        None => {
            let block = at.checked_div(block_tokens).unwrap_or(0);
            let key = prompt.key(block).unwrap_or(prompt.tail);
            // 21 bits, as many as a Unicode scalar has: accidents are rarer than among bytes.
            (mix(key.0, u64::from(at)) >> 43) as u32
        }
    })
}

/// The prompt's characters in one piece: its token ids where it brings them, else made in `scratch`.
pub(crate) fn read<'a>(prompt: &'a Prompt, block_tokens: u32, scratch: &'a mut Vec<u32>) -> &'a [u32] {
    match &prompt.tokens {
        Some(ids) if ids.len() == prompt.len as usize => ids,
        _ => {
            scratch.clear();
            scratch.extend(chars(prompt, block_tokens));
            scratch
        }
    }
}

/// Names of the prefixes that end after each of these consecutive chunks of a text: a name stands for its chunk and all before it.
pub(crate) fn chunk_keys<'a>(chunks: impl Iterator<Item = &'a [u32]>) -> impl Iterator<Item = u64> {
    let mut key = BlockKey::root(0);
    chunks.map(move |chunk| {
        key = key.child(chunk);
        key.0
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::prompt;
    use super::*;

    #[test]
    fn ids_are_read_and_keys_yield_what_they_share() {
        let (a, b): (Vec<u32>, Vec<u32>) = ((0..40).collect(), (0..32).chain(90..98).collect());
        assert_eq!(chars(&prompt(&a), 16).collect::<Vec<_>>(), a);
        let keys = |ids: &[u32]| Prompt { tokens: None, ..prompt(ids) };
        let (a, b) = (keys(&a), keys(&b));
        let same = chars(&a, 16).zip(chars(&b, 16)).take_while(|(a, b)| a == b).count();
        assert_eq!((same, chars(&a, 16).count()), (32, 40));
        assert!(chars_from(&a, 16, 30).eq(chars(&a, 16).skip(30)));
        assert_eq!(chars_from(&a, 16, 41).count(), 0);
    }

    #[test]
    fn read_in_one_piece_is_read_one_by_one() {
        let ids: Vec<u32> = (0..40).collect();
        let (with, without) = (prompt(&ids), Prompt { tokens: None, ..prompt(&ids) });
        let mut scratch = vec![7; 3];
        assert_eq!(read(&with, 16, &mut scratch), ids);
        assert_eq!(read(&without, 16, &mut scratch), chars(&without, 16).collect::<Vec<_>>());
    }

    #[test]
    fn chunk_keys_name_whole_prefixes() {
        let keys = |text: &[u32]| chunk_keys(text.chunks_exact(4)).collect::<Vec<_>>();
        let (a, b) = (keys(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), keys(&[1, 2, 3, 4, 5, 6, 7, 9]));
        assert_eq!((a.len(), b.len(), a[0]), (2, 2, b[0]));
        assert_ne!(a[1], b[1]);
        assert_ne!(keys(&[0, 2, 3, 4, 5, 6, 7, 8])[1], a[1], "what stands before counts");
        assert!(keys(&[1, 2, 3]).is_empty());
    }
}
