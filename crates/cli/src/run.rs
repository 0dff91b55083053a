//! Runs a spec and writes what came out.

use crate::args::{Format, Print, RunArgs};
use crate::output::Output;
use crate::{Failure, failed, model, source, summary};
use servelab_lab::{Session, chart, export};
use servelab_spec::Spec;
use servelab_spec::csv::report_csv;
use servelab_spec::experiment::ExecutionMode;
use servelab_spec::protocol::{ChartRequest, ExportKind};
use std::io::{IsTerminal, Write};
use std::path::Path;

/// Events between two looks at how far a run is: a fraction of a second.
const EVENTS: u32 = 100_000;

pub(crate) fn run(args: &RunArgs, out: &mut impl Write) -> Result<(), Failure> {
    run_spec(source::spec(&args.experiment)?, &args.print, out)
}

/// Runs a spec and prints it as asked.
pub(crate) fn run_spec(spec: Spec, args: &Print, out: &mut impl Write) -> Result<(), Failure> {
    // Before the run: a mistyped chart should not cost a run to find out.
    let charts = args.charts.iter().map(|chart| chart_request(args, chart)).collect::<Result<Vec<_>, _>>()?;
    if args.record.is_some() && spec.execution.mode != ExecutionMode::Tinygpt {
        return Err(Failure::Request("--record: only a run with the real model has a record".into()));
    }
    // Likewise a file that cannot be written.
    let charts = (charts.into_iter())
        .map(|(request, file)| Ok((request, Output::open(Path::new(file))?)))
        .collect::<Result<Vec<_>, Failure>>()?;
    let record = args.record.as_deref().map(Output::open).transpose()?;
    let exports = [
        (&args.perfetto, ExportKind::Perfetto),
        (&args.prometheus, ExportKind::Prometheus),
        (&args.methods, ExportKind::Methods),
    ];
    let exports = (exports.into_iter())
        .filter_map(|(file, kind)| Some((Output::open(file.as_deref()?), kind)))
        .map(|(file, kind)| Ok((file?, kind)))
        .collect::<Result<Vec<_>, Failure>>()?;
    let mut session = Session::new(spec).map_err(failed)?;
    if session.is_live() {
        model::run(&mut session)?;
    } else {
        told(&mut session)?;
    }
    let report = session.report();
    // The report first: a disk that is full by now must not cost the run.
    match args.format {
        Format::Table => summary::write(&report, out)?,
        Format::Json => write_json(&report, out)?,
        Format::Csv => write!(out, "{}", report_csv(&report))?,
        Format::Markdown => write!(out, "{}", export::markdown::tables(&report))?,
    }
    out.flush()?;
    for (request, file) in charts {
        let chart = session.chart(&request).map_err(|error| Failure::Request(error.to_string()))?;
        file.write(&chart.svg)?;
    }
    for (file, kind) in exports {
        file.write(&export::export(&session, kind).map_err(failed)?.text)?;
    }
    if let (Some(file), Some(recording)) = (record, session.recording()) {
        let text = serde_json::to_string(&recording).map_err(|error| Failure::Run(error.to_string()))?;
        file.write(&text)?;
    }
    Ok(())
}

/// Runs to the end; somebody at a terminal is told how far it is.
fn told(session: &mut Session) -> Result<(), Failure> {
    let mut errors = std::io::stderr();
    let tells = errors.is_terminal();
    let mut at = None;
    loop {
        let progress = session.advance(if tells { EVENTS } else { u32::MAX }).map_err(failed)?;
        if progress.done {
            break;
        }
        let share = (progress.fraction * 100.0) as u32;
        if tells && at.replace(share) != Some(share) {
            // Of how many policies this is, one after the other, the fraction knows.
            let _ = write!(errors, "\r{share} % ");
        }
    }
    if at.is_some() {
        let _ = write!(errors, "\r{:20}\r", "");
    }
    Ok(())
}

pub(crate) fn write_json(value: &impl serde::Serialize, out: &mut impl Write) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::Run(error.to_string()))?;
    Ok(writeln!(out, "{text}")?)
}

fn chart_request<'a>(args: &Print, chart: &'a str) -> Result<(ChartRequest, &'a str), Failure> {
    let wrong = |accepted: &str| Failure::Request(format!("--chart {chart}: {accepted}"));
    let Some((id, file)) = chart.split_once('=').filter(|(_, file)| !file.is_empty()) else {
        return Err(wrong("accepted is ID=FILE.svg, as in ttft_cdf=ttft.svg"));
    };
    let sides = args.chart_size.split_once('x').map(|(w, h)| (w.parse::<u32>(), h.parse::<u32>()));
    let Some((Ok(width), Ok(height))) = sides else {
        return Err(Failure::Request(format!("--chart-size {}: accepted is like 960x480", args.chart_size)));
    };
    let request =
        ChartRequest { id: id.into(), width, height, dark: args.dark, range: None, statistic: args.statistic };
    // Drawing nothing finds every fault of the request.
    chart::draw(&request, &[], &Default::default()).map_err(|error| Failure::Request(error.to_string()))?;
    Ok((request, file))
}
