//! A replica as a card: state, clock, queue lane, running lane, KV grid, step ticker.

use super::canvas::watch_width;
use super::grid::Grid;
use super::lane::{Lane, Scale, request_at};
use super::{away, has_blocks, replica_of, state_words, ticker};
use crate::control;
use crate::playback::TRAVEL_S;
use crate::state::App;
use crate::text;
use leptos::html;
use leptos::prelude::*;
use servelab_spec::frame::{Frame, ReplicaFrame, ReplicaState};
use std::sync::Arc;
use wasm_bindgen::JsCast;
use web_sys::{HtmlElement, MouseEvent};

/// Share of a run that the ticker looks back on.
const TICKER_SHARE: f64 = 1.0 / 12.0;

/// Virtual seconds per wall second above which marks of evictions last no longer.
const FASTEST_MARKED: f64 = 4.0;

/// A replica's card.
#[component]
pub(super) fn Card(app: App, frame: RwSignal<Option<Arc<Frame>>>, replica: u32) -> impl IntoView {
    let queue = NodeRef::<html::Div>::new();
    let running = NodeRef::<html::Div>::new();
    let grid = NodeRef::<html::Canvas>::new();
    let steps = NodeRef::<html::Canvas>::new();
    let grid_drawn = StoredValue::new_local(Grid::default());
    draw_lanes(app, frame, replica, queue, running);
    draw_grid(app, frame, replica, grid, grid_drawn);
    draw_ticker(app, frame, replica, steps);

    let say = move |of: fn(&ReplicaFrame) -> String| {
        Memo::new(move |_| frame.with(|frame| replica_of(frame, replica).map(of).unwrap_or_default()))
    };
    let state = Memo::new(move |_| frame.with(|f| replica_of(f, replica).map_or(ReplicaState::Ready, |r| r.state)));
    let step = say(|r| r.step.as_ref().map(text::step_label).unwrap_or_else(|| text::NO_STEP.into()));
    let kv = say(text::kv_label);
    let reuse = say(text::reuse_label);
    let queued = say(|r| text::queue_label(r.waiting_total));
    let batch = say(|r| text::running_label(r.running_total));
    let score = Memo::new(move |_| frame.with(|frame| latest_score(frame, replica)));
    let open = move |event: MouseEvent| {
        if let (Some(request), Some(policy)) =
            (request_at(&event), frame.with_untracked(|f| f.as_ref().map(|f| f.policy)))
        {
            control::tell(app, policy, request);
        }
    };
    let point = move |event: MouseEvent| {
        let Some(canvas) = event.target().and_then(|target| target.dyn_into::<HtmlElement>().ok()) else { return };
        let at = (f64::from(event.offset_x()), f64::from(event.offset_y()));
        let words = grid_drawn.with_value(|grid| grid.describe_at(f64::from(canvas.client_width()), at.0, at.1));
        canvas.set_title(&words.unwrap_or_default());
    };
    let grid_label = Memo::new(move |_| {
        // Reading blocks aloud at sixty pictures a second helps nobody; the sentence follows the counts.
        kv.get()
    });
    view! {
        <article
            class="card"
            class:card-away=move || away(state.get())
            class:card-draining=move || state.get() == ReplicaState::Draining
            data-testid=format!("replica-{replica}") data-replica=replica.to_string() aria-label=text::replica_name(replica)
        >
            <header class="card-head">
                <span class=move || state_words(state.get()).0 aria-hidden="true"></span>
                <h3 class="card-name">{text::replica_name(replica)}</h3>
                <span class="muted">{move || state_words(state.get()).1}</span>
                <Show when=move || app.look.scores.get() && score.get().is_some()>
                    <span
                        class="score"
                        class:score-chosen=move || score.get().is_some_and(|(_, chosen)| chosen)
                    >
                        {move || score.get().map(|(value, _)| text::score_label(value))}
                    </span>
                </Show>
                <canvas class="ticker" node_ref=steps aria-hidden="true"></canvas>
                <span class="card-step num">{step}</span>
            </header>
            <div class="card-body">
                <div class="lanes" on:click=open>
                    <div class="lane lane-queue">
                        <span class="lane-name">{queued}</span>
                        <div class="pills" node_ref=queue></div>
                    </div>
                    <div class="lane lane-running">
                        <span class="lane-name">{batch}</span>
                        <div class="pills" node_ref=running></div>
                    </div>
                </div>
                <div class="kv" class:kv-none=move || app.run.spec.with(|spec| spec.as_ref().is_some_and(|spec| !has_blocks(spec)))>
                    <canvas class="grid" node_ref=grid role="img" aria-label=grid_label on:pointermove=move |event| point(event.into())></canvas>
                    <p class="kv-text num"><span>{kv}</span><span>{reuse}</span></p>
                </div>
            </div>
        </article>
    }
}

