//! A latency over time: a mark for each request, and a line that follows one figure of the latest ones.

use super::axis::Unit;
use super::series::{compare, sentence, summary};
use super::{Direction, Form, Lane, Picture, Stroke};
use crate::stats::{mean, quantile};
use crate::words::duration;
use servelab_spec::experiment::SloSpec;
use servelab_spec::protocol::Statistic;

/// A latency that is drawn over time.
pub(super) struct Latency {
    /// Its name on the axis.
    name: &'static str,
    /// Arrival and latency of every request that has one, seconds.
    points: fn(&Lane) -> &Vec<(f64, f64)>,
    /// What half, or another share, of the requests do within the figure.
    within: &'static str,
    /// What they do on average.
    average: &'static str,
    /// Its limit, where it has one.
    limit: fn(&SloSpec) -> Option<f64>,
    empty: &'static str,
}

/// Arrival to first token.
pub(super) const TTFT: Latency = Latency {
    name: "time to first token",
    points: |lane| &lane.ttft,
    within: "all first tokens come within",
    average: "First tokens come, on average, after",
    limit: |slo| Some(slo.ttft_s),
    empty: "No first token yet.",
};

/// Arrival to last token.
pub(super) const E2E: Latency = Latency {
    name: "time to last token",
    points: |lane| &lane.e2e,
    within: "all answers are complete within",
    average: "Answers are complete, on average, after",
    limit: |_| None,
    empty: "No answer yet.",
};

/// Arrival to entering a batch.
pub(super) const WAIT: Latency = Latency {
    name: "wait in the queue",
    points: |lane| &lane.wait,
    within: "all requests wait at most",
    average: "Requests wait, on average,",
    limit: |_| None,
    empty: "No request admitted yet.",
};

/// How many of the latest requests a line looks back over: enough to be steady, few enough to show a burst; for a tail, enough to have one.
fn window(statistic: Statistic) -> usize {
    match statistic {
        Statistic::Mean | Statistic::P50 => 25,
        Statistic::P95 => 100,
        Statistic::P99 => 200,
    }
}

/// The figure of `sorted` values, ascending.
fn figure(statistic: Statistic, sorted: &[f64]) -> f64 {
    statistic.share().map_or_else(|| mean(sorted), |share| quantile(sorted, share))
}

pub(super) fn over_time(latency: &Latency, statistic: Statistic, lanes: &[Lane], slo: &SloSpec) -> Picture {
    let mut strokes = Vec::new();
    for (lane, run) in lanes.iter().enumerate() {
        let label = format!("{}, single requests", run.label);
        strokes.push(Stroke { lane, label, form: Form::Dots, points: (latency.points)(run).clone() });
    }
    for (lane, run) in lanes.iter().enumerate() {
        let points = running(statistic, (latency.points)(run));
        strokes.push(Stroke { lane, label: run.label.clone(), form: Form::Line, points });
    }
    let figures = summary(lanes, |run| {
        let mut sorted: Vec<f64> = (latency.points)(run).iter().map(|point| point.1).collect();
        sorted.sort_by(f64::total_cmp);
        (!sorted.is_empty()).then(|| figure(statistic, &sorted))
    });
    let (intro, what) = match statistic {
        Statistic::Mean => (latency.average.to_owned(), format!("Mean {}", latency.name)),
        Statistic::P50 => (format!("Half of {}", latency.within), format!("Median {}", latency.name)),
        Statistic::P95 => (format!("95 % of {}", latency.within), format!("95th percentile of the {}", latency.name)),
        Statistic::P99 => (format!("99 % of {}", latency.within), format!("99th percentile of the {}", latency.name)),
    };
    let largest = lanes.iter().flat_map(latency.points).fold(0.0f64, |max, point| max.max(point.1));
    let limit = (latency.limit)(slo);
    Picture {
        summary: sentence(&figures, &what, duration),
        title: compare(&figures, &intro, duration),
        x_name: "arrival".into(),
        x_unit: Unit::Seconds,
        y_name: match statistic {
            Statistic::P50 => latency.name.into(),
            other => format!("{}, {} of {}", latency.name, other.name(), window(other)).into(),
        },
        y_unit: Unit::of_duration(largest),
        y_at_least: 0.0,
        y_at_most: f64::INFINITY,
        y_log: false,
        marks: vec![],
        extent: None,
        ribbons: vec![],
        strokes,
        limit: limit.map(|limit| (Direction::Horizontal, limit, format!("limit {}", duration(limit)))),
        empty: latency.empty,
    }
}

/// The figure of the last [`window`] values at each point.
fn running(statistic: Statistic, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let most = window(statistic);
    let mut sorted: Vec<f64> = Vec::with_capacity(most + 1);
    let mut out = Vec::with_capacity(points.len());
    for (index, &(x, y)) in points.iter().enumerate() {
        if index >= most {
            let old = points[index - most].1;
            sorted.remove(sorted.partition_point(|&value| value < old));
        }
        sorted.insert(sorted.partition_point(|&value| value < y), y);
        out.push((x, figure(statistic, &sorted)));
    }
    out
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use servelab_spec::protocol::Statistic::{Mean, P50, P95, P99};

    /// Against the definition, worked out anew for every point.
    #[test]
    fn a_line_follows_its_figure_of_the_latest_requests() {
        let points: Vec<(f64, f64)> = (0u32..450).map(|at| (f64::from(at), f64::from(at * 7919 % 1009))).collect();
        for (statistic, most, rank) in
            [(P50, 25, Some(50)), (P95, 100, Some(95)), (P99, 200, Some(99)), (Mean, 25, None)]
        {
            let line = running(statistic, &points);
            for (at, &(x, y)) in line.iter().enumerate() {
                let mut latest: Vec<f64> = points[(at + 1).saturating_sub(most)..=at].iter().map(|p| p.1).collect();
                latest.sort_by(f64::total_cmp);
                let expected = match rank {
                    Some(percent) => latest[(latest.len() * percent).div_ceil(100) - 1],
                    None => latest.iter().sum::<f64>() / latest.len() as f64,
                };
                assert_eq!(x, points[at].0);
                assert!((y - expected).abs() < 1e-9, "{statistic:?} at {at}: {y} for {expected}");
            }
        }
    }

    #[test]
    fn title_and_summary_say_which_figure() {
        let ttft: Vec<(f64, f64)> = (1u32..=100).map(|at| (f64::from(at), f64::from(at))).collect();
        let lane = Lane { label: "a".into(), e2e: ttft.clone(), ttft, ..Lane::default() };
        let said = |latency: &Latency, statistic| {
            let picture = over_time(latency, statistic, std::slice::from_ref(&lane), &SloSpec::default());
            (picture.title.replace('\u{202f}', " "), picture.summary.replace('\u{202f}', " "))
        };
        let cases = [
            (
                said(&TTFT, P50),
                "Half of all first tokens come within 50 s with a",
                "Median time to first token: a 50 s.",
            ),
            (
                said(&TTFT, P95),
                "95 % of all first tokens come within 95 s with a",
                "95th percentile of the time to first token: a 95 s.",
            ),
            (
                said(&E2E, P99),
                "99 % of all answers are complete within 99 s with a",
                "99th percentile of the time to last token: a 99 s.",
            ),
            (
                said(&E2E, Mean),
                "Answers are complete, on average, after 50.5 s with a",
                "Mean time to last token: a 50.5 s.",
            ),
            (said(&WAIT, P95), "95 % of all requests wait at most …", "Nothing to show yet."),
        ];
        for ((title, summary), expected, spoken) in cases {
            assert_eq!(title, expected);
            assert_eq!(summary, spoken);
        }
    }
}
