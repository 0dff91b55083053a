//! The multi-tenant workload's requests at a rate that follows a curve.
//!
//! Arrivals are a Poisson process of a rate that changes in straight lines, by time change: the area under the rate from one arrival to the next is a
//! draw from the exponential law with mean 1. The area under a straight line is a quadratic, so the next instant is exact and no draw is thrown away.

use super::multi_tenant::{MultiTenant, Own};
use super::{Workload, check};
use crate::request::Request;
use servelab_engine::Nanos;
use servelab_engine::random::Stream;
use servelab_spec::experiment::{Curve, DemandSpec, MultiTenantSpec};
use servelab_spec::validate::SpecError;
use std::sync::Arc;

/// The curve as a rate, with the areas before its points.
#[derive(Debug)]
struct Rate {
    curve: Curve,
    /// Requests per second at level 1.
    scale: f64,
    /// Requests to be expected before each point.
    before: Vec<f64>,
    arrivals: Stream,
}

/// The workload of a day.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    requests: MultiTenant,
    rate: Arc<Rate>,
    next: u32,
    clock: Nanos,
    /// Requests to come bring no token ids.
    wordless: bool,
}

impl Demand {
    /// Reads the curve, builds the tenants' prompts and counts the requests.
    ///
    /// # Errors
    /// [`SpecError`] naming the field that can not be used.
    pub(crate) fn new(sizes: &DemandSpec, seed: u64, block_tokens: u32, rate_per_s: f64) -> Result<Self, SpecError> {
        check::rate(rate_per_s)?;
        let curve = sizes.points()?;
        if curve.area() * rate_per_s > DemandSpec::MAX_REQUESTS {
            let accepted = format!("use a rate at which at most {} requests arrive", DemandSpec::MAX_REQUESTS);
            return Err(SpecError::new("workload.rate", rate_per_s, accepted));
        }
        let mut before = vec![0.0];
        for pair in curve.points.windows(2) {
            let area = (pair[1].0 - pair[0].0) * (pair[0].1 + pair[1].1) / 2.0 * rate_per_s;
            before.push(before.last().copied().unwrap_or(0.0) + area);
        }
        let rate = Arc::new(Rate { curve, scale: rate_per_s, before, arrivals: Stream::new(seed, b"arrivals") });
        let (mut total, mut clock) = (0, Nanos::ZERO);
        while let Some(at) = rate.next(total, clock) {
            (total, clock) = (total + 1, at);
        }
        let of = MultiTenantSpec {
            requests: total.max(1),
            tenants: sizes.tenants,
            skew: sizes.skew,
            system_min: sizes.system_min,
            system_max: sizes.system_max,
            user_min: sizes.user_min,
            user_max: sizes.user_max,
            output_min: sizes.output_min,
            output_max: sizes.output_max,
            ..MultiTenantSpec::default()
        };
        let requests = MultiTenant::new(&of, seed, block_tokens, rate_per_s)?;
        Ok(Demand { requests, rate, next: 0, clock: Nanos::ZERO, wordless: false })
    }
}

impl Rate {
    /// When request `index` arrives, the one before it having arrived at `clock`; `None` when the curve ends before that.
    fn next(&self, index: u32, clock: Nanos) -> Option<Nanos> {
        let area = self.area(clock.as_secs()) + self.arrivals.split(index.into()).exponential();
        let end = self.before.last().copied().unwrap_or(0.0);
        if area >= end {
            return None;
        }
        let segment = self.before.partition_point(|&before| before <= area).clamp(1, self.before.len() - 1) - 1;
        let ((t0, v0), (t1, v1)) = (self.curve.points[segment], self.curve.points[segment + 1]);
        let (v0, v1) = (v0 * self.scale, v1 * self.scale);
        let left = area - self.before[segment];
        // v0·x + slope·x²/2 = left, in the form that does not cancel.
        let slope = (v1 - v0) / (t1 - t0);
        let root = libm::sqrt((v0 * v0 + 2.0 * slope * left).max(0.0));
        let x = if v0 + root > 0.0 { 2.0 * left / (v0 + root) } else { 0.0 };
        // Rounding never takes an arrival back before the one before it.
        Some(Nanos::from_secs((t0 + x).min(t1)).max(clock))
    }

    /// Requests to be expected before `t`, seconds.
    fn area(&self, t: f64) -> f64 {
        let points = &self.curve.points;
        let segment = points.partition_point(|&(at, _)| at <= t).clamp(1, points.len() - 1) - 1;
        let (t0, v0) = points[segment];
        let x = t - t0;
        self.before[segment] + x * (v0 + self.curve.at(t)) / 2.0 * self.scale
    }
}

