//! Questions about a few long documents among many short questions that share nothing.
//!
//! A request about a document is the document and a question; documents are few, so each comes again. A short request is the question alone.
//! Short requests are the first tenant's and long ones the second's, so that a report tells apart whom it hurts. Nobody has a system prompt:
//! a document is part of the user's message.

use super::schedule::nanos;
use super::{Workload, check};
use crate::population::{self, Tenant, text_ids};
use crate::request::Request;
use servelab_engine::random::Stream;
use servelab_engine::{Nanos, Sampling};
use servelab_spec::experiment::LongShortSpec;
use servelab_spec::validate::SpecError;
use std::sync::Arc;

const SHORT: u32 = 0;
const LONG: u32 = 1;

#[derive(Debug)]
struct Questions {
    sizes: LongShortSpec,
    block_tokens: u32,
    /// Mean gap between arrivals, nanoseconds.
    gap_ns: f64,
    documents: Box<[Tenant]>,
    nothing: Tenant,
    arrivals: Stream,
    kinds: Stream,
    which: Stream,
    user_lengths: Stream,
    users: Stream,
    outputs: Stream,
    samples: Stream,
}

/// The workload of long and short requests.
#[derive(Clone, Debug)]
pub(crate) struct LongShort {
    all: Arc<Questions>,
    next: u32,
    clock: Nanos,
}

impl LongShort {
    /// Builds the documents.
    ///
    /// # Errors
    /// [`SpecError`] naming the field that can not be used.
    pub(crate) fn new(sizes: &LongShortSpec, seed: u64, block_tokens: u32, rate_per_s: f64) -> Result<Self, SpecError> {
        check::range("document", (sizes.document_min, sizes.document_max), 0)?;
        check::range("user", (sizes.user_min, sizes.user_max), 1)?;
        check::range("output", (sizes.output_min, sizes.output_max), 1)?;
        check::real("long_share", sizes.long_share, 1.0)?;
        check::whole("documents", sizes.documents, 1, 1_000_000)?;
        check::rate(rate_per_s)?;
        let lengths = (sizes.document_min, sizes.document_max);
        let stream = |purpose: &[u8]| Stream::new(seed, purpose);
        let all = Questions {
            block_tokens,
            gap_ns: 1e9 / rate_per_s,
            documents: population::tenants(seed, sizes.documents, lengths, block_tokens, |_| 0),
            nothing: Tenant::new(&[], block_tokens, 0),
            arrivals: stream(b"arrivals"),
            kinds: stream(b"long"),
            which: stream(b"document"),
            user_lengths: stream(b"user_length"),
            users: stream(b"user"),
            outputs: stream(b"output_length"),
            samples: stream(b"sampling"),
            sizes: sizes.clone(),
        };
        Ok(LongShort { all: Arc::new(all), next: 0, clock: Nanos::ZERO })
    }
}

impl Workload for LongShort {
    fn next_request(&mut self) -> Option<Request> {
        let mut request = self.request_again(self.next)?;
        self.clock += nanos(self.all.arrivals.split(self.next.into()).exponential() * self.all.gap_ns);
        self.next += 1;
        request.arrival = self.clock;
        Some(request)
    }

    fn total(&self) -> u32 {
        self.all.sizes.requests
    }

    fn tenants(&self) -> u32 {
        2
    }

    fn request_again(&self, index: u32) -> Option<Request> {
        let (all, sizes) = (&*self.all, &self.all.sizes);
        if index >= sizes.requests {
            return None;
        }
        let at = u64::from(index);
        let long = all.kinds.split(at).unit() < sizes.long_share;
        let document = all.which.split(at).below(sizes.documents.into()) as usize;
        let beginning = if long { &all.documents[document] } else { &all.nothing };
        let user = all.user_lengths.split(at).between(sizes.user_min, sizes.user_max);
        let prompt = beginning.prompt(text_ids(all.users.split(at), user), all.block_tokens);
        Some(Request {
            index,
            tenant: if long { LONG } else { SHORT },
            session: None,
            arrival: Nanos::ZERO,
            user_at: 0,
            user_tokens: prompt.len,
            prompt,
            max_tokens: sizes.output_max,
            output_tokens: all.outputs.split(at).between(sizes.output_min, sizes.output_max),
            ignore_eos: true,
            sampling: Sampling { seed: all.samples.split(at).next_u64() >> 11, ..Sampling::default() },
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
    use std::collections::BTreeMap;

    fn all(sizes: &LongShortSpec, seed: u64) -> Vec<Request> {
        let mut source = LongShort::new(sizes, seed, 16, 8.0).unwrap();
        std::iter::from_fn(|| source.next_request()).collect()
    }

    /// The share of long requests, and how evenly documents are asked about: chi square with 5 degrees of freedom, one in a
    /// thousand.
    #[test]
    fn documents_recur_and_short_questions_do_not() {
        for seed in 1..=4 {
            let sizes = LongShortSpec { requests: 10_000, ..Default::default() };
            let requests = all(&sizes, seed);
            let (long, short): (Vec<_>, Vec<_>) = requests.iter().partition(|request| request.tenant == LONG);
            // Standard deviation √(n·p·(1−p)) = 40.
            assert!((long.len() as f64 - 2000.0).abs() < 4.0 * 40.0, "{}", long.len());
            let mut counts: BTreeMap<_, f64> = BTreeMap::new();
            for request in &long {
                assert!((1016..=1664).contains(&request.prompt.len));
                *counts.entry(request.prompt.key(50)).or_default() += 1.0;
            }
            let expected = long.len() as f64 / 6.0;
            let chi2: f64 = counts.values().map(|count| (count - expected) * (count - expected) / expected).sum();
            assert!(counts.len() == 6 && chi2 < 20.52, "{counts:?}");
            let mut seen = std::collections::BTreeSet::new();
            assert!(short.iter().all(|request| (16..=64).contains(&request.prompt.len)));
            assert!(short.iter().all(|request| seen.insert(request.prompt.key(0))));
        }
    }

    #[test]
    fn extremes_are_all_long_or_all_short() {
        for (long_share, tenant) in [(0.0, SHORT), (1.0, LONG)] {
            let sizes = LongShortSpec { long_share, requests: 50, ..Default::default() };
            assert!(all(&sizes, 1).iter().all(|request| request.tenant == tenant));
        }
        let error = LongShort::new(&LongShortSpec { long_share: 1.5, ..Default::default() }, 0, 16, 1.0);
        assert_eq!(error.unwrap_err().field, "workload.long_share");
    }
}
