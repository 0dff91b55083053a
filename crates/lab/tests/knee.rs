//! The knee against queueing theory, and its independence of who runs what.

#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods)]

use servelab_engine::random::Stream;
use servelab_lab::knee::{KneePlan, findings, merge};
use servelab_lab::presets;
use servelab_spec::experiment::{Coefficients, MultiTenantSpec, PolicySpec, RateUnit, TraceSpec, WorkloadSpec};
use servelab_spec::knee::{KneeReport, KneeSpec};
use servelab_spec::{SCHEMA_VERSION, Spec, patch};
use servelab_workload::trace::{ReadOptions, Reader, shelf};

fn knee(spec: Spec, seeds: u32) -> KneePlan {
    KneePlan::new(KneeSpec { version: SCHEMA_VERSION, spec, seeds }).unwrap()
}

fn report(plan: &KneePlan) -> KneeReport {
    plan.report((0..plan.trials()).map(|trial| plan.run(trial).unwrap()).collect())
}

/// Seconds of a step, and steps of a request: one prefill and four decodes.
const STEP_S: f64 = 0.01;
const STEPS: f64 = 5.0;

/// One replica that serves one request at a time, without reuse, each in exactly five steps: an M/D/1 queue.
fn m_d_1(slo_ttft_s: f64, requests: u32) -> Spec {
    let sizes = MultiTenantSpec {
        requests,
        tenants: 1,
        system_min: 16,
        system_max: 16,
        user_min: 16,
        user_max: 16,
        output_min: STEPS as u32,
        output_max: STEPS as u32,
        rate_unit: RateUnit::PerSecond,
        rate: 1.0,
        ..Default::default()
    };
    let mut spec = Spec {
        replicas: 1,
        policies: vec![PolicySpec::named("round_robin")],
        workload: WorkloadSpec::MultiTenant(sizes),
        ..Spec::default()
    };
    spec.engine.max_batch = 1;
    spec.engine.blocks = 4;
    spec.engine.prefix_cache = false;
    spec.slo.ttft_s = slo_ttft_s;
    spec.slo.itl_s = 1.0;
    spec.execution.cost = "custom".into();
    spec.execution.coefficients = Some(Coefficients { step_us: STEP_S * 1e6, ..Coefficients::default() });
    spec
}

/// P(wait ≤ t) in M/D/1 with service time `d` (Erlang 1909): (1 − ρ) Σ_{k=0}^{⌊t/d⌋} (λ(kd − t))^k / k! · e^{−λ(kd − t)}.
fn waits_at_most(t: f64, lambda: f64, d: f64) -> f64 {
    let mut sum = 0.0;
    for k in 0..=(t / d).floor() as i32 {
        let x = lambda * (f64::from(k) * d - t);
        let factorial: f64 = (1..=k).map(f64::from).product();
        sum += x.powi(k) / factorial * (-x).exp();
    }
    (1.0 - lambda * d) * sum
}

/// The rate at which 95 % wait no longer than the limit less the first step.
fn exact(slo_ttft_s: f64) -> f64 {
    let d = STEPS * STEP_S;
    let (mut low, mut high) = (0.001, 1.0 / d - 1e-9);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        *(if waits_at_most(slo_ttft_s - STEP_S, middle, d) >= 0.95 { &mut low } else { &mut high }) = middle;
    }
    low
}

/// Tabulated: at ρ = 0.5 half of the customers wait not at all, and P(wait ≤ d) = (1 − ρ) e^{ρ}.
#[test]
fn the_closed_form_is_what_it_should_be() {
    assert!((waits_at_most(0.0, 0.5, 1.0) - 0.5).abs() < 1e-12);
    assert!((waits_at_most(0.999_999, 0.5, 1.0) - 0.5 * 0.5f64.exp()).abs() < 1e-6);
    // Its mean wait is that of Pollaczek and Khinchine, ρ d ÷ 2(1 − ρ).
    let mean: f64 = (0..40_000).map(|i| (1.0 - waits_at_most((f64::from(i) + 0.5) * 1e-3, 0.6, 1.0)) * 1e-3).sum();
    assert!((mean - 0.6 / 0.8).abs() < 2e-3, "{mean}");
}

