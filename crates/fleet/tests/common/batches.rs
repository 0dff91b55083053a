//! Confidence intervals of simulated means, narrowed by what is known of the draws.
//!
//! A run is cut into batches long enough to be all but independent, and the quantity of interest is averaged in each. Where a batch
//! also has averages whose expectation is known exactly (its mean service time, its arrival rate, the mean wait of a queue with a formula
//! that is fed the same arrivals), their deviations explain part of the batch's own: a regression takes that part out (control variates;
//! Lavenberg and Welch 1981). The estimate stays consistent and its error is estimated from what remains.
#![allow(dead_code, clippy::unwrap_used)]

/// Averages of one batch: the quantity, then deviations of controls from their known expectations.
pub struct Batch<const K: usize> {
    pub mean: f64,
    pub controls: [f64; K],
}

/// A mean and half the width of its 99 % confidence interval.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    pub mean: f64,
    pub half: f64,
}

/// Student's t, 99 % two-sided, for 100 degrees of freedom; with more of them the quantile is smaller, down to 2.576.
const T_99: f64 = 2.626;

impl Interval {
    /// The interval of batches, at least 104 of them: least squares of the mean on the controls, whose intercept is the estimate.
    pub fn of<const K: usize>(batches: &[Batch<K>]) -> Self {
        let (n, p) = (batches.len(), K + 1);
        assert!(n > 100 + p, "{n} batches");
        let row = |batch: &Batch<K>, at: usize| if at == 0 { 1.0 } else { batch.controls[at - 1] };
        // Normal equations, with the identity beside them for the inverse.
        let mut system = vec![vec![0.0; 2 * p]; p];
        let mut right = vec![0.0; p];
        for batch in batches {
            for i in 0..p {
                (0..p).for_each(|j| system[i][j] += row(batch, i) * row(batch, j));
                right[i] += row(batch, i) * batch.mean;
            }
        }
        (0..p).for_each(|i| system[i][p + i] = 1.0);
        for pivot in 0..p {
            let best = (pivot..p).max_by(|&a, &b| system[a][pivot].abs().total_cmp(&system[b][pivot].abs())).unwrap();
            system.swap(pivot, best);
            let scale = system[pivot][pivot];
            system[pivot].iter_mut().for_each(|value| *value /= scale);
            for other in (0..p).filter(|&other| other != pivot) {
                let factor = system[other][pivot];
                (0..2 * p).for_each(|at| system[other][at] -= factor * system[pivot][at]);
            }
        }
        let inverse = |i: usize, j: usize| system[i][p + j];
        let coefficients: Vec<f64> = (0..p).map(|i| (0..p).map(|j| inverse(i, j) * right[j]).sum()).collect();
        let residual = |batch: &Batch<K>| batch.mean - (0..p).map(|at| coefficients[at] * row(batch, at)).sum::<f64>();
        let variance = batches.iter().map(|batch| residual(batch) * residual(batch)).sum::<f64>() / (n - p) as f64;
        Interval { mean: coefficients[0], half: T_99 * (variance * inverse(0, 0)).sqrt() }
    }

    /// Narrower than 1 % of `value`, and containing a point within `tolerance` (a share) of it.
    #[track_caller]
    pub fn agrees(self, name: &str, value: f64, tolerance: f64) {
        let Interval { mean, half } = self;
        assert!(2.0 * half < 0.01 * value, "{name}: {mean} ± {half} is too wide for {value}");
        assert!((mean - value).abs() < half + tolerance * value, "{name}: {mean} ± {half}, known is {value}");
    }
}
