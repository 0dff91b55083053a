//! Least outstanding requests: the replica with the fewest requests in flight, as this router counts them.
//!
//! With exponential service and one router this is join-the-shortest-queue. AIBrix calls it `least-request` and draws among equals.

use super::params::Params;
use super::registry::Entry;
use super::ties::Ties;
use super::{Choice, Policy, RouteContext};
use crate::telemetry::Reads;
use servelab_engine::random::Stream;
use servelab_spec::catalog::{Family, PolicyInfo};

const NAME: &str = "least_requests";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> PolicyInfo {
    PolicyInfo {
        name: NAME.into(),
        label: "Least outstanding requests".into(),
        family: Family::Plain,
        project: String::new(),
        reads_prompt: false,
        summary: "Sends each request to the replica with the fewest requests in flight.".into(),
        reads: "Router-local: requests this router has in flight on each replica. Not the prompt's content.".into(),
        compares: "Requests in flight; the fewest win.".into(),
        fails: "A long request counts as much as a short one, and caches do not count at all. Each of several routers knows only its own requests (AIBrix #2128); with a fixed order among equals they all start with the same replica.".into(),
        params: vec![Ties::Random.param()],
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    Box::new(LeastRequests { ties: Ties::of(params) })
}

struct LeastRequests {
    ties: Ties,
}

impl Policy for LeastRequests {
    fn reads(&self) -> Reads {
        Reads::LOCAL
    }

    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, stream: &mut Stream) -> Choice {
        scores.extend(ctx.local().iter().map(|signals| f64::from(signals.requests)));
        let at = self.ties.least(ctx.local().iter().map(|signals| signals.requests), stream);
        Choice::new(ctx.candidates[at], "fewest outstanding requests")
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, prompt};
    use super::NAME;
    use crate::telemetry::LocalSignals;
    use servelab_spec::experiment::PolicySpec;

    #[test]
    fn requests_count_and_their_length_does_not() {
        let mut bench = Bench::of(NAME, 3);
        let load = |requests, tokens| LocalSignals { requests, tokens, ..LocalSignals::default() };
        bench.local = vec![load(3, 30), load(2, 9000), load(4, 4)];
        assert_eq!(bench.pick(&prompt(&[1])), 1);
        assert_eq!(bench.scores, [3.0, 2.0, 4.0]);
        bench.replicas(&[0, 2]);
        assert_eq!(bench.pick(&prompt(&[1])), 0);
    }

    #[test]
    fn equals_are_drawn_from_or_taken_in_order() {
        let loads = [2, 5, 2, 2];
        let counts = Bench::of(NAME, 4).requests(&loads).counts(&prompt(&[1]), 300);
        assert_eq!(counts[1], 0);
        // 100 ± 4 standard deviations of 8.2.
        assert!([0, 2, 3].iter().all(|&at| counts[at].abs_diff(100) < 33), "{counts:?}");
        for (ties, first) in [(0.0, 0), (2.0, 3)] {
            let mut bench = Bench::new(PolicySpec::named(NAME).with("ties", ties), 4).requests(&loads);
            assert_eq!(bench.pick(&prompt(&[1])), first);
        }
    }
}
