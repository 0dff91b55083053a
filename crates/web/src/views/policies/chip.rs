//! One policy of the draft: a chip that opens onto its parameters, what it reads and how it fails.

use super::marks;
use super::script::Script;
use crate::state::App;
use crate::views::icons;
use crate::views::param::Param;
use crate::{address, env, text};
use leptos::prelude::*;
use servelab_spec::catalog::{ParamInfo, PolicyInfo};
use servelab_spec::experiment::PolicySpec;

/// The chip of the policy at `at`. `open` is the position of the one chip that is open.
#[component]
pub(super) fn Chip(
    at: usize,
    name: String,
    info: Option<PolicyInfo>,
    count: Memo<usize>,
    open: RwSignal<Option<usize>>,
) -> impl IntoView {
    let app = App::here();
    let plain = info.as_ref().map_or_else(|| name.clone(), |info| info.label.clone());
    // With what it was given, so that two variants are told apart.
    let label = {
        let plain = plain.clone();
        Memo::new(move |_| {
            app.draft
                .with(|draft| draft.policies.get(at).map(|policy| app.label_of(policy)))
                .unwrap_or_else(|| plain.clone())
        })
    };
    let shown = move || open.get() == Some(at);
    let panel = format!("policy-{at}");
    // What is folded is not there.
    let controlled = {
        let panel = panel.clone();
        move || shown().then(|| panel.clone())
    };
    let remove = move |_| {
        open.update(|open| {
            *open = match *open {
                Some(opened) if opened == at => None,
                Some(opened) if opened > at => Some(opened - 1),
                other => other,
            };
        });
        app.draft.update(|draft| {
            if draft.policies.len() > 1 && at < draft.policies.len() {
                draft.policies.remove(at);
            }
        });
        address::commit(app);
        // Somewhere among those that are left.
        env::focus_soon("[data-testid=controls] .policy-name");
    };
    let earlier = move |_| {
        app.draft.update(|draft| {
            if at > 0 && at < draft.policies.len() {
                draft.policies.swap(at - 1, at);
            }
        });
        open.set(Some(at.saturating_sub(1)));
        address::commit(app);
    };
    let is_script = name == PolicySpec::SCRIPT;
    let chip_marks = info.as_ref().map(marks);
    let words = StoredValue::new(info.clone());
    let params = StoredValue::new(info.map(|info| info.params).unwrap_or_default());
    view! {
        <li class="policy" data-testid=format!("policy-{at}")>
            <div class="policy-head">
                <button
                    type="button"
                    class="policy-name"
                    aria-expanded=move || shown().to_string()
                    aria-controls=controlled
                    on:click=move |_| open.update(|open| *open = if *open == Some(at) { None } else { Some(at) })
                >
                    <span class="twist" aria-hidden="true">{move || if shown() { "▾" } else { "▸" }}</span>
                    <strong>{label}</strong>
                    {chip_marks}
                </button>
                <Show when=move || { count.get() > 1 }>
                    <button
                        type="button"
                        class="quiet small"
                        data-testid=format!("remove-{at}")
                        aria-label=move || text::remove_policy(&label.get())
                        on:click=remove
                    >
                        {icons::close()}
                    </button>
                </Show>
            </div>
            <Show when=shown>
                <div class="policy-panel" id=panel.clone()>
                    {move || words.with_value(|info| info.as_ref().map(|info| about(info).into_any()))}
                    {is_script.then(|| view! { <Script at=at /> })}
                    {params.get_value().into_iter().map(|param| view! { <PolicyParam at=at param=param /> }).collect_view()}
                    <Show when=move || { at > 0 }>
                        <button type="button" class="linklike" on:click=earlier>{text::MOVE_UP}</button>
                    </Show>
                </div>
            </Show>
        </li>
    }
}

/// What it does, reads, compares, and how it fails.
fn about(info: &PolicyInfo) -> impl IntoView + use<> {
    let line = |term: &'static str, words: &str| {
        (!words.is_empty()).then(|| view! { <div><dt>{term}</dt><dd>{text::sentence(words)}</dd></div> })
    };
    view! {
        <p class="param-help">{info.summary.clone()}</p>
        <dl class="policy-about">
            {line(text::POLICY_READS, &info.reads)}
            {line(text::POLICY_COMPARES, &info.compares)}
            {line(text::POLICY_FAILS, &info.fails)}
        </dl>
    }
}

/// One of its parameters.
#[component]
fn PolicyParam(at: usize, param: ParamInfo) -> impl IntoView {
    let app = App::here();
    let (key, default) = (param.name.clone(), param.default);
    let value = {
        let key = key.clone();
        Signal::derive(move || {
            app.draft
                .with(|draft| draft.policies.get(at).map(|policy| policy.params.get(&key).copied().unwrap_or(default)))
        })
    };
    let refused = RwSignal::new(None::<String>);
    Effect::new(move |_| {
        app.draft.track();
        refused.set(None);
    });
    let checked = param.clone();
    let set = Callback::new(move |(value, done): (f64, bool)| {
        if let Err(error) = checked.check(&checked.label, value) {
            refused.set(Some(text::sentence(&error.to_string())));
            return;
        }
        app.draft.update(|draft| {
            if let Some(policy) = draft.policies.get_mut(at) {
                // A default is left unsaid, so that addresses stay short and equal specs look equal.
                if value == default {
                    policy.params.remove(&key);
                } else {
                    policy.params.insert(key.clone(), value);
                }
            }
        });
        if done {
            address::commit(app);
        }
    });
    view! {
        <Param
            id=format!("policy-{at}-{}", param.name)
            info=param
            value=value
            base=Signal::derive(move || default)
            error=refused
            on_change=set
        />
    }
}
