//! Random: any replica, each as likely as the others. The baseline of theory (every replica is an M/G/1 of its own), and what a Kubernetes
//! Service does for each connection.

use super::params::Params;
use super::registry::Entry;
use super::{Choice, Policy, RouteContext};
use servelab_engine::random::Stream;
use servelab_spec::catalog::{Family, PolicyInfo};

const NAME: &str = "random";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> PolicyInfo {
    PolicyInfo {
        name: NAME.into(),
        label: "Random".into(),
        family: Family::Plain,
        project: String::new(),
        reads_prompt: false,
        summary: "Sends each request to a replica drawn by lot, each as likely as the others.".into(),
        reads: "Nothing.".into(),
        compares: String::new(),
        fails: "Requests pile up on some replicas by chance while others idle, and every replica computes every prefix. This is what a plain Kubernetes Service gives, per connection even.".into(),
        params: vec![],
    }
}

fn build(_params: &Params) -> Box<dyn Policy> {
    Box::new(Random)
}

struct Random;

impl Policy for Random {
    fn route(&mut self, ctx: &RouteContext<'_>, _scores: &mut Vec<f64>, stream: &mut Stream) -> Choice {
        let at = stream.below(ctx.candidates.len() as u64) as usize;
        Choice::new(ctx.candidates[at], "drawn by lot")
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, prompt};
    use super::NAME;

    #[test]
    fn every_candidate_is_as_likely_as_another() {
        let mut bench = Bench::of(NAME, 6).requests(&[0, 9, 0, 0, 0, 0]);
        bench.replicas(&[0, 1, 3, 5]);
        let counts = bench.counts(&prompt(&[1]), 4000);
        assert_eq!((counts[2], counts[4]), (0, 0));
        // 1000 ± 4.5 standard deviations of 27.4, for each of four.
        assert!([0, 1, 3, 5].iter().all(|&at| counts[at].abs_diff(1000) < 123), "{counts:?}");
    }
}
