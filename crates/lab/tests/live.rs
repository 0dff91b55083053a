//! Live runs with an executor made of arithmetic: it checks what it is given, knows the true cost of a step, and can break.

#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

use pollster::block_on;
use servelab_engine::{ExecuteError, Executor, Nanos, StepOutput, StepPlan};
use servelab_lab::session::{Entry, byte_text};
use servelab_lab::{RunError, Session, presets};
use servelab_spec::Spec;
use servelab_spec::experiment::{
    Charge, ControllerSpec, ExecutionMode, RateUnit, ScalingSpec, Stage, StartupSpec, WorkloadSpec,
};
use std::collections::BTreeSet;

/// Tokens depend on the sequence's own content only, as a real model's do: position, prompt token, draw index.
struct Arithmetic {
    steps: u32,
    breaks_at: Option<u32>,
    /// Relative noise of the clock, with a pattern of its own.
    noise: f64,
    blind: bool,
    /// Stages done of replicas' starts.
    boots: Vec<(u32, Stage)>,
    /// Replicas with weights of their own, and the most there were at once.
    own: BTreeSet<u32>,
}

impl Arithmetic {
    fn new() -> Self {
        Arithmetic { steps: 0, breaks_at: None, noise: 0.0, blind: false, boots: vec![], own: BTreeSet::new() }
    }
}

/// True cost of a step, µs: what calibration has to find.
const TRUTH: [f64; 5] = [2000.0, 300.0, 0.2, 100.0, 0.05];

/// What the stages of a start take, seconds.
const BOOT: [(Stage, f64); 3] = [(Stage::WeightsToHost, 0.7), (Stage::WeightsToDevice, 0.2), (Stage::WarmUp, 0.1)];

impl Executor for Arithmetic {
    async fn execute(&mut self, _replica: u32, plan: &StepPlan) -> Result<StepOutput, ExecuteError> {
        self.steps += 1;
        if self.breaks_at == Some(self.steps) {
            return Err(ExecuteError::DeviceLost { reason: "it fell off the desk".into() });
        }
        assert_eq!(plan.repeat, 1);
        let mut tokens = vec![];
        for item in &plan.items {
            let ids = plan.item_tokens(item);
            assert_eq!(plan.item_table(item).len(), item.table_len as usize);
            if item.sample {
                tokens.push((ids[ids.len() - 1] * 31 + item.start + item.len + 7 * item.output_index) % 256);
            }
        }
        let w = plan.work;
        let counts = [1, w.prefill_tokens, w.prefill_context, w.decode_sequences, w.decode_context];
        let us: f64 = TRUTH.iter().zip(counts).map(|(truth, count)| truth * count as f64).sum();
        let noise = 1.0 + self.noise * (f64::from(self.steps * 7919 % 101) / 50.0 - 1.0);
        Ok(StepOutput { tokens, seconds: (!self.blind).then_some(us * noise * 1e-6) })
    }

    async fn boot(&mut self, replica: u32, stage: Stage) -> Result<f64, ExecuteError> {
        self.boots.push((replica, stage));
        let (_, seconds) = *BOOT.iter().find(|&&(of, _)| of == stage).expect("a stage that can be measured");
        assert_eq!(self.own.insert(replica), stage == Stage::WeightsToHost, "whoever went was released");
        Ok(seconds)
    }

    fn released(&mut self, replica: u32) {
        self.own.remove(&replica);
    }

    fn device(&self) -> String {
        "arithmetic".into()
    }
}

fn spec() -> Spec {
    let mut spec = presets::find("book-trace").unwrap().spec;
    spec.execution.mode = ExecutionMode::Tinygpt;
    spec
}

fn finished(spec: Spec, executor: &mut Arithmetic) -> Session {
    let mut session = Session::new(spec).unwrap();
    while !block_on(session.advance_live(executor, 37)).unwrap().done {}
    session
}

fn json(session: &Session) -> String {
    serde_json::to_string(&session.report()).unwrap()
}

