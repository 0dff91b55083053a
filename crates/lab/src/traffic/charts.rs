//! Pictures of a trace.

use super::report::Traffic;
use crate::chart::palette::DEMAND;
use crate::chart::{Extent, Form, Picture, Stroke, Unit, draw_picture, hours};
use crate::words::{count, digits, duration, percent};
use servelab_spec::protocol::{Chart, ChartRequest};
use servelab_spec::validate::SpecError;
use servelab_workload::trace::{Row, Trace};

/// Ids and one-line meanings of the pictures there are.
pub const CHARTS: [(&str, &str); 3] = [
    ("traffic_rate", "requests per second over time"),
    ("traffic_lengths", "share of prompts and outputs that are no longer than so many tokens"),
    ("traffic_cache", "share of prompt tokens that a cache of so many tokens would find"),
];

/// Points of a curve of lengths: more than a picture has columns are no use.
const POINTS: usize = 400;

/// Draws a picture of a trace and what was found of it.
///
/// # Errors
/// Unknown picture, or one too small or too large.
pub fn draw(request: &ChartRequest, trace: &Trace, traffic: &Traffic) -> Result<Chart, SpecError> {
    let picture = match request.id.as_str() {
        "traffic_rate" => rate(traffic),
        "traffic_lengths" => lengths(trace),
        "traffic_cache" => cache(traffic),
        _ => {
            let ids: Vec<&str> = CHARTS.iter().map(|(id, _)| *id).collect();
            return Err(SpecError::new("chart.id", &request.id, format!("accepted are {}", ids.join(", "))));
        }
    };
    draw_picture(request, &picture)
}

fn picture(title: String, summary: String) -> Picture {
    Picture {
        title,
        summary,
        x_name: "time".into(),
        x_unit: Unit::Seconds,
        y_name: "share".into(),
        y_unit: Unit::Percent,
        y_at_least: 0.0,
        y_at_most: f64::INFINITY,
        y_log: false,
        extent: None,
        ribbons: vec![],
        strokes: vec![],
        limit: None,
        marks: vec![],
        empty: "No request.",
    }
}

fn rate(traffic: &Traffic) -> Picture {
    let arrivals = &traffic.arrivals;
    let per_s = |requests: u32| f64::from(requests) / arrivals.bin_s;
    let starts = (0u32..).map(|bin| f64::from(bin) * arrivals.bin_s);
    let mut points: Vec<(f64, f64)> = starts.zip(arrivals.bins.iter().map(|&requests| per_s(requests))).collect();
    let end = arrivals.bins.len() as f64 * arrivals.bin_s;
    points.extend(points.last().map(|&(_, last)| (end, last)));
    let peak = format!("{} times the mean at its peak", digits(arrivals.peak_over_mean));
    let title = format!("{} requests/s on average, {peak}", digits(traffic.rate_per_s));
    let summary = format!(
        "Requests per second in bins of {} over {}. {title}.",
        duration(arrivals.bin_s),
        duration(traffic.span_s)
    );
    Picture {
        y_name: "requests per second".into(),
        y_unit: Unit::Count,
        extent: hours(end),
        strokes: vec![Stroke { lane: DEMAND, label: "arrivals".into(), form: Form::Steps, points }],
        ..picture(title, summary)
    }
}

/// Share of rows up to each length, at every n-th of the sorted lengths.
fn distribution(trace: &Trace, of: fn(&Row) -> u32) -> Vec<(f64, f64)> {
    let mut sorted: Vec<u32> = trace.rows().iter().map(of).collect();
    sorted.sort_unstable();
    let n = sorted.len();
    let each = n.div_ceil(POINTS).max(1);
    let ranks = (each..=n).step_by(each).chain((!n.is_multiple_of(each)).then_some(n));
    let mut points: Vec<(f64, f64)> = ranks.map(|rank| (f64::from(sorted[rank - 1]), rank as f64 / n as f64)).collect();
    // Of equal lengths the last rank is the share.
    points.reverse();
    points.dedup_by_key(|point| point.0);
    points.reverse();
    points
}

fn lengths(trace: &Trace) -> Picture {
    let (prompts, outputs) = (distribution(trace, |row| row.prompt), distribution(trace, |row| row.output));
    let middle = |points: &[(f64, f64)]| points.iter().find(|point| point.1 >= 0.5).map_or(0.0, |point| point.0) as u64;
    let (prompt, output) = (count(middle(&prompts)), count(middle(&outputs)));
    let title = format!("Half of the prompts have at most {prompt} tokens, half of the outputs {output}");
    let ends = || prompts.iter().chain(&outputs).map(|point| point.0);
    let (low, high) = (ends().fold(f64::INFINITY, f64::min), ends().fold(0.0, f64::max));
    Picture {
        x_name: "tokens, logarithmic".into(),
        x_unit: Unit::Count,
        y_name: "share of requests".into(),
        extent: (low < high).then(|| Extent { low, high, log: true, ticks: vec![] }),
        strokes: vec![
            Stroke { lane: 0, label: "prompt".into(), form: Form::Steps, points: prompts },
            Stroke { lane: 1, label: "output".into(), form: Form::Steps, points: outputs },
        ],
        ..picture(title.clone(), format!("Distributions of lengths. {title}."))
    }
}

fn cache(traffic: &Traffic) -> Picture {
    let curve = traffic.sharing.as_ref().map(|sharing| sharing.curve.as_slice()).unwrap_or_default();
    let points: Vec<(f64, f64)> = curve.iter().map(|point| (point.tokens as f64, point.ratio)).collect();
    let most = points.last().map_or(0.0, |point| point.1);
    let title = match points.len() {
        0 => "The file says nothing of what prompts share".to_owned(),
        _ => format!("An unlimited cache would find {} of the prompt tokens", percent(most)),
    };
    let ends = points.first().zip(points.last()).filter(|(first, last)| first.0 < last.0);
    Picture {
        x_name: "cache (tokens, logarithmic)".into(),
        x_unit: Unit::Count,
        y_name: "prompt tokens found".into(),
        extent: ends.map(|(first, last)| Extent { low: first.0, high: last.0, log: true, ticks: vec![] }),
        empty: "The file has no block keys.",
        strokes: vec![Stroke { lane: 0, label: "found".into(), form: Form::Line, points: points.clone() }],
        ..picture(title.clone(), format!("Hits of one cache by its size. {title}."))
    }
}
