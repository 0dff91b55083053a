//! Name, scheme, link; and the foot of the page.

use super::icons;
use super::terminal::Terminal;
use crate::state::{App, SchemeChoice};
use crate::{address, env, look, text};
use leptos::prelude::*;
use std::time::Duration;
use wasm_bindgen::JsCast;

/// How long a button says that it has done what it was asked.
const SAID_FOR: Duration = Duration::from_secs(2);

/// The head of the page.
#[component]
pub(super) fn Header() -> impl IntoView {
    let app = App::here();
    let copied = RwSignal::new(None::<bool>);
    let open = RwSignal::new(false);
    let copy = move |_| {
        address::commit(app);
        let link = address::link(app);
        leptos::task::spawn_local(async move {
            copied.set(Some(env::copy(&link).await));
            set_timeout(move || copied.set(None), SAID_FOR);
        });
    };
    let skip = move |_| {
        let main =
            env::window().and_then(|window| window.document()).and_then(|document| document.get_element_by_id("main"));
        if let Some(main) = main.and_then(|main| main.dyn_into::<web_sys::HtmlElement>().ok()) {
            let _ = main.focus();
        }
    };
    view! {
        <button type="button" class="skip" on:click=skip>{text::SKIP}</button>
        <header class="head">
            <p class="name">{text::NAME}</p>
            <p class="tagline muted">{text::TAGLINE}</p>
            <div class="head-tools">
                <button type="button" class="quiet" on:click=move |_| look::next(app) title=text::SCHEME_TITLE>
                    {icons::scheme()}
                    <span class="tool-text">
                        {move || match app.look.choice.get() {
                            SchemeChoice::Auto => text::SCHEME_AUTO,
                            SchemeChoice::Light => text::SCHEME_LIGHT,
                            SchemeChoice::Dark => text::SCHEME_DARK,
                        }}
                    </span>
                </button>
                <button
                    type="button"
                    class="quiet"
                    title=text::TERMINAL_TITLE
                    aria-expanded=move || open.get().to_string()
                    aria-controls="terminal"
                    data-testid="open-terminal"
                    on:click=move |_| open.update(|open| *open = !*open)
                >
                    {icons::terminal()}
                    <span class="tool-text">{text::TERMINAL}</span>
                </button>
                <button type="button" class="quiet" on:click=copy title=text::COPY_TITLE data-testid="copy-link">
                    {icons::link()}
                    <span class="tool-text" role="status">
                        {move || match copied.get() {
                            None => text::COPY_LINK,
                            Some(true) => text::COPIED,
                            Some(false) => text::NOT_COPIED,
                        }}
                    </span>
                </button>
            </div>
        </header>
        <Terminal open=open />
    }
}

/// The foot of the page.
#[component]
pub(super) fn Footer() -> impl IntoView {
    view! {
        <footer class="foot muted">
            <p>{text::FOOT}</p>
            <p>{text::KEYS}</p>
        </footer>
    }
}
