//! A report as a person reads it on a terminal.

mod overload;

use crate::Failure;
use crate::table::Table;
use servelab_lab::{presets, words};
use servelab_spec::experiment::ExecutionMode;
use servelab_spec::report::{PairedTtft, PolicyReport, Quantiles, Report, Verdict};
use std::io::Write;

/// Stands for a figure that nothing was there to give: a policy that served nobody has no TTFT.
const NONE: &str = "–";

/// Width that names of policies may take: with it the tables of an overloaded server stay within 120 columns.
const NAMES: usize = 36;

/// What ran, a row for each policy, and what was found.
pub(crate) fn write(report: &Report, out: &mut impl Write) -> Result<(), Failure> {
    let (w, spec) = (&report.workload, &report.spec);
    writeln!(
        out,
        "{}, seed {}: {} of {} at {}/s on {}; steps {}, {}",
        spec.preset,
        spec.seed,
        words::many(w.requests, "request"),
        words::many(w.tenants.len() as u64, "tenant"),
        words::digits(w.rate_per_s),
        words::many(spec.replicas.into(), "replica"),
        report.cost.source,
        report.cost.device
    )?;
    writeln!(
        out,
        "good: TTFT ≤ {} and ITL ≤ {}{}\n",
        words::duration(spec.slo.ttft_s),
        words::duration(spec.slo.itl_s),
        match in_steps(report) {
            true => format!("; at most {} of the prompt tokens can be reused", words::percent(w.ceiling.ratio)),
            false => String::new(),
        }
    )?;
    policies(report).write(out)?;
    if report.policies.iter().any(|policy| policy.versus_best.is_some()) {
        writeln!(
            out,
            "\n{VERSUS}: mean TTFT − that of the lowest mean, over the requests that both answered, in brackets where it is within noise"
        )?;
    }
    overload::write(report, out)?;
    if !report.findings.is_empty() {
        writeln!(out)?;
    }
    for finding in &report.findings {
        writeln!(out, "{finding}")?;
    }
    if let Some(verdict) = &report.verdict {
        writeln!(out, "\n{}", answer(report, verdict))?;
    }
    if let Some(p) = &report.cost.prediction {
        writeln!(
            out,
            "The fitted cost model misses a step by {} at the median ({} at p95); on one schedule it gives TTFT {} against {} measured, ITL {} against {}.",
            words::percent(p.step_error_p50),
            words::percent(p.step_error_p95),
            words::duration(p.ttft_fitted_s),
            words::duration(p.ttft_measured_s),
            words::duration(p.itl_fitted_s),
            words::duration(p.itl_measured_s)
        )?;
        if p.is_poor() {
            writeln!(out, "That is a poor fit, as on a machine busy with other things: take the times as rough.")?;
        }
    }
    if let Some(fallback) = &report.cost.fallback {
        writeln!(out, "{fallback}")?;
    }
    Ok(())
}

/// The preset's question with what this run answers.
fn answer(report: &Report, verdict: &Verdict) -> String {
    let asked = presets::find(&report.spec.preset).and_then(|preset| preset.prediction);
    let option = asked.and_then(|asked| Some((asked.options.get(verdict.option as usize)?.clone(), asked.ask)));
    match option {
        Some((option, ask)) => format!("{ask} {option}. {}", verdict.because),
        None => verdict.because.clone(),
    }
}

/// A column of the table of policies.
struct Column {
    head: &'static str,
    /// There is something to tell in it.
    shown: fn(&Report) -> bool,
    /// What stands there for a policy, if anything does.
    cell: fn(&PolicyReport) -> Option<String>,
}

const fn column(head: &'static str, shown: fn(&Report) -> bool, cell: fn(&PolicyReport) -> Option<String>) -> Column {
    Column { head, shown, cell }
}

