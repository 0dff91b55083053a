//! What the engine keeps of each sequence in flight.

use crate::config::EngineConfig;
use crate::fetch::Fetch;
use crate::hash::KeyMap;
use crate::prompt::{BlockKey, output_key};
use crate::request::{SequenceId, SequenceRequest};
use crate::time::Nanos;
use serde::{Deserialize, Serialize};

/// One waiting or running sequence as signals and the page see it. The true output length is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceView {
    /// Its name.
    pub id: SequenceId,
    /// Whose it is.
    pub tenant: u32,
    /// Prompt length, tokens.
    pub prompt_tokens: u32,
    /// Prompt tokens found in the cache at first admission.
    pub cached_tokens: u32,
    /// Prompt tokens that a fetch brought beyond those, at first admission.
    pub fetched_tokens: u32,
    /// Tokens whose K and V are there, the step in flight not counted.
    pub computed_tokens: u32,
    /// Tokens generated so far.
    pub output_tokens: u32,
    /// Output budget, tokens.
    pub max_tokens: u32,
    /// When it was submitted.
    pub arrived: Nanos,
}

/// In memory its fields stand in this order, what every step reads in the first 64 bytes: see [`SequenceRequest`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[repr(C, align(64))]
pub(crate) struct Sequence {
    /// Blocks that hold its K and V, in order. Empty while it waits.
    pub(crate) table: Vec<u32>,
    /// Tokens whose K and V are in the table's blocks, committed steps only.
    pub(crate) computed: u32,
    /// Tokens generated.
    pub(crate) outputs: u32,
    pub(crate) request: SequenceRequest,
    pub(crate) arrived: Nanos,
    /// Their ids, as far as somebody computed them.
    pub(crate) output: Vec<u32>,
    /// Keys of the full blocks after the prompt's, made when first needed and kept over preemptions.
    pub(crate) output_keys: Vec<BlockKey>,
    /// Found in the cache at first admission.
    pub(crate) cached: u32,
    /// Brought by its fetch beyond that, at first admission.
    #[serde(default)]
    pub(crate) fetched: u32,
    /// What comes from outside, until it has been lost by a preemption.
    #[serde(default)]
    pub(crate) fetch: Option<Fetch>,
    /// Was admitted before.
    pub(crate) admitted: bool,
}

impl Sequence {
    pub(crate) fn new(request: SequenceRequest, arrived: Nanos) -> Self {
        Sequence {
            request,
            arrived,
            computed: 0,
            outputs: 0,
            output: Vec::new(),
            output_keys: Vec::new(),
            table: Vec::new(),
            cached: 0,
            fetched: 0,
            fetch: None,
            admitted: false,
        }
    }

    /// Room for its whole life, so that its steps allocate nothing.
    pub(crate) fn reserve(&mut self, config: &EngineConfig) {
        let SequenceRequest { prompt, max_tokens, .. } = &self.request;
        let blocks = config.blocks_for(prompt.len + max_tokens);
        self.table.reserve(blocks as usize);
        if config.prefix_cache {
            let generated = (blocks - prompt.full_blocks()) as usize;
            self.output_keys.reserve(generated - self.output_keys.len());
        }
        if config.materialise {
            self.output.reserve((max_tokens - self.outputs) as usize);
        }
    }

    /// Tokens there are: the prompt and what was generated. The last one's K and V are needed only to go on.
    pub(crate) fn total(&self) -> u32 {
        self.request.prompt.len + self.outputs
    }

    /// Token ids exist for all of it.
    fn has_tokens(&self) -> bool {
        self.request.prompt.tokens.is_some() && self.output.len() == self.outputs as usize
    }

    /// Key of full block `index`, whose tokens all exist.
    pub(crate) fn key(&mut self, index: u32, block_tokens: u32) -> BlockKey {
        let prompt = &self.request.prompt;
        if let Some(key) = prompt.key(index) {
            return key;
        }
        let first = prompt.full_blocks();
        debug_assert!((index + 1) * block_tokens <= self.total(), "block {index} is not full");
        while first + self.output_keys.len() as u32 <= index {
            let block = first + self.output_keys.len() as u32;
            let key = if self.has_tokens() {
                let parent = self.output_keys.last().copied().unwrap_or(prompt.tail);
                let from = (block * block_tokens).saturating_sub(prompt.len) as usize;
                let to = ((block + 1) * block_tokens - prompt.len) as usize;
                parent.child(&self.output[from..to])
            } else {
                output_key(prompt.tail, self.request.output_seed, block)
            };
            self.output_keys.push(key);
        }
        self.output_keys[(index - first) as usize]
    }

