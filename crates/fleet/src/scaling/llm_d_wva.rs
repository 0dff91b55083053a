//! llm-d's workload-variant autoscaler: its saturation analyser, for one variant.
//!
//! ```text
//! not saturated:  KV < 0.80 and queue < 5            inputs are the highest of the last minute
//! spare        =  mean over those of 0.80 − KV, of 5 − queue; 0 when all are saturated
//! +1              spare KV < 0.1 or spare queue < 3
//! −1              at least two are not saturated, and with their load on one fewer both spares still reach those values
//! ```
//!
//! While replicas are on their way (those that tell are not those asked for), nothing. From 0, one as soon as the gateway holds a request. Source:
//! `internal/saturation/analyzer.go` (the percentage-based version) and `docs/saturation-analyzer.md`. Left out: several variants with their costs, the
//! way to zero after an idle time, and the HPA that applies its number (add one's own stabilisation in mind).

use super::registry::Entry;
use super::shared::{self, Turn, common_period, seconds_param, whole_seconds};
use super::{Controller, Decision, Over, ScaleView, Signal};
use crate::routing::params::{self, Params};
use serde_json::{Value, json};
use servelab_engine::Nanos;
use servelab_spec::catalog::ControllerInfo;

const NAME: &str = "llm_d_wva";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

/// Fewer that are not saturated do not let one go.
const LEAST_FOR_DOWN: u32 = 2;

fn info() -> ControllerInfo {
    let share = |name, label, default, help| params::number(name, label, "", default, (0.0, 1.0, 0.01), help);
    let queue = |name, label, default, help| params::number(name, label, "requests", default, (0.0, 1e5, 1.0), help);
    ControllerInfo {
        name: NAME.into(),
        label: "llm-d WVA".into(),
        project: "llm-d".into(),
        summary: "Keeps spare KV cache and spare queue on the replicas that are not saturated: one more when there is too little, one fewer when there would still be enough.".into(),
        rule: "+1 if the mean spare to KV 0.80 is below 0.1 or that to a queue of 5 below 3; −1 if one fewer would still have both; nothing while replicas are on their way.".into(),
        reads: "KV usage and queue of each replica, the highest of a minute; at zero, what the gateway holds.".into(),
        fails: "One step in a minute, and none while a replica loads: a spike that needs four more takes four cold starts. Saturated replicas are left out of the spare, so one idle replica beside nine full ones asks for nothing.".into(),
        bound: false,
        params: vec![
            share("kv_cache_threshold", "KV threshold", 0.8, "kvCacheThreshold: at or above it, a replica is saturated."),
            queue("queue_length_threshold", "Queue threshold", 5.0, "queueLengthThreshold: at or above it, a replica is saturated."),
            share("kv_spare_trigger", "KV spare", 0.1, "kvSpareTrigger: less spare KV on average asks for one more."),
            queue("queue_spare_trigger", "Queue spare", 3.0, "queueSpareTrigger: less spare queue on average asks for one more."),
            seconds_param("window_s", "Window", 60, 1, "The highest values of so long are taken."),
            seconds_param("interval_s", "Interval", 60, 1, "Time between two evaluations."),
            seconds_param("from_zero_poll_s", "Poll at zero", 1, 1, "Without replicas, how often it looks at the gateway's queue: 0.1 s in llm-d, on a queue that is scraped here."),
        ],
    }
}

fn build(params: &Params) -> Box<dyn Controller> {
    let (interval, poll) = (params.integer("interval_s"), params.integer("from_zero_poll_s"));
    Box::new(LlmDWva {
        thresholds: (params.number("kv_cache_threshold"), params.number("queue_length_threshold")),
        spares: (params.number("kv_spare_trigger"), params.number("queue_spare_trigger")),
        window: whole_seconds(params.integer("window_s")),
        period: common_period(interval, poll),
        turn: Turn::every(interval),
        poll: Turn::every(poll),
    })
}

struct LlmDWva {
    /// KV, queue.
    thresholds: (f64, f64),
    spares: (f64, f64),
    window: Nanos,
    period: Nanos,
    turn: Turn,
    poll: Turn,
}

impl LlmDWva {
    /// +1, −1 or 0 for replicas with so much KV usage and queue each.
    fn step(&self, loads: &[(f64, f64)]) -> (i32, &'static str) {
        let (kv_limit, queue_limit) = self.thresholds;
        let spare: Vec<(f64, f64)> = loads
            .iter()
            .filter(|&&(kv, queue)| kv < kv_limit && queue < queue_limit)
            .map(|&(kv, queue)| (kv_limit - kv, queue_limit - queue))
            .collect();
        let count = spare.len() as u32;
        let n = f64::from(count.max(1));
        let (kv, queue) = spare.iter().fold((0.0, 0.0), |(kv, queue), one| (kv + one.0 / n, queue + one.1 / n));
        let enough = |kv: f64, queue: f64| kv >= self.spares.0 && queue >= self.spares.1;
        if !enough(kv, queue) {
            return (1, "too little spare");
        }
        let more = n / (n - 1.0);
        if count >= LEAST_FOR_DOWN
            && enough(kv_limit - (kv_limit - kv) * more, queue_limit - (queue_limit - queue) * more)
        {
            (-1, "one fewer would have enough spare")
        } else {
            (0, "spare in between")
        }
    }
}

impl Controller for LlmDWva {
    fn period(&self) -> Nanos {
        self.period
    }

    fn window(&self) -> Nanos {
        self.window
    }

