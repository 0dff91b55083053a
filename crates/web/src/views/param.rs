//! One setting: its name, control, unit, default and a sentence. The same for settings of the spec and of policies.

use crate::settings::{from_slider, to_slider};
use crate::{env, text};
use leptos::prelude::*;
use servelab_spec::catalog::{ParamInfo, ParamKind};
use wasm_bindgen::JsCast;
use web_sys::HtmlInputElement;

/// Positions of a slider.
const POSITIONS: f64 = 1000.0;

/// A range wider than this has no slider: no position of it would be any value in particular (seeds).
const WIDEST_SLIDER: f64 = 1e12;

/// A setting. `value` is absent where the spec has no such setting, and nothing is shown then. `on_change` hears every
/// value and whether it is final.
#[component]
pub(super) fn Param(
    info: ParamInfo,
    #[prop(into)] value: Signal<Option<f64>>,
    /// The value to go back to: a preset's, or the catalog's default.
    #[prop(into)]
    base: Signal<f64>,
    #[prop(into)] error: Signal<Option<String>>,
    on_change: Callback<(f64, bool)>,
    id: String,
) -> impl IntoView {
    let present = Memo::new(move |_| value.get().is_some());
    view! {
        <Show when=move || present.get()>
            <ParamRow info=info.clone() value=value base=base error=error on_change=on_change id=id.clone() />
        </Show>
    }
}

#[component]
fn ParamRow(
    info: ParamInfo,
    value: Signal<Option<f64>>,
    base: Signal<f64>,
    error: Signal<Option<String>>,
    on_change: Callback<(f64, bool)>,
    id: String,
) -> impl IntoView {
    let help_id = format!("{id}-help");
    let changed = Memo::new(move |_| value.get().is_some_and(|value| value != base.get()));
    let words = {
        let info = info.clone();
        Memo::new(move |_| text::default_of(&info, base.get()))
    };
    let control = match info.kind.clone() {
        ParamKind::Switch => switch(value, on_change, &id, &help_id).into_any(),
        ParamKind::Choice(options) => choice(options, value, on_change, &id, &help_id).into_any(),
        ParamKind::Number | ParamKind::Integer => number(info.clone(), value, on_change, &id, &help_id).into_any(),
    };
    let unit = info.unit.clone();
    view! {
        <div class="param" class:param-bad=move || error.get().is_some()>
            <div class="param-head">
                <label for=id.clone()>{info.label.clone()}</label>
                <span class="param-control">{control}<span class="muted param-unit">{unit}</span></span>
            </div>
            <p class="param-help muted" id=help_id>
                {info.help.clone()}
                " "
                <Show
                    when=move || changed.get()
                    fallback=move || view! { <span class="param-default">{words}</span> }
                >
                    <button type="button" class="linklike" on:click=move |_| on_change.run((base.get_untracked(), true))>
                        {move || text::back_to(&words.get())}
                    </button>
                </Show>
            </p>
            {move || error.get().map(|error| view! { <p class="param-error" role="alert">{error}</p> })}
        </div>
    }
}

fn switch(value: Signal<Option<f64>>, on_change: Callback<(f64, bool)>, id: &str, help: &str) -> impl IntoView {
    view! {
        <input
            type="checkbox"
            class="switch"
            id=id.to_owned()
            aria-describedby=help.to_owned()
            prop:checked=move || value.get().is_some_and(|value| value > 0.5)
            on:change=move |event| on_change.run((f64::from(u8::from(event_target_checked(&event))), true))
        />
    }
}

fn choice(
    options: Vec<String>,
    value: Signal<Option<f64>>,
    on_change: Callback<(f64, bool)>,
    id: &str,
    help: &str,
) -> impl IntoView {
    view! {
        <select
            id=id.to_owned()
            aria-describedby=help.to_owned()
            prop:value=move || value.get().unwrap_or(0.0).to_string()
            on:change=move |event| {
                if let Ok(value) = event_target_value(&event).parse() {
                    on_change.run((value, true));
                }
            }
        >
            {options
                .into_iter()
                .enumerate()
                .map(|(at, option)| {
                    let selected = value.get_untracked() == Some(at as f64);
                    view! { <option value=at.to_string() selected=selected>{text::option_words(&option)}</option> }
                })
                .collect_view()}
        </select>
    }
}

fn number(
    info: ParamInfo,
    value: Signal<Option<f64>>,
    on_change: Callback<(f64, bool)>,
    id: &str,
    help: &str,
) -> impl IntoView {
    let (slider_of, slider_to) = (info.clone(), info.clone());
    let slid = move |text: String, done: bool| {
        if let Ok(at) = text.parse::<f64>() {
            on_change.run((from_slider(&slider_to, at / POSITIONS), done));
        }
    };
    let slid_done = slid.clone();
    let label = info.label.clone();
    let step = if info.kind == ParamKind::Integer { "1" } else { "any" };
    let slider = (info.max - info.min < WIDEST_SLIDER).then(|| {
        view! {
            <input
                type="range"
                class="param-slider"
                min="0"
                max=POSITIONS.to_string()
                aria-label=text::slider_label(&label)
                aria-valuetext=move || value.get().map(|value| value.to_string())
                prop:value=move || (to_slider(&slider_of, value.get().unwrap_or(0.0)) * POSITIONS).round().to_string()
                on:input=move |event| slid(event_target_value(&event), false)
                on:change=move |event| slid_done(event_target_value(&event), true)
            />
        }
    });
    view! {
        {slider}
        <input
            type="number"
            lang=env::locale()
            class="param-number num"
            id=id.to_owned()
            aria-describedby=help.to_owned()
            min=info.min.to_string()
            max=info.max.to_string()
            step=step
            prop:value=move || value.get().map(|value| value.to_string()).unwrap_or_default()
            on:change=move |event| {
                if let Ok(value) = event_target_value(&event).parse::<f64>() {
                    on_change.run((value, true));
                }
                // Whatever was not taken, the field shows what runs.
                if let Some(field) = event.target().and_then(|target| target.dyn_into::<HtmlInputElement>().ok()) {
                    field.set_value(&value.get_untracked().map(|value| value.to_string()).unwrap_or_default());
                }
            }
        />
    }
}
