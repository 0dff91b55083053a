//! Fewest arrivals per second: vLLM production-stack's `priority` routing, and what its other policies fall back to.

use super::params::Params;
use super::qps::QpsWindow;
use super::registry::Entry;
use super::{Choice, Policy, RequestView, RouteContext};
use serde_json::Value;
use servelab_engine::Nanos;
use servelab_engine::random::Stream;
use servelab_spec::catalog::{Family, PolicyInfo};

const NAME: &str = "least_qps";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> PolicyInfo {
    PolicyInfo {
        name: NAME.into(),
        label: "Fewest arrivals per second".into(),
        family: Family::Plain,
        project: "vLLM production-stack".into(),
        reads_prompt: false,
        summary: "Sends each request to the replica to which this router sent the fewest within the last minute.".into(),
        reads: "Its own log of what it sent where, over a window. Not what is still in flight.".into(),
        compares: "Arrivals per second over the window, the fewest win; a replica that never got any wins at once.".into(),
        fails: "Blind to outstanding work: a replica that was sent few but long requests looks idle and gets the next one too (production-stack #1073). A newcomer wins every decision until its window has filled.".into(),
        params: vec![QpsWindow::param()],
    }
}

fn build(params: &Params) -> Box<dyn Policy> {
    Box::new(LeastQps { window: QpsWindow::of(params) })
}

struct LeastQps {
    window: QpsWindow,
}

impl Policy for LeastQps {
    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, _stream: &mut Stream) -> Choice {
        let at = self.window.lowest(ctx.now, ctx.candidates, scores);
        Choice::new(ctx.candidates[at], "fewest arrivals per second")
    }

    fn dispatched(&mut self, now: Nanos, _request: &RequestView<'_>, replica: u32) {
        self.window.sent(now, replica);
    }

    fn save(&self) -> Value {
        serde_json::to_value(&self.window).unwrap_or_default()
    }

    fn restore(&mut self, state: &Value) -> Result<(), String> {
        self.window = serde_json::from_value(state.clone()).map_err(|error| error.to_string())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, prompt};
    use super::*;
    use servelab_spec::experiment::PolicySpec;

    /// The failure report of production-stack #1073: load that is there, but did not arrive lately, does not count.
    #[test]
    fn counts_arrivals_and_not_load() {
        let mut bench = Bench::of(NAME, 3).requests(&[50, 0, 0]);
        let one = prompt(&[1]);
        assert_eq!([0, 1, 2, 3].map(|_| bench.send(&one)), [0, 1, 2, 0], "the first of equals, busy or not");
        bench.now = Nanos::from_secs(30.0);
        assert_eq!([0, 1].map(|_| bench.send(&one)), [1, 2]);
        // 61 s: the first round is forgotten, 0 has none left and 50 in flight.
        bench.now = Nanos::from_secs(61.0);
        assert_eq!(bench.pick(&one), 0);
        assert_eq!(bench.scores, [0.0, 1.0 / 60.0, 1.0 / 60.0]);
        bench.reload(PolicySpec::named(NAME));
        assert_eq!(bench.pick(&one), 0);
        assert!(bench.policy.restore(&Value::from(3)).is_err());
    }

    #[test]
    fn a_newcomer_wins_at_once() {
        let mut bench = Bench::of(NAME, 3);
        bench.replicas(&[0, 1]);
        let one = prompt(&[1]);
        (0..20).for_each(|_| {
            bench.send(&one);
        });
        bench.replicas(&[0, 1, 2]);
        assert_eq!((0..11).filter(|_| bench.send(&one) == 2).count(), 10, "until its window is as full as theirs");
    }
}
