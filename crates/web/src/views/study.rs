//! Sweep and knee: which values, how many seeds, and what came out. Closed until somebody asks.

mod axis;
mod knee;
mod picture;
mod progress;
mod sweep;
mod table;

use crate::env;
use crate::state::App;
use crate::study::Work;
use crate::study::form::{self, Choice};
use crate::text;
use crate::views::terms::prose;
use leptos::prelude::*;
use servelab_spec::SCHEMA_VERSION;
use servelab_spec::knee::KneeSpec;
use servelab_spec::sweep::SweepSpec;
use servelab_spec::validate::SpecError;
use std::sync::Arc;
use wasm_bindgen::JsCast;
use web_sys::Element;

/// The section.
#[component]
pub(super) fn Study() -> impl IntoView {
    let app = App::here();
    let open = app.study.open;
    let toggled = move |event: leptos::ev::Event| {
        let details = event.target().and_then(|target| target.dyn_into::<Element>().ok());
        open.set(details.is_some_and(|details| details.has_attribute("open")));
    };
    let choices = Memo::new(move |_| {
        app.catalog.with(|catalog| {
            let catalog = catalog.as_ref();
            catalog.map(|catalog| app.draft.with(|draft| form::choices(catalog, draft))).unwrap_or_default()
        })
    });
    keep_axes(app, choices);
    view! {
        <section class="study" aria-label=text::STUDY_REGION data-testid="study">
            <details on:toggle=toggled>
                <summary data-testid="study-open"><h2>{text::STUDY}</h2></summary>
                <p class="muted results-note">{prose(text::STUDY_NOTE)}</p>
                <Show when=move || open.get()>
                    <sweep::Sweep choices=choices />
                    <knee::Knee />
                </Show>
            </details>
        </section>
    }
}

/// The axes follow the experiment: another one starts with its own, and one that is gone from the spec goes from the form.
fn keep_axes(app: App, choices: Memo<Vec<Choice>>) {
    let axes = app.study.axes;
    let preset = Memo::new(move |_| app.draft.with(|draft| (draft.preset.clone(), draft.workload.kind())));
    Effect::new(move |before: Option<(String, &'static str)>| {
        let (now, all) = (preset.get(), choices.get());
        let moved = before.is_some_and(|before| before != now);
        for (at, axis) in axes.into_iter().enumerate() {
            let known = axis.with_untracked(|axis| {
                axis.as_ref().is_some_and(|axis| all.iter().any(|choice| choice.key == axis.key))
            });
            if moved || !known {
                axis.set(form::first(&all).filter(|_| at == 0).map(form::AxisForm::usual));
            }
        }
        now
    });
}

/// The sweep as it stands in the form, checked, and its number of runs.
fn sweep_of(app: App) -> Result<(Work, u32), SpecError> {
    let (spec, _) = app.draft.with(form::priced);
    let axes: Vec<_> = app.study.axes.iter().filter_map(|axis| axis.get()).collect();
    let axes = axes.iter().map(form::AxisForm::axis).collect::<Result<_, _>>()?;
    let sweep = SweepSpec { version: SCHEMA_VERSION, spec, axes, seeds: app.study.seeds.get() };
    let items = app.catalog.with(|catalog| match catalog {
        Some(catalog) => form::check(catalog, &sweep),
        None => sweep.grid().map(|grid| grid.cells()),
    })?;
    Ok((Work::Sweep(sweep), items))
}

/// The search for knees as it stands in the form, and its number of trials.
fn knee_of(app: App) -> Result<(Work, u32), SpecError> {
    let (spec, _) = app.draft.with(form::priced);
    if let Some(error) = app.catalog.with(|catalog| catalog.as_ref().and_then(|catalog| catalog.check(&spec).err())) {
        return Err(error);
    }
    // A recorded trace is played faster or slower.
    let varied = ["workload.rate", "workload.speed"];
    if !servelab_spec::patch::entries(&spec).iter().any(|(key, _)| varied.contains(&key.as_str())) {
        return Err(SpecError::new("workload", text::NO_RATE_FOUND, text::NO_RATE_ACCEPTED));
    }
    let seeds = app.study.knee_seeds.get();
    let items = spec.policies.len() as u32 * seeds;
    Ok((Work::Knee(KneeSpec { version: SCHEMA_VERSION, spec, seeds }), items))
}

/// A number with its name; what is no number in range is not taken.
#[component]
fn NumberField(
    label: &'static str,
    id: String,
    #[prop(optional)] unit: String,
    #[prop(into)] value: Signal<f64>,
    #[prop(default = (f64::NEG_INFINITY, f64::INFINITY))] range: (f64, f64),
    #[prop(default = false)] whole: bool,
    on_change: Callback<f64>,
) -> impl IntoView {
    let write = move |event: leptos::ev::Event| {
        let field = event.target().and_then(|target| target.dyn_into::<web_sys::HtmlInputElement>().ok());
        let Some(field) = field else { return };
        match field.value().parse::<f64>() {
            Ok(number) if (range.0..=range.1).contains(&number) && (!whole || number.fract() == 0.0) => {
                on_change.run(number);
            }
            // The field shows what will be run.
            _ => field.set_value(&value.get_untracked().to_string()),
        }
    };
    let bound = |end: f64| end.is_finite().then(|| end.to_string());
    view! {
        <label class="study-field">
            <span>{label}</span>
            <input
                type="number"
                lang=env::locale()
                class="num"
                id=id.clone()
                data-testid=id
                min=bound(range.0)
                max=bound(range.1)
                step=if whole { "1" } else { "any" }
                prop:value=move || value.get().to_string()
                on:change=write
            />
            {(!unit.is_empty()).then(|| view! { <span class="muted">{unit}</span> })}
        </label>
    }
}

/// Whether what stands there is of something else than the form says now.
fn stale(asked: Option<Arc<Work>>, now: &Result<(Work, u32), SpecError>) -> bool {
    asked.is_some_and(|asked| !now.as_ref().is_ok_and(|(work, _)| *work == *asked))
}
