//! NVIDIA Dynamo's planner, its load loop for engines that do both prefill and decode.
//!
//! One more replica when *every* engine's predicted TTFT (or every predicted ITL) exceeds the SLA; one fewer when each engine, with the load of `N ÷ (N − 1)`,
//! would stay clear of it: what waiting adds within 80 % of `SLA − own`, the ITL within 80 % of its SLA, and the KV blocks within the cache. While a change is in
//! flight it only watches. The *easy* modes go by KV usage alone: any engine above the upper value, all below the lower. Source:
//! `components/src/dynamo/planner/core/load_scaling.py`.
//!
//! Dynamo predicts with a regression on every forward pass, which no scrape tells. Here, from the scrapes within the window,
//!
//! ```text
//! own   = median TTFT − mean time in the queue         what a request takes once it is admitted
//! TTFT  = waiting ÷ admissions per second + own
//! ITL   = mean running ÷ tokens per second             every running sequence gets a token in every step
//! KV    = usage · (1 + waiting ÷ running)              who waits will need as much as who runs
//! ```
//!
//! So TTFT is right while admissions go on as they did; ITL is too high while many are in prefill, and taken to grow in proportion with the load,
//! though part of a step is fixed: it goes down later than Dynamo would. Left out: the throughput loop with its forecast (a floor), separate prefill
//! engines, and budgets of GPUs. What the gateway holds is in no engine, so the planner does not see it.

use super::history::quantile;
use super::registry::Entry;
use super::shared::{mean, seconds_param, whole_seconds};
use super::{Controller, Decision, Over, Phase, ScaleView, Signal};
use crate::routing::params::{self, Params};
use servelab_engine::Nanos;
use servelab_spec::catalog::ControllerInfo;

const NAME: &str = "dynamo_planner";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> ControllerInfo {
    let ms = |name, label, default, help| params::number(name, label, "ms", default, (0.1, 1e6, 0.1), help);
    ControllerInfo {
        name: NAME.into(),
        label: "Dynamo planner".into(),
        project: "NVIDIA Dynamo".into(),
        summary: "One more replica when every engine is predicted to miss the SLA, one fewer when all would keep it with the load of one more.".into(),
        rule: "+1 if all TTFT or all ITL > SLA; −1 if on all engines queueing · N/(N−1) < 80 % of SLA − own time, ITL · N/(N−1) < 80 % of its SLA and KV fits; nothing while a change is in flight.".into(),
        reads: "Of each engine, over the window: admissions, queue time, TTFT, tokens; waiting, running and KV usage now. Which replicas are ready.".into(),
        fails: "One step at a time, and each waits for the cold start of the one before: a spike that needs four more takes four cold starts. One idle engine among overloaded ones is enough to keep it still. Requests that the gateway holds are in no engine.".into(),
        bound: false,
        params: vec![
            params::choice("optimization_target", "Optimization target", 0, &["sla", "throughput", "latency"],
                "sla: by predicted latencies. The easy modes go by KV usage: throughput up above 100 %, down below 60 %; latency up above 40 %, down below 10 %."),
            ms("ttft_ms", "TTFT SLA", 500.0, "ttft: predicted TTFT must not exceed it."),
            ms("itl_ms", "ITL SLA", 50.0, "itl: predicted ITL must not exceed it."),
            params::number("sensitivity", "Scale-down sensitivity", "%", 80.0, (1.0, 100.0, 1.0), "load_scaling_down_sensitivity: share of the SLA within which the others must stay for one to go."),
            params::integer("min_endpoint", "Least engines", "replicas", 1, (0, 1000), "min_endpoint: it never asks for fewer."),
            seconds_param("window_s", "Window", 30, 1, "What was counted within it makes the prediction; at least two scrapes."),
            seconds_param("interval_s", "Load interval", 5, 1, "load_adjustment_interval: time between two evaluations."),
        ],
    }
}

fn build(params: &Params) -> Box<dyn Controller> {
    let easy = match params.integer("optimization_target") {
        0 => None,
        1 => Some((1.0, 0.6)),
        _ => Some((0.4, 0.1)),
    };
    Box::new(DynamoPlanner {
        easy,
        ttft: params.number("ttft_ms") / 1000.0,
        itl: params.number("itl_ms") / 1000.0,
        sensitivity: params.number("sensitivity") / 100.0,
        least: params.integer("min_endpoint"),
        window: whole_seconds(params.integer("window_s")),
        interval: whole_seconds(params.integer("interval_s")),
    })
}

struct DynamoPlanner {
    /// KV usage above which it goes up and below which down.
    easy: Option<(f64, f64)>,
    ttft: f64,
    itl: f64,
    sensitivity: f64,
    least: u32,
    window: Nanos,
    interval: Nanos,
}

/// What is predicted for one engine, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Engine {
    queue: f64,
    own: f64,
    /// `None` while it runs something that has not given a token.
    itl: Option<f64>,
    /// Share of the cache that what runs and what waits needs.
    kv: f64,
}

