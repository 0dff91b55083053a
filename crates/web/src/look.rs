//! Scheme and motion: what the visitor chose, else what the system says.

use crate::env;
use crate::state::{App, SchemeChoice};
use leptos::prelude::*;

const STORED_AS: &str = "servelab.scheme";

/// Keeps the look in step with the system and the visitor's choice.
pub(crate) fn watch(app: App) {
    let look = app.look;
    look.choice.set(match env::stored(STORED_AS).as_deref() {
        Some("light") => SchemeChoice::Light,
        Some("dark") => SchemeChoice::Dark,
        _ => SchemeChoice::Auto,
    });
    env::watch_media("(prefers-color-scheme: dark)", move |dark| look.system_dark.set(dark));
    env::watch_media("(prefers-reduced-motion: reduce)", move |reduce| look.reduced_motion.set(reduce));
    Effect::new(move |_| {
        let name = if look.dark() { "dark" } else { "light" };
        if let Some(root) = env::root() {
            let _ = root.set_attribute("data-scheme", name);
        }
        env::set_root_properties(&look.scheme().properties());
    });
}

/// Auto, light, dark, and round again.
pub(crate) fn next(app: App) {
    let (choice, stored) = match app.look.choice.get_untracked() {
        SchemeChoice::Auto => (SchemeChoice::Light, "light"),
        SchemeChoice::Light => (SchemeChoice::Dark, "dark"),
        SchemeChoice::Dark => (SchemeChoice::Auto, "auto"),
    };
    app.look.choice.set(choice);
    env::store(STORED_AS, stored);
}