#[test]
fn a_live_run_finds_the_device_and_the_exact_figures() {
    let session = finished(spec(), &mut Arithmetic::new());
    let report = session.report();
    let c = report.cost.coefficients;
    let found = [c.step_us, c.prefill_token_us, c.prefill_context_us, c.decode_sequence_us, c.decode_context_us];
    for (found, truth) in found.iter().zip(TRUTH) {
        assert!((found / truth - 1.0).abs() < 1e-6, "{found} {truth}");
    }
    assert_eq!((report.cost.source.as_str(), report.cost.device.as_str()), ("fitted", "arithmetic"));
    assert_eq!((report.policies[0].reuse.hit_tokens, report.policies[0].reuse.prompt_tokens), (2464, 10_476));
    assert_eq!((report.policies[2].reuse.hit_tokens, report.policies[2].reuse.prompt_tokens), (7424, 10_476));
    let p = report.cost.prediction.unwrap();
    assert!(p.step_error_p95 < 1e-6 && (p.total_ratio - 1.0).abs() < 1e-6, "{p:?}");
    // On the run's own schedule, the fit's latencies are those that the fleet itself was charged.
    let mut all: Vec<f64> = vec![];
    all.extend(report.policies.iter().flat_map(|policy| [policy.ttft_s.p50]));
    assert!(all.iter().any(|p50| *p50 <= p.ttft_fitted_s) && all.iter().any(|p50| *p50 >= p.ttft_fitted_s));
    assert!((p.ttft_fitted_s / p.ttft_measured_s - 1.0).abs() < 1e-6);
}

/// The latencies of the prediction are those of the fleet when there is one policy and the fit is what was charged.
#[test]
fn predictions_put_the_run_on_the_clock_it_had() {
    for policy in 0..4 {
        let mut spec = spec();
        spec.policies = vec![spec.policies[policy].clone()];
        let report = finished(spec, &mut Arithmetic { noise: 0.1, ..Arithmetic::new() }).report();
        let p = report.cost.prediction.unwrap();
        let (ttft, itl) = (report.policies[0].ttft_s.p50, report.policies[0].itl_s.p50);
        assert!((p.ttft_fitted_s / ttft - 1.0).abs() < 1e-6, "{policy}: {} {ttft}", p.ttft_fitted_s);
        assert!((p.itl_fitted_s / itl - 1.0).abs() < 1e-6, "{policy}: {} {itl}", p.itl_fitted_s);
        assert!(p.step_error_p50 > 0.0 && p.step_error_p95 < 0.3, "{p:?}");
        // Steps scatter by a tenth around the truth and so may the fit: at worst 1.1 ÷ 0.9 = 1.22 apart.
        assert!((p.ttft_measured_s / p.ttft_fitted_s - 1.0).abs() < 0.22, "{p:?}");
        assert!((p.total_ratio - 1.0).abs() < 0.1, "{p:?}");
    }
}

