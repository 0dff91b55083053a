//! The answer to carry away: JSON and CSV of the report as it came.

use crate::env;
use crate::text;
use leptos::prelude::*;
use servelab_spec::Report;
use servelab_spec::csv::report_csv;
use servelab_spec::wire;
use std::sync::Arc;

/// Buttons that offer the report as a file.
#[component]
pub(super) fn Export(report: Arc<Report>) -> impl IntoView {
    let name = format!("servelab-{}-seed{}", report.spec.preset, report.spec.seed);
    let (json, csv) = (report.clone(), report.clone());
    let configurations =
        report.policies.iter().filter_map(|policy| Some((policy.label.clone(), policy.configuration.clone()?)));
    let scalers = report.policies.iter().filter_map(|policy| {
        let scaling = policy.scaling.as_ref()?;
        Some((scaling.label.clone(), scaling.configuration.clone()?))
    });
    let clients = report.policies.iter().flat_map(|policy| {
        let written = policy.clients.iter().flat_map(|clients| clients.configurations.clone());
        written.map(|configuration| (policy.label.clone(), configuration))
    });
    let configurations = configurations
        .chain(scalers)
        .chain(clients)
        .chain(report.configurations.iter().map(|of| (text::GROUP_GATEWAY.to_owned(), of.clone())))
        .map(|(label, configuration)| {
            let title = text::configuration_title(&label, &configuration.project);
            view! {
                <button
                    type="button"
                    data-testid="export-configuration"
                    title=title
                    on:click=move |_| env::download(&configuration.file, "text/plain", &configuration.text)
                >
                    {text::configuration_button(&configuration.project, &label)}
                </button>
            }
        })
        .collect_view();
    let (json_name, csv_name) = (format!("{name}.json"), format!("{name}.csv"));
    view! {
        <p class="exports">
            <span class="muted">{text::EXPORT}</span>
            <button
                type="button"
                data-testid="export-json"
                on:click=move |_| {
                    if let Ok(text) = wire::to_pretty(&*json) {
                        env::download(&json_name, "application/json", &text);
                    }
                }
            >
                "JSON"
            </button>
            <button type="button" data-testid="export-csv" on:click=move |_| env::download(&csv_name, "text/csv", &report_csv(&csv))>
                "CSV"
            </button>
            {configurations}
        </p>
    }
}
