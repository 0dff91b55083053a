//! A cold start stage by stage, what its probes make of it, and what weights take at least.

use crate::args::{ColdstartArgs, Format};
use crate::output::Output;
use crate::run::write_json;
use crate::sweep::Target;
use crate::table::Table;
use crate::{Failure, source};
use servelab_lab::startup::{cold_start, presets};
use servelab_lab::words::duration;
use servelab_spec::Spec;
use servelab_spec::coldstart::{ColdStart, ColdStartQuery};
use std::io::Write;

/// Width of the longest bar, characters.
const BAR: f64 = 40.0;

pub(crate) fn coldstart(args: &ColdstartArgs, out: &mut impl Write) -> Result<(), Failure> {
    let info = presets::find(&args.start).ok_or_else(|| {
        let names: Vec<String> = presets::all().into_iter().map(|info| info.name).collect();
        Failure::Request(format!("{}: no such cold start; there are {}", args.start, names.join(", ")))
    })?;
    let spec = source::set(Spec { startup: info.startup, ..Spec::default() }, &args.set)?;
    let query = ColdStartQuery {
        startup: spec.startup,
        together: args.together,
        in_flight: args.in_flight,
        grace_s: spec.scaling.grace_s,
        ..ColdStartQuery::default()
    };
    let answer = cold_start(&query).map_err(|error| Failure::Request(error.to_string()))?;
    let manifest = args.manifest.as_deref().map(Output::open).transpose()?;
    let target = Target::open(&args.into)?;
    let format = target.format;
    target.fill(out, |text| match format {
        Format::Json => write_json(&answer, text),
        Format::Csv => Err(Failure::Request("--format csv: a cold start comes as table, markdown or json".into())),
        Format::Table | Format::Markdown => {
            writeln!(text, "{}\n{}\n", info.label, info.source)?;
            summary(&answer, args.together, text)
        }
    })?;
    manifest.map_or(Ok(()), |file| file.write(&answer.manifest.text))
}

fn summary(answer: &ColdStart, together: u32, out: &mut Vec<u8>) -> Result<(), Failure> {
    let longest = answer.stages.iter().map(|stage| stage.seconds).fold(0.0, f64::max);
    let mut head = vec!["stage", "time", "", "how"];
    if together > 1 {
        head.push("together");
    }
    let mut table = Table::of_words(&head);
    for stage in answer.stages.iter().filter(|stage| stage.seconds > 0.0) {
        let bar = "▇".repeat((BAR * stage.seconds / longest).round().max(1.0) as usize);
        let mut row = vec![stage.label.clone(), duration(stage.seconds), bar, stage.how.clone()];
        if together > 1 {
            row.push(duration(stage.together_s));
        }
        table.row(row);
    }
    table.write(out)?;
    writeln!(out, "\n{}", answer.sentence)?;
    if together > 1 {
        let last = duration(answer.together_s);
        writeln!(out, "{together} that start at once share registry and weight store: the last serves after {last}.")?;
    }
    let mut table = Table::new(&["optimisation", "used", "saves"]);
    for saving in &answer.savings {
        let sign = if saving.saves_s < 0.0 { "−" } else { "" };
        let used = if saving.on { "yes" } else { "no" };
        table.row(vec![saving.label.clone(), used.into(), format!("{sign}{}", duration(saving.saves_s.abs()))]);
    }
    writeln!(out)?;
    table.write(out)?;
    if !answer.probes.is_empty() {
        let mut table = Table::with_names(1, &["probe", "life", "sent", "back", "passed", "then"]);
        for mark in &answer.probes {
            table.row(vec![
                mark.probe.clone(),
                (mark.life + 1).to_string(),
                duration(mark.sent_s),
                duration(mark.back_s),
                if mark.passed { "yes" } else { "no" }.into(),
                mark.verdict.clone().unwrap_or_default().replace('_', " "),
            ]);
        }
        writeln!(out)?;
        table.write(out)?;
    }
    writeln!(out, "\nWhat weights take at least: bytes ÷ bandwidth.\n")?;
    let heads: Vec<String> =
        answer.floors.sources.iter().map(|source| format!("{} {} GB/s", source.name, source.gb_s)).collect();
    let head: Vec<&str> = ["weights", "GB"].into_iter().chain(heads.iter().map(String::as_str)).collect();
    let mut table = Table::new(&head);
    for row in &answer.floors.rows {
        let mut cells = vec![format!("{}B, {} bits", row.model_b, row.bits), row.gb.to_string()];
        cells.extend(row.seconds.iter().map(|&seconds| duration(seconds)));
        table.row(cells);
    }
    table.write(out)?;
    writeln!(out)?;
    for source in &answer.floors.sources {
        writeln!(out, "{}: {}", source.name, source.source)?;
    }
    Ok(())
}