#[test]
fn the_knee_of_a_single_server_is_that_of_m_d_1() {
    // Near the server's limit queues are long, and a debug build checks every one of them at every step; they also vary less.
    for (slo, requests) in [(0.08, 8000), (0.3, 4000)] {
        let exact = exact(slo);
        let report = report(&knee(m_d_1(slo, requests), 16));
        let policy = &report.policies[0];
        let band = policy.per_s.unwrap();
        println!("limit {slo} s: M/D/1 {exact:.3}/s, found {band:?}");
        assert_eq!((band.n, policy.never_good, policy.always_good), (16, 0, 0));
        // The search stops up to two per cent below; the band is of the seeds.
        assert!(band.low.unwrap() <= exact && exact <= band.high.unwrap() * 1.02, "{exact} {band:?}");
        assert!(band.high.unwrap() - band.low.unwrap() < 0.05 * exact, "tight enough to say something: {band:?}");
        assert_eq!(policy.per_replica_per_s, policy.per_s, "one replica");
    }
}

/// More time to answer never lowers the knee, on whichever arrivals.
#[test]
fn a_looser_limit_moves_the_knee_up() {
    let knees = |slo: f64| -> Vec<f64> {
        report(&knee(m_d_1(slo, 2000), 4)).trials.iter().map(|trial| trial.per_s.unwrap()).collect()
    };
    let (tight, medium, loose) = (knees(0.06), knees(0.13), knees(0.3));
    for seed in 0..4 {
        assert!(tight[seed] < medium[seed] && medium[seed] < loose[seed], "{tight:?} {medium:?} {loose:?}");
        assert!(loose[seed] < 1.0 / (STEPS * STEP_S), "below what a server can do at all");
    }
}

#[test]
fn limits_out_of_reach_are_said_and_not_guessed() {
    // An idle server needs one step of 10 ms.
    let report = report(&knee(m_d_1(0.009, 50), 2));
    let policy = &report.policies[0];
    assert_eq!((policy.per_s, policy.never_good), (None, 2));
    assert!(report.definition.contains("within 9 ms"), "{}", report.definition);
}

/// A trace of the M/D/1 queue's arrivals, recorded at one request in seven seconds, on the shelf.
fn recorded(requests: u32, seed: u64) -> String {
    let mut draws = Stream::new(seed, b"recorded");
    let (mut at, mut table) = (0.0, "arrival_time_ns,prompt_tokens,output_tokens\n".to_owned());
    for _ in 0..requests {
        table += &format!("{:.0},32,{STEPS}\n", at * 1e9);
        at += 7.0 * draws.exponential();
    }
    let mut reader = Reader::new(ReadOptions::default());
    reader.push(table.as_bytes()).unwrap();
    shelf::put(reader.finish().unwrap().trace)
}

/// The same server, with a trace as its workload.
fn played(trace: String, slo_ttft_s: f64) -> Spec {
    let sizes = TraceSpec { prompt_cap: 32, output_cap: STEPS as u32, ..TraceSpec::default() };
    let workload = WorkloadSpec::Trace(TraceSpec { trace, ..sizes });
    Spec { workload, ..m_d_1(slo_ttft_s, 1) }
}

