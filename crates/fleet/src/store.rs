//! A store of KV blocks behind the replicas: one for the whole fleet.
//!
//! **What it holds.** Prompt blocks enter when the step that computed them is committed, whichever replica it was (write-through, as in SGLang's
//! HiCache). Writing is off everybody's path and takes no time: what is modelled is what a reader waits for. Blocks that decode fills stay out
//! (LMCache's `save_decode_cache` is off unless asked for); a session's next turn computes them as part of its prompt, and then they enter. So content
//! comes only with prefill steps, which never run ahead, and runs of equal steps stay invisible. Capacity is counted in blocks; what was used longest ago
//! goes first. A chain is used from its end to its beginning, hence it loses its end first: the end is of use only with the beginning.
//!
//! **What a fetch takes.** A request's prompt is looked up when it reaches its replica. When the store holds a longer chain than the replica's
//! cache, the part in between is asked for and the request waits in the replica's queue while others pass (SGLang prefetches while a request is queued;
//! vLLM's scheduler passes over requests whose KV is on its way). The alternative, charging the fetch to the step that admits it, would stop the whole batch for one
//! request's transfer. Each replica has a link of its own; the store may have one bandwidth for all of them. Both serve transfers one after the
//! other, in order of asking, and overlap: bytes leave the store while they cross the link. Sharing bandwidth evenly instead would end the last of several transfers at the same
//! instant and all others later, and every new transfer would change the ends of those under way; with turns an end is known when it is asked for, in whole nanoseconds:
//!
//! ```text
//! sent    = max(now, store free) + bytes ÷ store bandwidth
//! arrived = max(sent, max(start of sending, link free) + bytes ÷ link bandwidth) + latency
//! ```
//!
//! The latency delays every transfer and occupies nothing.
//!
//! **When it is worth it.** [`FetchRule::Cheaper`] compares the time until the last byte is there, waiting for the link included, with what the replica's cost model
//! charges for computing these tokens. A tie is computed. Fetching only a part is never better than the better of all and nothing: bytes cost the same for every token, and a later
//! token costs no less to compute than an earlier one. What the rule leaves out: a computed token also delays the rest of the batch, a fetched one does not.

use crate::config::ReplicaConfig;
use serde::{Deserialize, Serialize};
use servelab_engine::hash::KeyMap;
use servelab_engine::{BlockKey, Nanos, Picos};
use servelab_spec::experiment::FetchRule;
use servelab_spec::validate::SpecError;

/// "No block": the end of a list.
const NONE: u32 = u32::MAX;

/// Settings of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// Blocks it holds, at least 1.
    pub blocks: u32,
    /// Delay of every fetch.
    pub latency: Nanos,
    /// Bandwidth of each replica's link, bytes a second, at least 1.
    pub link_bytes_per_s: u64,
    /// Bandwidth of the store for all replicas together, bytes a second; 0: it is no limit.
    pub total_bytes_per_s: u64,
    /// KV bytes of one token, at least 1.
    pub token_bytes: u32,
    /// When what it holds is fetched.
    pub fetch: FetchRule,
}

impl StoreConfig {
    /// Most blocks: a link is 32 bits, and one of them is the end.
    const MAX_BLOCKS: u32 = 1 << 30;

    /// Checks every field, and that `replica` can fetch.
    pub(crate) fn validate(&self, replica: &ReplicaConfig) -> Result<(), SpecError> {
        let numbers = [
            ("store.blocks", u64::from(self.blocks), u64::from(Self::MAX_BLOCKS)),
            ("store.link_bytes_per_s", self.link_bytes_per_s, u64::MAX),
            ("store.token_bytes", u64::from(self.token_bytes), u64::from(u32::MAX)),
        ];
        for (field, value, most) in numbers {
            if value == 0 || value > most {
                return Err(SpecError::new(field, value, format!("accepted is 1 to {most}")));
            }
        }
        let accepted = "only priced engines with a prefix cache can fetch";
        match replica {
            ReplicaConfig::Engine { executed: false, engine, .. } if engine.prefix_cache => Ok(()),
            ReplicaConfig::Engine { executed: true, .. } => Err(SpecError::new("store", "executed steps", accepted)),
            ReplicaConfig::Engine { .. } => Err(SpecError::new("store", "no prefix cache", accepted)),
            ReplicaConfig::Server(_) | ReplicaConfig::Tick(_) => {
                Err(SpecError::new("store", "replicas without blocks", accepted))
            }
        }
    }
}

