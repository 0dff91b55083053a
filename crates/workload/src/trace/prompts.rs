//! From a row to a prompt of the engine's blocks.
//!
//! A trace names blocks of its own size `T`; an engine has blocks of `B`. A block of the engine ends at token (k+1)·B, and what determines it is
//! the trace's block in which that token lies and everything before. So its name is a function of that block's name and of k, for any T and B: where two
//! prompts share a trace's block, they share all engine blocks that end in it. Lengths that are scaled scale T with them.
//!
//! A trace's last block is usually a partial one, whose name tells nothing of prompts that go on from there under another name: a conversation's next turn
//! may share up to T − 1 tokens more than a trace can say.

use super::{Chain, Row, Trace};
use servelab_engine::random::mix;
use servelab_engine::{BlockKey, Prompt};
use servelab_spec::experiment::TraceSpec;
use std::sync::Arc;

/// Salts names of conversations, of prompts that are nobody else's, and of ends.
const STREAM: u64 = 0x7374_7265_616d;
const OWN: u64 = 0x6f77_6e00;
const TAIL: u64 = 0x7461_696c;

/// How rows become requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    /// Factor of prompt lengths.
    prompt_scale: f64,
    output_scale: f64,
    prompt_cap: u32,
    output_cap: u32,
    /// Tokens of a block of the trace after scaling; 0 without keys.
    key_tokens: f64,
    block_tokens: u32,
}

/// A copy of a row: what of its prompt is another's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Copy {
    /// Every block bears a name of this repetition; 0: none does.
    pub(crate) salt: u32,
    /// Blocks that only this row has bear a name of this extra request; 0: it is none.
    pub(crate) extra: u32,
}

impl Shape {
    pub(crate) fn new(trace: &Trace, spec: &TraceSpec, block_tokens: u32) -> Self {
        let recorded = f64::from(trace.block_tokens());
        let shrink = if spec.trace_block > 0 && recorded > 0.0 { f64::from(spec.trace_block) / recorded } else { 1.0 };
        Shape {
            prompt_scale: shrink * spec.prompt_scale,
            output_scale: spec.output_scale,
            prompt_cap: spec.prompt_cap,
            output_cap: spec.output_cap,
            // From whole numbers where it can be, so that blocks end exactly where they should.
            key_tokens: if spec.trace_block > 0 { f64::from(spec.trace_block) } else { recorded } * spec.prompt_scale,
            block_tokens,
        }
    }

    /// Prompt and output length of a row.
    pub(crate) fn lengths(&self, row: &Row) -> (u32, u32) {
        let scaled = |tokens: u32, by: f64, most: u32| {
            let tokens = libm::ceil(f64::from(tokens) * by - 1e-9).min(f64::from(most));
            (tokens as u32).clamp(1, most.max(1))
        };
        (scaled(row.prompt, self.prompt_scale, self.prompt_cap), scaled(row.output, self.output_scale, self.output_cap))
    }

    /// The prompt of row `index`, `len` tokens of it.
    pub(crate) fn prompt(&self, trace: &Trace, index: u32, copy: Copy, len: u32) -> Prompt {
        let row = &trace.rows[index as usize];
        let salt = |name: u64| if copy.salt == 0 { name } else { mix(name, u64::from(copy.salt)) };
        let mut own = mix(OWN, u64::from(index));
        if copy.extra > 0 {
            own = mix(own, u64::from(copy.extra));
        }
        let blocks = len / self.block_tokens;
        let end = |block: u32| (u64::from(block) + 1) * u64::from(self.block_tokens);
        let mut path = vec![];
        let (name, tail): (Box<dyn Fn(u32) -> u64>, u64) = match row.chain {
            Chain::Own => (Box::new(|_| own), own),
            Chain::Stream(stream) => {
                let name = mix(STREAM, u64::from(stream));
                (Box::new(move |_| name), name)
            }
            Chain::Prefix(prefix) => {
                let shared = trace.prefixes.get(prefix as usize).copied();
                let tokens = shared.map_or(0.0, |shared| f64::from(shared.tokens) * self.prompt_scale);
                let name = shared.map_or(own, |shared| shared.key);
                (Box::new(move |block| if end(block) as f64 <= tokens { name } else { mix(own, name) }), mix(own, name))
            }
            Chain::Keys(node) => {
                match copy.extra {
                    0 => trace.tree.path(node, &mut path),
                    extra => trace.tree.salted_path(node, extra.into(), &mut path),
                }
                let last = path.last().copied().unwrap_or(own);
                let of = |block: u32| (((end(block) - 1) as f64) / self.key_tokens) as usize;
                let path = &path;
                // Beyond the last key nothing is known, and nobody else's is the same.
                let beyond = mix(own, last);
                let covered = ((f64::from(len) - 1.0) / self.key_tokens) as usize;
                let tail = path.get(covered).copied().unwrap_or(beyond);
                (Box::new(move |block: u32| path.get(of(block)).copied().unwrap_or(beyond)), tail)
            }
        };
        let own_keys = (0..blocks).map(|block| BlockKey(mix(salt(name(block)), u64::from(block)))).collect();
        let tail = BlockKey(mix(mix(salt(tail), TAIL), u64::from(len)));
        drop(name);
        Prompt { len, shared_keys: Arc::from([]), own_keys, tail, tokens: None }
    }
}
