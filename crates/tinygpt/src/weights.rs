//! Weights on the host, as plain row-major f32 slices: what a device's kernels are built from, what an oracle reads.

use crate::config::{ConfigError, TinyGptConfig};
use servelab_engine::random::Stream;

/// All weights of a network. Matrices are row-major `[in, out]`: `y = x · W`.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// The shape.
    pub config: TinyGptConfig,
    /// `[vocabulary, width]`.
    pub embedding: Vec<f32>,
    /// One for each block.
    pub layers: Vec<LayerWeights>,
    /// Gain of the last RMSNorm, `[width]`.
    pub final_norm: Vec<f32>,
    /// `[width, vocabulary]`.
    pub head: Vec<f32>,
}

/// Weights of one block.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerWeights {
    /// Gain of the RMSNorm before attention, `[width]`.
    pub attention_norm: Vec<f32>,
    /// `[width, heads × head width]`.
    pub query: Vec<f32>,
    /// `[width, kv heads × head width]`.
    pub key: Vec<f32>,
    /// `[width, kv heads × head width]`.
    pub value: Vec<f32>,
    /// `[heads × head width, width]`.
    pub output: Vec<f32>,
    /// Gain of the RMSNorm before SwiGLU, `[width]`.
    pub feed_forward_norm: Vec<f32>,
    /// `[width, hidden]`; goes through SiLU.
    pub gate: Vec<f32>,
    /// `[width, hidden]`.
    pub up: Vec<f32>,
    /// `[hidden, width]`.
    pub down: Vec<f32>,
}

impl Weights {
    /// Random weights, the same on every machine for the same seed.
    ///
    /// The embedding has standard deviation 1, every matrix 1/√fan-in, so that activations stay near unit scale and
    /// attention near uniform but not quite; the two matrices that write to the residual stream are smaller by
    /// √(2 × layers), so that depth does not inflate it (GPT-2's rule). Gains are 1 ± 0.1, not 1: a kernel that forgets one must be
    /// seen to be wrong. Draws are sums of four 16-bit uniforms (Irwin–Hall), which needs integers only and a
    /// tenth of Box–Muller's time; nearly normal, bounded at 3.5 σ.
    ///
    /// # Errors
    /// [`ConfigError`] when the configuration is not valid.
    pub fn random(config: &TinyGptConfig, seed: u64) -> Result<Self, ConfigError> {
        config.validate()?;
        let stream = Stream::new(seed, b"weights");
        let mut purpose = 0;
        let mut draw = |count: usize, mean: f64, deviation: f64| {
            purpose += 1;
            near_normal(&mut stream.split(purpose), count, mean, deviation)
        };
        let (width, hidden, kv) = (config.width, config.hidden, config.kv_width());
        let by_width = 1.0 / libm::sqrt(width as f64);
        let residual = 1.0 / libm::sqrt(2.0 * config.layers as f64);
        let by_hidden = 1.0 / libm::sqrt(hidden as f64);
        Ok(Weights {
            config: config.clone(),
            embedding: draw(config.vocabulary * width, 0.0, 1.0),
            layers: (0..config.layers)
                .map(|_| LayerWeights {
                    attention_norm: draw(width, 1.0, 0.1),
                    query: draw(width * width, 0.0, by_width),
                    key: draw(width * kv, 0.0, by_width),
                    value: draw(width * kv, 0.0, by_width),
                    output: draw(width * width, 0.0, by_width * residual),
                    feed_forward_norm: draw(width, 1.0, 0.1),
                    gate: draw(width * hidden, 0.0, by_width),
                    up: draw(width * hidden, 0.0, by_width),
                    down: draw(hidden * width, 0.0, by_hidden * residual),
                })
                .collect(),
            final_norm: draw(width, 1.0, 0.1),
            head: draw(width * config.vocabulary, 0.0, by_width),
        })
    }

    /// All zeros.
    ///
    /// # Errors
    /// [`ConfigError`] when the configuration is not valid.
    pub fn zeros(config: &TinyGptConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let (width, hidden, kv) = (config.width, config.hidden, config.kv_width());
        let layer = LayerWeights {
            attention_norm: vec![0.0; width],
            query: vec![0.0; width * width],
            key: vec![0.0; width * kv],
            value: vec![0.0; width * kv],
            output: vec![0.0; width * width],
            feed_forward_norm: vec![0.0; width],
            gate: vec![0.0; width * hidden],
            up: vec![0.0; width * hidden],
            down: vec![0.0; hidden * width],
        };
        Ok(Weights {
            config: config.clone(),
            embedding: vec![0.0; config.vocabulary * width],
            layers: vec![layer; config.layers],
            final_norm: vec![0.0; width],
            head: vec![0.0; width * config.vocabulary],
        })
    }

