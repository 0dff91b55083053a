//! Attempts per second over time: the picture of a storm.

use super::axis::Unit;
use super::palette::{CAPACITY, DEMAND};
use super::{Form, Lane, Picture, Stroke};
use crate::words::{digits, duration};

/// One run whose clients have rules of their own, as charts need it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StormLane {
    /// Length of a bin, seconds.
    pub bin_s: f64,
    /// Attempts per second in each bin, from its start.
    pub attempts: Vec<f64>,
    /// Requests per second that arrive anew, in each bin.
    pub arrivals: Vec<f64>,
    /// Most attempts in a second, a second: the figure of tables, while a bin may be shorter than a second and its rate higher.
    pub peak_per_s: f64,
    /// Requests per second that the fleet can serve.
    pub capacity: f64,
    /// The run has come so far, seconds.
    pub until_s: f64,
}

/// Most attempts in a second of a picture that has room for no more bins than this.
const BINS: usize = 1200;

impl StormLane {
    /// Bins that make one of the picture.
    fn together(&self) -> usize {
        self.attempts.len().div_ceil(BINS).max(1)
    }

    /// Values of whole bins together, so that a picture has at most [`BINS`] of them.
    fn points(&self, values: &[f64]) -> Vec<(f64, f64)> {
        let together = self.together();
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
    for &(lane, of, run) in &runs {
        strokes.push(Stroke { lane, label: of.label.clone(), form: Form::Steps, points: run.points(&run.attempts) });
    }
    let peaks: Vec<String> =
        runs.iter().map(|(_, of, run)| format!("{} with {}", digits(run.peak_per_s), of.label)).collect();
    let scale = if y_log { " (log scale)" } else { "" };
    let title = match &runs[..] {
        [] => format!("Attempts per second{scale}"),
        [(.., run)] => format!("At most {} attempts per second{scale}", digits(run.peak_per_s)),
        _ => format!("At most so many attempts per second{scale}: {}", peaks.join(", ")),
    };
    // Within a second more may come at once: the lines go by bins, and those say how long they are.
    let bin = runs.iter().map(|(.., run)| run.bin_s * run.together() as f64).fold(0.0, f64::max);
    let bins = if bin > 0.0 { format!(", in bins of {}", duration(bin)) } else { String::new() };
    Picture {
        summary: format!("Attempts per second over time{bins}. {title}, over a whole second."),
        title,
        x_name: "time".into(),
        x_unit: Unit::Seconds,
        y_name: format!("attempts per second{bins}").into(),
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
