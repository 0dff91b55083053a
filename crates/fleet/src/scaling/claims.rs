//! What is reported of autoscalers, asked of the controllers alone: no engine, a load as a fluid. Each test says whose claim it is, how it is set up, what must
//! hold and what we get.

use super::testing::{Bench, Load, steps};
use super::*;
use servelab_spec::experiment::ControllerSpec;
use std::cell::Cell;

fn signal(signal: Signal) -> f64 {
    f64::from(signal as u32)
}

/// Requests that arrive at `rate` and of which a ready replica serves `capacity` per second, all of those that wait held at the gateway.
fn fluid(rate: impl Fn(f64) -> f64, capacity: f64) -> impl Fn(Nanos, u32) -> Load {
    let (queue, before) = (Cell::new(0.0), Cell::new(0.0));
    move |now, ready| {
        let seconds = now.as_secs() - before.replace(now.as_secs());
        let rate = rate(now.as_secs());
        queue.set((queue.get() + (rate - capacity * f64::from(ready)) * seconds).max(0.0));
        Load { held: queue.get() as u32, rate, ..Load::default() }
    }
}

/// Row 1, derived from `horizontal.go`: the HPA's default policies.
///
/// One replica, demand without end, an evaluation every 15 s. Must be, and is: 1 → 5 → 10 → 20 → 40, four more or double. A manifest without a behavior
/// section is not the same: 1 → 4 → 8 → 16.
#[test]
fn the_hpa_grows_by_four_or_doubles() {
    let huge = |_: Nanos, _: u32| Load { waiting: 100_000, ..Load::default() };
    let mut bench = Bench::new(ControllerSpec::named("kubernetes_hpa")).ready(1).bounds(1, 40);
    assert_eq!(bench.run(60.0, huge), [(15.0, 5), (30.0, 10), (45.0, 20), (60.0, 40)]);
    let mut bench = Bench::new(ControllerSpec::named("kubernetes_hpa").with("behavior", 0.0)).ready(1);
    assert_eq!(steps(&bench.run(45.0, huge)), [4, 8, 16]);
}

/// Row 2, the HPA's documentation: policies of 4 replicas and of 10 % a minute, the larger counts.
///
/// Eighty replicas, nothing to do, no stabilisation. Must be, and is: 80 → 72 → 64 and so on in tenths rounded in favour of going, four at a time from 40
/// on, once a minute.
#[test]
fn the_hpa_goes_down_by_the_larger_policy() {
    let slow = ControllerSpec::named("kubernetes_hpa")
        .with("scale_down_stabilization_s", 0.0)
        .with("scale_down_pods", 4.0)
        .with("scale_down_pods_period_s", 60.0)
        .with("scale_down_percent", 10.0)
        .with("scale_down_percent_period_s", 60.0);
    let asked = Bench::new(slow).ready(80).run(900.0, |_, _| Load::default());
    assert_eq!(steps(&asked), [72, 64, 57, 51, 45, 40, 36, 32, 28, 24, 20, 16, 12, 8, 4]);
    let changes: Vec<f64> = asked.windows(2).filter(|two| two[0].1 != two[1].1).map(|two| two[1].0 - 15.0).collect();
    assert!(changes.iter().all(|at| at % 60.0 == 0.0), "{changes:?}");
}

/// Row 3, derived: a saturating signal and the tolerance.
///
/// KV usage at 1 for an hour. Must be, and is: a target of 0.90 goes on growing, 0.91 never moves, as 1 ÷ 0.91 < 1.1.
#[test]
fn a_target_above_ten_elevenths_never_scales_up() {
    let full = |_: Nanos, _: u32| Load { kv: 1.0, ..Load::default() };
    let of =
        |target| ControllerSpec::named("kubernetes_hpa").with("signal", signal(Signal::KvUsage)).with("target", target);
    let asked = steps(&Bench::new(of(0.90)).ready(2).run(3600.0, full));
    assert_eq!(asked[..4], [3, 4, 5, 6], "a ninth more each time, rounded up");
    assert_eq!(steps(&Bench::new(of(0.91)).ready(2).run(3600.0, full)), [2]);
}

