//! Prefix affinity: requests that begin alike go to the same replica, unless that one is overloaded.
//!
//! The home of a prefix is found by rendezvous hashing (the highest of one hash per replica, Thaler and Ravishankar 1998), so
//! when a replica joins or leaves only the prefixes it wins or held move. The hash is over block keys where blocks lie
//! within the prefix and over the remaining tokens where there are ids; from keys alone, the block that holds the prefix's end counts whole.

use super::guard::Guard;
use super::params::Params;
use super::prefix::{PREFIX_TOKENS, prefix_key, prefix_tokens_param};
use super::registry::Entry;
use super::{Choice, Policy, RouteContext};
use crate::telemetry::Reads;
use servelab_engine::random::{Stream, mix};
use servelab_spec::catalog::{Family, PolicyInfo};

const NAME: &str = "prefix_affinity";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> PolicyInfo {
    PolicyInfo {
        name: NAME.into(),
        label: "Prefix affinity".into(),
        family: Family::Affinity,
        project: String::new(),
        reads_prompt: true,
        summary: "Sends requests that begin with the same tokens to the same replica, found by rendezvous hashing; a guard sends them elsewhere when that replica is overloaded.".into(),
        reads: "The prompt's first tokens. With the guard, router-local: tokens this router has in flight on each replica.".into(),
        fails: "Without the guard a popular prefix overloads its replica; with it, at light load the guard trips often and costs reuse. A prefix that everybody shares sends everything to one replica.".into(),
        compares: "Hash of prefix and replica, the highest wins; when the guard acts, tokens in flight, the fewest win.".into(),
        params: std::iter::once(prefix_tokens_param(64)).chain(Guard::params()).collect(),
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    Box::new(PrefixAffinity { prefix_tokens: params.integer(PREFIX_TOKENS), guard: Guard::of(params) })
}

struct PrefixAffinity {
    prefix_tokens: u32,
    guard: Guard,
}

impl Policy for PrefixAffinity {
    fn reads(&self) -> Reads {
        self.guard.reads()
    }

    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, stream: &mut Stream) -> Choice {
        let key = prefix_key(ctx.request.prompt, self.prefix_tokens, ctx.block_tokens).0;
        let (mut home, mut highest) = (0, 0);
        for (at, &replica) in ctx.candidates.iter().enumerate() {
            let weight = mix(key, u64::from(replica));
            scores.push((weight >> 11) as f64 / (1u64 << 53) as f64);
            if at == 0 || weight > highest {
                (home, highest) = (at, weight);
            }
        }
        let diverted = self.guard.divert(ctx, home, scores, stream);
        diverted.unwrap_or(Choice::new(ctx.candidates[home], "home of its prefix"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, prompt};
    use super::NAME;
    use servelab_spec::experiment::PolicySpec;

    const REPLICAS: [u32; 4] = [0, 1, 2, 3];

    fn tokens(seed: u32, len: u32) -> Vec<u32> {
        (0..len).map(|at| (seed * 31 + at * 7) % 251).collect()
    }

    fn home(tokens: &[u32], candidates: &[u32]) -> u32 {
        let mut bench = Bench::new(PolicySpec::named(NAME).with("guard", 0.0), 5);
        bench.replicas(candidates);
        bench.pick(&prompt(tokens))
    }

    #[test]
    fn only_the_prefix_decides() {
        for seed in 0..50 {
            let one = tokens(seed, 200);
            let mut other = one.clone();
            other[64..].iter_mut().for_each(|token| *token += 1);
            other.push(9);
            assert_eq!(home(&one, &REPLICAS), home(&other, &REPLICAS));
        }
        let moved = (0..200)
            .filter(|&seed| {
                let one = tokens(seed, 200);
                let mut other = one.clone();
                other[63] += 1;
                home(&one, &REPLICAS) != home(&other, &REPLICAS)
            })
            .count();
        assert!((110..190).contains(&moved), "about 3 of 4 go elsewhere, {moved} of 200 did");
    }

    #[test]
    fn homes_are_spread_evenly_and_only_a_new_replicas_share_moves() {
        let mut counts = [0i32; 5];
        let mut moved = 0;
        for seed in 0..4000 {
            let prompt: Vec<u32> = [seed % 256, seed / 256].into_iter().chain(tokens(seed, 80)).collect();
            let before = home(&prompt, &REPLICAS);
            let after = home(&prompt, &[0, 1, 2, 3, 4]);
            counts[before as usize] += 1;
            assert!(after == before || after == 4, "a prefix moved between old replicas");
            moved += i32::from(after == 4);
        }
        assert!(counts[..4].iter().all(|&count| (count - 1000).abs() < 130), "{counts:?}");
        assert!((moved - 800).abs() < 120, "a fifth moves, {moved} of 4000 did");
    }

    #[test]
    fn the_guard_acts_above_its_ratio_and_not_at_it() {
        let ids = tokens(3, 100);
        let at_home = home(&ids, &REPLICAS);
        let loads = |own: u64, others: u64| -> Vec<u64> {
            REPLICAS.iter().map(|&replica| if replica == at_home { own } else { others }).collect()
        };
        let pick = |loads: &[u64]| {
            let mut bench = Bench::of(NAME, 4).tokens(loads);
            bench.pick(&prompt(&ids));
            bench
        };
        assert_eq!(pick(&[0; 4]).choice.replica, at_home, "an idle fleet has nothing to guard against");
        // Mean of 300, 100, 100, 100 is 150: twice that is exactly 300.
        assert_eq!(pick(&loads(300, 100)).choice.replica, at_home);
        let bench = pick(&loads(301, 100));
        assert_eq!(bench.choice.replica, u32::from(at_home == 0), "least loaded, lowest index");
        assert_eq!(bench.scores[at_home as usize], 301.0);
        assert!(bench.choice.why.starts_with("guard"));
        assert_eq!(home(&ids, &REPLICAS), at_home, "off, load does not matter");
    }
}
