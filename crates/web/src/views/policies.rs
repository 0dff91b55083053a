//! The policies of the draft as chips, each with its parameters, and adding another.

mod chip;
mod choose;
mod picker;
mod script;

use crate::state::App;
use crate::{address, text};
use chip::Chip;
use choose::fresh;
use leptos::prelude::*;
use picker::{Picker, Place};
use servelab_spec::catalog::PolicyInfo;
use servelab_spec::validate::MAX_POLICIES;

/// The policies of the draft.
#[component]
pub(super) fn Policies() -> impl IntoView {
    let app = App::here();
    let names = Memo::new(move |_| {
        app.draft.with(|draft| draft.policies.iter().map(|policy| policy.name.clone()).collect::<Vec<_>>())
    });
    let count = Memo::new(move |_| names.with(Vec::len));
    let known = Memo::new(move |_| app.catalog.with(|c| c.as_ref().map(|c| c.policies.clone()).unwrap_or_default()));
    let open = RwSignal::new(None::<usize>);
    let add = Callback::new(move |name: String| {
        let Some(info) = known.with_untracked(|known| known.iter().find(|info| info.name == name).cloned()) else {
            return;
        };
        let Some(policy) = app.draft.with_untracked(|draft| fresh(&info, &draft.policies)) else { return };
        // A variant shows what makes it one.
        if !policy.params.is_empty() {
            open.set(Some(count.get_untracked()));
        }
        app.draft.update(|draft| {
            if draft.policies.len() < MAX_POLICIES {
                draft.policies.push(policy);
            }
        });
        address::commit(app);
    });
    let place = Callback::new(move |name: String| {
        app.draft.with(|draft| {
            let there = draft.policies.iter().any(|policy| policy.name == name);
            let info = known.with(|known| known.iter().find(|info| info.name == name).cloned());
            Place { there, addable: info.is_some_and(|info| fresh(&info, &draft.policies).is_some()) }
        })
    });
    let error = move || {
        let fault = app.draft_error().filter(|error| error.field.starts_with("policies"))?;
        Some(text::sentence(&fault.to_string()))
    };
    view! {
        <fieldset class="group">
            <legend>{text::POLICIES} <span class="muted num">{move || text::of(&count.get().to_string(), &MAX_POLICIES.to_string())}</span></legend>
            <ul class="policies" data-testid="policies">
                {move || {
                    let known = known.get();
                    names
                        .get()
                        .into_iter()
                        .enumerate()
                        .map(|(at, name)| {
                            let info = known.iter().find(|info| info.name == name).cloned();
                            view! { <Chip at=at name=name info=info count=count open=open /> }
                        })
                        .collect_view()
                }}
            </ul>
            <Show when=move || count.get() == 1>
                <p class="param-help muted">{text::ONE_POLICY}</p>
            </Show>
            <Show
                when=move || { count.get() < MAX_POLICIES }
                fallback=|| view! { <p class="param-help muted">{text::MOST_POLICIES}</p> }
            >
                <Picker known=known place=place add=add />
            </Show>
            {move || error().map(|error| view! { <p class="param-error" role="alert">{error}</p> })}
        </fieldset>
    }
}

/// Whose router it is, and whether it handles what users write.
fn marks(info: &PolicyInfo) -> impl IntoView + use<> {
    let project = (!info.project.is_empty()).then(|| view! { <span class="mark">{info.project.clone()}</span> });
    let reads = info
        .reads_prompt
        .then(|| view! { <span class="mark mark-reads" title=text::READS_PROMPTS_TITLE>{text::READS_PROMPTS}</span> });
    view! { {project} {reads} }
}
