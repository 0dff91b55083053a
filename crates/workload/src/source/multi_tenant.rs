//! Tenants with long system prompts of their own, unique user parts, Poisson arrivals.
//!
//! The budget a client states (`max_tokens`) is the longest output of the range for everybody; the true
//! length is drawn below it. Otherwise the budget would give the length away, and no policy of a real fleet knows it.

use super::Workload;
use crate::population::{self, Tenant};
use crate::request::Request;
use crate::text;
use servelab_engine::random::Stream;
use servelab_engine::{Nanos, Sampling};
use servelab_spec::experiment::MultiTenantSpec;
use servelab_spec::validate::SpecError;
use std::sync::Arc;

/// What never changes while requests are drawn.
#[derive(Debug)]
struct Population {
    sizes: MultiTenantSpec,
    block_tokens: u32,
    /// Mean gap between arrivals, nanoseconds.
    gap_ns: f64,
    tenants: Box<[Tenant]>,
    /// Running sums of the tenants' shares, the last one 1.
    popularity: Box<[f64]>,
    arrivals: Stream,
    whose: Stream,
    user_lengths: Stream,
    users: Stream,
    outputs: Stream,
    samples: Stream,
}

/// The multi-tenant workload.
#[derive(Clone, Debug)]
pub(crate) struct MultiTenant {
    population: Arc<Population>,
    next: u32,
    clock: Nanos,
}

/// Running sums of Zipf shares, `share ∝ 1 ÷ rank^skew`.
fn popularity(tenants: u32, skew: f64) -> Box<[f64]> {
    let mut sum = 0.0;
    let mut sums: Box<[f64]> = (1..=tenants)
        .map(|rank| {
            sum += libm::pow(f64::from(rank), -skew);
            sum
        })
        .collect();
    sums.iter_mut().for_each(|entry| *entry /= sum);
    sums
}

fn range(field: &str, low: u32, high: u32, least: u32) -> Result<(), SpecError> {
    if low < least {
        return Err(SpecError::new(format!("workload.{field}_min"), low, format!("use at least {least}")));
    }
    if high < low || high > 1 << 24 {
        let accepted = format!("use {low} (workload.{field}_min) to {}", 1 << 24);
        return Err(SpecError::new(format!("workload.{field}_max"), high, accepted));
    }
    Ok(())
}

impl MultiTenant {
    /// Builds the tenants' prompts.
    ///
    /// # Errors
    /// [`SpecError`] naming the field that can not be used.
    pub(crate) fn new(
        sizes: &MultiTenantSpec,
        seed: u64,
        block_tokens: u32,
        rate_per_s: f64,
    ) -> Result<Self, SpecError> {
        range("system", sizes.system_min, sizes.system_max, 0)?;
        range("user", sizes.user_min, sizes.user_max, 1)?;
        range("output", sizes.output_min, sizes.output_max, 1)?;
        if sizes.tenants == 0 {
            return Err(SpecError::new("workload.tenants", 0, "use at least 1"));
        }
        if !sizes.skew.is_finite() || sizes.skew < 0.0 {
            return Err(SpecError::new("workload.skew", sizes.skew, "use 0 (uniform) or more"));
        }
        if !rate_per_s.is_finite() || rate_per_s <= 0.0 {
            return Err(SpecError::new("workload.rate", rate_per_s, "use a rate above 0 requests/s"));
        }
        let lengths = Stream::new(seed, b"system_length");
        let texts = Stream::new(seed, b"system_text");
        let tenants = (0..sizes.tenants)
            .map(|tenant| {
                let len = lengths.split(tenant.into()).between(sizes.system_min, sizes.system_max);
                let name = population::name(tenant);
                Tenant::new(&text::system_prompt(&name, len, &mut texts.split(tenant.into())), block_tokens)
            })
            .collect();
        let population = Population {
            block_tokens,
            gap_ns: 1e9 / rate_per_s,
            tenants,
            popularity: popularity(sizes.tenants, sizes.skew),
            arrivals: Stream::new(seed, b"arrivals"),
            whose: Stream::new(seed, b"tenant"),
            user_lengths: Stream::new(seed, b"user_length"),
            users: Stream::new(seed, b"user"),
            outputs: Stream::new(seed, b"output_length"),
            samples: Stream::new(seed, b"sampling"),
            sizes: sizes.clone(),
        };
        Ok(MultiTenant { population: Arc::new(population), next: 0, clock: Nanos::ZERO })
    }
}