    /// Appends ids of tokens `from..to` of prompt and output.
    pub(crate) fn copy_tokens(&self, from: u32, to: u32, into: &mut Vec<u32>) {
        let prompt = self.request.prompt.tokens.as_deref().unwrap_or_default();
        let (from, to) = (from as usize, to as usize);
        if from < prompt.len() {
            into.extend_from_slice(&prompt[from..to.min(prompt.len())]);
        }
        if to > prompt.len() {
            into.extend_from_slice(&self.output[from.saturating_sub(prompt.len())..to - prompt.len()]);
        }
    }

    pub(crate) fn view(&self) -> SequenceView {
        SequenceView {
            id: self.request.id,
            tenant: self.request.tenant,
            prompt_tokens: self.request.prompt.len,
            cached_tokens: self.cached,
            fetched_tokens: self.fetched,
            computed_tokens: self.computed,
            output_tokens: self.outputs,
            max_tokens: self.request.max_tokens,
            arrived: self.arrived,
        }
    }
}

/// Sequences in reused places, so that memory follows what is in flight, and queues hold small numbers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sequences {
    places: Vec<Option<Sequence>>,
    vacant: Vec<u32>,
    #[serde(skip)]
    by_id: KeyMap<SequenceId, u32>,
}

impl Sequences {
    pub(crate) fn insert(&mut self, sequence: Sequence) -> u32 {
        let id = sequence.request.id;
        let place = match self.vacant.pop() {
            Some(place) => {
                self.places[place as usize] = Some(sequence);
                place
            }
            None => {
                self.places.push(Some(sequence));
                self.places.len() as u32 - 1
            }
        };
        self.by_id.insert(id, place);
        place
    }

    pub(crate) fn remove(&mut self, place: u32) -> Option<Sequence> {
        let sequence = self.places[place as usize].take()?;
        self.vacant.push(place);
        self.by_id.remove(&sequence.request.id);
        Some(sequence)
    }

    pub(crate) fn place(&self, id: SequenceId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn is_there(&self, place: u32) -> bool {
        self.places.get(place as usize).is_some_and(Option::is_some)
    }

    pub(crate) fn get(&self, place: u32) -> Option<&Sequence> {
        self.places.get(place as usize)?.as_ref()
    }

    /// The sequence at `place`.
    ///
    /// # Panics
    /// When there is none: queues name only places that are taken (invariant E5).
    pub(crate) fn at(&mut self, place: u32) -> &mut Sequence {
        match &mut self.places[place as usize] {
            Some(sequence) => sequence,
            None => unreachable!("place {place} is vacant"),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.vacant.len()
    }

    /// After restoring: fills what was not saved. Call [`Sequences::check`] afterwards.
    pub(crate) fn rebuild(&mut self) {
        self.by_id.clear();
        for (place, sequence) in self.places.iter().enumerate() {
            if let Some(sequence) = sequence {
                self.by_id.insert(sequence.request.id, place as u32);
            }
        }
    }

    /// Places, vacancies and names agree. Never panics, whatever the saved state said.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut vacant = vec![false; self.places.len()];
        for &place in &self.vacant {
            match vacant.get_mut(place as usize) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(format!("place {place} is vacant twice or not there")),
            }
        }
        let mut taken = 0;
        for (place, sequence) in self.places.iter().enumerate() {
            match sequence {
                None if !vacant[place] => return Err(format!("place {place} is lost")),
                Some(_) if vacant[place] => return Err(format!("place {place} is vacant and taken")),
                Some(sequence) if self.place(sequence.request.id) != Some(place as u32) => {
                    return Err(format!("sequence {} is not found by its name", sequence.request.id.0));
                }
                Some(_) => taken += 1,
                None => {}
            }
        }
        if taken != self.by_id.len() {
            return Err(format!("{taken} sequences have {} names", self.by_id.len()));
        }
        Ok(())
    }
}
