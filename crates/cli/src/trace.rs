//! Recorded traffic on a terminal: reading a file, looking at it, replaying it.

use crate::args::{Format, InspectArgs, ReadArgs, ReplayArgs};
use crate::output::Output;
use crate::run::write_json;
use crate::source;
use crate::sweep::SIZE;
use crate::table::Table;
use crate::{Failure, run};
use serde::Serialize;
use servelab_lab::traffic::charts::{self, CHARTS};
use servelab_lab::traffic::findings::findings;
use servelab_lab::traffic::fit::fit;
use servelab_lab::traffic::view::facts;
use servelab_lab::traffic::{Analysis, Traffic, propose};
use servelab_lab::words::count;
use servelab_spec::Spec;
use servelab_spec::experiment::{GeneratedSpec, LengthLaw, TraceSpec, WorkloadSpec};
use servelab_spec::patch;
use servelab_spec::protocol::ChartRequest;
use servelab_spec::traffic::{ColumnMap, Remark, TraceFormat};
use servelab_workload::trace::{ReadOptions, Reader, Reading, shelf};
use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::path::Path;

/// Bytes read at a time.
const PIECE: usize = 1 << 20;

/// Everything about a file, as JSON; `spec` makes it an experiment that `servelab run` takes.
#[derive(Serialize)]
struct Inspection {
    traffic: Traffic,
    findings: Vec<String>,
    rows: u64,
    remarks: Vec<Remark>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    columns: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    map: Option<ColumnMap>,
    spec: Spec,
    /// A generator with these figures.
    generator: WorkloadSpec,
}

/// Reads a file from its beginning to its end, never more of it in memory than a piece and its requests.
pub(crate) fn read(path: &Path, args: &ReadArgs) -> Result<Reading, Failure> {
    let refused = |error: servelab_spec::SpecError| Failure::Request(error.to_string());
    let options = ReadOptions {
        format: args.trace_format.as_deref().map(TraceFormat::named).transpose().map_err(refused)?,
        columns: args.columns.as_deref().map(ColumnMap::parse).transpose().map_err(refused)?,
        block_tokens: args.key_tokens,
    };
    let failed = |error: std::io::Error| Failure::Run(format!("{}: {error}", path.display()));
    let wrong = |error: servelab_workload::trace::TraceError| Failure::Run(format!("{}: {error}", path.display()));
    let mut file = File::open(path).map_err(failed)?;
    let total = file.metadata().map(|metadata| metadata.len()).unwrap_or(0);
    let told = std::io::stderr().is_terminal() && total > 16 * PIECE as u64;
    let (mut reader, mut piece) = (Reader::new(options), vec![0; PIECE]);
    loop {
        let length = file.read(&mut piece).map_err(failed)?;
        if length == 0 {
            break;
        }
        reader.push(&piece[..length]).map_err(wrong)?;
        if told {
            // A courtesy, on a terminal only.
            let share = 100 * reader.bytes() / total.max(1);
            let _ = write!(std::io::stderr(), "\r{share} %, {} requests ", reader.requests());
        }
    }
    if told {
        let _ = write!(std::io::stderr(), "\r{:40}\r", "");
    }
    reader.finish().map_err(wrong)
}

/// Puts a file on the shelf and into the spec, which from then on replays it.
pub(crate) fn into_spec(mut spec: Spec, path: &Path, args: &ReadArgs) -> Result<Spec, Failure> {
    let name = shelf::put(read(path, args)?.trace);
    let known = match &spec.workload {
        WorkloadSpec::Trace(trace) if trace.trace != TraceSpec::SAMPLE => Some(trace.trace.clone()),
        WorkloadSpec::Trace(_) => None,
        _ => {
            spec.workload = WorkloadSpec::Trace(TraceSpec::default());
            None
        }
    };
    if let Some(known) = known.filter(|known| *known != name) {
        let text = format!(
            "{} is the trace {name}, and the experiment replays {known}; another file, or the same read with other options",
            path.display()
        );
        return Err(Failure::Request(text));
    }
    if let WorkloadSpec::Trace(trace) = &mut spec.workload {
        trace.trace = name;
    }
    Ok(spec)
}

fn analysed(reading: &Reading) -> Result<(std::sync::Arc<servelab_workload::trace::Trace>, Traffic), Failure> {
    let name = shelf::put(reading.trace.clone());
    let trace = shelf::find(&name).ok_or_else(|| Failure::Run("the trace is gone".into()))?;
    let mut analysis = Analysis::new(trace.clone());
    analysis.advance(usize::MAX);
    Ok((trace, analysis.report()))
}