    fn decide(&mut self, view: &ScaleView<'_>) -> Decision {
        let current = view.current;
        let (due, polls) = (self.turn.is_due(view.now), self.poll.is_due(view.now));
        if current == 0 {
            let held = view.history.latest().map_or(0, |sample| sample.held);
            return match (held > 0, polls) {
                (true, true) => Decision { wanted: 1, desired: view.clamp(1), why: "the gateway holds requests" },
                (true, false) => Decision::held(1, 0, "between two evaluations"),
                (false, _) => Decision::now(0, "nothing to do"),
            };
        }
        if !due {
            return Decision::now(current, "between two evaluations");
        }
        let value = |replica, signal| view.history.pod(replica, signal, Over::Max(self.window));
        let load = |replica| Some((value(replica, Signal::KvUsage)?, value(replica, Signal::QueueDepth)?));
        let loads: Vec<(f64, f64)> = view.pods.iter().filter_map(|pod| load(pod.replica)).collect();
        if loads.is_empty() {
            return Decision::now(current, "no replica tells anything");
        }
        let (step, why) = self.step(&loads);
        let wanted = (loads.len() as u32).saturating_add_signed(step).max(1);
        if loads.len() as u32 != current || view.pods.len() as u32 != current {
            return Decision::held(wanted, current, "replicas are on their way");
        }
        Decision { wanted, desired: view.clamp(wanted), why }
    }

    fn save(&self) -> Value {
        json!([self.turn.next, self.poll.next])
    }

    fn restore(&mut self, state: &Value) -> Result<(), String> {
        [self.turn.next, self.poll.next] = shared::restore(state)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Phase;
    use super::super::testing::{Bench, Load, steps};
    use super::*;
    use servelab_spec::experiment::ControllerSpec;

    fn spec() -> ControllerSpec {
        ControllerSpec::named(NAME)
    }

    fn load(kv: f64, waiting: u32) -> Load {
        Load { kv, waiting, running: 1, ..Load::default() }
    }

    fn decided(loads: &[Load]) -> u32 {
        let mut bench = Bench::new(spec()).ready(loads.len() as u32);
        bench.scrape_now(|replica| loads.get(replica as usize).copied().unwrap_or_default());
        bench.decide().desired
    }

    #[test]
    fn spare_by_hand() {
        // Spare KV 0.11 and queue 5: enough for one. 0.05: not. Queue 3: spare 2, not enough.
        assert_eq!([decided(&[load(0.69, 0)]), decided(&[load(0.75, 0)]), decided(&[load(0.1, 3)])], [1, 2, 2]);
        assert_eq!(decided(&[load(0.1, 2)]), 1, "a spare of exactly 3 is enough");
        // Means over those that are not saturated: (0.75 + 0.0) ÷ 2 spare; the saturated one does not count.
        assert_eq!(decided(&[load(0.05, 0), load(0.8, 0)]), 2);
        assert_eq!(decided(&[load(0.8, 0), load(0.9, 9)]), 3, "all saturated: no spare");
        // One idle replica hides nine full ones.
        let mut hidden = vec![load(0.95, 9); 9];
        hidden.push(load(0.0, 0));
        assert_eq!(decided(&hidden), 10);
    }

    #[test]
    fn down_only_if_the_others_can_take_it() {
        // Three at 0.4 on two: 0.6, spare 0.2. At 0.48: 0.72, spare 0.08.
        assert_eq!([decided(&[load(0.4, 0); 3]), decided(&[load(0.48, 0); 3])], [2, 3]);
        // Queue: 1 each on two is 1.5, spare 3.5; of two at 1, 2 on one: spare 3; three at 2 on two: 3, spare 2.
        assert_eq!([decided(&[load(0.1, 1); 3]), decided(&[load(0.1, 1); 2]), decided(&[load(0.1, 2); 3])], [2, 1, 3]);
        assert_eq!(decided(&[load(0.0, 0)]), 1, "one stays");
        // Two, one of them saturated: too few that are not.
        assert_eq!(decided(&[load(0.0, 0), load(0.9, 0)]), 2);
    }

    #[test]
    fn the_highest_of_a_minute_counts() {
        let mut bench = Bench::new(spec()).ready(1);
        bench.scrape(load(0.75, 0));
        bench.scrapes(3, load(0.1, 0));
        assert_eq!(bench.decide().desired, 2);
        bench.scrapes(4, load(0.1, 0));
        assert_eq!(bench.decide().desired, 1);
    }

    #[test]
    fn one_step_a_cold_start() {
        let mut bench = Bench::new(spec()).ready(1).phase(1, Phase::Starting);
        bench.scrape(load(0.9, 9));
        assert_eq!(bench.decide(), Decision::held(2, 2, "replicas are on their way"));
        let mut bench = Bench::new(spec()).ready(1).start_up(150.0);
        let asked = bench.run(400.0, |_, _| load(0.9, 9));
        let ups: Vec<f64> = asked.windows(2).filter(|two| two[1].1 > two[0].1).map(|two| two[1].0).collect();
        // 2 at the first evaluation; ready and told at 151 s, so 3 at 181 s; ready at 331 s, so 4 at 361 s.
        assert_eq!((asked[0], &ups[..]), ((1.0, 2), &[181.0, 361.0][..]));
    }

    #[test]
    fn from_zero_when_the_gateway_holds_something() {
        let mut bench = Bench::new(spec()).bounds(0, 5).scrapes_every(1.0);
        let asked =
            bench.run(30.0, |now, _| Load { held: u32::from(now >= Nanos::from_secs(10.0)), ..Load::default() });
        assert_eq!((steps(&asked), asked.iter().find(|one| one.1 > 0)), (vec![0, 1], Some(&(10.0, 1))));
        bench.reload(&spec());
    }
}
