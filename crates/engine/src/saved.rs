//! Restoring an engine: what is not saved is rebuilt, and nothing that violates an invariant gets in.

use crate::adapters::Adapters;
use crate::config::EngineConfig;
use crate::engine::{Engine, Flight, Scratch};
use crate::events::EngineEvent;
use crate::kv::KvBlocks;
use crate::prompt::BlockKey;
use crate::queue::Pace;
use crate::request::SequenceId;
use crate::sequence::Sequences;
use crate::stats::EngineStats;
use crate::time::Nanos;
use serde::Deserialize;
use std::collections::VecDeque;

/// The saved fields of [`Engine`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedEngine {
    config: EngineConfig,
    kv: KvBlocks,
    sequences: Sequences,
    waiting: VecDeque<u32>,
    running: Vec<u32>,
    flight: Flight,
    #[serde(default)]
    adapters: Adapters,
    stats: EngineStats,
    pending: Vec<EngineEvent>,
    finished: Vec<(SequenceId, Vec<u32>)>,
    #[serde(default)]
    filled: Vec<BlockKey>,
    now: Nanos,
    #[serde(default)]
    pace: Pace,
}

impl TryFrom<SavedEngine> for Engine {
    type Error = String;

    fn try_from(saved: SavedEngine) -> Result<Self, String> {
        saved.config.validate().map_err(|error| error.to_string())?;
        let SavedEngine {
            config,
            mut kv,
            mut sequences,
            waiting,
            running,
            flight,
            adapters,
            stats,
            pending,
            finished,
            filled,
            now,
            pace,
        } = saved;
        kv.rebuild()?;
        sequences.rebuild();
        let fetches = waiting.iter().filter_map(|&place| sequences.get(place)?.fetch);
        let mut fetches: Vec<Nanos> = fetches.map(|fetch| fetch.until).filter(|&until| until > now).collect();
        fetches.sort();
        let scratch = Scratch { fetches: fetches.into(), ..Scratch::default() };
        let engine = Engine {
            config,
            kv,
            sequences,
            waiting,
            running,
            flight,
            adapters,
            stats,
            pending,
            finished,
            filled,
            now,
            pace,
            scratch,
        };
        engine.check().map_err(|violation| violation.to_string())?;
        Ok(engine)
    }
}
