//! Statistics of a run: exact quantiles, means in a fixed order, paired comparisons.
//!
//! Quantiles are nearest-rank: the q-quantile of n sorted samples is sample ⌈q·n⌉ (counted from 1), so every number
//! shown is one that occurred, and p99 of fewer than 100 samples is the largest. They are exact at every size that a
//! spec can ask for (a million requests sort in a tenth of a second), so no sketch and no error to state.
//!
//! Comparisons are *paired*: policies see the same arrivals, so the difference per pair (a request or a
//! seed) removes what both share, and a Student-t interval on the differences says whether one is better beyond noise.
//! The 97.5 % points are tabulated rather than computed: the inverse of the incomplete beta function would bring a statistics
//! library into the page's worker for one number, and a table has the same bits everywhere.

use servelab_spec::report::Quantiles;

/// Sample ⌈q·n⌉ of `sorted` (ascending); 0 when there is none.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let n = sorted.len();
    let rank = libm::ceil(q * n as f64) as usize;
    sorted.get(rank.clamp(1, n.max(1)) - 1).copied().unwrap_or(0.0)
}

/// Mean in the order given; 0 when there is none.
pub fn mean(samples: &[f64]) -> f64 {
    if samples.is_empty() { 0.0 } else { samples.iter().sum::<f64>() / samples.len() as f64 }
}

/// The distribution of `samples`, all zero when there is none.
pub fn quantiles(mut samples: Vec<f64>) -> Quantiles {
    let mean = mean(&samples);
    samples.sort_by(f64::total_cmp);
    Quantiles {
        n: samples.len() as u64,
        mean,
        p50: quantile(&samples, 0.5),
        p95: quantile(&samples, 0.95),
        p99: quantile(&samples, 0.99),
        max: samples.last().copied().unwrap_or(0.0),
    }
}

/// Largest ÷ mean; 1 when nothing was counted (nothing is even).
pub fn max_over_mean(counts: &[u64]) -> f64 {
    let sum: u64 = counts.iter().sum();
    let max = counts.iter().copied().max().unwrap_or(0);
    if sum == 0 { 1.0 } else { max as f64 * counts.len() as f64 / sum as f64 }
}

/// `part ÷ whole`, 0 when there is no whole.
pub fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Mean of paired differences with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paired {
    /// Pairs.
    pub n: usize,
    /// Mean of first − second.
    pub mean: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Paired {
    /// The interval leaves out 0: the difference is more than noise.
    pub fn significant(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// Student-t interval of the mean of `first − second`, pair by pair; `None` below two pairs.
pub fn paired(pairs: impl IntoIterator<Item = (f64, f64)>) -> Option<Paired> {
    let differences: Vec<f64> = pairs.into_iter().map(|(first, second)| first - second).collect();
    let n = differences.len();
    if n < 2 {
        return None;
    }
    let mean = mean(&differences);
    let squares: f64 = differences.iter().map(|d| (d - mean) * (d - mean)).sum();
    let half = t_975(n - 1) * libm::sqrt(squares / (n - 1) as f64 / n as f64);
    Some(Paired { n, mean, low: mean - half, high: mean + half })
}

/// 97.5 % points of Student's t by degrees of freedom, from 1. Between tabulated degrees the lower one counts,
/// so an interval is never too narrow.
fn t_975(degrees: usize) -> f64 {
    const FIRST: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    match degrees {
        0 => f64::INFINITY,
        1..=30 => FIRST[degrees - 1],
        31..=59 => 2.042,
        60..=119 => 2.000,
        _ => 1.980,
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    /// Worked by hand: ranks ⌈0.5·4⌉ = 2, ⌈0.95·4⌉ = 4.
    #[test]
    fn quantiles_are_nearest_rank() {
        let q = quantiles(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!((q.n, q.mean, q.p50, q.p95, q.p99, q.max), (4, 2.5, 2.0, 4.0, 4.0, 4.0));
        let hundred = quantiles((1..=100).map(f64::from).collect());
        assert_eq!((hundred.p50, hundred.p95, hundred.p99, hundred.max), (50.0, 95.0, 99.0, 100.0));
        assert_eq!(quantiles(vec![7.0]).p50, 7.0);
        assert_eq!(quantiles(vec![]), Quantiles::default());
    }

    #[test]
    fn imbalance_is_max_over_mean() {
        // Eleven of 24 requests on one of four replicas, as in the fixed trace under unguarded affinity.
        assert!((max_over_mean(&[4, 6, 11, 3]) - 11.0 / 6.0).abs() < 1e-15);
        assert_eq!(max_over_mean(&[5, 5]), 1.0);
        assert_eq!(max_over_mean(&[0, 0]), 1.0);
    }

    /// A worked example: differences 1, 2, 3 have mean 2, standard error 1/√3, t(2) = 4.303.
    #[test]
    fn paired_intervals_are_students() {
        let p = paired([(2.0, 1.0), (3.0, 1.0), (4.0, 1.0)]).unwrap();
        assert!((p.mean - 2.0).abs() < 1e-12);
        assert!((p.high - p.mean - 4.303 / 3f64.sqrt()).abs() < 1e-12);
        assert!(!p.significant());
        assert!(paired([(5.0, 1.0), (6.0, 2.0), (7.0, 3.01)]).unwrap().significant());
        assert!(paired([(1.0, 0.0)]).is_none());
    }

    proptest! {
        /// The definition itself: at least q·n samples are at or below, fewer than q·n strictly below.
        #[test]
        fn quantiles_agree_with_their_definition(mut xs in prop::collection::vec(0.0..10.0f64, 1..200), q in 0.01..1.0f64) {
            xs.sort_by(f64::total_cmp);
            let value = quantile(&xs, q);
            let below = xs.iter().filter(|&&x| x < value).count() as f64;
            let up_to = xs.iter().filter(|&&x| x <= value).count() as f64;
            prop_assert!(up_to >= q * xs.len() as f64 - 1e-9);
            prop_assert!(below < q * xs.len() as f64 + 1e-9);
        }
    }
}
