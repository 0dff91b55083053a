//! Layout and drawing of one picture at one size.

use super::axis::{Unit, log_ticks, round_up, tick_text, ticks};
use super::palette::{LATE, Scheme, dash, scheme};
use super::sample::per_column;
use super::svg::{Svg, TEXT, TITLE, shortened, text_width, wrap};
use super::{Direction, Form, Picture, Ribbon, Stroke};
use servelab_spec::protocol::{Chart, ChartRequest, Series};
use std::fmt::Write;

/// Line height of text, pixels.
const LINE: f64 = 16.0;
/// Farthest that a label may be moved from the end of its line before a legend is clearer.
const LABEL_SHIFT: f64 = 40.0;
/// Length of the piece of line that stands before a label, pixels: long enough to show any dash pattern.
const SWATCH: f64 = 24.0;
/// Least height of the plot itself, pixels.
const LEAST_PLOT: f64 = 150.0;
/// Width of a plain letter as a share of a bold one's.
const BOLD: f64 = 0.88;
/// Narrowest picture with labels at the ends of lines: below, they would take the plot's room.
const LABELLED_WIDTH: f64 = 480.0;

/// Axis ranges in shown units, and the plot area in pixels.
struct Frame {
    area: [f64; 4],
    x: (f64, f64),
    y: (f64, f64),
    x_log: bool,
    y_log: bool,
}

/// Where `y` stands between the ends of its axis: 0 at the foot, 1 at the top.
fn share_of(y: f64, (low, high): (f64, f64), log: bool) -> f64 {
    if !log {
        return (y - low) / (high - low);
    }
    let (low, high) = (libm::log10(low), libm::log10(high));
    if y > 0.0 { ((libm::log10(y) - low) / (high - low)).max(0.0) } else { 0.0 }
}

impl Frame {
    fn px(&self, x: f64) -> f64 {
        let at = |x: f64| if self.x_log { libm::log10(x) } else { x };
        let (low, high) = (at(self.x.0), at(self.x.1));
        self.area[0] + (at(x) - low) / (high - low) * self.area[2]
    }

    fn py(&self, y: f64) -> f64 {
        self.area[1] + self.area[3] - share_of(y, self.y, self.y_log) * self.area[3]
    }
}

