//! Which step comes next: continuous batching, first come first served.
//!
//! Running sequences come first, in order of admission, each with as many tokens as it still lacks and the budget
//! allows. One that finds no free block preempts the newest, in the end itself. Then, unless somebody was preempted,
//! waiting sequences are admitted from the head of the queue while batch, budget and blocks suffice; the head blocks
//! those behind it, unless it waits for a slot for its adapter or for a fetch.
//!
//! Nothing starves. The oldest running sequence can always grow: it may preempt all others, and alone it fits the
//! pool, or it would have been refused. Into an empty batch the head of the queue always fits, for the same reason.
//!
//! At most the newest running sequence is in the middle of its prefill, since a prefill is cut short only where
//! the budget ends, and nobody is admitted after that.

use crate::adapters::Slot;
use crate::engine::Engine;
use crate::events::EngineEvent;
use crate::plan::PlanItem;
use crate::request::Sampling;
use crate::time::Nanos;

impl Engine {
    /// Fills the plan. There is at least one sequence and no step in flight.
    pub(crate) fn schedule(&mut self, now: Nanos, max_repeat: u32) {
        self.flight.plan.clear();
        self.flight.plan.step = self.stats.steps;
        self.flight.flying = true;
        let evictions = self.kv.evictions;
        let mut budget = self.config.token_budget;
        let preempted = self.schedule_running(&mut budget);
        let mut blocked = false;
        if !preempted {
            blocked = self.admit_waiting(now, budget);
        }
        let evicted = self.kv.evictions - evictions;
        if evicted > 0 {
            self.pending.push(EngineEvent::Evicted { blocks: evicted as u32 });
        }
        if self.flight.plan.items.is_empty() {
            debug_assert!(self.only_fetches(now), "sequences are here but nothing runs");
            self.flight.flying = false;
            self.flight.plan.clear();
            return;
        }
        if max_repeat > 1 && !preempted && !self.config.materialise {
            self.flight.plan.repeat = self.longest_run(max_repeat, blocked);
        }
    }

    /// Whether somebody was preempted.
    fn schedule_running(&mut self, budget: &mut u32) -> bool {
        let mut preempted = false;
        let mut at = 0;
        while at < self.running.len() && *budget > 0 {
            let place = self.running[at];
            let sequence = self.sequences.at(place);
            let len = (sequence.total() - sequence.computed).min(*budget);
            let (end, held) = (sequence.computed + len, sequence.table.len() as u32);
            // Most steps need no block, and a product is quicker than a quotient.
            let fresh = if end <= held * self.config.block_tokens { 0 } else { self.config.blocks_for(end) - held };
            while self.kv.free() < fresh {
                preempted = true;
                let Some(newest) = self.running.pop() else { return preempted };
                self.preempt(newest);
                if newest == place {
                    return preempted;
                }
            }
            self.grow(place, fresh);
            self.push_item(place, len);
            *budget -= len;
            at += 1;
        }
        preempted
    }

    /// Back to the head of the queue, without blocks but with the tokens it has generated. It is off the running list
    /// already.
    pub(crate) fn preempt(&mut self, place: u32) {
        let sequence = self.sequences.at(place);
        sequence.computed = 0;
        // What it brought has gone into the blocks that it loses.
        sequence.fetch = None;
        self.kv.release_all(&mut sequence.table);
        self.pending.push(EngineEvent::Preempted { id: sequence.request.id });
        self.waiting.push_front(place);
        self.stats.preemptions += 1;
    }

    /// Admits from the head of the queue. Answers whether somebody is left waiting for blocks (as opposed to a place
    /// in the batch or the budget).
    fn admit_waiting(&mut self, now: Nanos, mut budget: u32) -> bool {
        let mut prefilling = self.flight.plan.items.iter().any(|item| !item.decode);
        // Requests passed over because every adapter slot is in use, or because what they fetch is not there yet.
        let mut passed = 0;
        while budget > 0 && self.running.len() < self.config.max_batch as usize {
            let Some(&place) = self.waiting.get(passed) else { return false };
            if self.config.one_prefill && prefilling {
                return false;
            }
            let slot = self.adapter_slot(place);
            if slot == Slot::Taken || self.sequences.at(place).awaits_fetch(now) {
                passed += 1;
                continue;
            }
            // A look-up that failed would fail again: nothing has changed, and a larger budget asks for no fewer
            // blocks.
            if let Some((other, epoch, least)) = self.scratch.blocked
                && other == place
                && epoch == self.kv.epoch
                && least <= budget
            {
                return true;
            }
            let unheld = self.look_up(place);
            let hits = self.scratch.hits.len() as u32;
            let cached = hits * self.config.block_tokens;
            let sequence = self.sequences.at(place);
            let start = sequence.starts_at(cached);
            let lacking = sequence.total() - start;
            let len = if self.config.chunked_prefill {
                lacking.min(budget)
            } else if lacking <= budget || !prefilling {
                lacking
            } else {
                return false;
            };
            let fresh = self.config.blocks_for(start + len) - hits;
            let margin = if self.running.is_empty() { 0 } else { self.config.watermark_blocks };
            if u64::from(fresh) + u64::from(unheld) + u64::from(margin) > u64::from(self.kv.free()) {
                self.scratch.blocked = Some((place, self.kv.epoch, budget));
                return true;
            }
            self.waiting.remove(passed);
            self.use_adapter(place, slot);
            self.running.push(place);
            self.note_admission(now, place, cached, start - cached);
            let sequence = self.sequences.at(place);
            sequence.reserve(&self.config);
            for at in 0..self.scratch.hits.len() {
                let block = self.scratch.hits[at];
                self.kv.hold(block);
                sequence.table.push(block);
            }
            sequence.computed = start;
            self.grow(place, fresh);
            self.publish_fetched(place, hits, start / self.config.block_tokens);
            prefilling |= !self.push_item(place, len);
            budget = budget.saturating_sub(len);
        }
        false
    }

