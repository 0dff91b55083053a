//! Who decides how many replicas there are, and what clients do: lists of things by name in the draft, as chips, each with its parameters, and adding another.

use super::icons;
use super::param::Param;
use crate::state::App;
use crate::{address, env, text};
use leptos::prelude::*;
use servelab_spec::Spec;
use servelab_spec::catalog::{Catalog, ParamInfo};
use servelab_spec::experiment::{ClientSpec, ControllerSpec};
use std::collections::BTreeMap;

/// Which list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    /// Autoscalers.
    Controllers,
    /// Client policies.
    Clients,
}

/// What the catalog says of one entry.
#[derive(Clone, PartialEq)]
struct Info {
    name: String,
    label: String,
    /// Whose it is, if it is some project's.
    mark: String,
    summary: String,
    /// What is said of it, term by term.
    about: Vec<(&'static str, String)>,
    params: Vec<ParamInfo>,
}

impl Named {
    /// What ids and test ids begin with.
    fn id(self) -> &'static str {
        match self {
            Named::Controllers => "controller",
            Named::Clients => "client",
        }
    }

    fn words(self) -> [&'static str; 3] {
        match self {
            Named::Controllers => [text::CONTROLLERS, text::NO_CONTROLLER, text::ADD_CONTROLLER],
            Named::Clients => [text::CLIENTS, text::NO_CLIENT, text::ADD_CLIENT],
        }
    }

    /// The field of its faults.
    fn field(self) -> &'static str {
        match self {
            Named::Controllers => "scaling.controllers",
            Named::Clients => "clients.policies",
        }
    }

    fn is_on(self, spec: &Spec) -> bool {
        match self {
            Named::Controllers => spec.scaling.on,
            Named::Clients => spec.clients.on,
        }
    }

    fn names(self, spec: &Spec) -> Vec<String> {
        match self {
            Named::Controllers => spec.scaling.controllers.iter().map(|of| of.name.clone()).collect(),
            Named::Clients => spec.clients.policies.iter().map(|of| of.name.clone()).collect(),
        }
    }

    fn params(self, spec: &Spec, at: usize) -> Option<&BTreeMap<String, f64>> {
        match self {
            Named::Controllers => spec.scaling.controllers.get(at).map(|of| &of.params),
            Named::Clients => spec.clients.policies.get(at).map(|of| &of.params),
        }
    }

    fn params_mut(self, spec: &mut Spec, at: usize) -> Option<&mut BTreeMap<String, f64>> {
        match self {
            Named::Controllers => spec.scaling.controllers.get_mut(at).map(|of| &mut of.params),
            Named::Clients => spec.clients.policies.get_mut(at).map(|of| &mut of.params),
        }
    }

    fn push(self, spec: &mut Spec, name: &str) {
        match self {
            Named::Controllers => spec.scaling.controllers.push(ControllerSpec::named(name)),
            Named::Clients => spec.clients.policies.push(ClientSpec::named(name)),
        }
    }

    fn remove(self, spec: &mut Spec, at: usize) {
        match self {
            Named::Controllers if at < spec.scaling.controllers.len() => _ = spec.scaling.controllers.remove(at),
            Named::Clients if at < spec.clients.policies.len() => _ = spec.clients.policies.remove(at),
            Named::Controllers | Named::Clients => {}
        }
    }

    fn label(self, app: App, spec: &Spec, at: usize) -> Option<String> {
        match self {
            Named::Controllers => spec.scaling.controllers.get(at).map(|of| app.controller_label(of)),
            Named::Clients => spec.clients.policies.get(at).map(|of| app.client_label(of)),
        }
    }

    fn known(self, catalog: &Catalog) -> Vec<Info> {
        match self {
            Named::Controllers => (catalog.controllers.iter())
                .map(|info| Info {
                    name: info.name.clone(),
                    label: if info.bound { text::bound(&info.label) } else { info.label.clone() },
                    mark: info.project.clone(),
                    summary: info.summary.clone(),
                    about: vec![
                        (text::CONTROLLER_RULE, info.rule.clone()),
                        (text::POLICY_READS, info.reads.clone()),
                        (text::POLICY_FAILS, info.fails.clone()),
                    ],
                    params: info.params.clone(),
                })
                .collect(),
            Named::Clients => (catalog.clients.iter())
                .map(|info| Info {
                    name: info.name.clone(),
                    label: info.label.clone(),
                    mark: String::new(),
                    summary: info.summary.clone(),
                    about: vec![(text::CLIENT_SOURCE, info.source.clone())],
                    params: info.params.clone(),
                })
                .collect(),
        }
    }
}

