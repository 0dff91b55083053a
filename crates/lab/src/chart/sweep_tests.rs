//! Pictures of sweeps hold what they claim: values where they belong, bands around them, noise marked, colours told apart.

#![allow(clippy::unwrap_used)]

use super::palette::scheme;
use super::ramp::{amounts, differences, ink_on};
use super::tests::{SIGHTS, contrast, lab, linear, luminance};
use super::*;
use crate::presets;
use crate::sweep::Plan;
use servelab_spec::SCHEMA_VERSION;
use servelab_spec::protocol::SweepChartRequest;
use servelab_spec::sweep::{Axis, CellReport, Figure, Figures, SweepReport, SweepSpec};

fn request(figure: Figure) -> SweepChartRequest {
    SweepChartRequest { figure, policy: 0, against: None, width: 720, height: 360, dark: false }
}

/// A sweep whose cells say what `value` makes of point, seed's index and policy; nothing is run.
fn report(axes: &[&str], seeds: u32, value: impl Fn(u32, u32, usize) -> Option<f64>) -> SweepReport {
    let mut spec = presets::find("multi-tenant").unwrap().spec;
    spec.policies.remove(1);
    let axes = axes.iter().map(|text| Axis::parse(text).unwrap()).collect();
    let plan = Plan::new(SweepSpec { version: SCHEMA_VERSION, spec, axes, seeds }).unwrap();
    let cells = (0..plan.cells()).map(|cell| {
        let (point, seed) = (cell / seeds, cell % seeds);
        let policies = (0..2).map(|policy| Figures::from_fn(|_| value(point, seed, policy))).collect();
        CellReport { cell, point, seed: 7 + u64::from(seed), policies }
    });
    plan.report(cells.collect())
}

/// Round-robin 1, 2, 3, affinity half of it, ± 0.1 by seed.
fn three_points() -> SweepReport {
    report(&["workload.rate=1..4^3"], 3, |point, seed, policy| {
        Some(f64::from(point + 1) / (policy + 1) as f64 + 0.1 * (f64::from(seed) - 1.0))
    })
}

#[test]
fn lines_stand_where_the_means_are_with_bands_around_them() {
    let chart = draw_sweep(&request(Figure::TtftP95S), &three_points()).unwrap();
    assert_eq!(chart.id, "sweep_lines");
    let line = |label: &str| chart.series.iter().find(|series| series.label == label).unwrap();
    assert_eq!(line("Round-robin").x, [1.0, 2.0, 4.0]);
    let near = |a: &[f64], b: [f64; 3]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
    assert!(near(&line("Round-robin").y, [1.0, 2.0, 3.0]) && near(&line("Prefix affinity").y, [0.5, 1.0, 1.5]));
    assert_eq!((chart.x, chart.x_log, chart.y.0), ((1.0, 4.0), true, 0.0));
    assert_eq!((&*chart.x_label, &*chart.y_label), ("Arrival rate (× capacity), logarithmic", "TTFT p95 (s)"));
    assert!(chart.title.starts_with("How does TTFT p95 change with arrival rate? "), "{}", chart.title);
    assert!(chart.title.ends_with("At 4: 1.5 s with Prefix affinity, 3 s with Round-robin"), "{}", chart.title);
    assert_eq!(chart.svg.matches("fill-opacity=\"0.18\"").count(), 2, "a band for each policy");
    // The band's first corner: x of the point, y of mean + t(2) · s ÷ √3 = 1 + 4.303 · 0.1 ÷ √3.
    let [left, top, _, height] = chart.area;
    let high = 1.0 + 4.303 * 0.1 / 3f64.sqrt();
    let corner = format!("M{left:.1} {:.1}L", top + height - high / chart.y.1 * height);
    assert!(chart.svg.contains(&corner), "{corner} {}", chart.svg);
    // On a logarithmic axis 2 lies in the middle of 1 and 4.
    assert!(chart.svg.contains(&format!("L{:.1} ", left + chart.area[2] / 2.0)));
    assert!(chart.svg.contains("limit 1 s"), "the limit on TTFT is drawn");
    assert!(chart.summary.contains("95 % intervals of the mean over seeds"));
}

#[test]
fn a_single_seed_has_no_band_and_a_missing_number_no_point() {
    let one = report(&["workload.rate=1,2,3"], 1, |point, _, policy| (point != 1 || policy == 0).then_some(0.5));
    let chart = draw_sweep(&request(Figure::Reuse), &one).unwrap();
    assert!(!chart.svg.contains("fill-opacity=\"0.18\"") && !chart.summary.contains("interval"));
    assert!(!chart.x_log && chart.y == (0.0, 100.0));
    let points = |label: &str| chart.series.iter().find(|series| series.label == label).unwrap().x.len();
    assert_eq!((points("Round-robin"), points("Prefix affinity")), (3, 2));
}

#[test]
fn words_are_ticks() {
    let words = report(&["engine.prefix_cache=on,off"], 2, |point, _, _| Some(f64::from(point)));
    let chart = draw_sweep(&request(Figure::Reuse), &words).unwrap();
    assert!(chart.svg.contains(">on</text>") && chart.svg.contains(">off</text>"), "{}", chart.svg);
    assert_eq!(chart.x, (0.0, 1.0));
}

/// Two by three points; affinity is better by 0.4 at the first, worse at the second, elsewhere ±1 by seed: noise.
fn six_points(seeds: u32) -> SweepReport {
    report(&["workload.rate=1,2", "replicas=2,3,4"], seeds, |point, seed, policy| {
        let base = 1.0 + f64::from(point);
        let noise = 0.01 * f64::from(seed);
        Some(match (policy, point) {
            (0, _) => base,
            (_, 0) => base - 0.4 + noise,
            (_, 1) => base + 0.4 + noise,
            _ => base + if seed % 2 == 0 { 0.5 } else { -0.5 },
        })
    })
}

