//! The spec in the address. Only what differs from the preset stands there, in a form that people can read.
//!
//! Dragging a control rewrites the present entry of the history; letting go makes a new one, so that *back* undoes one
//! change and not one pixel.

use crate::env;
use crate::state::App;
use leptos::prelude::*;
use servelab_spec::catalog::Catalog;
use servelab_spec::{Spec, patch};
use std::time::Duration;
use wasm_bindgen::JsValue;

/// Browsers refuse an address that is rewritten too often; twice a second is far below what they mind.
const REWRITE_EVERY: Duration = Duration::from_millis(500);

fn hash() -> String {
    env::window().and_then(|window| window.location().hash().ok()).unwrap_or_default()
}

/// The spec of the present address and what could not be used of it. Never fails.
pub(crate) fn read(catalog: &Catalog) -> (Spec, Vec<String>) {
    match hash().as_str() {
        "" | "#" => (catalog.presets.first().map_or_else(Spec::default, |preset| preset.spec.clone()), Vec::new()),
        hash => {
            let (spec, mut said) = patch::decode(hash, &catalog.presets);
            let base = catalog.presets.iter().find(|preset| preset.name == spec.preset).map(|preset| &preset.spec);
            let (spec, more) = catalog.repair(spec, base.unwrap_or(&Spec::default()));
            said.extend(more);
            (spec, said)
        }
    }
}

/// The address of the draft, whole.
pub(crate) fn link(app: App) -> String {
    let here = env::window().and_then(|window| window.location().href().ok()).unwrap_or_default();
    let page = here.split('#').next().unwrap_or_default();
    format!("{page}{}", app.fragment.get_untracked().unwrap_or_default())
}

/// What differs from the draft's preset, as a fragment; nothing where the preset is not known.
pub(crate) fn fragment(draft: &Spec, catalog: &Catalog) -> Option<String> {
    let base = catalog.presets.iter().find(|preset| preset.name == draft.preset)?;
    Some(format!("#{}", patch::encode(draft, &base.spec)))
}

fn write(url: &str, push: bool) {
    let Some(history) = env::window().and_then(|window| window.history().ok()) else { return };
    // Refused in some sandboxed frames: then the address just stays as it is.
    let _ = if push {
        history.push_state_with_url(&JsValue::NULL, "", Some(url))
    } else {
        history.replace_state_with_url(&JsValue::NULL, "", Some(url))
    };
}

/// Keeps address and draft in step.
pub(crate) fn watch(app: App) {
    let committed = app.committed;
    committed.set_value(hash());
    let scheduled = StoredValue::new_local(false);
    Effect::new(move |_| {
        app.draft.track();
        if app.catalog.with(Option::is_none) || scheduled.get_value() {
            return;
        }
        scheduled.set_value(true);
        set_timeout(
            move || {
                scheduled.set_value(false);
                if let Some(url) = app.fragment.get_untracked().filter(|url| *url != hash()) {
                    write(&url, false);
                    // A bare address has its preset written into it: that is where *back* leads.
                    if committed.with_value(String::is_empty) {
                        committed.set_value(url);
                    }
                }
            },
            REWRITE_EVERY,
        );
    });
    let listener = window_event_listener_untyped("popstate", move |_| {
        let catalog = app.catalog.get_untracked();
        let Some(catalog) = catalog else { return };
        let (spec, warnings) = read(&catalog);
        app.notices.set(warnings);
        committed.set_value(hash());
        if app.draft.with_untracked(|draft| *draft != spec) {
            app.draft.set(spec);
            crate::control::start(app);
        }
    });
    on_cleanup(move || listener.remove());
}

/// A change is final: it becomes an entry of the history of its own.
pub(crate) fn commit(app: App) {
    let Some(url) = app.fragment.get_untracked() else { return };
    let before = app.committed.get_value();
    if before == url {
        return;
    }
    if !before.is_empty() {
        write(&before, false);
    }
    write(&url, !before.is_empty());
    app.committed.set_value(url);
}
