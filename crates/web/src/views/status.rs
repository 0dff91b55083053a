//! How the run stands: loading, running, done, cancelled, failed, stale. And sentences the page has to say.

use crate::format::{bytes, clock, duration};
use crate::state::{App, Phase};
use crate::{control, env, text};
use leptos::prelude::*;

/// Notices shown; an address can have hundreds of faults.
const MOST_NOTICES: usize = 5;

/// One word on how the run stands, and how far it is.
#[component]
pub(super) fn RunStatus() -> impl IntoView {
    let app = App::here();
    let word = move || match app.run.phase.get() {
        Phase::Idle => text::IDLE,
        Phase::Loading => text::LOADING,
        Phase::Running => text::RUNNING,
        Phase::Done => text::DONE,
        Phase::Partial | Phase::Cancelled => text::STOPPED,
        Phase::Failed => text::FAILED,
    };
    let dot = move || match app.run.phase.get() {
        Phase::Failed => "dot dot-gone",
        phase if phase.busy() => "dot dot-starting",
        Phase::Idle => "dot",
        Phase::Partial | Phase::Cancelled => "dot dot-draining",
        _ => "dot dot-ready",
    };
    let detail = move || {
        let progress = app.run.progress.get();
        match app.run.phase.get() {
            Phase::Loading => match progress.received {
                Some(received) => text::received(&bytes(received)),
                None if progress.fraction > 0.0 => text::stage_share(&progress.stage, progress.fraction),
                None => text::stage_words(&progress.stage).to_owned(),
            },
            Phase::Running => {
                let elapsed = (env::now_ms() - app.run.started_ms.get_untracked()) / 1e3;
                let left = (elapsed > 1.0 && progress.fraction > 0.02)
                    .then(|| elapsed * (1.0 - progress.fraction) / progress.fraction);
                text::running_detail(
                    text::stage_words(&progress.stage),
                    &app.policy_label(progress.policy),
                    &clock(progress.t_s),
                    left.map(duration),
                )
            }
            Phase::Partial => text::PARTIAL_SHORT.to_owned(),
            Phase::Cancelled => text::CANCELLED_SHORT.to_owned(),
            _ if app.stale() => text::STALE_SHORT.to_owned(),
            _ => String::new(),
        }
    };
    let fraction = move || app.run.progress.with(|progress| progress.fraction);
    view! {
        <div class="run-status">
            <p class="run-words">
                <span class=dot aria-hidden="true"></span>
                <span data-testid="status" role="status">{word}</span>
                <span class="muted num run-detail">{detail}</span>
            </p>
            <Show when=move || match app.run.phase.get() { Phase::Running => true, phase => phase.busy() && fraction() > 0.0 }>
                <progress max="1" prop:value=fraction aria-label=text::PROGRESS></progress>
            </Show>
        </div>
    }
}

/// What went wrong, and notices about address and device.
#[component]
pub(super) fn Notices() -> impl IntoView {
    let app = App::here();
    view! {
        {move || app.run.failure.get().map(|failure| {
            let live = app.run.spec.with_untracked(|spec| {
                spec.as_ref().is_some_and(|s| s.execution.mode == servelab_spec::experiment::ExecutionMode::Tinygpt)
            });
            let advice = match (&failure.field, failure.crashed) {
                (Some(_), _) => text::TRY_FIELD,
                (None, true) if app.catalog.with_untracked(Option::is_none) => text::TRY_LOAD,
                (None, true) => text::TRY_CRASH,
                (None, false) if live => text::TRY_PRICED,
                (None, false) => text::TRY_PRESET,
            };
            view! {
                <div class="notice notice-bad" role="alert" data-testid="error">
                    <p>
                        <strong>{if failure.crashed { text::CRASHED } else { text::RUN_FAILED }}</strong>
                        " "
                        {text::sentence(&failure.message)}
                        " "
                        {advice}
                    </p>
                    <button type="button" on:click=move |_| control::again(app)>{text::TRY_AGAIN}</button>
                </div>
            }
        })}
        {move || {
            let mut notices = app.notices.get();
            if notices.len() > MOST_NOTICES {
                let more = notices.len() - MOST_NOTICES;
                notices.truncate(MOST_NOTICES);
                notices.push(text::more_notices(more));
            }
            (!notices.is_empty())
                .then(|| {
                    view! {
                        <div class="notice" role="status" data-testid="notice">
                            <ul>{notices.into_iter().map(|notice| view! { <li>{notice}</li> }).collect_view()}</ul>
                            <button type="button" on:click=move |_| {
                                app.notices.set(Vec::new());
                                env::focus_soon("h1");
                            }>{text::CLOSE}</button>
                        </div>
                    }
                })
        }}
    }
}
