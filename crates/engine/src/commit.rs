//! How a step ends: its result is taken, or it never happened.

use crate::engine::{Engine, Flight};
use crate::error::CommitError;
use crate::events::{EngineEvent, FinishReason};
use crate::plan::StepOutput;
use crate::pool::NONE;
use crate::time::Nanos;

impl Engine {
    /// Takes the result of the step in flight and appends what happened to `events`.
    ///
    /// Empty `output.tokens` means that nothing computed tokens: sequences then run to their true length and their
    /// blocks get synthetic keys ([`crate::prompt::output_key`]).
    ///
    /// # Errors
    /// [`CommitError`] when the result does not belong to the step in flight; nothing has changed then.
    pub fn commit(
        &mut self,
        now: Nanos,
        output: &StepOutput,
        events: &mut Vec<EngineEvent>,
    ) -> Result<(), CommitError> {
        if !self.flight.flying {
            return Err(CommitError::NothingInFlight);
        }
        let Flight { plan, .. } = &self.flight;
        let expected = plan.items.iter().filter(|item| item.sample).count();
        let repeat = plan.repeat;
        let priced = output.tokens.is_empty() && !self.config.materialise;
        if !priced && (output.tokens.len() != expected || repeat > 1) {
            let (expected, got) = (expected as u32, output.tokens.len() as u32);
            return Err(CommitError::TokenCount { step: plan.step, expected, got });
        }
        self.advance(now);
        self.finished.clear();
        self.run_ahead(repeat);
        events.append(&mut self.pending);
        let mut tokens = output.tokens.iter().copied();
        let mut any_finished = false;
        for at in 0..self.flight.places.len() {
            let item = self.flight.plan.items[at];
            let token = if item.sample { tokens.next() } else { None };
            let place = self.flight.places[at];
            if place == NONE {
                continue;
            }
            // More than one step only when every item decodes one token.
            self.sequences.at(place).computed += item.len + (repeat - 1);
            if !item.decode {
                self.stats.prefill_tokens += u64::from(item.len);
                if self.config.write_through {
                    self.note_filled(place, item);
                }
            }
            if item.sample {
                any_finished |= self.produce(place, repeat, token, events);
            }
        }
        if any_finished {
            let sequences = &self.sequences;
            self.running.retain(|&place| sequences.is_there(place));
        }
        self.stats.steps += u64::from(repeat);
        self.land();
        self.after_change();
        Ok(())
    }

    /// `count` tokens for a sequence (one when its id is known). Answers whether it finished.
    fn produce(&mut self, place: u32, count: u32, token: Option<u32>, events: &mut Vec<EngineEvent>) -> bool {
        let sequence = self.sequences.at(place);
        let id = sequence.request.id;
        if sequence.outputs == 0 {
            self.stats.prefill_backlog -= u64::from(sequence.request.prompt.len);
            events.push(EngineEvent::FirstToken { id });
        }
        if let Some(token) = token
            && sequence.output.len() == sequence.outputs as usize
        {
            sequence.output.push(token);
        }
        sequence.outputs += count;
        self.stats.generated_tokens += u64::from(count);
        events.push(EngineEvent::Tokens { id, count });
        let request = &sequence.request;
        let ended = token == Some(self.config.end_of_text) && !request.ignore_eos;
        if !ended && sequence.outputs < request.output_tokens {
            return false;
        }
        let short = ended || sequence.outputs < request.max_tokens;
        let reason = if short { FinishReason::EndOfText } else { FinishReason::Length };
        events.push(EngineEvent::Finished { id, output_tokens: sequence.outputs, reason });
        if let Some(mut sequence) = self.sequences.remove(place) {
            self.kv.release_all(&mut sequence.table);
            if !sequence.output.is_empty() {
                self.finished.push((id, sequence.output));
            }
        }
        self.stats.finished += 1;
        true
    }

    /// The step in flight never commits (the replica is killed, the device is lost): no token is produced, blocks it
    /// would have filled are withdrawn from the cache, sequences it admitted wait again as if it had not, and the
    /// others are as they were before it. What was evicted or preempted for it stays so.
    ///
    /// In a run of equal steps, truncate to the step in progress first: the steps before it then count as done.
    pub fn abort(&mut self) {
        if !self.flight.flying {
            return;
        }
        self.settle_run();
        for at in 0..self.flight.published.len() {
            self.kv.withdraw(self.flight.published[at]);
        }
        self.unadmit();
        self.stats.adapter_loads -= self.flight.loaded.len() as u64;
        self.adapters.unload(&self.flight.loaded);
        for at in (0..self.flight.places.len()).rev() {
            let place = self.flight.places[at];
            if place != NONE {
                let sequence = self.sequences.at(place);
                let keep = self.config.blocks_for(sequence.computed);
                self.kv.release_to(&mut sequence.table, keep);
            }
        }
        self.land();
        self.after_change();
    }

    /// All K and V are gone (the device was lost, the model moves elsewhere): nothing is in flight or cached any
    /// more, and every running sequence waits to be recomputed, its tokens kept.
    pub fn forget_kv(&mut self) {
        self.abort();
        while let Some(place) = self.running.pop() {
            self.preempt(place);
        }
        self.kv.withdraw_all();
        self.adapters.clear();
        self.after_change();
    }

    /// The step in flight is over.
    fn land(&mut self) {
        let flight = &mut self.flight;
        flight.flying = false;
        flight.plan.clear();
        flight.places.clear();
        flight.admitted.clear();
        flight.readmitted.clear();
        flight.published.clear();
        flight.loaded.clear();
    }
}
