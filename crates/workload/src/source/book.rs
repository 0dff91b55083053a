//! The fixed 24-request trace: six tenants, Poisson arrivals at 8 requests/s, realised once and for all.
//!
//! System prompts are one sentence six times over (384, 444, 438, 402, 426 and 402 tokens for A to F), tenants differ in
//! their first block, user parts are random bytes from 33 to 125, the output is as long as its budget and
//! end-of-text is ignored. With blocks of 16 the best any cache can reuse is 7 424 of 10 476 prompt tokens.

use super::Workload;
use crate::population::{Tenant, text_ids};
use crate::request::Request;
use servelab_engine::random::Stream;
use servelab_engine::{Nanos, Sampling};
use std::sync::Arc;

/// One sentence for each tenant, repeated [`REPEATS`] times.
const SENTENCES: [&str; 6] = [
    "Atlas plans trips: name places, prices and times, and be brief. ",
    "Bramble looks after gardens: say what to sow, when to water, what to mow. ",
    "Cobalt reads invoices: list the sums, check each tax rate and flag gaps. ",
    "Dorado helps sailors: give wind, tide and harbours in a few words. ",
    "Ember answers for a bakery: state prices, allergens and opening hours. ",
    "Fjord teaches chess: explain one idea at a time, with one example. ",
];

const REPEATS: usize = 6;

/// Arrival in tenths of a millisecond, tenant, user tokens, output tokens.
const ROWS: [(u32, u32, u32, u32); 24] = [
    (2483, 2, 10, 30),
    (3421, 1, 11, 17),
    (5048, 3, 15, 30),
    (5710, 5, 25, 30),
    (5747, 5, 22, 23),
    (6290, 5, 19, 22),
    (7092, 1, 12, 32),
    (7236, 0, 27, 32),
    (7309, 4, 27, 27),
    (8560, 4, 13, 22),
    (9922, 4, 9, 19),
    (11379, 0, 15, 31),
    (11664, 0, 11, 20),
    (14392, 3, 27, 25),
    (16182, 2, 20, 27),
    (18699, 2, 20, 20),
    (19347, 5, 15, 21),
    (19450, 1, 20, 28),
    (19998, 3, 32, 19),
    (20709, 1, 13, 27),
    (23361, 1, 27, 32),
    (23417, 4, 8, 27),
    (23578, 0, 15, 26),
    (24658, 1, 31, 23),
];

/// Seeds the user parts and nothing else. Any seed gives the same figures as long as no two user parts of a tenant agree in
/// the bytes that complete the system prompt's last block, which a test checks for this one.
const USER_SEED: u64 = 5;

/// The fixed trace.
#[derive(Clone, Debug)]
pub(crate) struct BookTrace {
    block_tokens: u32,
    tenants: Arc<[Tenant]>,
    users: Stream,
    next: u32,
}

impl BookTrace {
    /// The trace with keys for blocks of `block_tokens`.
    pub(crate) fn new(block_tokens: u32) -> Self {
        let tenants =
            SENTENCES.iter().map(|text| Tenant::new(text.repeat(REPEATS).as_bytes(), block_tokens, 0)).collect();
        BookTrace { block_tokens, tenants, users: Stream::new(USER_SEED, b"book_user"), next: 0 }
    }
}

impl Workload for BookTrace {
    fn next_request(&mut self) -> Option<Request> {
        let request = self.request_again(self.next)?;
        self.next += 1;
        Some(request)
    }

    fn total(&self) -> u32 {
        ROWS.len() as u32
    }

    fn tenants(&self) -> u32 {
        SENTENCES.len() as u32
    }

    fn request_again(&self, index: u32) -> Option<Request> {
        let &(arrival, tenant, user, output) = ROWS.get(index as usize)?;
        let text = text_ids(self.users.split(u64::from(index)), user);
        Some(Request {
            index,
            tenant,
            session: None,
            arrival: Nanos(u64::from(arrival) * 100_000),
            prompt: self.tenants[tenant as usize].prompt(text, self.block_tokens),
            user_at: self.tenants[tenant as usize].len(),
            user_tokens: user,
            max_tokens: output,
            output_tokens: output,
            ignore_eos: true,
            sampling: Sampling { seed: u64::from(index), ..Sampling::default() },
            output_seed: u64::from(index),
            adapter: None,
        })
    }

    fn position(&self) -> (u32, Nanos) {
        (self.next, Nanos::ZERO)
    }

    fn seek(&mut self, next: u32, _clock: Nanos) {
        self.next = next.min(self.total());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn sizes_are_the_tables() {
        let trace = BookTrace::new(16);
        let lengths: Vec<u32> = trace.tenants.iter().map(Tenant::len).collect();
        assert_eq!(lengths, [384, 444, 438, 402, 426, 402]);
        let requests: Vec<Request> = (0..24).map(|index| trace.request_again(index).unwrap()).collect();
        assert_eq!(requests.iter().map(|request| request.prompt.len).sum::<u32>(), 10_476);
        // Counted by hand in the table: A 4, B 6, C 3, D 3, E 4, F 4; outputs sum to 610.
        let mut counts = [0; 6];
        requests.iter().for_each(|request| counts[request.tenant as usize] += 1);
        assert_eq!(counts, [4, 6, 3, 3, 4, 4]);
        assert!(requests.is_sorted_by_key(|request| request.arrival));
        assert_eq!((requests[0].arrival, requests[23].arrival), (Nanos(248_300_000), Nanos(2_465_800_000)));
        for request in &requests {
            assert_eq!(request.max_tokens, request.output_tokens);
            assert!(request.prompt.tokens.as_ref().unwrap().iter().all(|&token| token < 256), "no BOS");
        }
    }

    #[test]
    fn tenants_differ_in_their_first_block_and_agree_in_no_block_past_the_system_prompt() {
        let trace = BookTrace::new(16);
        let mut seen = std::collections::BTreeSet::new();
        assert!(trace.tenants.iter().all(|tenant| seen.insert(tenant.prompt([1].into_iter(), 16).key(0))));
        let requests: Vec<Request> = (0..24).map(|index| trace.request_again(index).unwrap()).collect();
        let mut own = std::collections::BTreeSet::new();
        assert!(requests.iter().flat_map(|request| request.prompt.own_keys.iter()).all(|&key| own.insert(key)));
    }
}