    /// Finds the cached blocks a sequence could start from, at least one token left to compute; how many of them nobody
    /// holds, so that taking them shortens the free queue.
    fn look_up(&mut self, place: u32) -> u32 {
        self.scratch.hits.clear();
        if !self.config.prefix_cache {
            return 0;
        }
        let block_tokens = self.config.block_tokens;
        let sequence = self.sequences.at(place);
        let mut unheld = 0;
        for index in 0..(sequence.total() - 1) / block_tokens {
            let Some(block) = self.kv.find(sequence.key(index, block_tokens)) else { break };
            unheld += u32::from(self.kv.refs(block) == 0);
            self.scratch.hits.push(block);
        }
        unheld
    }

    fn note_admission(&mut self, now: Nanos, place: u32, cached: u32, fetched_tokens: u32) {
        let sequence = self.sequences.at(place);
        let arrived = sequence.arrived;
        let queued = now.since(arrived);
        let first = !sequence.admitted;
        let cached_tokens = cached.min(sequence.request.prompt.len);
        if first {
            sequence.admitted = true;
            sequence.cached = cached_tokens;
            sequence.fetched = fetched_tokens;
            self.stats.admitted += 1;
            self.stats.prompt_tokens += u64::from(sequence.request.prompt.len);
            self.stats.hit_tokens += u64::from(cached_tokens);
            self.stats.fetched_tokens += u64::from(fetched_tokens);
            self.stats.queue_time += queued;
        }
        let id = sequence.request.id;
        if first {
            self.note_pace(now, arrived);
        }
        self.pending.push(EngineEvent::Admitted { id, at: now, cached_tokens, fetched_tokens, queued, first });
        self.flight.admitted.push(place);
        self.flight.readmitted.push(!first);
    }

    /// Takes back the admissions of the step in flight: the sequences wait again, in their order, at the head of the
    /// queue.
    pub(crate) fn unadmit(&mut self) {
        for at in (0..self.flight.admitted.len()).rev() {
            let place = self.flight.admitted[at];
            let first = !self.flight.readmitted[at];
            self.running.retain(|&other| other != place);
            let sequence = self.sequences.at(place);
            let id = sequence.request.id;
            self.kv.release_all(&mut sequence.table);
            sequence.computed = 0;
            let admission =
                |event: &EngineEvent| matches!(event, EngineEvent::Admitted { id: other, .. } if *other == id);
            let event = self.pending.iter().rposition(admission).map(|at| self.pending.remove(at));
            if first {
                self.stats.admitted -= 1;
                self.stats.prompt_tokens -= u64::from(sequence.request.prompt.len);
                self.stats.hit_tokens -= u64::from(sequence.cached);
                self.stats.fetched_tokens -= u64::from(sequence.fetched);
                if let Some(EngineEvent::Admitted { queued, .. }) = event {
                    self.stats.queue_time = self.stats.queue_time.since(queued);
                }
                sequence.admitted = false;
                (sequence.cached, sequence.fetched) = (0, 0);
            }
            self.waiting.push_front(place);
        }
    }

    /// `fresh` more blocks for a sequence; the caller has seen that they are free.
    pub(crate) fn grow(&mut self, place: u32, fresh: u32) {
        let sequence = self.sequences.at(place);
        for _ in 0..fresh {
            let Some(block) = self.kv.take(sequence.request.tenant) else {
                debug_assert!(false, "the pool ran dry");
                return;
            };
            sequence.table.push(block);
        }
    }

    /// Plans the next `len` tokens of a sequence and publishes the blocks they fill. Answers whether that is a decode.
    fn push_item(&mut self, place: u32, len: u32) -> bool {
        let block_tokens = self.config.block_tokens;
        let sequence = self.sequences.at(place);
        let plan = &mut self.flight.plan;
        let start = sequence.computed;
        let end = start + len;
        let decode = len == 1 && end == sequence.total() && sequence.outputs > 0;
        let (tokens_at, table_at) = (plan.tokens.len() as u32, plan.tables.len() as u32);
        if self.config.materialise {
            sequence.copy_tokens(start, end, &mut plan.tokens);
            plan.tables.extend_from_slice(&sequence.table);
        }
        plan.items.push(PlanItem {
            sequence: sequence.request.id,
            start,
            len,
            sample: end == sequence.total(),
            decode,
            output_index: sequence.outputs,
            sampling: if self.config.materialise { sequence.request.sampling } else { Sampling::default() },
            tokens_at,
            table_at,
            table_len: sequence.table.len() as u32,
        });
        if decode {
            plan.work.add_decode(end);
        } else {
            plan.work.add_prefill(start, len);
        }
        self.flight.places.push(place);
        // The table ends with the block of the last token; nothing is full when it alone is touched and not filled.
        let filled = end == sequence.table.len() as u32 * block_tokens;
        if self.config.prefix_cache && (filled || len > 1) {
            for index in start / block_tokens..end / block_tokens {
                let key = sequence.key(index, block_tokens);
                let block = sequence.table[index as usize];
                self.kv.publish(block, key);
                self.flight.published.push(block);
            }
        }
        decode
    }
}
