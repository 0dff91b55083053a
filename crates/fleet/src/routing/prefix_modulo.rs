//! Prefix hash modulo N: requests that begin alike go to the same replica, the hash of their beginning modulo the number of replicas.
//!
//! The simplest affinity and, as long as the fleet stays as it is, as good as any. When N becomes N + 1 a prefix stays where it was only if
//! both remainders agree, one time in N + 1: nearly every cache is in the wrong place at once. Compare rendezvous hashing
//! (`prefix_affinity`), which differs in nothing else.

use super::guard::Guard;
use super::params::Params;
use super::prefix::{PREFIX_TOKENS, prefix_key, prefix_tokens_param};
use super::registry::Entry;
use super::{Choice, Policy, RouteContext};
use crate::telemetry::Reads;
use servelab_engine::random::Stream;
use servelab_spec::catalog::{Family, PolicyInfo};

const NAME: &str = "prefix_modulo";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> PolicyInfo {
    PolicyInfo {
        name: NAME.into(),
        label: "Prefix hash modulo N".into(),
        family: Family::Affinity,
        project: String::new(),
        reads_prompt: true,
        summary: "Sends requests that begin with the same tokens to the same replica: hash modulo the number of replicas. A guard sends them elsewhere when that one is overloaded.".into(),
        reads: "The prompt's first tokens. With the guard, router-local: tokens this router has in flight on each replica.".into(),
        compares: "Nothing; when the guard acts, tokens in flight, the fewest win.".into(),
        fails: "When one replica joins N, N of N + 1 prefixes change their home and their caches are cold; the same when one leaves. Without the guard a popular prefix overloads its replica.".into(),
        params: std::iter::once(prefix_tokens_param(64)).chain(Guard::params()).collect(),
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    let (prefix_tokens, guard) = (params.integer(PREFIX_TOKENS), Guard::of(params));
    Box::new(PrefixModulo { prefix_tokens, guard, ready: Vec::new() })
}

struct PrefixModulo {
    prefix_tokens: u32,
    guard: Guard,
    /// N are those that are ready, whomever the gateway holds back at the moment.
    ready: Vec<u32>,
}

impl Policy for PrefixModulo {
    fn reads(&self) -> Reads {
        self.guard.reads()
    }

    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, stream: &mut Stream) -> Choice {
        let key = prefix_key(ctx.request.prompt, self.prefix_tokens, ctx.block_tokens).0;
        let ready = if self.ready.is_empty() { ctx.candidates } else { &self.ready };
        let home = ready[(key % ready.len() as u64) as usize];
        // One that is held back gives way to the next up.
        let at = ctx.candidates.partition_point(|&replica| replica < home) % ctx.candidates.len();
        let diverted = self.guard.divert(ctx, at, scores, stream);
        diverted.unwrap_or(Choice::new(ctx.candidates[at], "home of its prefix"))
    }

    fn replicas_changed(&mut self, ready: &[u32]) {
        self.ready.clear();
        self.ready.extend(ready);
    }
}

#[cfg(test)]
mod tests {
    use super::super::prefix::prefix_key;
    use super::super::testing::{Bench, prompt};
    use super::NAME;
    use servelab_spec::experiment::PolicySpec;

    fn tokens(seed: u32) -> Vec<u32> {
        (0..80).map(|at| (seed * 131 + at * 7) % 60_000).collect()
    }

    /// The definition, by another hand: the key modulo the number of replicas, counted among those that are ready.
    #[test]
    fn the_remainder_decides() {
        let mut bench = Bench::new(PolicySpec::named(NAME).with("guard", 0.0).with("prefix_tokens", 32.0), 9);
        let ready = [1, 4, 6, 7, 8];
        bench.replicas(&ready);
        for seed in 0..200 {
            let prompt = prompt(&tokens(seed));
            let expected = ready[(prefix_key(&prompt, 32, 16).0 % 5) as usize];
            assert_eq!(bench.pick(&prompt), expected);
            // Held back by the gateway: the next up, the first after the last. N stays five.
            bench.candidates.retain(|&replica| replica != expected);
            let next = ready[(ready.iter().position(|&replica| replica == expected).unwrap_or(0) + 1) % 5];
            assert_eq!(bench.pick(&prompt), next);
            bench.candidates = ready.to_vec();
        }
        assert!(bench.scores.is_empty());
    }

    #[test]
    fn the_guard_acts_above_its_ratio() {
        let ids = tokens(3);
        let home = Bench::of(NAME, 4).pick(&prompt(&ids));
        let pick = |own: u64| {
            let loads: Vec<u64> = (0..4).map(|replica| if replica == home { own } else { 100 }).collect();
            Bench::of(NAME, 4).tokens(&loads).pick(&prompt(&ids))
        };
        assert_eq!((pick(300), pick(301)), (home, u32::from(home == 0)));
    }
}