pub(crate) fn inspect(args: &InspectArgs, out: &mut impl Write) -> Result<(), Failure> {
    let charts = args.charts.iter().map(|text| chart_request(text, args.dark)).collect::<Result<Vec<_>, _>>()?;
    let charts = (charts.into_iter())
        .map(|(request, file)| Ok((request, Output::open(Path::new(file))?)))
        .collect::<Result<Vec<_>, Failure>>()?;
    let reading = read(&args.file, &args.read)?;
    let (trace, traffic) = analysed(&reading)?;
    match args.format {
        Format::Table | Format::Markdown => summary(&reading, &traffic, out)?,
        Format::Json => {
            let inspection = Inspection {
                findings: findings(&traffic),
                spec: propose(&traffic),
                generator: WorkloadSpec::Generated(fit(&trace, &traffic, LengthLaw::Lognormal)),
                traffic,
                rows: reading.rows,
                remarks: reading.remarks,
                columns: reading.columns,
                map: reading.map,
            };
            write_json(&inspection, out)?;
            out.flush()?;
            return draw(charts, &trace, &inspection.traffic);
        }
        Format::Csv => {
            return Err(Failure::Request("--format csv: an inspection comes as table, markdown or json".into()));
        }
    }
    out.flush()?;
    draw(charts, &trace, &traffic)
}

fn draw(
    charts: Vec<(ChartRequest, Output)>,
    trace: &servelab_workload::trace::Trace,
    traffic: &Traffic,
) -> Result<(), Failure> {
    for (request, file) in charts {
        let chart = charts::draw(&request, trace, traffic).map_err(|error| Failure::Request(error.to_string()))?;
        file.write(&chart.svg)?;
    }
    Ok(())
}

fn chart_request(text: &str, dark: bool) -> Result<(ChartRequest, &str), Failure> {
    let parts =
        text.split_once('=').filter(|(id, file)| !file.is_empty() && CHARTS.iter().any(|(known, _)| known == id));
    let Some((id, file)) = parts else {
        let ids = CHARTS.map(|(id, _)| id).join(", ");
        return Err(Failure::Request(format!("--chart {text}: accepted is ID=FILE.svg with one of {ids}")));
    };
    let (width, height) = SIZE;
    Ok((ChartRequest { id: id.into(), width, height, dark, ..ChartRequest::default() }, file))
}

fn summary(reading: &Reading, traffic: &Traffic, out: &mut impl Write) -> Result<(), Failure> {
    let format = reading.trace.format();
    writeln!(out, "{} (another: --trace-format), trace {}", format.label(), traffic.trace)?;
    if let Some(map) = &reading.map {
        let parts = map.parts().into_iter().filter(|(_, column)| !column.is_empty());
        let parts: Vec<String> = parts.map(|(part, column)| format!("{part}={column}")).collect();
        writeln!(out, "columns {} (others: --columns)", parts.join(","))?;
    }
    writeln!(out)?;
    let mut table = Table::of_words(&["", ""]);
    facts(traffic).into_iter().for_each(|(name, value)| table.row(vec![name, value]));
    table.write(out)?;
    write_remarks(reading, out)?;
    writeln!(out)?;
    for finding in findings(traffic) {
        writeln!(out, "{finding}")?;
    }
    let generator = WorkloadSpec::Generated(fit(&reading.trace, traffic, LengthLaw::Lognormal));
    let from = Spec { workload: WorkloadSpec::Generated(GeneratedSpec::default()), ..Spec::default() };
    let changes = patch::diff(&from, &Spec { workload: generator, ..from.clone() });
    // Of lengths that are lognormal nobody needs the trace.
    let changes = changes.iter().filter(|(key, _)| key != "workload.trace");
    let changes: Vec<String> = changes.map(|(key, value)| format!("--set {key}={value}")).collect();
    writeln!(out, "\nA generator with these figures: --set workload.kind=generated {}", changes.join(" "))?;
    Ok(())
}

/// What was left out, and what was odd; nothing when nothing was.
fn write_remarks(reading: &Reading, out: &mut impl Write) -> Result<(), Failure> {
    let skipped: u64 = reading.remarks.iter().filter(|remark| remark.skipped).map(|remark| remark.count).sum();
    if !reading.remarks.is_empty() {
        writeln!(out, "\n{} of {} rows were left out.", count(skipped), count(reading.rows))?;
    }
    for remark in &reading.remarks {
        let how = if remark.skipped { "left out" } else { "read all the same" };
        let found = if remark.found.is_empty() { String::new() } else { format!(" ({})", remark.found) };
        writeln!(
            out,
            "  {} × {}{found}, first in line {}: {how}; {}",
            count(remark.count),
            remark.what,
            remark.line,
            remark.advice
        )?;
    }
    Ok(())
}

pub(crate) fn replay(args: &ReplayArgs, out: &mut impl Write) -> Result<(), Failure> {
    let reading = read(&args.file, &args.read)?;
    let (_, traffic) = analysed(&reading)?;
    let mut spec = propose(&traffic);
    if !args.policies.is_empty() {
        let list = args.policies.join(",");
        spec = patch::set(&spec, "policies", &list).map_err(|error| Failure::Request(error.to_string()))?;
    }
    spec = source::set(spec, &args.set)?;
    spec.seed = args.seed.unwrap_or(spec.seed);
    if matches!(args.run.format, Format::Table) {
        let said = format!("{} requests of {}", count(traffic.requests), reading.trace.format().label());
        let replicas = servelab_lab::words::many(spec.replicas.into(), "replica");
        writeln!(out, "{said} on {replicas} ({})", spec.execution.cost)?;
        write_remarks(&reading, out)?;
        writeln!(out)?;
    }
    run::run_spec(spec, &args.run, out)
}
