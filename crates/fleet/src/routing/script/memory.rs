//! What a script remembers, on paper.

use super::values::kind_of;
use rhai::{Dynamic, ImmutableString, Map};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Entries of `state`, those within entries counted: it is walked after every call.
const ENTRIES: u32 = 2000;

/// Bytes of text in `state`, keys included.
const TEXT: usize = 64 * 1024;

/// Maps and arrays within each other. Nobody needs more, and every level takes stack.
const DEPTH: u32 = 8;

/// A value that can be saved. Whole numbers and numbers with decimals are told apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kept {
    Nothing,
    Switch(bool),
    Integer(i64),
    Number(f64),
    Text(String),
    Array(Vec<Kept>),
    Map(BTreeMap<String, Kept>),
}

/// What is still to be had.
struct Room {
    entries: u32,
    text: usize,
}

impl Room {
    fn take(&mut self, entries: u32, text: usize) -> Result<(), String> {
        let left = (self.entries.checked_sub(entries), self.text.checked_sub(text));
        let (Some(entries), Some(text)) = left else {
            return Err(format!("state holds more than {ENTRIES} entries or {} KiB of text", TEXT / 1024));
        };
        *self = Room { entries, text };
        Ok(())
    }
}

/// Whether `state` can be saved.
///
/// # Errors
/// A phrase on why not.
pub(super) fn check(state: &Dynamic) -> Result<(), String> {
    if !state.is_map() {
        return Err(format!("state is {} now; it must stay a map", kind_of(state)));
    }
    check_value(state, DEPTH, &mut Room { entries: ENTRIES, text: TEXT })
}

fn check_value(value: &Dynamic, depth: u32, room: &mut Room) -> Result<(), String> {
    let Some(depth) = depth.checked_sub(1) else { return Err(format!("state is nested more than {DEPTH} deep")) };
    if let Some(map) = value.read_lock::<Map>() {
        for (key, value) in map.iter() {
            room.take(1, key.len())?;
            check_value(value, depth, room)?;
        }
        return Ok(());
    }
    if let Some(array) = value.read_lock::<rhai::Array>() {
        return array.iter().try_for_each(|value| {
            room.take(1, 0)?;
            check_value(value, depth, room)
        });
    }
    if let Some(text) = value.read_lock::<ImmutableString>() {
        return room.take(0, text.len());
    }
    match value.as_float() {
        Ok(float) if !float.is_finite() => Err(format!("state holds {float}; numbers in it are finite")),
        Err(_) if !(value.is_int() || value.is_bool() || value.is_unit()) => {
            Err(format!("state holds {}; it keeps numbers, texts, switches, arrays and maps", kind_of(value)))
        }
        _ => Ok(()),
    }
}

/// `state` on paper. It was checked.
pub(super) fn save(state: &Dynamic) -> serde_json::Value {
    serde_json::to_value(keep(state)).unwrap_or_default()
}

fn keep(value: &Dynamic) -> Kept {
    if let Some(map) = value.read_lock::<Map>() {
        return Kept::Map(map.iter().map(|(key, value)| (key.to_string(), keep(value))).collect());
    }
    if let Some(array) = value.read_lock::<rhai::Array>() {
        return Kept::Array(array.iter().map(keep).collect());
    }
    if let Some(text) = value.read_lock::<ImmutableString>() {
        return Kept::Text(text.to_string());
    }
    match (value.as_bool(), value.as_int(), value.as_float()) {
        (Ok(on), ..) => Kept::Switch(on),
        (_, Ok(whole), _) => Kept::Integer(whole),
        (.., Ok(float)) => Kept::Number(float),
        _ => Kept::Nothing,
    }
}

/// Takes `state` back.
///
/// # Errors
/// A phrase on what is wrong with it.
pub(super) fn restore(saved: &serde_json::Value) -> Result<Dynamic, String> {
    let kept: Kept = serde_json::from_value(saved.clone()).map_err(|error| error.to_string())?;
    let state = give(kept);
    check(&state)?;
    Ok(state)
}

fn give(kept: Kept) -> Dynamic {
    match kept {
        Kept::Nothing => Dynamic::UNIT,
        Kept::Switch(on) => on.into(),
        Kept::Integer(whole) => Dynamic::from_int(whole),
        Kept::Number(float) => Dynamic::from_float(float),
        Kept::Text(text) => text.into(),
        Kept::Array(array) => Dynamic::from_array(array.into_iter().map(give).collect()),
        Kept::Map(map) => Dynamic::from_map(map.into_iter().map(|(key, value)| (key.into(), give(value))).collect()),
    }
}