impl DynamoPlanner {
    fn engine(&self, view: &ScaleView<'_>, replica: u32) -> Option<Engine> {
        let over = Over::Mean(self.window);
        let (first, last) = view.history.ends(replica, over)?;
        let seconds = last.up_s - first.up_s;
        let (waiting, running) = (f64::from(last.waiting), f64::from(last.running));
        let admitted = (last.admitted - first.admitted) as f64;
        let queue = if waiting > 0.0 { waiting * seconds / admitted } else { 0.0 };
        let own = quantile(0.5, |bucket| last.ttft[bucket] - first.ttft[bucket]).map_or(0.0, |median| {
            let queued = if admitted > 0.0 { (last.queue_s - first.queue_s) / admitted } else { 0.0 };
            (median - queued).max(0.0)
        });
        let tokens = (last.tokens - first.tokens) as f64;
        let busy = view.history.pod(replica, Signal::Running, mean(self.window))?;
        let itl = if busy == 0.0 { Some(0.0) } else { (tokens > 0.0).then(|| busy * seconds / tokens) };
        let kv = match (waiting > 0.0, running > 0.0) {
            (true, true) => last.kv_usage * (1.0 + waiting / running),
            (true, false) => f64::INFINITY,
            (false, _) => last.kv_usage,
        };
        // Waiting and nothing admitted: it will not be soon. 0 ÷ 0 is that of an engine that has only just been reached.
        let queue = if queue.is_nan() { f64::INFINITY } else { queue };
        Some(Engine { queue, own, itl, kv })
    }

    /// +1, −1 or 0, with the reason.
    fn step(&self, engines: &[Engine]) -> (i32, &'static str) {
        let several = engines.len() > 1;
        if let Some((up, down)) = self.easy {
            return if engines.iter().any(|engine| engine.kv > up) {
                (1, "an engine above the upper KV usage")
            } else if several && engines.iter().all(|engine| engine.kv < down) {
                (-1, "all engines below the lower KV usage")
            } else {
                (0, "KV usage in between")
            };
        }
        if engines.iter().all(|engine| engine.queue + engine.own > self.ttft) {
            return (1, "every predicted TTFT exceeds the SLA");
        }
        let mut itls = engines.iter().filter_map(|engine| engine.itl).peekable();
        if itls.peek().is_some() && itls.all(|itl| itl > self.itl) {
            return (1, "every predicted ITL exceeds the SLA");
        }
        let more = engines.len() as f64 / (engines.len() as f64 - 1.0);
        let clear = |engine: &Engine| {
            let budget = (self.ttft - engine.own) * self.sensitivity;
            let itl = engine.itl.is_some_and(|itl| itl * more < self.itl * self.sensitivity);
            engine.queue * more < budget && itl && engine.kv * more < 1.0
        };
        if several && engines.iter().all(clear) {
            (-1, "one fewer would keep the SLA")
        } else {
            (0, "between the SLA and what one fewer would do")
        }
    }
}

impl Controller for DynamoPlanner {
    fn period(&self) -> Nanos {
        self.interval
    }

    fn window(&self) -> Nanos {
        self.window
    }

    fn decide(&mut self, view: &ScaleView<'_>) -> Decision {
        let current = view.current;
        let engines: Vec<Engine> = view.pods.iter().filter_map(|pod| self.engine(view, pod.replica)).collect();
        if engines.is_empty() {
            return Decision::now(current, "no engine tells anything");
        }
        let (step, why) = self.step(&engines);
        let wanted = (engines.len() as u32).saturating_add_signed(step).max(self.least);
        let settled = view.pods.len() as u32 == current && view.count(Phase::Ready) == current;
        if !settled || engines.len() != view.pods.len() {
            return Decision::held(wanted, current, "a change is in flight");
        }
        Decision { wanted, desired: view.clamp(wanted), why }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, Load};
    use super::*;
    use servelab_spec::experiment::ControllerSpec;

    fn spec() -> ControllerSpec {
        ControllerSpec::named(NAME)
    }

    /// Admits 2/s after 1 s of queue, TTFTs from 0.25 to 0.5 s, 8 running at 400 tokens/s: ITL 20 ms.
    const BUSY: Load = Load {
        held: 0,
        rate: 0.0,
        waiting: 0,
        running: 8,
        kv: 0.4,
        tokens: 400.0,
        admitted: 2.0,
        queue_s: 1.0,
        ttft_bucket: 9,
    };

    fn decided(spec: ControllerSpec, loads: &[Load]) -> Decision {
        let mut bench = Bench::new(spec).bounds(0, 100).ready(loads.len() as u32);
        for _ in 0..3 {
            bench.now += Nanos::from_secs(15.0);
            bench.scrape_now(|replica| loads.get(replica as usize).copied().unwrap_or_default());
        }
        bench.decide()
    }

