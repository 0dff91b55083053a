//! From a run's records to what is drawn, and to the sentences above it.

use super::axis::Unit;
use super::{Direction, Form, Picture, Stroke};
use super::{ScalingLane, StormLane};
use crate::words::{self, duration, percent};
use servelab_spec::experiment::SloSpec;

/// One policy's run as charts need it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lane {
    /// The policy's name for people.
    pub label: String,
    /// Arrival and time to first token of every request that got one, seconds, ascending by arrival.
    pub ttft: Vec<(f64, f64)>,
    /// Arrival and time to the last token of every request that was answered, seconds, ascending by arrival.
    pub e2e: Vec<(f64, f64)>,
    /// Arrival and time until it first entered a batch of every request that did, seconds, ascending by arrival.
    pub wait: Vec<(f64, f64)>,
    /// Arrival of every request seen so far, and when it ended if it did, seconds.
    pub spans: Vec<(f64, Option<f64>)>,
    /// Arrival, prompt tokens and those of them that were cached, of every request that was admitted, ascending by arrival.
    pub hits: Vec<(f64, u32, u32)>,
    /// How replicas came and went, where they do.
    pub scaling: Option<ScalingLane>,
    /// What clients sent, where they have rules of their own.
    pub storm: Option<StormLane>,
}

pub(super) fn ttft_cdf(lanes: &[Lane], slo: &SloSpec) -> Picture {
    let mut strokes = Vec::new();
    let mut largest = 0.0f64;
    for (lane, run) in lanes.iter().enumerate() {
        let sorted = sorted_ttft(run);
        largest = sorted.last().copied().unwrap_or(0.0).max(largest);
        // Of all that have come, so that who was never answered lowers the line.
        let n = run.spans.len().max(sorted.len()) as f64;
        let mut points = Vec::with_capacity(sorted.len() + 1);
        if !sorted.is_empty() {
            points.push((0.0, 0.0));
        }
        points.extend(sorted.iter().enumerate().map(|(index, &ttft)| (ttft, (index + 1) as f64 / n)));
        strokes.push(Stroke { lane, label: run.label.clone(), form: Form::Steps, points });
    }
    // Every line runs on to the right edge: all of its first tokens are in by then.
    for stroke in &mut strokes {
        if let Some(&(_, share)) = stroke.points.last().filter(|last| last.0 < largest) {
            stroke.points.push((largest, share));
        }
    }
    let shares = summary(lanes, |run| {
        let good = run.ttft.iter().filter(|point| point.1 <= slo.ttft_s).count();
        let all = run.spans.len().max(run.ttft.len());
        (!run.ttft.is_empty()).then(|| 1.0 - good as f64 / all as f64)
    });
    let intro = format!("Requests with a first token within {}:", duration(slo.ttft_s));
    let share = |missed: f64| percent(1.0 - missed);
    Picture {
        title: compare(&shares, &intro, share),
        summary: sentence(
            &shares,
            &format!("Share of requests with a first token within {}", duration(slo.ttft_s)),
            share,
        ),
        x_name: "time to first token".into(),
        x_unit: Unit::of_duration(largest),
        y_name: "requests".into(),
        y_unit: Unit::Percent,
        y_at_least: 1.0,
        y_at_most: f64::INFINITY,
        y_log: false,
        marks: vec![],
        extent: None,
        ribbons: vec![],
        strokes,
        limit: Some((Direction::Vertical, slo.ttft_s, format!("limit {}", duration(slo.ttft_s)))),
        empty: "No first token yet.",
    }
}

pub(super) fn outstanding_over_time(lanes: &[Lane]) -> Picture {
    let mut strokes = Vec::new();
    for (lane, run) in lanes.iter().enumerate() {
        strokes.push(Stroke { lane, label: run.label.clone(), form: Form::Steps, points: outstanding(&run.spans) });
    }
    let peaks: Vec<(String, f64)> = strokes
        .iter()
        .filter(|stroke| !stroke.points.is_empty())
        .map(|stroke| (stroke.label.clone(), stroke.points.iter().fold(0.0f64, |max, point| max.max(point.1))))
        .collect();
    let count = |value: f64| words::count(value as u64);
    Picture {
        title: compare(&peaks, "Most requests outstanding at once:", count),
        summary: sentence(&peaks, "Most requests outstanding at once", count),
        x_name: "time".into(),
        x_unit: Unit::Seconds,
        y_name: "requests outstanding".into(),
        y_unit: Unit::Count,
        y_at_least: 1.0,
        y_at_most: f64::INFINITY,
        y_log: false,
        marks: vec![],
        extent: None,
        ribbons: vec![],
        strokes,
        limit: None,
        empty: "No request yet.",
    }
}

