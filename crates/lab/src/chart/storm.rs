//! Attempts per second over time: the picture of a storm.

use super::axis::Unit;
use super::palette::{CAPACITY, DEMAND};
use super::{Form, Lane, Picture, Stroke};
use crate::words::digits;

/// One run whose clients have rules of their own, as charts need it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StormLane {
    /// Length of a bin, seconds.
    pub bin_s: f64,
    /// Attempts per second in each bin, from its start.
    pub attempts: Vec<f64>,
    /// Requests per second that arrive anew, in each bin.
    pub arrivals: Vec<f64>,
    /// Requests per second that the fleet can serve.
    pub capacity: f64,
    /// The run has come so far, seconds.
    pub until_s: f64,
}

/// Most attempts in a second of a picture that has room for no more bins than this.
const BINS: usize = 1200;

impl StormLane {
    /// Values of whole bins together, so that a picture has at most [`BINS`] of them.
    fn points(&self, values: &[f64]) -> Vec<(f64, f64)> {
        let together = values.len().div_ceil(BINS).max(1);
        let mut points: Vec<(f64, f64)> = (0u32..)
            .zip(values.chunks(together))
            .map(|(at, bins)| {
                let start = f64::from(at) * together as f64 * self.bin_s;
                (start, bins.iter().sum::<f64>() / bins.len() as f64)
            })
            .collect();
        points.extend(points.last().map(|&(_, last)| (self.until_s, last)));
        points
    }
}

pub(super) fn attempts_over_time(lanes: &[Lane], y_log: bool) -> Picture {
    let runs: Vec<(usize, &Lane, &StormLane)> =
        lanes.iter().enumerate().filter_map(|(at, lane)| Some((at, lane, lane.storm.as_ref()?))).collect();
    let mut strokes = Vec::new();
    if let Some((.., longest)) = runs.iter().max_by(|a, b| a.2.until_s.total_cmp(&b.2.until_s)) {
        let points = longest.points(&longest.arrivals);
        strokes.push(Stroke { lane: DEMAND, label: "new requests".into(), form: Form::Area, points });
        let points = vec![(0.0, longest.capacity), (longest.until_s, longest.capacity)];
        strokes.push(Stroke { lane: CAPACITY, label: "capacity".into(), form: Form::Line, points });
    }
    let peak = |run: &StormLane| run.points(&run.attempts).iter().fold(0.0f64, |most, point| most.max(point.1));
    for &(lane, of, run) in &runs {
        strokes.push(Stroke { lane, label: of.label.clone(), form: Form::Steps, points: run.points(&run.attempts) });
    }
    let peaks: Vec<String> =
        runs.iter().map(|(_, of, run)| format!("{} with {}", digits(peak(run)), of.label)).collect();
    let title = match &runs[..] {
        [] => "Attempts per second".into(),
        [(.., run)] => format!("At most {} attempts per second", digits(peak(run))),
        _ => format!("At most so many attempts per second: {}", peaks.join(", ")),
    };
    Picture {
        summary: format!("Attempts per second over time. {title}."),
        title,
        x_name: "time".into(),
        x_unit: Unit::Seconds,
        y_name: "attempts per second",
        y_unit: Unit::Count,
        y_at_least: 1.0,
        y_at_most: f64::INFINITY,
        y_log,
        extent: None,
        ribbons: vec![],
        marks: vec![],
        strokes,
        limit: None,
        empty: "No attempt yet.",
    }
}
