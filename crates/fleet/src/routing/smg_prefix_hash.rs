//! SGLang gateway's `prefix_hash`: a hash ring on the first tokens, left for the least loaded when the owner has too much.
//!
//! `policies/prefix_hash.rs` of smg, the gateway's successor. Unlike bounded-load hashing it does not walk on around the ring: what an overloaded owner
//! sheds goes to whoever has least, a different replica each time, so shed requests share no cache. The load it asks about is the one before the
//! request, so an idle replica always passes.

use super::params::{self, Params};
use super::prefix::{PREFIX_TOKENS, prefix_key, prefix_tokens_param};
use super::registry::Entry;
use super::ring::Ring;
use super::{Choice, Policy, RouteContext};
use crate::telemetry::Reads;
use servelab_engine::random::Stream;
use servelab_spec::catalog::{Family, PolicyInfo};

const NAME: &str = "smg_prefix_hash";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> PolicyInfo {
    PolicyInfo {
        name: NAME.into(),
        label: "Prefix hash with least-load relief".into(),
        family: Family::Affinity,
        project: "SGLang gateway (smg)".into(),
        reads_prompt: true,
        summary: "Sends requests that begin with the same 256 tokens to their place on a hash ring, or to the least loaded replica while that one has more than 1.25 times the mean load.".into(),
        reads: "The prompt's first tokens. Router-local: requests this router has in flight on each replica.".into(),
        compares: "Requests in flight; the owner wins while it is within the bound, then the fewest.".into(),
        fails: "A prefix longer than 256 tokens that everybody shares is one key: one owner, and every other replica gets its overflow with a cold cache. Prompts that differ within the first 256 tokens, a date for instance, share nothing.".into(),
        params: vec![
            // 256: `prefix_token_count`, about a paragraph of text.
            prefix_tokens_param(256),
            // 1.25: `load_factor`.
            params::number("load_factor", "Load factor", "× mean", 1.25, (1.0, 100.0, 0.05),
                "The owner is left while it has more requests in flight than this multiple of the mean."),
            // 150: `VIRTUAL_NODES_PER_WORKER`.
            Ring::param(150),
        ],
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    Box::new(SmgPrefixHash {
        prefix_tokens: params.integer(PREFIX_TOKENS),
        load_factor: params.number("load_factor"),
        ring: Ring::new(params.integer(Ring::NAME)),
    })
}

struct SmgPrefixHash {
    prefix_tokens: u32,
    load_factor: f64,
    ring: Ring,
}

impl Policy for SmgPrefixHash {
    fn reads(&self) -> Reads {
        Reads::LOCAL
    }

    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, _stream: &mut Stream) -> Choice {
        let key = prefix_key(ctx.request.prompt, self.prefix_tokens, ctx.block_tokens).0;
        let local = ctx.local();
        scores.extend(local.iter().map(|signals| f64::from(signals.requests)));
        let least = (0..local.len()).min_by_key(|&at| local[at].requests).unwrap_or(0);
        let Some(owner) = self.ring.first(key, ctx.candidates) else {
            return Choice::new(ctx.candidates[least], "no ring: fewest outstanding requests");
        };
        let total: u64 = local.iter().map(|signals| u64::from(signals.requests)).sum();
        let bound = self.load_factor * (total + 1) as f64 / local.len() as f64;
        let fits = |at: usize| total == 0 || f64::from(local[at].requests) <= bound;
        if fits(owner) {
            Choice::new(ctx.candidates[owner], "its place on the ring")
        } else if fits(least) {
            Choice::new(ctx.candidates[least], "owner over its bound: fewest outstanding requests")
        } else {
            Choice::new(ctx.candidates[owner], "its place on the ring: all are over their bound")
        }
    }

    fn replicas_changed(&mut self, ready: &[u32]) {
        self.ring.set(ready);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, prompt};
    use super::NAME;

    fn tokens(seed: u32) -> Vec<u32> {
        (0..300).map(|at| (seed * 131 + at * 7) % 60_000).collect()
    }

    /// Loads as (owner's, the others' in order), the choice as a position in that. From `load_ok`: `load ≤ 1.25 · (total + 1)/4`. The
    /// gateway's own example is 100 in flight on 4: 30 passes, 35 does not.
    #[test]
    fn the_owner_within_the_bound_else_the_first_of_the_least() {
        let asked = prompt(&tokens(5));
        let owner = Bench::of(NAME, 4).pick(&asked);
        for (loads, chosen) in [
            ([0, 0, 0, 0], 0),
            // total 1: bound 0.625; the idle pass, the owner does not. KubeAI's bound would keep it.
            ([1, 0, 0, 0], 1),
            ([1, 1, 0, 0], 2),
            // total 3: bound 1.25.
            ([1, 1, 1, 0], 0),
            ([2, 1, 0, 0], 2),
            ([30, 20, 25, 25], 0),
            ([35, 25, 20, 20], 2),
            ([31, 23, 23, 23], 0),
            ([32, 23, 23, 22], 3),
        ] {
            let others: Vec<u32> = (0..4).filter(|&replica| replica != owner).collect();
            let order = [owner, others[0], others[1], others[2]];
            let mut requests = [0; 4];
            order.iter().zip(loads).for_each(|(&replica, load)| requests[replica as usize] = load);
            let mut bench = Bench::of(NAME, 4).requests(&requests);
            assert_eq!(bench.pick(&asked), order[chosen], "{loads:?}: {}", bench.choice.why);
        }
    }

    #[test]
    fn the_first_256_tokens_are_the_key() {
        let mut moved = 0;
        for seed in 0..100 {
            let one = tokens(seed);
            let (mut within, mut beyond) = (one.clone(), one.clone());
            within[255] += 1;
            beyond[256] += 1;
            let home = |ids: &[u32]| Bench::of(NAME, 32).pick(&prompt(ids));
            assert_eq!(home(&one), home(&beyond));
            moved += u32::from(home(&one) != home(&within));
        }
        assert!(moved > 80, "31 of 32 on average, {moved} of 100 did");
    }
}
