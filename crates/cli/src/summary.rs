//! A report as a person reads it on a terminal.

use crate::Failure;
use crate::table::Table;
use servelab_lab::{presets, words};
use servelab_spec::report::{PairedTtft, PolicyReport, Quantiles, Report, Verdict};
use std::io::Write;

/// Stands for a figure that nothing was there to give: a policy that served nobody has no TTFT.
const NONE: &str = "–";

/// What ran, a row for each policy, and what was found.
pub(crate) fn write(report: &Report, out: &mut impl Write) -> Result<(), Failure> {
    let (w, spec) = (&report.workload, &report.spec);
    writeln!(
        out,
        "{}, seed {}: {} requests of {} tenants at {}/s on {} replicas; steps {}, {}",
        spec.preset,
        spec.seed,
        w.requests,
        w.tenants.len(),
        words::digits(w.rate_per_s),
        spec.replicas,
        report.cost.source,
        report.cost.device
    )?;
    writeln!(
        out,
        "good: TTFT ≤ {} and ITL ≤ {}; at most {} of the prompt tokens can be reused\n",
        words::duration(spec.slo.ttft_s),
        words::duration(spec.slo.itl_s),
        words::percent(w.ceiling.ratio)
    )?;
    policies(report).write(out)?;
    if report.policies.iter().any(|policy| policy.versus_best.is_some()) {
        writeln!(
            out,
            "\n{VERSUS}: mean TTFT per request − that of the lowest mean, in brackets where it is within noise"
        )?;
    }
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

/// A column: its head and what stands there for a policy, if anything does.
type Column = (&'static str, fn(&PolicyReport) -> Option<String>);

const COLUMNS: [Column; 21] = [
    ("refused", |p| Some(p.requests.rejected.to_string())),
    ("TTFT p50", |p| time(&p.ttft_s, p.ttft_s.p50)),
    ("p95", |p| time(&p.ttft_s, p.ttft_s.p95)),
    ("p99", |p| time(&p.ttft_s, p.ttft_s.p99)),
    (VERSUS, |p| p.versus_best.map(versus)),
    ("ITL p50", |p| time(&p.itl_s, p.itl_s.p50)),
    ("p95", |p| time(&p.itl_s, p.itl_s.p95)),
    ("output/s", |p| Some(format!("{:.1}", p.output_tokens_per_s))),
    ("good/s", |p| Some(format!("{:.2}", p.goodput.per_s))),
    ("good", |p| Some(format!("{}/{}", p.goodput.good, p.requests.total))),
    ("late", |p| Some(p.goodput.ttft_misses.to_string())),
    ("slow gaps", |p| Some(p.goodput.itl_misses.to_string())),
    ("reuse", |p| (p.reuse.prompt_tokens > 0).then(|| format!("{:.1} %", 100.0 * p.reuse.ratio))),
    (FETCHED, |p| p.store.map(|store| format!("{:.1} %", 100.0 * store.ratio))),
    (MOVED, |p| p.store.map(|store| words::bytes(store.bytes))),
    (FETCHING, |p| p.store.map(|store| words::duration(store.fetch_s))),
    ("imbalance", |p| busy(p).then(|| format!("{:.2}", p.imbalance.assignments))),
    ("of work", |p| busy(p).then(|| format!("{:.2}", p.imbalance.uncached_tokens))),
    ("KV peak", |p| Some(format!("{:.0} %", 100.0 * p.kv_peak))),
    ("evicted", |p| Some(p.evictions.to_string())),
    ("preempted", |p| Some(p.preemptions.to_string())),
];

/// Mean difference in TTFT to the policy with the lowest mean; of one policy alone there is none.
const VERSUS: &str = "− best";

/// Of a fleet with a store behind it: prompt tokens fetched ÷ prompt tokens, what that moved, and how long all fetches took together.
const FETCHED: &str = "fetched";
const MOVED: &str = "moved";
const FETCHING: &str = "fetching";

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
    let refused = report.policies.iter().any(|policy| policy.requests.rejected > 0);
    let compared = report.policies.iter().any(|policy| policy.versus_best.is_some());
    let stored = report.policies.iter().any(|policy| policy.store.is_some());
    // Nothing refused is nothing to tell, and neither is nothing compared, nor a store that is not there.
    let columns = || {
        COLUMNS.iter().filter(|(head, _)| match *head {
            "refused" => refused,
            VERSUS => compared,
            FETCHED | MOVED | FETCHING => stored,
            _ => true,
        })
    };
    let head: Vec<&str> = std::iter::once("policy").chain(columns().map(|(head, _)| *head)).collect();
    let mut table = Table::new(&head);
    for policy in &report.policies {
        let cells = columns().map(|(_, cell)| cell(policy).unwrap_or_else(|| NONE.into()));
        table.row(std::iter::once(policy.label.clone()).chain(cells).collect());
    }
    table
}