    #[test]
    fn predictions_by_hand() {
        let planner = DynamoPlanner {
            easy: None,
            ttft: 0.5,
            itl: 0.05,
            sensitivity: 0.8,
            least: 1,
            window: whole_seconds(30),
            interval: whole_seconds(5),
        };
        let predicted = |load: Load| {
            let mut bench = Bench::new(spec()).ready(1);
            bench.scrapes(3, load);
            let Bench { now, current, ref pods, ref history, .. } = bench;
            let view = ScaleView { now, current, min: 1, max: 9, pods, history, future: None };
            planner.engine(&view, 0)
        };
        // Bucket 9 spans 0.25 to 0.5 s: median 0.375 s. With no queue that is its own time; 6 waiting at 2/s are 3 s. 8 ÷ 400 = 20 ms.
        let load = Load { queue_s: 0.0, waiting: 6, ..BUSY };
        let kv = 0.4 * (1.0 + 6.0 / 8.0);
        assert_eq!(predicted(load), Some(Engine { queue: 3.0, own: 0.375, itl: Some(0.02), kv }));
        // More queue than TTFT (bounds of buckets): 0 of its own.
        assert_eq!(predicted(BUSY).map(|engine| (engine.queue, engine.own)), Some((0.0, 0.0)));
        let stuck = Load { waiting: 1, admitted: 0.0, tokens: 0.0, ..BUSY };
        assert_eq!(predicted(stuck).map(|engine| (engine.queue, engine.itl)), Some((f64::INFINITY, None)));
        let idle = Load::default();
        assert_eq!(predicted(idle), Some(Engine { queue: 0.0, own: 0.0, itl: Some(0.0), kv: 0.0 }));
    }

    /// Up takes all of them. TTFT: 2 waiting at 2/s are 1 s, more than 0.5 s.
    #[test]
    fn up_when_all_exceed() {
        let late = Load { waiting: 2, ..BUSY };
        assert_eq!(decided(spec(), &[late, late]).desired, 3);
        assert_eq!(decided(spec(), &[late, BUSY]).desired, 2, "one engine keeps it");
        assert_eq!(decided(spec(), &[BUSY]).desired, 1);
        // ITL: 8 ÷ 150 = 53 ms.
        let slow = Load { tokens: 150.0, ..BUSY };
        assert_eq!(decided(spec(), &[slow, slow]).why, "every predicted ITL exceeds the SLA");
        assert_eq!(decided(spec(), &[slow, BUSY]).desired, 2);
    }

    /// Down takes all of them, with N ÷ (N − 1) of the load.
    #[test]
    fn down_when_all_would_stay_clear() {
        // ITL 20.5 ms · 2 = 41 ms is not below 80 % of 50 ms for two; for three it is 31 ms.
        let busy = Load { tokens: 390.0, ..BUSY };
        assert_eq!([decided(spec(), &[busy; 2]).desired, decided(spec(), &[busy; 3]).desired], [2, 2]);
        // 1 waiting at 6/s: 0.167 s · 3 ÷ 2 = 0.25 s of 0.4 s. At 3/s: 0.5 s.
        let (short, long) = (Load { waiting: 1, admitted: 6.0, ..BUSY }, Load { waiting: 1, admitted: 3.0, ..BUSY });
        assert_eq!([decided(spec(), &[short; 3]).desired, decided(spec(), &[long; 3]).desired], [2, 3]);
        // KV: 0.7 · 3 ÷ 2 does not fit.
        assert_eq!(decided(spec(), &[Load { kv: 0.7, ..BUSY }; 3]).desired, 3);
        assert_eq!(decided(spec(), &[Load::default(); 2]).desired, 1);
        assert_eq!(decided(spec(), &[Load::default(); 1]).desired, 1, "the last one stays");
    }

    #[test]
    fn easy_modes_go_by_kv() {
        let kv = |kv: f64| Load { kv, ..BUSY };
        let latency = spec().with("optimization_target", 2.0);
        assert_eq!(decided(latency.clone(), &[kv(0.41), kv(0.0)]).desired, 3, "any is enough");
        assert_eq!(decided(latency.clone(), &[kv(0.4), kv(0.4)]).desired, 2);
        assert_eq!([decided(latency.clone(), &[kv(0.09); 2]).desired, decided(latency, &[kv(0.1); 2]).desired], [1, 2]);
        let throughput = spec().with("optimization_target", 1.0);
        assert_eq!(decided(throughput.clone(), &[kv(1.0); 2]).desired, 2, "a full cache is not above 100 %");
        assert_eq!(
            decided(throughput.clone(), &[Load { kv: 0.9, waiting: 1, ..BUSY }; 2]).desired,
            3,
            "with who waits it is"
        );
        assert_eq!(
            [decided(throughput.clone(), &[kv(0.59); 2]).desired, decided(throughput, &[kv(0.6); 2]).desired],
            [1, 2]
        );
    }

    #[test]
    fn watches_while_a_change_is_in_flight() {
        let late = Load { waiting: 2, ..BUSY };
        let mut bench = Bench::new(spec()).ready(2).phase(1, Phase::Starting);
        bench.scrapes(3, late);
        assert_eq!(bench.decide(), Decision::held(3, 3, "a change is in flight"));
        assert_eq!(Bench::new(spec()).ready(2).decide(), Decision::now(2, "no engine tells anything"));
    }
}
