//! A report as rows: the one table that page and command line save.

use crate::knee::KneeReport;
use crate::report::Report;
use crate::sweep::{Figure, SweepReport};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;

/// The report as CSV (RFC 4180, but with bare line feeds): a row for each policy, `tenant` empty, and under it one for each of its tenants. A column for
/// every number, named by its path in the JSON, units as there; tenants leave empty what is only known of the whole.
pub fn report_csv(report: &Report) -> String {
    let mut head: Vec<String> = ["policy", "label", "tenant"].map(String::from).into();
    let mut out = String::new();
    // What one policy lacks as a whole (a comparison with itself) another has: the names of all of them, each where it stands first.
    let all: Vec<Vec<(String, String)>> = report.policies.iter().map(numbers).collect();
    let fullest = all.iter().max_by_key(|known| known.len());
    head.extend(fullest.into_iter().flatten().map(|(name, _)| name.clone()));
    line(&mut out, head.iter().map(String::as_str));
    for (policy, whole) in report.policies.iter().zip(&all) {
        let mut row = |tenant: &str, known: &[(String, String)]| {
            let value = |name: &String| known.iter().find(|(path, _)| path == name).map_or("", |(_, value)| value);
            let cells = head[3..].iter().map(value);
            line(&mut out, [policy.name.as_str(), policy.label.as_str(), tenant].into_iter().chain(cells));
        };
        row("", whole);
        for tenant in &policy.tenants {
            row(&tenant.name, &numbers(tenant));
        }
    }
    out
}

/// A sweep as CSV: for each point and policy a row with `seed` empty, the mean over seeds with its 95 % interval (`.low`, `.high`) and the difference to the
/// first policy (`.versus_first`, with its own interval and `.significant`, 1 or 0), and under it a row for each seed. The first columns are the axes.
pub fn sweep_csv(report: &SweepReport) -> String {
    let mut head: Vec<String> = report.sweep.axes.iter().map(|axis| axis.key.clone()).collect();
    head.extend(["policy", "label", "seed"].map(String::from));
    for figure in Figure::ALL {
        let name = figure.name();
        head.push(name.to_owned());
        head.extend(["low", "high"].map(|end| format!("{name}.{end}")));
        head.push(format!("{name}.versus_first"));
        head.extend(["low", "high", "significant"].map(|part| format!("{name}.versus_first.{part}")));
    }
    let mut out = String::new();
    line(&mut out, head.iter().map(String::as_str));
    let text = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for point in &report.points {
        let cells = || report.cells.iter().filter(|cell| cell.point == point.point);
        for (at, (policy, of)) in report.policies.iter().zip(&point.policies).enumerate() {
            let mut row = |seed: String, figures: &mut dyn FnMut(Figure) -> [String; 7]| {
                let mut all: Vec<String> = point.at.iter().map(ToString::to_string).collect();
                all.extend([policy.name.clone(), policy.label.clone(), seed]);
                Figure::ALL.iter().for_each(|&figure| all.extend(figures(figure)));
                line(&mut out, all.iter().map(String::as_str));
            };
            row(String::new(), &mut |figure| {
                let (mean, versus) = (of.mean.get(figure), of.versus_first.as_ref().and_then(|all| *all.get(figure)));
                [
                    text(mean.map(|band| band.mean)),
                    text(mean.and_then(|band| band.low)),
                    text(mean.and_then(|band| band.high)),
                    text(versus.map(|band| band.mean)),
                    text(versus.and_then(|band| band.low)),
                    text(versus.and_then(|band| band.high)),
                    versus.map(|band| u8::from(band.significant).to_string()).unwrap_or_default(),
                ]
            });
            for cell in cells() {
                let of = &cell.policies[at];
                row(cell.seed.to_string(), &mut |figure| {
                    let mut all = [const { String::new() }; 7];
                    all[0] = text(*of.get(figure));
                    all
                });
            }
        }
    }
    out
}

