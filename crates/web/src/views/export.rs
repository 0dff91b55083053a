//! The answer to carry away: JSON and CSV of the report as it came.

use crate::env;
use crate::text;
use leptos::prelude::*;
use servelab_spec::Report;
use servelab_spec::csv::report_csv;
use std::sync::Arc;

/// Buttons that offer the report as a file.
#[component]
pub(super) fn Export(report: Arc<Report>) -> impl IntoView {
    let name = format!("servelab-{}-seed{}", report.spec.preset, report.spec.seed);
    let (json, csv) = (report.clone(), report);
    let (json_name, csv_name) = (format!("{name}.json"), format!("{name}.csv"));
    view! {
        <p class="exports">
            <span class="muted">{text::EXPORT}</span>
            <button
                type="button"
                data-testid="export-json"
                on:click=move |_| {
                    if let Ok(text) = serde_json::to_string_pretty(&*json) {
                        env::download(&json_name, "application/json", &text);
                    }
                }
            >
                "JSON"
            </button>
            <button type="button" data-testid="export-csv" on:click=move |_| env::download(&csv_name, "text/csv", &report_csv(&csv))>
                "CSV"
            </button>
        </p>
    }
}
