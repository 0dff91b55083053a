//! A name for how a prompt begins.

use super::params;
use servelab_engine::{BlockKey, Prompt};
use servelab_spec::catalog::ParamInfo;

/// The parameter that says how much of a prompt names it.
pub(crate) const PREFIX_TOKENS: &str = "prefix_tokens";

/// Declares it. 64 tokens by default in textbook policies: four blocks of 16, enough to tell system prompts apart and shorter than most.
pub(crate) fn prefix_tokens_param(default: u32) -> ParamInfo {
    let help = "How many of the prompt's first tokens decide its home.";
    params::integer(PREFIX_TOKENS, "Prefix", "tokens", default, (1, 65_536), help)
}

/// Names the first `tokens` tokens of a prompt.
pub(crate) fn prefix_key(prompt: &Prompt, tokens: u32, block_tokens: u32) -> BlockKey {
    let tokens = tokens.min(prompt.len);
    let whole = tokens.checked_div(block_tokens).unwrap_or(0).min(prompt.full_blocks());
    let rest = tokens - whole * block_tokens;
    let before = whole.checked_sub(1).and_then(|last| prompt.key(last)).unwrap_or(BlockKey::root(0));
    if rest == 0 {
        return before;
    }
    match &prompt.tokens {
        Some(ids) => before.child(ids.get((tokens - rest) as usize..tokens as usize).unwrap_or_default()),
        None => prompt.key(whole).unwrap_or(prompt.tail),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::prompt;
    use super::*;

    #[test]
    fn keys_name_the_prefix_with_ids_and_without() {
        let ids: Vec<u32> = (0..100).map(|at| (155 + at * 7) % 251).collect();
        let with = prompt(&ids);
        let without = Prompt { tokens: None, ..with.clone() };
        // Whole blocks: the same key either way.
        assert_eq!(prefix_key(&with, 64, 16), prefix_key(&without, 64, 16));
        assert_eq!(Some(prefix_key(&with, 64, 16)), with.key(3));
        // Inside a block: ids name the part, keys the whole block.
        assert_ne!(prefix_key(&with, 70, 16), prefix_key(&with, 71, 16));
        assert_eq!(Some(prefix_key(&without, 70, 16)), with.key(4));
        // Past the last full block, and longer than the prompt.
        assert_eq!(prefix_key(&without, 99, 16), with.tail);
        assert_eq!(prefix_key(&with, 5000, 16), prefix_key(&with, 100, 16));
        // Without blocks, ids alone.
        assert_ne!(prefix_key(&with, 8, 0), prefix_key(&with, 9, 0));
        let short = prompt(&ids[..5]);
        assert_eq!(prefix_key(&short, 64, 16), BlockKey::root(0).child(&ids[..5]));
    }
}
