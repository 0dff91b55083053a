//! The fleet at one instant: arrivals, gateway and router on the left, a card for every replica on the right.
//!
//! Everything here is a function of the frame and of virtual time, travelling pills and marks of evictions included,
//! so that scrubbing back shows exactly what playing showed.

mod canvas;
mod card;
mod cells;
mod digits;
mod flow;
mod grid;
mod lane;
mod movers;
mod ticker;

pub(crate) use canvas::watch_width;

use crate::state::App;
use crate::text;
use card::Card;
use leptos::html;
use leptos::prelude::*;
use servelab_spec::Spec;
use servelab_spec::experiment::ExecutionMode;
use servelab_spec::frame::{Frame, ReplicaFrame, ReplicaState};
use std::sync::Arc;

/// More replicas than this become cells of a heat map, one of them in focus as a card.
const MOST_CARDS: u32 = 12;

/// Virtual seconds between two texts for screen readers; the text is not a live region, it is there to be read.
const TEXT_EVERY_S: f64 = 0.25;

/// The fleet under one policy. `alone` when no other stage is shown beside it.
#[component]
pub(crate) fn Stage(policy: u32, alone: bool) -> impl IntoView {
    let app = App::here();
    let frame = app.play.frame(policy);
    let replicas = Memo::new(move |_| app.run.spec.with(|spec| spec.as_ref().map_or(4, |spec| spec.replicas_ever())));
    let root = NodeRef::<html::Div>::new();
    let described = Memo::new(move |before: Option<&(f64, String)>| {
        frame.with(|frame| match (frame, before) {
            (Some(frame), Some((at, words))) if (frame.t_s - at).abs() < TEXT_EVERY_S && !words.is_empty() => {
                (*at, words.clone())
            }
            (Some(frame), _) => (frame.t_s, text::describe_frame(frame, &app.policy_label(policy))),
            (None, _) => (0.0, String::new()),
        })
    });
    movers::attach(app, frame, root);
    view! {
        <div
            class="stage"
            class:stage-beside=!alone
            node_ref=root
            role="group"
            aria-label=move || text::stage_label(&app.policy_label(policy))
            data-testid=if alone { "stage".to_owned() } else { format!("stage-{policy}") }
        >
            <p class="visually-hidden">{move || described.get().1}</p>
            <flow::Flow policy=policy frame=frame />
            <div class="fleet">
                {move || {
                    let count = replicas.get();
                    if count <= MOST_CARDS {
                        (0..count).map(|replica| view! { <Card app=app frame=frame replica=replica /> }).collect_view().into_any()
                    } else {
                        view! {
                            <cells::Cells app=app frame=frame count=count />
                            <For each=move || [app.play.replica.get().min(count - 1)] key=|replica| *replica let(replica)>
                                <Card app=app frame=frame replica=replica />
                            </For>
                        }
                            .into_any()
                    }
                }}
            </div>
        </div>
    }
}

/// The replica of which pictures tell everything, where only counts of the others are shown.
pub(crate) fn only(app: App) -> Option<u32> {
    let count = app.run.spec.with_untracked(|spec| spec.as_ref().map_or(0, |spec| spec.replicas_ever()));
    (count > MOST_CARDS).then(|| app.play.replica.get_untracked().min(count - 1))
}

/// Its replicas keep something from one request for the next. Queueing stations do not: where they serve, blocks and reuse say nothing.
pub(crate) fn has_blocks(spec: &Spec) -> bool {
    spec.execution.mode != ExecutionMode::Server
}

/// One replica of a frame.
fn replica_of(frame: &Option<Arc<Frame>>, replica: u32) -> Option<&ReplicaFrame> {
    frame.as_ref()?.replicas.get(replica as usize)
}

/// It is not there: not yet, or no more.
fn away(state: ReplicaState) -> bool {
    matches!(state, ReplicaState::Planned | ReplicaState::Gone)
}

/// Class of the dot and the word beside it.
fn state_words(state: ReplicaState) -> (&'static str, &'static str) {
    match state {
        ReplicaState::Planned => ("dot dot-planned", text::STATE_PLANNED),
        ReplicaState::Starting => ("dot dot-starting", text::STATE_STARTING),
        ReplicaState::Ready => ("dot dot-ready", text::STATE_READY),
        ReplicaState::NotReady => ("dot dot-not-ready", text::STATE_NOT_READY),
        ReplicaState::Standby => ("dot dot-standby", text::STATE_STANDBY),
        ReplicaState::Draining => ("dot dot-draining", text::STATE_DRAINING),
        ReplicaState::Gone => ("dot dot-gone", text::STATE_GONE),
    }
}