/// A recorded trace is played faster until its limits break. Rates are those offered, so M/D/1 has the same knee.
#[test]
fn the_knee_of_a_trace_is_that_of_its_arrivals_played_faster() {
    let slo = 0.3;
    let exact = exact(slo);
    let knees: Vec<f64> = (0..8)
        .map(|seed| {
            let report = report(&knee(played(recorded(6000, seed), slo), 1));
            let said = findings(&report);
            assert!(said.iter().all(|finding| !finding.contains("too short")), "{said:?}");
            assert!(report.definition.contains("played at another speed"), "{}", report.definition);
            report.policies[0].per_replica_per_s.unwrap().mean
        })
        .collect();
    let n = knees.len() as f64;
    let mean = knees.iter().sum::<f64>() / n;
    let deviation = (knees.iter().map(|knee| (knee - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    // Student's t of 7 degrees of freedom at 95 %.
    let half = 2.365 * deviation / n.sqrt();
    println!("M/D/1 {exact:.3}/s, of traces {mean:.3} ± {half:.3}");
    // The search stops up to two per cent below.
    assert!(mean - half <= exact && exact <= (mean + half) * 1.02, "{exact}, {mean} ± {half}");
    assert!(half < 0.04 * exact, "tight enough to say something: {mean} ± {half}");
}

#[test]
fn the_speed_of_the_spec_does_not_matter_and_what_is_left_of_a_trace_does() {
    let spec = played(recorded(1000, 20), 0.3);
    let per_s = |changes: &[(&str, &str)]| {
        let changed = changes.iter().fold(spec.clone(), |spec, (key, value)| patch::set(&spec, key, value).unwrap());
        let plan = knee(changed, 2);
        let rates = [0, 1].map(|trial| {
            // At the rate of half of the requests, the other half gone, the trace is played at its own speed.
            let WorkloadSpec::Trace(at) = plan.spec(trial, 1.0).unwrap().workload else { panic!("a trace") };
            at.speed
        });
        (report(&plan).policies[0].per_s.unwrap().mean, rates)
    };
    let ((knee, speeds), (same, other)) = (per_s(&[]), per_s(&[("workload.speed", "31")]));
    assert_eq!((knee, speeds), (same, other));
    // Recorded at 1/7 per second: seven times as fast, give or take the draw of the gaps.
    assert!((speeds[0] - 7.0).abs() < 0.7 && speeds[0] == speeds[1], "{speeds:?}");
    let (_, halves) = per_s(&[("workload.share", "0.5")]);
    assert!(halves.iter().all(|&speed| (speed - 14.0).abs() < 2.0) && halves[0] != halves[1], "{halves:?}");
    let (twice, repeated) = per_s(&[("workload.repeat", "3")]);
    assert!((repeated[0] - speeds[0]).abs() < 0.05 * speeds[0] && (twice / knee - 1.0).abs() < 0.1, "{twice} {knee}");
}

#[test]
fn a_trace_that_is_too_short_for_a_knee_is_told_so() {
    let refused = |spec: Spec| KneePlan::new(KneeSpec { version: SCHEMA_VERSION, spec, seeds: 1 }).unwrap_err();
    let error = refused(played(recorded(19, 1), 0.3));
    assert!(error.field == "workload.trace" && error.accepted.contains("workload.repeat"), "{error}");
    let spiked = patch::set(&played(recorded(50, 1), 0.3), "workload.spike_for_s", "5").unwrap();
    assert_eq!(refused(spiked).field, "workload.spike_for_s");
    let error = refused(played("0123456789abcdef".into(), 0.3));
    assert!(error.field == "workload.trace" && error.accepted.contains("--trace FILE"), "{error}");
    // Fifty requests of 0.05 s, and a limit that is longer than all of them together.
    let report = report(&knee(played(recorded(50, 1), 5.0), 1));
    let said = findings(&report).join(" ");
    assert!(said.contains("too short") && said.contains("50 requests") && said.contains("workload.repeat"), "{said}");
}

/// Whoever puts shards together need not have the trace.
#[test]
fn shards_of_a_traces_knee_are_merged_without_the_trace() {
    let name = recorded(200, 30);
    let plan = knee(played(name.clone(), 0.3), 2);
    let shards = [0, 1].map(|trial| plan.report(vec![plan.run(trial).unwrap()]));
    let whole = report(&plan);
    shelf::remove(&name);
    assert_eq!(merge(shards.to_vec()).unwrap(), whole);
}

fn small() -> Spec {
    let spec = presets::find("multi-tenant").unwrap().spec;
    patch::set(&spec, "workload.requests", "60").unwrap()
}

/// Whoever runs which trial, in whichever order: the same bytes.
#[test]
fn the_report_does_not_depend_on_who_ran_what() {
    let plan = knee(small(), 2);
    assert_eq!(plan.trials(), 6);
    let whole = serde_json::to_string(&report(&plan)).unwrap();
    let backwards: Vec<_> = (0..6).rev().map(|trial| plan.run(trial).unwrap()).collect();
    assert_eq!(serde_json::to_string(&plan.report(backwards.clone())).unwrap(), whole);
    let threads = std::thread::scope(|scope| {
        let trials: Vec<_> = (0..6)
            .map(|trial| {
                scope.spawn({
                    let plan = &plan;
                    move || plan.run(trial).unwrap()
                })
            })
            .collect();
        trials.into_iter().map(|trial| trial.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(serde_json::to_string(&plan.report(threads)).unwrap(), whole);
    let mut twice = backwards.clone();
    twice.extend(backwards);
    assert_eq!(serde_json::to_string(&plan.report(twice)).unwrap(), whole, "a trial run twice changes nothing");
    let back: KneeReport = serde_json::from_str(&whole).unwrap();
    assert_eq!(serde_json::to_string(&back).unwrap(), whole);
}

#[test]
fn differences_are_paired_by_seed_and_curves_ascend() {
    let report = report(&knee(small(), 3));
    let per_s = |policy: usize, seed: usize| report.trials[3 * policy + seed].per_s.unwrap() / 4.0;
    let versus = report.policies[2].versus_first.unwrap();
    let mean = (0..3).map(|seed| per_s(2, seed) - per_s(0, seed)).sum::<f64>() / 3.0;
    assert!((versus.mean - mean).abs() < 1e-12 && report.policies[0].versus_first.is_none());
    for policy in &report.policies {
        assert!(policy.curve.windows(2).all(|pair| pair[0].rate_per_s < pair[1].rate_per_s));
        let (band, whole) = (policy.per_replica_per_s.unwrap(), policy.per_s.unwrap());
        assert!((band.mean * 4.0 - whole.mean).abs() < 1e-9, "four replicas");
    }
}

#[test]
fn what_has_no_knee_is_refused() {
    let refused =
        |spec: Spec, seeds| KneePlan::new(KneeSpec { version: SCHEMA_VERSION, spec, seeds }).unwrap_err().field;
    assert_eq!(refused(presets::find("book-trace").unwrap().spec, 1), "workload.rate_unit");
    assert_eq!(refused(small(), 0), "seeds");
    let live = patch::set(&small(), "execution.mode", "tinygpt").unwrap();
    assert_eq!(refused(live, 1), "execution.mode");
    // Several client policies are several answers, and users who wait offer no rate.
    assert_eq!(refused(presets::find("retry-storm").unwrap().spec, 1), "clients.policies");
    let closed = patch::set(&presets::find("metastable").unwrap().spec, "clients.pace", "closed").unwrap();
    assert_eq!(refused(closed, 1), "clients.pace");
    assert!(knee(small(), 1).run(3).is_err());
}

/// One server with exponential service and Poisson arrivals is M/M/1, whose answers take longer than t with probability exp(−(μ − λ)·t): with μ = 10 a second
/// 95 % of them come within a second up to λ = 10 − ln 20 = 7.0 a second.
#[test]
fn the_knee_of_a_server_is_where_queueing_theory_has_it() {
    let changes = [
        ("clients.on", "off"),
        ("faults.down", "0"),
        ("server.slots", "1"),
        ("server.queue", "0"),
        ("slo.ttft_s", "1"),
        ("workload.requests", "8000"),
    ];
    let start = presets::find("retry-storm").unwrap().spec;
    let spec = changes.iter().fold(start, |spec, (key, value)| patch::set(&spec, key, value).unwrap());
    let report = report(&knee(spec, 3));
    let found = report.policies[0].per_s.unwrap();
    assert_eq!(found.n, 3);
    assert!((found.mean - (10.0 - 20f64.ln())).abs() < 0.4, "{found:?}");
}
