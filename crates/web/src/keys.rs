//! The keyboard: space plays, arrows step, Home and End jump, digits choose a policy, Escape closes.

use crate::playback;
use crate::state::App;
use leptos::prelude::*;
use wasm_bindgen::JsCast;
use web_sys::{Element, KeyboardEvent};

/// Listens on the whole window, and leaves keys alone that the focused element has a use for.
pub(crate) fn watch(app: App) {
    let listener = window_event_listener(leptos::ev::keydown, move |event: KeyboardEvent| {
        if event.ctrl_key() || event.meta_key() || event.alt_key() || event.default_prevented() {
            return;
        }
        let key = event.key();
        if key == "Escape" {
            // The panel first, then the strip.
            if app.panel.get_untracked() {
                app.panel.set(false);
            } else {
                app.story.set(None);
            }
            return;
        }
        if taken(&event, &key) || app.run.spec.with_untracked(Option::is_none) {
            return;
        }
        match key.as_str() {
            " " => playback::toggle(app),
            "ArrowRight" => playback::step(app),
            "ArrowLeft" => playback::step_back(app),
            "Home" => playback::seek(app, 0.0),
            "End" => playback::seek(app, f64::INFINITY),
            digit => {
                let Some(wanted) = digit.parse::<u32>().ok().and_then(|digit| digit.checked_sub(1)) else { return };
                let policies =
                    app.run.spec.with_untracked(|spec| spec.as_ref().map_or(0, |spec| spec.contenders().len()));
                if (wanted as usize) < policies {
                    app.play.follow.set(false);
                    app.play.focus.set(wanted);
                }
            }
        }
        event.prevent_default();
    });
    on_cleanup(move || listener.remove());
}

/// Whether the focused element itself answers this key.
fn taken(event: &KeyboardEvent, key: &str) -> bool {
    let Some(element) = event.target().and_then(|target| target.dyn_into::<Element>().ok()) else { return false };
    let within = |selector: &str| element.closest(selector).is_ok_and(|found| found.is_some());
    if within("input, select, textarea, [role=slider], [contenteditable], [data-keys]") {
        return true;
    }
    key == " " && within("button, summary, a")
}
