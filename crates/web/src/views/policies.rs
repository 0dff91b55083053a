//! The policies of the draft as chips, each with its parameters, and adding another.

use super::icons;
use super::param::Param;
use crate::state::App;
use crate::{address, text};
use leptos::prelude::*;
use servelab_spec::catalog::PolicyInfo;
use servelab_spec::experiment::PolicySpec;
use servelab_spec::validate::MAX_POLICIES;

/// The policies of the draft.
#[component]
pub(super) fn Policies() -> impl IntoView {
    let app = App::here();
    let policies = Memo::new(move |_| app.draft.with(|draft| draft.policies.clone()));
    let names = Memo::new(move |_| policies.with(|all| all.iter().map(|p| p.name.clone()).collect::<Vec<_>>()));
    let known = Memo::new(move |_| app.catalog.with(|c| c.as_ref().map(|c| c.policies.clone()).unwrap_or_default()));
    let change = move |change: &dyn Fn(&mut Vec<PolicySpec>)| {
        app.draft.update(|draft| change(&mut draft.policies));
        address::commit(app);
    };
    let add = move |name: String| {
        let Some(info) = known.with_untracked(|known| known.iter().find(|info| info.name == name).cloned()) else {
            return;
        };
        change(&|all| {
            if let Some(policy) = fresh(&info, all) {
                all.push(policy);
            }
        });
    };
    let error = move || {
        let fault = app.draft_error().filter(|error| error.field.starts_with("policies"))?;
        Some(text::sentence(&fault.to_string()))
    };
    view! {
        <fieldset class="group">
            <legend>{text::POLICIES}</legend>
            <ul class="policies">
                {move || {
                    names
                        .get()
                        .into_iter()
                        .enumerate()
                        .map(|(at, name)| {
                            let info = known.with(|known| known.iter().find(|info| info.name == name).cloned());
                            view! { <Chip app=app at=at name=name info=info many=move || { names.with(Vec::len) > 1 } /> }
                        })
                        .collect_view()
                }}
            </ul>
            <Show when=move || { names.with(Vec::len) < MAX_POLICIES }>
                <select
                    class="add"
                    aria-label=text::ADD_POLICY
                    prop:value=""
                    on:change=move |event| {
                        add(event_target_value(&event));
                        set_empty(&event);
                    }
                >
                    <option value="">{text::ADD_POLICY}</option>
                    {move || known.get().into_iter().map(|info| view! { <option value=info.name>{info.label}</option> }).collect_view()}
                </select>
            </Show>
            {move || error().map(|error| view! { <p class="param-error" role="alert">{error}</p> })}
        </fieldset>
    }
}

fn set_empty(event: &web_sys::Event) {
    use wasm_bindgen::JsCast;
    if let Some(select) = event.target().and_then(|target| target.dyn_into::<web_sys::HtmlSelectElement>().ok()) {
        select.set_value("");
    }
}

/// A policy that is not in the list yet: with its defaults, or with one switch turned, since the same policy with the
/// same parameters would only be itself again.
fn fresh(info: &PolicyInfo, all: &[PolicySpec]) -> Option<PolicySpec> {
    let plain = PolicySpec::named(&info.name);
    if !all.contains(&plain) {
        return Some(plain);
    }
    info.params
        .iter()
        .flat_map(|param| {
            let other = if param.default == param.min { param.max } else { param.min };
            [PolicySpec::named(&info.name).with(&param.name, other)]
        })
        .find(|policy| !all.contains(policy))
}

#[component]
fn Chip(
    app: App,
    at: usize,
    name: String,
    info: Option<PolicyInfo>,
    many: impl Fn() -> bool + Send + Sync + Clone + 'static,
) -> impl IntoView {
    let label = info.as_ref().map_or_else(|| name.clone(), |info| info.label.clone());
    let remove = move |_| {
        app.draft.update(|draft| {
            if draft.policies.len() > 1 && at < draft.policies.len() {
                draft.policies.remove(at);
            }
        });
        address::commit(app);
    };
    let remove_label = text::remove_policy(&label);
    let summary = info.as_ref().map(|info| (info.summary.clone(), text::reads_and_fails(info)));
    let params = info.map(|info| info.params).unwrap_or_default();
    view! {
        <li class="policy">
            <div class="policy-head">
                <strong>{label}</strong>
                <Show when=many>
                    <button type="button" class="quiet small" aria-label=remove_label.clone() on:click=remove>{icons::close()}</button>
                </Show>
            </div>
            {summary.map(|(summary, more)| view! {
                <p class="param-help muted">{summary}</p>
                <details class="more"><summary>{text::MORE}</summary><p class="param-help muted">{more}</p></details>
            })}
            {params
                .into_iter()
                .map(|param| {
                    let (key, default) = (param.name.clone(), param.default);
                    let value = {
                        let key = key.clone();
                        Signal::derive(move || {
                            app.draft.with(|d| d.policies.get(at).map(|p| p.params.get(&key).copied().unwrap_or(default)))
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
                        <Param id=format!("policy-{at}-{}", param.name) info=param value=value base=Signal::derive(move || default) error=refused on_change=set />
                    }
                })
                .collect_view()}
        </li>
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servelab_spec::catalog::{ParamInfo, ParamKind};

    #[test]
    fn a_policy_added_twice_differs_in_a_parameter() {
        let guard = ParamInfo {
            name: "guard".into(),
            label: "Guard".into(),
            unit: String::new(),
            default: 1.0,
            min: 0.0,
            max: 1.0,
            step: 1.0,
            kind: ParamKind::Switch,
            help: String::new(),
        };
        let info = PolicyInfo {
            name: "prefix_affinity".into(),
            family: servelab_spec::catalog::Family::Plain,
            project: String::new(),
            reads_prompt: false,
            compares: String::new(),
            label: "Prefix affinity".into(),
            summary: String::new(),
            reads: String::new(),
            fails: String::new(),
            params: vec![guard],
        };
        let first = fresh(&info, &[]).expect("not there yet");
        let second = fresh(&info, std::slice::from_ref(&first)).expect("its guard can be turned");
        assert_eq!(second.params["guard"], 0.0);
        assert!(fresh(&info, &[first, second]).is_none());
    }
}
