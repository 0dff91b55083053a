//! Least outstanding tokens: the replica with the least work in flight.
//!
//! Outstanding is prompt + output budget − tokens produced so far, over everything in flight there. The budget is
//! `max_tokens`: nobody knows the true length. With the polled signal it is what the engine said of itself at the latest scrape: the textbook case of
//! old information, where everything that arrives between two scrapes goes to the same replica (Mitzenmacher 2000).

use super::params::{self, Params};
use super::registry::Entry;
use super::ties::Ties;
use super::{Choice, Policy, RouteContext};
use crate::telemetry::Reads;
use servelab_engine::random::Stream;
use servelab_spec::catalog::{Family, PolicyInfo};

const NAME: &str = "least_tokens";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> PolicyInfo {
    PolicyInfo {
        name: NAME.into(),
        label: "Least outstanding tokens".into(),
        family: Family::Plain,
        project: String::new(),
        reads_prompt: false,
        summary: "Sends each request to the replica with the fewest tokens in flight: prompt plus remaining output budget.".into(),
        reads: "Router-local: tokens this router has in flight on each replica. Or polled: tokens in the engine at the latest scrape. Not the prompt's content.".into(),
        compares: "Tokens in flight, or in the engine; the fewest win.".into(),
        fails: "Blind to caches: spreads a tenant over all replicas, and each computes the prefix again. Budgets far above true lengths mislead it. With the polled signal a whole scrape period of requests goes to whoever was least loaded at its start (AIBrix #646).".into(),
        params: vec![
            params::choice("signal", "Signal", 0, &["router-local", "polled"],
                "Which tokens count: those this router has in flight, budgets included, or those in the engine at the latest scrape."),
            Ties::Lowest.param(),
        ],
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    Box::new(LeastTokens { polled: params.integer("signal") == 1, ties: Ties::of(params) })
}

struct LeastTokens {
    polled: bool,
    ties: Ties,
}

impl Policy for LeastTokens {
    fn reads(&self) -> Reads {
        if self.polled { Reads::POLLED } else { Reads::LOCAL }
    }

    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, stream: &mut Stream) -> Choice {
        if self.polled {
            let tokens = (0..ctx.candidates.len()).map(|at| ctx.polled(at).tokens);
            scores.extend(tokens.clone().map(|tokens| tokens as f64));
            let at = self.ties.least(tokens, stream);
            return Choice::new(ctx.candidates[at], "fewest tokens in the engine at the latest scrape");
        }
        scores.extend(ctx.local().iter().map(|signals| signals.tokens as f64));
        let at = self.ties.least(ctx.local().iter().map(|signals| signals.tokens), stream);
        Choice::new(ctx.candidates[at], "fewest outstanding tokens")
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, prompt};
    use servelab_spec::experiment::PolicySpec;

    #[test]
    fn takes_the_least_loaded_and_the_lowest_of_equals() {
        let mut bench = Bench::of("least_tokens", 6).tokens(&[40, 7, 9, 7, 8, 1]);
        bench.replicas(&[0, 1, 2, 3]);
        assert_eq!(bench.pick(&prompt(&[1])), 1);
        assert_eq!(bench.scores, [40.0, 7.0, 9.0, 7.0]);
        bench.replicas(&[2, 5]);
        assert_eq!(bench.pick(&prompt(&[1])), 5, "ids, not positions");
    }

    /// What was sent since the scrape does not count, nor budgets: everything goes to the same replica.
    #[test]
    fn polled_tokens_are_those_of_the_latest_scrape() {
        let spec = PolicySpec::named("least_tokens").with("signal", 1.0);
        let mut bench = Bench::new(spec, 3).tokens(&[0, 0, 500]);
        bench.polled.iter_mut().zip([30, 40, 20]).for_each(|(polled, tokens)| polled.tokens = tokens);
        assert!((0..20).all(|_| bench.send(&prompt(&[1])) == 2));
        assert_eq!(bench.scores, [30.0, 40.0, 20.0]);
        bench.polled[2].tokens = 900;
        assert_eq!(bench.pick(&prompt(&[1])), 0);
    }

    #[test]
    fn random_ties_reach_every_equal() {
        let mut bench = Bench::new(PolicySpec::named("least_tokens").with("ties", 1.0), 4).tokens(&[5, 5, 9, 5]);
        let hits = bench.counts(&prompt(&[1]), 400);
        assert_eq!(hits[2], 0);
        assert!([0, 1, 3].iter().all(|&at| hits[at] > 90), "{hits:?}");
    }
}
