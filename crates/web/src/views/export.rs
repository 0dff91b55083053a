//! The answer to carry away: the report as it came, and what a worker makes of the run for other tools.

use super::files::{Kind, copy_button, save};
use crate::state::App;
use crate::{control, env, text};
use leptos::prelude::*;
use servelab_spec::Report;
use servelab_spec::csv::report_csv;
use servelab_spec::protocol::ExportKind;
use servelab_spec::report::Configuration;
use servelab_spec::wire::to_pretty;
use std::sync::Arc;

/// What a worker makes: test id, name and a word on it.
const MADE: [(ExportKind, &str, &str, &str); 4] = [
    (ExportKind::Markdown, "export-markdown", text::EXPORT_MARKDOWN, text::EXPORT_MARKDOWN_NOTE),
    (ExportKind::Methods, "export-methods", text::EXPORT_METHODS, text::EXPORT_METHODS_NOTE),
    (ExportKind::Perfetto, "export-perfetto", text::EXPORT_PERFETTO, text::EXPORT_PERFETTO_NOTE),
    (ExportKind::Prometheus, "export-prometheus", text::EXPORT_PROMETHEUS, text::EXPORT_PROMETHEUS_NOTE),
];

/// A folded list of what the report can be saved as.
#[component]
pub(super) fn Export(report: Arc<Report>) -> impl IntoView {
    let app = App::here();
    let name = format!("servelab-{}-seed{}", report.spec.preset, report.spec.seed);
    let (json, csv) = (report.clone(), report.clone());
    // A worker answers of the run it has: not of an earlier one whose report is still shown.
    let old = move || app.run.reported.get() != app.run.number.get();
    let made = move |at: usize| {
        let (kind, id, label, note) = MADE[at];
        view! {
            <li>
                <button type="button" data-testid=id disabled=old on:click=move |_| control::export(app, kind)>
                    {label}
                </button>
                <span class="muted">{note}</span>
            </li>
        }
        .into_any()
    };
    let settings = configurations(&report);
    view! {
        <details class="more-table export" data-testid="exports">
            <summary>{text::EXPORT}</summary>
            <h3>{text::EXPORT_NUMBERS}</h3>
            <ul>
                <li>
                    {save(Kind::Json, "export-json", &name, move || to_pretty(&*json).ok())}
                    <span class="muted">{text::EXPORT_JSON_NOTE}</span>
                </li>
                <li>
                    {save(Kind::Csv, "export-csv", &name, move || Some(report_csv(&csv)))}
                    <span class="muted">{text::EXPORT_CSV_NOTE}</span>
                </li>
                {made(0)}
                {made(1)}
            </ul>
            {move || app.run.methods.get().map(|said| view! { <Methods said=said /> })}
            <h3>{text::EXPORT_TOOLS}</h3>
            <ul>{made(2)} {made(3)}</ul>
            {settings}
        </details>
    }
}

/// The methods paragraph, to be read and copied.
#[component]
fn Methods(said: String) -> impl IntoView {
    let text = said.clone();
    view! {
        <blockquote class="methods" tabindex="0" data-testid="methods">{said}</blockquote>
        {copy_button("methods-copy", text::METHODS_COPY, move || text.clone())}
    }
}

/// Policies, scalers, clients and the gateway as settings of the systems they come from.
fn configurations(report: &Report) -> AnyView {
    let policies = report.policies.iter().filter_map(|policy| Some((&policy.label, policy.configuration.as_ref()?)));
    let scalers = report.policies.iter().filter_map(|policy| {
        let scaling = policy.scaling.as_ref()?;
        Some((&scaling.label, scaling.configuration.as_ref()?))
    });
    let clients = report.policies.iter().flat_map(|policy| {
        let written = policy.clients.iter().flat_map(|clients| &clients.configurations);
        written.map(move |configuration| (&policy.label, configuration))
    });
    let mut all: Vec<(String, Configuration)> = Vec::new();
    for (label, of) in policies.chain(scalers).chain(clients) {
        all.push((label.clone(), of.clone()));
    }
    all.extend(report.configurations.iter().map(|of| (text::GROUP_GATEWAY.to_owned(), of.clone())));
    if all.is_empty() {
        return ().into_any();
    }
    let buttons = all.into_iter().map(|(label, configuration)| {
        let title = text::configuration_title(&label, &configuration.project);
        view! {
            <li>
                <button
                    type="button"
                    data-testid="export-configuration"
                    title=title
                    on:click=move |_| env::download(&configuration.file, "text/plain", &configuration.text)
                >
                    {configuration.project.clone()}
                </button>
                <span class="muted">{label}</span>
            </li>
        }
    });
    view! {
        <h3>{text::EXPORT_SETTINGS}</h3>
        <ul>{buttons.collect_view()}</ul>
    }
    .into_any()
}
