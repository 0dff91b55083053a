//! Which signal sees too much load coming.
//!
//! The fleet of a spec runs without its autoscaler, so that nothing but the load moves its signals, until some time after the first user is late.
//! Every signal calls at a threshold; whoever calls without a break from some time before the first late user has that lead, and a lead is worth
//! something only if a new replica is ready within it. A signal that calls while nobody is late, and nobody will be within the horizon, cries wolf.
//! So verdicts come from a run, and another load gives others.

use crate::error::RunError;
use crate::session::{Run, Session};
use crate::words::{duration, percent};
use crate::{costs, stats};
use servelab_engine::Nanos;
use servelab_engine::cost::CostModel;
use servelab_fleet::Poll;
use servelab_fleet::scaling::{Over, Signal};
use servelab_spec::experiment::{ExecutionMode, Spec};
use servelab_spec::signals::{SignalRow, SignalVerdict, SignalsReport};
use servelab_spec::validate::SpecError;

/// How long the run goes on after the first late user: long enough for lagging signals to show by how much they lag.
const AFTER_S: f64 = 600.0;

/// An alarm that no late user follows within this time, or within a cold start if that is longer, was none.
const HORIZON_S: f64 = 600.0;

/// A signal that calls at more of the calm scrapes than this cries wolf.
const WOLF: f64 = 0.1;

/// All signals at one scrape.
struct Scrape {
    at_s: f64,
    values: [Option<f64>; Signal::ALL.len()],
}

/// A threshold, for each replica, and where it comes from.
struct Threshold {
    at: f64,
    basis: String,
}

/// The table of all signals on the load of `spec`, each the mean of `window_s` seconds.
///
/// # Errors
/// When the spec can not be used, has no scaling or asks for the real model.
pub fn signals(spec: &Spec, window_s: f64) -> Result<SignalsReport, RunError> {
    if !spec.scaling.on || spec.execution.mode != ExecutionMode::Priced {
        let found = if spec.scaling.on { "on without priced steps" } else { "off" };
        return Err(SpecError::new("scaling.on", found, "use on, with execution.mode=priced").into());
    }
    if !(window_s.is_finite() && (0.0..=3600.0).contains(&window_s)) {
        return Err(SpecError::new("window_s", window_s, "use a number from 0 to 3600 (s)").into());
    }
    let mut spec = spec.clone();
    spec.scaling.controllers.clear();
    spec.scaling.overflow.on = false;
    spec.policies.truncate(1);
    let mut session = Session::unwatched(spec.clone())?;
    let Some(stage) = &mut session.stage else { return Err(RunError::Mode("signals need priced steps")) };
    let run = &mut stage.runs[0];
    let scrapes = watch(run, spec.scaling.scrape_s)?;
    let first_late_s = run.ledger.first_late.map(Nanos::as_secs);
    let cold_start_s = crate::startup::config(&spec.startup).nominal_ready().as_secs();
    let reuse = stats::ratio(stage.survey.ceiling_hit_tokens as f64, stage.survey.prompt_tokens as f64);
    let capacity = costs::replica_capacity_per_s(&spec, &CostModel::from_coefficients(&stage.coefficients), reuse);
    let smooth = smoothed(&scrapes, window_s);
    let mut rows: Vec<SignalRow> = Signal::ALL
        .into_iter()
        .map(|signal| row(signal, threshold(&spec, signal, capacity), &smooth, first_late_s, cold_start_s))
        .collect();
    // The best verdict first, then the longest lead; ties stay in the order of the list.
    rows.sort_by(|a, b| {
        a.verdict.cmp(&b.verdict).then(b.lead_s.unwrap_or(f64::MIN).total_cmp(&a.lead_s.unwrap_or(f64::MIN)))
    });
    let load = first_late_s.and_then(|late| {
        let before = smooth.iter().take_while(|scrape| scrape.at_s <= late).last()?;
        before.values[Signal::ArrivalRate as usize].map(|rate| rate / capacity)
    });
    Ok(SignalsReport {
        sentences: sentences(&rows, first_late_s, cold_start_s),
        first_late_s,
        until_s: run.fleet.now().as_secs(),
        scrape_s: spec.scaling.scrape_s,
        window_s,
        cold_start_s,
        load_at_first_late: load,
        rows,
    })
}

