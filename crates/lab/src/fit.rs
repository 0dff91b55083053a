//! Fits the cost model to measured steps.
//!
//! Non-negative least squares in *relative* error: a step of 5 ms and one of 500 ms count alike, because TTFT depends on
//! the long ones and ITL on the short ones. With five coefficients there are only 31 ways to choose which of them are above zero, so all are
//! solved and the best feasible one is taken: exact, without iterations or a tolerance, and the same bits everywhere.

use serde::{Deserialize, Serialize};
use servelab_engine::StepWork;
use servelab_spec::experiment::Coefficients;

/// Coefficients of the model.
const TERMS: usize = 5;

/// A measured step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// What it computed.
    pub work: StepWork,
    /// Median of its repetitions, seconds.
    pub seconds: f64,
}

/// A fitted cost model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// The coefficients.
    pub coefficients: Coefficients,
    /// (fitted − measured) ÷ measured of every step, in the order measured.
    pub residuals: Vec<f64>,
}

impl Fit {
    /// Largest absolute residual.
    pub fn worst(&self) -> f64 {
        self.residuals.iter().fold(0.0, |worst, residual| worst.max(residual.abs()))
    }
}

/// Fits the cost model; `None` when no timing is usable (none at all, or none above zero).
pub fn fit(timings: &[Timing]) -> Option<Fit> {
    let usable: Vec<&Timing> = timings.iter().filter(|t| t.seconds.is_finite() && t.seconds > 0.0).collect();
    if usable.is_empty() {
        return None;
    }
    // Rows divided by the measured time, so that the target is 1; columns divided by their largest entry, so that microseconds
    // and square tokens meet on one scale.
    let mut rows: Vec<[f64; TERMS]> =
        usable.iter().map(|t| terms(&t.work).map(|term| term / (t.seconds * 1e6))).collect();
    let mut scale = [0.0f64; TERMS];
    for row in &rows {
        for (scale, term) in scale.iter_mut().zip(row) {
            *scale = scale.max(*term);
        }
    }
    for row in &mut rows {
        for (term, scale) in row.iter_mut().zip(&scale) {
            *term = if *scale > 0.0 { *term / scale } else { 0.0 };
        }
    }
    let mut best: Option<(f64, [f64; TERMS])> = None;
    for subset in 1u32..1 << TERMS {
        let Some(x) = solve(&rows, subset) else { continue };
        if x.iter().any(|&value| value < 0.0) {
            continue;
        }
        let error: f64 = rows.iter().map(|row| (dot(row, &x) - 1.0) * (dot(row, &x) - 1.0)).sum();
        if best.is_none_or(|(least, _)| error < least) {
            best = Some((error, x));
        }
    }
    let (_, mut x) = best?;
    for (value, scale) in x.iter_mut().zip(&scale) {
        *value = if *scale > 0.0 { *value / scale } else { 0.0 };
    }
    let residuals = usable.iter().map(|t| dot(&terms(&t.work), &x) / (t.seconds * 1e6) - 1.0).collect();
    let [step_us, prefill_token_us, prefill_context_us, decode_sequence_us, decode_context_us] = x;
    let coefficients =
        Coefficients { step_us, prefill_token_us, prefill_context_us, decode_sequence_us, decode_context_us };
    Some(Fit { coefficients, residuals })
}

fn terms(work: &StepWork) -> [f64; TERMS] {
    [
        1.0,
        work.prefill_tokens as f64,
        work.prefill_context as f64,
        work.decode_sequences as f64,
        work.decode_context as f64,
    ]
}

