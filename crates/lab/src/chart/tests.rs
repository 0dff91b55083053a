//! Pictures hold what they claim: no peak lost, text escaped, ranges honest, colours told apart.

// Clocks and platform floats are kept out of the lab, not out of its tests.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use super::ScalingLane;
use super::palette::{dash, scheme};
use super::sample::per_column;
use super::*;
use proptest::prelude::*;
use servelab_engine::random::Stream;

fn request(id: &str) -> ChartRequest {
    ChartRequest { id: id.into(), width: 640, height: 320, dark: false, ..ChartRequest::default() }
}

fn lane(label: &str, values: &[(f64, f64)]) -> Lane {
    let spans = values.iter().map(|&(at, ttft)| (at, Some(at + ttft + 0.5))).collect();
    let (demand, late, capacity) = (vec![1.0, 3.0, 2.0], vec![false, true, false], vec![(0.0, 2.0), (2.0, 4.0)]);
    let scaling = ScalingLane { bin_s: 1.0, demand, late, capacity, until_s: 3.0 };
    let hits = values.iter().map(|&(at, _)| (at, 100, 30)).collect();
    let (attempts, arrivals) = (vec![1.0, 5.0, 2.0], vec![1.0, 3.0, 2.0]);
    let storm = StormLane { bin_s: 1.0, attempts, arrivals, peak_per_s: 9.0, capacity: 2.0, until_s: 3.0 };
    let e2e = values.iter().map(|&(at, ttft)| (at, ttft + 0.5)).collect();
    let wait = values.iter().map(|&(at, ttft)| (at, ttft / 2.0)).collect();
    let (scaling, storm) = (Some(scaling), Some(storm));
    Lane { label: label.into(), ttft: values.to_vec(), e2e, wait, spans, hits, scaling, storm }
}

fn two() -> Vec<Lane> {
    let slow: Vec<_> = (0..100).map(|i| (f64::from(i) / 10.0, 0.4 + f64::from(i % 7) / 10.0)).collect();
    let fast: Vec<_> = (0..100).map(|i| (f64::from(i) / 10.0, 0.1 + f64::from(i % 5) / 100.0)).collect();
    vec![lane("Round-robin", &slow), lane("Prefix affinity", &fast)]
}

fn draw_all(lanes: &[Lane], change: impl Fn(&mut ChartRequest)) -> Vec<Chart> {
    let all = CHARTS.iter().map(|(id, _)| {
        let mut request = request(id);
        change(&mut request);
        draw(&request, lanes, &SloSpec::default()).unwrap()
    });
    all.collect()
}

#[test]
fn titles_say_the_finding() {
    let charts = draw_all(&two(), |_| {});
    assert_eq!(
        charts[0].title,
        "Half of all first tokens come within 120 ms with Prefix affinity, 700 ms with Round-robin"
    );
    assert_eq!(charts[1].title, "Requests with a first token within 1 s: 100 % with every policy");
    assert!(charts[2].title.starts_with("Most requests outstanding at once: "), "{}", charts[2].title);
    assert!(charts[0].summary.contains("Round-robin 700 ms, Prefix affinity 120 ms"), "{}", charts[0].summary);
}

/// The second of three seconds is under way: what came in it so far would look like a fall.
#[test]
fn a_run_in_progress_shows_what_is_known() {
    let mut under_way = two();
    under_way.iter_mut().for_each(|lane| lane.scaling.as_mut().unwrap().until_s = 1.5);
    let draw = |lanes: &[Lane]| draw(&request("demand_and_capacity"), lanes, &SloSpec::default()).unwrap();
    let (now, end) = (draw(&under_way), draw(&two()));
    let demand = |chart: &Chart| chart.series.iter().find(|series| series.label == "demand").unwrap().x.clone();
    assert_eq!((demand(&now), demand(&end)), (vec![0.0], vec![0.0, 1.0, 2.0]));
    assert!(now.title.ends_with(" so far") && !end.title.ends_with(" so far"), "{}", now.title);
    assert_eq!(now.x, end.x, "the axis is the whole run's from the start");
}

/// Of four requests one is never answered: three quarters is as high as the line gets.
#[test]
fn who_is_never_answered_lowers_the_share() {
    let mut of = lane("Round-robin", &[(0.0, 0.1), (1.0, 0.2), (2.0, 0.3)]);
    of.spans.push((3.0, None));
    let chart = draw(&request("ttft_cdf"), &[of], &SloSpec::default()).unwrap();
    assert_eq!(chart.title, "Requests with a first token within 1 s: 75 % with Round-robin");
    assert_eq!(chart.series[0].y.last(), Some(&75.0));
}

