//! llm-d's newer profile: keep to the replicas that hold the prompt unless they are too slow, then the least token load.
//!
//! The affinity filter keeps replicas that hold at least 0.80 of the prompt; a valve for each request lets everybody in when the best
//! holder's estimated time to first token exceeds the best other's by more than 18 s. Of those left, the fewest uncached tokens in flight
//! win. Source: llm-d router `prefixcacheaffinity` and `tokenload`, as its guides ship them together.
//!
//! One step from the source: it releases a request's tokens at its first token, and so do the router-local counts here, but it counts tokens
//! by an estimate from bytes where we count them exactly.

use super::Policy;
use super::params::Params;
use super::registry::Entry;
use super::scoring::filters::{Affinity, Saturation};
use super::scoring::picker::Picker;
use super::scoring::pipeline::{self, Parts, Pipeline};
use super::scoring::prefixes::Prefixes;
use super::scoring::scorers::Scorer;
use super::ties::Ties;
use servelab_engine::Nanos;
use servelab_spec::catalog::{Family, PolicyInfo};

const NAME: &str = "llm_d_affinity";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> PolicyInfo {
    let mut params = Vec::from(Affinity::params(0.8));
    params.push(pipeline::token_limit());
    params.extend(Prefixes::llm_d_params());
    params.push(Ties::Random.param());
    PolicyInfo {
        name: NAME.into(),
        label: "llm-d affinity filter + token load".into(),
        family: Family::CacheAware,
        project: "llm-d".into(),
        reads_prompt: true,
        summary: "Keeps to the replicas that hold at least 80 % of the prompt, unless all of them are 18 s slower than another; of those, the least uncached tokens in flight.".into(),
        reads: "The whole prompt, for an index of this router's own dispatches or, precise, the engines' KV events. Router-local: uncached prompt tokens in flight. Polled: the engine's block count.".into(),
        compares: "1 − uncached tokens in flight ÷ limit; the highest wins. Filtered replicas have no score.".into(),
        fails: "The valve knows prefill only: replicas full of long decodes look free. Too wide, a popular prefix overloads its holder; too narrow, every overflow makes another holder until all replicas hold everything and thrash, with no smooth middle. Each router sees only its own tokens in flight.".into(),
        params,
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    Box::new(Pipeline::new(Parts {
        scorers: vec![(Scorer::TokenLoad, 1.0)],
        prefixes: Prefixes::llm_d(params),
        affinity: Affinity::of(params),
        saturation: Saturation::OFF,
        picker: Picker::Max(Ties::of(params)),
        token_limit: params.number("token_limit"),
        session_ttl: Nanos::ZERO,
    }))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, prompt};
    use super::NAME;
    use crate::telemetry::Reads;
    use servelab_engine::Prompt;
    use servelab_spec::experiment::PolicySpec;

    fn precise() -> PolicySpec {
        PolicySpec::named(NAME).with("prefix_index", 1.0).with("ties", 0.0)
    }

    fn ids(from: u32, len: u32) -> Prompt {
        prompt(&(from..from + len).collect::<Vec<_>>())
    }

    fn in_flight(bench: &mut Bench, tokens: &[u64]) {
        bench.local.iter_mut().zip(tokens).for_each(|(local, &tokens)| local.prefill_tokens = tokens);
    }

    /// Prompts of ten blocks; holders have eight or more. 15 928 tokens/s · 18 s = 286 704 tokens.
    #[test]
    fn the_valve_opens_above_eighteen_seconds_and_not_at_them() {
        let asked = ids(0, 160);
        let mut bench = Bench::new(precise(), 4);
        assert_eq!(bench.policy.reads(), Reads::LOCAL.and(Reads::EVENTS));
        bench.stored(1, &asked, 8);
        bench.stored(2, &asked, 10);
        bench.stored(3, &asked, 7);
        // A least-load policy would take 0 or 3: the holders are busy, but not 18 s behind.
        in_flight(&mut bench, &[5, 286_709, 300_000, 5]);
        assert_eq!((bench.pick(&asked), bench.choice.expected_hit), (1, 128));
        assert!(bench.choice.why.contains("hold"));
        assert!(bench.scores[0].is_nan() && bench.scores[3].is_nan() && bench.scores[1] > bench.scores[2]);
        // One token more, and everybody may: replica 3, with seven blocks of ten, has less to compute than 0.
        in_flight(&mut bench, &[5, 286_710, 300_000, 5]);
        assert_eq!((bench.pick(&asked), bench.choice.expected_hit), (3, 112));
        assert!(bench.choice.why.contains("slow"));
        // The valve compares the best of each side: replica 2 is free, so what 1 has does not count.
        in_flight(&mut bench, &[5, 900_000, 6, 5]);
        assert_eq!((bench.pick(&asked), bench.choice.expected_hit), (2, 159), "the last token is always computed");
        // Everybody holds it: nobody to flee to.
        bench.replicas(&[1, 2]);
        in_flight(&mut bench, &[0, 900_000, 900_001, 0]);
        assert_eq!(bench.pick(&asked), 2, "900 000 + 32 against 900 001 + 1");
        // Nobody does: the least token load.
        bench.replicas(&[0, 1, 2, 3]);
        in_flight(&mut bench, &[9, 8, 7, 8]);
        assert_eq!(bench.pick(&ids(5000, 160)), 2);
    }

    #[test]
    fn without_a_valve_nothing_breaks_affinity() {
        let asked = ids(0, 160);
        let mut bench = Bench::new(precise().with("valve_s", 0.0), 2);
        bench.stored(1, &asked, 10);
        in_flight(&mut bench, &[0, 4_000_000]);
        assert_eq!(bench.pick(&asked), 1);
    }

    /// Uncached tokens: what the router sends is charged without what it expects to be cached, until the first token.
    #[test]
    fn load_is_what_must_be_computed() {
        let mut bench = Bench::new(precise(), 2);
        let (long, short) = (ids(0, 160), ids(5000, 32));
        bench.stored(0, &long, 9);
        // Holders: replica 0 for the long one, which leaves 16 tokens to compute there.
        assert_eq!(bench.send(&long), 0);
        assert_eq!(bench.local[0].prefill_tokens, 16);
        assert_eq!(bench.send(&short), 1);
        assert_eq!(bench.local[1].prefill_tokens, 32);
        assert_eq!(bench.send(&short), 0, "16 against 32 uncached, though 160 prompt tokens against 32");
    }
}