impl Workload for MultiTenant {
    fn next_request(&mut self) -> Option<Request> {
        let mut request = self.request_again(self.next)?;
        let gap = self.population.arrivals.split(self.next.into()).exponential() * self.population.gap_ns;
        self.clock += Nanos(libm::round(gap) as u64);
        self.next += 1;
        request.arrival = self.clock;
        Some(request)
    }

    fn total(&self) -> u32 {
        self.population.sizes.requests
    }

    fn tenants(&self) -> u32 {
        self.population.sizes.tenants
    }

    fn request_again(&self, index: u32) -> Option<Request> {
        let drawn = &*self.population;
        if index >= drawn.sizes.requests {
            return None;
        }
        let at = u64::from(index);
        let share = drawn.whose.split(at).unit();
        let tenant = drawn.popularity.partition_point(|&sum| sum <= share).min(drawn.tenants.len() - 1);
        let user = drawn.user_lengths.split(at).between(drawn.sizes.user_min, drawn.sizes.user_max);
        let mut bytes = drawn.users.split(at);
        let user = (0..user).map(|_| bytes.between(33, 125));
        let output_tokens = drawn.outputs.split(at).between(drawn.sizes.output_min, drawn.sizes.output_max);
        Some(Request {
            index,
            tenant: tenant as u32,
            session: None,
            arrival: Nanos::ZERO,
            prompt: drawn.tenants[tenant].prompt(user, drawn.block_tokens),
            user_at: drawn.tenants[tenant].len(),
            max_tokens: drawn.sizes.output_max,
            output_tokens,
            ignore_eos: true,
            sampling: Sampling { seed: drawn.samples.split(at).next_u64() >> 11, ..Sampling::default() },
            output_seed: at,
            adapter: None,
        })
    }

