//! Any weighted sum of the known scorers, with filters and a picker: what an llm-d configuration file can say.

use super::Policy;
use super::llm_d_default;
use super::params::{self, Params};
use super::registry::Entry;
use super::scoring::filters::{Affinity, Saturation};
use super::scoring::picker::Picker;
use super::scoring::pipeline::{self, Parts, Pipeline};
use super::scoring::prefixes::Prefixes;
use super::scoring::scorers::Scorer;
use servelab_engine::Nanos;
use servelab_spec::catalog::{Family, PolicyInfo};

const NAME: &str = "composed";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> PolicyInfo {
    let mut params: Vec<_> = (Scorer::ALL.iter())
        .map(|&scorer| {
            let (name, label, help) = scorer.words();
            // llm-d's default profile where it has a weight: the sum starts from something that works.
            let preset = llm_d_default::WEIGHTS.iter().find(|(other, _)| *other == scorer);
            params::number(name, label, "weight", preset.map_or(0.0, |&(_, weight)| weight), (0.0, 100.0, 0.5), help)
        })
        .collect();
    params.extend(Affinity::params(0.0));
    params.push(Saturation::param());
    params.extend(Picker::params());
    params.extend(Prefixes::llm_d_params());
    params.extend([pipeline::token_limit(), pipeline::session_ttl()]);
    PolicyInfo {
        name: NAME.into(),
        label: "Composed scorers".into(),
        family: Family::Composed,
        project: String::new(),
        reads_prompt: true,
        summary: "A weighted sum of scorers, each from 0 to 1, over what two filters leave; the picker takes the highest or draws.".into(),
        reads: "What the weights need and no more. Queue, KV utilisation, load-aware, LoRA affinity and saturation: polled. Active requests, token load and the valve: router-local. Prefix, token load, no-hit LRU and the affinity filter: the prompt, for an index of own dispatches or of KV events.".into(),
        compares: "Weighted score; the highest wins, or is likeliest. Filtered replicas have no score.".into(),
        fails: "Weights that suit one load suit no other: prefix far above queue melts the holder of a popular prefix, queue far above prefix scatters. Scorers that compare from best to worst swing their whole weight on the smallest difference. KV utilisation favours replicas whose cache is empty, which is where nothing can be reused.".into(),
        params,
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    let weights = Scorer::ALL.iter().map(|&scorer| (scorer, params.number(scorer.words().0)));
    Box::new(Pipeline::new(Parts {
        scorers: weights.filter(|&(_, weight)| weight > 0.0).collect(),
        prefixes: Prefixes::llm_d(params),
        affinity: Affinity::of(params),
        saturation: Saturation { limit: params.number("saturation") },
        picker: Picker::of(params),
        token_limit: params.number("token_limit"),
        session_ttl: Nanos::from_secs(params.number("session_ttl_s")),
    }))
}

#[cfg(test)]
mod tests {
    use super::super::scoring::scorers::Scorer;
    use super::super::testing::{Bench, prompt};
    use super::NAME;
    use crate::telemetry::{PolledSignals, Reads};
    use servelab_engine::{Nanos, Prompt};
    use servelab_spec::experiment::PolicySpec;

    /// One scorer alone, ties to the lowest, precise index.
    fn only(scorer: Scorer) -> PolicySpec {
        let none = PolicySpec::named(NAME).with("prefix_index", 1.0).with("ties", 0.0);
        let none = none.with("queue", 0.0).with("kv_util", 0.0).with("prefix", 0.0);
        none.with(scorer.words().0, 1.0)
    }

    fn ids(from: u32, len: u32) -> Prompt {
        prompt(&(from..from + len).collect::<Vec<_>>())
    }

    fn scores(bench: &Bench) -> Vec<f64> {
        bench.scores.iter().map(|score| libm::round(score * 1e6) / 1e6).collect()
    }

    fn waiting(bench: &mut Bench, waiting: &[u32]) {
        bench.polled.iter_mut().zip(waiting).for_each(|(polled, &waiting)| polled.waiting = waiting);
    }

    #[test]
    fn queue_is_relative_and_load_aware_absolute() {
        let asked = ids(0, 32);
        let mut bench = Bench::new(only(Scorer::Queue), 3);
        waiting(&mut bench, &[7, 7, 7]);
        assert_eq!((bench.pick(&asked), scores(&bench)), (0, vec![1.0, 1.0, 1.0]));
        waiting(&mut bench, &[8, 7, 7]);
        assert_eq!((bench.pick(&asked), scores(&bench)), (1, vec![0.0, 1.0, 1.0]));
        waiting(&mut bench, &[10, 4, 7]);
        assert_eq!((bench.pick(&asked), scores(&bench)), (1, vec![0.0, 1.0, 0.5]));
        let mut bench = Bench::new(only(Scorer::LoadAware), 3);
        waiting(&mut bench, &[0, 64, 500]);
        assert_eq!((bench.pick(&asked), scores(&bench)), (0, vec![0.5, 0.25, 0.0]));
    }

    #[test]
    fn kv_util_is_what_is_free() {
        let mut bench = Bench::new(only(Scorer::KvUtil), 3);
        bench.polled.iter_mut().zip([0.5, 0.25, 1.0]).for_each(|(polled, usage)| polled.kv_usage = usage);
        assert_eq!((bench.pick(&ids(0, 32)), scores(&bench)), (1, vec![0.5, 0.75, 0.0]));
    }

    #[test]
    fn prefix_is_the_share_held() {
        let (asked, short) = (ids(0, 100), ids(0, 9));
        let mut bench = Bench::new(only(Scorer::Prefix), 3);
        bench.stored(1, &asked, 2);
        bench.stored(2, &asked, 3);
        // Six whole blocks.
        assert_eq!((bench.pick(&asked), scores(&bench)), (2, vec![0.0, 0.333333, 0.5]));
        assert_eq!(bench.choice.expected_hit, 48);
        assert_eq!((bench.pick(&short), scores(&bench)), (0, vec![0.0, 0.0, 0.0]), "not one whole block");
    }

    #[test]
    fn active_requests_are_relative_to_the_busiest() {
        let mut bench = Bench::new(only(Scorer::ActiveRequest), 4).requests(&[4, 1, 0, 2]);
        assert_eq!((bench.pick(&ids(0, 32)), scores(&bench)), (2, vec![0.0, 0.75, 1.0, 0.5]));
        // The busiest of those that are left: with one replica, and that one busy, 0.
        bench.replicas(&[1]);
        bench.pick(&ids(0, 32));
        assert_eq!(scores(&bench), [0.0]);
    }

    #[test]
    fn token_load_counts_mine_without_what_is_held() {
        let asked = ids(0, 160);
        let mut bench = Bench::new(only(Scorer::TokenLoad).with("token_limit", 1000.0), 4);
        bench.local.iter_mut().zip([340, 440, 900, 0]).for_each(|(local, tokens)| local.prefill_tokens = tokens);
        bench.stored(1, &asked, 10);
        // 340 + 160 = 500; 440 + 1 = 441; 900 + 160 is over the limit; 160.
        assert_eq!((bench.pick(&asked), scores(&bench)), (3, vec![0.5, 0.559, 0.0, 0.84]));
    }

    #[test]
    fn adapters_are_held_or_loadable_or_on_their_way_or_not() {
        let mut bench = Bench::new(only(Scorer::LoraAffinity), 5);
        let polled = |adapters: &[u32], waiting: &[u32]| PolledSignals {
            adapters: adapters.to_vec(),
            adapters_waiting: waiting.to_vec(),
            adapter_slots: 2,
            ..PolledSignals::default()
        };
        bench.polled =
            vec![polled(&[1, 2], &[]), polled(&[1], &[3]), polled(&[1], &[]), polled(&[2, 7], &[]), polled(&[], &[7])];
        let asked = ids(0, 32);
        let request = |adapter| request_for(&asked, adapter);
        assert_eq!((bench.choose(request(Some(7))), scores(&bench)), (3, vec![0.0, 0.0, 0.8, 1.0, 0.8]));
        // A free slot counts for more than being loaded already; being loaded counts where all slots are taken.
        assert_eq!((bench.choose(request(Some(3))), scores(&bench)), (2, vec![0.0, 0.6, 0.8, 0.0, 0.8]));
        // As in the source, a request for the base model is one for an adapter that nobody holds.
        bench.choose(request(None));
        assert_eq!(scores(&bench), [0.0, 0.0, 0.8, 0.0, 0.8]);
    }

    fn request_for(prompt: &Prompt, adapter: Option<u32>) -> super::super::RequestView<'_> {
        super::super::RequestView { adapter, ..Bench::request(prompt) }
    }

    #[test]
    fn cold_requests_take_turns() {
        let mut bench = Bench::new(only(Scorer::NoHitLru), 4);
        bench.replicas(&[0, 1, 2]);
        // Never used comes first, in order; then whoever took one longest ago.
        let sent: Vec<u32> = (0..4).map(|nth| bench.send(&ids(1000 * nth, 32))).collect();
        assert_eq!(sent, [0, 1, 2, 0]);
        assert_eq!(scores(&bench), [1.0, 0.5, 0.0], "as the fourth found them");
        bench.reload(only(Scorer::NoHitLru));
        bench.pick(&ids(5000, 32));
        assert_eq!(scores(&bench), [0.0, 1.0, 0.5]);
        // A request that somebody holds something of neither ranks nor counts.
        bench.stored(2, &ids(0, 32), 1);
        assert_eq!((bench.send(&ids(0, 32)), scores(&bench)), (0, vec![0.5, 0.5, 0.5]));
        bench.replicas(&[0, 1, 2, 3]);
        bench.pick(&ids(5000, 32));
        assert_eq!(scores(&bench), [0.0, 0.666667, 0.333333, 1.0]);
    }

    #[test]
    fn sessions_stay_bound_for_a_while() {
        let spec = only(Scorer::Session).with("session_ttl_s", 10.0);
        let mut bench = Bench::new(spec.clone(), 3);
        let asked = ids(0, 32);
        let of = |session| super::super::RequestView { session, ..Bench::request(&asked) };
        bench.replicas(&[2]);
        bench.send_request(of(Some(5)));
        bench.replicas(&[0, 1, 2]);
        bench.reload(spec);
        assert_eq!((bench.choose(of(Some(5))), scores(&bench)), (2, vec![0.0, 0.0, 1.0]));
        assert_eq!((bench.choose(of(Some(6))), bench.choose(of(None))), (0, 0));
        bench.now = Nanos::from_secs(10.0);
        assert_eq!(bench.choose(of(Some(5))), 0, "forgotten after ten seconds");
    }

    #[test]
    fn saturated_replicas_are_left_out_unless_all_are() {
        let mut bench = Bench::new(only(Scorer::KvUtil).with("saturation", 1.0), 3);
        let asked = ids(0, 32);
        waiting(&mut bench, &[5, 4, 4]);
        bench.polled.iter_mut().zip([0.0, 0.8, 0.7]).for_each(|(polled, usage)| polled.kv_usage = usage);
        assert_eq!(bench.pick(&asked), 2, "five waiting, and 0.8 of the blocks, are saturation 1");
        assert!(bench.scores[0].is_nan() && bench.scores[1].is_nan());
        waiting(&mut bench, &[5, 5, 5]);
        assert_eq!(bench.pick(&asked), 0, "all are: nobody is left out");
        // Old metrics count as saturated.
        waiting(&mut bench, &[0, 0, 0]);
        bench.now = Nanos(200_000_001);
        bench.polled[1].at = Some(Nanos(1));
        bench.polled[1].kv_usage = 0.79;
        assert_eq!(bench.pick(&asked), 1);
    }

    #[test]
    fn it_reads_what_its_weights_need() {
        let reads = |spec| Bench::new(spec, 1).policy.reads();
        let tiers = [
            (Scorer::Queue, Reads::POLLED),
            (Scorer::KvUtil, Reads::POLLED),
            (Scorer::LoadAware, Reads::POLLED),
            (Scorer::LoraAffinity, Reads::POLLED),
            (Scorer::ActiveRequest, Reads::LOCAL),
            (Scorer::TokenLoad, Reads::LOCAL.and(Reads::EVENTS)),
            (Scorer::Prefix, Reads::EVENTS),
            (Scorer::NoHitLru, Reads::EVENTS),
            (Scorer::Session, Reads::NOTHING),
        ];
        for (scorer, tier) in tiers {
            assert_eq!(reads(only(scorer)), tier, "{scorer:?}");
        }
        let own = only(Scorer::Prefix).with("prefix_index", 0.0);
        assert_eq!(reads(own.clone()), Reads::POLLED, "the block count");
        assert_eq!(reads(own.with("engine_capacity", 0.0)), Reads::NOTHING);
        let filtered = only(Scorer::Session).with("affinity_threshold", 0.5);
        assert_eq!(reads(filtered.clone()), Reads::LOCAL.and(Reads::EVENTS));
        assert_eq!(reads(filtered.with("valve_s", 0.0)), Reads::EVENTS);
        assert_eq!(reads(only(Scorer::Session).with("saturation", 1.0)), Reads::POLLED);
    }

    #[test]
    fn its_defaults_are_llm_ds() {
        let asked = ids(0, 200);
        let mut benches = [NAME, "llm_d_default"].map(|name| Bench::of(name, 3));
        for nth in 0..40u32 {
            let picks = benches.each_mut().map(|bench| {
                for (at, polled) in bench.polled.iter_mut().enumerate() {
                    (polled.waiting, polled.kv_usage) = (nth * (at as u32 + 3) % 5, f64::from(nth % 7) / 7.0);
                }
                let other = prompt(&[nth; 90]);
                (bench.send(if nth % 3 == 0 { &asked } else { &other }), bench.scores.clone())
            });
            assert_eq!(picks[0], picks[1]);
        }
    }

    #[test]
    fn damaged_states_are_refused() {
        let mut bench = Bench::new(PolicySpec::named(NAME), 2);
        for state in [
            "null",
            "{}",
            "{\"prefixes\":\"A\",\"sessions\":[],\"cold\":[-1]}",
            "{\"prefixes\":1,\"sessions\":[],\"cold\":[]}",
        ] {
            let state = serde_json::from_str(state).unwrap_or_default();
            assert!(bench.policy.restore(&state).is_err(), "{state}");
        }
    }
}
