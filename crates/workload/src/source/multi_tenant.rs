//! Tenants with long system prompts of their own, unique user parts, Poisson arrivals.
//!
//! The budget a client states (`max_tokens`) is the longest output of the range for everybody; the true
//! length is drawn below it. Otherwise the budget would give the length away, and no policy of a real fleet knows it.

use super::{Workload, check};
use crate::population::{self, Popularity, Tenant, many_ids, text_ids};
use crate::request::Request;
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
    popularity: Popularity,
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
    /// Requests to come bring no token ids.
    wordless: bool,
}

/// The adapter that all requests of `tenant` want: a tenant's fine-tune is its own for good, so there is nothing to draw.
fn adapter_of(tenant: u32, adapters: u32) -> Option<u32> {
    tenant.checked_rem(adapters)
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
        check::range("system", (sizes.system_min, sizes.system_max), 0)?;
        check::range("user", (sizes.user_min, sizes.user_max), 1)?;
        check::range("output", (sizes.output_min, sizes.output_max), 1)?;
        check::tenants(sizes.tenants, sizes.skew)?;
        check::rate(rate_per_s)?;
        let lengths = (sizes.system_min, sizes.system_max);
        let extras = |tenant| adapter_of(tenant, sizes.adapters).map_or(0, |adapter| u64::from(adapter) + 1);
        let tenants = population::tenants(seed, sizes.tenants, lengths, block_tokens, extras);
        let population = Population {
            block_tokens,
            gap_ns: 1e9 / rate_per_s,
            tenants,
            popularity: Popularity::noisy(sizes.tenants, sizes.skew, sizes.noisy),
            arrivals: Stream::new(seed, b"arrivals"),
            whose: Stream::new(seed, b"tenant"),
            user_lengths: Stream::new(seed, b"user_length"),
            users: Stream::new(seed, b"user"),
            outputs: Stream::new(seed, b"output_length"),
            samples: Stream::new(seed, b"sampling"),
            sizes: sizes.clone(),
        };
        Ok(MultiTenant { population: Arc::new(population), next: 0, clock: Nanos::ZERO, wordless: false })
    }
}

impl Workload for MultiTenant {
    fn next_request(&mut self) -> Option<Request> {
        let mut request = self.request_saying(self.next, Own::Drawn { wordless: self.wordless })?;
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
        self.request_saying(index, Own::Drawn { wordless: false })
    }

    fn leave_words_out(&mut self) {
        self.wordless = true;
    }

    fn position(&self) -> (u32, Nanos) {
        (self.next, self.clock)
    }

    fn seek(&mut self, next: u32, clock: Nanos) {
        self.next = next;
        self.clock = clock;
    }
}

/// What stands behind the tenant's system prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Own {
    /// A draw for each token.
    Drawn { wordless: bool },
    /// A draw for eight tokens: a day has billions of them.
    ManyDrawn { wordless: bool },
    /// Nothing but its length.
    Outline,
}

impl MultiTenant {
    /// Request `index`, its arrival left at zero.
    pub(super) fn request_saying(&self, index: u32, own: Own) -> Option<Request> {
        let drawn = &*self.population;
        if index >= drawn.sizes.requests {
            return None;
        }
        let at = u64::from(index);
        let tenant = drawn.popularity.draw(drawn.whose.split(at));
        let system = &drawn.tenants[tenant as usize];
        let user = drawn.user_lengths.split(at).between(drawn.sizes.user_min, drawn.sizes.user_max);
        let prompt = match own {
            Own::Drawn { wordless: false } => system.prompt(text_ids(drawn.users.split(at), user), drawn.block_tokens),
            Own::Drawn { wordless: true } => system.sketch(text_ids(drawn.users.split(at), user), drawn.block_tokens),
            Own::ManyDrawn { wordless: false } => {
                system.prompt(many_ids(drawn.users.split(at), user), drawn.block_tokens)
            }
            Own::ManyDrawn { wordless: true } => {
                system.sketch(many_ids(drawn.users.split(at), user), drawn.block_tokens)
            }
            Own::Outline => system.outline(user),
        };
        let output_tokens = drawn.outputs.split(at).between(drawn.sizes.output_min, drawn.sizes.output_max);
        Some(Request {
            index,
            tenant,
            session: None,
            arrival: Nanos::ZERO,
            prompt,
            user_at: system.len(),
            user_tokens: user,
            max_tokens: drawn.sizes.output_max,
            output_tokens,
            ignore_eos: true,
            sampling: Sampling { seed: drawn.samples.split(at).next_u64() >> 11, ..Sampling::default() },
            output_seed: at,
            adapter: adapter_of(tenant, drawn.sizes.adapters),
        })
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

    /// At ten times its share beside four others the first of five sends ten of fourteen requests.
    #[test]
    fn a_noisy_tenant_sends_so_many_times_its_share() {
        let sizes = MultiTenantSpec {
            requests: 30_000,
            tenants: 5,
            noisy: 10.0,
            system_min: 0,
            system_max: 0,
            ..Default::default()
        };
        let first = all(&sizes, 4, 10.0).iter().filter(|request| request.tenant == 0).count() as f64;
        // Four standard deviations of a binomial.
        let expected = 30_000.0 * 10.0 / 14.0;
        assert!((first - expected).abs() < 4.0 * (expected * 4.0 / 14.0).sqrt(), "{first}");
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

    /// Tenants take adapters in turn; their keys are salted, everything else is as without.
    #[test]
    fn adapters_salt_keys_and_change_nothing_else() {
        let plain = MultiTenantSpec { requests: 60, tenants: 5, ..Default::default() };
        let before = all(&plain, 6, 8.0);
        let after = all(&MultiTenantSpec { adapters: 3, ..plain }, 6, 8.0);
        for (before, after) in before.iter().zip(&after) {
            assert_eq!((before.adapter, after.adapter), (None, Some(after.tenant % 3)));
            let ids = after.prompt.tokens.as_ref().unwrap();
            let salted = servelab_engine::Prompt::from_tokens(ids, 16, u64::from(after.tenant % 3) + 1);
            assert_eq!((after.prompt.key(2), after.prompt.tail), (salted.key(2), salted.tail));
            assert_ne!(after.prompt.key(0), before.prompt.key(0));
            let same = Request { adapter: None, prompt: before.prompt.clone(), ..after.clone() };
            assert_eq!((&same, &after.prompt.tokens), (before, &before.prompt.tokens));
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
