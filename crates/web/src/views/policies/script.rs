//! The script of one's own policy: its text, scripts to start from, and what it may read.

use crate::state::App;
use crate::{address, text};
use leptos::prelude::*;
use servelab_spec::catalog::{ScriptExample, ScriptReference, ScriptValue};

/// The parameter that says which tier a script reads.
const TIER: &str = "tier";

/// The editor of the script of the policy at `at`.
#[component]
pub(super) fn Script(at: usize) -> impl IntoView {
    let app = App::here();
    let reference: Memo<ScriptReference> = Memo::new(move |_| {
        app.catalog.with(|catalog| catalog.as_ref().map(|catalog| catalog.script.clone()).unwrap_or_default())
    });
    // Without a text of its own the policy runs the first of the examples.
    let shown = Memo::new(move |_| {
        let own = app.draft.with(|draft| draft.policies.get(at).and_then(|policy| policy.script.clone()));
        own.unwrap_or_else(|| {
            reference.with(|known| known.examples.first().map(|first| first.text.clone()).unwrap_or_default())
        })
    });
    let write = move |written: String, tier: Option<u32>| {
        let first = reference.with_untracked(|known| known.examples.first().map(|first| first.text.clone()));
        app.draft.update(|draft| {
            let Some(policy) = draft.policies.get_mut(at) else { return };
            policy.script = (Some(&written) != first.as_ref() && !written.trim().is_empty()).then_some(written);
            if let Some(tier) = tier {
                policy.params.insert(TIER.into(), tier.into());
            }
        });
        address::commit(app);
    };
    let start_from = move |example: ScriptExample| {
        let title = example.title.clone();
        view! {
            <button type="button" class="linklike" on:click=move |_| write(example.text.clone(), Some(example.tier))>
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
                on:change=move |event| write(event_target_value(&event), None)
            ></textarea>
            <p class="param-help muted" id=format!("{id}-help")>{text::SCRIPT_HELP}</p>
            <p class="exports">
                <span class="muted">{text::SCRIPT_FROM}</span>
                {move || reference.get().examples.into_iter().map(start_from).collect_view()}
            </p>
            <details>
                <summary>{text::SCRIPT_READS}</summary>
                <div class="table-box" role="region" tabindex="0" aria-label=text::SCRIPT_READS data-keys="">
                    <table class="table">
                        <thead>
                            <tr>
                                <th scope="col">{text::SCRIPT_NAME}</th>
                                <th scope="col">{text::SCRIPT_MEANS}</th>
                            </tr>
                        </thead>
                        <tbody>{move || reference.get().values.into_iter().map(row).collect_view()}</tbody>
                    </table>
                </div>
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
