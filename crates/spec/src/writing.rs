//! One replica that writes text: what is asked of it, and what it shows while it works.

use crate::validate::SpecError;
use serde::{Deserialize, Serialize};

/// Prompts to continue, all at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WriteRequest {
    /// The prompts; each becomes a sequence of the same batch.
    pub prompts: Vec<String>,
    /// Tokens to write for each, 1 to [`MAX_TOKENS`]. Default 60.
    pub max_tokens: u32,
    /// 0 takes the likeliest token; above, 1 draws as the model says. 0 to 4. Default 0.8.
    pub temperature: f32,
    /// Draw from the k likeliest tokens; 0 from all. 0 to 100 000. Default 40.
    pub top_k: u32,
    /// Draw from the fewest tokens that hold this share of the probability. Above 0, to 1. Default 0.95.
    pub top_p: f32,
    /// Seed of the draws, below 2⁵³. Default 1.
    pub seed: u64,
}

/// Most prompts at once.
pub const MAX_PROMPTS: usize = 16;
/// Most tokens written for one prompt.
pub const MAX_TOKENS: u32 = 1024;
/// Longest prompt, bytes.
pub const MAX_PROMPT_BYTES: usize = 8192;

impl Default for WriteRequest {
    fn default() -> Self {
        WriteRequest { prompts: Vec::new(), max_tokens: 60, temperature: 0.8, top_k: 40, top_p: 0.95, seed: 1 }
    }
}

impl WriteRequest {
    /// Whether every field is in range.
    ///
    /// # Errors
    /// [`SpecError`] naming the field, its value and what would be accepted.
    pub fn validate(&self) -> Result<(), SpecError> {
        let count = self.prompts.len();
        if count == 0 || count > MAX_PROMPTS {
            return Err(SpecError::new("prompts", format!("{count} prompts"), format!("1 to {MAX_PROMPTS} prompts")));
        }
        for prompt in &self.prompts {
            if prompt.is_empty() || prompt.len() > MAX_PROMPT_BYTES {
                let accepted = format!("1 to {MAX_PROMPT_BYTES} bytes");
                return Err(SpecError::new("prompts", format!("a prompt of {} bytes", prompt.len()), accepted));
            }
        }
        if !(1..=MAX_TOKENS).contains(&self.max_tokens) {
            return Err(SpecError::new("max_tokens", self.max_tokens, format!("1 to {MAX_TOKENS}")));
        }
        if !(0.0..=4.0).contains(&self.temperature) {
            return Err(SpecError::new("temperature", self.temperature, "0 to 4"));
        }
        if self.top_k > 100_000 {
            return Err(SpecError::new("top_k", self.top_k, "0 to 100 000"));
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return Err(SpecError::new("top_p", self.top_p, "above 0, to 1"));
        }
        if self.seed > crate::MAX_SEED {
            return Err(SpecError::new("seed", self.seed, "0 to 2^53 - 1"));
        }
        Ok(())
    }
}

/// The replica after a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Written {
    /// What is waiting, running or done, in the order of asking.
    pub lines: Vec<Line>,
    /// All KV blocks, by number.
    pub blocks: Vec<Block>,
    /// Tokens a block holds.
    pub block_tokens: u32,
    /// The step just done; absent before the first.
    pub step: Option<Step>,
    /// Sums over these prompts.
    pub totals: Totals,
    /// Everything asked for is written.
    pub done: bool,
}

/// A prompt and what is written after it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The prompt's tokens as text; a part of a character shows as U+FFFD.
    pub prompt: Vec<String>,
    /// Leading prompt tokens found in the cache; absent while it waits.
    pub cached: Option<u32>,
    /// Tokens, prompt and output, whose K and V are there.
    pub computed: u32,
    /// The tokens written, as text.
    pub output: Vec<String>,
    /// Prompt and output as one text.
    pub text: String,
    /// Measured seconds of all steps up to the first token.
    pub first_token_s: Option<f64>,
    /// Seconds that the cached tokens would have taken, at the measured pace of this replica's prefill.
    pub saved_s: Option<f64>,
    /// It is finished.
    pub done: bool,
}

/// One KV block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Number of the prompt that filled it, counted since the replica was empty; absent when it holds nothing.
    pub owner: Option<u32>,
    /// Sequences that hold it.
    pub held: u32,
    /// Its content can be shared.
    pub cached: bool,
}

/// A step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Prompt tokens computed.
    pub prefill_tokens: u32,
    /// Sequences that decoded one token.
    pub decodes: u32,
    /// Measured time; absent without a clock.
    pub seconds: Option<f64>,
}

/// Sums over the steps of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Steps.
    pub steps: u32,
    /// Measured time of all steps.
    pub seconds: f64,
    /// Prompt tokens asked for.
    pub prompt_tokens: u32,
    /// Of these, from the cache.
    pub cached_tokens: u32,
    /// Prompt tokens computed.
    pub prefill_tokens: u32,
    /// Tokens written.
    pub output_tokens: u32,
    /// Tokens written ÷ measured time; absent before the first.
    pub tokens_per_s: Option<f64>,
    /// Prompt tokens computed ÷ all tokens computed.
    pub prefill_share: f64,
    /// Measured time of prefill ÷ that of all steps; absent without a clock.
    pub prefill_time_share: Option<f64>,
}

/// The model at hand, in words for people.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WriterModel {
    /// Name and size.
    pub name: String,
    /// Where it computes.
    pub device: String,
    /// Longest prompt plus output, tokens.
    pub context: u32,
    /// Why it is not the model that was asked for, when it is not.
    pub notice: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_by_name() {
        let good = WriteRequest { prompts: vec!["a".into()], ..WriteRequest::default() };
        assert_eq!(good.validate(), Ok(()));
        let field = |change: fn(&mut WriteRequest)| {
            let mut bad = good.clone();
            change(&mut bad);
            bad.validate().map_err(|error| error.field)
        };
        assert_eq!(field(|r| r.prompts.clear()), Err("prompts".into()));
        assert_eq!(field(|r| r.prompts.push(String::new())), Err("prompts".into()));
        assert_eq!(field(|r| r.prompts[0] = "x".repeat(MAX_PROMPT_BYTES + 1)), Err("prompts".into()));
        assert_eq!(field(|r| r.max_tokens = 0), Err("max_tokens".into()));
        assert_eq!(field(|r| r.temperature = f32::NAN), Err("temperature".into()));
        assert_eq!(field(|r| r.top_k = 100_001), Err("top_k".into()));
        assert_eq!(field(|r| r.top_p = 0.0), Err("top_p".into()));
        assert_eq!(field(|r| r.seed = u64::MAX), Err("seed".into()));
    }
}
