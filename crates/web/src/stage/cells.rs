//! Many replicas as cells of a heat map, with the encodings of the cards: KV use as a bar, waiting and running as
//! counts. Choosing one shows it as a card.
//!
//! One canvas shows all of them, and of those only what has changed is drawn; the buttons over it are there to be pressed, focused and read out. Hundreds of
//! buttons whose texts change with every picture would be laid out and painted with every picture.

use super::canvas::{surface_kept, watch_width};
use super::digits::Digits;
use super::{away, replica_of, state_words};
use crate::palette::Scheme;
use crate::state::App;
use crate::{env, text};
use leptos::html;
use leptos::prelude::*;
use servelab_spec::frame::{Frame, ReplicaFrame, ReplicaState};
use std::sync::Arc;
use wasm_bindgen::JsCast;
use web_sys::{CanvasRenderingContext2d, HtmlCanvasElement, HtmlDivElement, HtmlElement};

/// Wall time between two texts for screen readers while the fleet plays, ms.
const TOLD_EVERY_MS: f64 = 500.0;

/// How full the bar's colour is behind the numbers, and how faint a replica that is not there.
const BAR: f64 = 0.3;
const AWAY: f64 = 0.4;

/// Corners of a cell and space beside its numbers, CSS pixels.
const CORNER: f64 = 6.0;
const INSET: f64 = 5.0;

/// All replicas as cells.
#[component]
pub(super) fn Cells(app: App, frame: RwSignal<Option<Arc<Frame>>>, count: u32) -> impl IntoView {
    let host = NodeRef::<html::Div>::new();
    let canvas = NodeRef::<html::Canvas>::new();
    draw(app, frame, host, canvas);
    let told = told(app, frame);
    let chosen = app.play.replica;
    view! {
        <div class="cells" role="group" aria-label=text::CELLS_LABEL node_ref=host>
            <canvas class="cells-picture" node_ref=canvas aria-hidden="true"></canvas>
            {(0..count)
                .map(move |replica| {
                    let shown = Memo::new(move |_| told.with(|frame| Shown::of(replica_of(frame, replica))));
                    view! {
                        <button
                            type="button"
                            class="cell"
                            class:cell-focus=move || chosen.get() == replica
                            aria-pressed=move || (chosen.get() == replica).to_string()
                            aria-label=move || shown.get().words(replica)
                            data-replica=replica.to_string()
                            on:click=move |_| chosen.set(replica)
                        ></button>
                    }
                })
                .collect_view()}
        </div>
    }
}

/// What a cell shows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shown {
    state: ReplicaState,
    waiting: u32,
    running: u32,
    /// Whole per cent: finer steps would redraw cells without showing more.
    usage: u32,
}

impl Shown {
    fn of(replica: Option<&ReplicaFrame>) -> Shown {
        replica.map_or(Shown { state: ReplicaState::Ready, waiting: 0, running: 0, usage: 0 }, |r| Shown {
            state: r.state,
            waiting: r.waiting_total,
            running: r.running_total,
            usage: (r.kv_usage * 100.0).round() as u32,
        })
    }

    fn words(&self, replica: u32) -> String {
        text::cell_label(replica, state_words(self.state).1, self.waiting, self.running, self.usage)
    }

    fn numbers(&self) -> String {
        if self.waiting > 0 { format!("{}+{}", self.running, self.waiting) } else { self.running.to_string() }
    }
}

/// The picture for those who are told of it: the latest when it stands still, one now and then while it moves.
fn told(app: App, frame: RwSignal<Option<Arc<Frame>>>) -> RwSignal<Option<Arc<Frame>>> {
    let told = RwSignal::new(None);
    let at_ms = StoredValue::new(f64::NEG_INFINITY);
    Effect::new(move |_| {
        let moves = app.play.playing.get() || app.run.phase.get().busy();
        let latest = frame.get();
        let now = env::now_ms();
        if !moves || now - at_ms.get_value() >= TOLD_EVERY_MS {
            at_ms.set_value(now);
            told.set(latest);
        }
    });
    told
}

/// The canvas and what is on it.
#[derive(Default)]
struct Picture {
    /// Left, top, width and height of each cell, as of `width`.
    places: Vec<[f64; 4]>,
    width: f64,
    /// Its size, CSS pixels, and family.
    font: (f64, String),
    /// Names in the quiet colour, counts in the strong one.
    digits: Option<(Digits, Digits)>,
    drawn: Vec<Shown>,
    scheme: Option<&'static Scheme>,
}

