//! One axis of a sweep: which setting, and its values.

use super::NumberField;
use crate::state::App;
use crate::study::form::{AxisForm, Choice, Spacing};
use crate::text;
use leptos::prelude::*;
use servelab_spec::catalog::ParamKind;
use servelab_spec::sweep::MAX_STEPS;

/// The axis at a place; the second one may be none.
#[component]
pub(super) fn Axis(at: usize, choices: Memo<Vec<Choice>>) -> impl IntoView {
    let app = App::here();
    let axis = app.study.axes[at];
    let key = Memo::new(move |_| axis.with(|axis| axis.as_ref().map(|axis| axis.key.clone()).unwrap_or_default()));
    let choose = move |key: String| {
        let choice = choices.with_untracked(|all| all.iter().find(|choice| choice.key == key).cloned());
        axis.set(choice.as_ref().map(AxisForm::usual));
    };
    let chosen = Memo::new(move |_| choices.with(|all| all.iter().find(|choice| choice.key == key.get()).cloned()));
    let id = format!("axis-{at}");
    view! {
        <fieldset class="study-axis">
            <legend class="visually-hidden">{text::axis_name(at)}</legend>
            <label class="study-field study-wide">
                <span>{text::axis_name(at)}</span>
                <select
                    id=id.clone()
                    data-testid=id
                    prop:value=move || { choices.track(); key.get() }
                    on:change=move |event| choose(event_target_value(&event))
                >
                    {(at > 0).then(|| view! { <option value="">{text::NO_AXIS}</option> })}
                    {move || options(app, &choices.get(), &key.get_untracked())}
                </select>
            </label>
            {move || chosen.get().map(|choice| view! { <Values at=at choice=choice /> })}
        </fieldset>
    }
}

/// Settings first, then the parameters of each policy and of each client policy under its name.
fn options(app: App, choices: &[Choice], now: &str) -> impl IntoView + use<> {
    let option = |choice: &Choice| {
        view! { <option value=choice.key.clone() selected=choice.key == now>{choice.info.label.clone()}</option> }
    };
    let of_none = |choice: &&Choice| choice.policy.is_none() && choice.client.is_none();
    let settings = choices.iter().filter(of_none).map(option).collect_view();
    let (policies, clients) =
        app.draft.with_untracked(|draft| (draft.policies.clone(), draft.clients.policies.clone()));
    let groups = policies.iter().enumerate().filter_map(|(at, policy)| {
        let own: Vec<_> = choices.iter().filter(|choice| choice.policy == Some(at)).map(option).collect();
        let label = app.label_of(policy);
        (!own.is_empty()).then(|| view! { <optgroup label=label>{own}</optgroup> })
    });
    let groups = groups.collect_view();
    let clients = clients.iter().enumerate().filter_map(|(at, client)| {
        let own: Vec<_> = choices.iter().filter(|choice| choice.client == Some(at)).map(option).collect();
        let label = app.client_label(client);
        (!own.is_empty()).then(|| view! { <optgroup label=label>{own}</optgroup> })
    });
    let clients = clients.collect_view();
    view! { <optgroup label=text::AXIS_SETTINGS>{settings}</optgroup> {groups} {clients} }
}

/// How its values are given.
#[component]
fn Values(at: usize, choice: Choice) -> impl IntoView {
    let app = App::here();
    let axis = app.study.axes[at];
    let spacing = Memo::new(move |_| axis.with(|axis| axis.as_ref().map_or(Spacing::List, |axis| axis.spacing)));
    let number = matches!(choice.info.kind, ParamKind::Number | ParamKind::Integer);
    let change = move |change: &dyn Fn(&mut AxisForm)| axis.update(|axis| axis.iter_mut().for_each(change));
    let read = move |of: fn(&AxisForm) -> f64| Signal::derive(move || axis.with(|axis| axis.as_ref().map_or(0.0, of)));
    let (unit, help) = (choice.info.unit.clone(), text::sentence(&choice.info.help));
    let id = move |part: &str| format!("axis-{at}-{part}");
    let list_id = id("list");
    let list = move || axis.with(|axis| axis.as_ref().map(|axis| axis.list.clone()).unwrap_or_default());
    view! {
        {number.then(|| view! {
            <label class="study-field">
                <span>{text::AXIS_SPACING}</span>
                <select
                    id=id("spacing")
                    data-testid=id("spacing")
                    prop:value=move || spacing.get().name()
                    on:change=move |event| {
                        if let Some(spacing) = Spacing::of(&event_target_value(&event)) {
                            change(&|axis| axis.spacing = spacing);
                        }
                    }
                >
                    {Spacing::ALL.into_iter().map(|kind| view! {
                        <option value=kind.name() selected=kind == spacing.get_untracked()>{text::spacing_words(kind.name())}</option>
                    }).collect_view()}
                </select>
            </label>
        })}
        {move || {
            if spacing.get() == Spacing::List {
                view! {
                    <label class="study-field study-wide">
                        <span>{text::AXIS_LIST}</span>
                        <input
                            type="text"
                            class="num"
                            id=list_id.clone()
                            data-testid=list_id.clone()
                            spellcheck="false"
                            autocomplete="off"
                            prop:value=list
                            on:change=move |event| {
                                let written = event_target_value(&event);
                                change(&|axis| axis.list.clone_from(&written));
                            }
                        />
                    </label>
                }
                .into_any()
            } else {
                view! {
                    <NumberField label=text::AXIS_FROM id=id("from") unit=unit.clone() value=read(|axis| axis.from)
                        on_change=Callback::new(move |value| change(&|axis| axis.from = value)) />
                    <NumberField label=text::AXIS_TO id=id("to") unit=unit.clone() value=read(|axis| axis.to)
                        on_change=Callback::new(move |value| change(&|axis| axis.to = value)) />
                    <NumberField label=text::AXIS_STEPS id=id("steps") value=read(|axis| f64::from(axis.steps))
                        range=(2.0, f64::from(MAX_STEPS)) whole=true
                        on_change=Callback::new(move |value| change(&|axis| axis.steps = value as u32)) />
                }
                .into_any()
            }
        }}
        <p class="param-help muted study-help">{help}</p>
    }
}
