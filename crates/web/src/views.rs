//! Everything on the screen but the fleet itself, one file per region.

mod chart;
mod charts;
mod classes;
mod cold;
mod controls;
mod curve;
mod devices;
mod embed;
mod export;
mod files;
mod foresight;
mod header;
mod icons;
mod learn;
mod legend;
mod named;
mod param;
mod pick;
mod playbar;
mod policies;
mod predict;
mod question;
mod results;
mod stages;
mod status;
mod story;
mod study;
mod tenants;
mod terminal;
mod terms;
mod traffic;
mod why;
mod write;

pub(crate) use results::Sort;

use crate::link::Host;
use crate::state::{App, Phase};
use crate::{address, cold as cold_start, control, env, first, format, keys, look, playback, text};
use leptos::prelude::*;

/// The page.
#[component]
pub(crate) fn Page() -> impl IntoView {
    format::write_with(env::marks());
    let app = App::new();
    provide_context(app);
    look::watch(app);
    env::watch_hidden(move |hidden| control::visibility_changed(app, hidden));
    playback::watch(app);
    address::watch(app);
    cold_start::watch(app);
    // Before the other keys: what explains itself is closed first.
    let note = view! { <terms::Note /> };
    keys::watch(app);
    app.run.phase.set(Phase::Loading);
    control::open(app, Host::Cpu);
    first::show(app);
    view! {
        <header::Header />
        <main id="main" tabindex="-1">
            <learn::Path />
            <question::Question />
            <predict::Predict />
            <learn::After />
            <status::Notices />
            <div class="bench">
                <section class="show" aria-label=text::STAGE_REGION>
                    <stages::Stages />
                    <playbar::Playbar />
                    <why::Why />
                    <legend::Legend />
                </section>
                <controls::Controls />
            </div>
            <results::Results />
            <charts::Charts />
            <foresight::Foresight />
            <write::Write />
            <traffic::Traffic />
            <cold::Cold />
            <study::Study />
            <devices::Devices />
            <embed::Embed />
            <terms::Glossary />
        </main>
        <header::Footer />
        <story::StoryPanel />
        {note}
    }
}