pub(super) fn reuse_over_time(lanes: &[Lane]) -> Picture {
    let strokes = lanes.iter().enumerate().map(|(lane, run)| Stroke {
        lane,
        label: run.label.clone(),
        form: Form::Line,
        points: running_reuse(&run.hits),
    });
    let missed = summary(lanes, |run| {
        let (prompt, cached) = sums(&run.hits);
        (prompt > 0).then(|| 1.0 - cached as f64 / prompt as f64)
    });
    let share = |missed: f64| percent(1.0 - missed);
    Picture {
        title: compare(&missed, "Prompt tokens found in a cache:", share),
        summary: sentence(&missed, "Share of prompt tokens found in a cache", share),
        x_name: "arrival".into(),
        x_unit: Unit::Seconds,
        y_name: "reuse".into(),
        y_unit: Unit::Percent,
        y_at_least: 1.0,
        y_at_most: f64::INFINITY,
        y_log: false,
        marks: vec![],
        extent: None,
        ribbons: vec![],
        strokes: strokes.collect(),
        limit: None,
        empty: "No request admitted yet.",
    }
}

/// Requests over which the running reuse looks back: twice as many as a median does, since shares of few prompts jump.
const REUSE_WINDOW: usize = 50;

fn sums(hits: &[(f64, u32, u32)]) -> (u64, u64) {
    hits.iter().fold((0, 0), |(prompt, cached), hit| (prompt + u64::from(hit.1), cached + u64::from(hit.2)))
}

/// Share of the prompt tokens of the last [`REUSE_WINDOW`] requests at each point.
fn running_reuse(hits: &[(f64, u32, u32)]) -> Vec<(f64, f64)> {
    let (mut prompt, mut cached) = (0u64, 0u64);
    let each = hits.iter().enumerate().map(|(index, &(at, tokens, found))| {
        (prompt, cached) = (prompt + u64::from(tokens), cached + u64::from(found));
        if let Some(old) = index.checked_sub(REUSE_WINDOW).map(|old| hits[old]) {
            (prompt, cached) = (prompt - u64::from(old.1), cached - u64::from(old.2));
        }
        (at, cached as f64 / prompt.max(1) as f64)
    });
    each.collect()
}

/// How many have arrived and not ended, at every instant at which that changes.
fn outstanding(spans: &[(f64, Option<f64>)]) -> Vec<(f64, f64)> {
    let mut changes: Vec<(f64, i64)> = Vec::with_capacity(2 * spans.len());
    for &(arrival, end) in spans {
        changes.push((arrival, 1));
        if let Some(end) = end {
            changes.push((end, -1));
        }
    }
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut out: Vec<(f64, f64)> = Vec::with_capacity(changes.len() + 1);
    if !changes.is_empty() {
        out.push((0.0, 0.0));
    }
    let mut now = 0i64;
    for (t, change) in changes {
        now += change;
        match out.last_mut() {
            Some(last) if last.0 == t => last.1 = now as f64,
            _ => out.push((t, now as f64)),
        }
    }
    out
}

fn sorted_ttft(run: &Lane) -> Vec<f64> {
    let mut sorted: Vec<f64> = run.ttft.iter().map(|point| point.1).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Label and figure of every lane that has one. Smaller is better.
pub(super) fn summary(lanes: &[Lane], figure: impl Fn(&Lane) -> Option<f64>) -> Vec<(String, f64)> {
    lanes.iter().filter_map(|run| figure(run).map(|value| (run.label.clone(), value))).collect()
}

/// The finding: the best figure against the worst.
pub(super) fn compare(figures: &[(String, f64)], intro: &str, say: impl Fn(f64) -> String) -> String {
    let best = figures.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let worst = figures.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    match (best, worst) {
        (Some(best), Some(worst)) if say(best.1) != say(worst.1) => {
            format!("{intro} {} with {}, {} with {}", say(best.1), best.0, say(worst.1), worst.0)
        }
        (Some(best), _) if figures.len() == 1 => format!("{intro} {} with {}", say(best.1), best.0),
        (Some(best), _) => format!("{intro} {} with every policy", say(best.1)),
        _ => format!("{} …", intro.trim_end_matches(':')),
    }
}

/// All figures in one sentence, for a screen reader.
pub(super) fn sentence(figures: &[(String, f64)], what: &str, say: impl Fn(f64) -> String) -> String {
    if figures.is_empty() {
        return "Nothing to show yet.".into();
    }
    let each: Vec<String> = figures.iter().map(|(label, value)| format!("{label} {}", say(*value))).collect();
    format!("{what}: {}.", each.join(", "))
}
