//! Reading a chart at a point of its x axis.

use crate::format::number;
use servelab_spec::protocol::{Chart, Series};

/// What stands at the share `cursor` of the plot's width, in a sentence.
pub(super) fn sentence(chart: &Chart, cursor: f64) -> String {
    let x = chart.x.0 + cursor * (chart.x.1 - chart.x.0);
    let mut parts = Vec::new();
    let steps = STEPS.contains(&chart.id.as_str());
    for series in &chart.series {
        let y = if steps { standing(series, x) } else { nearest(series, x).map(|at| series.y[at]) };
        if let Some(y) = y {
            parts.push(format!("{} {}", series.label, number(y)));
        }
    }
    crate::text::read_out(&chart.x_label, &number(x), &parts.join(" · "), &chart.y_label)
}

/// Charts whose lines stand until the next point.
const STEPS: [&str; 2] = ["outstanding_over_time", "ttft_cdf"];

/// What a line of steps stands at, at `x`: its last value so far, and 0 before the first.
fn standing(series: &Series, x: f64) -> Option<f64> {
    let points = series.x.len().min(series.y.len());
    let passed = series.x[..points].partition_point(|at| *at <= x);
    (points > 0).then(|| passed.checked_sub(1).map_or(0.0, |at| series.y[at]))
}

/// The point of a series nearest to `x`.
pub(super) fn nearest(series: &Series, x: f64) -> Option<usize> {
    let points = series.x.len().min(series.y.len());
    let after = series.x[..points].partition_point(|at| *at < x);
    let candidates = [after.checked_sub(1), Some(after)];
    let nearest = candidates.into_iter().flatten().filter(|at| *at < points);
    nearest.min_by(|a, b| (series.x[*a] - x).abs().total_cmp(&(series.x[*b] - x).abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_point_is_found_at_the_ends_and_between() {
        let series = Series { label: "a".into(), x: vec![0.0, 1.0, 4.0], y: vec![5.0, 6.0, 7.0], points: 3 };
        for (x, at) in [(-3.0, 0), (0.4, 0), (0.6, 1), (2.4, 1), (2.6, 2), (99.0, 2)] {
            assert_eq!(nearest(&series, x), Some(at), "at {x}");
        }
        assert_eq!(nearest(&Series::default(), 1.0), None);
    }

    #[test]
    fn steps_stand_until_the_next() {
        let series = Series { label: "a".into(), x: vec![1.0, 2.0, 2.0, 4.0], y: vec![1.0, 2.0, 3.0, 0.0], points: 4 };
        for (x, y) in [(0.9, 0.0), (1.0, 1.0), (1.9, 1.0), (2.0, 3.0), (3.9, 3.0), (9.0, 0.0)] {
            assert_eq!(standing(&series, x), Some(y), "at {x}");
        }
        assert_eq!(standing(&Series::default(), 1.0), None);
    }

    #[test]
    fn a_read_out_names_every_line() {
        let line = |label: &str, y: f64| Series { label: label.into(), x: vec![0.0, 2.0], y: vec![y, y], points: 2 };
        let chart = Chart {
            x: (0.0, 2.0),
            x_label: "time, s".into(),
            y_label: "TTFT, s".into(),
            series: vec![line("round-robin", 0.35), line("affinity", 0.1)],
            ..Chart::default()
        };
        let said = sentence(&chart, 0.5);
        for part in ["time, s", "1", "round-robin 0.35", "affinity 0.1", "TTFT, s"] {
            assert!(said.contains(part), "{said}");
        }
    }
}
