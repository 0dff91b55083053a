//! Who decides how many replicas there are: the controllers of the draft as chips, each with its parameters, and adding another.

use super::icons;
use super::param::Param;
use crate::state::App;
use crate::{address, text};
use leptos::prelude::*;
use servelab_spec::catalog::{ControllerInfo, ParamInfo};
use servelab_spec::experiment::ControllerSpec;

/// The controllers of the draft; nothing while replicas do not come and go by themselves.
#[component]
pub(super) fn Controllers() -> impl IntoView {
    let app = App::here();
    let on = Memo::new(move |_| app.draft.with(|draft| draft.scaling.on));
    let names = Memo::new(move |_| {
        app.draft.with(|draft| draft.scaling.controllers.iter().map(|of| of.name.clone()).collect::<Vec<_>>())
    });
    let known = Memo::new(move |_| app.catalog.with(|c| c.as_ref().map(|c| c.controllers.clone()).unwrap_or_default()));
    let open = RwSignal::new(None::<usize>);
    let add = move |name: String| {
        if name.is_empty() {
            return;
        }
        let at = names.with_untracked(Vec::len);
        app.draft.update(|draft| {
            // A second one of a kind is a variant; it differs once its reader has set something.
            draft.scaling.controllers.push(ControllerSpec::named(&name));
        });
        open.set(Some(at));
        address::commit(app);
    };
    let error = move || {
        let fault = app.draft_error().filter(|error| error.field.starts_with("scaling.controllers"))?;
        Some(text::sentence(&fault.to_string()))
    };
    view! {
        <Show when=move || on.get()>
            <fieldset class="group">
                <legend>{text::CONTROLLERS}</legend>
                <ul class="policies" data-testid="controllers">
                    {move || {
                        let known = known.get();
                        names
                            .get()
                            .into_iter()
                            .enumerate()
                            .map(|(at, name)| {
                                let info = known.iter().find(|info| info.name == name).cloned();
                                view! { <Chip at=at name=name info=info open=open /> }
                            })
                            .collect_view()
                    }}
                </ul>
                <Show when=move || names.with(Vec::is_empty)>
                    <p class="param-help muted">{text::NO_CONTROLLER}</p>
                </Show>
                <label class="add-controller">
                    <span class="visually-hidden">{text::ADD_CONTROLLER}</span>
                    <select data-testid="add-controller" prop:value="" on:change=move |event| add(event_target_value(&event))>
                        <option value="">{text::ADD_CONTROLLER}</option>
                        {move || {
                            known
                                .get()
                                .into_iter()
                                .map(|info| {
                                    let label = if info.bound { text::bound(&info.label) } else { info.label.clone() };
                                    view! { <option value=info.name.clone() title=info.summary.clone()>{label}</option> }
                                })
                                .collect_view()
                        }}
                    </select>
                </label>
                {move || error().map(|error| view! { <p class="param-error" role="alert">{error}</p> })}
            </fieldset>
        </Show>
    }
}

/// One controller: a chip that opens onto its rule, how it fails, and its parameters.
#[component]
fn Chip(at: usize, name: String, info: Option<ControllerInfo>, open: RwSignal<Option<usize>>) -> impl IntoView {
    let app = App::here();
    let label = {
        let plain = name.clone();
        Memo::new(move |_| {
            app.draft
                .with(|draft| draft.scaling.controllers.get(at).map(|of| app.controller_label(of)))
                .unwrap_or_else(|| plain.clone())
        })
    };
    let shown = move || open.get() == Some(at);
    let panel = format!("controller-{at}-panel");
    let remove = move |_| {
        open.set(None);
        app.draft.update(|draft| {
            if at < draft.scaling.controllers.len() {
                draft.scaling.controllers.remove(at);
            }
        });
        address::commit(app);
    };
    let mark = info
        .as_ref()
        .filter(|info| !info.project.is_empty())
        .map(|info| view! { <span class="mark">{info.project.clone()}</span> });
    let words = StoredValue::new(info.clone());
    let params = StoredValue::new(info.map(|info| info.params).unwrap_or_default());
    view! {
        <li class="policy" data-testid=format!("controller-{at}")>
            <div class="policy-head">
                <button
                    type="button"
                    class="policy-name"
                    aria-expanded=move || shown().to_string()
                    aria-controls=panel.clone()
                    on:click=move |_| open.update(|open| *open = if *open == Some(at) { None } else { Some(at) })
                >
                    <span class="twist" aria-hidden="true">{move || if shown() { "▾" } else { "▸" }}</span>
                    <strong>{label}</strong>
                    {mark}
                </button>
                <button
                    type="button"
                    class="quiet small"
                    data-testid=format!("remove-controller-{at}")
                    aria-label=move || text::remove_policy(&label.get())
                    on:click=remove
                >
                    {icons::close()}
                </button>
            </div>
            <Show when=shown>
                <div class="policy-panel" id=panel.clone()>
                    {move || words.with_value(|info| info.as_ref().map(|info| about(info).into_any()))}
                    {params.get_value().into_iter().map(|param| view! { <ControllerParam at=at param=param /> }).collect_view()}
                </div>
            </Show>
        </li>
    }
}

/// What it does, its rule, what it reads, and how it fails.
fn about(info: &ControllerInfo) -> impl IntoView + use<> {
    let line = |term: &'static str, words: &str| {
        (!words.is_empty()).then(|| view! { <div><dt>{term}</dt><dd>{text::sentence(words)}</dd></div> })
    };
    view! {
        <p class="param-help">{info.summary.clone()}</p>
        <dl class="policy-about">
            {line(text::CONTROLLER_RULE, &info.rule)}
            {line(text::POLICY_READS, &info.reads)}
            {line(text::POLICY_FAILS, &info.fails)}
        </dl>
    }
}

/// One of its parameters.
#[component]
fn ControllerParam(at: usize, param: ParamInfo) -> impl IntoView {
    let app = App::here();
    let (key, default) = (param.name.clone(), param.default);
    let value = {
        let key = key.clone();
        Signal::derive(move || {
            let of = |of: &ControllerSpec| of.params.get(&key).copied().unwrap_or(default);
            app.draft.with(|draft| draft.scaling.controllers.get(at).map(of))
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
            if let Some(of) = draft.scaling.controllers.get_mut(at) {
                // A default is left unsaid, so that addresses stay short and equal specs look equal.
                if value == default {
                    of.params.remove(&key);
                } else {
                    of.params.insert(key.clone(), value);
                }
            }
        });
        if done {
            address::commit(app);
        }
    });
    view! {
        <Param
            id=format!("controller-{at}-{}", param.name)
            info=param
            value=value
            base=Signal::derive(move || default)
            error=refused
            on_change=set
        />
    }
}
