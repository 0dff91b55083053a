//! The blend: how much of the prompt a replica holds, less β times how loaded it is.
//!
//! `score = match − β · load ÷ mean (+ bonus where it holds the request's adapter)`, the highest wins. Match is the share of the prompt that the replica
//! is believed to hold. Load is tokens in flight, prompt and remaining output budget, so that long requests count as such. The mean is over the
//! candidates, but no less than this request's own tokens: below one request each, "so many times the mean" is noise, and a single request in
//! flight would look like a melting replica (smg #2150 is that mistake). The production stack's `loadaware` floors its mean at one request for the
//! same reason.

use super::approx_index::{ApproxIndex, Touch};
use super::params::{self, Params};
use super::registry::Entry;
use super::scoring::prefixes::{Prefixes, Source};
use super::ties::Ties;
use super::{Choice, Policy, RequestView, RouteContext};
use crate::telemetry::Reads;
use serde_json::Value;
use servelab_engine::Nanos;
use servelab_engine::random::Stream;
use servelab_spec::catalog::{Family, PolicyInfo};

const NAME: &str = "blend";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> PolicyInfo {
    let mut params = vec![
        // ½: a replica that holds the whole prompt keeps it until it carries two mean loads more than another. That is the same point at which the
        // guard of prefix affinity acts, approached by degrees: one that holds half the prompt keeps it for one mean load.
        params::number(
            "beta",
            "β",
            "per mean load",
            0.5,
            (0.0, 10.0, 0.05),
            "What a mean load costs against holding the whole prompt. 0: pure affinity. Large: least loaded.",
        ),
        // ¼: half a mean load. Loading an adapter takes as long as computing a few hundred tokens, less than most prompts that replicas hold.
        params::number(
            "adapter_bonus",
            "Adapter bonus",
            "",
            0.25,
            (0.0, 10.0, 0.05),
            "What holding the request's adapter is worth against holding the whole prompt.",
        ),
    ];
    params.extend(Prefixes::params());
    params.push(Ties::Random.param());
    PolicyInfo {
        name: NAME.into(),
        label: "Prefix match − β · load".into(),
        family: Family::CacheAware,
        project: String::new(),
        reads_prompt: true,
        summary: "Weighs the share of the prompt that a replica holds against its load in multiples of the mean.".into(),
        reads: "The whole prompt, for an index of this router's own dispatches. Router-local: tokens in flight. Polled: adapters held, and the engine's block count.".into(),
        compares: "Match − β · relative load, plus the adapter bonus; the highest wins.".into(),
        fails: "One β does not fit all loads: too small and a popular prefix melts its replica, too large and prefixes scatter. Load relative to the mean says nothing of how near saturation the fleet is. The index is a guess, and each router has its own.".into(),
        params,
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    Box::new(Blend {
        beta: params.number("beta"),
        adapter_bonus: params.number("adapter_bonus"),
        // Entries of one block each, forgotten from the end of a chain as engines do: nothing binds this index to be coarser than what it models.
        prefixes: Prefixes::new(Source::Approximate(ApproxIndex::new(1, Touch::LeafFirst)), params),
        ties: Ties::of(params),
    })
}

struct Blend {
    beta: f64,
    adapter_bonus: f64,
    prefixes: Prefixes,
    ties: Ties,
}

impl Policy for Blend {
    fn reads(&self) -> Reads {
        let adapters = if self.adapter_bonus > 0.0 { Reads::POLLED } else { Reads::NOTHING };
        Reads::LOCAL.and(adapters).and(self.prefixes.reads())
    }

    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, stream: &mut Stream) -> Choice {
        self.prefixes.look_up(ctx);
        let (local, prompt) = (ctx.local(), ctx.request.prompt);
        let mean = local.iter().map(|local| local.tokens).sum::<u64>() as f64 / local.len() as f64;
        let mean = mean.max(f64::from(prompt.len) + f64::from(ctx.request.max_tokens));
        for (at, local) in local.iter().enumerate() {
            let holds = |adapter| self.adapter_bonus > 0.0 && ctx.polled(at).adapters.contains(&adapter);
            let bonus = if ctx.request.adapter.is_some_and(holds) { self.adapter_bonus } else { 0.0 };
            scores.push(self.prefixes.share(at) - self.beta * (local.tokens as f64 / mean) + bonus);
        }
        let at = self.ties.most(scores, stream);
        self.prefixes.chosen(ctx, at);
        Choice::new(ctx.candidates[at], "most of the prompt for its load")
            .expecting(self.prefixes.tokens(at, prompt.len))
    }

    fn dispatched(&mut self, _now: Nanos, request: &RequestView<'_>, replica: u32) {
        self.prefixes.dispatched(request.prompt, replica);
    }

    fn replicas_changed(&mut self, ready: &[u32]) {
        self.prefixes.keep(ready);
    }

    fn save(&self) -> Value {
        self.prefixes.save()
    }

    fn restore(&mut self, state: &Value) -> Result<(), String> {
        self.prefixes.restore(state)
    }
}

