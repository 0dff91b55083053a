//! Which signal sees too much load coming.

use crate::args::{Format, SignalsArgs};
use crate::run::write_json;
use crate::sweep::Target;
use crate::table::Table;
use crate::{Failure, failed, source};
use servelab_lab::signals::signals;
use servelab_lab::words::{duration, percent};
use servelab_spec::signals::{SignalRow, SignalsReport};
use std::io::Write;

pub(crate) fn command(args: &SignalsArgs, out: &mut impl Write) -> Result<(), Failure> {
    let spec = source::spec(&args.experiment)?;
    let target = Target::open(&args.into)?;
    let report = signals(&spec, args.window).map_err(failed)?;
    let format = target.format;
    target.fill(out, |text| match format {
        Format::Json => write_json(&report, text),
        Format::Csv => Err(Failure::Request("--format csv: signals come as table, markdown or json".into())),
        Format::Table | Format::Markdown => summary(&report, text),
    })
}

fn summary(report: &SignalsReport, out: &mut Vec<u8>) -> Result<(), Failure> {
    let mut table = Table::with_names(1, &["signal", "calls at", "calm", "when late", "lead", "calm calls", "verdict"]);
    for row in &report.rows {
        let value = |of: Option<f64>| of.map_or("–".into(), |value| figure(row, value));
        table.row(vec![
            row.label.clone(),
            format!("{} ({})", figure(row, row.threshold), row.basis),
            value(row.calm),
            value(row.at_first_late),
            row.lead_s.map_or("–".into(), lead),
            percent(row.false_share),
            row.verdict.label().into(),
        ]);
    }
    table.write(out)?;
    writeln!(out)?;
    for sentence in &report.sentences {
        writeln!(out, "{sentence}")?;
    }
    Ok(())
}

/// A value with its unit.
fn figure(row: &SignalRow, value: f64) -> String {
    match row.unit.as_str() {
        "s" => duration(value),
        unit if value.abs() < 10.0 => format!("{value:.2}{unit}"),
        unit => format!("{value:.0}{unit}"),
    }
}

fn lead(seconds: f64) -> String {
    if seconds < 0.0 { format!("{} after", duration(-seconds)) } else { duration(seconds) }
}