fn draw(app: App, frame: RwSignal<Option<Arc<Frame>>>, host: NodeRef<html::Div>, canvas: NodeRef<html::Canvas>) {
    let width = watch_width(host);
    let picture = StoredValue::new_local(Picture::default());
    Effect::new(move |_| {
        let (width, scheme) = (width.get(), app.look.scheme());
        let (Some(host), Some(canvas)) = (host.get(), canvas.get()) else { return };
        picture.update_value(|picture| {
            if picture.width != width {
                picture.measure(&host, width);
            }
            frame.with(|frame| picture.draw(&canvas, frame, scheme));
        });
    });
}

impl Picture {
    fn measure(&mut self, host: &HtmlDivElement, width: f64) {
        self.width = width;
        self.places.clear();
        self.drawn.clear();
        let Ok(cells) = host.query_selector_all(".cell") else { return };
        for cell in (0..cells.length()).filter_map(|at| cells.item(at)?.dyn_into::<HtmlElement>().ok()) {
            let place = [cell.offset_left(), cell.offset_top(), cell.offset_width(), cell.offset_height()];
            self.places.push(place.map(f64::from));
        }
        let style = env::window().and_then(|window| window.get_computed_style(host).ok().flatten());
        let of = |name: &str| style.as_ref().and_then(|style| style.get_property_value(name).ok()).unwrap_or_default();
        let size = of("font-size").trim_end_matches("px").parse().unwrap_or(12.0);
        self.font = (size, of("font-family"));
    }

    fn draw(&mut self, canvas: &HtmlCanvasElement, frame: &Option<Arc<Frame>>, scheme: &'static Scheme) {
        let height = self.places.iter().map(|[_, top, _, height]| top + height).fold(0.0, f64::max);
        let Some((area, resized)) = surface_kept(canvas, self.width, height) else { return };
        if resized || self.scheme.replace(scheme) != Some(scheme) || self.drawn.is_empty() {
            self.drawn.clear();
            self.digits = {
                let (size, family) = &self.font;
                let digits = |colour| Digits::new(canvas, *size, family, colour);
                digits(scheme.cost).zip(digits(scheme.ink))
            };
        }
        let Some((names, counts)) = &self.digits else { return };
        for (replica, place) in self.places.iter().enumerate() {
            let shown = Shown::of(replica_of(frame, replica as u32));
            match self.drawn.get_mut(replica) {
                Some(drawn) if *drawn == shown => continue,
                Some(drawn) => *drawn = shown,
                None => self.drawn.push(shown),
            }
            draw_cell(&area.context, *place, &shown, scheme);
            let [left, top, width, height] = *place;
            let (left, room) = (left + INSET, width - 2.0 * INSET);
            area.context.set_global_alpha(if away(shown.state) { AWAY } else { 1.0 });
            names.draw(&area.context, &(replica + 1).to_string(), left, top + height * 0.28, room);
            counts.draw(&area.context, &shown.numbers(), left, top + height * 0.74, room);
            area.context.set_global_alpha(1.0);
        }
    }
}

fn draw_cell(context: &CanvasRenderingContext2d, [left, top, width, height]: [f64; 4], shown: &Shown, scheme: &Scheme) {
    let away = away(shown.state);
    let outline = |inset: f64| {
        context.begin_path();
        let (w, h) = (width - 2.0 * inset, height - 2.0 * inset);
        // A browser that knows no round corners gets square ones.
        if context.round_rect_with_f64(left + inset, top + inset, w, h, CORNER - inset).is_err() {
            context.rect(left + inset, top + inset, w, h);
        }
    };
    context.clear_rect(left, top, width, height);
    context.save();
    outline(0.5);
    context.set_global_alpha(if away { AWAY } else { 1.0 });
    if !away {
        context.set_fill_style_str(scheme.surface);
        context.fill();
    }
    context.clip();
    let bar = height * f64::from(shown.usage.min(100)) / 100.0;
    context.set_fill_style_str(scheme.ready);
    context.set_global_alpha(if away { BAR * AWAY } else { BAR });
    context.fill_rect(left, top + height - bar, width, bar);
    context.restore();

    context.save();
    if away {
        let _ = context.set_line_dash(&js_sys::Array::of2(&3.0.into(), &3.0.into()));
    }
    outline(0.5);
    context.set_stroke_style_str(if shown.waiting > 0 { scheme.waiting } else { scheme.rule });
    context.stroke();
    context.restore();
}