/// A list of the draft; nothing while what it is about is off.
#[component]
pub(super) fn NamedList(of: Named) -> impl IntoView {
    let app = App::here();
    let on = Memo::new(move |_| app.draft.with(|draft| of.is_on(draft)));
    let names = Memo::new(move |_| app.draft.with(|draft| of.names(draft)));
    let known = Memo::new(move |_| app.catalog.with(|c| c.as_ref().map(|c| of.known(c)).unwrap_or_default()));
    let [legend, nobody, adding] = of.words();
    let open = RwSignal::new(None::<usize>);
    let add = move |name: String| {
        if name.is_empty() {
            return;
        }
        let at = names.with_untracked(Vec::len);
        app.draft.update(|draft| {
            // A second one of a kind is a variant; it differs once its reader has set something.
            of.push(draft, &name);
        });
        open.set(Some(at));
        address::commit(app);
    };
    let error = move || {
        let fault = app.draft_error().filter(|error| error.field.starts_with(of.field()))?;
        Some(text::sentence(&fault.to_string()))
    };
    view! {
        <Show when=move || on.get()>
            <fieldset class="group">
                <legend>{legend}</legend>
                <ul class="policies" data-testid=format!("{}s", of.id())>
                    {move || {
                        let known = known.get();
                        names
                            .get()
                            .into_iter()
                            .enumerate()
                            .map(|(at, name)| {
                                let info = known.iter().find(|info| info.name == name).cloned();
                                view! { <Chip of=of at=at name=name info=info open=open /> }
                            })
                            .collect_view()
                    }}
                </ul>
                <Show when=move || names.with(Vec::is_empty)>
                    <p class="param-help muted">{nobody}</p>
                </Show>
                <label class="add-controller">
                    <span class="visually-hidden">{adding}</span>
                    <select data-testid=format!("add-{}", of.id()) prop:value="" on:change=move |event| add(event_target_value(&event))>
                        <option value="">{adding}</option>
                        {move || {
                            known
                                .get()
                                .into_iter()
                                .map(|info| view! { <option value=info.name title=info.summary>{info.label}</option> })
                                .collect_view()
                        }}
                    </select>
                </label>
                {move || error().map(|error| view! { <p class="param-error" role="alert">{error}</p> })}
            </fieldset>
        </Show>
    }
}

/// One entry: a chip that opens onto what is said of it and its parameters.
#[component]
fn Chip(of: Named, at: usize, name: String, info: Option<Info>, open: RwSignal<Option<usize>>) -> impl IntoView {
    let app = App::here();
    let label = {
        let plain = name.clone();
        Memo::new(move |_| app.draft.with(|draft| of.label(app, draft, at)).unwrap_or_else(|| plain.clone()))
    };
    let shown = move || open.get() == Some(at);
    let panel = format!("{}-{at}-panel", of.id());
    // What is folded is not there.
    let controlled = {
        let panel = panel.clone();
        move || shown().then(|| panel.clone())
    };
    let remove = move |_| {
        open.set(None);
        app.draft.update(|draft| of.remove(draft, at));
        address::commit(app);
        // The one that takes its place.
        env::focus_soon("[data-testid=controls] .policy-name");
    };
    let mark = info
        .as_ref()
        .filter(|info| !info.mark.is_empty())
        .map(|info| view! { <span class="mark">{info.mark.clone()}</span> });
    let words = StoredValue::new(info.clone());
    let params = StoredValue::new(info.map(|info| info.params).unwrap_or_default());
    view! {
        <li class="policy" data-testid=format!("{}-{at}", of.id())>
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
                    {mark}
                </button>
                <button
                    type="button"
                    class="quiet small"
                    data-testid=format!("remove-{}-{at}", of.id())
                    aria-label=move || text::remove_policy(&label.get())
                    on:click=remove
                >
                    {icons::close()}
                </button>
            </div>
            <Show when=shown>
                <div class="policy-panel" id=panel.clone()>
                    {move || words.with_value(|info| info.as_ref().map(|info| about(info).into_any()))}
                    {params.get_value().into_iter().map(|param| view! { <NamedParam of=of at=at param=param /> }).collect_view()}
                </div>
            </Show>
        </li>
    }
}

/// What it does, and what else is said of it.
fn about(info: &Info) -> impl IntoView + use<> {
    let line = |(term, words): &(&'static str, String)| {
        (!words.is_empty()).then(|| view! { <div><dt>{*term}</dt><dd>{text::sentence(words)}</dd></div> })
    };
    view! {
        <p class="param-help">{info.summary.clone()}</p>
        <dl class="policy-about">{info.about.iter().map(line).collect_view()}</dl>
    }
}

/// One of its parameters.
#[component]
fn NamedParam(of: Named, at: usize, param: ParamInfo) -> impl IntoView {
    let app = App::here();
    let (key, default) = (param.name.clone(), param.default);
    let value = {
        let key = key.clone();
        Signal::derive(move || {
            let value = |params: &BTreeMap<String, f64>| params.get(&key).copied().unwrap_or(default);
            app.draft.with(|draft| of.params(draft, at).map(value))
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
            if let Some(params) = of.params_mut(draft, at) {
                // A default is left unsaid, so that addresses stay short and equal specs look equal.
                if value == default {
                    params.remove(&key);
                } else {
                    params.insert(key.clone(), value);
                }
            }
        });
        if done {
            address::commit(app);
        }
    });
    view! {
        <Param
            id=format!("{}-{at}-{}", of.id(), param.name)
            info=param
            value=value
            base=Signal::derive(move || default)
            error=refused
            on_change=set
        />
    }
}