#[cfg(test)]
mod tests {
    use super::super::RequestView;
    use super::super::testing::{Bench, prompt};
    use super::*;
    use servelab_engine::Prompt;
    use servelab_spec::experiment::PolicySpec;

    fn spec() -> PolicySpec {
        PolicySpec::named(NAME).with("ties", 0.0)
    }

    fn ids(from: u32, len: u32) -> Prompt {
        prompt(&(from..from + len).collect::<Vec<_>>())
    }

    fn tokens(bench: &mut Bench, tokens: &[u64]) {
        bench.local.iter_mut().zip(tokens).for_each(|(local, &tokens)| local.tokens = tokens);
    }

    /// Of 160 tokens, ten blocks, and 40 tokens of output; β = ½.
    #[test]
    fn match_weighs_against_relative_load() {
        let asked = ids(0, 160);
        let of = |asked| RequestView { max_tokens: 40, ..Bench::request(asked) };
        let mut bench = Bench::new(spec(), 4);
        bench.replicas(&[2]);
        bench.send_request(of(&asked));
        bench.replicas(&[0, 1, 2, 3]);
        // One request in flight, this one's size: relative load 1, not 4, though the mean is a quarter of it. Least-load would go elsewhere.
        assert_eq!((bench.choose(of(&asked)), &bench.scores[..]), (2, &[0.0, 0.0, 0.5, 0.0][..]));
        assert_eq!(bench.choice.expected_hit, 159);
        // Two of them: a tie of nothing held and nothing in flight with all held and two in flight.
        tokens(&mut bench, &[0, 0, 400, 0]);
        assert_eq!((bench.choose(of(&asked)), &bench.scores[..]), (0, &[0.0, 0.0, 0.0, 0.0][..]));
        // Above one request each the mean counts: 1000, of which the holder has 2.5 and the least loaded 0.4, a gap of more than two.
        tokens(&mut bench, &[600, 500, 2500, 400]);
        assert_eq!((bench.choose(of(&asked)), bench.choice.expected_hit), (3, 0));
        // A gap of one and a half: a guard at twice the mean would leave here.
        tokens(&mut bench, &[700, 600, 2100, 600]);
        assert_eq!((bench.choose(of(&asked)), &bench.scores[..]), (2, &[-0.35, -0.3, 1.0 - 1.05, -0.3][..]));
        // Half held is worth one mean load.
        let half: Vec<u32> = (0..80).chain([9; 80]).collect();
        let half = prompt(&half);
        assert_eq!((bench.choose(of(&half)), bench.scores[2]), (1, 0.5 - 1.05));
        bench.reload(spec());
        assert_eq!(bench.choose(of(&asked)), 2);
    }

    #[test]
    fn beta_goes_from_affinity_to_least_load() {
        let asked = ids(0, 160);
        for (beta, expected) in [(0.0, 1), (0.4, 1), (0.6, 0), (10.0, 0)] {
            let mut bench = Bench::new(spec().with("beta", beta), 2);
            bench.replicas(&[1]);
            bench.send(&asked);
            bench.replicas(&[0, 1]);
            // 1 − β · 1.95 against −β · 0.05.
            tokens(&mut bench, &[100, 3900]);
            assert_eq!(bench.pick(&asked), expected, "β = {beta}");
        }
    }

    #[test]
    fn a_held_adapter_is_worth_its_bonus() {
        let asked = ids(0, 160);
        let of = |adapter| RequestView { adapter, ..Bench::request(&asked) };
        let mut bench = Bench::new(spec(), 3);
        bench.polled[2].adapters = vec![3, 7];
        assert_eq!((bench.choose(of(Some(7))), &bench.scores[..]), (2, &[0.0, 0.0, 0.25][..]));
        assert_eq!((bench.choose(of(Some(4))), bench.choose(of(None))), (0, 0));
        // Half a mean load outweighs it: 168 tokens are this request's own.
        tokens(&mut bench, &[0, 0, 85]);
        assert_eq!(bench.choose(of(Some(7))), 0);
        assert_eq!(bench.policy.reads(), Reads::LOCAL.and(Reads::POLLED));
        let neither = spec().with("adapter_bonus", 0.0).with("engine_capacity", 0.0);
        assert_eq!(Bench::new(neither, 1).policy.reads(), Reads::LOCAL);
    }

    /// An engine of ten blocks that served two prompts of ten holds the second and nothing of the first; of a prompt of six after that, all of it and
    /// the beginning of the second.
    #[test]
    fn the_index_forgets_as_engines_do() {
        let mut bench = Bench::new(spec(), 1);
        bench.polled[0].blocks = 10;
        for (from, len) in [(0, 160), (1000, 160), (2000, 96)] {
            bench.send(&ids(from, len));
        }
        let expected = [(0, 160, 0), (1000, 160, 64), (2000, 96, 95)];
        for (from, len, held) in expected {
            bench.pick(&ids(from, len));
            assert_eq!(bench.choice.expected_hit, held, "{from}");
        }
        assert!(bench.policy.restore(&Value::from(1)).is_err());
    }
}
