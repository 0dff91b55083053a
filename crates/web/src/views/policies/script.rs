//! The script of one's own policy: its text, scripts to start from, and what it may read.

use crate::state::App;
use crate::views::files::TableBox;
use crate::{address, control, text};
use leptos::prelude::*;
use servelab_spec::catalog::{ScriptExample, ScriptReference, ScriptValue};
use std::time::Duration;

/// The parameter that says which tier a script reads.
const TIER: &str = "tier";

/// A pause in typing after which the draft takes the text.
const TAKEN_AFTER: Duration = Duration::from_millis(400);

/// The editor of the script of the policy at `at`.
#[component]
pub(super) fn Script(at: usize) -> impl IntoView {
    let app = App::here();
    let reference: Memo<ScriptReference> = Memo::new(move |_| {
        app.catalog.with(|catalog| catalog.as_ref().map(|catalog| catalog.script.clone()).unwrap_or_default())
    });
    let first =
        move || reference.with(|known| known.examples.first().map(|first| first.text.clone()).unwrap_or_default());
    let own =
        Memo::new(move |_| app.draft.with(|draft| draft.policies.get(at).and_then(|policy| policy.script.clone())));
    // What stands in the editor while it says something else than the draft, or nothing: an emptied editor stays empty.
    let written = RwSignal::new(None::<String>);
    // Without a text of its own the policy runs the first of the examples.
    let shown = Memo::new(move |_| written.get().or_else(|| own.get()).unwrap_or_else(first));
    let emptied = Memo::new(move |_| shown.with(|shown| shown.trim().is_empty()));
    let take = move |text: &str, tier: Option<u32>| {
        let plain = text.trim().is_empty() || *text == untrack(first);
        app.draft.update(|draft| {
            let Some(policy) = draft.policies.get_mut(at) else { return };
            policy.script = (!plain).then(|| text.to_owned());
            if let Some(tier) = tier {
                policy.params.insert(TIER.into(), tier.into());
            }
        });
    };
    let waiting = StoredValue::new_local(None::<TimeoutHandle>);
    let stop_waiting = move || waiting.update_value(|waiting| waiting.take().iter().for_each(TimeoutHandle::clear));
    on_cleanup(stop_waiting);
    let settle = move || {
        stop_waiting();
        if let Some(text) = written.get_untracked() {
            take(&text, None);
        }
    };
    let write = move |text: String| {
        stop_waiting();
        written.set(Some(text));
        waiting.set_value(set_timeout_with_handle(settle, TAKEN_AFTER).ok());
    };
    // Another text than the editor's came into the draft: an example, or a step back in the history.
    Effect::new(move |_| {
        let own = own.get();
        let same = |text: &String| own.as_ref().map_or(text.trim().is_empty() || *text == first(), |own| own == text);
        let pending = waiting.with_value(Option::is_some);
        if !pending && written.with_untracked(|written| written.as_ref().is_some_and(|text| !same(text))) {
            written.set(None);
        }
    });
    let keys = move |event: web_sys::KeyboardEvent| {
        if event.key() == "Enter" && (event.ctrl_key() || event.meta_key()) {
            event.prevent_default();
            settle();
            address::commit(app);
            control::start(app);
        }
    };
    let start_from = move |example: ScriptExample| {
        let title = example.title.clone();
        view! {
            <button type="button" class="linklike" on:click=move |_| {
                stop_waiting();
                written.set(None);
                take(&example.text, Some(example.tier));
                address::commit(app);
            }>
                {title}
            </button>
        }
    };
    let id = format!("policy-{at}-script");
    // The editor of the script that ended the run is marked, until something is changed.
    let at_fault = move || {
        let failure = app.run.failure.get();
        failure.and_then(|failure| failure.field).is_some_and(|field| field == format!("policies.{at}.script"))
    };
    view! {
        <div class="param script">
            <label for=id.clone()>{text::SCRIPT}</label>
            <textarea
                id=id.clone()
                class="script-text"
                data-testid=format!("script-{at}")
                rows="14"
                spellcheck="false"
                autocapitalize="off"
                aria-describedby=format!("{id}-help")
                aria-invalid=move || at_fault().to_string()
                prop:value=shown
                on:input=move |event| write(event_target_value(&event))
                on:change=move |_| { settle(); address::commit(app); }
                on:keydown=keys
            ></textarea>
            <Show when=move || emptied.get()>
                <p class="param-help" role="status">{text::SCRIPT_EMPTY}</p>
            </Show>
            <p class="param-help muted" id=format!("{id}-help")>{text::SCRIPT_HELP}</p>
            <p class="exports">
                <span class="muted">{text::SCRIPT_FROM}</span>
                {move || reference.get().examples.into_iter().map(start_from).collect_view()}
            </p>
            <details>
                <summary>{text::SCRIPT_READS}</summary>
                <TableBox label=text::SCRIPT_READS name="script-api">
                    <table class="table">
                        <thead>
                            <tr>
                                <th scope="col">{text::SCRIPT_NAME}</th>
                                <th scope="col">{text::SCRIPT_MEANS}</th>
                            </tr>
                        </thead>
                        <tbody>{move || reference.get().values.into_iter().map(row).collect_view()}</tbody>
                    </table>
                </TableBox>
            </details>
        </div>
    }
}

fn row(value: ScriptValue) -> impl IntoView {
    let facts: Vec<String> = [value.kind, value.unit, value.tier].into_iter().filter(|fact| !fact.is_empty()).collect();
    view! {
        <tr>
            <th scope="row"><code>{value.name}</code></th>
            <td>{text::sentence(&value.help)} " " <span class="muted">{facts.join(", ")}</span></td>
        </tr>
    }
}