/// What the latest decision compared for this replica, and whether it was chosen.
fn latest_score(frame: &Option<Arc<Frame>>, replica: u32) -> Option<(f64, bool)> {
    let decision = frame.as_ref()?.decisions.last()?;
    Some(((*decision.scores.get(replica as usize)?)?, decision.replica == replica))
}

fn draw_lanes(
    app: App,
    frame: RwSignal<Option<Arc<Frame>>>,
    replica: u32,
    queue: NodeRef<html::Div>,
    running: NodeRef<html::Div>,
) {
    let lanes = StoredValue::new_local(None::<(Lane, Lane)>);
    let scale = Memo::new(move |_| scale_of(app));
    Effect::new(move |_| {
        let (Some(queue), Some(running)) = (queue.get(), running.get()) else { return };
        let scale = scale.get();
        frame.with(|frame| {
            lanes.update_value(|lanes| {
                if lanes.is_none() {
                    *lanes = Lane::new(queue.into(), false).zip(Lane::new(running.into(), true));
                }
                let Some((queue, running)) = lanes else { return };
                let Some(replica) = replica_of(frame, replica) else { return };
                let listed = replica.waiting.len().min(MOST_WAITING);
                let hidden = replica.waiting_total.saturating_sub(listed as u32);
                queue.draw(&replica.waiting[..listed], hidden, scale);
                let batch = replica.running.len().min(MOST_RUNNING);
                running.draw(&replica.running[..batch], replica.running_total.saturating_sub(batch as u32), scale);
            });
        });
    });
}

/// More pills than this are only counted: they would push everything else out of the card.
const MOST_WAITING: usize = 8;
const MOST_RUNNING: usize = 24;

/// The scale at which the longest possible request of the run fits.
fn scale_of(app: App) -> Scale {
    app.run.spec.with(|spec| {
        // Before anything runs there are no pills, whatever their scale.
        let workload = spec.as_ref().map(|spec| spec.workload.clone()).unwrap_or_default();
        let tokens = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        Scale::fitting(tokens(workload.longest_prompt()), tokens(workload.longest_output()))
    })
}

fn draw_grid(
    app: App,
    frame: RwSignal<Option<Arc<Frame>>>,
    replica: u32,
    canvas: NodeRef<html::Canvas>,
    drawn: StoredValue<Grid, LocalStorage>,
) {
    let width = watch_width(canvas);
    Effect::new(move |_| {
        let width = width.get();
        let scheme = app.look.scheme();
        let Some(canvas) = canvas.get() else { return };
        // At speeds at which a cache turns over between two pictures, everything would be marked.
        let fade = app.play.speed.get_untracked().min(FASTEST_MARKED) * TRAVEL_S;
        frame.with(|frame| {
            if let (Some(shown), Some(replica)) = (frame.as_ref(), replica_of(frame, replica)) {
                drawn.update_value(|grid| grid.draw(&canvas, width, &replica.blocks, shown.t_s, fade, scheme));
            }
        });
    });
}

fn draw_ticker(app: App, frame: RwSignal<Option<Arc<Frame>>>, replica: u32, canvas: NodeRef<html::Canvas>) {
    let width = watch_width(canvas);
    Effect::new(move |_| {
        let width = width.get();
        let scheme = app.look.scheme();
        let Some(canvas) = canvas.get() else { return };
        let window = app.play.end_untracked() * TICKER_SHARE;
        frame.with(|frame| {
            if let (Some(shown), Some(replica)) = (frame.as_ref(), replica_of(frame, replica)) {
                ticker::draw(&canvas, width, replica, shown.t_s, window, scheme);
            }
        });
    });
}