/// What the store has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreStats {
    /// Blocks it holds.
    pub held: u32,
    /// Blocks that entered, those that came back after an eviction counted again.
    pub written: u64,
    /// Blocks that went to make room.
    pub evicted: u64,
    /// Fetches asked for.
    pub fetches: u64,
    /// Tokens they brought, needed or not.
    pub fetched_tokens: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// Σ of the time from asking to the last byte, waiting for the link included.
    pub time: Nanos,
    /// Times it held more than the replica did and computing was cheaper.
    pub declined: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: BlockKey,
    /// Neighbours in order of use: longer ago, and more recently.
    older: u32,
    newer: u32,
}

/// The store.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "SavedStore", into = "SavedStore")]
pub(crate) struct KvStore {
    config: StoreConfig,
    places: KeyMap<BlockKey, u32>,
    entries: Vec<Entry>,
    oldest: u32,
    newest: u32,
    /// When each replica's link is free; those not listed are.
    links: Vec<Nanos>,
    /// When the store may send the next transfer.
    free: Nanos,
    stats: StoreStats,
}

impl KvStore {
    pub(crate) fn new(config: StoreConfig) -> Self {
        KvStore {
            config,
            places: KeyMap::default(),
            entries: Vec::new(),
            oldest: NONE,
            newest: NONE,
            links: Vec::new(),
            free: Nanos::ZERO,
            stats: StoreStats::default(),
        }
    }

    pub(crate) fn config(&self) -> &StoreConfig {
        &self.config
    }

    pub(crate) fn stats(&self) -> StoreStats {
        StoreStats { held: self.entries.len() as u32, ..self.stats }
    }

    /// Whether anything is ever fetched.
    pub(crate) fn is_read(&self) -> bool {
        self.config.fetch != FetchRule::Never
    }

    /// How many of the leading keys `key(0)`, `key(1)`, … it holds, at most `most`; those are used now.
    pub(crate) fn look_up(&mut self, most: u32, key: impl Fn(u32) -> Option<BlockKey>) -> u32 {
        let holds = |index: &u32| key(*index).is_some_and(|key| self.places.contains_key(&key));
        let held = (0..most).take_while(holds).count() as u32;
        for key in (0..held).rev().filter_map(key) {
            if let Some(&place) = self.places.get(&key) {
                self.unlink(place);
                self.push_newest(place);
            }
        }
        held
    }

    /// Takes in blocks, given in the order of their chains; what it holds already is used now.
    pub(crate) fn write(&mut self, keys: &[BlockKey]) {
        for &key in keys.iter().rev() {
            let place = match self.places.get(&key) {
                Some(&place) => {
                    self.unlink(place);
                    place
                }
                None => self.enter(key),
            };
            self.push_newest(place);
        }
    }

    /// A place for a block that is new here, not in the order of use yet.
    fn enter(&mut self, key: BlockKey) -> u32 {
        self.stats.written += 1;
        let blank = Entry { key, older: NONE, newer: NONE };
        let place = if self.entries.len() < self.config.blocks as usize {
            self.entries.push(blank);
            self.entries.len() as u32 - 1
        } else {
            let place = self.oldest;
            self.unlink(place);
            self.places.remove(&self.entries[place as usize].key);
            self.entries[place as usize] = blank;
            self.stats.evicted += 1;
            place
        };
        self.places.insert(key, place);
        place
    }

    fn unlink(&mut self, place: u32) {
        let Entry { older, newer, .. } = self.entries[place as usize];
        match self.entries.get_mut(older as usize) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
        match self.entries.get_mut(newer as usize) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
    }

    fn push_newest(&mut self, place: u32) {
        let newest = self.newest;
        let entry = &mut self.entries[place as usize];
        (entry.older, entry.newer) = (newest, NONE);
        match self.entries.get_mut(newest as usize) {
            Some(entry) => entry.newer = place,
            None => self.oldest = place,
        }
        self.newest = place;
    }

