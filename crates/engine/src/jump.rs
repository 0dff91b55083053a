//! Runs of equal decode steps: many steps planned, priced and committed as one.
//!
//! While the whole batch decodes and nobody can be admitted, the steps differ only in their context, which the cost
//! model sums in closed form. A run ends where something other than that would happen:
//!
//! - a sequence finishes (so a full batch with a queue behind it may run on: no place comes free before);
//! - a block is needed and none is free, which means preemption;
//! - somebody waits for blocks and a block gets full: it might be one that the waiting sequence can share. (Free and
//!   cached blocks become only fewer otherwise, so nothing else can help it);
//! - but for one: who waits with a fetch, where prefill is chunked, and a block is taken. If that evicts what the fetch goes on from, the fetch
//!   was in vain, and the first chunk of a computation from the start may need fewer blocks than all that was fetched.
//!
//! Only the first step takes and publishes its blocks when it is planned. The others do it, in the order in which
//! single steps would, when it is known how far the run got: [`Engine::truncate`] has nothing to undo. So a run may
//! go through block allocations, and through the evictions that these cause once the pool has been used up; runs that
//! ended there would be two or three steps long in the very case that matters, a warm cache. What a run evicts is
//! told at its end, as are the tokens it produced and the blocks it filled.

use crate::engine::Engine;
use crate::events::EngineEvent;
use crate::pool::NONE;

impl Engine {
    /// How many equal steps the planned one can stand for, at most `most`. `blocked`: somebody waits for blocks.
    pub(crate) fn longest_run(&mut self, most: u32, blocked: bool) -> u32 {
        let items = &self.flight.plan.items;
        if !self.flight.admitted.is_empty()
            || items.len() != self.running.len()
            || items.iter().any(|item| !item.decode)
        {
            return 1;
        }
        let block_tokens = self.config.block_tokens;
        let fetches = |place: u32| self.sequences.get(place).is_some_and(|sequence| sequence.fetch.is_some());
        let fragile =
            blocked && self.config.chunked_prefill && self.scratch.blocked.is_some_and(|(place, ..)| fetches(place));
        let mut steps = most;
        for (item, &place) in items.iter().zip(&self.flight.places) {
            let sequence = self.sequences.at(place);
            steps = steps.min(sequence.request.output_tokens - sequence.outputs);
            if fragile {
                // The step after these enters a new block.
                steps = steps.min(block_tokens - item.start % block_tokens);
            }
            if blocked && self.config.prefix_cache {
                // Steps until one after the first fills a block.
                steps = steps.min(match block_tokens - 1 - item.start % block_tokens {
                    0 => block_tokens,
                    filled_at => filled_at,
                });
            }
        }
        if steps <= 1 {
            return 1;
        }
        let needed = |steps: u32| -> u64 {
            let blocks =
                |item: &crate::plan::PlanItem| u64::from((item.start % block_tokens + steps - 1) / block_tokens);
            items.iter().map(blocks).sum()
        };
        let wanted = needed(steps);
        let free = u64::from(self.kv.free());
        if free >= wanted {
            return steps;
        }
        // The most steps that need no more than the free blocks: needed() grows with its argument.
        let (mut fits, mut fails) = (1, steps);
        while fails - fits > 1 {
            let middle = fits + (fails - fits) / 2;
            if needed(middle) <= free { fits = middle } else { fails = middle }
        }
        fits
    }

    /// Takes and publishes the blocks of steps `1..steps` of the run in flight. Afterwards `published` lists what its
    /// last step fills.
    pub(crate) fn run_ahead(&mut self, steps: u32) {
        if steps <= 1 {
            return;
        }
        let block_tokens = self.config.block_tokens;
        let evictions = self.kv.evictions;
        // Step `offset` and every block_tokens steps after it enter a new block.
        self.round_robin(
            steps,
            |start| block_tokens - start % block_tokens,
            |engine, at, _| {
                let place = engine.flight.places[at];
                engine.grow(place, 1);
            },
        );
        let evicted = (self.kv.evictions - evictions) as u32;
        if evicted > 0 {
            self.pending.push(EngineEvent::Evicted { blocks: evicted });
        }
        // All allocations before all fills gives what steps in turn would: fills touch held blocks only, evictions
        // free ones.
        self.flight.published.clear();
        if self.config.prefix_cache {
            let fills = |start: u32| match block_tokens - 1 - start % block_tokens {
                0 => block_tokens,
                offset => offset,
            };
            self.round_robin(steps, fills, |engine, at, step| {
                let index = (engine.flight.plan.items[at].start + step) / block_tokens;
                engine.publish_generated(at, index, step, steps);
            });
        }
    }

    /// Calls `act` for each item and each step `offset(start) + n·block size` below `steps`, in order of step, then
    /// item.
    fn round_robin(&mut self, steps: u32, offset: impl Fn(u32) -> u32, mut act: impl FnMut(&mut Self, usize, u32)) {
        let mut order = std::mem::take(&mut self.scratch.order);
        order.clear();
        for (at, item) in self.flight.plan.items.iter().enumerate() {
            let offset = offset(item.start);
            if offset < steps && self.flight.places[at] != NONE {
                order.push((offset, at as u32));
            }
        }
        order.sort_unstable();
        let mut round = 0;
        'rounds: while !order.is_empty() {
            for &(offset, at) in &order {
                if round + offset >= steps {
                    break 'rounds;
                }
                act(self, at as usize, round + offset);
            }
            round += self.config.block_tokens;
        }
        self.scratch.order = order;
    }

    /// Publishes block `index` of an item, filled in `step` of a run of `steps`. Its tokens are not counted yet.
    fn publish_generated(&mut self, at: usize, index: u32, step: u32, steps: u32) {
        let block_tokens = self.config.block_tokens;
        let sequence = self.sequences.at(self.flight.places[at]);
        let outputs = sequence.outputs;
        sequence.outputs += step;
        let key = sequence.key(index, block_tokens);
        sequence.outputs = outputs;
        let block = sequence.table[index as usize];
        self.kv.publish(block, key);
        if step + 1 == steps {
            self.flight.published.push(block);
        }
    }

    /// Splits the run of equal steps in flight at its `begun`-th step, counted from 1: that step stays in flight,
    /// alone, and those before it count as done, so that statistics and views are up to date. What they told is
    /// delivered by the next [`Engine::commit`] or [`Engine::drain_events`]. Without a run in flight it does nothing.
    pub fn split_run(&mut self, begun: u32) {
        self.truncate(begun);
        self.settle_run();
    }

    /// Counts all but the last step of the run in flight as done; the last one stays in flight, alone.
    pub(crate) fn settle_run(&mut self) {
        let repeat = self.flight.plan.repeat;
        if !self.flight.flying || repeat <= 1 {
            return;
        }
        self.run_ahead(repeat);
        let done = repeat - 1;
        let plan = &mut self.flight.plan;
        plan.repeat = 1;
        plan.step += u64::from(done);
        plan.work.decode_context += u64::from(done) * plan.work.decode_sequences;
        self.stats.steps += u64::from(done);
        for (item, &place) in plan.items.iter_mut().zip(&self.flight.places) {
            item.start += done;
            item.output_index += done;
            if place == NONE {
                continue;
            }
            let sequence = self.sequences.at(place);
            item.table_len = sequence.table.len() as u32;
            sequence.computed += done;
            sequence.outputs += done;
            self.stats.generated_tokens += u64::from(done);
            self.pending.push(EngineEvent::Tokens { id: sequence.request.id, count: done });
        }
        self.after_change();
    }
}
