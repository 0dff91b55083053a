//! The answer to carry away: JSON and CSV of the report as it came.

use crate::env;
use crate::text;
use leptos::prelude::*;
use serde_json::Value;
use servelab_spec::Report;
use std::fmt::Write;
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
            <button type="button" data-testid="export-csv" on:click=move |_| env::download(&csv_name, "text/csv", &to_csv(&csv))>
                "CSV"
            </button>
        </p>
    }
}

/// The policies of a report as CSV: a row each, a column for every number, named by its path in the JSON.
pub(super) fn to_csv(report: &Report) -> String {
    let mut head: Vec<String> = Vec::new();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for policy in &report.policies {
        let mut row = Vec::new();
        let Ok(Value::Object(fields)) = serde_json::to_value(policy) else { continue };
        for (name, value) in &fields {
            // Lists by tenant and replica are tables of their own; the JSON has them.
            if !value.is_array() {
                flatten(name, value, &mut row);
            }
        }
        if head.is_empty() {
            head = row.iter().map(|(name, _)| name.clone()).collect();
        }
        rows.push(row.into_iter().map(|(_, value)| value).collect());
    }
    let mut out = String::new();
    for line in std::iter::once(&head).chain(&rows) {
        let cells: Vec<String> = line.iter().map(|cell| quoted(cell)).collect();
        let _ = writeln!(out, "{}", cells.join(","));
    }
    out
}

fn flatten(path: &str, value: &Value, out: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| flatten(&format!("{path}.{name}"), value, out)),
        Value::String(text) => out.push((path.to_owned(), text.clone())),
        Value::Null => out.push((path.to_owned(), String::new())),
        other => out.push((path.to_owned(), other.to_string())),
    }
}

/// A cell as RFC 4180 wants it.
pub(super) fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servelab_spec::Spec;
    use servelab_spec::report::{CostReport, PolicyReport, Reuse, WorkloadReport};

    #[test]
    fn a_row_has_as_many_cells_as_the_head() {
        let policy = |name: &str| PolicyReport {
            name: name.into(),
            label: format!("{name}, \"guard\" off"),
            reuse: Reuse { hit_tokens: 2464, prompt_tokens: 10_476, ratio: 0.2352 },
            ..PolicyReport::default()
        };
        let report = Report {
            version: 1,
            generator: String::new(),
            spec: Spec::default(),
            workload: WorkloadReport::default(),
            cost: CostReport::default(),
            policies: vec![policy("round_robin"), policy("prefix_affinity")],
            findings: Vec::new(),
        };
        let csv = to_csv(&report);
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].contains("reuse.hit_tokens") && lines[0].contains("ttft_s.p50"));
        assert!(lines[1].contains("\"round_robin, \"\"guard\"\" off\"") && lines[1].contains("2464,10476,0.2352"));
        let commas = |line: &str| {
            let mut quoted = false;
            line.chars()
                .filter(|c| {
                    quoted ^= *c == '"';
                    *c == ',' && !quoted
                })
                .count()
        };
        assert_eq!(commas(lines[0]), commas(lines[1]));
    }
}
