//! Situations of an autoscaler: a day, a spike, a leak, a night, a deploy, a loss; and the questions that people ask of them.
//!
//! One replica serves about six requests a second: 20 ms a step and 0.6 ms for each of eight sequences, 50 tokens an answer, two thirds of the prompt
//! cached. That is a large model on one GPU, made round so that capacity can be read off the picture.

use super::{guess, preset};
use crate::report::verdict::{Case, Judge};
use crate::startup;
use crate::words::{dollars, duration, percent};
use servelab_fleet::scaling::Signal;
use servelab_spec::catalog::PresetInfo;
use servelab_spec::experiment::{
    Coefficients, ControllerSpec, DemandSpec, EngineSpec, EventsSpec, OverflowSpec, PolicySpec, ScalingSpec, SloSpec,
    Spec, StartupSpec, WorkloadSpec,
};
use servelab_spec::report::Verdict;

pub(super) fn all() -> Vec<PresetInfo> {
    vec![
        weekday(),
        utilisation(),
        spike(),
        slow_leak(),
        week(),
        night(),
        deploy(),
        node_loss(),
        missed_slo(),
        quantised(),
        overflow(),
        spare(),
    ]
}

pub(super) fn judge(name: &str) -> Option<Judge> {
    Some(match name {
        "weekday" | "cpu-or-gpu" | "load-spike" | "slow-leak" | "holiday-week" => least_late as Judge,
        "asleep-at-night" => first_of_the_morning,
        "deploy" => dropped,
        "node-loss" => recovery,
        "scale-up-too-late" => longest_part,
        "quantised-start" => shorter_start,
        "overflow" => api_or_fleet,
        "warm-spare" => worth_of_a_spare,
        _ => return None,
    })
}

/// HPA on a signal.
pub(super) fn hpa(signal: Signal, target: f64) -> ControllerSpec {
    let external = f64::from(u8::from(signal == Signal::QueueDepth));
    ControllerSpec::named("kubernetes_hpa")
        .with("signal", f64::from(signal as u8))
        .with("metric_type", external)
        .with("target", target)
}

/// A fleet under a curve, with the cold start of an 8-billion model and nothing cached.
pub(super) fn fleet(curve: &str, rate: f64, controllers: Vec<ControllerSpec>) -> Spec {
    let startup = startup::presets::find("l40s_8b").map_or_else(StartupSpec::default, |preset| preset.startup);
    let startup = StartupSpec { node_s: 90.0, ..startup };
    let demand = DemandSpec { curve: curve.into(), rate, ..DemandSpec::default() };
    let mut spec = Spec {
        replicas: 2,
        policies: vec![PolicySpec::named("least_requests")],
        workload: WorkloadSpec::Demand(demand),
        engine: EngineSpec { blocks: 256, max_batch: 8, token_budget: 512, ..EngineSpec::default() },
        scaling: ScalingSpec { on: true, controllers, min: 1, max: 8, grace_s: 60.0, ..ScalingSpec::default() },
        startup,
        slo: SloSpec { ttft_s: 2.0, itl_s: 0.1 },
        ..Spec::default()
    };
    spec.execution.cost = "custom".into();
    spec.execution.coefficients = Some(Coefficients {
        step_us: 20_000.0,
        prefill_token_us: 60.0,
        prefill_context_us: 0.0,
        decode_sequence_us: 600.0,
        decode_context_us: 0.3,
    });
    spec
}

/// The preset with the guess that [`least_late`] judges.
fn ask_least_late(preset: PresetInfo) -> PresetInfo {
    let labels: Vec<String> = preset.spec.scaling.controllers.iter().map(crate::catalog::controller_label).collect();
    let options: Vec<&str> = labels.iter().map(String::as_str).chain(["They do not differ"]).collect();
    guess(preset, "With whom are users late for the least time?", &options)
}

fn weekday() -> PresetInfo {
    let controllers = vec![hpa(Signal::GpuUtilisation, 0.8), hpa(Signal::QueueDepth, 5.0), hpa(Signal::KvUsage, 0.7)];
    let spec = fleet(DemandSpec::WEEKDAY, 20.0, controllers);
    let question = "A working day: should GPU utilisation, queue depth or KV-cache usage decide?";
    ask_least_late(preset("weekday", "A weekday", question, spec))
}

fn utilisation() -> PresetInfo {
    let controllers = vec![
        hpa(Signal::CpuUtilisation, 0.7),
        hpa(Signal::ComputeUtilisation, 0.7),
        hpa(Signal::GpuUtilisation, 0.8),
        hpa(Signal::InFlight, 6.0),
    ];
    let spec = fleet("0:0.2,0.5:0.2,1.5:1,3:1,3.5:0.2,4:0.2", 20.0, controllers);
    let question = "CPU, compute or GPU utilisation as the signal, or requests in flight?";
    ask_least_late(preset("cpu-or-gpu", "Which utilisation?", question, spec))
}