const COLUMNS: [Column; 21] = [
    column("refused", |r| any(r, |p| p.requests.rejected > 0), |p| Some(p.requests.rejected.to_string())),
    column("TTFT p50", always, |p| time(&p.ttft_s, p.ttft_s.p50)),
    column("p95", always, |p| time(&p.ttft_s, p.ttft_s.p95)),
    column("p99", always, |p| time(&p.ttft_s, p.ttft_s.p99)),
    column(VERSUS, |r| any(r, |p| p.versus_best.is_some()), |p| p.versus_best.map(versus)),
    column("ITL p50", in_steps, |p| time(&p.itl_s, p.itl_s.p50)),
    column("p95", in_steps, |p| time(&p.itl_s, p.itl_s.p95)),
    column("output/s", in_steps, |p| Some(format!("{:.1}", p.output_tokens_per_s))),
    column("good/s", always, |p| Some(format!("{:.2}", p.goodput.per_s))),
    column("good", always, |p| Some(format!("{}/{}", p.goodput.good, p.requests.total))),
    column("late", always, |p| Some(p.goodput.ttft_misses.to_string())),
    column("slow gaps", in_steps, |p| Some(p.goodput.itl_misses.to_string())),
    column("reuse", in_steps, |p| (p.reuse.prompt_tokens > 0).then(|| format!("{:.1} %", 100.0 * p.reuse.ratio))),
    column("fetched", stored, |p| p.store.map(|store| format!("{:.1} %", 100.0 * store.ratio))),
    column("moved", stored, |p| p.store.map(|store| words::bytes(store.bytes))),
    column("fetching", stored, |p| p.store.map(|store| words::duration(store.fetch_s))),
    column("imbalance", spread, |p| busy(p).then(|| format!("{:.2}", p.imbalance.assignments))),
    column("of work", |r| spread(r) && in_steps(r), |p| busy(p).then(|| format!("{:.2}", p.imbalance.uncached_tokens))),
    column("KV peak", in_steps, |p| Some(format!("{:.0} %", 100.0 * p.kv_peak))),
    column("evicted", in_steps, |p| Some(p.evictions.to_string())),
    column("preempted", in_steps, |p| Some(p.preemptions.to_string())),
];

fn always(_: &Report) -> bool {
    true
}

fn any(report: &Report, what: fn(&PolicyReport) -> bool) -> bool {
    report.policies.iter().any(what)
}

/// Replicas have steps and a cache: a server has neither.
fn in_steps(report: &Report) -> bool {
    report.spec.execution.mode != ExecutionMode::Server
}

fn stored(report: &Report) -> bool {
    any(report, |policy| policy.store.is_some())
}

/// There is more than one replica to spread requests over, or may be.
fn spread(report: &Report) -> bool {
    report.spec.replicas > 1 || report.spec.scaling.on || any(report, |policy| policy.replicas.len() > 1)
}

/// Mean difference in TTFT to the policy with the lowest mean; of one policy alone there is none.
const VERSUS: &str = "− best";

fn versus(best: PairedTtft) -> String {
    let text = format!("{}{}", if best.mean_s < 0.0 { "−" } else { "+" }, words::duration(best.mean_s.abs()));
    if best.significant { text } else { format!("({text})") }
}

fn time(of: &Quantiles, value: f64) -> Option<String> {
    (of.n > 0).then(|| words::duration(value))
}

/// Some replica was given something.
fn busy(policy: &PolicyReport) -> bool {
    policy.replicas.iter().any(|replica| replica.assignments > 0)
}

fn policies(report: &Report) -> Table {
    let columns = || COLUMNS.iter().filter(|column| (column.shown)(report));
    let head: Vec<&str> = std::iter::once("policy").chain(columns().map(|column| column.head)).collect();
    let mut table = Table::new(&head).names_within(NAMES);
    for policy in &report.policies {
        let cells = columns().map(|column| (column.cell)(policy).unwrap_or_else(|| NONE.into()));
        table.row(std::iter::once(policy.label.clone()).chain(cells).collect());
    }
    table
}
