//! The result of vLLM's serving benchmark with details of every request: one JSON object with a list for each quantity, or several of them one after the
//! other (`--append-result`). Lists are `input_lens`, `output_lens`, `start_times` (seconds, newer versions) and `errors`.
//!
//! It is one value and not lines, so it is held until its end, up to a size that no benchmark reaches unless it saves texts.

use super::super::collector::{Collector, Entry};
use super::super::problem::{Cause, TraceError};
use super::{instant, tokens};
use serde::Deserialize;

/// Largest result that is read.
const LONGEST: usize = 64 << 20;

const NEEDED: &str =
    "a result saved with --save-result --save-detailed, which has input_lens and output_lens of every request";

#[derive(Default)]
pub(in super::super) struct Document {
    bytes: Vec<u8>,
}

/// What is read of a result; everything else is passed over.
#[derive(Deserialize)]
struct Saved {
    input_lens: Option<Vec<f64>>,
    output_lens: Option<Vec<f64>>,
    start_times: Option<Vec<f64>>,
    errors: Option<Vec<Option<String>>>,
    duration: Option<f64>,
    model_id: Option<String>,
}

impl Document {
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        if self.bytes.len() + bytes.len() > LONGEST {
            let advice = "leave out generated_texts and itls: jq 'del(.generated_texts, .itls)'";
            return Err(TraceError::TooLong { line: 1, what: "the result", limit: LONGEST, advice });
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    pub(super) fn finish(self, out: &mut Collector) -> Result<(), TraceError> {
        let mut results = serde_json::Deserializer::from_slice(&self.bytes).into_iter::<Saved>();
        // Runs of the benchmark follow each other: the next begins a second after the last request of the one before.
        let (mut from, mut line) = (0, 1);
        while let Some(result) = results.next() {
            let saved = result.map_err(|error| TraceError::Document {
                line: error.line() as u64,
                found: format!("this JSON ({error})"),
                expected: NEEDED,
            })?;
            from = saved.read(line, from, out)? + 1_000_000_000;
            line = 1 + self.bytes[..results.byte_offset()].iter().filter(|&&byte| byte == b'\n').count() as u64;
        }
        Ok(())
    }
}

impl Saved {
    /// Its requests, from `from` on; when the last one arrives.
    fn read(&self, line: u64, from: i64, out: &mut Collector) -> Result<i64, TraceError> {
        let (Some(prompts), Some(outputs)) = (&self.input_lens, &self.output_lens) else {
            return Err(TraceError::Document { line, found: "no list of lengths".into(), expected: NEEDED });
        };
        if prompts.len() != outputs.len() || self.start_times.as_ref().is_some_and(|times| times.len() != prompts.len())
        {
            let found = format!("{} prompts and {} outputs", prompts.len(), outputs.len());
            return Err(TraceError::Document { line, found, expected: "lists of equal length" });
        }
        let earliest = self.start_times.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        let even = self.duration.filter(|duration| duration.is_finite() && *duration > 0.0).unwrap_or(0.0)
            / prompts.len().max(1) as f64;
        if self.start_times.is_none() {
            out.note(line, Cause::NoTimes, "");
        }
        let group = self.model_id.clone().unwrap_or_default();
        let mut last = from;
        for (index, (&prompt, &output)) in prompts.iter().zip(outputs).enumerate() {
            let failed = self
                .errors
                .as_ref()
                .and_then(|errors| errors.get(index)?.as_deref())
                .is_some_and(|error| !error.is_empty());
            let start = self.start_times.as_ref().map_or(index as f64 * even, |times| times[index] - earliest);
            let read = || -> Result<Entry<'_>, Cause> {
                if failed {
                    return Err(Cause::Failed);
                }
                let at = instant("start_times", start, 1e9)?.checked_add(from).ok_or(Cause::TooFar)?;
                let (prompt, output) = (tokens("input_lens", prompt)?, tokens("output_lens", output)?);
                Ok(Entry { at, prompt, output, group: &group, ..Entry::default() })
            };
            match read() {
                Ok(entry) => {
                    last = last.max(entry.at);
                    out.row(line, entry);
                }
                Err(cause) => out.note(line, cause, ""),
            }
        }
        Ok(last.min(i64::MAX - 2_000_000_000))
    }
}