fn spike() -> PresetInfo {
    let controllers = vec![
        hpa(Signal::QueueDepth, 5.0),
        hpa(Signal::InFlight, 6.0),
        ControllerSpec::named("knative_kpa").with("target", 8.0),
    ];
    let spec = fleet("0:0.4,0.5:0.4,0.51:1.5,1:1.5,1.01:0.4,2:0.4", 20.0, controllers);
    let question = "Traffic grows fourfold within a minute: who catches up first?";
    ask_least_late(preset("load-spike", "A spike", question, spec))
}

fn slow_leak() -> PresetInfo {
    let controllers = vec![hpa(Signal::GpuUtilisation, 0.95), hpa(Signal::QueueDepth, 5.0), hpa(Signal::InFlight, 6.0)];
    let spec = fleet("0:0.3,6:1.6", 20.0, controllers);
    let question = "Traffic grows by a fifth every hour: does a signal that ends at 1 notice?";
    ask_least_late(preset("slow-leak", "A slow leak upward", question, spec))
}

/// Seven days of which the third is a holiday; an hour of the curve is four minutes, so that a week is watched in a sitting.
fn week() -> PresetInfo {
    let day = |at: u32, level: f64| {
        let hours = [(0, 0.1), (6, 0.12), (9, 1.0), (12, 0.9), (13, 0.7), (15, 0.9), (18, 0.4), (22, 0.15)];
        hours
            .map(|(hour, share)| format!("{}:{}", at * 24 + hour, (share * level * 100.0_f64).round() / 100.0))
            .join(",")
    };
    let curve: Vec<String> =
        [1.0, 1.0, 0.2, 1.0, 0.9, 0.3, 0.3].into_iter().zip(0..).map(|(level, at)| day(at, level)).collect();
    let curve = format!("{},168:0.1", curve.join(","));
    // Whatever the hour: a week of the curve is eleven hours of the schedule.
    let fixed = ControllerSpec::named("schedule").with("base", 5.0).with("a_replicas", 0.0);
    let mut spec = fleet(&curve, 20.0, vec![fixed, hpa(Signal::InFlight, 6.0)]);
    if let WorkloadSpec::Demand(demand) = &mut spec.workload {
        demand.hour_s = 240.0;
    }
    let question = "A week with a holiday on Wednesday: a fixed fleet or one that follows?";
    ask_least_late(preset("holiday-week", "A week with a holiday", question, spec))
}

fn night() -> PresetInfo {
    // Requests in flight, not the queue: that is empty while everybody is served, and KEDA would put the fleet to sleep at noon.
    let keda = ControllerSpec::named("keda").with("signal", f64::from(Signal::InFlight as u8)).with("threshold", 6.0);
    let mut spec = fleet("0:0.5,1:0.2,1.2:0,6:0,6.01:0.3,8:0.6", 6.0, vec![keda]);
    spec.replicas = 1;
    spec.scaling.min = 0;
    spec.scaling.max = 3;
    let options = ["Less than a second", "Less than a minute", "One to five minutes", "More than five minutes"];
    let question = "The assistant sleeps at night: how long does the first user of the morning wait?";
    guess(
        preset("asleep-at-night", "Scale to zero over night", question, spec),
        "How long does the first user of the morning wait for the first token?",
        &options,
    )
}

fn deploy() -> PresetInfo {
    let mut spec = fleet("0:0.8,1.5:0.8", 20.0, vec![]);
    spec.replicas = 4;
    // Answers of a minute and a half, and half a minute to finish them.
    if let WorkloadSpec::Demand(demand) = &mut spec.workload {
        (demand.rate, demand.output_min, demand.output_max) = (0.4, 1500, 3000);
    }
    spec.engine = EngineSpec { blocks: 2048, max_context: 8192, ..spec.engine };
    spec.scaling.grace_s = 30.0;
    spec.startup.surge = true;
    spec.events = EventsSpec { deploy: true, deploy_at_s: 900.0, ..spec.events };
    let options = ["None", "Less than one in a hundred", "More"];
    let question = "Every replica is replaced: are requests dropped?";
    guess(
        preset("deploy", "A deploy replaces every replica", question, spec),
        "How many requests are cut off, when a replica has 30 s to finish answers that take a minute and more?",
        &options,
    )
}