impl Demand {
    fn next(&mut self, own: Own) -> Option<Request> {
        let at = self.rate.next(self.next, self.clock)?;
        let mut request = self.requests.request_saying(self.next, own)?;
        (request.arrival, self.clock) = (at, at);
        self.next += 1;
        Some(request)
    }
}

impl Workload for Demand {
    fn next_request(&mut self) -> Option<Request> {
        self.next(Own::ManyDrawn { wordless: self.wordless })
    }

    fn next_outline(&mut self) -> Option<Request> {
        self.next(Own::Outline)
    }

    fn total(&self) -> u32 {
        self.requests.total()
    }

    fn tenants(&self) -> u32 {
        self.requests.tenants()
    }

    fn request_again(&self, index: u32) -> Option<Request> {
        self.requests.request_saying(index, Own::ManyDrawn { wordless: false })
    }

    fn leave_words_out(&mut self) {
        self.wordless = true;
    }

    fn position(&self) -> (u32, Nanos) {
        (self.next, self.clock)
    }

    fn peak_rate(&self, from: Nanos, to: Nanos) -> f64 {
        self.rate.curve.peak(from.as_secs(), to.as_secs()) * self.rate.scale
    }

    fn seek(&mut self, next: u32, clock: Nanos) {
        self.next = next;
        self.clock = clock;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn arrivals(curve: &str, rate: f64, seed: u64) -> Vec<f64> {
        let sizes = DemandSpec { curve: curve.into(), rate, ..DemandSpec::default() };
        let mut source = Demand::new(&sizes, seed, 16, rate).unwrap();
        let all: Vec<f64> =
            std::iter::from_fn(|| source.next_request()).map(|request| request.arrival.as_secs()).collect();
        assert_eq!(all.len() as u32, source.total());
        assert!(all.windows(2).all(|pair| pair[0] <= pair[1]));
        all
    }

    /// Counts in each hour are Poisson with the area as mean: within four standard deviations, and the time-changed gaps follow the exponential law
    /// (Kolmogorov–Smirnov, one in a thousand).
    #[test]
    fn arrivals_follow_the_curve() {
        let curve = "0:0,1:2,2:2,3:0.5,4:0";
        let areas = [3600.0, 7200.0, 4500.0, 900.0];
        for seed in 1..=3 {
            let all = arrivals(curve, 1.0, seed);
            for (hour, mean) in areas.iter().enumerate() {
                let from = hour as f64 * 3600.0;
                let count = all.iter().filter(|&&at| at >= from && at < from + 3600.0).count() as f64;
                assert!((count - mean).abs() < 4.0 * mean.sqrt(), "seed {seed}, hour {hour}: {count} of {mean}");
            }
            let area = |t: f64| {
                let points = Curve::parse(curve, 3600.0).unwrap();
                // An independent sum: a thousand strips.
                let strips = 1000;
                (0..strips)
                    .map(|i| points.at(t * (f64::from(i) + 0.5) / f64::from(strips)) * t / f64::from(strips))
                    .sum::<f64>()
            };
            let some: Vec<f64> = all.iter().step_by(10).map(|&t| area(t)).collect();
            // Every tenth arrival of a Poisson process of rate 1: the mean gap is ten.
            let mean = (some.last().unwrap() - some[0]) / (some.len() - 1) as f64;
            assert!((mean - 10.0).abs() < 4.0 * 10.0_f64.sqrt() / (some.len() as f64).sqrt(), "{mean}");
        }
    }

    #[test]
    fn a_source_goes_on_where_it_stood() {
        let sizes = DemandSpec { curve: "0:1,0.1:3".into(), rate: 1.0, ..DemandSpec::default() };
        let mut source = Demand::new(&sizes, 5, 16, 1.0).unwrap();
        (0..50).for_each(|_| drop(source.next_request()));
        let (next, clock) = source.position();
        let mut other = Demand::new(&sizes, 5, 16, 1.0).unwrap();
        other.seek(next, clock);
        loop {
            let (one, two) = (source.next_request(), other.next_request());
            assert_eq!(one.as_ref().map(|request| request.arrival), two.as_ref().map(|request| request.arrival));
            if one.is_none() {
                break;
            }
        }
        assert_eq!(source.peak_rate(Nanos::ZERO, Nanos::from_secs(180.0)), 2.0);
    }

    /// One arrival a second for an hour that begins with nothing: nobody comes while the level is 0.
    #[test]
    fn nobody_comes_at_level_zero() {
        let all = arrivals("0:0,1:0,1.001:1,2:1", 1.0, 3);
        assert!(all[0] >= 3600.0 && all.len() > 3300, "{} from {}", all.len(), all[0]);
    }
}