    /// `replica` lacks `tokens` tokens that the store holds and could compute them at `compute`. When they will be there, if they are fetched.
    pub(crate) fn fetch(&mut self, now: Nanos, replica: u32, tokens: u32, compute: Picos) -> Option<Nanos> {
        let bytes = u64::from(tokens) * u64::from(self.config.token_bytes);
        let link = self.links.get(replica as usize).copied().unwrap_or(Nanos::ZERO);
        let start = now.max(self.free);
        let sent = match self.config.total_bytes_per_s {
            0 => start,
            bandwidth => start + duration(bytes, bandwidth),
        };
        let crossed = sent.max(start.max(link) + duration(bytes, self.config.link_bytes_per_s));
        let until = crossed + self.config.latency;
        let worth = match self.config.fetch {
            FetchRule::Always => true,
            FetchRule::Cheaper => u128::from(until.since(now).0) * 1000 < u128::from(compute.0),
            FetchRule::Never => false,
        };
        if !worth {
            self.stats.declined += 1;
            return None;
        }
        if self.links.len() <= replica as usize {
            self.links.resize(replica as usize + 1, Nanos::ZERO);
        }
        self.links[replica as usize] = crossed;
        // Without a bandwidth of its own it sends to everybody at once.
        if self.config.total_bytes_per_s > 0 {
            self.free = sent;
        }
        self.stats.fetches += 1;
        self.stats.fetched_tokens += u64::from(tokens);
        self.stats.bytes += bytes;
        self.stats.time += until.since(now);
        Some(until)
    }

    /// Keys in order of use, the one used longest ago first.
    fn in_order(&self) -> impl Iterator<Item = BlockKey> + '_ {
        let mut at = self.oldest;
        // Bounded, so that a defect of the list is found rather than followed.
        (0..self.entries.len()).map_while(move |_| {
            let entry = self.entries.get(at as usize)?;
            at = entry.newer;
            Some(entry.key)
        })
    }

    /// The order of use names every block once, each is found by its key, and blocks entered = held + gone.
    pub(crate) fn check(&self) -> Result<(), String> {
        let held = self.entries.len();
        let found = self.in_order().filter(|key| {
            self.places.get(key).is_some_and(|&place| self.entries.get(place as usize).is_some_and(|e| e.key == *key))
        });
        let found = found.count();
        if found != held || self.places.len() != held {
            return Err(format!("{held} blocks are held, {found} in order, {} have names", self.places.len()));
        }
        if held > self.config.blocks as usize {
            return Err(format!("{held} blocks are held, there is room for {}", self.config.blocks));
        }
        let StoreStats { written, evicted, .. } = self.stats;
        if written != (held as u64).saturating_add(evicted) {
            return Err(format!("{written} blocks were written, {evicted} evicted, {held} are held"));
        }
        Ok(())
    }
}

/// What `bytes` take at `bandwidth` bytes a second, rounded up to the nanosecond.
fn duration(bytes: u64, bandwidth: u64) -> Nanos {
    let nanos = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(bandwidth.max(1)));
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// A store as it is saved: places in memory mean nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedStore {
    config: StoreConfig,
    /// The one used longest ago first.
    keys: Vec<BlockKey>,
    links: Vec<Nanos>,
    free: Nanos,
    stats: StoreStats,
}

impl From<KvStore> for SavedStore {
    fn from(store: KvStore) -> Self {
        let keys = store.in_order().collect();
        SavedStore { config: store.config, keys, links: store.links, free: store.free, stats: store.stats }
    }
}

impl TryFrom<SavedStore> for KvStore {
    type Error = String;

    fn try_from(saved: SavedStore) -> Result<Self, String> {
        let mut store = KvStore::new(saved.config);
        // From the end, since a chain is written from its end.
        let keys: Vec<BlockKey> = saved.keys.into_iter().rev().collect();
        store.write(&keys);
        (store.links, store.free, store.stats) = (saved.links, saved.free, saved.stats);
        store.check()?;
        Ok(store)
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
