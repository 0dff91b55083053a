//! llm-d's default profile: three scorers and the highest total.
//!
//! `2 · queue + 2 · kv-util + 3 · prefix`, no filter, ties at random. Source: llm-d router `pkg/epp/config/loader/defaults.go`; scorers
//! and their formulas stand in [`super::scoring::scorers`].

use super::Policy;
use super::params::Params;
use super::registry::Entry;
use super::scoring::filters::{Affinity, Saturation};
use super::scoring::picker::Picker;
use super::scoring::pipeline::{Parts, Pipeline};
use super::scoring::prefixes::Prefixes;
use super::scoring::scorers::Scorer;
use super::ties::Ties;
use servelab_engine::Nanos;
use servelab_spec::catalog::{Family, PolicyInfo};

const NAME: &str = "llm_d_default";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

/// The default weights.
pub(crate) const WEIGHTS: [(Scorer, f64); 3] = [(Scorer::Queue, 2.0), (Scorer::KvUtil, 2.0), (Scorer::Prefix, 3.0)];

fn info() -> PolicyInfo {
    let mut params = Prefixes::llm_d_params();
    params.push(Ties::Random.param());
    PolicyInfo {
        name: NAME.into(),
        label: "llm-d default scorers".into(),
        family: Family::CacheAware,
        project: "llm-d".into(),
        reads_prompt: true,
        summary: "Adds up a short queue (weight 2), an empty KV cache (2) and the share of the prompt held (3); the highest total wins.".into(),
        reads: "Polled engine metrics: requests waiting, KV usage, block count. The whole prompt, for an index of this router's own dispatches or, precise, the engines' KV events.".into(),
        compares: "Weighted score, 0 to 7; the highest wins.".into(),
        fails: "Between two scrapes every request sees the same queues, so a burst goes to one replica (GIE #1700). Queues are compared from shortest to longest, so one waiting request swings two points of seven. The approximate index forgets nothing that the engine evicts: credited with several times its capacity, replicas are sent prompts they no longer hold. A prefix that everybody shares draws everything to one replica until something waits there (#669).".into(),
        params,
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    Box::new(Pipeline::new(Parts {
        scorers: WEIGHTS.to_vec(),
        prefixes: Prefixes::llm_d(params),
        affinity: Affinity::OFF,
        saturation: Saturation::OFF,
        picker: Picker::Max(Ties::of(params)),
        token_limit: 1.0,
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

    /// Requests waiting and KV usage of each replica.
    fn polled(bench: &mut Bench, rows: &[(u32, f64)]) {
        for (polled, &(waiting, kv_usage)) in bench.polled.iter_mut().zip(rows) {
            (polled.waiting, polled.kv_usage) = (waiting, kv_usage);
        }
    }

    fn scores(bench: &Bench) -> Vec<f64> {
        bench.scores.iter().map(|score| libm::round(score * 1e9) / 1e9).collect()
    }

    /// Worked by hand: blocks of 16, a prompt of 160 tokens has ten.
    #[test]
    fn three_scorers_add_up() {
        let asked = ids(0, 160);
        let mut bench = Bench::new(precise(), 3);
        assert_eq!(bench.policy.reads(), Reads::POLLED.and(Reads::EVENTS));
        // Idle and empty: everybody has 2 + 2 + 0.
        assert_eq!(bench.pick(&asked), 0);
        assert_eq!(scores(&bench), [4.0, 4.0, 4.0]);
        // A generic affinity policy would stay with replica 1, which holds half; one request waits there, and that is worth more:
        // queue 2·1, kv 2·1, prefix 0 = 4 against 0 + 2·0.9 + 3·0.5 = 3.3.
        bench.stored(1, &asked, 5);
        polled(&mut bench, &[(0, 0.0), (1, 0.1), (0, 0.2)]);
        assert_eq!(bench.pick(&asked), 0);
        assert_eq!(scores(&bench), [4.0, 3.3, 3.6]);
        assert_eq!(bench.choice.expected_hit, 0);
        // A least-load policy would take the idle replica 0; holding nine tenths outweighs a middling queue: of 0, 2 and 4 waiting, 2 scores half.
        bench.stored(1, &asked, 9);
        polled(&mut bench, &[(0, 0.5), (2, 0.25), (4, 0.0)]);
        assert_eq!(bench.pick(&asked), 1);
        assert_eq!(scores(&bench), [3.0, 5.2, 2.0]);
        assert_eq!(bench.choice.expected_hit, 144);
        // The scale is what waits most: a thousand waiting elsewhere make two waiting look like none.
        polled(&mut bench, &[(0, 0.5), (2, 0.25), (1000, 0.0)]);
        bench.pick(&asked);
        assert_eq!(scores(&bench)[1], 6.196);
    }

    #[test]
    fn ties_fall_at_random_by_default() {
        let mut bench = Bench::new(precise().with("ties", 1.0), 4);
        polled(&mut bench, &[(0, 0.0), (0, 0.0), (1, 0.0), (0, 0.0)]);
        let hits = bench.counts(&ids(0, 160), 600);
        assert_eq!(hits[2], 0);
        assert!([0, 1, 3].iter().all(|&at| hits[at] > 150), "{hits:?}");
    }

    /// The approximate index learns from dispatches, in entries of 64 tokens, and only what this router sent.
    #[test]
    fn the_approximate_index_credits_what_was_sent() {
        let spec = PolicySpec::named(NAME).with("ties", 0.0);
        let mut bench = Bench::new(spec.clone(), 3);
        assert_eq!(bench.policy.reads(), Reads::POLLED, "the engines' block count is polled");
        assert_eq!(Bench::new(spec.clone().with("engine_capacity", 0.0), 1).policy.reads(), Reads::POLLED);
        polled(&mut bench, &[(0, 0.1), (0, 0.0), (0, 0.1)]);
        let asked = ids(0, 200);
        assert_eq!(bench.send(&asked), 1, "the emptiest cache");
        // Of 230 tokens, three whole entries of 64; 192 of them went to replica 1 before.
        polled(&mut bench, &[(0, 0.0), (0, 0.9), (0, 0.0)]);
        assert_eq!(bench.pick(&ids(0, 230)), 1);
        assert_eq!((scores(&bench), bench.choice.expected_hit), (vec![4.0, 5.2, 4.0], 192));
        bench.reload(spec);
        assert_eq!(bench.pick(&ids(0, 230)), 1);
        // Half of 128 tokens: 2 + 0.2 + 1.5 against 4.
        let half: Vec<u32> = (0..64).chain([7; 64]).collect();
        assert_eq!(bench.pick(&prompt(&half)), 0);
        assert_eq!(scores(&bench), [4.0, 3.7, 4.0]);
    }

    /// An engine of eight blocks holds 128 tokens; the index believes in eight entries, which are 512.
    #[test]
    fn entries_over_credit_an_engine_fourfold() {
        let mut bench = Bench::new(PolicySpec::named(NAME).with("ties", 0.0), 2);
        bench.polled.iter_mut().for_each(|polled| polled.blocks = 8);
        polled(&mut bench, &[(0, 0.0), (9, 0.0)]);
        for nth in 0..4 {
            bench.send(&ids(1000 * nth, 128));
        }
        for nth in 0..4 {
            bench.pick(&ids(1000 * nth, 128));
            assert_eq!(bench.choice.expected_hit, 127, "512 tokens in a cache of 128");
        }
        bench.send(&ids(9000, 64));
        bench.pick(&ids(0, 128));
        assert_eq!(bench.choice.expected_hit, 0, "the oldest root is out, and with it the chain");
    }
}
