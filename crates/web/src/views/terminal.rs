//! The same run on a terminal: the command, to be read and copied.

use super::files::copy_button;
use crate::state::App;
use crate::text;
use leptos::prelude::*;
use servelab_spec::command;
use servelab_spec::experiment::{ExecutionMode, WorkloadSpec};

/// The panel under the head, while it is open.
#[component]
pub(super) fn Terminal(open: RwSignal<bool>) -> impl IntoView {
    let app = App::here();
    let command = Memo::new(move |_| {
        let base = app.preset().map(|preset| preset.spec).unwrap_or_default();
        app.draft.with(|draft| format!("{} --format json", command::run(draft, &base)))
    });
    let note = move || {
        app.draft.with(|draft| match (&draft.workload, draft.execution.mode) {
            (WorkloadSpec::Trace(_), _) => text::TERMINAL_TRACE,
            (_, ExecutionMode::Tinygpt) => text::TERMINAL_LIVE,
            _ => text::TERMINAL_SAME,
        })
    };
    view! {
        <Show when=move || open.get()>
            <section class="terminal" id="terminal" aria-label=text::TERMINAL_REGION data-testid="terminal">
                <pre class="embed-code" tabindex="0" data-testid="terminal-command">{move || command.get()}</pre>
                <p class="muted results-note">{note}</p>
                {copy_button("terminal-copy", text::TERMINAL_COPY, move || command.get_untracked())}
            </section>
        </Show>
    }
}
