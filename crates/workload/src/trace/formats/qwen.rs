//! Qwen-Bailian: as Mooncake, in seconds, a key for 16 tokens, and `chat_id` with `parent_chat_id` (−1 for a first turn), `type` and `turn`.

use super::super::collector::{Collector, Entry};
use super::super::problem::{Cause, MAX_ROWS};
use super::{LineFormat, instant, json, tokens};
use serde_json::Value;
use servelab_engine::hash::KeyMap;

/// Which conversation each turn belongs to.
#[derive(Default)]
pub(super) struct Qwen {
    sessions: KeyMap<u64, u32>,
}

impl LineFormat for Qwen {
    fn line(&mut self, line: u64, text: &str, out: &mut Collector) {
        if let Err(cause) = self.read(line, text, out) {
            out.note(line, cause, text);
        }
    }
}

impl Qwen {
    fn read(&mut self, line: u64, text: &str, out: &mut Collector) -> Result<(), Cause> {
        let object = json::object(text)?;
        let at = instant("timestamp", json::number(&object, "timestamp")?, 1e9)?;
        let prompt = tokens("input_length", json::number(&object, "input_length")?)?;
        let output = tokens("output_length", json::number(&object, "output_length")?)?;
        let mut keys = vec![];
        json::keys(&object, "hash_ids", &mut keys)?;
        let id = |field| object.get(field).and_then(Value::as_i64);
        let parent = id("parent_chat_id").filter(|&parent| parent >= 0);
        // A turn whose parent lies before the file begins starts a conversation here.
        let known = parent.and_then(|parent| self.sessions.get(&(parent as u64)).copied());
        let session = known.unwrap_or_else(|| out.new_session());
        if let Some(id) = id("chat_id").filter(|_| out.len() < MAX_ROWS) {
            self.sessions.insert(id as u64, session);
        }
        let group = object.get("type").and_then(Value::as_str).unwrap_or_default();
        out.row(line, Entry { at, prompt, output, keys: &keys, session: Some(session), group, ..Entry::default() });
        Ok(())
    }
}
