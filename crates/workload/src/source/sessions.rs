//! Conversations: each turn's prompt is everything said before, answers included, and something new.
//!
//! The loop is open: when a turn is sent is drawn ahead, `answer_s` and a time of thinking after the turn before. Nobody waits for the
//! answer, so on a fleet slower than that a turn may come before the answer it quotes is complete, and finds less of it in the cache. What
//! arrives is then the same under every policy, which is what makes policies comparable.
//!
//! An answer that a prompt quotes is named as the engine names what decoding fills, so the blocks of the answer are found as well. A priced
//! run knows no ids of answers: the ids that stand there are drawn, so that policies which read text read the same in every later turn. With a
//! real model they would differ from what it said, and a spec that asks for both is refused.
//!
//! No turn is kept: a prompt is built anew from its session's draws, in time proportional to its length. What is kept is the
//! schedule (`super::schedule`) and the system prompts.

use super::schedule::{Schedule, Slot, nanos};
use super::{Workload, check};
use crate::population::{self, Growth, Popularity, Tenant, many_ids};
use crate::request::Request;
use servelab_engine::random::Stream;
use servelab_engine::{Nanos, Sampling};
use servelab_spec::experiment::SessionsSpec;
use servelab_spec::validate::SpecError;
use std::sync::Arc;

/// Draws of sessions and of their turns.
#[derive(Debug)]
struct Draws {
    starts: Stream,
    whose: Stream,
    turns: Stream,
    thinks: Stream,
    user_lengths: Stream,
    users: Stream,
    output_lengths: Stream,
    outputs: Stream,
    samples: Stream,
}

#[derive(Debug)]
struct Conversations {
    sizes: SessionsSpec,
    block_tokens: u32,
    tenants: Box<[Tenant]>,
    popularity: Popularity,
    draws: Draws,
    schedule: Schedule,
}

/// The sessions workload.
#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    all: Arc<Conversations>,
    next: u32,
}

/// The sub-stream of one turn.
fn of(stream: &Stream, session: u32, turn: u32) -> Stream {
    stream.split(session.into()).split(turn.into())
}

impl Sessions {
    /// Draws who comes when, and builds the tenants' prompts.
    ///
    /// # Errors
    /// [`SpecError`] naming the field that can not be used.
    pub(crate) fn new(sizes: &SessionsSpec, seed: u64, block_tokens: u32, rate_per_s: f64) -> Result<Self, SpecError> {
        check::range("system", (sizes.system_min, sizes.system_max), 0)?;
        check::range("user", (sizes.user_min, sizes.user_max), 1)?;
        check::range("output", (sizes.output_min, sizes.output_max), 1)?;
        check::whole("turns_min", sizes.turns_min, 1, 100)?;
        check::whole("turns_max", sizes.turns_max, sizes.turns_min, 100)?;
        check::real("think_s", sizes.think_s, 1e6)?;
        check::real("answer_s", sizes.answer_s, 1e6)?;
        check::requests(sizes.requests)?;
        check::tenants(sizes.tenants, sizes.skew)?;
        check::rate(rate_per_s)?;
        let stream = |purpose: &[u8]| Stream::new(seed, purpose);
        let draws = Draws {
            starts: stream(b"session_start"),
            whose: stream(b"tenant"),
            turns: stream(b"turns"),
            thinks: stream(b"think"),
            user_lengths: stream(b"user_length"),
            users: stream(b"user"),
            output_lengths: stream(b"output_length"),
            outputs: stream(b"output"),
            samples: stream(b"sampling"),
        };
        let mean_turns = (f64::from(sizes.turns_min) + f64::from(sizes.turns_max)) / 2.0;
        let gap_ns = 1e9 * mean_turns / rate_per_s;
        let schedule = Schedule::new(
            sizes.requests,
            |session| draws.starts.split(session.into()).exponential() * gap_ns,
            |session, start, members| {
                let turns = draws.turns.split(session.into()).between(sizes.turns_min, sizes.turns_max);
                let mut at = start;
                members.push(at);
                for turn in 1..turns {
                    let think = of(&draws.thinks, session, turn).exponential() * sizes.think_s;
                    at += nanos((sizes.answer_s + think) * 1e9);
                    members.push(at);
                }
            },
        );
        let lengths = (sizes.system_min, sizes.system_max);
        let all = Conversations {
            block_tokens,
            tenants: population::tenants(seed, sizes.tenants, lengths, block_tokens, |_| 0),
            popularity: Popularity::new(sizes.tenants, sizes.skew),
            draws,
            schedule,
            sizes: sizes.clone(),
        };
        Ok(Sessions { all: Arc::new(all), next: 0 })
    }
}

