//! The model that writes: prompts, their tokens as chips, the replica's blocks and steps.

mod picture;

use crate::state::App;
use crate::views::terms::prose;
use crate::{env, text, write};
use leptos::prelude::*;
use servelab_spec::protocol::WriterFiles;
use servelab_spec::writing::WriteRequest;
use wasm_bindgen::JsCast;
use web_sys::{HtmlInputElement, Url};

/// The view, folded until somebody wants it.
#[component]
pub(super) fn Write() -> impl IntoView {
    let app = App::here();
    let state = app.write;
    view! {
        <details class="write" data-testid="write">
            <summary><h2>{text::WRITE}</h2></summary>
            <p class="muted results-note">{prose(text::WRITE_NOTE)}</p>
            <div class="write-prompts">
                <label>
                    <span class="write-label">
                        {text::WRITE_BEGIN}" "
                        <select
                            data-testid="write-shared"
                            aria-label=text::WRITE_PICK
                            on:change=move |event| {
                                if let Some((_, words)) = text::WRITE_SHARED.iter().find(|(name, _)| *name == event_target_value(&event)) {
                                    state.shared.set((*words).into());
                                }
                            }
                        >
                            {text::WRITE_SHARED.iter().map(|(name, _)| view! { <option value=*name>{*name}</option> }).collect_view()}
                        </select>
                    </span>
                    <textarea
                        rows="4"
                        data-testid="write-begin"
                        aria-label=text::WRITE_BEGIN
                        prop:value=move || state.shared.get()
                        on:input=move |event| state.shared.set(event_target_value(&event))
                    />
                </label>
                <label>
                    <span class="write-label">{text::WRITE_LINES}</span>
                    <textarea
                        rows="4"
                        data-testid="write-own"
                        prop:value=move || state.own.get()
                        on:input=move |event| state.own.set(event_target_value(&event))
                    />
                </label>
            </div>
            <Settings />
            {move || state.error.get().map(|error| view! { <p class="param-error" role="alert" data-testid="write-error">{error}</p> })}
            {move || state.model.get().and_then(|model| model.notice.clone()).map(|notice| {
                view! { <p class="param-error" role="alert" data-testid="write-notice">{notice}</p> }
            })}
            <p class="muted results-note" role="status" data-testid="write-model">
                {move || match (state.loading.get(), state.model.get()) {
                    (Some((received, total)), _) => text::writer_loading(received, total),
                    (None, Some(model)) => text::writer_model(&model),
                    (None, None) => text::WRITE_LATER.into(),
                }}
            </p>
            <picture::Picture />
        </details>
    }
}

/// The largest number that a setting is asked for; its own limits are the engine's to say.
const MOST: f64 = 9e15;

/// Buttons, and how tokens are drawn.
#[component]
fn Settings() -> impl IntoView {
    let app = App::here();
    let state = app.write;
    let number = move |id: &'static str,
                       label: &'static str,
                       help: &'static str,
                       step: &'static str,
                       get: fn(&WriteRequest) -> f64,
                       set: fn(&mut WriteRequest, f64)| {
        view! {
            <label class="cold-count" title=help>
                <input
                    type="number"
                    lang=env::locale()
                    class="num"
                    min="0"
                    step=step
                    data-testid=id
                    prop:value=move || state.settings.with(get).to_string()
                    on:change=move |event| {
                        // No setting has a use for more, and what has no end would be shown as an empty field.
                        match event_target_value(&event).parse::<f64>() {
                            Ok(value) if (0.0..=MOST).contains(&value) => state.settings.update(|settings| set(settings, value)),
                            // Whatever was not taken, the field shows what is used.
                            _ => state.settings.update(|_| {}),
                        }
                    }
                />
                {label}
            </label>
        }
    };
    // Through f32's own shortest text: 0.8 shows as 0.8.
    fn plain(value: f32) -> f64 {
        value.to_string().parse().unwrap_or_default()
    }
    view! {
        <div class="cold-asked">
            <button
                type="button"
                class="main-button"
                data-testid="write-go"
                on:click=move |_| if state.busy.get_untracked() { write::stop(app) } else { write::ask(app) }
            >
                {move || if state.busy.get() { text::WRITE_STOP } else { text::WRITE_GO }}
            </button>
            <button type="button" class="quiet" data-testid="write-empty" on:click=move |_| write::choose(app, None)>
                {text::WRITE_EMPTY}
            </button>
            {number("write-tokens", text::WRITE_TOKENS, text::WRITE_TOKENS_HELP, "1", |s| s.max_tokens.into(), |s, v| s.max_tokens = v as u32)}
            {number("write-temperature", text::WRITE_TEMPERATURE, text::WRITE_TEMPERATURE_HELP, "0.1", |s| plain(s.temperature), |s, v| s.temperature = v as f32)}
            {number("write-top-k", text::WRITE_TOP_K, text::WRITE_TOP_K_HELP, "1", |s| s.top_k.into(), |s, v| s.top_k = v as u32)}
            {number("write-top-p", text::WRITE_TOP_P, text::WRITE_TOP_P_HELP, "0.05", |s| plain(s.top_p), |s, v| s.top_p = v as f32)}
            {number("write-seed", text::WRITE_SEED, text::WRITE_SEED_HELP, "1", |s| s.seed as f64, |s, v| s.seed = v as u64)}
            <label class="cold-count">
                <input type="checkbox" data-testid="write-slow" on:change=move |event| state.slow.set(event_target_checked(&event)) />
                {text::WRITE_SLOW}
            </label>
        </div>
        <details class="write-own-model">
            <summary>{text::WRITE_OWN_MODEL}</summary>
            <Files />
        </details>
    }
}

/// Two files from the visitor's disk.
#[component]
fn Files() -> impl IntoView {
    let app = App::here();
    let chosen = StoredValue::new([None::<String>, None]);
    let pick = move |at: usize, event: leptos::ev::Event| {
        let input = event.target().and_then(|target| target.dyn_into::<HtmlInputElement>().ok());
        let file = input.and_then(|input| input.files()).and_then(|files| files.get(0));
        // Addresses live as long as the page: a file that is given up is a few bytes of book-keeping.
        let address = file.and_then(|file| Url::create_object_url_with_blob(&file).ok());
        chosen.update_value(|chosen| chosen[at] = address);
        if let [Some(weights), Some(tokenizer)] = chosen.get_value() {
            write::choose(app, Some(WriterFiles { weights, tokenizer }));
        }
    };
    view! {
        <div class="cold-asked">
            <label>
                {text::WRITE_WEIGHTS}" "
                <input type="file" accept=".safetensors" data-testid="write-weights" on:change=move |event| pick(0, event) />
            </label>
            <label>
                {text::WRITE_TOKENIZER}" "
                <input type="file" accept=".json" data-testid="write-tokenizer" on:change=move |event| pick(1, event) />
            </label>
        </div>
        <p class="muted results-note">{prose(text::WRITE_FILES_NOTE)}</p>
    }
}