    fn position(&self) -> (u32, Nanos) {
        (self.next, self.clock)
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
    use proptest::prelude::*;

    fn all(sizes: &MultiTenantSpec, seed: u64, rate: f64) -> Vec<Request> {
        let mut source = MultiTenant::new(sizes, seed, 16, rate).unwrap();
        std::iter::from_fn(|| source.next_request()).collect()
    }

    /// Kolmogorov–Smirnov against the exponential law, and dispersion of counts, at sizes where a wrong law shows. The
    /// critical value is 1.95 ÷ √n (one in a thousand); seeds are fixed, so the test never flickers.
    #[test]
    fn arrivals_are_poisson() {
        let sizes = MultiTenantSpec { requests: 20_000, system_min: 0, system_max: 0, ..Default::default() };
        for (seed, rate) in [(1, 8.0), (2, 0.5), (3, 5000.0)] {
            let arrivals: Vec<f64> = all(&sizes, seed, rate).iter().map(|r| r.arrival.as_secs()).collect();
            let n = arrivals.len() as f64;
            let mut gaps: Vec<f64> =
                std::iter::once(arrivals[0]).chain(arrivals.windows(2).map(|pair| pair[1] - pair[0])).collect();
            gaps.sort_by(f64::total_cmp);
            let distance = gaps.iter().enumerate().fold(0.0_f64, |worst, (rank, gap)| {
                let law = 1.0 - libm::exp(-gap * rate);
                worst.max((law - rank as f64 / n).abs()).max((law - (rank + 1) as f64 / n).abs())
            });
            assert!(distance < 1.95 / n.sqrt(), "seed {seed}: distance {distance}");
            // Counts in windows of ten mean gaps: variance ÷ mean is 1, with standard error √(2 ÷ windows).
            let windows = (n / 10.0) as usize - 100;
            let mut counts = vec![0.0; windows];
            for at in &arrivals {
                if let Some(count) = counts.get_mut((at * rate / 10.0) as usize) {
                    *count += 1.0;
                }
            }
            let mean = counts.iter().sum::<f64>() / windows as f64;
            let variance = counts.iter().map(|c| (c - mean) * (c - mean)).sum::<f64>() / windows as f64;
            assert!((variance / mean - 1.0).abs() < 4.0 * (2.0 / windows as f64).sqrt(), "seed {seed}");
        }
    }

    #[test]
    fn tenants_follow_their_popularity() {
        let sizes = MultiTenantSpec {
            requests: 30_000,
            tenants: 5,
            skew: 1.0,
            system_min: 0,
            system_max: 0,
            ..Default::default()
        };
        let mut counts = [0.0; 5];
        all(&sizes, 4, 10.0).iter().for_each(|request| counts[request.tenant as usize] += 1.0);
        // Harmonic number of 5 is 137/60.
        let chi2: f64 = (0..5)
            .map(|rank| {
                let expected = 30_000.0 / (137.0 / 60.0) / (rank + 1) as f64;
                (counts[rank] - expected) * (counts[rank] - expected) / expected
            })
            .sum();
        assert!(chi2 < 18.47, "chi square with 4 degrees of freedom, one in a thousand: {chi2}");
    }

    #[test]
    fn a_seed_decides_and_another_seed_differs() {
        let sizes = MultiTenantSpec { requests: 50, ..Default::default() };
        assert_eq!(all(&sizes, 9, 8.0), all(&sizes, 9, 8.0));
        assert_ne!(all(&sizes, 9, 8.0), all(&sizes, 10, 8.0));
    }

    #[test]
    fn unusable_sizes_name_their_field() {
        let base = MultiTenantSpec::default();
        let cases = [
            (MultiTenantSpec { tenants: 0, ..base.clone() }, 1.0, "workload.tenants"),
            (MultiTenantSpec { user_min: 0, ..base.clone() }, 1.0, "workload.user_min"),
            (MultiTenantSpec { output_max: 3, ..base.clone() }, 1.0, "workload.output_max"),
            (MultiTenantSpec { skew: f64::NAN, ..base.clone() }, 1.0, "workload.skew"),
            (base.clone(), 0.0, "workload.rate"),
            (base, f64::INFINITY, "workload.rate"),
        ];
        for (sizes, rate, field) in cases {
            assert_eq!(MultiTenant::new(&sizes, 0, 16, rate).unwrap_err().field, field);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// Changing one size leaves every other draw as it was.
        #[test]
        fn draws_are_split_by_purpose(seed in 0u64..1 << 53, extra in 1u32..9) {
            let base = MultiTenantSpec { requests: 40, ..Default::default() };
            let before = all(&base, seed, 8.0);
            let longer = all(&MultiTenantSpec { user_max: base.user_max + extra, ..base.clone() }, seed, 8.0);
            let outputs = all(&MultiTenantSpec { output_max: base.output_max + extra, ..base.clone() }, seed, 8.0);
            let more = all(&MultiTenantSpec { requests: 40 + extra, ..base.clone() }, seed, 8.0);
            let faster = all(&base, seed, 16.0);
            for index in 0..40 {
                prop_assert_eq!(before[index].arrival, longer[index].arrival);
                prop_assert_eq!(before[index].tenant, longer[index].tenant);
                prop_assert_eq!(before[index].output_tokens, longer[index].output_tokens);
                prop_assert_eq!(&before[index].prompt, &outputs[index].prompt);
                prop_assert_eq!(&before[index], &more[index]);
                prop_assert_eq!(&before[index].prompt, &faster[index].prompt);
                prop_assert!(before[index].arrival >= faster[index].arrival);
                let sizes = &base;
                prop_assert!((sizes.output_min..=sizes.output_max).contains(&before[index].output_tokens));
                let prompt = sizes.system_min + sizes.user_min..=sizes.system_max + sizes.user_max;
                prop_assert!(prompt.contains(&before[index].prompt.len));
            }
        }
    }
}
