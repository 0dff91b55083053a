//! How much of a prompt each candidate is believed to hold.

use super::super::RouteContext;
use super::super::approx_index::{ApproxIndex, ENTRIES, ENTRY_TOKENS, Touch};
use super::super::params::{self, Params};
use crate::telemetry::Reads;
use serde_json::Value;
use servelab_engine::Prompt;
use servelab_spec::catalog::ParamInfo;

/// Where beliefs come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// The router's own dispatches.
    Approximate(ApproxIndex),
    /// The engines' KV events.
    Precise,
}

/// Where beliefs come from, and those of the latest decision.
#[derive(Clone, Debug)]
pub(crate) struct Prefixes {
    source: Source,
    /// The approximate index holds as many entries a replica as the engine says it has blocks.
    engine_capacity: bool,
    /// Entries a replica, unless the engine says otherwise.
    entries: u32,
    /// Leading entries that each candidate holds.
    matched: Vec<u32>,
    /// Entries of the prompt.
    total: u32,
    /// Tokens of an entry; 0 where there are no blocks.
    entry_tokens: u32,
    block_tokens: u32,
    /// Entries of the replica chosen.
    capacity: u32,
}

impl Prefixes {
    /// The parameters that size an approximate index.
    pub(crate) fn params() -> [ParamInfo; 2] {
        [
            params::switch(
                "engine_capacity",
                "Size by engine",
                true,
                "Believe that a replica holds as many entries as its engine says it has blocks. Off, or before the engine was asked: the next number.",
            ),
            params::integer(
                "index_entries",
                "Index entries",
                "per replica",
                ENTRIES,
                (1, 10_000_000),
                "How many entries a replica is believed to hold when its engine does not say.",
            ),
        ]
    }

    /// The parameters of llm-d's choice between two indexes.
    pub(crate) fn llm_d_params() -> Vec<ParamInfo> {
        let source = params::choice(
            "prefix_index",
            "Prefix index",
            0,
            &["approximate", "precise"],
            "Approximate: from this router's own dispatches. Precise: from the engines' KV events.",
        );
        std::iter::once(source).chain(Self::params()).collect()
    }

    /// From those parameters.
    pub(crate) fn llm_d(params: &Params) -> Self {
        let source = match params.integer("prefix_index") {
            0 => Source::Approximate(ApproxIndex::new(ENTRY_TOKENS, Touch::RootFirst)),
            _ => Source::Precise,
        };
        Prefixes::new(source, params)
    }

    /// Beliefs from `source`, sized by the parameters.
    pub(crate) fn new(source: Source, params: &Params) -> Self {
        Prefixes {
            source,
            engine_capacity: params.switch("engine_capacity"),
            entries: params.integer("index_entries"),
            matched: Vec::new(),
            total: 0,
            entry_tokens: 0,
            block_tokens: 0,
            capacity: 0,
        }
    }

    /// What it takes to know.
    pub(crate) fn reads(&self) -> Reads {
        match self.source {
            Source::Approximate(_) if self.engine_capacity => Reads::POLLED,
            Source::Approximate(_) => Reads::NOTHING,
            Source::Precise => Reads::EVENTS,
        }
    }

    /// Looks the request's prompt up.
    pub(crate) fn look_up(&mut self, ctx: &RouteContext<'_>) {
        let prompt = ctx.request.prompt;
        self.block_tokens = ctx.block_tokens;
        self.matched.clear();
        let stride = match &self.source {
            Source::Approximate(index) => {
                index.matched(prompt, ctx.block_tokens, ctx.candidates, &mut self.matched);
                index.stride(ctx.block_tokens)
            }
            Source::Precise => {
                ctx.matched_blocks(&mut self.matched);
                1
            }
        };
        self.total = prompt.full_blocks() / stride;
        self.entry_tokens = stride * ctx.block_tokens;
    }

    /// Share of the prompt's entries that the candidate at position `at` holds, 0 to 1; 0 for a prompt without a whole one.
    pub(crate) fn share(&self, at: usize) -> f64 {
        if self.total == 0 { 0.0 } else { f64::from(self.matched[at]) / f64::from(self.total) }
    }

    /// Tokens of a prompt of `len` that the candidate at position `at` need not compute; the last token always is.
    pub(crate) fn tokens(&self, at: usize, len: u32) -> u32 {
        (self.matched[at] * self.entry_tokens).min(len.saturating_sub(1))
    }

    /// No candidate holds anything of it.
    pub(crate) fn is_cold(&self) -> bool {
        self.matched.iter().all(|&matched| matched == 0)
    }

    /// The candidate at position `at` was chosen.
    pub(crate) fn chosen(&mut self, ctx: &RouteContext<'_>, at: usize) {
        let told = self.reads().has(Reads::POLLED).then(|| ctx.polled(at).blocks).filter(|&blocks| blocks > 0);
        self.capacity = told.unwrap_or(self.entries);
    }

    /// The request went where [`Prefixes::chosen`] said.
    pub(crate) fn dispatched(&mut self, prompt: &Prompt, replica: u32) {
        if let Source::Approximate(index) = &mut self.source {
            index.write(prompt, self.block_tokens, replica, self.capacity);
        }
    }

    /// The replicas that may be chosen are now these.
    pub(crate) fn keep(&mut self, ready: &[u32]) {
        if let Source::Approximate(index) = &mut self.source {
            index.keep(ready);
        }
    }

    /// What it remembers.
    pub(crate) fn save(&self) -> Value {
        match &self.source {
            Source::Approximate(index) => index.save(),
            Source::Precise => Value::Null,
        }
    }

    /// Takes back what [`Prefixes::save`] gave.
    pub(crate) fn restore(&mut self, state: &Value) -> Result<(), String> {
        match &mut self.source {
            Source::Approximate(index) => index.restore(state),
            Source::Precise if state.is_null() => Ok(()),
            Source::Precise => Err("a precise index remembers nothing".into()),
        }
    }
}
