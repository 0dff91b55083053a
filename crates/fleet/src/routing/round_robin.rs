//! Round-robin: each replica in turn, whatever it holds.

use super::params::Params;
use super::registry::Entry;
use super::{Choice, Policy, RouteContext};
use serde_json::Value;
use servelab_engine::random::Stream;
use servelab_spec::catalog::{Family, PolicyInfo};

const NAME: &str = "round_robin";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> PolicyInfo {
    PolicyInfo {
        name: NAME.into(),
        label: "Round-robin".into(),
        family: Family::Plain,
        project: String::new(),
        reads_prompt: false,
        summary: "Sends each request to the next replica in turn.".into(),
        reads: "Nothing.".into(),
        compares: String::new(),
        fails: "Ignores load and content: long requests pile up by chance, and every replica computes every prefix."
            .into(),
        params: vec![],
    }
}

fn build(_params: &Params) -> Box<dyn Policy> {
    Box::new(RoundRobin { last: None })
}

struct RoundRobin {
    /// The replica chosen last. The next one up is taken, so a fleet that grows or shrinks keeps its turn.
    last: Option<u32>,
}

impl Policy for RoundRobin {
    fn route(&mut self, ctx: &RouteContext<'_>, _scores: &mut Vec<f64>, _stream: &mut Stream) -> Choice {
        let next = match self.last {
            Some(last) => ctx.candidates.partition_point(|&replica| replica <= last) % ctx.candidates.len(),
            None => 0,
        };
        let replica = ctx.candidates[next];
        self.last = Some(replica);
        Choice::new(replica, "its turn")
    }

    fn save(&self) -> Value {
        Value::from(self.last)
    }

    fn restore(&mut self, state: &Value) -> Result<(), String> {
        self.last = serde_json::from_value(state.clone()).map_err(|error| error.to_string())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, prompt};
    use super::*;
    use servelab_spec::experiment::PolicySpec;

    fn turns(bench: &mut Bench, n: usize) -> Vec<u32> {
        (0..n).map(|_| bench.send(&prompt(&[1]))).collect()
    }

    #[test]
    fn takes_turns_and_keeps_its_turn_when_replicas_change() {
        let mut bench = Bench::of(NAME, 5);
        bench.replicas(&[0, 1, 2, 3]);
        assert_eq!(turns(&mut bench, 6), [0, 1, 2, 3, 0, 1]);
        bench.replicas(&[0, 3]);
        assert_eq!(turns(&mut bench, 3), [3, 0, 3]);
        bench.replicas(&[0, 1, 2, 3, 4]);
        assert_eq!(turns(&mut bench, 2), [4, 0]);
    }

    #[test]
    fn remembers_its_turn_over_a_save() {
        let mut bench = Bench::of(NAME, 3);
        turns(&mut bench, 2);
        bench.reload(PolicySpec::named(NAME));
        assert_eq!(turns(&mut bench, 2), [2, 0]);
        assert!(bench.policy.restore(&Value::from("two")).is_err());
    }
}