#[test]
fn maps_have_a_field_for_every_point() {
    let chart = draw_sweep(&request(Figure::TtftP95S), &six_points(4)).unwrap();
    assert_eq!(chart.id, "sweep_map");
    assert_eq!(chart.series.len(), 3);
    // The first row is of two replicas: points 0 and 3.
    assert_eq!((chart.series[0].x.clone(), chart.series[0].y.clone()), (vec![1.0, 2.0], vec![1.0, 4.0]));
    assert!(chart.title.ends_with("Best is 1 s at 1 and 2"), "{}", chart.title);
    for value in ["1 s", "2 s", "3 s", "4 s", "5 s", "6 s"] {
        assert!(chart.svg.contains(&format!(">{value}</text>")), "{value}");
    }
    // The least and the most have the colours of the ends.
    assert!(chart.svg.contains(&amounts(false).at(0.0)) && chart.svg.contains(&amounts(false).at(1.0)));
}

#[test]
fn differences_within_noise_are_grey_and_in_brackets() {
    let request = SweepChartRequest { policy: 1, against: Some(0), ..request(Figure::TtftP95S) };
    let chart = draw_sweep(&request, &six_points(4)).unwrap();
    assert!(chart.title.ends_with("Of 6 points better at 1, worse at 1, alike within noise at 4"), "{}", chart.title);
    assert!(chart.svg.contains(">−385 ms</text>") && chart.svg.contains(">415 ms</text>"), "{}", chart.svg);
    assert_eq!(chart.svg.matches(">(0 s)</text>").count(), 4);
    assert!(chart.svg.contains(&differences(false).at(0.5)));
    // Less time is better, so the negative difference is on the blue side, and the larger one at the orange end.
    assert!(chart.svg.contains(&format!("fill=\"{}\"", differences(false).at(0.0))));
    // A single seed can not call anything noise, and says so.
    let single = draw_sweep(&request, &six_points(1)).unwrap();
    assert!(!single.svg.contains(">(") && single.summary.contains("A single seed"), "{}", single.summary);
}

#[test]
fn what_cannot_be_drawn_is_refused_and_nothing_is_a_picture() {
    let field = |request: SweepChartRequest| draw_sweep(&request, &three_points()).unwrap_err().field;
    assert_eq!(field(SweepChartRequest { width: 9, ..request(Figure::Reuse) }), "chart.width");
    assert_eq!(field(SweepChartRequest { policy: 2, ..request(Figure::Reuse) }), "chart.policy");
    assert_eq!(field(SweepChartRequest { against: Some(9), ..request(Figure::Reuse) }), "chart.against");
    let mut broken = three_points();
    broken.points[1].policies.pop();
    assert_eq!(draw_sweep(&request(Figure::Reuse), &broken).unwrap_err().field, "sweep.axes");
    for axes in [&["workload.rate=1,2"][..], &["workload.rate=1,2", "replicas=1,2"]] {
        let mut nothing = report(axes, 1, |_, _, _| None);
        for _ in 0..2 {
            for (figure, dark) in Figure::ALL.iter().zip([false, true].into_iter().cycle()) {
                let chart = draw_sweep(&SweepChartRequest { dark, ..request(*figure) }, &nothing).unwrap();
                assert!(chart.svg.contains("No point yet.") && chart.svg.ends_with("</svg>"), "{}", chart.svg);
                assert!(!chart.svg.contains("NaN") && !chart.svg.contains("inf") && !chart.svg.contains("style"));
            }
            nothing.points.clear();
            nothing.cells.clear();
        }
    }
}

#[test]
fn the_worst_values_make_a_picture() {
    for value in [0.0, 1e-12, 1e12, 1e30] {
        for axes in [&["workload.rate=1"][..], &["workload.rate=1..2^2"], &["workload.rate=1,2", "replicas=1,2"]] {
            let report = report(axes, 2, |_, seed, _| Some(value * f64::from(seed)));
            for &figure in Figure::ALL {
                let chart = draw_sweep(&request(figure), &report).unwrap();
                assert!(!chart.svg.contains("NaN") && !chart.svg.contains("inf"), "{value} {}", figure.name());
            }
        }
    }
}

#[test]
fn colours_of_maps_are_read_by_every_kind_of_sight() {
    for dark in [false, true] {
        let scheme = scheme(dark);
        let light = |share: f64| luminance(linear(&amounts(dark).at(share)));
        let steps: Vec<f64> = (0..=20).map(|step| light(f64::from(step) / 20.0)).collect();
        assert!(steps.windows(2).all(|pair| if dark { pair[0] < pair[1] } else { pair[0] > pair[1] }), "{steps:?}");
        for share in (0..=40).map(|step| f64::from(step) / 40.0) {
            for ramp in [amounts(dark), differences(dark)] {
                let fill = ramp.at(share);
                assert!(contrast(ink_on(&fill, scheme), &fill) >= 4.5, "{fill}");
            }
        }
        for sight in &SIGHTS {
            let seen = |share: f64| {
                let rgb = linear(&differences(dark).at(share));
                lab(sight.map(|row| (row[0] * rgb[0] + row[1] * rgb[1] + row[2] * rgb[2]).clamp(0.0, 1.0)))
            };
            for (first, second) in [(0.0, 1.0), (0.0, 0.5), (0.5, 1.0)] {
                let (a, b) = (seen(first), seen(second));
                let apart = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt();
                assert!(apart >= 35.0, "{first} {second} {dark}: {apart}");
            }
        }
    }
}
