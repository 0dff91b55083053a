//! Many replicas as cells of a heat map, with the encodings of the cards: KV use as a bar, waiting and running as
//! counts. Choosing one shows it as a card.

use super::{away, replica_of, state_words};
use crate::state::App;
use crate::text;
use leptos::prelude::*;
use servelab_spec::frame::{Frame, ReplicaState};
use std::sync::Arc;

/// All replicas as cells.
#[component]
pub(super) fn Cells(
    app: App,
    frame: RwSignal<Option<Arc<Frame>>>,
    count: u32,
    focused: RwSignal<u32>,
) -> impl IntoView {
    let _ = app;
    view! {
        <div class="cells" role="group" aria-label=text::CELLS_LABEL>
            {(0..count)
                .map(move |replica| {
                    let numbers = Memo::new(move |_| {
                        frame.with(|frame| {
                            replica_of(frame, replica)
                                .map(|r| {
                                    // Whole per cent: finer steps would redraw cells without showing more.
                                    let usage = (r.kv_usage * 100.0).round() as u32;
                                    (r.state, r.waiting_total, r.running.len() as u32, usage)
                                })
                                .unwrap_or((ReplicaState::Ready, 0, 0, 0))
                        })
                    });
                    view! {
                        <button
                            type="button"
                            class="cell"
                            class:cell-focus=move || focused.get() == replica
                            class:cell-away=move || away(numbers.get().0)
                            class:cell-waiting=move || { numbers.get().1 > 0 }
                            aria-pressed=move || (focused.get() == replica).to_string()
                            aria-label=move || {
                                let (state, waiting, running, usage) = numbers.get();
                                text::cell_label(replica, state_words(state).1, waiting, running, usage)
                            }
                            data-replica=replica.to_string()
                            on:click=move |_| focused.set(replica)
                        >
                            <span class="cell-bar" style:height=move || format!("{}%", numbers.get().3)></span>
                            <span class="cell-name num">{replica + 1}</span>
                            <span class="cell-count num">
                                {move || {
                                    let (_, waiting, running, _) = numbers.get();
                                    if waiting > 0 { format!("{running}+{waiting}") } else { running.to_string() }
                                }}
                            </span>
                        </button>
                    }
                })
                .collect_view()}
        </div>
    }
}
