//! Charts as SVG text: the same picture from the worker, the CLI and the tests, byte for byte.
//!
//! # Why drawn here
//! What is wanted: one picture on host and in a browser's worker, SVG export, a strict content security policy, ARIA,
//! patterns besides colour, honest down-sampling of a million points, and no network. Against that list:
//!
//! - `plotters` draws SVG on the host, but on wasm32 it measures text with a `<span>` in the page's document: a worker has none and
//!   it panics; even with one, host and browser would draw different pictures. It has no dash patterns in SVG (a dashed line becomes
//!   thousands of elements) and no ARIA.
//! - ECharts (`charming`) has ARIA, patterns, zoom and sampling; it is a script of about a megabyte that writes its tooltips as styled HTML,
//!   which the policy forbids, and it does not run on a terminal.
//! - uPlot is small and fast, but a canvas: no SVG, no ARIA, and an npm build.
//! - `leptos-chartistry` draws SVG in the page only, without ARIA, and the page computes nothing.
//!
//! So this is one small component: axes, lines, steps, dots, labels. Interaction (crosshair, keyboard, zoom) is the page's: a
//! [`Chart`] carries the plot area, both ranges and the series as drawn, and a `range` in the request zooms. Text is never measured
//! but estimated ([`svg::text_width`]), which is the same everywhere. There is no `style` attribute and no `<style>`, so any policy allows it.
//!
//! # Rules
//! The title says the finding. Amounts start at zero. Lines are labelled at their ends when the labels fit, else in a legend. A policy
//! keeps its colour, dash and mark in every chart ([`palette`]). Down-sampling keeps the first, smallest, largest and last point of each
//! pixel column ([`sample`]), so no peak is lost. Nothing to draw is a picture too.

pub mod axis;
mod borders;
mod heat;
mod knee;
mod latency;
pub mod palette;
mod plot;
mod ramp;
pub mod sample;
mod scaling;
mod series;
mod storm;
pub mod svg;
mod sweep;

pub use knee::{draw as draw_knee, draw_both as draw_knees};
pub use scaling::ScalingLane;
pub use series::Lane;
pub use storm::StormLane;
pub use sweep::draw as draw_sweep;

pub(crate) use axis::Unit;
pub(crate) use scaling::hours;
use servelab_spec::experiment::SloSpec;
use servelab_spec::protocol::{Chart, ChartRequest};
use servelab_spec::validate::SpecError;
use std::borrow::Cow;

/// Ids and one-line meanings of the charts there are.
pub const CHARTS: [(&str, &str); 9] = [
    ("ttft_over_time", "time to first token of each request by arrival, with a running median or another figure"),
    ("ttft_cdf", "share of requests whose first token came within a time"),
    ("outstanding_over_time", "requests arrived and not yet ended"),
    ("reuse_over_time", "share of prompt tokens found in a cache, over the latest requests by arrival"),
    (
        "demand_and_capacity",
        "where replicas come and go: requests offered, requests that ready replicas can serve, and when users were late",
    ),
    ("attempts_over_time", "where clients have rules of their own: attempts per second, first ones and repeats"),
    ("attempts_over_time_log", "the same, powers of ten equally far apart"),
    ("e2e_over_time", "as ttft_over_time, of the time to the last token"),
    ("wait_over_time", "as ttft_over_time, of the time until a request first enters a batch"),
];

/// Smallest and largest picture, pixels on a side.
const SIDE: (u32, u32) = (160, 8192);

