//! Which policy is on the stage, or all of them side by side on the same arrivals.

use crate::env;
use crate::stage::Stage;
use crate::state::{App, Phase};
use crate::text;
use leptos::html;
use leptos::prelude::*;

/// The row of policies and the stage under it.
#[component]
pub(super) fn Stages() -> impl IntoView {
    let app = App::here();
    let play = app.play;
    let count =
        Memo::new(move |_| app.run.spec.with(|spec| spec.as_ref().map_or(0, |spec| spec.contenders().len() as u32)));
    let replicas = Memo::new(move |_| app.run.spec.with(|spec| spec.as_ref().map_or(0, |spec| spec.replicas_ever())));
    // A run may change the number of replicas; its stages are then built anew.
    let shown = Memo::new(move |_| {
        let (count, replicas) = (count.get(), replicas.get());
        if count == 0 {
            Vec::new()
        } else if play.side_by_side.get() {
            (0..count).map(|policy| (replicas, policy, false)).collect()
        } else {
            vec![(replicas, play.focus.get().min(count - 1), true)]
        }
    });
    let choose = move |policy: u32| {
        play.follow.set(false);
        play.side_by_side.set(false);
        play.focus.set(policy);
    };
    let stages = NodeRef::<html::Div>::new();
    stages.on_load(move |element| env::watch_sight(&element, move |seen| play.in_sight.set(seen)));
    view! {
        <div class="focus-row" role="group" aria-label=text::FOCUS_LABEL>
            {move || {
                (0..count.get())
                    .map(|policy| {
                        let on = move || !play.side_by_side.get() && play.focus.get() == policy;
                        view! {
                            <button
                                type="button"
                                class="tab"
                                class:tab-on=on
                                aria-pressed=move || on().to_string()
                                data-testid=format!("focus-{policy}")
                                on:click=move |_| choose(policy)
                            >
                                {move || app.policy_label(policy)}
                            </button>
                        }
                    })
                    .collect_view()
            }}
            <Show when=move || { count.get() > 1 }>
                <button
                    type="button"
                    class="tab"
                    class:tab-on=move || play.side_by_side.get()
                    aria-pressed=move || play.side_by_side.get().to_string()
                    data-testid="side-by-side"
                    on:click=move |_| play.side_by_side.update(|on| *on = !*on)
                >
                    {text::SIDE_BY_SIDE}
                </button>
            </Show>
        </div>
        <div class="stages" node_ref=stages>
            <Show when=move || count.get() == 0>
                <Empty />
            </Show>
            // Keyed: a stage keeps nodes of its own that must not outlive it.
            <For each=move || shown.get() key=|stage| *stage let((_, policy, alone))>
                <div class="beside">
                    <Show when=move || !alone>
                        <h2 class="beside-name">{move || app.policy_label(policy)}</h2>
                    </Show>
                    <Stage policy=policy alone=alone />
                </div>
            </For>
        </div>
    }
}

/// The stage before there is anything on it.
#[component]
fn Empty() -> impl IntoView {
    let app = App::here();
    view! {
        <div class="stage stage-empty" data-testid="stage">
            <p class="muted">
                {move || match app.run.phase.get() {
                    Phase::Failed => text::STAGE_FAILED,
                    Phase::Idle => text::STAGE_PREDICT,
                    _ => text::STAGE_LOADING,
                }}
            </p>
        </div>
    }
}