/// S2.
#[test]
fn a_recorded_run_replays_to_the_same_bytes() {
    for charge in [Charge::Fitted, Charge::Measured] {
        let mut spec = spec();
        spec.execution.charge = charge;
        let mut session = finished(spec, &mut Arithmetic { noise: 0.2, ..Arithmetic::new() });
        let text = serde_json::to_string(&session.recording().unwrap()).unwrap();
        let mut replayed = Session::replay(serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(json(&replayed), json(&session));
        for t in [0.5, 0.2, 1.7] {
            let t = Nanos::from_secs(t);
            assert_eq!(replayed.frame(2, t).unwrap(), session.frame(2, t).unwrap());
        }
        let story = session.story(2, 5, &byte_text).unwrap().unwrap();
        assert!(story.output.as_ref().unwrap().len() >= 19, "{story:?}");
        assert_eq!(replayed.story(2, 5, &byte_text).unwrap().unwrap(), story);
    }
}

#[test]
fn charging_measured_time_moves_the_clock_by_it() {
    let mut spec = spec();
    spec.execution.charge = Charge::Measured;
    let report = finished(spec, &mut Arithmetic { noise: 0.2, ..Arithmetic::new() }).report();
    assert_eq!(report.cost.source, "measured");
    // Measured and fitted differ now, reuse does not.
    assert_eq!(report.policies[0].reuse.hit_tokens, 2464);
    assert_eq!(report.policies[2].reuse.hit_tokens, 7424);
}

#[test]
fn a_rate_relative_to_capacity_follows_the_device() {
    let mut spec = presets::find("multi-tenant").unwrap().spec;
    spec.execution.mode = ExecutionMode::Tinygpt;
    spec.policies.truncate(1);
    let WorkloadSpec::MultiTenant(w) = &mut spec.workload else { panic!("tenants expected") };
    assert_eq!(w.rate_unit, RateUnit::OfCapacity);
    w.requests = 50;
    let report = finished(spec, &mut Arithmetic::new()).report();
    // By hand: 436 prompt and 24 output tokens are 23 decodes at batch 8 (3 steps), so a request costs
    // 3·2 + 436·0.3 + 436·437/2·0.0002 + 23·0.1 + (23·436 + 23·24/2)·0.00005 = 158.7 ms: 25.2/s on four replicas, times 1.3.
    let rate = report.workload.rate_per_s;
    assert!((rate / 32.8 - 1.0).abs() < 0.35, "{rate}: 50 exponential gaps scatter by a seventh");
}

#[test]
fn a_lost_device_is_survived_and_replayed() {
    let mut first = Arithmetic { breaks_at: Some(200), ..Arithmetic::new() };
    let mut session = Session::new(spec()).unwrap();
    let error = loop {
        match block_on(session.advance_live(&mut first, 10)) {
            Ok(progress) => assert!(!progress.done),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, RunError::Execute(ExecuteError::DeviceLost { .. })));
    session.device_lost("the GPU was lost; the run went on on the CPU");
    let mut second = Arithmetic::new();
    while !block_on(session.advance_live(&mut second, 10)).unwrap().done {}
    let report = session.report();
    assert!(report.cost.fallback.as_ref().unwrap().contains("went on"));
    for policy in &report.policies {
        assert_eq!(policy.requests.finished, 24);
    }
    let recording = session.recording().unwrap();
    assert_eq!(recording.logs.iter().flatten().filter(|entry| matches!(entry, Entry::DeviceLost)).count(), 1);
    assert_eq!(json(&Session::replay(recording).unwrap()), json(&session));
}

#[test]
fn a_live_session_can_be_saved_and_goes_on() {
    let whole = json(&finished(spec(), &mut Arithmetic::new()));
    let mut executor = Arithmetic::new();
    let mut session = Session::new(spec()).unwrap();
    for pieces in 0..12 {
        let text = serde_json::to_string(&session.save()).unwrap();
        session = Session::restore(serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(session.needs_calibration(), pieces == 0);
        block_on(session.advance_live(&mut executor, 29)).unwrap();
    }
    while !block_on(session.advance_live(&mut executor, 29)).unwrap().done {}
    assert_eq!(json(&session), whole);
}

#[test]
fn a_device_that_measures_nothing_is_refused() {
    let mut session = Session::new(spec()).unwrap();
    let error = block_on(session.advance_live(&mut Arithmetic { blind: true, ..Arithmetic::new() }, 1)).unwrap_err();
    assert!(matches!(error, RunError::Unmeasured { .. }), "{error}");
}

#[test]
fn a_record_of_another_run_is_refused() {
    let recording = finished(spec(), &mut Arithmetic::new()).recording().unwrap();
    let mut other = recording.clone();
    other.spec.replicas = 2;
    assert!(Session::replay(other).is_err());
    let mut longer = recording.clone();
    let extra = longer.logs[0][0].clone();
    longer.logs[0].push(extra);
    assert!(Session::replay(longer).is_err());
    let mut shorter = recording;
    shorter.logs[3].truncate(5);
    let session = Session::replay(shorter).unwrap();
    assert!(!session.progress().done, "as far as it goes");
}

/// Two to four replicas under more than two can serve, each start done for real.
fn scaled() -> Spec {
    let mut spec = presets::find("multi-tenant").unwrap().spec;
    spec.execution.mode = ExecutionMode::Tinygpt;
    spec.policies.truncate(1);
    let WorkloadSpec::MultiTenant(w) = &mut spec.workload else { panic!("tenants expected") };
    (w.requests, w.rate, w.rate_unit) = (1500, 45.0, RateUnit::PerSecond);
    spec.replicas = 2;
    spec.scaling = ScalingSpec {
        on: true,
        controllers: vec![ControllerSpec::named("kubernetes_hpa")],
        min: 2,
        max: 4,
        scrape_s: 0.5,
        ..ScalingSpec::default()
    };
    spec.startup =
        StartupSpec { node_s: 2.0, process_s: 0.5, warm_up_s: 60.0, compile_s: 60.0, ..StartupSpec::default() };
    spec
}

#[test]
fn a_replica_that_starts_in_a_live_run_starts_for_real() {
    let mut executor = Arithmetic::new();
    let mut session = finished(scaled(), &mut executor);
    let report = session.report();
    let policy = &report.policies[0];
    assert_eq!(policy.requests.finished, 1500);
    let stages = BOOT.map(|(stage, _)| stage);
    assert!(!executor.boots.is_empty(), "it scaled up");
    for replica in executor.boots.iter().map(|boot| boot.0).collect::<BTreeSet<_>>() {
        let of: Vec<Stage> = executor.boots.iter().filter(|boot| boot.0 == replica).map(|boot| boot.1).collect();
        assert!(of.chunks(3).all(|life| life == stages), "{replica}: {of:?}");
    }
    // From the decision to readiness: node, weights, process, first generation; what the settings say of compilation has no place here.
    let cold = policy.scaling.as_ref().unwrap();
    let sum: f64 = cold.delays.iter().map(|delay| delay.seconds).sum();
    assert!(sum > 3.5, "{:?}", cold.delays);
    for (name, seconds) in
        [("Node", 2.0), ("Weights to host", 0.7), ("Weights to GPU", 0.2), ("Process", 0.5), ("Warm-up", 0.1)]
    {
        let found = cold.delays.iter().find(|delay| delay.what == name).map(|delay| delay.seconds);
        assert!(found.is_some_and(|found| (found - seconds).abs() < 1e-6), "{name}: {found:?}");
    }
    assert!(!cold.delays.iter().any(|delay| delay.what == "Compile"));
    // The record holds it, and a look into the middle of a start is the same from there.
    let mut replayed = Session::replay(session.recording().unwrap()).unwrap();
    assert_eq!(json(&replayed), json(&session));
    let booted = |entry: &Entry| matches!(entry, Entry::Boot(_));
    assert_eq!(session.recording().unwrap().logs[0].iter().filter(|entry| booted(entry)).count(), executor.boots.len());
    for t in [1.0, 3.1, 3.3, 8.0] {
        let t = Nanos::from_secs(t);
        assert_eq!(replayed.frame(0, t).unwrap(), session.frame(0, t).unwrap());
    }
}

#[test]
fn a_live_run_that_scales_can_be_saved_at_any_step() {
    let whole = json(&finished(scaled(), &mut Arithmetic::new()));
    let mut executor = Arithmetic::new();
    let mut session = Session::new(scaled()).unwrap();
    let mut done = false;
    while !done {
        let text = serde_json::to_string(&session.save()).unwrap();
        session = Session::restore(serde_json::from_str(&text).unwrap()).unwrap();
        done = block_on(session.advance_live(&mut executor, 97)).unwrap().done;
    }
    assert_eq!(json(&session), whole);
}

#[test]
fn live_scaling_keeps_to_what_a_tab_can_hold() {
    let refused = |change: &dyn Fn(&mut Spec)| {
        let mut spec = scaled();
        change(&mut spec);
        servelab_lab::catalog::check(&spec).unwrap_err().field
    };
    assert_eq!(refused(&|spec| spec.scaling.max = 9), "scaling.max");
    assert_eq!(refused(&|spec| spec.startup.warm_spares = 5), "scaling.max");
    assert_eq!(refused(&|spec| spec.startup.sleep = true), "startup.sleep");
}