#[test]
fn ranges_start_at_zero_and_hold_every_point() {
    for chart in draw_all(&two(), |_| {}) {
        // A logarithmic axis has no zero.
        let log = chart.id.ends_with("_log");
        assert_eq!((chart.x.0, chart.y.0 == 0.0), (0.0, !log));
        for series in &chart.series {
            assert!(!series.x.is_empty() && series.x.len() == series.y.len());
            assert!(series.x.windows(2).all(|pair| pair[0] <= pair[1]));
            assert!(series.x.iter().all(|x| (chart.x.0..=chart.x.1).contains(x)));
            assert!(series.y.iter().all(|y| (chart.y.0..=chart.y.1).contains(y)), "{} {:?}", chart.id, chart.y);
        }
        let [left, top, width, height] = chart.area;
        assert!(left > 0.0 && top > 0.0 && left + width <= 640.0 && top + height <= 320.0);
        assert!(chart.x_label.contains("(s)") || chart.x_label.contains("(ms)"));
    }
}

/// Counted by hand: three arrivals at 0, 1 and 2; ends at 1.5 and 2.5; one never ends.
#[test]
fn outstanding_counts_what_has_not_ended() {
    let spans = vec![(0.0, Some(1.5)), (1.0, Some(2.5)), (2.0, None)];
    let lanes = [Lane { label: "x".into(), ttft: vec![], spans, ..Lane::default() }];
    let chart = draw(&request("outstanding_over_time"), &lanes, &SloSpec::default()).unwrap();
    assert_eq!(chart.series[0].x, [0.0, 1.0, 1.5, 2.0, 2.5]);
    assert_eq!(chart.series[0].y, [1.0, 2.0, 1.0, 2.0, 1.0]);
    assert!(chart.title.contains(": 2 with x"), "{}", chart.title);
}

/// Fifty prompts of 100 tokens without a hit, then as many of which 60 are found: the fifty latest at each point, by hand.
#[test]
fn reuse_looks_back_fifty_requests() {
    let hits = (0..100).map(|at| (f64::from(at), 100, if at < 50 { 0 } else { 60 })).collect();
    let lanes = [Lane { label: "x".into(), hits, ..Lane::default() }];
    let chart = draw(&request("reuse_over_time"), &lanes, &SloSpec::default()).unwrap();
    let at = |second: usize| chart.series[0].y[second];
    for (second, expected) in [(0, 0.0), (49, 0.0), (50, 0.012), (74, 0.3), (99, 0.6)] {
        assert!((at(second) - expected * at(99) / 0.6).abs() < 1e-9, "{second}: {}", at(second));
    }
    assert!(chart.title.contains("30 %"), "{}", chart.title);
}

#[test]
fn nothing_to_draw_is_a_picture() {
    for lanes in [vec![], vec![Lane::default()]] {
        for chart in draw_all(&lanes, |_| {}) {
            assert!(chart.svg.contains("yet."), "{}", chart.svg);
            assert!(chart.svg.starts_with("<svg") && chart.svg.ends_with("</svg>"));
        }
    }
}

#[test]
fn text_from_outside_is_escaped() {
    let lanes = [lane("<script>alert('x')&\"\u{1}", &[(0.0, 0.1), (1.0, 0.2)])];
    for chart in draw_all(&lanes, |_| {}) {
        assert!(!chart.svg.contains("<script"), "{}", chart.svg);
        assert!(!chart.svg.contains('\u{1}'));
        assert!(chart.svg.contains("&lt;script&gt;"));
    }
}

#[test]
fn policy_allows_it_and_readers_name_it() {
    for chart in draw_all(&two(), |_| {}) {
        assert!(!chart.svg.contains("style"), "no inline style, so that any policy allows it");
        let id = &chart.id;
        assert!(chart.svg.contains(&format!("role=\"img\" aria-labelledby=\"{id}-title {id}-desc\"")));
        assert!(chart.svg.contains(&format!("<title id=\"{id}-title\">")));
        // Dash is the second channel, so both lines must differ in it.
        assert!(chart.svg.contains(&format!("stroke-dasharray=\"{}\"", dash(1))));
    }
}

#[test]
fn a_range_zooms() {
    let chart =
        draw(&ChartRequest { range: Some((2.0, 3.0)), ..request("ttft_over_time") }, &two(), &SloSpec::default())
            .unwrap();
    assert_eq!(chart.x, (2.0, 3.0));
    // Ten arrivals and a neighbour on each side, of a hundred.
    assert!(chart.series[0].x.len() < 15 && chart.series[0].points == 100);
}

