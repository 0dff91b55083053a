//! Elementary functions for the CPU kernels.
//!
//! Only IEEE addition, subtraction, multiplication, division and square root, never fused: the same bits on the host and in
//! every browser, whatever the vector width.

use wide::{f32x4, f32x8};

/// eˣ, relative error below 3·10⁻⁷; 0 < result for x ≤ −87, where it stays at e⁻⁸⁷, and finite for any x: it saturates at e⁸⁸.
///
/// x = n·ln 2 + r with |r| ≤ ln 2 ÷ 2; eʳ by its Taylor polynomial of degree 6, whose remainder is at most r⁷/7! · 1.05 = 1.3·10⁻⁷; 2ⁿ
/// by exponent bits.
#[inline(always)]
pub(crate) fn exp(x: f32x4) -> f32x4 {
    // Adding 1.5 · 2²³ rounds to the nearest integer, which then stands in the low bits of the sum.
    const ROUND: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4; // few enough bits that n · LN2_HIGH is exact
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let x = x.fast_max(f32x4::splat(-87.0)).fast_min(f32x4::splat(88.0));
    let shifted = x * f32x4::splat(std::f32::consts::LOG2_E) + f32x4::splat(ROUND);
    let n = shifted - f32x4::splat(ROUND);
    let r = x - n * f32x4::splat(LN2_HIGH) - n * f32x4::splat(LN2_LOW);
    let mut power = f32x4::splat(1.0 / 720.0);
    for coefficient in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        power = power * r + f32x4::splat(coefficient);
    }
    let bits: wide::i32x4 = bytemuck::cast(shifted);
    let scale: f32x4 = bytemuck::cast((bits + wide::i32x4::splat(127 - 0x4b40_0000)) << 23);
    power * scale
}

/// x · σ(x).
#[inline(always)]
pub(crate) fn silu(x: f32x8) -> f32x8 {
    let [low, high]: [f32x4; 2] = bytemuck::cast(x);
    let halves = [low, high].map(|x| x / (f32x4::splat(1.0) + exp(-x)));
    bytemuck::cast(halves)
}

/// 1 ÷ √(mean square + ε), summed in eight lanes, then pairwise.
#[inline]
pub(crate) fn inverse_rms(x: &[f32], epsilon: f32) -> f32 {
    let mut sum = f32x8::splat(0.0);
    for &chunk in x.as_chunks::<8>().0 {
        let chunk = f32x8::new(chunk);
        sum += chunk * chunk;
    }
    let [a, b, c, d, e, f, g, h] = sum.to_array();
    let total = ((a + b) + (c + d)) + ((e + f) + (g + h));
    1.0 / (total / x.len() as f32 + epsilon).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_everywhere_and_saturates() {
        for step in 0..=1_750_000 {
            let x = -87.0 + step as f32 * 1e-4;
            let [got, ..] = exp(f32x4::splat(x)).to_array();
            let wanted = f64::from(x).exp();
            assert!((f64::from(got) / wanted - 1.0).abs() < 3e-7, "exp({x}) = {got}, wanted {wanted}");
        }
        let ends = exp(f32x4::new([-1e30, f32::NEG_INFINITY, 1e30, 0.0])).to_array();
        assert!(ends[0] > 0.0 && ends[0] < 1.7e-38 && ends[1] == ends[0]);
        assert!(ends[2].is_finite() && ends[2] > 1.6e38);
        assert_eq!(ends[3], 1.0);
    }

    #[test]
    fn silu_and_rms_match_their_definitions() {
        let xs = [-90.0, -5.0, -1.0, -0.1, 0.0, 0.3, 2.0, 60.0f32];
        for (x, got) in xs.into_iter().zip(silu(f32x8::new(xs)).to_array()) {
            let wanted = f64::from(x) / (1.0 + (-f64::from(x)).exp());
            assert!((f64::from(got) - wanted).abs() <= 4e-7 * wanted.abs().max(1e-6), "silu({x}) = {got}");
        }
        let mean = xs.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / 8.0;
        assert!((f64::from(inverse_rms(&xs, 1e-5)) - 1.0 / (mean + 1e-5).sqrt()).abs() < 1e-8);
    }
}
