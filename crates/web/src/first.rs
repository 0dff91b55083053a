//! The answer that is there before the run: the report of the first preset, computed when the page was built (`www/first.json`) and fetched beside
//! the page's own wasm (`www/boot.js`). A first visitor reads it while the simulator is still on its way, and the run that follows puts its own in its place.

use crate::state::App;
use leptos::prelude::*;
use servelab_spec::{Report, wire};
use std::sync::Arc;
use wasm_bindgen::JsCast;
use wasm_bindgen_futures::{JsFuture, spawn_local};

/// What [`crate::state::Run::reported`] says of it: no run has this number.
pub(crate) const BEFORE: u32 = u32::MAX;

/// Shows it as soon as it is there, unless the simulator was quicker.
pub(crate) fn show(app: App) {
    let fetched = js_sys::Reflect::get(&js_sys::global(), &"servelabFirst".into());
    let Some(fetched) = fetched.ok().and_then(|fetched| fetched.dyn_into::<js_sys::Promise>().ok()) else { return };
    spawn_local(async move {
        let Some(text) = JsFuture::from(fetched).await.ok().and_then(|text| text.as_string()) else { return };
        // A file of another version is as good as none.
        let Ok(report) = wire::from_text::<Report>(&text) else { return };
        if app.catalog.with_untracked(Option::is_some) {
            return;
        }
        // The report first: it knows what its policies are called.
        let spec = report.spec.clone();
        app.run.reported.set(BEFORE);
        app.run.report.set(Some(Arc::new(report)));
        app.draft.set(spec.clone());
        app.run.spec.set(Some(Arc::new(spec)));
    });
}
