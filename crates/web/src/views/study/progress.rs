//! How a batch stands: nothing yet, running, done, cancelled, failed, stale. One button runs and cancels.

use crate::format::duration;
use crate::state::Phase;
use crate::study::{Batch, Work};
use crate::{env, text};
use leptos::prelude::*;
use servelab_spec::validate::SpecError;

/// Wall time before which what is left is anybody's guess, s.
const GUESSED_AFTER_S: f64 = 2.0;

/// The button, and what can be said about the batch. `name` tells the two batches apart.
#[component]
pub(super) fn Progress(
    batch: Batch,
    name: &'static str,
    #[prop(into)] now: Signal<Result<(Work, u32), SpecError>>,
    #[prop(into)] stale: Signal<bool>,
) -> impl IntoView {
    let busy = Memo::new(move |_| batch.phase.get().busy());
    let fault = Memo::new(move |_| now.with(|now| now.as_ref().err().map(|error| text::sentence(&error.to_string()))));
    let press = move |_| {
        if busy.get_untracked() {
            batch.cancel();
        } else if let Ok((work, items)) = now.get_untracked() {
            batch.start(work, items);
        }
    };
    let word = move || match batch.phase.get() {
        Phase::Idle => String::new(),
        Phase::Loading => text::STUDY_LOADING.to_owned(),
        Phase::Running => text::RUNNING.to_owned(),
        Phase::Done => text::DONE.to_owned(),
        Phase::Partial => text::STUDY_PARTIAL.to_owned(),
        Phase::Cancelled => text::CANCELLED_SHORT.to_owned(),
        Phase::Failed => text::FAILED.to_owned(),
    };
    let detail = move || {
        let (done, total, share) = (batch.done.get(), batch.total.get(), batch.share.get());
        match batch.phase.get() {
            Phase::Loading | Phase::Running => {
                let elapsed = (env::now_ms() - batch.started_ms.get_untracked()) / 1e3;
                let left =
                    (elapsed > GUESSED_AFTER_S && share > 0.02).then(|| duration(elapsed * (1.0 - share) / share));
                text::study_progress(done, total, batch.workers.get(), left)
            }
            Phase::Partial | Phase::Failed => text::study_done(done, total),
            Phase::Done => text::study_done_all(total),
            Phase::Idle | Phase::Cancelled => String::new(),
        }
    };
    view! {
        <div class="study-run">
            <button
                type="button"
                class="main-button"
                data-testid=move || format!("{name}-{}", if busy.get() { "cancel" } else { "run" })
                disabled=move || !busy.get() && fault.get().is_some()
                on:click=press
            >
                {move || match (busy.get(), batch.asked.with(Option::is_some)) {
                    (true, _) => text::CANCEL,
                    (false, true) => text::RUN,
                    (false, false) => text::RUN_FIRST,
                }}
            </button>
            <p class="run-words">
                <span role="status" data-testid=format!("{name}-status")>{word}</span>
                <span class="muted num" data-testid=format!("{name}-progress")>{detail}</span>
            </p>
            <Show when=move || busy.get()>
                <progress max="1" prop:value=move || batch.share.get() aria-label=text::STUDY_SHARE></progress>
            </Show>
        </div>
        {move || fault.get().filter(|_| !busy.get()).map(|fault| view! {
            <p class="param-error" role="alert" data-testid=format!("{name}-fault")>{fault}</p>
        })}
        {move || batch.failure.get().map(|failure| view! {
            <div class="notice notice-bad" role="alert" data-testid=format!("{name}-error")>
                <p><strong>{text::STUDY_FAILED}</strong> " " {text::sentence(&failure)} " " {text::STUDY_TRY}</p>
            </div>
        })}
        <Show when=move || stale.get() && !busy.get() && batch.outcome.with(Option::is_some)>
            <p class="stale" role="status" data-testid=format!("{name}-stale")>{text::STUDY_STALE}</p>
        </Show>
    }
}
