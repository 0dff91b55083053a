//! Least outstanding tokens: the replica with the least work in flight.
//!
//! Outstanding is prompt + output budget − tokens produced so far, over everything in flight there. The budget is
//! `max_tokens`: nobody knows the true length.

use super::params::Params;
use super::registry::Entry;
use super::ties::Ties;
use super::{Choice, Policy, RouteContext};
use crate::telemetry::Tier;
use servelab_engine::random::Stream;
use servelab_spec::catalog::PolicyInfo;
use servelab_spec::experiment::PolicySpec;

const NAME: &str = "least_tokens";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> PolicyInfo {
    PolicyInfo {
        name: NAME.into(),
        label: "Least outstanding tokens".into(),
        summary: "Sends each request to the replica with the fewest tokens in flight: prompt plus remaining output budget.".into(),
        reads: "Router-local: tokens this router has in flight on each replica. Not the prompt's content.".into(),
        fails: "Blind to caches: spreads a tenant over all replicas, and each computes the prefix again. Budgets far above true lengths mislead it.".into(),
        params: vec![Ties::param()],
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    Box::new(LeastTokens { ties: Ties::from_index(params.integer(Ties::NAME)) })
}

struct LeastTokens {
    ties: Ties,
}

impl Policy for LeastTokens {
    fn name(&self) -> &'static str {
        NAME
    }

    fn spec(&self) -> PolicySpec {
        PolicySpec::named(NAME).with(Ties::NAME, self.ties.index())
    }

    fn reads(&self) -> Option<Tier> {
        Some(Tier::RouterLocal)
    }

    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, stream: &mut Stream) -> Choice {
        scores.extend(ctx.local().iter().map(|signals| signals.tokens as f64));
        let at = self.ties.least(ctx.local().iter().map(|signals| signals.tokens), stream);
        Choice { replica: ctx.candidates[at], why: "fewest outstanding tokens" }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{prompt, route};
    use super::*;

    #[test]
    fn takes_the_least_loaded_and_the_lowest_of_equals() {
        let mut policy = LeastTokens { ties: Ties::Lowest };
        let (choice, scores) = route(&mut policy, &prompt(&[1]), &[0, 1, 2, 3], &[40, 7, 9, 7], 0);
        assert_eq!((choice.replica, scores), (1, vec![40.0, 7.0, 9.0, 7.0]));
        assert_eq!(route(&mut policy, &prompt(&[1]), &[2, 5], &[3, 1], 0).0.replica, 5, "ids, not positions");
    }

    #[test]
    fn random_ties_reach_every_equal() {
        let mut policy = LeastTokens { ties: Ties::Random };
        let mut hits = [0; 4];
        for draw in 0..400 {
            let (choice, _) = route(&mut policy, &prompt(&[1]), &[0, 1, 2, 3], &[5, 5, 9, 5], draw);
            hits[choice.replica as usize] += 1;
        }
        assert_eq!(hits[2], 0);
        assert!([0, 1, 3].iter().all(|&at| hits[at] > 90), "{hits:?}");
    }
}
