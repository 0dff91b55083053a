//! Pictures of knees: goodput or TTFT against the offered rate, both per replica, each policy's knee marked with its number.

use super::axis::Unit;
use super::{Direction, Extent, Form, Mark, Picture, Ribbon, Stroke, check_size, plot};
use crate::knee::findings;
use crate::words::{digits, duration};
use servelab_spec::knee::{KneeChartRequest, KneeCurve, KneePoint, KneeReport};
use servelab_spec::protocol::{Chart, ChartRequest};
use servelab_spec::sweep::Band;
use servelab_spec::validate::SpecError;

/// How far above its limit TTFT is drawn, in limits. Beyond the knee it grows with the length of the run, and a picture of all that would
/// hide the limit.
const SHOWN_LIMITS: f64 = 4.0;

/// Draws a picture of knees, of all trials or those that are there.
///
/// # Errors
/// A picture too small or too large.
pub fn draw(request: &KneeChartRequest, report: &KneeReport) -> Result<Chart, SpecError> {
    check_size(request.width, request.height)?;
    let replicas = f64::from(report.knee.spec.replicas.max(1));
    let limit = report.knee.spec.slo.ttft_s;
    let band = |point: &KneePoint| match request.curve {
        KneeCurve::Goodput => point.goodput_per_s.map(|band| scaled(band, 1.0 / replicas)),
        KneeCurve::TtftP95 => point.ttft_p95_s,
    };
    let (mut ribbons, mut strokes, mut dots, mut marks) = (vec![], vec![], vec![], vec![]);
    for (lane, policy) in report.policies.iter().enumerate() {
        let points: Vec<(f64, Band)> =
            policy.curve.iter().filter_map(|point| Some((point.rate_per_s / replicas, band(point)?))).collect();
        let ends = points.iter().filter_map(|(x, band)| Some((*x, band.low?.max(0.0), band.high?)));
        ribbons.push(Ribbon { lane, points: ends.collect() });
        let line: Vec<(f64, f64)> = points.iter().map(|(x, band)| (*x, band.mean)).collect();
        let label = policy.label.clone();
        dots.push(Stroke { lane, label: format!("{label}, rates tried"), form: Form::Dots, points: line.clone() });
        strokes.push(Stroke { lane, label, form: Form::Line, points: line });
        if let Some(knee) = policy.per_replica_per_s {
            marks.push(Mark { lane, x: knee.mean, words: format!("knee {:.3}", knee.mean) });
        }
    }
    let rates = || strokes.iter().flat_map(|stroke| &stroke.points).map(|point| point.0);
    let (low, high) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    let extent = (low > 0.0 && low < high).then(|| Extent { low, high, log: true, ticks: vec![] });
    let summary = summary(report, &marks);
    let best = report.policies.iter().filter_map(|policy| {
        let knee = policy.per_replica_per_s?;
        Some((knee.mean, policy.label.as_str()))
    });
    let best = best.max_by(|a, b| a.0.total_cmp(&b.0));
    let found = best.map(|(knee, label)| format!(" {} requests/s per replica with {label}", digits(knee)));
    let question = match request.curve {
        KneeCurve::Goodput => "Up to which rate does goodput keep up?",
        KneeCurve::TtftP95 => "Up to which rate does TTFT keep its limit?",
    };
    let (id, y_name, y_unit, y_at_most) = match request.curve {
        KneeCurve::Goodput => ("knee_goodput", "goodput (requests/s per replica)", Unit::Count, f64::INFINITY),
        KneeCurve::TtftP95 => {
            let most = strokes.iter().flat_map(|stroke| &stroke.points).fold(0.0f64, |max, point| max.max(point.1));
            let shown = most.min(SHOWN_LIMITS * limit);
            ("knee_ttft_p95", "TTFT p95", Unit::of_duration(shown), SHOWN_LIMITS * limit)
        }
    };
    let picture = Picture {
        title: format!("{question}{}", found.unwrap_or_default()),
        summary,
        x_name: if extent.is_some() {
            "offered rate (requests/s per replica), logarithmic".into()
        } else {
            "offered rate (requests/s per replica)".into()
        },
        x_unit: Unit::Count,
        y_name: y_name.into(),
        y_unit,
        y_at_least: 0.0,
        y_at_most,
        y_log: false,
        extent,
        ribbons,
        strokes: dots.into_iter().chain(strokes).collect(),
        limit: (request.curve == KneeCurve::TtftP95)
            .then(|| (Direction::Horizontal, limit, format!("limit {}", duration(limit)))),
        marks,
        empty: "No rate tried yet.",
    };
    let (width, height, dark) = (request.width, request.height, request.dark);
    let size = ChartRequest { id: id.into(), width, height, dark, ..ChartRequest::default() };
    Ok(Chart { findings: findings(report), ..plot::render(&size, &picture) })
}

