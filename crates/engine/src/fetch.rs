//! K and V that come from outside while a sequence waits.
//!
//! A store behind the replicas may hold more of a prompt than this engine's cache does. Whoever knows the store says which leading tokens will be
//! here when ([`Engine::fetch`]); the engine knows no store, no link and no price. Until then the sequence waits and those behind it
//! may pass, as vLLM's scheduler passes over requests whose KV is on its way. What arrives lies beside the pool (SGLang's HiCache prefetches
//! into host memory while a request is queued), so a waiting sequence holds no block and nobody can be starved by one. At admission the
//! cache is asked first; blocks that only the fetch brought are taken from the pool like any others, and shared under their keys from then on.

use crate::engine::Engine;
use crate::plan::PlanItem;
use crate::prompt::BlockKey;
use crate::request::SequenceId;
use crate::sequence::Sequence;
use crate::time::Nanos;
use serde::{Deserialize, Serialize};

/// Prompt tokens that come from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fetch {
    /// The first of them: those before it were in the cache when it was asked for.
    pub(crate) from: u32,
    /// The end of them. Both are multiples of the block size.
    pub(crate) to: u32,
    /// When they are here.
    pub(crate) until: Nanos,
}

impl Sequence {
    /// Its fetch is still under way.
    pub(crate) fn awaits_fetch(&self, now: Nanos) -> bool {
        self.fetch.is_some_and(|fetch| fetch.until > now)
    }

    /// Where its computation starts when `cached` tokens are in the cache. A fetch goes on from what was cached when it was asked for; when some of that
    /// has been evicted since, there is a gap, and the fetch was in vain.
    pub(crate) fn starts_at(&self, cached: u32) -> u32 {
        self.fetch.filter(|fetch| fetch.from <= cached).map_or(cached, |fetch| fetch.to.max(cached))
    }
}

impl Engine {
    /// Tokens `from` to `to` of a waiting sequence's prompt will be here at `until`; it waits for them. Whole blocks count, and at least one token
    /// is left to compute. Answers whether there is such a sequence and anything to wait for.
    pub fn fetch(&mut self, id: SequenceId, from: u32, to: u32, until: Nanos) -> bool {
        let block_tokens = self.config.block_tokens;
        let Some(place) = self.sequences.place(id).filter(|place| self.waiting.contains(place)) else { return false };
        let sequence = self.sequences.at(place);
        let to = sequence.request.prompt.len.saturating_sub(1).min(to) / block_tokens * block_tokens;
        if to <= from || !from.is_multiple_of(block_tokens) || sequence.fetch.is_some() || !self.config.prefix_cache {
            return false;
        }
        sequence.fetch = Some(Fetch { from, to, until });
        // Its look-up would end differently now.
        self.scratch.blocked = None;
        if until > self.now {
            let at = self.scratch.fetches.partition_point(|&other| other <= until);
            self.scratch.fetches.insert(at, until);
        }
        self.after_change();
        true
    }

    /// When the next fetch ends, as of the latest [`Engine::plan`]: with nothing in flight the engine should be asked again then; a run of equal
    /// steps must be cut at the first step that ends no sooner ([`Engine::truncate`]).
    pub fn next_fetch(&self) -> Option<Nanos> {
        self.scratch.fetches.front().copied()
    }

    /// Somebody could be admitted when the next fetch ends.
    pub fn fetch_interrupts(&self) -> bool {
        !self.scratch.fetches.is_empty() && self.running.len() < self.config.max_batch as usize
    }

    /// Sequences are here, and all of them wait for a fetch that is under way at `now`.
    pub fn only_fetches(&self, now: Nanos) -> bool {
        let awaits = |&place: &u32| self.sequences.get(place).is_some_and(|sequence| sequence.awaits_fetch(now));
        self.running.is_empty() && !self.waiting.is_empty() && self.waiting.iter().all(awaits)
    }

    /// Forgets fetches that have ended.
    pub(crate) fn land_fetches(&mut self, now: Nanos) {
        while self.scratch.fetches.front().is_some_and(|&until| until <= now) {
            self.scratch.fetches.pop_front();
        }
    }

    /// A waiting sequence is gone, and with it its fetch.
    pub(crate) fn drop_fetch(&mut self, place: u32) {
        let Some(fetch) = self.sequences.at(place).fetch else { return };
        if let Some(at) = self.scratch.fetches.iter().position(|&until| until == fetch.until) {
            self.scratch.fetches.remove(at);
        }
    }

    /// Blocks `from..to` of a sequence just admitted hold what was fetched.
    pub(crate) fn publish_fetched(&mut self, place: u32, from: u32, to: u32) {
        let block_tokens = self.config.block_tokens;
        let sequence = self.sequences.at(place);
        for index in from..to {
            let key = sequence.key(index, block_tokens);
            let block = sequence.table[index as usize];
            self.kv.publish(block, key);
            self.flight.published.push(block);
        }
    }

    /// Notes the prompt blocks that a committed prefill has filled.
    pub(crate) fn note_filled(&mut self, place: u32, item: PlanItem) {
        let block_tokens = self.config.block_tokens;
        let prompt = &self.sequences.at(place).request.prompt;
        let blocks = item.start / block_tokens..(item.start + item.len) / block_tokens;
        self.filled.extend(blocks.filter_map(|index| prompt.key(index)));
    }

    /// Appends the keys of prompt blocks that steps committed since the last call have filled, in order; nothing unless
    /// [`crate::EngineConfig::write_through`]. Blocks that decode filled are not among them.
    pub fn drain_filled(&mut self, keys: &mut Vec<BlockKey>) {
        keys.append(&mut self.filled);
    }
}
