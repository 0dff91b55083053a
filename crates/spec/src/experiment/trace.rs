//! A recorded trace, replayed: which one, and what is changed in it.

use crate::validate::SpecError;
use serde::{Deserialize, Serialize};

/// A trace by name and its transforms. The requests themselves are handed in beside the spec; the name is a hash of what was read of the
/// file, so a spec, its seed and that file give the same bytes everywhere.
///
/// Transforms apply in this order: cut (`from_s`, `until_s`), thin (`share`), `requests`, `repeat`, `spread`, `speed`, the spike; lengths are scaled, then capped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct TraceSpec {
    /// Name of the trace: 16 hexadecimal digits, or [`TraceSpec::SAMPLE`].
    pub trace: String,
    /// At most so many requests of it, from the first.
    pub requests: u32,
    /// Tenants told apart. Those that the file names beyond it count as the last one.
    pub tenants: u32,
    /// Leave out what came earlier, seconds after the first request.
    pub from_s: f64,
    /// Leave out what came later, seconds after the first request; 0: nothing.
    pub until_s: f64,
    /// Share of the requests that is kept, whole sessions at a time.
    pub share: f64,
    /// Times it is played, one after the other.
    pub repeat: u32,
    /// Repetitions share no block with each other.
    pub repeat_fresh: bool,
    /// Arrivals that were recorded on a coarse grid are spread over its step at random.
    pub spread: bool,
    /// How much faster it is played than recorded.
    pub speed: f64,
    /// Tokens that a block of the trace counts for; 0: as recorded.
    pub trace_block: u32,
    /// Factor of prompt lengths, and of blocks with them.
    pub prompt_scale: f64,
    /// Longest prompt; the end of a longer one is cut off, tokens.
    pub prompt_cap: u32,
    /// Factor of output lengths.
    pub output_scale: f64,
    /// Longest output, tokens; also the budget that clients state.
    pub output_cap: u32,
    /// When a spike begins, seconds of the run.
    pub spike_at_s: f64,
    /// How long it lasts, seconds; 0: there is none.
    pub spike_for_s: f64,
    /// Arrival rate while it lasts, in means of the trace, added requests being copies of others.
    pub spike_factor: f64,
}

impl Default for TraceSpec {
    fn default() -> Self {
        TraceSpec {
            trace: TraceSpec::SAMPLE.into(),
            requests: 1_000_000,
            tenants: 2,
            from_s: 0.0,
            until_s: 0.0,
            share: 1.0,
            repeat: 1,
            repeat_fresh: true,
            spread: true,
            speed: 1.0,
            trace_block: 0,
            prompt_scale: 1.0,
            prompt_cap: 1792,
            output_scale: 1.0,
            output_cap: 256,
            spike_at_s: 10.0,
            spike_for_s: 0.0,
            spike_factor: 3.0,
        }
    }
}

impl TraceSpec {
    /// The small trace that is always there.
    pub const SAMPLE: &'static str = "sample";

    /// Digits of any other name.
    pub const DIGITS: usize = 16;

    pub(crate) fn check(&self) -> Result<(), SpecError> {
        let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if self.trace != Self::SAMPLE && (self.trace.len() != Self::DIGITS || !hex(&self.trace)) {
            let found: String = self.trace.chars().take(40).collect();
            let accepted = "accepted are sample and the 16 hexadecimal digits that reading a trace gives";
            return Err(SpecError::new("workload.trace", format!("{found:?}"), accepted));
        }
        if self.until_s > 0.0 && self.until_s <= self.from_s {
            let accepted = format!("accepted is more than workload.from_s, which is {}, or 0 for the end", self.from_s);
            return Err(SpecError::new("workload.until_s", self.until_s, accepted));
        }
        Ok(())
    }
}