/// Twenty requests wait, shared by whoever is ready: 4 replicas are needed at a target of 5.
fn twenty(_: Nanos, ready: u32) -> Load {
    Load { waiting: 20 / ready.max(1), ..Load::default() }
}

/// Row 4, `replica_calculator.go`: replicas on their way dampen a Pods metric.
///
/// Two replicas at twice the target, a cold start of ten minutes. Must be, and is: 4, and 4 it stays, whether the others have no node or load weights.
#[test]
fn the_hpa_waits_for_those_on_their_way() {
    let mut bench = Bench::new(ControllerSpec::named("kubernetes_hpa")).ready(2).start_up(600.0);
    assert_eq!(steps(&bench.run(900.0, twenty)), [4]);
    let mut bench = Bench::new(ControllerSpec::named("kubernetes_hpa")).ready(2).phase(2, Phase::Pending);
    assert_eq!(steps(&bench.run(900.0, twenty)), [4]);
}

/// Row 5, aibrix#2670: a loop on what was asked for doubles while replicas load.
///
/// The same load and cold start. Must be, and is: 4 → 8 → 16 → 32, where the HPA and AIBrix with its guard stay at 4.
#[test]
fn a_naive_loop_runs_away() {
    let mut bench = Bench::new(ControllerSpec::named("naive_ratio")).ready(2).start_up(600.0);
    assert_eq!(steps(&bench.run(60.0, twenty)), [4, 8, 16, 32]);
    let guarded = ControllerSpec::named("aibrix_apa").with("signal", signal(Signal::QueueDepth)).with("target", 5.0);
    let guarded = guarded.with("window_s", 0.0);
    assert_eq!(steps(&Bench::new(guarded).ready(2).start_up(600.0).run(900.0, twenty)), [4]);
}

/// Row 7, derived: a queue says how long there was too little, not how much is needed.
///
/// 8 requests/s, one replica that serves 6/s, a cold start of 120 s, the HPA on the total queue with a target of 5 for each. Two replicas would do. Must
/// hold: after 120 s 240 wait and it has asked for 48; the queue gone, it goes below what is needed, and all that again. We get 48 → 1 → 48 → 1 and so on
/// for two hours.
#[test]
fn a_queue_overshoots_and_then_forgets() {
    let spec = ControllerSpec::named("kubernetes_hpa").with("metric_type", 1.0);
    let mut bench = Bench::new(spec).bounds(1, 50).ready(1).start_up(120.0);
    let load = fluid(|_| 8.0, 6.0);
    bench.run(105.0, &load);
    bench.now += Nanos::from_secs(15.0);
    let now = load(bench.now, 1);
    bench.scrape_now(|_| now);
    assert_eq!((now.held, bench.act(), bench.current), (240, Decision::now(48, "as recommended"), 48));
    let then = steps(&bench.run(7200.0, &load));
    let (low, high) = (|&&replicas: &&u32| replicas < 2, |&&replicas: &&u32| replicas >= 40);
    assert!(then.iter().filter(low).count() > 2 && then.iter().filter(high).count() > 2, "{then:?}");
}

