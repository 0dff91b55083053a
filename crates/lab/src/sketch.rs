//! Quantiles of long runs in constant memory.
//!
//! A value falls into a bucket named by its binary exponent and the leading bits of its mantissa: buckets are as wide as a fixed share of the value, so a
//! quantile is off by at most half a bucket (`Sketch::ERROR` of the value, 0.4 %), whatever the distribution. No logarithm, no merging, no order of insertion:
//! the same values give the same counts on every machine.

use servelab_spec::report::Quantiles;

/// Counts by bucket.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sketch {
    /// Leading mantissa bits that tell buckets apart.
    bits: u32,
    counts: Vec<u32>,
    n: u64,
    sum: f64,
    max: f64,
}

/// Values below count as 0: a microsecond.
const SMALLEST: f64 = 1e-6;
/// Octaves above it: up to 36 years.
const OCTAVES: u32 = 50;

impl Sketch {
    /// Largest relative error of a quantile of [`Sketch::fine`].
    #[cfg(test)]
    pub(crate) const ERROR: f64 = 1.0 / 256.0;

    /// 128 buckets an octave.
    pub(crate) fn fine() -> Self {
        Self::new(7)
    }

    /// 8 buckets an octave, a quantile off by at most a sixteenth: for one minute among many.
    pub(crate) fn coarse() -> Self {
        Self::new(3)
    }

    fn new(bits: u32) -> Self {
        Sketch { bits, counts: Vec::new(), n: 0, sum: 0.0, max: 0.0 }
    }

    fn bucket(&self, value: f64) -> usize {
        if value.is_nan() || value < SMALLEST {
            return 0;
        }
        let scaled = (value / SMALLEST).to_bits() >> (52 - self.bits);
        let first = 1.0_f64.to_bits() >> (52 - self.bits);
        ((scaled - first) as usize).min((OCTAVES << self.bits) as usize - 1) + 1
    }

    /// The middle of a bucket.
    fn value(&self, bucket: usize) -> f64 {
        if bucket == 0 {
            return 0.0;
        }
        let first = 1.0_f64.to_bits() >> (52 - self.bits);
        let end = |at: u64| f64::from_bits((first + at) << (52 - self.bits)) * SMALLEST;
        let low = bucket as u64 - 1;
        (end(low) + end(low + 1)) / 2.0
    }

    /// Takes in a value.
    pub(crate) fn add(&mut self, value: f64) {
        let bucket = self.bucket(value);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.n += 1;
        self.sum += value;
        self.max = self.max.max(value);
    }

    /// The nearest-rank quantile; 0 when it is empty.
    pub(crate) fn quantile(&self, q: f64) -> f64 {
        let rank = (libm::ceil(q * self.n as f64) as u64).max(1);
        let mut below = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            below += u64::from(count);
            if below >= rank {
                return self.value(bucket).min(self.max);
            }
        }
        0.0
    }

    /// The distribution.
    pub(crate) fn quantiles(&self) -> Quantiles {
        Quantiles {
            n: self.n,
            mean: crate::stats::ratio(self.sum, self.n as f64),
            p50: self.quantile(0.5),
            p95: self.quantile(0.95),
            p99: self.quantile(0.99),
            max: self.max,
        }
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use crate::stats;
    use proptest::prelude::*;

    proptest! {
        /// Against the exact quantiles of the same values, over nine orders of magnitude.
        #[test]
        fn quantiles_are_within_the_stated_error(values in prop::collection::vec(-4.0_f64..5.0, 1..400)) {
            let values: Vec<f64> = values.into_iter().map(libm::exp10).collect();
            let (mut fine, mut coarse) = (Sketch::fine(), Sketch::coarse());
            for &value in &values {
                fine.add(value);
                coarse.add(value);
            }
            let exact = stats::quantiles(values);
            for (sketch, error) in [(&fine, Sketch::ERROR), (&coarse, 1.0 / 16.0)] {
                let found = sketch.quantiles();
                prop_assert_eq!(found.n, exact.n);
                prop_assert_eq!(found.max, exact.max);
                for (found, exact) in [(found.p50, exact.p50), (found.p95, exact.p95), (found.p99, exact.p99)] {
                    prop_assert!((found - exact).abs() <= error * exact, "{} for {}", found, exact);
                }
            }
        }
    }

    #[test]
    fn ends_of_the_range_are_kept() {
        let mut sketch = Sketch::fine();
        assert_eq!(sketch.quantile(0.5), 0.0);
        [0.0, -1.0, f64::NAN, 1e-9].into_iter().for_each(|value| sketch.add(value));
        assert_eq!((sketch.n, sketch.quantile(1.0)), (4, 0.0));
        sketch.add(1e300);
        assert!(sketch.quantile(1.0) > 1e8);
    }
}