pub(super) fn render(request: &ChartRequest, picture: &Picture) -> Chart {
    let (width, asked_height) = (f64::from(request.width), f64::from(request.height));
    let colours = scheme(request.dark);
    let (x_label, y_label) = (picture.x_unit.label(&picture.x_name), picture.y_unit.label(&picture.y_name));
    let empty = picture.strokes.iter().all(|stroke| stroke.points.is_empty());

    // Bold letters are wider than the estimate for text.
    let heading = wrap(&picture.title, TITLE, (width - 16.0) * BOLD, 3);
    let mut top = 8.0 + LINE * heading.len() as f64 + LINE;
    let (x, y) = ranges(request, picture);
    let most = (asked_height / 60.0).clamp(2.0, 8.0) as usize;
    let y_ticks: Vec<(f64, String)> = match picture.y_log {
        // One by one: on such an axis no distance between ticks says how many decimals they need.
        true => log_ticks(y.0, y.1, most).into_iter().map(|tick| (tick, tick_text(tick, &[tick]))).collect(),
        false => {
            let ticks = ticks(y.0, y.1, most);
            ticks.iter().map(|&tick| (tick, tick_text(tick, &ticks))).collect()
        }
    };
    let widest = y_ticks.iter().map(|(_, words)| text_width(words, TEXT)).fold(0.0, f64::max);
    let left = 12.0 + widest;
    let bottom = 2.0 * LINE + 6.0;

    let series = sampled(picture, x, (width - left) as u32);
    let ends = end_labels(picture, &series, y, asked_height - top - bottom);
    let longest = ends.iter().map(|end| text_width(&picture.strokes[end.stroke].label, TEXT)).fold(0.0, f64::max);
    // A label that takes more than a third of the picture would be cut off, or leave the plot no room.
    let at_ends = width >= LABELLED_WIDTH && longest <= width / 3.0 && ends.iter().all(|end| end.shift <= LABEL_SHIFT);
    let right = if at_ends { longest + SWATCH + 14.0 } else { 12.0 };
    let legend = if at_ends || empty { vec![] } else { legend_rows(picture, &ends, width - left - right) };
    top += LINE * legend.len() as f64;
    // Title and legend take their room from the picture's height, but never so much that lines could not be told apart.
    let height = asked_height.max(top + bottom + LEAST_PLOT);

    let area = [left, top, (width - left - right).max(1.0), (height - top - bottom).max(1.0)];
    let frame =
        Frame { area, x, y, x_log: picture.extent.as_ref().is_some_and(|extent| extent.log), y_log: picture.y_log };
    let mut svg = Svg::new(&request.id, width, height, &picture.title, &picture.summary);
    let clip = format!("{}-area", request.id);
    svg.clip(&clip, area);
    svg.rect([0.0, 0.0, width, height], colours.surface);
    for (index, line) in heading.iter().enumerate() {
        svg.heading((8.0, 16.0 + LINE * index as f64), colours.ink, line);
    }
    svg.text((left, top - 5.0 - LINE * legend.len() as f64), "start", colours.quiet, &y_label);
    draw_axes(&mut svg, &frame, &y_ticks, &x_ticks(&frame, picture), colours);
    svg.text((left + area[2], height - 6.0), "end", colours.quiet, &x_label);
    if empty {
        svg.text((left + area[2] / 2.0, top + area[3] / 2.0), "middle", colours.quiet, picture.empty);
    } else {
        let limit = draw_limit(&mut svg, &frame, picture, colours);
        draw_marks(&mut svg, &frame, picture, colours);
        for ribbon in &picture.ribbons {
            draw_ribbon(&mut svg, &frame, ribbon, (picture.x_unit, picture.y_unit), colours, &clip);
        }
        for (stroke, series) in picture.strokes.iter().zip(&series) {
            draw_stroke(&mut svg, &frame, stroke, series, colours, &clip);
        }
        if let (Some((at, anchor)), Some((_, _, words))) = (limit, &picture.limit) {
            svg.words_over(at, anchor, (colours.limit, colours.surface), words);
        }
        if at_ends {
            for end in end_labels(picture, &series, y, area[3]) {
                let stroke = &picture.strokes[end.stroke];
                let (x, y) = (left + area[2] + 4.0, top + end.y);
                svg.line((x, y), (x + SWATCH, y), colours.lane(stroke.lane), 2.0, dash(stroke.lane));
                svg.text((x + SWATCH + 4.0, y + 4.0), "start", colours.ink, &stroke.label);
            }
        }
        let from = (left, top - 5.0 - LINE * (legend.len() as f64 - 1.0), width - left - 4.0);
        draw_legend(&mut svg, picture, &legend, from, colours);
    }
    Chart {
        id: request.id.clone(),
        title: picture.title.clone(),
        summary: picture.summary.clone(),
        svg: svg.finish(),
        area,
        x,
        x_log: frame.x_log,
        y,
        y_log: frame.y_log,
        x_label,
        y_label,
        series,
        findings: vec![],
    }
}

/// Least share of the whole x axis that can be zoomed to: below it, ticks differ only in digits that no label has room for.
const LEAST_SHARE: f64 = 1e-6;
/// The resolution of the clock, seconds: nothing is to be seen below it.
const TICK_OF_CLOCK: f64 = 1e-9;

/// The part of an axis from 0 to `whole` that `asked` covers, grown to what can be told apart. Shown units, of which `scale` are a second.
fn zoomed(asked: (f64, f64), whole: f64, scale: f64) -> (f64, f64) {
    let (low, high) = (asked.0.clamp(0.0, whole), asked.1.clamp(0.0, whole));
    let least = (LEAST_SHARE * whole).max(TICK_OF_CLOCK * scale).min(whole);
    if high - low >= least {
        return (low, high);
    }
    let low = (low + (high - low) / 2.0 - least / 2.0).clamp(0.0, whole - least);
    (low, low + least)
}