fn node_loss() -> PresetInfo {
    let mut spec = fleet("0:0.9,2:0.9", 20.0, vec![hpa(Signal::InFlight, 7.0)]);
    spec.replicas = 4;
    spec.scaling.retry_lost = true;
    spec.events = EventsSpec { crash: 2, crash_at_s: 1800.0, ..spec.events };
    let options = ["Under a minute", "One to five minutes", "Five to fifteen minutes", "Longer"];
    let question = "Two nodes die at the peak: for how long are users late?";
    guess(preset("node-loss", "A node loss at the peak", question, spec), "For how long are users late?", &options)
}

const PARTS: [(&str, &[&str]); 5] = [
    ("Seeing it: scrape, window, loop", &["scrape", "window and loop"]),
    ("Waiting before anything is done: persistence and rate limits", &["persistence and rate limit"]),
    ("Node and image", &["Node", "Image"]),
    ("Weights", &["Weights to host", "Weights to GPU"]),
    ("Process, compile, graphs, warm-up", &["Process", "Allocator", "Compile", "Graphs", "Warm-up", "readiness"]),
];

fn missed_slo() -> PresetInfo {
    let sky = ControllerSpec::named("skyserve").with("target_qps_per_replica", 5.0);
    let spec = fleet("0:0.4,0.5:0.4,0.6:1.2,2:1.2", 20.0, vec![sky]);
    let options = PARTS.map(|(label, _)| label);
    let question = "Scale-up fires, and the SLO is missed all the same: where does the time go?";
    guess(
        preset("scale-up-too-late", "Scale-up fires, the SLO still misses", question, spec),
        "What takes longest between the first late user and the replica that helps?",
        &options,
    )
}

fn quantised() -> PresetInfo {
    let mut spec = fleet("0:0.4,0.5:0.4,0.51:1.2,1.5:1.2", 20.0, vec![hpa(Signal::InFlight, 6.0)]);
    spec.startup.bits = 4.0;
    let options = ["A quarter as long", "Half as long", "More than half as long"];
    let question = "Weights in 4 bits instead of 16: how much sooner is a replica there?";
    guess(
        preset("quantised-start", "Quantisation as an availability feature", question, spec),
        "How long does a start with 4-bit weights take, against one with 16-bit weights?",
        &options,
    )
}

fn overflow() -> PresetInfo {
    let mut spec = fleet("0:0.3,0.5:0.3,0.51:1.2,1:1.2,1.01:0.3,3:0.3", 20.0, vec![hpa(Signal::InFlight, 6.0)]);
    spec.scaling.overflow = OverflowSpec { on: true, load: 12.0, ..OverflowSpec::default() };
    let options = ["Scaling, and the API while replicas start", "A fleet as large as the peak"];
    let question =
        "Half an hour of traffic in three is four times as heavy: keep replicas for it, or pay an API by the token?";
    guess(
        preset("overflow", "Overflow to a managed API", question, spec),
        "What costs less, with nobody late?",
        &options,
    )
}

fn spare() -> PresetInfo {
    let mut spec = fleet("0:0.4,0.4:0.4,0.41:0.8,1:0.8", 20.0, vec![hpa(Signal::InFlight, 6.0)]);
    spec.startup.warm_spares = 1;
    let options = ["Less than half", "Half to nine tenths", "More than that"];
    let question = "One replica is kept started and idle: how much of the lateness does it take away?";
    guess(
        preset("warm-spare", "A warm spare", question, spec),
        "Of the time for which users are late without it, how much does a spare take away?",
        &options,
    )
}

/// Judges "what costs less, with nobody late?": the run against the same without the API and with replicas for the peak all the time.
fn api_or_fleet(case: &Case<'_>) -> Option<Verdict> {
    let mixed = case.policy(0).scaling.as_ref()?;
    let peak = case.spec.scaling.max.to_string();
    let changes = [("scaling.overflow.on", "off"), ("scaling.min", &peak), ("replicas", &peak)];
    let fixed = case.variant(&case.spec.policies[..1], &changes)?;
    let fixed = fixed.policy().scaling.as_ref()?;
    let cost = mixed.nodes_usd + mixed.outside_usd;
    let because = format!(
        "With the API it costs {}, {} of them by the token, and users are late for {}. {peak} replicas all the time cost {}, and users are late for {}.",
        dollars(cost),
        dollars(mixed.outside_usd),
        duration(mixed.late_s),
        dollars(fixed.nodes_usd),
        duration(fixed.late_s)
    );
    Some(Verdict { option: u32::from(fixed.nodes_usd < cost), because })
}

