//! Power of two choices: of two replicas drawn by lot, the one with less to do.
//!
//! Two samples instead of one shorten the longest queue from ln n/ln ln n to ln ln n/ln 2 (Azar et al. 1994, Mitzenmacher 1996), and since each
//! decision looks at two replicas only, routers that know little or know it late do not all run to the same one. SGLang's gateway
//! (`policies/power_of_two.rs`) compares the tokens that engines reported at the latest poll, and request counts where either has none.

use super::params::{self, Params};
use super::registry::Entry;
use super::{Choice, Policy, RouteContext};
use crate::telemetry::Reads;
use servelab_engine::random::Stream;
use servelab_spec::catalog::{Family, PolicyInfo};

const NAME: &str = "power_of_two";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> PolicyInfo {
    PolicyInfo {
        name: NAME.into(),
        label: "Power of two choices".into(),
        family: Family::Plain,
        project: String::new(),
        reads_prompt: false,
        summary: "Draws two replicas and takes the one with less in flight.".into(),
        reads: "Router-local: requests or tokens in flight on the two. As SGLang's gateway has it, polled: tokens in the engine at the latest scrape. Not the prompt's content.".into(),
        compares: "What is measured, on the two drawn; the less wins, the first drawn of equals. The others are not looked at.".into(),
        fails: "Leaves a better replica unused when it is not among the two: on a handful of replicas the shortest queue is better. Blind to caches.".into(),
        params: vec![params::choice(
            "measure",
            "Compares",
            0,
            &["requests in flight", "tokens in flight", "tokens polled (SGLang gateway)"],
            "What is compared. Polled tokens are as old as the scrape, and requests in flight stand in until both replicas have been scraped.",
        )],
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    Box::new(PowerOfTwo {
        measure: match params.integer("measure") {
            0 => Measure::Requests,
            1 => Measure::Tokens,
            _ => Measure::PolledTokens,
        },
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Measure {
    Requests,
    Tokens,
    PolledTokens,
}

struct PowerOfTwo {
    measure: Measure,
}

impl PowerOfTwo {
    /// What is compared at two positions: the same kind of number for both.
    fn loads(&self, ctx: &RouteContext<'_>, at: [usize; 2]) -> [u64; 2] {
        let local = ctx.local();
        match self.measure {
            Measure::Tokens => at.map(|at| local[at].tokens),
            Measure::PolledTokens if at.iter().all(|&at| ctx.polled(at).at.is_some()) => {
                at.map(|at| ctx.polled(at).tokens)
            }
            Measure::Requests | Measure::PolledTokens => at.map(|at| u64::from(local[at].requests)),
        }
    }
}

impl Policy for PowerOfTwo {
    fn reads(&self) -> Reads {
        match self.measure {
            Measure::Requests | Measure::Tokens => Reads::LOCAL,
            Measure::PolledTokens => Reads::LOCAL.and(Reads::POLLED),
        }
    }

    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, stream: &mut Stream) -> Choice {
        let n = ctx.candidates.len() as u64;
        if n == 1 {
            return Choice::new(ctx.candidates[0], "the only one");
        }
        let first = stream.below(n);
        let second = (first + 1 + stream.below(n - 1)) % n;
        let at = [first as usize, second as usize];
        let loads = self.loads(ctx, at);
        scores.resize(ctx.candidates.len(), f64::NAN);
        at.iter().zip(loads).for_each(|(&at, load)| scores[at] = load as f64);
        let chosen = if loads[0] <= loads[1] { at[0] } else { at[1] };
        Choice::new(ctx.candidates[chosen], "less in flight of two drawn")
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, prompt};
    use super::NAME;
    use crate::telemetry::{LocalSignals, PolledSignals};
    use servelab_spec::experiment::PolicySpec;

    fn bench(measure: f64, loads: &[(u32, u64, Option<u64>)]) -> Bench {
        let mut bench = Bench::new(PolicySpec::named(NAME).with("measure", measure), loads.len() as u32);
        for (at, &(requests, tokens, polled)) in loads.iter().enumerate() {
            bench.local[at] = LocalSignals { requests, tokens, ..LocalSignals::default() };
            let tokens = polled.unwrap_or(0);
            bench.polled[at] = PolledSignals { at: polled.map(|_| bench.now), tokens, ..PolledSignals::default() };
        }
        bench
    }

    /// With two replicas both are drawn, so the decision is known: by hand, and the four cases of the gateway's own file.
    #[test]
    fn of_two_the_less_loaded_by_each_measure() {
        let busy_short = (10, 300, Some(1_000));
        let few_long = (2, 9_000, Some(100_000));
        for (measure, a, b, chosen) in [
            (0.0, busy_short, few_long, 1),
            (1.0, busy_short, few_long, 0),
            (2.0, busy_short, few_long, 0),
            // One not scraped, or neither: request counts, although the other's tokens are known.
            (2.0, busy_short, (2, 9_000, None), 1),
            (2.0, (10, 300, None), few_long, 1),
            (2.0, (5, 0, None), (3, 0, None), 1),
        ] {
            let mut bench = bench(measure, &[a, b]);
            for _ in 0..20 {
                assert_eq!(bench.pick(&prompt(&[1])), chosen, "{measure} {a:?} {b:?}");
            }
        }
    }

    /// The replica ranked r of n (0 the best) wins the pairs with the n − 1 − r worse ones: of 6 pairs of four, 3, 2, 1 and 0.
    #[test]
    fn each_pair_is_as_likely_as_another() {
        let mut bench = bench(0.0, &[(3, 0, None), (1, 0, None), (7, 0, None), (2, 0, None)]);
        let counts = bench.counts(&prompt(&[1]), 6000);
        for (count, pairs) in counts.iter().zip([1, 3, 0, 2]) {
            // Standard deviation at most 39.
            assert!(count.abs_diff(pairs * 1000) < 170 * pairs.min(1) + 1, "{counts:?}");
        }
        assert_eq!(bench.scores.iter().filter(|score| !score.is_nan()).count(), 2);
        // Equal ones: the first drawn, so all alike.
        let counts = self::bench(0.0, &[(1, 0, None); 4]).counts(&prompt(&[1]), 4000);
        assert!(counts.iter().all(|count| count.abs_diff(1000) < 123), "{counts:?}");
    }

    #[test]
    fn one_candidate_is_taken() {
        let mut bench = bench(2.0, &[(9, 9, None), (0, 0, None)]);
        bench.replicas(&[0]);
        assert_eq!(bench.pick(&prompt(&[1])), 0);
    }
}