/// Ranges in shown units. Both axes start at zero unless the request zooms; y then fits what is in sight.
fn ranges(request: &ChartRequest, picture: &Picture) -> ((f64, f64), (f64, f64)) {
    let (x_scale, y_scale) = (picture.x_unit.scale(), picture.y_unit.scale());
    let all = || picture.strokes.iter().flat_map(|stroke| &stroke.points);
    let largest_x = all().fold(0.0f64, |max, point| max.max(point.0)) * x_scale;
    let whole = if largest_x > 0.0 { largest_x } else { 1.0 };
    let x = match &picture.extent {
        Some(extent) => (extent.low * x_scale, extent.high * x_scale),
        None => request.range.map_or((0.0, whole), |asked| zoomed(asked, whole, x_scale)),
    };
    let seen = all().filter(|point| point.0 * x_scale >= x.0 && point.0 * x_scale <= x.1);
    let highs = picture.ribbons.iter().flat_map(|ribbon| &ribbon.points).map(|point| point.2);
    let largest_y = seen.map(|point| point.1).chain(highs).fold(0.0, f64::max);
    let top = largest_y.max(picture.y_at_least).min(picture.y_at_most) * y_scale;
    if picture.y_log {
        let positive = picture.strokes.iter().flat_map(|stroke| &stroke.points).map(|point| point.1 * y_scale);
        let least = positive.filter(|&y| y > 0.0).fold(f64::INFINITY, f64::min).min(top.max(1.0));
        let decade = |y: f64, up: f64| libm::pow(10.0, libm::floor(libm::log10(y) + up));
        let low = decade(least, 1e-9);
        return (x, (low, decade(top.max(least), 1.0 - 1e-9).max(10.0 * low)));
    }
    let y = if picture.y_unit == Unit::Percent { 100.0 } else { round_up(top, 5) };
    (x, (0.0, y))
}

fn sampled(picture: &Picture, x: (f64, f64), columns: u32) -> Vec<Series> {
    let (x_scale, y_scale) = (picture.x_unit.scale(), picture.y_unit.scale());
    let series = picture.strokes.iter().map(|stroke| {
        let kept = per_column(&stroke.points, x.0 / x_scale, x.1 / x_scale, columns);
        Series {
            label: stroke.label.clone(),
            x: kept.iter().map(|point| point.0 * x_scale).collect(),
            y: kept.iter().map(|point| point.1 * y_scale).collect(),
            points: stroke.points.len() as u64,
        }
    });
    series.collect()
}

/// A label at the end of its line.
struct EndLabel {
    stroke: usize,
    /// Below the top of the plot area, pixels.
    y: f64,
    /// How far it had to move.
    shift: f64,
}

/// Labels at the last values, pushed apart to a line's height each and kept inside.
fn end_labels(picture: &Picture, series: &[Series], y: (f64, f64), height: f64) -> Vec<EndLabel> {
    let mut ends: Vec<EndLabel> = Vec::new();
    for (index, (stroke, series)) in picture.strokes.iter().zip(series).enumerate() {
        if let (true, Some(&last)) = (!matches!(stroke.form, Form::Dots | Form::Strip), series.y.last()) {
            let at = (height - share_of(last, y, picture.y_log) * height).clamp(0.0, height);
            ends.push(EndLabel { stroke: index, y: at, shift: at });
        }
    }
    ends.sort_by(|a, b| a.y.total_cmp(&b.y));
    let mut lowest = 0.0f64;
    for end in &mut ends {
        end.y = end.y.max(lowest);
        lowest = end.y + LINE - 2.0;
    }
    let mut highest = height;
    for end in ends.iter_mut().rev() {
        end.y = end.y.min(highest);
        highest = end.y - (LINE - 2.0);
        end.shift = (end.y - end.shift).abs();
    }
    ends
}

/// Which labels stand in which row of the legend, each with its distance from the left.
fn legend_rows(picture: &Picture, ends: &[EndLabel], width: f64) -> Vec<Vec<(usize, f64)>> {
    let mut order: Vec<usize> = ends.iter().map(|end| end.stroke).collect();
    order.sort();
    let mut rows: Vec<Vec<(usize, f64)>> = Vec::new();
    let mut used = f64::INFINITY;
    for stroke in order {
        let wide = text_width(&picture.strokes[stroke].label, TEXT) + SWATCH + 16.0;
        if used + wide > width {
            rows.push(vec![]);
            used = 0.0;
        }
        if let Some(row) = rows.last_mut() {
            row.push((stroke, used));
        }
        used += wide;
    }
    rows
}

/// `from`: left and top of the first row, and the room to the right edge.
fn draw_legend(svg: &mut Svg, picture: &Picture, rows: &[Vec<(usize, f64)>], from: (f64, f64, f64), colours: &Scheme) {
    for (index, row) in rows.iter().enumerate() {
        let y = from.1 + LINE * index as f64;
        for &(stroke, at) in row {
            let stroke = &picture.strokes[stroke];
            let x = from.0 + at;
            svg.line((x, y - 4.0), (x + SWATCH, y - 4.0), colours.lane(stroke.lane), 2.0, dash(stroke.lane));
            let room = from.2 - at - SWATCH - 4.0;
            svg.text((x + SWATCH + 4.0, y), "start", colours.ink, &shortened(&stroke.label, TEXT, room));
        }
    }
}