/// Row 9, KEDA's executor: from zero it takes a poll, and gives one replica.
///
/// Requests start to wait at each second of a polling interval of 30 s. Must hold: a replica is asked for 0 to 30 s later, 15 s on average, and it is one,
/// though 20 are needed; the HPA asks for more at its next evaluations. We get 14.5 s on whole seconds.
#[test]
fn keda_leaves_zero_at_a_poll_with_one() {
    let mut delays = vec![];
    for second in 1..=30 {
        let onset = 300.0 + f64::from(second);
        let mut bench = Bench::new(ControllerSpec::named("keda")).bounds(0, 50).start_up(120.0).scrapes_every(1.0);
        let held = |now: Nanos, _: u32| Load { held: if now.as_secs() >= onset { 100 } else { 0 }, ..Load::default() };
        let asked = bench.run(450.0, held);
        assert_eq!(steps(&asked), [0, 1, 5, 10, 20], "{second}");
        delays.extend(asked.iter().find(|&&(_, replicas)| replicas == 1).map(|&(at, _)| at - onset));
    }
    assert!(delays.iter().all(|&delay| (0.0..30.0).contains(&delay)), "{delays:?}");
    assert_eq!(delays.iter().sum::<f64>() / 30.0, 14.5);
}

/// Row 10, superlinked/sie#293: a cool-down shorter than the cold start.
///
/// A client comes every 20 minutes and waits for one; the cold start takes ten, the cool-down is five. Must hold: the replica is killed while it
/// loads, every time, and nobody is ever served. We get 6 starts in two hours and no ready replica; with a cool-down of eleven minutes it is ready.
#[test]
fn a_cool_down_shorter_than_the_cold_start_kills_what_loads() {
    let run = |cooldown: f64| {
        let spec = ControllerSpec::named("keda").with("cooldown_s", cooldown);
        let mut bench = Bench::new(spec).bounds(0, 5).start_up(600.0);
        let served = Cell::new(false);
        let load = |now: Nanos, ready: u32| {
            served.set(served.get() || ready > 0);
            Load { held: u32::from(now.as_secs() % 1200.0 < 60.0), ..Load::default() }
        };
        let asked = bench.run(7200.0, load);
        (asked.windows(2).filter(|two| two[0].1 == 0 && two[1].1 > 0).count(), served.get())
    };
    let (starts, served) = run(300.0);
    assert!(!served && starts >= 5, "{starts} starts");
    assert!(run(660.0).1);
}

/// Row 12, knative#13284: panic ignores start-up.
///
/// 5 requests/s become 20/s, of which a replica serves 10/s; replicas take 30 s to start; a target of 10 in flight. Two would do. Must hold: while the first
/// load, what piles up counts as demand and it asks for more than five times what is needed. We get 60 and more.
#[test]
fn panic_floods_the_cluster_while_replicas_start() {
    let spec = ControllerSpec::named("knative_kpa").with("target", 10.0).with("utilization", 100.0);
    let mut bench = Bench::new(spec).ready(1).start_up(30.0).scrapes_every(2.0);
    let load = fluid(|second| if second < 120.0 { 5.0 } else { 20.0 }, 10.0);
    assert_eq!(steps(&bench.run(118.0, &load)), [1]);
    let most = bench.run(120.0, &load).iter().map(|&(_, replicas)| replicas).max();
    assert!(most.is_some_and(|most| most > 10), "{most:?}");
}

/// Row 17, llm-d-autoscaling#1171: a mean hides a hot replica.
///
/// Two replicas behind prefix affinity, one with its cache full and 100 waiting, one all but idle: KV averages 0.51. Must hold: neither the HPA on KV
/// usage nor llm-d's analyser, which leaves saturated replicas out, asks for one more; the HPA on the queue does. We get 2, 2 and more than 2.
#[test]
fn a_mean_hides_a_hot_replica() {
    let asked = |spec: ControllerSpec| {
        let mut bench = Bench::new(spec).ready(2);
        bench.scrape_now(|replica| match replica {
            0 => Load { kv: 0.99, waiting: 100, running: 8, ..Load::default() },
            _ => Load { kv: 0.03, running: 1, ..Load::default() },
        });
        bench.decide().desired
    };
    let hpa = ControllerSpec::named("kubernetes_hpa");
    assert_eq!(asked(hpa.clone().with("signal", signal(Signal::KvUsage)).with("target", 0.8)), 2);
    assert_eq!(asked(ControllerSpec::named("llm_d_wva")), 2);
    assert!(asked(hpa) > 2);
}