/// Runs until some time after the first late user, or to the end, and reads every signal after each scrape. Values are for each replica.
fn watch(run: &mut Run, scrape_s: f64) -> Result<Vec<Scrape>, RunError> {
    let scrape = Nanos::from_secs(scrape_s).max(Nanos(1));
    let mut scrapes = Vec::new();
    let mut at = scrape;
    loop {
        let poll = run.fleet.poll(at, u32::MAX);
        run.happened(0);
        match poll {
            Poll::Reached => {}
            Poll::Failed => return Err(run.failure(0)),
            _ => return Ok(scrapes),
        }
        let ready = f64::from(run.fleet.ready().max(1));
        let values = Signal::ALL.map(|signal| {
            let value = run.fleet.scaling_signal(signal, Over::Latest)?;
            Some(if signal.adds_up() { value / ready } else { value })
        });
        scrapes.push(Scrape { at_s: at.as_secs(), values });
        let late = run.ledger.first_late.map(Nanos::as_secs);
        if late.is_some_and(|late| at.as_secs() > late + AFTER_S) {
            return Ok(scrapes);
        }
        at += scrape;
    }
}

/// Every value replaced by the mean of those within `window_s` up to it.
fn smoothed(scrapes: &[Scrape], window_s: f64) -> Vec<Scrape> {
    let mean = |at: usize, signal: usize| {
        let from = scrapes[at].at_s - window_s;
        // At least the value itself.
        let values = scrapes[..=at].iter().rev().take_while(|scrape| scrape.at_s > from || window_s == 0.0);
        let take = if window_s == 0.0 { 1 } else { usize::MAX };
        let (sum, n) = (values.take(take).filter_map(|scrape| scrape.values[signal]))
            .fold((0.0, 0u32), |(sum, n), value| (sum + value, n + 1));
        (n > 0).then(|| sum / f64::from(n))
    };
    (0..scrapes.len())
        .map(|at| Scrape { at_s: scrapes[at].at_s, values: std::array::from_fn(|signal| mean(at, signal)) })
        .collect()
}

/// What people set, or what follows from the settings.
fn threshold(spec: &Spec, signal: Signal, capacity: f64) -> Threshold {
    let (at, basis) = match signal {
        Signal::CpuUtilisation => (0.7, "a usual HPA target".into()),
        Signal::ComputeUtilisation => (0.7, "the usual target of CPU utilisation".into()),
        Signal::GpuUtilisation => (0.8, "the target most often asked for".into()),
        Signal::Preemptions => (0.01, "one in a hundred seconds".into()),
        Signal::QueueDepth => (5.0, "llm-d's and KServe's example".into()),
        Signal::QueueGrowth => (0.1, "six requests a minute".into()),
        Signal::KvUsage => (0.8, "llm-d's KV threshold".into()),
        Signal::InFlight => (0.75 * f64::from(spec.engine.max_batch), "three quarters of the batch".into()),
        Signal::Running => (0.75 * f64::from(spec.engine.max_batch), "three quarters of the batch".into()),
        Signal::ArrivalRate => (0.8 * capacity, "80 % of what a replica is estimated to serve".into()),
        Signal::TokenRate => {
            let tokens = servelab_workload::mean_request(&spec.workload).output_tokens;
            (0.8 * capacity * tokens, "80 % of what a replica is estimated to serve".into())
        }
        Signal::TtftP95 => (spec.slo.ttft_s, "the SLO".into()),
        Signal::QueueTime => (spec.slo.ttft_s / 4.0, "a quarter of the SLO".into()),
    };
    Threshold { at, basis }
}