/// Knees as CSV: for each policy a row with `seed` empty, the means with their 95 % intervals, and under it a row for each rate that was tried with each
/// seed; a search's knee stands in all of its rows.
pub fn knee_csv(report: &KneeReport) -> String {
    let head = [
        "policy",
        "label",
        "seed",
        "knee_per_s",
        "knee_per_s.low",
        "knee_per_s.high",
        "knee_per_replica_per_s",
        "knee_per_replica_per_s.low",
        "knee_per_replica_per_s.high",
        "rate_per_s",
        "goodput_per_s",
        "goodput_fraction",
        "ttft_p95_s",
        "good",
    ];
    let mut out = String::new();
    line(&mut out, head.into_iter());
    let text = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let replicas = f64::from(report.knee.spec.replicas.max(1));
    for (at, knee) in report.policies.iter().enumerate() {
        let mut row = |cells: [String; 12]| {
            let names = [knee.name.as_str(), knee.label.as_str()];
            line(&mut out, names.into_iter().chain(cells.iter().map(String::as_str)));
        };
        let mut cells = [const { String::new() }; 12];
        for (from, band) in [(1, knee.per_s), (4, knee.per_replica_per_s)] {
            let ends = [band.map(|b| b.mean), band.and_then(|b| b.low), band.and_then(|b| b.high)];
            ends.into_iter().enumerate().for_each(|(end, value)| cells[from + end] = text(value));
        }
        row(cells);
        for trial in report.trials.iter().filter(|trial| trial.policy as usize == at) {
            for probe in &trial.probes {
                let mut cells = [const { String::new() }; 12];
                cells[0] = trial.seed.to_string();
                (cells[1], cells[4]) = (text(trial.per_s), text(trial.per_s.map(|rate| rate / replicas)));
                cells[7] = probe.rate_per_s.to_string();
                cells[8] = probe.goodput_per_s.to_string();
                cells[9] = probe.goodput_fraction.to_string();
                cells[10] = text(probe.ttft_p95_s);
                cells[11] = u8::from(probe.good).to_string();
                row(cells);
            }
        }
    }
    out
}

/// Every number of `part` and its path. Lists are tables of their own; the JSON has them.
fn numbers(part: &impl Serialize) -> Vec<(String, String)> {
    let mut out = Vec::new();
    if let Ok(Value::Object(fields)) = serde_json::to_value(part) {
        fields.iter().for_each(|(name, value)| flatten(name, value, &mut out));
    }
    out
}

fn flatten(path: &str, value: &Value, out: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| flatten(&format!("{path}.{name}"), value, out)),
        Value::Null => out.push((path.to_owned(), String::new())),
        Value::Number(number) => out.push((path.to_owned(), number.to_string())),
        Value::Array(_) | Value::String(_) | Value::Bool(_) => {}
    }
}

/// A cell, in quotes where it needs them.
pub fn quoted(cell: &str) -> Cow<'_, str> {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\"")).into()
    } else {
        cell.into()
    }
}

fn line<'a>(out: &mut String, cells: impl Iterator<Item = &'a str>) {
    for (at, cell) in cells.enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(&quoted(cell));
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spec;
    use crate::report::{CostReport, PairedTtft, PolicyReport, Reuse, TenantReport, WorkloadReport};

    #[test]
    fn every_row_has_the_heads_cells() {
        let reuse = Reuse { hit_tokens: 2464, prompt_tokens: 10_476, ratio: 0.2352 };
        let policy = |name: &str| PolicyReport {
            name: name.into(),
            label: format!("{name}, \"guard\" off"),
            reuse,
            versus_best: (name == "prefix_affinity").then(PairedTtft::default),
            tenants: vec![TenantReport { name: "A".into(), reuse, ..TenantReport::default() }],
            ..PolicyReport::default()
        };
        let report = Report {
            version: 1,
            generator: String::new(),
            spec: Spec::default(),
            workload: WorkloadReport::default(),
            cost: CostReport::default(),
            policies: vec![policy("round_robin"), policy("prefix_affinity")],
            configurations: Vec::new(),
            findings: Vec::new(),
            verdict: None,
        };
        let csv = report_csv(&report);
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 5);
        assert!(lines[0].starts_with("policy,label,tenant,requests.total,"));
        assert!(lines[0].contains("reuse.hit_tokens") && lines[0].contains("ttft_s.p50"));
        assert!(
            lines[0].contains(",versus_best.mean_s,") && !lines[0].contains(",versus_best,"),
            "though the first policy has none"
        );
        assert!(lines[1].starts_with("round_robin,\"round_robin, \"\"guard\"\" off\",,"));
        assert!(lines[2].contains(",A,") && lines[2].contains("2464,10476,0.2352"));
        let commas = |line: &str| {
            let mut quoted = false;
            line.chars()
                .filter(|c| {
                    quoted ^= *c == '"';
                    *c == ',' && !quoted
                })
                .count()
        };
        assert!(lines.iter().all(|line| commas(line) == commas(lines[0])));
    }
}
