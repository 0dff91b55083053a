//! Prompts as characters, for policies that look at text.
//!
//! A token is a character: the reference model's vocabulary is bytes. Where a workload has keys and no token ids, each block yields characters
//! that are a function of its key: prompts that share blocks share exactly those characters.

use servelab_engine::Prompt;
use servelab_engine::random::mix;

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
}
