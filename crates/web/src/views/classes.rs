//! The priority classes of the draft's gateway as text.

use crate::state::App;
use crate::{address, text};
use leptos::prelude::*;
use servelab_spec::patch;

/// The classes; nothing where there is no gateway.
#[component]
pub(super) fn ClassesField() -> impl IntoView {
    let app = App::here();
    let classes = Memo::new(move |_| app.draft.with(|draft| draft.gateway.on.then(|| draft.gateway.classes.clone())));
    let refused = RwSignal::new(None::<String>);
    let set = move |typed: &str| match app.draft.with_untracked(|draft| patch::set(draft, "gateway.classes", typed)) {
        Ok(spec) => {
            refused.set(None);
            app.draft.set(spec);
            address::commit(app);
        }
        Err(error) => refused.set(Some(text::sentence(&error.to_string()))),
    };
    // What fits by itself may still not fit the rest: a tenant that the workload does not have.
    let error = move || {
        let of_draft = || app.draft_error().filter(|error| error.field == "gateway.classes");
        refused.get().or_else(|| of_draft().map(|error| text::sentence(&error.to_string())))
    };
    view! {
        <Show when=move || classes.with(Option::is_some)>
            <div class="param" class:param-bad=move || error().is_some()>
                <div class="param-head"><label for="set-gateway-classes">{text::CLASSES}</label></div>
                <textarea
                    id="set-gateway-classes"
                    class="curve-text"
                    rows="2"
                    spellcheck="false"
                    aria-describedby="set-gateway-classes-help"
                    aria-invalid=move || error().is_some().to_string()
                    data-testid="classes"
                    prop:value=move || classes.get().unwrap_or_default()
                    on:change=move |event| set(&event_target_value(&event))
                ></textarea>
                <p class="param-help muted" id="set-gateway-classes-help">{text::CLASSES_HELP}</p>
                {move || error().map(|error| view! { <p class="param-error" role="alert">{error}</p> })}
            </div>
        </Show>
    }
}
