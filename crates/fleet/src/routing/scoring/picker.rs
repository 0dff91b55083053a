//! Pickers: which candidate the totals choose.

use super::super::params::{self, Params};
use super::super::ties::Ties;
use servelab_engine::random::Stream;
use servelab_spec::catalog::ParamInfo;

/// How the totals choose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Picker {
    /// The highest.
    Max(Ties),
    /// With probability ∝ exp(total ÷ temperature).
    Softmax { temperature: f64 },
    /// With probability ∝ total; any when all are 0.
    WeightedRandom,
}

impl Picker {
    /// The parameters.
    pub(crate) fn params() -> [ParamInfo; 3] {
        [
            params::choice(
                "picker",
                "Picker",
                0,
                &["highest score", "softmax", "weighted random"],
                "How the totals choose: the highest, or a draw that favours high ones.",
            ),
            // 0.1: a total higher by 0.23 is ten times as likely.
            params::number(
                "temperature",
                "Temperature",
                "",
                0.1,
                (0.001, 1000.0, 0.001),
                "Of the softmax picker: totals that differ by this differ e-fold in probability.",
            ),
            Ties::Random.param(),
        ]
    }

    /// From the parameters.
    pub(crate) fn of(params: &Params) -> Self {
        match params.integer("picker") {
            0 => Picker::Max(Ties::of(params)),
            1 => Picker::Softmax { temperature: params.number("temperature") },
            _ => Picker::WeightedRandom,
        }
    }

    /// Position of the chosen one of `totals`, which is not empty; `weights` is room to work in.
    pub(crate) fn pick(self, totals: &[f64], weights: &mut Vec<f64>, stream: &mut Stream) -> usize {
        weights.clear();
        match self {
            Picker::Max(ties) => return ties.most(totals, stream),
            Picker::Softmax { temperature } => {
                let most = totals.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                weights.extend(totals.iter().map(|total| libm::exp((total - most) / temperature)));
            }
            Picker::WeightedRandom => weights.extend_from_slice(totals),
        }
        draw(weights, stream)
    }
}

/// A position, with probability proportional to its weight; any when all weights are 0.
pub(crate) fn draw(weights: &[f64], stream: &mut Stream) -> usize {
    let sum: f64 = weights.iter().sum();
    if sum <= 0.0 {
        return stream.below(weights.len() as u64) as usize;
    }
    let mut left = stream.unit() * sum;
    for (at, weight) in weights.iter().enumerate() {
        left -= weight;
        if left < 0.0 {
            return at;
        }
    }
    // Rounding: the last that has a chance at all.
    weights.iter().rposition(|&weight| weight > 0.0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(picker: Picker, totals: &[f64]) -> Vec<u32> {
        let (mut counts, mut weights) = (vec![0; totals.len()], Vec::new());
        for at in 0..10_000 {
            counts[picker.pick(totals, &mut weights, &mut Stream::new(3, b"pick").split(at))] += 1;
        }
        counts
    }

    /// Within 4 standard deviations of 10 000 draws.
    fn agrees(counts: &[u32], shares: &[f64]) {
        for (&count, share) in counts.iter().zip(shares) {
            let deviation = (10_000.0 * share * (1.0 - share)).sqrt();
            assert!((f64::from(count) - 10_000.0 * share).abs() <= 4.0 * deviation, "{counts:?}, expected {shares:?}");
        }
    }

    #[test]
    fn draws_follow_the_totals() {
        agrees(&counts(Picker::WeightedRandom, &[1.0, 0.0, 3.0]), &[0.25, 0.0, 0.75]);
        agrees(&counts(Picker::WeightedRandom, &[0.0, 0.0]), &[0.5, 0.5]);
        // ln 2, ln 3 and 0 at temperature 1 are odds of 2 : 3 : 1.
        let totals = [libm::log(2.0), libm::log(3.0), 0.0];
        agrees(&counts(Picker::Softmax { temperature: 1.0 }, &totals), &[2.0 / 6.0, 3.0 / 6.0, 1.0 / 6.0]);
        // At half the temperature the odds are squared.
        agrees(&counts(Picker::Softmax { temperature: 0.5 }, &totals), &[4.0 / 14.0, 9.0 / 14.0, 1.0 / 14.0]);
        agrees(&counts(Picker::Max(Ties::Random), &[1.0, 2.0, 2.0]), &[0.0, 0.5, 0.5]);
        agrees(&counts(Picker::Max(Ties::Lowest), &[1.0, 2.0, 2.0]), &[0.0, 1.0, 0.0]);
    }
}