fn worth_of_a_spare(case: &Case<'_>) -> Option<Verdict> {
    let with = case.policy(0).scaling.as_ref()?;
    let without = case.variant(&case.spec.policies[..1], &[("startup.warm_spares", "0")])?;
    let without = without.policy().scaling.as_ref()?;
    if without.late_s <= 0.0 {
        return None;
    }
    let less = 1.0 - with.late_s / without.late_s;
    let option = [0.5, 0.9].iter().position(|&limit| less < limit).unwrap_or(2);
    let because = format!(
        "Users are late for {} with it and {} without. Nodes are paid for {} and for {}.",
        duration(with.late_s),
        duration(without.late_s),
        duration(with.node_s),
        duration(without.node_s)
    );
    Some(Verdict { option: option as u32, because })
}

/// Judges "with whom are users late for the least time?". Options are the preset's controllers and, last, that they do not differ.
fn least_late(case: &Case<'_>) -> Option<Verdict> {
    let options = &case.preset.spec.scaling.controllers;
    let runs = case.spec.contenders();
    let mut ranked: Vec<(usize, f64, &str)> = Vec::new();
    for (option, controller) in options.iter().enumerate() {
        let at = runs
            .iter()
            .position(|run| run.controller.is_some_and(|index| case.spec.scaling.controllers[index] == *controller))?;
        let scaling = case.policy(at).scaling.as_ref()?;
        ranked.push((option, scaling.late_s, &scaling.label));
    }
    ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
    let [(option, best, label), (_, next, other), ..] = ranked[..] else { return None };
    if best == next {
        let because = format!("Users were late for {} with {label}. With {other} it was as long.", duration(best));
        return Some(Verdict { option: options.len() as u32, because });
    }
    let because = format!(
        "Users were late for {} with {label}. With {other}, the next, it was {}.",
        duration(best),
        duration(next)
    );
    Some(Verdict { option: option as u32, because })
}

fn first_of_the_morning(case: &Case<'_>) -> Option<Verdict> {
    // Whoever comes after the longest time without anybody.
    let records = case.records(0);
    let mut arrivals: Vec<_> = records.iter().map(|record| (record.arrival, record.ttft())).collect();
    arrivals.sort_by_key(|(at, _)| *at);
    let first = arrivals.windows(2).max_by_key(|pair| pair[1].0.since(pair[0].0))?;
    let waited = first[1].1?.as_secs();
    let option = [1.0, 60.0, 300.0].iter().position(|&limit| waited < limit).unwrap_or(3);
    let because = format!(
        "The first one after the quiet hours waited {}. Half of all waited {} at most.",
        duration(waited),
        duration(case.policy(0).ttft_s.p50)
    );
    Some(Verdict { option: option as u32, because })
}

fn dropped(case: &Case<'_>) -> Option<Verdict> {
    let policy = case.policy(0);
    let (lost, all) = (policy.requests.lost, policy.requests.total);
    let option = if lost == 0 {
        0
    } else if lost * 100 < all {
        1
    } else {
        2
    };
    let because =
        format!("{lost} of {all} requests were cut off. That is {}.", percent(lost as f64 / all.max(1) as f64));
    Some(Verdict { option, because })
}

fn recovery(case: &Case<'_>) -> Option<Verdict> {
    let late = case.policy(0).scaling.as_ref()?.late_s;
    let option = [60.0, 300.0, 900.0].iter().position(|&limit| late < limit).unwrap_or(3);
    Some(Verdict {
        option: option as u32,
        because: format!(
            "Users were late for {}. It took a node, the weights and a start to end that.",
            duration(late)
        ),
    })
}

fn longest_part(case: &Case<'_>) -> Option<Verdict> {
    let delays = &case.policy(0).scaling.as_ref()?.delays;
    let time = |names: &[&str]| {
        delays.iter().filter(|delay| names.contains(&delay.what.as_str())).map(|delay| delay.seconds).sum::<f64>()
    };
    let times: Vec<f64> = PARTS.iter().map(|(_, names)| time(names)).collect();
    let (option, longest) =
        times.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|&(_, longest)| longest > 0.0)?;
    let whole: f64 = times.iter().sum();
    let because =
        format!("It took {} of {}. What had piled up meanwhile is not in it.", duration(longest), duration(whole));
    Some(Verdict { option: option as u32, because })
}

fn shorter_start(case: &Case<'_>) -> Option<Verdict> {
    let time = |bits| startup::config(&StartupSpec { bits, ..case.spec.startup }).nominal().as_secs();
    let (four, sixteen) = (time(4.0), time(16.0));
    let share = four / sixteen;
    let option = if share < 0.35 {
        0
    } else if share <= 0.55 {
        1
    } else {
        2
    };
    let because = format!(
        "A start takes {} with 4 bits and {} with 16. Only the bytes are fewer.",
        duration(four),
        duration(sixteen)
    );
    Some(Verdict { option, because })
}
