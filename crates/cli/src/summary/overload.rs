//! What clients, gateway and priority classes did: tables under that of the policies, each where there is something to tell, none wider than 120 columns.

use super::{NAMES, NONE};
use crate::Failure;
use crate::table::Table;
use servelab_lab::words::{digits, duration, percent};
use servelab_spec::experiment::Pace;
use servelab_spec::report::{ClientsReport, PolicyReport, Report};
use std::io::Write;

pub(super) fn write(report: &Report, out: &mut impl Write) -> Result<(), Failure> {
    let spec = &report.spec;
    if report.policies.iter().any(|policy| policy.clients.is_some()) {
        writeln!(out)?;
        clients(report).write(out)?;
        writeln!(
            out,
            "attempts: made for a request, on average; in time, gave up, waiting: requests; 429 to timed out: attempts"
        )?;
        writeln!(out)?;
        capacity(report).write(out)?;
    }
    if (spec.clients.on || spec.gateway.on) && report.policies.iter().any(|policy| !policy.refusals.is_empty()) {
        writeln!(out)?;
        turned_away(report).write(out)?;
    }
    if report.policies.iter().any(|policy| policy.gateway.is_some()) {
        writeln!(out)?;
        held(report).write(out)?;
    }
    if report.policies.iter().flat_map(|policy| &policy.gateway).any(|gateway| !gateway.classes.is_empty()) {
        writeln!(out)?;
        classes(report).write(out)?;
    }
    Ok(())
}

/// Runs whose clients have rules of their own.
fn runs(report: &Report) -> impl Iterator<Item = (&PolicyReport, &ClientsReport)> {
    report.policies.iter().filter_map(|policy| Some((policy, policy.clients.as_ref()?)))
}

/// Attempts of a policy that were turned away with a status that `which` takes.
fn refused(policy: &PolicyReport, which: fn(u16) -> bool) -> u64 {
    policy.refusals.iter().filter(|of| which(of.code)).map(|of| of.attempts).sum()
}

fn is_other(code: u16) -> bool {
    code != 429 && code != 503
}

fn clients(report: &Report) -> Table {
    let others = report.policies.iter().any(|policy| refused(policy, is_other) > 0);
    // Where the workload says when requests come, that is the same for all.
    let paced = report.spec.clients.pace != Pace::Open;
    let mut head = vec!["clients"];
    head.extend(paced.then_some("new/s"));
    head.extend(["attempts", "in time", "gave up", "waiting", "429", "503"]);
    head.extend(others.then_some("other"));
    head.extend(["timed out", "all served"]);
    let mut table = Table::new(&head).names_within(NAMES);
    for (policy, of) in runs(report) {
        let mut cells = vec![policy.label.clone()];
        cells.extend(paced.then(|| digits(of.rate_per_s)));
        cells.extend([
            format!("{:.2}", of.amplification),
            (policy.ttft_s.n - policy.goodput.ttft_misses).to_string(),
            of.gave_up.to_string(),
            of.waiting.to_string(),
            refused(policy, |code| code == 429).to_string(),
            refused(policy, |code| code == 503).to_string(),
        ]);
        cells.extend(others.then(|| refused(policy, is_other).to_string()));
        cells.extend([of.timed_out.to_string(), of.all_served_s.map_or("never".into(), duration)]);
        table.row(cells);
    }
    table
}

fn capacity(report: &Report) -> Table {
    let head = ["capacity", "peak attempts/s", "× capacity", "useful", "wasted", "refusing", "unended", "down", "idle"];
    let mut table = Table::new(&head).names_within(NAMES);
    for (policy, of) in runs(report) {
        let c = &of.capacity;
        let mut cells = vec![policy.label.clone(), digits(of.peak_per_s), digits(of.peak)];
        cells.extend([c.useful, c.wasted, c.refusing, c.unfinished, c.down, c.idle].map(percent));
        table.row(cells);
    }
    table
}

fn turned_away(report: &Report) -> Table {
    let mut table = Table::with_names(3, &["turned away", "by", "because", "status", "attempts"]).names_within(NAMES);
    for policy in &report.policies {
        for of in &policy.refusals {
            let (code, attempts) = (of.code.to_string(), of.attempts.to_string());
            table.row(vec![policy.label.clone(), of.layer.clone(), of.cause.clone(), code, attempts]);
        }
    }
    table
}

fn held(report: &Report) -> Table {
    let mut table = Table::new(&["gateway", "held p50", "p95", "p99", "turned away by it"]).names_within(NAMES);
    for policy in &report.policies {
        let Some(gateway) = &policy.gateway else { continue };
        let held = &gateway.held_s;
        let turned: u64 = policy.refusals.iter().filter(|of| of.layer == "gateway").map(|of| of.attempts).sum();
        let mut cells = vec![policy.label.clone()];
        cells.extend([held.p50, held.p95, held.p99].map(|time| if held.n > 0 { duration(time) } else { NONE.into() }));
        cells.push(turned.to_string());
        table.row(cells);
    }
    table
}

fn classes(report: &Report) -> Table {
    let head = ["classes", "class", "requests", "refused", "TTFT p50", "p95", "held p95", "good"];
    let mut table = Table::with_names(2, &head).names_within(NAMES);
    for policy in &report.policies {
        for class in policy.gateway.iter().flat_map(|gateway| &gateway.classes) {
            let time = |n: u64, time: f64| if n > 0 { duration(time) } else { NONE.into() };
            table.row(vec![
                policy.label.clone(),
                class.name.clone(),
                class.requests.total.to_string(),
                class.requests.rejected.to_string(),
                time(class.ttft_s.n, class.ttft_s.p50),
                time(class.ttft_s.n, class.ttft_s.p95),
                time(class.held_s.n, class.held_s.p95),
                percent(class.goodput.fraction),
            ]);
        }
    }
    table
}
