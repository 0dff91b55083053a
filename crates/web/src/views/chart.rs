//! One chart: the worker draws the picture, the page adds what a picture lacks. Cross-hair and read-out under pointer and
//! keys, zooming and panning by asking for a part of the axis, the numbers as a table, and files.

pub(super) mod files;
mod part;
mod read;

use super::pick::{Pick, statistics};
use super::terms::prose;
use crate::stage::watch_width;
use crate::state::{App, CHARTS, LATENCIES};
use crate::views::files::TableBox;
use crate::{control, env, format, text};
use leptos::html;
use leptos::prelude::*;
use part::Part;
use servelab_spec::protocol::{Chart, ChartRequest, Statistic};
use std::sync::Arc;
use wasm_bindgen::JsCast;
use web_sys::{HtmlElement, KeyboardEvent, PointerEvent};

/// Height of every chart, CSS pixels.
const HEIGHT: u32 = 260;

/// Narrowest picture that is asked for, so that labels keep their room; the box scrolls below that.
const NARROWEST: u32 = 280;

/// Time between two pictures of a run in progress, ms.
const GROWS_EVERY_MS: f64 = 250.0;

/// A drag shorter than this share of the plot is a click and not a selection.
const SHORTEST_DRAG: f64 = 0.02;

/// A step of panning, as a share of what is shown: the other half is still there to be recognised.
const HALF: f64 = 0.5;

/// Rows of the numbers' table; the file has all of them.
const MOST_ROWS: usize = 200;

/// Where the reader is in a chart.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    chart: RwSignal<Option<Arc<Chart>>>,
    /// Part of the x axis shown; the whole when absent.
    range: RwSignal<Option<Part>>,
    /// The whole axis, as it was last drawn.
    whole: StoredValue<Option<Part>>,
    /// Cross-hair, share of the plot's width.
    cursor: RwSignal<Option<f64>>,
    /// Start of a drag, share of the plot's width.
    drag: RwSignal<Option<f64>>,
    /// Where the picture was taken hold of to pan it, and how far it is by now; shares of the plot's width.
    held: RwSignal<Option<f64>>,
    slid: RwSignal<f64>,
}

/// The chart at a position of [`CHARTS`].
#[component]
pub(super) fn ChartView(at: usize) -> impl IntoView {
    let app = App::here();
    let id = CHARTS[at];
    let reading = Reading {
        chart: app.charts[at],
        range: RwSignal::new(None),
        cursor: RwSignal::new(None),
        drag: RwSignal::new(None),
        whole: StoredValue::new(None),
        held: RwSignal::new(None),
        slid: RwSignal::new(0.0),
    };
    let figure = NodeRef::<html::Figure>::new();
    ask(app, id, reading, figure);
    let chart = reading.chart;
    let title = Memo::new(move |_| chart.with(|c| c.as_ref().map(|c| c.title.clone()).unwrap_or_default()));
    let summary = Memo::new(move |_| chart.with(|c| c.as_ref().map(|c| c.summary.clone()).unwrap_or_default()));
    let svg = Memo::new(move |_| chart.with(|c| c.as_ref().map(|c| c.svg.clone()).unwrap_or_default()));
    let said = Memo::new(move |_| chart.with(|chart| Some(read::sentence(chart.as_ref()?, reading.cursor.get()?))));
    view! {
        <figure class="chart" node_ref=figure data-testid=format!("chart-{id}") data-keys="">
            <figcaption class="visually-hidden">{move || title.get()}</figcaption>
            <div class="plot" class:plot-held=move || reading.slid.get() != 0.0>
                // The picture brings its own role, name and description.
                <div class="picture" style:transform=move || slide(reading) inner_html=svg></div>
                <Show when=move || svg.with(String::is_empty)>
                    <p class="muted">{text::CHART_LOADING}</p>
                </Show>
                {move || chart.with(|chart| chart.as_ref().map(|chart| view! { <Overlay app=app reading=reading area=chart.area x=chart.x /> }))}
            </div>
            <p class="read-out num" data-testid=format!("read-{id}")>
                {move || said.get().map_or_else(|| prose(&summary.get()), IntoAny::into_any)}
            </p>
            <div class="chart-foot">
                {(id == LATENCIES[0]).then(|| latency_tools(app))}
                <div class="chart-tools" role="group" aria-label=text::ZOOM>
                    <button type="button" class="quiet small" title=text::ZOOM_IN aria-label=text::ZOOM_IN on:click=move |_| zoom(reading, 0.5)>"+"</button>
                    <button type="button" class="quiet small" title=text::ZOOM_OUT aria-label=text::ZOOM_OUT on:click=move |_| zoom(reading, 2.0)>"−"</button>
                    <button type="button" class="quiet small" title=text::PAN_LEFT aria-label=text::PAN_LEFT on:click=move |_| pan(reading, -HALF) disabled=move || reading.range.get().is_none()>"←"</button>
                    <button type="button" class="quiet small" title=text::PAN_RIGHT aria-label=text::PAN_RIGHT on:click=move |_| pan(reading, HALF) disabled=move || reading.range.get().is_none()>"→"</button>
                    <button type="button" class="quiet small" on:click=move |_| reading.range.set(None) disabled=move || reading.range.get().is_none()>{text::ZOOM_RESET}</button>
                </div>
            {behind(chart.into())}
            </div>
        </figure>
    }
}

