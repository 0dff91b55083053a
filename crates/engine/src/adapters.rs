//! Adapters (LoRA) that a replica holds.
//!
//! There are a few slots, their memory set aside for good (vLLM's `max_loras`). A sequence that names an adapter runs only while that
//! adapter has a slot; loading it costs time in the step that admits the sequence. A slot whose adapter no running sequence
//! uses can be given to another, the one used longest ago first. When every slot is in use, sequences that need yet another adapter
//! wait, and those behind them that do not may pass, as vLLM's scheduler lets them.

use crate::engine::Engine;
use serde::{Deserialize, Serialize};

/// Whether a sequence's adapter is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// It is, or none is needed.
    There,
    /// It must be loaded, and there is a slot for it.
    Load(u32),
    /// Every slot is in use by running sequences.
    Taken,
}

/// The adapters held, the one used longest ago first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Adapters(Vec<u32>);

impl Adapters {
    pub(crate) fn held(&self) -> &[u32] {
        &self.0
    }

    /// Forgets the adapters of these loads, which never happened.
    pub(crate) fn unload(&mut self, loads: &[u32]) {
        self.0.retain(|adapter| !loads.contains(adapter));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Each once, and no more than there are slots.
    pub(crate) fn check(&self, slots: u32) -> Result<(), String> {
        let mut seen = self.0.clone();
        seen.sort();
        seen.dedup();
        if seen.len() != self.0.len() || (slots > 0 && self.0.len() > slots as usize) {
            return Err(format!("{:?} are held in {slots} slots", self.0));
        }
        Ok(())
    }
}

impl Engine {
    /// Whether the adapter that `place` needs is there, or can be.
    pub(crate) fn adapter_slot(&mut self, place: u32) -> Slot {
        let slots = self.config.adapter_slots;
        let Some(adapter) = self.sequences.at(place).request.adapter.filter(|_| slots > 0) else { return Slot::There };
        if self.adapters.0.contains(&adapter) {
            Slot::There
        } else if self.adapters.0.len() < slots as usize || self.idle_adapter().is_some() {
            Slot::Load(adapter)
        } else {
            Slot::Taken
        }
    }

    /// Position of the adapter used longest ago among those that no running sequence uses.
    fn idle_adapter(&self) -> Option<usize> {
        let used = |adapter: u32| {
            let mut running = self.running.iter().filter_map(|&place| self.sequences.get(place));
            running.any(|sequence| sequence.request.adapter == Some(adapter))
        };
        self.adapters.0.iter().position(|&adapter| !used(adapter))
    }

    /// `place` is about to run: its adapter is used, and loaded first if need be. Call before it is on the running list.
    pub(crate) fn use_adapter(&mut self, place: u32, slot: Slot) {
        if let Slot::Load(adapter) = slot {
            if self.adapters.0.len() >= self.config.adapter_slots as usize
                && let Some(idle) = self.idle_adapter()
            {
                self.adapters.0.remove(idle);
            }
            self.adapters.0.push(adapter);
            self.flight.loaded.push(adapter);
            self.flight.plan.work.adapter_loads += 1;
            self.stats.adapter_loads += 1;
        } else if let Some(adapter) = self.sequences.at(place).request.adapter
            && let Some(at) = self.adapters.0.iter().position(|&held| held == adapter)
        {
            self.adapters.0.remove(at);
            self.adapters.0.push(adapter);
        }
    }

    /// Adapters that waiting sequences need and it does not hold, as often as they are needed.
    pub fn waiting_adapters(&self) -> impl Iterator<Item = u32> + '_ {
        let needed = self.waiting.iter().filter_map(|&place| self.sequences.get(place)?.request.adapter);
        needed.filter(|adapter| !self.adapters.0.contains(adapter))
    }

    /// Adapters it holds, the one used longest ago first.
    pub fn adapters(&self) -> &[u32] {
        self.adapters.held()
    }
}