impl Conversations {
    fn output(&self, session: u32, turn: u32) -> u32 {
        of(&self.draws.output_lengths, session, turn).between(self.sizes.output_min, self.sizes.output_max)
    }

    fn user(&self, session: u32, turn: u32) -> u32 {
        of(&self.draws.user_lengths, session, turn).between(self.sizes.user_min, self.sizes.user_max)
    }

    fn request(&self, index: u32, slot: Slot) -> Request {
        let Slot { at, group: session, member: last } = slot;
        let (sizes, draws) = (&self.sizes, &self.draws);
        let tenant = self.popularity.draw(draws.whose.split(session.into()));
        let system = &self.tenants[tenant as usize];
        let each = sizes.user_max as usize + sizes.output_max as usize;
        let mut growth = Growth::new(system, each * (last as usize + 1), self.block_tokens);
        for turn in 0..=last {
            growth.read(many_ids(of(&draws.users, session, turn), self.user(session, turn)));
            if turn < last {
                let ids = many_ids(of(&draws.outputs, session, turn), self.output(session, turn));
                growth.answer(output_seed(session, turn), ids);
            }
        }
        let seed = of(&draws.samples, session, last).next_u64() >> 11;
        Request {
            index,
            tenant,
            session: Some(session.into()),
            arrival: at,
            prompt: growth.into_prompt(),
            user_at: system.len(),
            user_tokens: self.user(session, 0),
            max_tokens: sizes.output_max,
            output_tokens: self.output(session, last),
            ignore_eos: true,
            sampling: Sampling { seed, ..Sampling::default() },
            output_seed: output_seed(session, last),
            adapter: None,
        }
    }
}

/// Tells answers apart; the next turn names this one's blocks with it.
fn output_seed(session: u32, turn: u32) -> u64 {
    u64::from(session) << 32 | u64::from(turn)
}

impl Workload for Sessions {
    fn next_request(&mut self) -> Option<Request> {
        let request = self.request_again(self.next)?;
        self.next += 1;
        Some(request)
    }

    fn total(&self) -> u32 {
        self.all.schedule.len()
    }

    fn tenants(&self) -> u32 {
        self.all.sizes.tenants
    }

    fn request_again(&self, index: u32) -> Option<Request> {
        self.all.schedule.get(index).map(|slot| self.all.request(index, slot))
    }

    fn position(&self) -> (u32, Nanos) {
        (self.next, Nanos::ZERO)
    }

