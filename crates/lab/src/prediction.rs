//! How well the fitted cost model predicts a live run.
//!
//! Steps are compared one by one, and the run's own latencies twice over: the *same schedule* (which request ran in which step of which replica) is put
//! on the clock once with fitted and once with measured durations. A replica's steps follow one another; a step that admits a request does not
//! start before that request arrives. Comparing on one schedule keeps the error of the model apart from the different
//! decisions that a router would take on a faster or slower clock.

use crate::session::{Entry, LoggedStep, Run, Stage};
use crate::stats::{quantile, ratio};
use servelab_engine::Nanos;
use servelab_engine::cost::CostModel;
use servelab_spec::report::Prediction;
use std::collections::BTreeMap;

/// Fitted against measured over all policies; `None` when no step was measured.
pub(crate) fn predict(stage: &Stage) -> Option<Prediction> {
    let cost = CostModel::from_coefficients(&stage.coefficients);
    let fitted = |step: &LoggedStep| cost.step(&step.work).0 as f64 / 1e12;
    let measured = |step: &LoggedStep| step.output.seconds.unwrap_or(0.0);
    let (mut errors, mut sums) = (vec![], (0.0, 0.0));
    let (mut with_fit, mut with_measured) = (Latencies::default(), Latencies::default());
    for run in &stage.runs {
        for step in steps(run).filter(|step| measured(step) > 0.0) {
            let (f, m) = (fitted(step), measured(step));
            errors.push((f - m).abs() / m);
            sums = (sums.0 + f, sums.1 + m);
        }
        for replica in 0..stage.config().replicas_ever() {
            with_fit.add(run, replica, &fitted);
            with_measured.add(run, replica, &measured);
        }
    }
    if errors.is_empty() {
        return None;
    }
    errors.sort_by(f64::total_cmp);
    let median = |samples: &mut Vec<f64>| {
        samples.sort_by(f64::total_cmp);
        quantile(samples, 0.5)
    };
    Some(Prediction {
        step_error_p50: quantile(&errors, 0.5),
        step_error_p95: quantile(&errors, 0.95),
        total_ratio: ratio(sums.0, sums.1),
        ttft_fitted_s: median(&mut with_fit.ttft),
        ttft_measured_s: median(&mut with_measured.ttft),
        itl_fitted_s: median(&mut with_fit.itl),
        itl_measured_s: median(&mut with_measured.itl),
    })
}

fn steps(run: &Run) -> impl Iterator<Item = &LoggedStep> {
    run.log.iter().filter_map(|entry| match entry {
        Entry::Step(step) => Some(step),
        Entry::Boot(_) | Entry::DeviceLost => None,
    })
}

#[derive(Default)]
struct Latencies {
    ttft: Vec<f64>,
    itl: Vec<f64>,
}

impl Latencies {
    /// Adds the requests of one replica, its steps lasting as `duration` says.
    fn add(&mut self, run: &Run, replica: u32, duration: &dyn Fn(&LoggedStep) -> f64) {
        let records = || run.records.iter().filter(|record| record.replica == Some(replica));
        let mut arrivals: BTreeMap<Nanos, Nanos> = BTreeMap::new();
        for record in records() {
            if let Some(admitted) = record.admitted {
                let latest = arrivals.entry(admitted).or_default();
                *latest = (*latest).max(record.arrival);
            }
        }
        let mut ends: BTreeMap<u64, f64> = BTreeMap::new();
        let mut clock = 0.0f64;
        for step in steps(run).filter(|step| step.replica == replica) {
            let arrived = arrivals.get(&step.start).map_or(0.0, |at| at.as_secs());
            clock = clock.max(arrived) + duration(step);
            ends.insert(step.step, clock);
        }
        for record in records() {
            let (Some(first), Some(last)) = (ends.get(&record.first_token_step), ends.get(&record.last_step)) else {
                continue;
            };
            if record.first_token.is_some() {
                self.ttft.push(first - record.arrival.as_secs());
                if record.output_tokens > 1 {
                    self.itl.push((last - first) / f64::from(record.output_tokens - 1));
                }
            }
        }
    }
}