/// The chart to ask for in the place of the chart `id`.
fn asked_for(app: App, id: &'static str) -> &'static str {
    if id == LATENCIES[0] { LATENCIES[app.look.latency.get_untracked().min(LATENCIES.len() - 1)] } else { id }
}

/// Which latency, and which figure of it.
fn latency_tools(app: App) -> impl IntoView {
    let look = app.look;
    let figure = move || Statistic::ALL.iter().position(|of| *of == look.statistic.get()).unwrap_or(0);
    view! {
        <Pick label=text::LATENCY options=text::LATENCIES.to_vec() chosen=look.latency choose=move |at| look.latency.set(at) testid="latency" />
        <Pick label=text::STATISTIC options=statistics() chosen=Signal::derive(figure) choose=move |at: usize| look.statistic.set(Statistic::ALL[at]) testid="statistic" />
    }
}

/// Asks for the picture whenever what it depends on has changed.
fn ask(app: App, id: &'static str, reading: Reading, figure: NodeRef<html::Figure>) {
    let resized = watch_width(figure);
    // A picture that has come stands where it was drawn for.
    Effect::new(move |_| {
        let x = reading.chart.with(|chart| chart.as_ref().map(|chart| chart.x));
        reading.slid.set(0.0);
        if reading.range.with_untracked(Option::is_none) {
            reading.whole.set_value(x);
        }
    });
    // A new run has new axes.
    Effect::new(move |_| {
        app.run.reported.track();
        reading.range.set(None);
        reading.cursor.set(None);
    });
    Effect::new(move |_| {
        resized.track();
        let (dark, range, reported) = (app.look.dark(), reading.range.get(), app.run.reported.get());
        if id == LATENCIES[0] {
            app.look.latency.track();
            app.look.statistic.track();
        }
        let Some(figure) = figure.get() else { return };
        let width = figure.client_width().unsigned_abs().max(NARROWEST);
        if reported == app.run.number.get_untracked() {
            let (id, statistic) = (asked_for(app, id), app.look.statistic.get_untracked());
            control::draw(app, ChartRequest { id: id.into(), width, height: HEIGHT, dark, range, statistic });
        }
    });
    follow(app, id, reading, figure);
}

/// While a run goes on, one chart grows with it. The next picture is asked for when the last one has come: how often that is at most, is for the eye;
/// the worker sees to it that the run does not suffer.
fn follow(app: App, id: &'static str, reading: Reading, figure: NodeRef<html::Figure>) {
    // The run whose picture is awaited, and when one was last asked for.
    let awaited = StoredValue::new((0u32, 0.0f64));
    Effect::new(move |_| {
        reading.chart.track();
        awaited.update_value(|(run, _)| *run = 0);
    });
    Effect::new(move |_| {
        app.run.progress.track();
        let (true, Some(figure)) = (app.grows(id), figure.get()) else { return };
        let (run, now) = (app.run.number.get_untracked(), env::now_ms());
        let (of, asked) = awaited.get_value();
        if of != run && now - asked >= GROWS_EVERY_MS && reading.range.get_untracked().is_none() {
            awaited.set_value((run, now));
            let width = figure.client_width().unsigned_abs().max(NARROWEST);
            let dark = app.look.dark();
            control::draw(app, ChartRequest { id: id.into(), width, height: HEIGHT, dark, ..ChartRequest::default() });
        }
    });
}

/// What lies over the plot: cross-hair, selection, the stage's position.
#[component]
fn Overlay(app: App, reading: Reading, area: [f64; 4], x: (f64, f64)) -> impl IntoView {
    let [left, top, width, height] = area;
    let timed = reading.chart.with_untracked(|c| c.as_ref().is_some_and(|c| c.id.ends_with("_over_time")));
    let now = move || {
        let share = (app.play.t.get() - x.0) / (x.1 - x.0);
        (timed && (0.0..=1.0).contains(&share)).then_some(share)
    };
    let share_of = move |event: &PointerEvent| {
        let target = event.current_target().and_then(|target| target.dyn_into::<HtmlElement>().ok())?;
        let rect = target.get_bounding_client_rect();
        Some(((f64::from(event.client_x()) - rect.left()) / rect.width().max(1.0)).clamp(0.0, 1.0))
    };
    let selection = move || {
        let (from, to) = (reading.drag.get()?, reading.cursor.get()?);
        Some((from.min(to), (from - to).abs()))
    };
    let begin = move |event: PointerEvent| {
        // With shift the picture is panned; what is whole has nowhere to go.
        let pans = event.shift_key() && reading.range.with_untracked(Option::is_some);
        if pans { &reading.held } else { &reading.drag }.set(share_of(&event));
    };
    let point = move |event: PointerEvent| match reading.held.get_untracked() {
        Some(from) => reading.slid.set(share_of(&event).unwrap_or(from) - from),
        None => reading.cursor.set(share_of(&event)),
    };
    let finish = move |event: PointerEvent| {
        if let_go(reading) {
            return;
        }
        let (Some(from), Some(to)) = (reading.drag.get_untracked(), share_of(&event)) else { return };
        reading.drag.set(None);
        if (from - to).abs() >= SHORTEST_DRAG {
            let at = |share: f64| x.0 + share * (x.1 - x.0);
            reading.range.set(Some((at(from.min(to)), at(from.max(to)))));
        } else if timed {
            crate::playback::seek(app, x.0 + to * (x.1 - x.0));
        }
    };
    let percent = |share: f64| format!("{:.3}%", share * 100.0);
    view! {
        <div
            class="plot-over"
            tabindex="0"
            role="slider"
            aria-label=text::READ_CHART
            aria-valuemin="0"
            aria-valuemax="100"
            aria-valuenow=move || ((reading.cursor.get().unwrap_or(0.0) * 100.0).round()).to_string()
            aria-valuetext=move || {
                reading.chart.with(|chart| Some(read::sentence(chart.as_ref()?, reading.cursor.get()?))).unwrap_or_default()
            }
            style:left=format!("{left}px")
            style:top=format!("{top}px")
            style:width=format!("{width}px")
            style:height=format!("{height}px")
            on:pointermove=point
            on:pointerleave=move |_| { reading.cursor.set(None); reading.drag.set(None); let_go(reading); }
            on:pointerdown=begin
            on:pointerup=finish
            on:keydown=move |event| keys(&event, reading)
        >
            // Moved, not placed: what moves is not laid out and not painted anew, sixty times a second in every chart.
            <Show when=move || now().is_some()>
                <span class="plot-now" style:transform=move || format!("translateX({})", percent(now().unwrap_or(0.0)))></span>
            </Show>
            {move || selection().map(|(from, width)| view! { <span class="plot-selection" style:left=percent(from) style:width=percent(width)></span> })}
            {move || reading.cursor.get().map(|share| view! { <span class="plot-cursor" style:left=percent(share)></span> })}
        </div>
    }
}

fn keys(event: &KeyboardEvent, reading: Reading) {
    let cursor = reading.cursor.get_untracked().unwrap_or(0.5);
    let step = if event.shift_key() { 0.1 } else { 0.01 };
    match event.key().as_str() {
        "ArrowRight" => reading.cursor.set(Some((cursor + step).min(1.0))),
        "ArrowLeft" => reading.cursor.set(Some((cursor - step).max(0.0))),
        "Home" => reading.cursor.set(Some(0.0)),
        "End" => reading.cursor.set(Some(1.0)),
        "+" | "=" => zoom(reading, 0.5),
        "-" => zoom(reading, 2.0),
        "[" => pan(reading, -HALF),
        "]" => pan(reading, HALF),
        "0" => reading.range.set(None),
        _ => return,
    }
    event.prevent_default();
}

/// Shows `factor` times as much of the axis, around the cross-hair or the middle.
fn zoom(reading: Reading, factor: f64) {
    let Some(x) = reading.chart.with_untracked(|chart| chart.as_ref().map(|chart| chart.x)) else { return };
    let share = reading.cursor.get_untracked().unwrap_or(0.5);
    // Zooming out of the whole is the whole; the worker clamps what lies outside of the data.
    if factor > 1.0 && reading.range.get_untracked().is_none() {
        return;
    }
    reading.range.set(Some(part::zoomed(x, factor, share)));
}

/// Pans by a share of what is shown; later is to the right.
fn pan(reading: Reading, share: f64) {
    let (Some(shown), Some(whole)) = (reading.range.get_untracked(), reading.whole.get_value()) else { return };
    let moved = part::panned(shown, whole, share);
    if moved == shown {
        // Nothing new will come that would put the picture back.
        reading.slid.set(0.0);
    } else {
        reading.range.set(Some(moved));
    }
}

/// The hand that held the picture is gone; false when none did.
fn let_go(reading: Reading) -> bool {
    let held = reading.held.get_untracked().is_some();
    if held {
        reading.held.set(None);
        pan(reading, -reading.slid.get_untracked());
    }
    held
}

/// How far the picture is panned by hand, until the one for that place has come.
fn slide(reading: Reading) -> String {
    let (slid, width) =
        (reading.slid.get(), reading.chart.with(|chart| chart.as_ref().map_or(0.0, |chart| chart.area[2])));
    if slid == 0.0 { String::new() } else { format!("translateX({:.1}px)", slid * width) }
}

/// What lies behind a picture: its files, and its numbers as a table.
pub(super) fn behind(chart: Signal<Option<Arc<Chart>>>) -> AnyView {
    view! {
        <details class="chart-more">
            <summary>{text::CHART_MORE}</summary>
            {move || chart.get().map(|chart| files::buttons(&chart))}
            {move || chart.get().map(|chart| table(&chart))}
        </details>
    }
    .into_any()
}

/// The numbers behind the picture.
fn table(chart: &Chart) -> impl IntoView + use<> {
    let total: usize = chart.series.iter().map(|series| series.x.len()).sum();
    let rows = chart
        .series
        .iter()
        .flat_map(|series| series.x.iter().zip(&series.y).map(|(x, y)| (series.label.clone(), *x, *y)))
        .take(MOST_ROWS)
        .map(|(label, x, y)| {
            view! { <tr><th scope="row">{label}</th><td class="num">{format::number(x)}</td><td class="num">{format::number(y)}</td></tr> }
        })
        .collect_view();
    let (x_label, y_label) = (chart.x_label.clone(), chart.y_label.clone());
    view! {
        <TableBox label=text::CHART_NUMBERS name="chart-numbers" class="chart-table">
            <table class="table">
                <thead><tr><th scope="col">{text::SERIES}</th><th scope="col">{x_label}</th><th scope="col">{y_label}</th></tr></thead>
                <tbody>{rows}</tbody>
            </table>
        </TableBox>
        {(total > MOST_ROWS).then(|| view! { <p class="muted">{text::first_rows(MOST_ROWS, total)}</p> })}
    }
}
