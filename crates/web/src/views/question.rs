//! The question of the experiment, which experiment it is, and running it.

use super::status::RunStatus;
use super::terms::prose;
use crate::state::App;
use crate::{address, control, text};
use leptos::prelude::*;

/// The question and what starts its answer.
#[component]
pub(super) fn Question() -> impl IntoView {
    let app = App::here();
    let presets = Memo::new(move |_| {
        app.catalog.with(|catalog| {
            let list = catalog.as_ref().map(|catalog| &catalog.presets);
            list.map(|list| list.iter().map(|p| (p.name.clone(), p.title.clone())).collect()).unwrap_or_else(Vec::new)
        })
    });
    let chosen = Memo::new(move |_| app.draft.with(|draft| draft.preset.clone()));
    let question = Memo::new(move |_| app.preset().map(|preset| preset.question));
    let changed = Memo::new(move |_| app.preset().is_some_and(|preset| app.draft.with(|draft| *draft != preset.spec)));
    let choose = move |name: String| {
        let preset = app
            .catalog
            .with_untracked(|catalog| catalog.as_ref()?.presets.iter().find(|preset| preset.name == name).cloned());
        if let Some(preset) = preset {
            control::open_preset(app, preset);
        }
    };
    let busy = move || app.run.phase.get().busy();
    let fault = move || app.draft_error().map(|error| text::sentence(&error.to_string()));
    view! {
        <section class="question" aria-label=text::QUESTION_REGION>
            <div class="question-words">
                <label class="preset">
                    <span class="muted">{text::EXPERIMENT}</span>
                    <select
                        data-testid="preset"
                        prop:value=move || { presets.track(); chosen.get() }
                        on:change=move |event| choose(event_target_value(&event))
                    >
                        {move || {
                            presets
                                .get()
                                .into_iter()
                                .map(|(name, title)| {
                                    let selected = name == chosen.get_untracked();
                                    view! { <option value=name selected=selected>{title}</option> }
                                })
                                .collect_view()
                        }}
                    </select>
                    <Show when=move || changed.get()>
                        <button type="button" class="quiet" on:click=move |_| choose(chosen.get_untracked())>
                            {text::RESET}
                        </button>
                    </Show>
                </label>
                <h1 tabindex="-1">{move || question.get().map_or_else(|| text::QUESTION_LOADING.into_any(), |question| prose(&question))}</h1>
            </div>
            <div class="question-run">
                <RunStatus />
                // One button for both, so that the keyboard stays where it is.
                <button
                    type="button"
                    class="main-button"
                    data-testid=move || if busy() { "cancel" } else { "run" }
                    disabled=move || !busy() && (fault().is_some() || app.catalog.with(Option::is_none))
                    on:click=move |_| {
                        if app.run.phase.get_untracked().busy() {
                            control::cancel(app);
                        } else {
                            address::commit(app);
                            control::start(app);
                        }
                    }
                >
                    {move || match (busy(), app.run.spec.with(Option::is_none), app.stale()) {
                        (true, ..) => text::CANCEL,
                        (false, true, _) if app.guess.get().is_some() => text::RUN_GUESSED,
                        (false, true, _) => text::RUN_FIRST,
                        (false, false, true) => text::RUN_CHANGED,
                        (false, false, false) => text::RUN,
                    }}
                </button>
                // The control at fault may lie in a closed group.
                {move || fault().map(|words| view! { <p class="param-error fault" role="alert" data-testid="draft-error">{words}</p> })}
            </div>
        </section>
    }
}