/// Ticks of the x axis and their words.
fn x_ticks(frame: &Frame, picture: &Picture) -> Vec<(f64, String)> {
    let most = (frame.area[2] / 90.0).clamp(2.0, 10.0) as usize;
    let said = picture.extent.as_ref().map(|extent| extent.ticks.clone()).unwrap_or_default();
    if !said.is_empty() {
        return said;
    }
    if frame.x_log {
        // One by one: on such an axis no distance between ticks says how many decimals they need.
        let ticks = log_ticks(frame.x.0, frame.x.1, most);
        return ticks.into_iter().map(|tick| (tick, tick_text(tick, &[tick]))).collect();
    }
    let ticks = ticks(frame.x.0, frame.x.1, most);
    ticks.iter().map(|&tick| (tick, tick_text(tick, &ticks))).collect()
}

fn draw_axes(svg: &mut Svg, frame: &Frame, y_ticks: &[(f64, String)], x_ticks: &[(f64, String)], colours: &Scheme) {
    let [left, top, width, height] = frame.area;
    for (tick, words) in y_ticks {
        let y = frame.py(*tick);
        svg.line((left, y), (left + width, y), if *tick == 0.0 { colours.quiet } else { colours.rule }, 1.0, "");
        svg.text((left - 6.0, y + 4.0), "end", colours.quiet, words);
    }
    for (tick, words) in x_ticks {
        let x = frame.px(*tick);
        svg.line((x, top + height), (x, top + height + 4.0), colours.quiet, 1.0, "");
        svg.text((x, top + height + 4.0 + TEXT), "middle", colours.quiet, words);
    }
}

/// There along the upper ends and back along the lower ones.
fn draw_ribbon(svg: &mut Svg, frame: &Frame, ribbon: &Ribbon, units: (Unit, Unit), colours: &Scheme, clip: &str) {
    let at = |x: f64, y: f64| {
        let y = (y * units.1.scale()).clamp(frame.y.0, frame.y.1);
        format!("{:.1} {:.1}", frame.px(x * units.0.scale()), frame.py(y))
    };
    let there = ribbon.points.iter().map(|&(x, _, high)| at(x, high));
    let back = ribbon.points.iter().rev().map(|&(x, low, _)| at(x, low));
    let corners: Vec<String> = there.chain(back).collect();
    if ribbon.points.len() > 1 {
        svg.area(&format!("M{}z", corners.join("L")), colours.lane(ribbon.lane), clip);
    }
}

/// The limit, if it lies in sight.
/// Draws the line and answers where its words belong, which nothing may cover.
fn draw_limit(svg: &mut Svg, frame: &Frame, picture: &Picture, colours: &Scheme) -> Option<((f64, f64), &'static str)> {
    let (direction, value, _) = picture.limit.as_ref()?;
    let [left, top, width, height] = frame.area;
    match direction {
        Direction::Horizontal => {
            let value = value * picture.y_unit.scale();
            (value <= frame.y.1).then(|| {
                let y = frame.py(value);
                svg.line((left, y), (left + width, y), colours.limit, 1.0, "4 3");
                // Below the line when it lies at the top, where the axis has its name.
                let text_y = if y < top + LINE { y + LINE - 4.0 } else { y - 4.0 };
                ((left + 4.0, text_y), "start")
            })
        }
        Direction::Vertical => {
            let value = value * picture.x_unit.scale();
            (value >= frame.x.0 && value <= frame.x.1).then(|| {
                let x = frame.px(value);
                svg.line((x, top), (x, top + height), colours.limit, 1.0, "4 3");
                let before = x > left + width / 2.0;
                let at = (if before { x - 4.0 } else { x + 4.0 }, top + height - 6.0);
                (at, if before { "end" } else { "start" })
            })
        }
    }
}

/// Marked values in sight, their words one below the other so that near ones can be read.
fn draw_marks(svg: &mut Svg, frame: &Frame, picture: &Picture, colours: &Scheme) {
    let [left, top, width, height] = frame.area;
    let scale = picture.x_unit.scale();
    let seen = picture.marks.iter().filter(|mark| mark.x * scale >= frame.x.0 && mark.x * scale <= frame.x.1);
    for (row, mark) in seen.enumerate() {
        let (x, y) = (frame.px(mark.x * scale), top + LINE * (row + 1) as f64);
        svg.line((x, top), (x, top + height), colours.lane(mark.lane), 1.5, dash(mark.lane));
        let before = x > left + width / 2.0;
        svg.text(
            (if before { x - 4.0 } else { x + 4.0 }, y),
            if before { "end" } else { "start" },
            colours.ink,
            &mark.words,
        );
    }
}

