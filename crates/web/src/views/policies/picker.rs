//! Adding a policy: a search field over all there are, by family. It stays open, so that several can be added in a row.

use super::choose::grouped;
use crate::text;
use leptos::html;
use leptos::prelude::*;
use servelab_spec::catalog::PolicyInfo;
use web_sys::KeyboardEvent;

/// Where a policy stands with the list of those compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// It is in the list.
    pub there: bool,
    /// It can be added, for the first time or as a variant.
    pub addable: bool,
}

/// The button and, while open, what it opens.
#[component]
pub(super) fn Picker(
    known: Memo<Vec<PolicyInfo>>,
    place: Callback<String, Place>,
    add: Callback<String>,
) -> impl IntoView {
    let open = RwSignal::new(false);
    let opener = NodeRef::<html::Button>::new();
    let close = move || {
        open.set(false);
        // Back to where the visitor came from, else focus would fall to the page's start.
        if let Some(button) = opener.get_untracked() {
            let _ = button.focus();
        }
    };
    let key = move |event: KeyboardEvent| {
        if event.key() == "Escape" {
            event.prevent_default();
            close();
        }
    };
    view! {
        <div class="adder" on:keydown=key>
            <button
                type="button"
                class="add"
                data-testid="add-policy"
                node_ref=opener
                aria-expanded=move || open.get().to_string()
                aria-controls="policy-picker"
                on:click=move |_| open.update(|open| *open = !*open)
            >
                {move || if open.get() { text::ADD_DONE } else { text::ADD_POLICY }}
            </button>
            <Show when=move || open.get()>
                <List known=known place=place add=add />
            </Show>
        </div>
    }
}

#[component]
fn List(known: Memo<Vec<PolicyInfo>>, place: Callback<String, Place>, add: Callback<String>) -> impl IntoView {
    let query = RwSignal::new(String::new());
    let said = RwSignal::new(String::new());
    let groups = Memo::new(move |_| known.with(|known| grouped(known, &query.get())));
    let found = move || groups.with(|groups| groups.iter().map(|(_, members)| members.len()).sum::<usize>());
    let search = NodeRef::<html::Input>::new();
    search.on_load(|field| {
        let _ = field.focus();
    });
    let take = move |info: &PolicyInfo| {
        if untrack(|| place.run(info.name.clone())).addable {
            add.run(info.name.clone());
            said.set(text::policy_added(&info.label));
        } else {
            said.set(text::PICKER_EXHAUSTED.into());
        }
    };
    let enter = move |event: KeyboardEvent| {
        if event.key() == "Enter" {
            event.prevent_default();
            let first = groups.with_untracked(|groups| groups.first()?.1.first().cloned());
            if let Some(first) = first {
                take(&first);
            }
        }
    };
    view! {
        <div class="picker" id="policy-picker" role="group" aria-label=text::PICKER_REGION data-keys="">
            <input
                type="search"
                class="picker-search"
                data-testid="policy-search"
                node_ref=search
                placeholder=text::PICKER_SEARCH
                aria-label=text::PICKER_SEARCH
                prop:value=query
                on:input=move |event| query.set(event_target_value(&event))
                on:keydown=enter
            />
            <p class="visually-hidden" role="status">{said}</p>
            <div class="picker-list">
                <Show when=move || found() == 0>
                    <p class="muted param-help">{text::PICKER_NONE}</p>
                </Show>
                {move || {
                    groups
                        .get()
                        .into_iter()
                        .map(|(family, members)| view! {
                            <h4 class="picker-family">{family.label()}</h4>
                            <ul>{members.into_iter().map(|info| view! { <Entry info=info place=place take=take /> }).collect_view()}</ul>
                        })
                        .collect_view()
                }}
            </div>
        </div>
    }
}

#[component]
fn Entry(
    info: PolicyInfo,
    place: Callback<String, Place>,
    take: impl Fn(&PolicyInfo) + Send + Sync + 'static,
) -> impl IntoView {
    let name = info.name.clone();
    let stands = Memo::new(move |_| place.run(name.clone()));
    let (label, summary, testid) = (info.label.clone(), info.summary.clone(), format!("pick-{}", info.name));
    let marks = super::marks(&info);
    view! {
        <li>
            // Not disabled, which would take the focus away from whoever has just added it.
            <button
                type="button"
                class="picker-entry"
                data-testid=testid
                aria-disabled=move || (!stands.get().addable).to_string()
                on:click=move |_| take(&info)
            >
                <span class="picker-name">
                    <strong>{label}</strong>
                    {marks}
                    <Show when=move || stands.get().there>
                        <span class="mark mark-on">{text::PICKER_THERE}</span>
                    </Show>
                    <Show when=move || !stands.get().addable>
                        <span class="mark">{text::PICKER_NO_VARIANT}</span>
                    </Show>
                </span>
                <span class="picker-words muted">{summary}</span>
            </button>
        </li>
    }
}