/// Draws a chart of a run, finished or not.
///
/// # Errors
/// Unknown chart, a picture too small or too large, a range that is none.
pub fn draw(request: &ChartRequest, lanes: &[Lane], slo: &SloSpec) -> Result<Chart, SpecError> {
    check_size(request.width, request.height)?;
    if let Some((low, high)) = request.range
        && !(low.is_finite() && high.is_finite() && low < high)
    {
        let found = format!("{low} to {high}");
        return Err(SpecError::new("chart.range", found, "accepted are two finite numbers, the smaller one first"));
    }
    let picture = match request.id.as_str() {
        "ttft_over_time" => latency::over_time(&latency::TTFT, request.statistic, lanes, slo),
        "e2e_over_time" => latency::over_time(&latency::E2E, request.statistic, lanes, slo),
        "wait_over_time" => latency::over_time(&latency::WAIT, request.statistic, lanes, slo),
        "ttft_cdf" => series::ttft_cdf(lanes, slo),
        "outstanding_over_time" => series::outstanding_over_time(lanes),
        "reuse_over_time" => series::reuse_over_time(lanes),
        "demand_and_capacity" => scaling::demand_and_capacity(lanes),
        "attempts_over_time" => storm::attempts_over_time(lanes, false),
        "attempts_over_time_log" => storm::attempts_over_time(lanes, true),
        _ => {
            let ids: Vec<&str> = CHARTS.iter().map(|(id, _)| *id).collect();
            return Err(SpecError::new("chart.id", &request.id, format!("accepted are {}", ids.join(", "))));
        }
    };
    Ok(plot::render(request, &picture))
}

/// Draws a picture that is made elsewhere.
///
/// # Errors
/// A picture too small or too large.
pub(crate) fn draw_picture(request: &ChartRequest, picture: &Picture) -> Result<Chart, SpecError> {
    check_size(request.width, request.height)?;
    Ok(plot::render(request, picture))
}

fn check_size(width: u32, height: u32) -> Result<(), SpecError> {
    for (field, side) in [("chart.width", width), ("chart.height", height)] {
        if side < SIDE.0 || side > SIDE.1 {
            return Err(SpecError::new(field, side, format!("accepted are {} to {} pixels", SIDE.0, SIDE.1)));
        }
    }
    Ok(())
}

/// What is drawn, before it has a size.
pub(crate) struct Picture {
    pub(crate) title: String,
    pub(crate) summary: String,
    pub(crate) x_name: Cow<'static, str>,
    pub(crate) x_unit: Unit,
    pub(crate) y_name: Cow<'static, str>,
    pub(crate) y_unit: Unit,
    /// The y axis ends here even if no point reaches it.
    pub(crate) y_at_least: f64,
    /// The y axis ends here even if points lie beyond, which then leave the picture; no end of its own when infinite.
    pub(crate) y_at_most: f64,
    /// The y axis shows equal ratios as equal distances, from the power of ten below the smallest value above zero.
    pub(crate) y_log: bool,
    /// The x axis where it does not start at zero; it can not be zoomed then.
    pub(crate) extent: Option<Extent>,
    pub(crate) ribbons: Vec<Ribbon>,
    pub(crate) strokes: Vec<Stroke>,
    /// A limit drawn as a thin line: horizontal or vertical, its value in seconds, its words.
    pub(crate) limit: Option<(Direction, f64, String)>,
    /// Values of the x axis that matter to one series each.
    pub(crate) marks: Vec<Mark>,
    /// Words shown when there is no point.
    pub(crate) empty: &'static str,
}

/// An x axis of its own.
pub(crate) struct Extent {
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Equal ratios are equal distances; both ends are above zero then.
    pub(crate) log: bool,
    /// Ticks with their words; round numbers when there are none.
    pub(crate) ticks: Vec<(f64, String)>,
}

/// A band around a series: x, low, high; x ascending, in base units.
pub(crate) struct Ribbon {
    pub(crate) lane: usize,
    pub(crate) points: Vec<(f64, f64, f64)>,
}

/// A value of the x axis, marked in the colour and dash of its series.
pub(crate) struct Mark {
    pub(crate) lane: usize,
    pub(crate) x: f64,
    pub(crate) words: String,
}

/// Which way a limit line runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Horizontal,
    Vertical,
}

/// One series of a picture, x ascending, in base units.
pub(crate) struct Stroke {
    /// Index of the policy: colour, dash and mark.
    pub(crate) lane: usize,
    pub(crate) label: String,
    pub(crate) form: Form,
    pub(crate) points: Vec<(f64, f64)>,
}

/// How a series is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Straight from point to point; labelled.
    Line,
    /// Holds each value until the next point; labelled.
    Steps,
    /// A faint mark per point; not labelled.
    Dots,
    /// As a line, filled down to the axis; labelled.
    Area,
    /// Above 0 or not, from each point to the next: a bar along the foot of the plot, one below the other; not labelled.
    Strip,
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod sweep_tests;
#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