fn draw_stroke(svg: &mut Svg, frame: &Frame, stroke: &Stroke, series: &Series, colours: &Scheme, clip: &str) {
    if series.x.is_empty() {
        return;
    }
    let colour = colours.lane(stroke.lane);
    if stroke.form == Form::Strip {
        return draw_strip(svg, frame, stroke.lane, series, colour, clip);
    }
    let mut data = String::with_capacity(series.x.len() * 14);
    let mut last_y = 0.0;
    for (index, (&x, &y)) in series.x.iter().zip(&series.y).enumerate() {
        let (px, py) = (frame.px(x), frame.py(y));
        let _ = match (stroke.form, index) {
            (Form::Dots, _) => write!(data, "{}", mark(stroke.lane, px, py)),
            (_, 0) => write!(data, "M{px:.1} {py:.1}"),
            (Form::Line | Form::Area | Form::Strip, _) => write!(data, "L{px:.1} {py:.1}"),
            (Form::Steps, _) if py == last_y => write!(data, "H{px:.1}"),
            (Form::Steps, _) => write!(data, "H{px:.1}V{py:.1}"),
        };
        last_y = py;
    }
    if stroke.form == Form::Area {
        let foot = frame.area[1] + frame.area[3];
        let (first, last) = (frame.px(series.x[0]), series.x.last().map_or(0.0, |&x| frame.px(x)));
        svg.area(&format!("{data}L{last:.1} {foot:.1}L{first:.1} {foot:.1}z"), colour, clip);
    }
    // A line of one point has no length: nothing would be seen of it.
    let alone = series.x.len() == 1;
    if alone {
        data = mark(stroke.lane, frame.px(series.x[0]), frame.py(series.y[0]));
    }
    if alone || stroke.form == Form::Dots {
        svg.marks(&data, colour, clip);
    } else {
        svg.path(&data, colour, dash(stroke.lane), clip);
    }
}

/// Height of a strip and its distance from the next, pixels.
const STRIP: (f64, f64) = (5.0, 2.0);

/// Bars along the foot of the plot wherever the series is above 0; at least a pixel wide, so that no minute is lost.
fn draw_strip(svg: &mut Svg, frame: &Frame, lane: usize, series: &Series, colour: &str, clip: &str) {
    let row = (lane % LATE) as f64;
    let top = frame.area[1] + frame.area[3] - (row + 1.0) * (STRIP.0 + STRIP.1);
    let mut data = String::new();
    let mut begun: Option<f64> = None;
    for (&x, &y) in series.x.iter().zip(&series.y) {
        let px = frame.px(x);
        match (begun, y > 0.0) {
            (None, true) => begun = Some(px),
            (Some(from), false) => {
                let width = (px - from).max(1.0);
                let _ = write!(data, "M{from:.1} {top:.1}h{width:.1}v{:.1}h-{width:.1}z", STRIP.0);
                begun = None;
            }
            _ => {}
        }
    }
    if let (Some(from), Some(&x)) = (begun, series.x.last()) {
        let width = (frame.px(x) - from).max(1.0);
        let _ = write!(data, "M{from:.1} {top:.1}h{width:.1}v{:.1}h-{width:.1}z", STRIP.0);
    }
    if !data.is_empty() {
        svg.bars(&data, colour, clip);
    }
}

/// A policy's mark around a point, as path data: square, diamond, triangle up, triangle down, bar, tall bar.
fn mark(lane: usize, x: f64, y: f64) -> String {
    match lane % 6 {
        0 => format!("M{:.1} {:.1}h4v4h-4z", x - 2.0, y - 2.0),
        1 => format!("M{x:.1} {:.1}l3 3l-3 3l-3 -3z", y - 3.0),
        2 => format!("M{x:.1} {:.1}l3 5h-6z", y - 3.0),
        3 => format!("M{x:.1} {:.1}l3 -5h-6z", y + 3.0),
        4 => format!("M{:.1} {:.1}h6v2h-6z", x - 3.0, y - 1.0),
        _ => format!("M{:.1} {:.1}h2v6h-2z", x - 1.0, y - 3.0),
    }
}