fn dot(a: &[f64; TERMS], b: &[f64; TERMS]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Least squares over the columns in `subset` by Householder reflections (stable where normal equations are not);
/// `None` when those columns do not determine a solution.
fn solve(rows: &[[f64; TERMS]], subset: u32) -> Option<[f64; TERMS]> {
    let columns: Vec<usize> = (0..TERMS).filter(|column| subset & 1 << column != 0).collect();
    let (m, n) = (rows.len(), columns.len());
    if m < n {
        return None;
    }
    let mut a: Vec<Vec<f64>> = columns.iter().map(|&column| rows.iter().map(|row| row[column]).collect()).collect();
    let mut target = vec![1.0; m];
    for k in 0..n {
        let norm = libm::sqrt(a[k][k..].iter().map(|value| value * value).sum());
        let full = libm::sqrt(a[k].iter().map(|value| value * value).sum());
        if norm <= 1e-10 * full || norm == 0.0 {
            return None;
        }
        let alpha = if a[k][k] > 0.0 { -norm } else { norm };
        let mut v: Vec<f64> = a[k][k..].to_vec();
        v[0] -= alpha;
        let length: f64 = v.iter().map(|value| value * value).sum();
        let reflect = |column: &mut [f64]| {
            let along: f64 = v.iter().zip(&*column).map(|(v, c)| v * c).sum();
            for (value, v) in column.iter_mut().zip(&v) {
                *value -= 2.0 * along / length * v;
            }
        };
        for column in &mut a[k..] {
            reflect(&mut column[k..]);
        }
        reflect(&mut target[k..]);
    }
    let mut x = [0.0; TERMS];
    for k in (0..n).rev() {
        let known: f64 = (k + 1..n).map(|j| a[j][k] * x[columns[j]]).sum();
        x[columns[k]] = (target[k] - known) / a[k][k];
    }
    Some(x)
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use servelab_engine::random::Stream;

    fn works() -> Vec<StepWork> {
        let mut out = Vec::new();
        for (start, len) in [(0, 16), (0, 64), (0, 256), (512, 64), (512, 16), (1000, 8)] {
            let mut work = StepWork::default();
            work.add_prefill(start, len);
            out.push(work);
        }
        for (batch, context) in [(1, 16), (1, 256), (1, 1024), (4, 128), (8, 16), (8, 512)] {
            let mut work = StepWork::default();
            (0..batch).for_each(|_| work.add_decode(context));
            out.push(work);
        }
        out
    }

    fn timings(x: [f64; 5], noise: f64) -> Vec<Timing> {
        let mut stream = Stream::new(1, b"noise");
        let time = |work: StepWork, noise: f64| Timing { work, seconds: dot(&terms(&work), &x) * 1e-6 * noise };
        works().into_iter().map(|work| time(work, 1.0 + noise * (2.0 * stream.unit() - 1.0))).collect()
    }

    fn array(c: &Coefficients) -> [f64; 5] {
        [c.step_us, c.prefill_token_us, c.prefill_context_us, c.decode_sequence_us, c.decode_context_us]
    }

    proptest! {
        #[test]
        fn exact_timings_give_the_coefficients_back(
            a in 1.0..10_000.0f64, b in 1.0..1000.0f64, c in 0.01..1.0f64, d in 1.0..1000.0f64, e in 0.01..1.0f64,
        ) {
            let truth = [a, b, c, d, e];
            let found = fit(&timings(truth, 0.0)).unwrap();
            for (found, truth) in array(&found.coefficients).iter().zip(truth) {
                prop_assert!((found / truth - 1.0).abs() < 1e-4, "{found} {truth}");
            }
            prop_assert!(found.worst() < 1e-8);
        }

        #[test]
        fn nothing_is_ever_negative(x in prop::array::uniform5(0.0..100.0f64), noise in 0.0..0.5f64) {
            let x = [x[0] + 0.1, x[1], x[2], x[3], x[4]];
            let found = fit(&timings(x, noise)).unwrap();
            prop_assert!(array(&found.coefficients).iter().all(|&value| value >= 0.0));
        }
    }

    #[test]
    fn noise_of_five_per_cent_stays_five_per_cent() {
        let found = fit(&timings([6000.0, 700.0, 0.4, 150.0, 0.1], 0.05)).unwrap();
        assert!(found.worst() < 0.1, "{:?}", found.residuals);
    }

    #[test]
    fn a_term_that_would_go_negative_is_zero() {
        // Slower at short context than at long: no non-negative context term explains it.
        let mut steps = timings([1000.0, 10.0, 0.0, 10.0, 0.0], 0.0);
        steps[8].seconds *= 0.9;
        let found = fit(&steps).unwrap();
        assert_eq!(found.coefficients.decode_context_us, 0.0);
    }

    #[test]
    fn nothing_measured_is_no_fit() {
        assert_eq!(fit(&[]), None);
        assert_eq!(fit(&[Timing { work: StepWork::default(), seconds: 0.0 }]), None);
        let flat = Timing { work: StepWork::default(), seconds: 2e-6 };
        assert!((fit(&[flat]).unwrap().coefficients.step_us - 2.0).abs() < 1e-12);
    }
}
