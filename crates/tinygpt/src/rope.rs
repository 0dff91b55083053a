//! Rotary positions: angles, computed once in f64.

use crate::config::TinyGptConfig;

/// Cosines and sines of every position, `[context, head width ÷ 2]` each.
///
/// Split halves: element `i` of a head's first half turns with element `i` of its second half, by position ×
/// base^(−2i ÷ head width).
#[derive(Clone, Debug, PartialEq)]
pub struct RopeTable {
    /// Cosines.
    pub cos: Vec<f32>,
    /// Sines.
    pub sin: Vec<f32>,
    /// Pairs in a head: half its width.
    pub half: usize,
}

impl RopeTable {
    /// The table of a configuration.
    pub fn new(config: &TinyGptConfig) -> Self {
        let half = config.head_width() / 2;
        let exponent = |i: usize| -2.0 * i as f64 / config.head_width() as f64;
        let frequencies: Vec<f64> = (0..half).map(|i| libm::pow(config.rope_base, exponent(i))).collect();
        let angles = (0..config.context).flat_map(|position| frequencies.iter().map(move |f| position as f64 * f));
        let (cos, sin) = angles.map(|angle| (libm::cos(angle) as f32, libm::sin(angle) as f32)).unzip();
        RopeTable { cos, sin, half }
    }

    /// Cosines and sines of one position.
    pub fn at(&self, position: usize) -> (&[f32], &[f32]) {
        let range = position * self.half..(position + 1) * self.half;
        (&self.cos[range.clone()], &self.sin[range])
    }
}