    fn seek(&mut self, next: u32, _clock: Nanos) {
        self.next = next;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn all(sizes: &SessionsSpec, seed: u64, rate: f64) -> Vec<Request> {
        let mut source = Sessions::new(sizes, seed, 16, rate).unwrap();
        std::iter::from_fn(|| source.next_request()).collect()
    }

    fn by_session(requests: &[Request]) -> BTreeMap<u64, Vec<&Request>> {
        let mut sessions: BTreeMap<u64, Vec<&Request>> = BTreeMap::new();
        requests.iter().for_each(|request| sessions.entry(request.session.unwrap()).or_default().push(request));
        sessions
    }

    /// Turns come 1 s of answering and an exponential time of thinking apart; sessions start as a Poisson process. Both against their law
    /// by Kolmogorov and Smirnov (1.95 ÷ √n is passed once in a thousand).
    #[test]
    fn turns_and_sessions_keep_their_times() {
        let sizes = SessionsSpec { requests: 20_000, system_min: 1, system_max: 1, ..Default::default() };
        for (seed, rate) in [(1, 8.0), (2, 0.5)] {
            let requests = all(&sizes, seed, rate);
            assert!(requests.is_sorted_by_key(|request| request.arrival));
            let sessions = by_session(&requests);
            let distance = |mut gaps: Vec<f64>, mean: f64| {
                gaps.sort_by(f64::total_cmp);
                let n = gaps.len() as f64;
                let worst = gaps.iter().enumerate().fold(0.0_f64, |worst, (rank, gap)| {
                    let law = 1.0 - libm::exp(-gap / mean);
                    worst.max((law - rank as f64 / n).abs()).max((law - (rank + 1) as f64 / n).abs())
                });
                worst * n.sqrt()
            };
            let thinks = sessions.values().flat_map(|turns| turns.windows(2));
            let thinks: Vec<f64> =
                thinks.map(|pair| (pair[1].arrival - pair[0].arrival).as_secs() - sizes.answer_s).collect();
            assert!(distance(thinks, sizes.think_s) < 1.95);
            let starts: Vec<f64> = sessions.values().map(|turns| turns[0].arrival.as_secs()).collect();
            let gaps: Vec<f64> =
                std::iter::once(starts[0]).chain(starts.windows(2).map(|pair| pair[1] - pair[0])).collect();
            assert!(distance(gaps, 5.0 / rate) < 1.95);
        }
    }

    #[test]
    fn unusable_sizes_name_their_field() {
        let base = SessionsSpec::default();
        let cases = [
            (SessionsSpec { tenants: 0, ..base.clone() }, 1.0, "workload.tenants"),
            (SessionsSpec { turns_min: 0, ..base.clone() }, 1.0, "workload.turns_min"),
            (SessionsSpec { turns_max: 1, ..base.clone() }, 1.0, "workload.turns_max"),
            (SessionsSpec { think_s: f64::NAN, ..base.clone() }, 1.0, "workload.think_s"),
            (SessionsSpec { requests: u32::MAX, ..base.clone() }, 1.0, "workload.requests"),
            (base, 0.0, "workload.rate"),
        ];
        for (sizes, rate, field) in cases {
            assert_eq!(Sessions::new(&sizes, 0, 16, rate).unwrap_err().field, field);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// A turn's prompt is the one before, its answer, and a user part: in ids and in length; who asks and what came before never change.
        #[test]
        fn a_turn_contains_the_turns_before(seed in 0u64..1 << 53) {
            let sizes = SessionsSpec { requests: 60, ..Default::default() };
            let requests = all(&sizes, seed, 4.0);
            prop_assert_eq!(requests.len(), 60);
            let sessions = by_session(&requests);
            for (at, turns) in sessions.values().enumerate() {
                prop_assert!(turns.len() <= 8 && (at + 1 == sessions.len() || turns.len() >= 2));
                for pair in turns.windows(2) {
                    let (before, after) = (pair[0], pair[1]);
                    prop_assert_eq!((before.tenant, before.user_at), (after.tenant, after.user_at));
                    prop_assert_eq!(before.user_tokens, after.user_tokens);
                    let user = after.prompt.len - before.prompt.len - before.output_tokens;
                    prop_assert!((sizes.user_min..=sizes.user_max).contains(&user));
                    let ids = |request: &Request| request.prompt.tokens.clone().unwrap();
                    prop_assert!(ids(after).starts_with(&ids(before)));
                    prop_assert!(before.output_seed != after.output_seed);
                }
            }
        }

        /// Changing one size leaves every other draw as it was.
        #[test]
        fn draws_are_split_by_purpose(seed in 0u64..1 << 53) {
            let base = SessionsSpec { requests: 40, ..Default::default() };
            let before = all(&base, seed, 4.0);
            let longer = all(&SessionsSpec { user_max: base.user_max + 5, ..base.clone() }, seed, 4.0);
            let slower = all(&SessionsSpec { think_s: 9.0, ..base.clone() }, seed, 4.0);
            for (before, longer) in before.iter().zip(&longer) {
                prop_assert_eq!((before.arrival, before.session), (longer.arrival, longer.session));
                prop_assert_eq!((before.tenant, before.output_tokens), (longer.tenant, longer.output_tokens));
            }
            let by_turn = |requests: &[Request]| {
                let requests = requests.iter().map(|request| (request.output_seed, request.prompt.clone()));
                requests.collect::<BTreeMap<_, _>>()
            };
            prop_assert_eq!(by_turn(&before), by_turn(&slower));
        }
    }
}
