//! Demand against ready capacity, and when users were late: the picture of an autoscaler.

use super::axis::Unit;
use super::palette::{CAPACITY, DEMAND, LATE};
use super::{Extent, Form, Lane, Picture, Stroke};
use crate::words::{duration, percent};

/// One run whose replicas come and go, as charts need it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScalingLane {
    /// Length of a bin, seconds.
    pub bin_s: f64,
    /// Requests per second in each bin, from its start.
    pub demand: Vec<f64>,
    /// Somebody who arrived in this bin was late.
    pub late: Vec<bool>,
    /// Requests per second that the replicas in rotation can serve, from each instant on, seconds.
    pub capacity: Vec<(f64, f64)>,
    /// The run has come so far, seconds.
    pub until_s: f64,
}

impl ScalingLane {
    /// The run has come to the last bin in which anybody arrives.
    fn is_over(&self) -> bool {
        self.until_s >= self.demand.len().saturating_sub(1) as f64 * self.bin_s
    }
}

/// Most ticks of an axis of hours.
const TICKS: f64 = 8.0;

pub(super) fn demand_and_capacity(lanes: &[Lane]) -> Picture {
    let runs: Vec<(usize, &Lane, &ScalingLane)> =
        (lanes.iter().enumerate()).filter_map(|(at, lane)| Some((at, lane, lane.scaling.as_ref()?))).collect();
    let mut strokes = Vec::new();
    // Demand is the same in every run; the one that has come farthest shows most of it.
    if let Some((.., longest)) = runs.iter().max_by(|a, b| a.2.until_s.total_cmp(&b.2.until_s)) {
        let starts = (0u32..).map(|bin| f64::from(bin) * longest.bin_s);
        // A bin in progress would look like a fall.
        let known = |start: f64| longest.is_over() || start + longest.bin_s <= longest.until_s;
        let points = starts.zip(longest.demand.iter().copied()).take_while(|&(start, _)| known(start)).collect();
        strokes.push(Stroke { lane: DEMAND, label: "demand".into(), form: Form::Area, points });
    }
    let alone = runs.len() == 1;
    for &(at, lane, run) in &runs {
        let label = if alone { "ready capacity".into() } else { lane.label.clone() };
        let mut points = run.capacity.clone();
        points.extend(run.capacity.last().map(|&(_, last)| (run.until_s, last)));
        strokes.push(Stroke { lane: CAPACITY + at, label, form: Form::Steps, points });
    }
    for &(at, lane, run) in &runs {
        let starts = (0u32..).map(|bin| f64::from(bin) * run.bin_s);
        let mut points: Vec<(f64, f64)> =
            starts.zip(&run.late).map(|(start, &late)| (start, f64::from(u8::from(late)))).collect();
        points.push((run.late.len() as f64 * run.bin_s, 0.0));
        strokes.push(Stroke {
            lane: LATE + at,
            label: format!("{}: somebody late", lane.label),
            form: Form::Strip,
            points,
        });
    }
    let late: Vec<(&str, f64, f64)> = (runs.iter())
        .map(|(_, lane, run)| {
            let bins = run.late.iter().filter(|&&late| late).count() as f64;
            (lane.label.as_str(), bins * run.bin_s, bins / (run.late.len().max(1) as f64))
        })
        .collect();
    let said: Vec<String> =
        late.iter().map(|(label, seconds, _)| format!("{} with {label}", duration(*seconds))).collect();
    let title: String = match &late[..] {
        [] => "Demand and ready capacity".into(),
        [(_, seconds, share)] if *seconds > 0.0 => {
            format!("Users were late in {} ({} of the time)", duration(*seconds), percent(*share))
        }
        [_] => "Nobody was late".into(),
        _ => format!("Users were late in {}", said.join(", ")),
    };
    let title = if runs.iter().all(|(.., run)| run.is_over()) { title } else { format!("{title} so far") };
    let labels: Vec<&str> = runs.iter().map(|(_, lane, _)| lane.label.as_str()).collect();
    let end = runs.iter().map(|(.., run)| run.until_s.max(run.demand.len() as f64 * run.bin_s)).fold(0.0, f64::max);
    Picture {
        summary: format!("Demand and ready capacity over time with {}. {title}.", labels.join(", ")),
        title,
        x_name: "time".into(),
        x_unit: Unit::Seconds,
        y_name: "requests per second".into(),
        y_unit: Unit::Count,
        y_at_least: 1.0,
        y_at_most: f64::INFINITY,
        y_log: false,
        extent: hours(end),
        ribbons: vec![],
        marks: vec![],
        strokes,
        limit: None,
        empty: "No request yet.",
    }
}

/// An axis in hours where a run is long enough; a time of day is read sooner than seconds.
pub(crate) fn hours(end_s: f64) -> Option<Extent> {
    let hours = end_s / 3600.0;
    if hours < 2.0 {
        return None;
    }
    let step = [1.0, 2.0, 3.0, 4.0, 6.0, 12.0, 24.0].into_iter().find(|step| hours / step <= TICKS);
    let step = step.unwrap_or_else(|| libm::ceil(hours / TICKS / 24.0) * 24.0);
    let ticks = (0u32..).map(|tick| f64::from(tick) * step).take_while(|&at| at <= hours);
    let ticks = ticks.map(|at| (at * 3600.0, format!("{at} h"))).collect();
    Some(Extent { low: 0.0, high: end_s, log: false, ticks })
}