#[test]
fn a_range_stays_within_the_data_and_its_ticks_differ() {
    let whole = draw_all(&two(), |_| {});
    for (index, chart) in whole.iter().enumerate() {
        let end = chart.x.1;
        let zoom = |low: f64, high: f64| draw_all(&two(), |r| r.range = Some((low, high))).swap_remove(index).x;
        assert_eq!(zoom(-10.0 * end, 10.0 * end), (0.0, end));
        assert_eq!(zoom(-end, end / 2.0), (0.0, end / 2.0));
        assert_eq!(zoom(2.0 * end, 3.0 * end).1, end, "beyond: its last piece");
        let (low, high) = zoom(end / 2.0, end / 2.0 * (1.0 + 1e-13));
        assert!(low < end / 2.0 && high > end / 2.0 && high - low >= 0.999e-6 * end, "{low} to {high}");
    }
    // Texts of ticks along x, out of the picture: all in the row above the axis' name.
    for (at, width) in [(3.21, 1.0), (3.21, 1e-3), (9.87, 1e-5), (0.1, 1e-9), (5.0, 0.0f64.next_up())] {
        let range = Some((at, at + f64::max(width, at * 1e-15)));
        let chart = draw(&ChartRequest { range, ..request("ttft_over_time") }, &two(), &SloSpec::default()).unwrap();
        let row = format!("y=\"{:.1}\"", chart.area[1] + chart.area[3] + 4.0 + svg::TEXT);
        let texts = chart.svg.split("<text").filter(|text| text.contains(&row) && text.contains("\"middle\""));
        let labels: Vec<&str> = texts.map(|text| text.split(['>', '<']).nth(1).unwrap()).collect();
        assert!(labels.len() >= 2, "{labels:?} {}", chart.svg);
        let values: Vec<f64> = labels.iter().map(|label| label.parse().unwrap()).collect();
        assert!(values.windows(2).all(|pair| pair[0] < pair[1]), "{labels:?}");
        assert!(values.iter().all(|v| (chart.x.0 - 1e-7..=chart.x.1 + 1e-7).contains(v)), "{labels:?} {:?}", chart.x);
    }
    assert_eq!(axis::tick_text(0.5, &[0.5]), "0.5", "not rounded to a whole number");
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    let slo = SloSpec::default();
    let refused = |request: ChartRequest| draw(&request, &two(), &slo).unwrap_err().field;
    assert_eq!(refused(request("pie")), "chart.id");
    assert_eq!(refused(ChartRequest { width: 10, ..request("ttft_cdf") }), "chart.width");
    assert_eq!(refused(ChartRequest { height: 100_000, ..request("ttft_cdf") }), "chart.height");
    for range in [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY)] {
        assert_eq!(refused(ChartRequest { range: Some(range), ..request("ttft_cdf") }), "chart.range");
    }
}

#[test]
fn narrow_pictures_have_a_legend_and_wide_ones_end_labels() {
    let count = |width| {
        let chart = draw(&ChartRequest { width, ..request("ttft_over_time") }, &two(), &SloSpec::default()).unwrap();
        (
            chart.area[0] + chart.area[2],
            chart.svg.matches("text-anchor=\"start\" fill=\"#191d23\">Round-robin<").count(),
        )
    };
    let (narrow, wide) = (count(360), count(900));
    assert_eq!((narrow.1, wide.1), (1, 1));
    assert!(narrow.0 > 340.0, "the legend leaves the plot its width");
    assert!(wide.0 < 820.0, "room for labels at the ends");
}