fn row(signal: Signal, threshold: Threshold, scrapes: &[Scrape], late: Option<f64>, cold_start_s: f64) -> SignalRow {
    let value = |scrape: &Scrape| scrape.values[signal as usize];
    let calls = |scrape: &Scrape| value(scrape).is_some_and(|value| value >= threshold.at);
    let horizon = late.map_or(f64::INFINITY, |late| late - HORIZON_S.max(cold_start_s));
    let calm: Vec<&Scrape> = scrapes.iter().take_while(|scrape| scrape.at_s <= horizon).collect();
    let called = calm.iter().filter(|scrape| calls(scrape)).count();
    let false_share = stats::ratio(called as f64, calm.len() as f64);
    let mut values: Vec<f64> = calm.iter().filter_map(|scrape| value(scrape)).collect();
    values.sort_by(f64::total_cmp);
    let at_first_late =
        late.and_then(|late| scrapes.iter().take_while(|scrape| scrape.at_s <= late).last()).and_then(value);
    let lead_s = late.and_then(|late| lead(scrapes, late, calls));
    let verdict = match lead_s {
        _ if false_share > WOLF => SignalVerdict::CriesWolf,
        None => SignalVerdict::Silent,
        Some(lead) if lead < 0.0 => SignalVerdict::Late,
        Some(lead) if lead < cold_start_s => SignalVerdict::TooShort,
        Some(_) => SignalVerdict::InTime,
    };
    SignalRow {
        name: signal.name().into(),
        label: label(signal).into(),
        unit: unit(signal).into(),
        threshold: threshold.at,
        basis: threshold.basis,
        calm: values.get(values.len() / 2).copied(),
        at_first_late,
        lead_s,
        false_share,
        verdict,
    }
}

/// Seconds from the scrape at which the calls began that last until `late`; after it, from `late` to the first call, negative.
fn lead(scrapes: &[Scrape], late: f64, calls: impl Fn(&Scrape) -> bool) -> Option<f64> {
    let before = scrapes.partition_point(|scrape| scrape.at_s <= late);
    let since = scrapes[..before].iter().rev().take_while(|scrape| calls(scrape)).last();
    since.or_else(|| scrapes[before..].iter().find(|scrape| calls(scrape))).map(|scrape| late - scrape.at_s)
}

fn label(signal: Signal) -> &'static str {
    match signal {
        Signal::CpuUtilisation => "CPU utilisation",
        Signal::ComputeUtilisation => "Compute utilisation",
        Signal::GpuUtilisation => "GPU utilisation",
        Signal::Preemptions => "Preemptions",
        Signal::QueueDepth => "Queue depth",
        Signal::QueueGrowth => "Queue growth",
        Signal::KvUsage => "KV-cache usage",
        Signal::InFlight => "Running + waiting",
        Signal::Running => "Running",
        Signal::ArrivalRate => "Arrival rate",
        Signal::TokenRate => "Tokens per second",
        Signal::TtftP95 => "TTFT p95",
        Signal::QueueTime => "Queue time",
    }
}

fn unit(signal: Signal) -> &'static str {
    match signal {
        Signal::Preemptions | Signal::QueueGrowth | Signal::ArrivalRate | Signal::TokenRate => "/s",
        Signal::TtftP95 | Signal::QueueTime => "s",
        _ => "",
    }
}

fn sentences(rows: &[SignalRow], late: Option<f64>, cold_start_s: f64) -> Vec<String> {
    let Some(late) = late else {
        return vec!["Nobody was late, so no signal had anything to foresee.".into()];
    };
    let names = |wanted: SignalVerdict| -> Vec<&str> {
        rows.iter().filter(|row| row.verdict == wanted).map(|row| row.label.as_str()).collect()
    };
    let mut out = vec![match names(SignalVerdict::InTime).first() {
        Some(best) => {
            let lead = rows[0].lead_s.unwrap_or(0.0);
            format!(
                "The first late user came after {}. {best} had called {} before, and a replica takes {}.",
                duration(late),
                duration(lead),
                duration(cold_start_s)
            )
        }
        None => format!(
            "The first late user came after {}, and no signal called {} before, which is what a replica takes.",
            duration(late),
            duration(cold_start_s)
        ),
    }];
    if let Some(row) = rows
        .iter()
        .filter(|row| row.verdict == SignalVerdict::CriesWolf)
        .max_by(|a, b| a.false_share.total_cmp(&b.false_share))
    {
        out.push(format!("{} called at {} of the calm scrapes.", row.label, percent(row.false_share)));
    }
    let late = names(SignalVerdict::Late);
    if !late.is_empty() {
        out.push(format!("Only after the first late user: {}.", late.join(", ")));
    }
    out
}

#[cfg(test)]
#[path = "signals_tests.rs"]
mod tests;