    /// Every tensor's name and shape, in the order of [`tensors`](Self::tensors).
    pub fn shapes(config: &TinyGptConfig) -> Vec<(String, Vec<usize>)> {
        let (width, hidden, kv) = (config.width, config.hidden, config.kv_width());
        let mut all = vec![("embedding".into(), vec![config.vocabulary, width])];
        for index in 0..config.layers {
            let named: [(&str, Vec<usize>); 9] = [
                ("attention_norm", vec![width]),
                ("query", vec![width, width]),
                ("key", vec![width, kv]),
                ("value", vec![width, kv]),
                ("output", vec![width, width]),
                ("feed_forward_norm", vec![width]),
                ("gate", vec![width, hidden]),
                ("up", vec![width, hidden]),
                ("down", vec![hidden, width]),
            ];
            all.extend(named.map(|(name, shape)| (format!("layers.{index}.{name}"), shape)));
        }
        all.push(("final_norm".into(), vec![width]));
        all.push(("head".into(), vec![width, config.vocabulary]));
        all
    }

    /// Every tensor, to change it, in the order of [`tensors`](Self::tensors).
    pub fn tensors_mut(&mut self) -> Vec<&mut [f32]> {
        let mut all: Vec<&mut [f32]> = vec![&mut self.embedding];
        for layer in &mut self.layers {
            all.extend([
                layer.attention_norm.as_mut_slice(),
                &mut layer.query,
                &mut layer.key,
                &mut layer.value,
                &mut layer.output,
                &mut layer.feed_forward_norm,
                &mut layer.gate,
                &mut layer.up,
                &mut layer.down,
            ]);
        }
        all.push(&mut self.final_norm);
        all.push(&mut self.head);
        all
    }

    /// Every tensor with its name, in a fixed order.
    pub fn tensors(&self) -> Vec<(String, &[f32])> {
        let mut all: Vec<(String, &[f32])> = vec![("embedding".into(), &self.embedding)];
        for (index, layer) in self.layers.iter().enumerate() {
            let named: [(&str, &[f32]); 9] = [
                ("attention_norm", &layer.attention_norm),
                ("query", &layer.query),
                ("key", &layer.key),
                ("value", &layer.value),
                ("output", &layer.output),
                ("feed_forward_norm", &layer.feed_forward_norm),
                ("gate", &layer.gate),
                ("up", &layer.up),
                ("down", &layer.down),
            ];
            all.extend(named.map(|(name, tensor)| (format!("layers.{index}.{name}"), tensor)));
        }
        all.push(("final_norm".into(), &self.final_norm));
        all.push(("head".into(), &self.head));
        all
    }
}

/// `count` draws with the given mean and standard deviation.
fn near_normal(stream: &mut Stream, count: usize, mean: f64, deviation: f64) -> Vec<f32> {
    // The sum of four uniforms on 0..=65535 has mean 4 · 65535/2 and variance 4 · (65536² − 1)/12.
    let centre = 2 * 65_535;
    let scale = deviation / libm::sqrt((65_536.0 * 65_536.0 - 1.0) / 3.0);
    (0..count)
        .map(|_| {
            let bits = stream.next_u64();
            let sum: i64 = (0..4).map(|part| (bits >> (16 * part) & 0xffff) as i64).sum();
            (mean + scale * (sum - centre) as f64) as f32
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_add_up_to_the_parameter_count() {
        for config in [TinyGptConfig::default(), TinyGptConfig::small()] {
            let weights = Weights::random(&config, 1).expect("valid");
            let total: usize = weights.tensors().iter().map(|(_, tensor)| tensor.len()).sum();
            assert_eq!(total, config.parameters());
        }
    }

    #[test]
    fn draws_have_the_stated_moments() {
        let draws = near_normal(&mut Stream::new(3, b"test"), 200_000, 0.5, 2.0);
        let mean = draws.iter().map(|&x| f64::from(x)).sum::<f64>() / 200_000.0;
        let variance = draws.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / 200_000.0;
        // Four standard errors of the mean, and of the variance (kurtosis below 3).
        assert!((mean - 0.5).abs() < 4.0 * 2.0 / 200_000f64.sqrt(), "{mean}");
        assert!((variance - 4.0).abs() < 4.0 * 4.0 * (2.0 / 200_000f64).sqrt(), "{variance}");
    }

    #[test]
    fn a_seed_names_its_weights_on_every_machine() {
        let weights = |seed| Weights::random(&TinyGptConfig::small(), seed).expect("valid");
        assert_eq!(weights(7), weights(7));
        assert_ne!(weights(7), weights(8));
        let bits: u64 = weights(7)
            .tensors()
            .iter()
            .flat_map(|(_, tensor)| tensor.iter())
            .fold(0, |state, x| servelab_engine::random::mix(state, u64::from(x.to_bits())));
        assert_eq!(bits, 12_214_842_394_972_837_923);
    }
}
