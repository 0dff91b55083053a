//! Recorded traffic: read from a file of whatever size, kept compactly, replayed by [`crate::Source`].
//!
//! | module | holds |
//! |---|---|
//! | [`reader`] | [`Reader`]: bytes in, a [`Trace`] out; it never holds the file |
//! | `inflate`, `lines`, `sniff` | gzip with a guard; lines; which format it is |
//! | `formats` | one file for each format |
//! | `clock` | wall-clock times |
//! | `collector` | rows checked, sorted and interned |
//! | [`problem`] | what can be wrong with a file, and with a row |
//! | `tree` | the prefix tree of block keys |
//! | `prompts` | from a row to a prompt of the engine's blocks |
//! | [`shelf`] | traces by name, for whoever makes a source of a spec |

mod clock;
mod collector;
mod formats;
mod inflate;
mod lines;
pub mod problem;
pub(crate) mod prompts;
pub mod reader;
pub mod shelf;
mod sniff;
mod tree;

pub use crate::source::replay::{Pace, pace};
pub use problem::TraceError;
pub(crate) use prompts::Shape;
pub use reader::{ReadOptions, Reader, Reading};

use servelab_engine::Nanos;
use servelab_engine::random::mix;
use servelab_spec::traffic::TraceFormat;
use tree::Tree;

/// One recorded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Arrival after the first request's.
    pub at: Nanos,
    /// Prompt length, tokens, at least 1.
    pub prompt: u32,
    /// Output length, tokens, at least 1.
    pub output: u32,
    /// What is known of the prompt's content.
    pub chain: Chain,
    /// The conversation, from 0, if it has one.
    pub session: Option<u32>,
    /// Whose it is: index in [`Trace::groups`].
    pub group: u16,
}

/// What is known of a prompt's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// Nothing: it is taken to be nobody else's.
    Own,
    /// The keys of its blocks: a node of the tree and all above it.
    Keys(u32),
    /// It is the beginning of what a conversation comes to; that is inferred, see [`Trace::streams`].
    Stream(u32),
    /// It begins with this of the trace's prefixes, and goes on with what is its own.
    Prefix(u32),
}

/// A beginning that prompts share by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(crate) key: u64,
    pub(crate) tokens: u32,
}

/// A trace in memory: about 40 bytes a request and 13 for each distinct block.
#[derive(Clone, Debug)]
pub struct Trace {
    format: TraceFormat,
    block_tokens: u32,
    rows: Vec<Row>,
    tree: Tree,
    prefixes: Vec<Prefix>,
    groups: Vec<String>,
    sessions: u32,
    streams: u32,
    step: Nanos,
    digest: u64,
}

impl Trace {
    /// The format it was read as.
    pub fn format(&self) -> TraceFormat {
        self.format
    }

    /// Its requests in order of arrival.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Tokens of a block that a key stands for; 0 when it has no keys.
    pub fn block_tokens(&self) -> u32 {
        self.block_tokens
    }

    /// Distinct blocks.
    pub fn blocks(&self) -> usize {
        self.tree.len()
    }

    /// Distinct blocks that more than one request has.
    pub fn shared_blocks(&self) -> usize {
        self.tree.shared_len()
    }

    /// Whose requests there are, by name; an empty name where the file names nobody.
    pub fn groups(&self) -> &[String] {
        &self.groups
    }

    /// Number of conversations.
    pub fn sessions(&self) -> u32 {
        self.sessions
    }

    /// Conversations, or parts of them, whose prompts grow by at least the answer before: without keys they are taken to contain what was said.
    pub fn streams(&self) -> u32 {
        self.streams
    }

    /// The step of the grid that arrivals were recorded on; zero when they were not.
    pub fn step(&self) -> Nanos {
        self.step
    }

    /// Arrival of the last request after the first.
    pub fn span(&self) -> Nanos {
        self.rows.last().map_or(Nanos::ZERO, |row| row.at)
    }

    /// Its name in a spec: 16 hexadecimal digits of a hash over all that was read. The same file read otherwise (another format, another map of columns)
    /// is another trace.
    pub fn name(&self) -> String {
        format!("{:016x}", self.digest)
    }

    /// Something about the content of prompts is known.
    pub fn knows_sharing(&self) -> bool {
        self.block_tokens > 0 || self.streams > 0 || !self.prefixes.is_empty()
    }

    /// Names of the blocks of a row, first block first, into `out`; each names everything before it. Empty where keys are not known.
    pub fn keys_of(&self, row: &Row, out: &mut Vec<u64>) {
        out.clear();
        if let Chain::Keys(node) = row.chain {
            self.tree.path(node, out);
        }
    }

    /// The same as numbers from 0 to [`Trace::blocks`], which name blocks within this trace.
    pub fn blocks_of(&self, row: &Row, out: &mut Vec<u32>) {
        out.clear();
        if let Chain::Keys(node) = row.chain {
            self.tree.nodes(node, out);
        }
    }

    /// Tokens that a row's prompt shares by the name of its beginning, which is that one; `None` where it has none.
    pub fn prefix_of(&self, row: &Row) -> Option<(u32, u32)> {
        match row.chain {
            Chain::Prefix(prefix) => self.prefixes.get(prefix as usize).map(|of| (prefix, of.tokens)),
            _ => None,
        }
    }

    fn digest_of(&self) -> u64 {
        let word = |state, value: u64| mix(state, value);
        let mut state = word(word(0x7472_6163, self.format as u64), u64::from(self.block_tokens));
        state = word(state, self.step.0);
        for group in &self.groups {
            state = group.bytes().fold(word(state, group.len() as u64), |state, byte| word(state, byte.into()));
        }
        for row in &self.rows {
            let (kind, which) = match row.chain {
                Chain::Own => (0, 0),
                Chain::Keys(node) => (1, self.tree.key(node)),
                Chain::Stream(stream) => (2, u64::from(stream)),
                Chain::Prefix(prefix) => {
                    let prefix = self.prefixes.get(prefix as usize);
                    (3, prefix.map_or(0, |prefix| mix(prefix.key, prefix.tokens.into())))
                }
            };
            let lengths = u64::from(row.prompt) << 32 | u64::from(row.output);
            let who = row.session.map_or(0, |session| u64::from(session) + 1) << 16 | u64::from(row.group);
            state = word(word(word(word(state, row.at.0), lengths), which ^ kind), who);
        }
        state
    }
}
