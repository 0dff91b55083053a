//! Between the replicas and the store: what is looked up, asked for and written.

use super::{Core, Fleet};
use crate::replica::Model;
use servelab_engine::SequenceId;

impl Fleet {
    /// The sequence `id` has just reached `replica`: what the store holds of its prompt beyond the replica's cache is fetched where that pays. A replica that can
    /// not serve yet can not fetch either; it asks once it is warm ([`Fleet::ask_store_for_all`]).
    pub(super) fn ask_store(&mut self, replica: u32, id: SequenceId) {
        let Some(held) = self.held_by_store(replica, id) else { return };
        // What a run of equal steps has filled and evicted by now counts.
        self.split_run(replica);
        let Core { store: Some(store), replicas, flights, now, .. } = &mut self.core else { return };
        let Model::Engine(engine) = &mut replicas[replica as usize].model else { return };
        let Some(asked) = flights.by_id(id).and_then(|attempt| flights.asked(attempt.request)) else { return };
        let cached = engine.engine.cached_tokens(&asked.prompt);
        if held <= cached {
            return;
        }
        let compute = engine.prefill_cost(cached, held);
        if let Some(until) = store.fetch(*now, replica, held - cached, compute) {
            let waits = engine.engine.fetch(id, cached, held, until);
            debug_assert!(waits, "nobody waits for what was fetched");
        }
    }

    /// Leading tokens of the prompt of `id` that the store holds; `None` when it holds none, or nobody can fetch.
    fn held_by_store(&mut self, replica: u32, id: SequenceId) -> Option<u32> {
        let Core { store, replicas, flights, config, .. } = &mut self.core;
        let store = store.as_mut().filter(|store| store.is_read())?;
        if !replicas[replica as usize].may_run() {
            return None;
        }
        let prompt = &flights.asked(flights.by_id(id)?.request)?.prompt;
        let block_tokens = config.block_tokens();
        // At least one token is always computed.
        let most = prompt.len.saturating_sub(1) / block_tokens.max(1);
        let held = store.look_up(most, |index| prompt.key(index)) * block_tokens;
        (held > 0).then_some(held)
    }

    /// The same for everybody who waits at a replica that has become able to serve.
    pub(super) fn ask_store_for_all(&mut self, replica: u32) {
        if self.core.store.is_none() {
            return;
        }
        let Model::Engine(engine) = &self.core.replicas[replica as usize].model else { return };
        let waiting: Vec<SequenceId> = engine.engine.waiting().map(|sequence| sequence.id).collect();
        waiting.into_iter().for_each(|id| self.ask_store(replica, id));
    }

    /// Prompt blocks that the replica's latest step has filled enter the store.
    pub(super) fn write_through(&mut self, replica: u32) {
        let Core { store: Some(store), replicas, .. } = &mut self.core else { return };
        replicas[replica as usize].model.get_mut().drain_filled(&mut self.filled);
        store.write(&self.filled);
        self.filled.clear();
    }
}
