//! Counter-based random numbers: a draw is a pure function of seed, purpose and index.
//!
//! Nothing is shared between purposes, so changing a policy, or how often it draws, leaves every exogenous draw
//! (arrivals, prompts, lengths, weights) as it was.

use serde::{Deserialize, Serialize};

/// Mixes two words into one: SplitMix64's finaliser (Steele, Lea, Flood 2014) over a Weyl-spaced combination.
/// A bijection in `value` for a fixed `state`.
#[inline]
pub fn mix(state: u64, value: u64) -> u64 {
    let mut z = state.rotate_left(25) ^ value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A stream of draws for one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    key: u64,
    counter: u64,
}

impl Stream {
    /// The stream of `purpose` (a short ASCII label such as `b"arrivals"`) under `seed`.
    pub fn new(seed: u64, purpose: &[u8]) -> Self {
        let mut key = mix(0, seed);
        for &byte in purpose {
            key = mix(key, u64::from(byte));
        }
        Stream { key, counter: 0 }
    }

    /// The sub-stream `index` of this stream, independent of how many draws were taken from it.
    #[must_use]
    pub fn split(&self, index: u64) -> Self {
        Stream { key: mix(self.key ^ 0xd1b5_4a32_d192_ed03, index), counter: 0 }
    }

    /// 64 random bits (SplitMix64 on this stream's key).
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.counter += 1;
        let mut z = self.key.wrapping_add(self.counter.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1), 53 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in `0..bound`, without bias (Lemire 2019); 0 when `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let wide = u128::from(self.next_u64()) * u128::from(bound);
            if wide as u64 >= threshold {
                return (wide >> 64) as u64;
            }
        }
    }

    /// Uniform in `low..=high`.
    pub fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(u64::from(high.saturating_sub(low)) + 1) as u32
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -libm::log1p(-self.unit())
    }

    /// Standard normal (Box–Muller, one of the pair).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(2.0 * self.exponential());
        radius * libm::cos(2.0 * core::f64::consts::PI * self.unit())
    }
}
