//! Mooncake: `{"timestamp": ms, "input_length": n, "output_length": n, "hash_ids": [..]}`, one key for 512 tokens, the last one for what is left.

use super::super::collector::{Collector, Entry};
use super::super::problem::Cause;
use super::{LineFormat, instant, json, tokens};

pub(super) struct Mooncake;

impl LineFormat for Mooncake {
    fn line(&mut self, line: u64, text: &str, out: &mut Collector) {
        if let Err(cause) = read(line, text, out) {
            out.note(line, cause, text);
        }
    }
}

fn read(line: u64, text: &str, out: &mut Collector) -> Result<(), Cause> {
    let object = json::object(text)?;
    let at = instant("timestamp", json::number(&object, "timestamp")?, 1e6)?;
    let prompt = tokens("input_length", json::number(&object, "input_length")?)?;
    let output = tokens("output_length", json::number(&object, "output_length")?)?;
    let mut keys = vec![];
    json::keys(&object, "hash_ids", &mut keys)?;
    out.row(line, Entry { at, prompt, output, keys: &keys, ..Entry::default() });
    Ok(())
}
