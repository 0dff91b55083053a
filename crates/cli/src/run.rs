//! Runs a spec and writes what came out.

use crate::args::{Format, RunArgs};
use crate::table::Table;
use crate::{Failure, model, source};
use servelab_lab::{Session, chart, words};
use servelab_spec::csv::report_csv;
use servelab_spec::experiment::ExecutionMode;
use servelab_spec::protocol::ChartRequest;
use servelab_spec::report::Report;
use std::fs;
use std::io::Write;

pub(crate) fn run(args: &RunArgs, out: &mut impl Write) -> Result<(), Failure> {
    let spec = source::spec(args)?;
    // Before the run: a mistyped chart should not cost a run to find out.
    let charts = args.charts.iter().map(|chart| chart_request(args, chart)).collect::<Result<Vec<_>, _>>()?;
    if args.record.is_some() && spec.execution.mode == ExecutionMode::Priced {
        return Err(Failure::Request("--record: only a run with the real model has a record".into()));
    }
    let failed = |error: servelab_lab::RunError| match error.field() {
        Some(_) => Failure::Request(error.to_string()),
        None => Failure::Run(error.to_string()),
    };
    let mut session = Session::new(spec).map_err(failed)?;
    if session.is_live() {
        model::run(&mut session)?;
    } else {
        while !session.advance(u32::MAX).map_err(failed)?.done {}
    }
    let report = session.report();
    for (request, file) in charts {
        let chart = session.chart(&request).map_err(|error| Failure::Request(error.to_string()))?;
        fs::write(file, chart.svg).map_err(|error| Failure::Run(format!("{file}: {error}")))?;
    }
    if let (Some(path), Some(recording)) = (&args.record, session.recording()) {
        let text = serde_json::to_string(&recording).map_err(|error| Failure::Run(error.to_string()))?;
        fs::write(path, text).map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
    }
    match args.format {
        Format::Table => write_table(&report, out),
        Format::Json => write_json(&report, out),
        Format::Csv => Ok(write!(out, "{}", report_csv(&report))?),
    }
}

pub(crate) fn write_json(value: &impl serde::Serialize, out: &mut impl Write) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::Run(error.to_string()))?;
    Ok(writeln!(out, "{text}")?)
}

fn chart_request<'a>(args: &RunArgs, chart: &'a str) -> Result<(ChartRequest, &'a str), Failure> {
    let wrong = |accepted: &str| Failure::Request(format!("--chart {chart}: {accepted}"));
    let Some((id, file)) = chart.split_once('=').filter(|(_, file)| !file.is_empty()) else {
        return Err(wrong("accepted is ID=FILE.svg, as in ttft_cdf=ttft.svg"));
    };
    let sides = args.chart_size.split_once('x').map(|(w, h)| (w.parse::<u32>(), h.parse::<u32>()));
    let Some((Ok(width), Ok(height))) = sides else {
        return Err(Failure::Request(format!("--chart-size {}: accepted is like 960x480", args.chart_size)));
    };
    let request = ChartRequest { id: id.into(), width, height, dark: args.dark, range: None };
    // Drawing nothing finds every fault of the request.
    chart::draw(&request, &[], &Default::default()).map_err(|error| Failure::Request(error.to_string()))?;
    Ok((request, file))
}

fn write_table(report: &Report, out: &mut impl Write) -> Result<(), Failure> {
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
    let mut table = Table::new(&[
        "policy",
        "TTFT p50",
        "p95",
        "p99",
        "ITL p50",
        "p95",
        "output/s",
        "good/s",
        "good",
        "late",
        "slow gaps",
        "reuse",
        "imbalance",
        "of work",
        "KV peak",
        "evicted",
        "preempted",
    ]);
    for p in &report.policies {
        table.row(vec![
            p.label.clone(),
            words::duration(p.ttft_s.p50),
            words::duration(p.ttft_s.p95),
            words::duration(p.ttft_s.p99),
            words::duration(p.itl_s.p50),
            words::duration(p.itl_s.p95),
            format!("{:.1}", p.output_tokens_per_s),
            format!("{:.2}", p.goodput.per_s),
            format!("{}/{}", p.goodput.good, p.requests.total),
            p.goodput.ttft_misses.to_string(),
            p.goodput.itl_misses.to_string(),
            format!("{:.1} %", 100.0 * p.reuse.ratio),
            format!("{:.2}", p.imbalance.assignments),
            format!("{:.2}", p.imbalance.uncached_tokens),
            format!("{:.0} %", 100.0 * p.kv_peak),
            p.evictions.to_string(),
            p.preemptions.to_string(),
        ]);
    }
    table.write(out)?;
    if !report.findings.is_empty() {
        writeln!(out)?;
    }
    for finding in &report.findings {
        writeln!(out, "{finding}")?;
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
