//! The shape of the network.

use crate::tokenizer::BYTE_VOCABULARY;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The shape of a TinyGPT: a decoder-only transformer with pre-norm blocks (RMSNorm), rotary positions, grouped-query
/// attention, SwiGLU and an untied head, without biases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TinyGptConfig {
    /// Vocabulary, tokens. Default 260: bytes, three specials, one spare.
    pub vocabulary: usize,
    /// Transformer blocks. Default 6.
    pub layers: usize,
    /// Width of the residual stream. Default 256.
    pub width: usize,
    /// Query heads; `width ÷ heads` is the head's width. Default 8.
    pub heads: usize,
    /// Key and value heads, each shared by `heads ÷ kv_heads` query heads. Default 2.
    pub kv_heads: usize,
    /// Width inside SwiGLU. Default 1024.
    pub hidden: usize,
    /// Longest context, tokens. Default 2048.
    pub context: usize,
    /// Base of the rotary frequencies. Default 10 000.
    pub rope_base: f64,
    /// Added to the mean square in RMSNorm. Default 1e-5.
    pub norm_epsilon: f64,
}

impl Default for TinyGptConfig {
    /// The reference configuration: 5 838 080 parameters, 3 072 bytes of KV a token.
    fn default() -> Self {
        TinyGptConfig {
            vocabulary: BYTE_VOCABULARY,
            layers: 6,
            width: 256,
            heads: 8,
            kv_heads: 2,
            hidden: 1024,
            context: 2048,
            rope_base: 10_000.0,
            norm_epsilon: 1e-5,
        }
    }
}

impl TinyGptConfig {
    /// A hundredth of the reference in work per token, with the same vocabulary and head width: for tests on slow devices.
    pub fn small() -> Self {
        TinyGptConfig { layers: 2, width: 64, heads: 2, kv_heads: 1, hidden: 256, ..TinyGptConfig::default() }
    }

    /// Width of one head.
    pub fn head_width(&self) -> usize {
        self.width / self.heads
    }

    /// Query heads that share one KV head.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Width of a token's K, and of its V, in one layer.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_width()
    }

    /// Bytes of K and V a token takes in all layers (f32).
    pub fn kv_bytes_per_token(&self) -> usize {
        self.layers * 2 * self.kv_width() * size_of::<f32>()
    }

    /// Trainable parameters.
    pub fn parameters(&self) -> usize {
        let attention = self.width * (2 * self.width + 2 * self.kv_width());
        let feed_forward = 3 * self.width * self.hidden;
        let norms = 2 * self.width;
        2 * self.vocabulary * self.width + self.layers * (attention + feed_forward + norms) + self.width
    }

    /// Whether the numbers fit together.
    ///
    /// # Errors
    /// Names the field, its value and what would be accepted.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let positive = [
            ("vocabulary", self.vocabulary),
            ("layers", self.layers),
            ("width", self.width),
            ("heads", self.heads),
            ("kv_heads", self.kv_heads),
            ("hidden", self.hidden),
            ("context", self.context),
        ];
        for (field, value) in positive {
            if value == 0 || value > 1 << 24 {
                return Err(ConfigError { field, value: value.to_string(), accepted: "1 to 16 777 216".into() });
            }
        }
        let divides = [
            ("heads", self.heads, "a divisor of width", self.width),
            ("kv_heads", self.kv_heads, "a divisor of heads", self.heads),
        ];
        for (field, value, what, of) in divides {
            if of % value != 0 {
                let accepted = format!("{what}, which is {of}");
                return Err(ConfigError { field, value: value.to_string(), accepted });
            }
        }
        let multiples = [("width", self.width, 8), ("hidden", self.hidden, 8), ("width ÷ heads", self.head_width(), 8)];
        for (field, value, of) in multiples {
            if value % of != 0 {
                let accepted = format!("a multiple of {of} (the kernels' panel)");
                return Err(ConfigError { field, value: value.to_string(), accepted });
            }
        }
        let reals = [("rope_base", self.rope_base, 1.0), ("norm_epsilon", self.norm_epsilon, 0.0)];
        for (field, value, above) in reals {
            if !(value.is_finite() && value > above) {
                let accepted = format!("a finite number above {above}");
                return Err(ConfigError { field, value: value.to_string(), accepted });
            }
        }
        Ok(())
    }
}

/// A configuration that describes no network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("TinyGPT configuration: {field} is {value}; accepted is {accepted}")]
pub struct ConfigError {
    /// The field.
    pub field: &'static str,
    /// Its value.
    pub value: String,
    /// What would be accepted.
    pub accepted: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_has_the_stated_size() {
        let config = TinyGptConfig::default();
        assert_eq!(config.validate(), Ok(()));
        assert_eq!(config.parameters(), 5_838_080);
        assert_eq!(config.kv_bytes_per_token(), 3072);
        assert_eq!((config.head_width(), config.group()), (32, 4));
    }

    #[test]
    fn small_is_valid_and_has_the_same_heads_and_vocabulary() {
        let (small, reference) = (TinyGptConfig::small(), TinyGptConfig::default());
        assert_eq!(small.validate(), Ok(()));
        assert_eq!((small.head_width(), small.vocabulary), (reference.head_width(), reference.vocabulary));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let broken = |change: fn(&mut TinyGptConfig)| {
            let mut config = TinyGptConfig::default();
            change(&mut config);
            config.validate().map_err(|error| error.field)
        };
        assert_eq!(broken(|c| c.heads = 7), Err("heads"));
        assert_eq!(broken(|c| c.kv_heads = 3), Err("kv_heads"));
        assert_eq!(broken(|c| c.layers = 0), Err("layers"));
        assert_eq!(broken(|c| c.hidden = 1001), Err("hidden"));
        assert_eq!(broken(|c| c.heads = 64), Err("width ÷ heads"));
        assert_eq!(broken(|c| c.rope_base = f64::NAN), Err("rope_base"));
        assert_eq!(broken(|c| c.norm_epsilon = 0.0), Err("norm_epsilon"));
    }
}
