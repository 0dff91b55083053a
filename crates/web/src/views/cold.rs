//! The cold start of the draft: its stages and probes on one time axis, what optimisations are worth, what weights take at least.

mod floors;
mod timeline;

use crate::state::App;
use crate::views::terms::prose;
use crate::{address, env, text};
use leptos::prelude::*;
use servelab_spec::coldstart::{ColdStart, Saving};
use servelab_spec::patch;
use std::sync::Arc;

/// The view, folded until somebody wants it.
#[component]
pub(super) fn Cold() -> impl IntoView {
    let app = App::here();
    let cold = app.cold;
    // A preset that is about cold starts opens it.
    Effect::new(move |_| {
        let about = app.preset().is_some_and(|preset| preset.spec.startup != Default::default());
        if about {
            cold.open.set(true);
        }
    });
    view! {
        <details
            class="cold"
            data-testid="cold"
            prop:open=move || cold.open.get()
            on:toggle=move |event| cold.open.set(event_target_open(&event))
        >
            <summary><h2>{text::COLD}</h2></summary>
            <p class="muted results-note">{prose(text::COLD_NOTE)}</p>
            <Asked />
            {move || cold.error.get().map(|error| view! { <p class="param-error" role="alert" data-testid="cold-error">{error}</p> })}
            {move || match cold.answer.get() {
                None => view! { <p class="muted" role="status">{text::COLD_WAIT}</p> }.into_any(),
                Some(answer) => view! { <Answered answer=answer /> }.into_any(),
            }}
            <floors::Floors />
        </details>
    }
}

fn event_target_open(event: &leptos::ev::Event) -> bool {
    use wasm_bindgen::JsCast;
    let details = event.target().and_then(|target| target.dyn_into::<web_sys::Element>().ok());
    details.is_some_and(|details| details.has_attribute("open"))
}

/// What is asked: which start, how many at once, under which load.
#[component]
fn Asked() -> impl IntoView {
    let app = App::here();
    let cold = app.cold;
    let startups = Memo::new(move |_| app.catalog.with(|c| c.as_ref().map(|c| c.startups.clone()).unwrap_or_default()));
    let chosen = Memo::new(move |_| {
        let startup = app.draft.with(|draft| draft.startup);
        startups.with(|all| all.iter().find(|info| info.startup == startup).cloned())
    });
    let choose = move |name: String| {
        if let Some(info) = startups.with_untracked(|all| all.iter().find(|info| info.name == name).cloned()) {
            app.draft.update(|draft| draft.startup = info.startup);
            address::commit(app);
        }
    };
    let refused = RwSignal::new(None::<String>);
    let count = move |id: &'static str, label: &'static str, help: &'static str, value: RwSignal<u32>, least: u32| {
        view! {
            <label class="cold-count" title=help>
                <input
                    type="number"
                    lang=env::locale()
                    class="num"
                    data-testid=id
                    min=least.to_string()
                    step="1"
                    prop:value=move || value.get().to_string()
                    on:change=move |event| {
                        match event_target_value(&event).parse::<u32>() {
                            Ok(number) if number >= least => {
                                refused.set(None);
                                value.set(number);
                            }
                            // What was not taken does not stand there as if it were; the sentence below is about what does.
                            _ => {
                                refused.set(Some(text::count_refused(label, &event_target_value(&event), least)));
                                value.notify();
                            }
                        }
                    }
                />
                {label}
            </label>
        }
    };
    view! {
        <div class="cold-asked">
            <label>
                {text::COLD_FROM}" "
                <select
                    data-testid="cold-from"
                    prop:value=move || chosen.get().map(|info| info.name).unwrap_or_default()
                    on:change=move |event| choose(event_target_value(&event))
                >
                    <option value="" disabled=true selected=move || chosen.get().is_none()>{text::COLD_OWN}</option>
                    {move || {
                        startups
                            .get()
                            .into_iter()
                            .map(|info| {
                                let name = info.name.clone();
                                let selected = move || chosen.with(|chosen| chosen.as_ref().is_some_and(|of| of.name == name));
                                view! { <option value=info.name.clone() selected=selected>{info.label}</option> }
                            })
                            .collect_view()
                    }}
                </select>
            </label>
            {count("cold-together", text::COLD_TOGETHER, text::COLD_TOGETHER_HELP, cold.together, 1)}
            {count("cold-in-flight", text::COLD_IN_FLIGHT, text::COLD_IN_FLIGHT_HELP, cold.in_flight, 0)}
        </div>
        {move || refused.get().map(|words| view! { <p class="param-error" role="alert">{words}</p> })}
        {move || {
            chosen.get().map(|info| view! { <p class="muted results-note">{text::COLD_SOURCE}{info.source}</p> })
        }}
    }
}

/// What was answered.
#[component]
fn Answered(answer: Arc<ColdStart>) -> impl IntoView {
    let app = App::here();
    let together = app.cold.together.get_untracked();
    let (manifest, savings) = (answer.manifest.clone(), answer.savings.clone());
    let empty = answer.serves_s == 0.0 && answer.probes.is_empty();
    let last = (together > 1).then(|| text::last_of(together, answer.together_s));
    view! {
        <p class="findings cold-sentence" role="status" data-testid="cold-sentence">
            {answer.sentence.clone()}
            {last.map(|last| format!(" {last}"))}
        </p>
        {if empty {
            view! { <p class="muted">{text::COLD_NOTHING}</p> }.into_any()
        } else {
            view! { <timeline::Timeline answer=answer /> }.into_any()
        }}
        <fieldset class="cold-savings">
            <legend><h3>{text::COLD_OPTIMISATIONS}</h3></legend>
            <ul>{savings.into_iter().map(|saving| view! { <Optimisation saving=saving /> }).collect_view()}</ul>
        </fieldset>
        <p class="exports">
            <button
                type="button"
                data-testid="cold-manifest"
                on:click=move |_| env::download(&manifest.file, "text/plain", &manifest.text)
            >
                {text::COLD_MANIFEST}
            </button>
        </p>
    }
}

/// A tick box and what it is worth.
#[component]
fn Optimisation(saving: Saving) -> impl IntoView {
    let app = App::here();
    let worth = text::saves(&saving);
    let id = format!("cold-{}-{}", saving.key.replace('.', "-"), saving.with);
    let (key, with, without, help) = (saving.key, saving.with, saving.without, saving.help);
    let set = move |on: bool| {
        let value = if on { &with } else { &without };
        let changed = app.draft.with_untracked(|draft| {
            // The two ways to overlap exclude each other.
            let other = match key.as_str() {
                "startup.streamed" if on => Some("startup.mapped"),
                "startup.mapped" if on => Some("startup.streamed"),
                _ => None,
            };
            let draft = other.map_or(Ok(draft.clone()), |other| patch::set(draft, other, "off"))?;
            patch::set(&draft, &key, value)
        });
        match changed {
            Ok(spec) => {
                app.draft.set(spec);
                address::commit(app);
            }
            Err(error) => app.cold.error.set(Some(text::sentence(&error.to_string()))),
        }
    };
    view! {
        <li>
            <label title=help>
                <input
                    type="checkbox"
                    data-testid=id
                    prop:checked=saving.on
                    on:change=move |event| set(event_target_checked(&event))
                />
                {saving.label}
            </label>
            <span class="muted num">{worth}</span>
        </li>
    }
}