/// Both pictures one above the other, each of this size: for a file.
///
/// # Errors
/// As [`draw`].
pub fn draw_both(width: u32, height: u32, dark: bool, report: &KneeReport) -> Result<String, SpecError> {
    let picture = |curve| draw(&KneeChartRequest { curve, width, height, dark }, report);
    let (above, below) = (picture(KneeCurve::Goodput)?, picture(KneeCurve::TtftP95)?);
    let whole = 2 * height;
    let lower = below.svg.replacen("<svg ", &format!("<svg y=\"{height}\" "), 1);
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{whole}\" viewBox=\"0 0 {width} {whole}\">{}{lower}</svg>",
        above.svg
    ))
}

fn scaled(band: Band, by: f64) -> Band {
    Band { mean: band.mean * by, low: band.low.map(|low| low * by), high: band.high.map(|high| high * by), ..band }
}

/// Every policy's number, for a screen reader.
fn summary(report: &KneeReport, marks: &[Mark]) -> String {
    let label = |mark: &Mark| report.policies[mark.lane].label.clone();
    let each: Vec<String> = marks.iter().map(|mark| format!("{} {:.3}", label(mark), mark.x)).collect();
    if each.is_empty() {
        return "No knee found yet.".into();
    }
    format!("Knees in requests per second and replica: {}.", each.join(", "))
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::knee::KneePlan;
    use crate::presets;
    use servelab_spec::SCHEMA_VERSION;
    use servelab_spec::experiment::PolicySpec;
    use servelab_spec::knee::{KneeEnd, KneeSpec, KneeTrial, Probe};

    /// Two seeds each of two policies on four replicas, whose searches were made up: rates 4, 8 and 16 of the grid, TTFT a tenth of the rate
    /// until the knee and 100 times that beyond it.
    fn report(knees: [[f64; 2]; 2]) -> KneeReport {
        let mut spec = presets::find("multi-tenant").unwrap().spec;
        spec.policies = ["round_robin", "prefix_affinity"].map(PolicySpec::named).into();
        let plan = KneePlan::new(KneeSpec { version: SCHEMA_VERSION, spec, seeds: 2 }).unwrap();
        let trials = (0..4u32).map(|trial| {
            let knee = knees[trial as usize / 2][trial as usize % 2];
            let probe = |(step, rate_per_s): (i32, f64)| {
                let good = rate_per_s <= knee;
                let ttft = rate_per_s / 10.0 * if good { 1.0 } else { 100.0 };
                let goodput_per_s = rate_per_s.min(knee);
                let goodput_fraction = goodput_per_s / rate_per_s;
                let (step, ttft_p95_s) = (Some(step), Some(ttft));
                Probe { rate_per_s, step, goodput_per_s, goodput_fraction, ttft_p95_s, requests: 300, good }
            };
            let probes = [(-2, 4.0), (0, 8.0), (2, 16.0)].map(probe).into();
            let (policy, seed) = (trial / 2, 7 + u64::from(trial % 2));
            KneeTrial { trial, policy, seed, end: KneeEnd::Found, per_s: Some(knee), probes }
        });
        plan.report(trials.collect())
    }

    fn request(curve: KneeCurve) -> KneeChartRequest {
        KneeChartRequest { curve, width: 720, height: 360, dark: false }
    }

    #[test]
    fn curves_and_knees_are_per_replica() {
        let report = report([[8.0, 8.4], [12.0, 12.4]]);
        let chart = draw(&request(KneeCurve::Goodput), &report).unwrap();
        let line = chart.series.iter().find(|series| series.label == "Prefix affinity").unwrap();
        assert_eq!((&line.x[..], chart.x, chart.x_log), (&[1.0, 2.0, 4.0][..], (1.0, 4.0), true));
        assert!(line.y.iter().zip([1.0, 2.0, 12.2 / 4.0]).all(|(a, b)| (a - b).abs() < 1e-12), "{:?}", line.y);
        assert!(chart.svg.contains(">knee 2.050</text>") && chart.svg.contains(">knee 3.050</text>"), "{}", chart.svg);
        // The mark stands at its rate: on an axis of ratios 1 to 4 that is ln 3.05 ÷ ln 4 of the way.
        let x = chart.area[0] + libm::log(3.05) / libm::log(4.0) * chart.area[2];
        assert!(chart.svg.contains(&format!("<line x1=\"{x:.1}\"")), "{x}");
        assert!(
            chart.title.ends_with("3.1 requests/s per replica with Prefix affinity")
                || chart.title.ends_with("3 requests/s per replica with Prefix affinity"),
            "{}",
            chart.title
        );
    }

    #[test]
    fn beyond_the_knee_ttft_leaves_the_picture_and_its_limit_stays_in_sight() {
        let report = report([[8.0, 8.4], [12.0, 12.4]]);
        let limit = report.knee.spec.slo.ttft_s;
        let chart = draw(&request(KneeCurve::TtftP95), &report).unwrap();
        let scale = if chart.y_label.contains("(ms)") { 1e3 } else { 1.0 };
        assert!(chart.y.1 >= limit * scale && chart.y.1 <= 5.0 * limit * scale, "{:?}", chart.y);
        assert!(chart.svg.contains("limit "));
        let highest = chart.series.iter().flat_map(|series| &series.y).copied().fold(0.0, f64::max);
        assert!(highest > chart.y.1, "the numbers have what the picture leaves out");
    }

    #[test]
    fn the_difference_is_told_with_its_noise() {
        let clear = draw(&request(KneeCurve::Goodput), &report([[8.0, 8.4], [12.0, 12.4]])).unwrap().findings;
        assert!(
            clear[0].starts_with("Prefix affinity keeps the limits up to 3.05 requests/s per replica"),
            "{clear:?}"
        );
        assert!(clear[0].ends_with("12.2 for the whole fleet."), "{clear:?}");
        assert_eq!(clear[1], "That is more than Round-robin (by 49 %), beyond noise.");
        // Ahead with one seed, behind with the other.
        let even = draw(&request(KneeCurve::Goodput), &report([[8.0, 8.4], [8.6, 8.0]])).unwrap().findings;
        assert_eq!(even[1], "Round-robin is within noise of it.");
    }

    #[test]
    fn both_pictures_make_one_file() {
        let svg = draw_both(400, 300, false, &report([[8.0, 8.4], [12.0, 12.4]])).unwrap();
        assert_eq!((svg.matches("<svg ").count(), svg.matches("</svg>").count()), (3, 3));
        assert!(
            svg.contains("height=\"600\"") && svg.contains("<svg y=\"300\" ") && svg.contains("knee_ttft_p95-title")
        );
    }

    #[test]
    fn nothing_tried_is_a_picture_too() {
        let mut spec = presets::find("multi-tenant").unwrap().spec;
        spec.policies.truncate(1);
        let plan = KneePlan::new(KneeSpec { version: SCHEMA_VERSION, spec, seeds: 1 }).unwrap();
        let chart = draw(&request(KneeCurve::Goodput), &plan.report(vec![])).unwrap();
        assert!(chart.svg.contains("No rate tried yet.") && chart.findings.is_empty());
    }
}