/// The estimated end of every text that starts somewhere lies within the picture, however long the names of policies are.
#[test]
fn no_name_is_cut_off_at_the_edge() {
    let name = |at: usize| {
        format!("{at} Retries at once (time-out 2, budget bucket, filled by successes, attempts of layer 2 3)")
    };
    let lanes: Vec<Lane> = (0..4).map(|at| lane(&name(at), &[(0.0, 0.1), (9.0, 0.2 + at as f64)])).collect();
    for width in [320, 480, 700, 960, 1400] {
        for chart in draw_all(&lanes, |request| request.width = width) {
            for text in chart.svg.split("<text").skip(1).filter(|text| text.contains("\"start\"")) {
                let x: f64 = text.split("x=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
                let words = text.split(['>', '<']).nth(1).unwrap();
                assert!(x + svg::text_width(words, svg::TEXT) <= f64::from(width) + 1.0, "{width}: {x} {words}");
            }
            let named = chart.svg.matches("Retries at once").count();
            assert!(named > 4 || width < 480, "{width}: {}", chart.svg);
        }
    }
}

#[test]
fn linear_and_log_pictures_are_told_apart_by_their_titles() {
    let [linear, log] = ["attempts_over_time", "attempts_over_time_log"]
        .map(|id| draw(&request(id), &two(), &SloSpec::default()).unwrap());
    assert_ne!(linear.title, log.title);
    assert!(log.title.contains("log scale") && !linear.title.contains("log scale"), "{}", log.title);
    // The figure is that of a whole second, as in tables; the axis says how long a bin is.
    assert!(linear.title.contains("9 with"), "{}", linear.title);
    assert!(linear.y_label.contains("in bins of 1 s"), "{}", linear.y_label);
}

#[test]
fn a_million_points_keep_every_peak() {
    let mut stream = Stream::new(3, b"points");
    let points: Vec<(f64, f64)> = (0..1_000_000).map(|i| (f64::from(i) / 1e3, stream.unit())).collect();
    let started = std::time::Instant::now();
    let kept = per_column(&points, 0.0, 1000.0, 800);
    let took = started.elapsed();
    assert!(kept.len() <= 4 * 801, "{}", kept.len());
    let width = 1000.0 / 800.0;
    for column in [0, 17, 400, 799] {
        let inside = |points: &[(f64, f64)]| {
            let mut ys: Vec<f64> = points.iter().filter(|p| (p.0 / width) as usize == column).map(|p| p.1).collect();
            ys.sort_by(f64::total_cmp);
            (ys[0], ys[ys.len() - 1])
        };
        assert_eq!(inside(&points), inside(&kept), "column {column}");
    }
    // Some milliseconds; the bound is for a machine that does much else.
    assert!(took.as_secs_f64() < 5.0, "took {took:?}");
}

proptest! {
    #[test]
    fn down_sampling_keeps_extremes_and_order(
        mut points in prop::collection::vec((0.0..100.0f64, -1e6..1e6f64), 1..3000), columns in 1u32..50,
    ) {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let kept = per_column(&points, 0.0, 100.0, columns);
        prop_assert!(kept.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        prop_assert!(kept.iter().all(|point| points.contains(point)));
        let most = |points: &[(f64, f64)]| points.iter().map(|p| p.1).fold(f64::NEG_INFINITY, f64::max);
        let least = |points: &[(f64, f64)]| points.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
        prop_assert_eq!(most(&points), most(&kept));
        prop_assert_eq!(least(&points), least(&kept));
        prop_assert!(kept.len() <= 4 * columns as usize + 8);
    }

    #[test]
    fn ticks_are_round_inside_and_not_too_many(low in -1e6..1e6f64, span in 1e-6..1e6f64, most in 2usize..10) {
        let ticks = axis::ticks(low, low + span, most);
        prop_assert!(ticks.len() <= most + 1 && ticks.len() >= most / 5);
        prop_assert!(ticks.iter().all(|t| *t >= low - span * 1e-6 && *t <= low + span * (1.0 + 1e-6)));
    }

    #[test]
    fn any_values_make_a_picture(
        values in prop::collection::vec((0.0..1e6f64, 0.0..1e6f64), 0..60), width in 160u32..2000, height in 160u32..1000, dark in any::<bool>(),
    ) {
        let mut values = values;
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        for chart in draw_all(&[lane("a", &values), lane("b", &values)], |r| (r.width, r.height, r.dark) = (width, height, dark)) {
            prop_assert!(!chart.svg.contains("NaN") && !chart.svg.contains("inf"), "{}", chart.svg);
            prop_assert!(chart.area.iter().all(|side| side.is_finite() && *side >= 0.0));
        }
    }
}

/// Linear RGB of `#rrggbb`.
pub(super) fn linear(colour: &str) -> [f64; 3] {
    let channel = |at: usize| {
        let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    [channel(1), channel(3), channel(5)]
}

pub(super) fn luminance([r, g, b]: [f64; 3]) -> f64 {
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

pub(super) fn contrast(a: &str, b: &str) -> f64 {
    let (a, b) = (luminance(linear(a)), luminance(linear(b)));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

pub(super) fn lab([r, g, b]: [f64; 3]) -> [f64; 3] {
    let xyz = [
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883,
    ];
    let [x, y, z] = xyz.map(|t| if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 });
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

/// Machado, Oliveira, Fernandes 2009, severity 1; the first is normal sight.
pub(super) const SIGHTS: [[[f64; 3]; 3]; 4] = [
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
];

#[test]
fn colours_are_told_apart_by_every_kind_of_sight() {
    for dark in [false, true] {
        let colours = scheme(dark);
        for text in [colours.ink, colours.quiet, colours.limit] {
            assert!(contrast(text, colours.surface) >= 4.5, "{text}");
        }
        for first in 0..6 {
            assert!(contrast(colours.lane(first), colours.surface) >= 3.0, "{}", colours.lane(first));
            for second in 0..first {
                assert_ne!(dash(first), dash(second));
                for sight in &SIGHTS {
                    let seen = |index: usize| {
                        let rgb = linear(colours.lane(index));
                        lab(sight.map(|row| (row[0] * rgb[0] + row[1] * rgb[1] + row[2] * rgb[2]).clamp(0.0, 1.0)))
                    };
                    let (a, b) = (seen(first), seen(second));
                    let apart = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt();
                    assert!(apart >= 35.0, "{} {}: {apart}", colours.lane(first), colours.lane(second));
                }
            }
        }
    }
}
