//! Least KV cache: the replica whose KV blocks are least in use, as it said when it was last asked.
//!
//! AIBrix's `least-kv-cache`, which adds the GPU's and the CPU's share of used blocks; engines that recompute preempted requests, ours
//! included, have no blocks on the CPU. It keeps whoever is *not worse* than the best so far, so on a tie the last replica wins: an idle fleet
//! sends everything there until the next scrape. Newer versions score all replicas and draw among equals.

use super::params::Params;
use super::registry::Entry;
use super::ties::Ties;
use super::{Choice, Policy, RouteContext};
use crate::telemetry::Reads;
use servelab_engine::random::Stream;
use servelab_spec::catalog::{Family, PolicyInfo};

const NAME: &str = "least_kv_cache";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> PolicyInfo {
    PolicyInfo {
        name: NAME.into(),
        label: "Least KV cache".into(),
        family: Family::Plain,
        project: "AIBrix".into(),
        reads_prompt: false,
        summary: "Sends each request to the replica with the smallest share of KV blocks in use at the latest scrape.".into(),
        reads: "Polled: the share of KV blocks in use. Not the prompt's content, and nothing of its own.".into(),
        compares: "Share of KV blocks in use, 0 to 1; the smallest wins.".into(),
        fails: "Between two scrapes every request goes to the same replica, and on an idle fleet to the last one. Waiting requests hold no block, so a full queue looks like a small one.".into(),
        params: vec![Ties::Highest.param()],
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    Box::new(LeastKvCache { ties: Ties::of(params) })
}

struct LeastKvCache {
    ties: Ties,
}

impl Policy for LeastKvCache {
    fn reads(&self) -> Reads {
        Reads::POLLED
    }

    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, stream: &mut Stream) -> Choice {
        scores.extend((0..ctx.candidates.len()).map(|at| ctx.polled(at).kv_usage));
        // Shares are not negative, and such numbers are in order of their bits.
        let at = self.ties.least(scores.iter().map(|usage| usage.to_bits()), stream);
        Choice::new(ctx.candidates[at], "smallest share of KV blocks in use")
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, prompt};
    use super::NAME;
    use servelab_spec::experiment::PolicySpec;

    fn bench(usage: &[f64]) -> Bench {
        let mut bench = Bench::of(NAME, usage.len() as u32);
        bench.polled.iter_mut().zip(usage).for_each(|(polled, &usage)| polled.kv_usage = usage);
        bench
    }

    /// The canary of an idle fleet: everything goes to the last replica, whatever this router has already sent there.
    #[test]
    fn the_last_of_an_idle_fleet_gets_everything_until_the_next_scrape() {
        let mut bench = bench(&[0.0; 4]);
        assert!((0..50).all(|_| bench.send(&prompt(&[1])) == 3));
        bench.polled[3].kv_usage = 0.4;
        assert_eq!(bench.pick(&prompt(&[1])), 2);
    }

    #[test]
    fn the_smallest_share_wins_and_waiting_requests_do_not_count() {
        let mut bench = bench(&[0.5, 0.25, 0.7, 0.25, 0.3]);
        assert_eq!(bench.pick(&prompt(&[1])), 3, "the last of equals");
        assert_eq!(bench.scores, [0.5, 0.25, 0.7, 0.25, 0.3]);
        bench.polled[3].waiting = 100;
        assert_eq!(bench.pick(&prompt(&[1])), 3);
        bench.replicas(&[0, 1, 2]);
        assert_eq!(bench.pick(&prompt(&[1])), 1);
        let mut first = Bench::new(PolicySpec::named(NAME).with("ties", 0.0), 3);
        assert_eq!(first.pick(&prompt(&[1])), 0);
    }
}
