//! Finds the knee of every policy, on all cores.

use crate::args::{Format, KneeArgs};
use crate::output::Output;
use crate::run::write_json;
use crate::spread::spread;
use crate::sweep::{SIZE, Target};
use crate::table::Table;
use crate::{Failure, failed, source};
use servelab_lab::chart::draw_knees;
use servelab_lab::knee::{KneePlan, findings};
use servelab_lab::words;
use servelab_spec::SCHEMA_VERSION;
use servelab_spec::csv::knee_csv;
use servelab_spec::knee::{KneeReport, KneeSpec, PolicyKnee};
use servelab_spec::sweep::{Band, Shard};
use std::io::Write;

pub(crate) fn knee(args: &KneeArgs, out: &mut impl Write) -> Result<(), Failure> {
    let spec = source::spec(&args.experiment)?;
    let plan = KneePlan::new(KneeSpec { version: SCHEMA_VERSION, spec, seeds: args.seeds });
    let plan = plan.map_err(|error| Failure::Request(error.to_string()))?;
    let shard = args.shard.as_deref().map_or(Ok(Shard::WHOLE), Shard::parse);
    let shard = shard.map_err(|error| Failure::Request(error.to_string()))?;
    let chart = args.chart.as_deref().map(Output::open).transpose()?;
    let target = Target::open(&args.spread.into)?;
    let trials: Vec<u32> = shard.cells(plan.trials()).collect();
    let results = spread(&trials, args.spread.jobs, |&trial| plan.run(trial)).map_err(failed)?;
    let report = plan.report(results);
    write(&report, target, out)?;
    if let Some(file) = chart {
        out.flush()?;
        let drawn = draw_knees(SIZE.0, SIZE.1, false, &report);
        file.write(&drawn.map_err(|error| Failure::Request(error.to_string()))?)?;
    }
    Ok(())
}

/// The result in the form that was asked for.
pub(crate) fn write(report: &KneeReport, target: Target, out: &mut impl Write) -> Result<(), Failure> {
    let format = target.format;
    target.fill(out, |text| match format {
        Format::Json => write_json(report, text),
        Format::Csv => Ok(write!(text, "{}", knee_csv(report))?),
        Format::Table | Format::Markdown => summary(report, text),
    })
}

fn summary(report: &KneeReport, out: &mut Vec<u8>) -> Result<(), Failure> {
    let (spec, seeds) = (&report.knee.spec, report.knee.seeds);
    let (replicas, of_seeds) = (words::many(spec.replicas.into(), "replica"), words::many(seeds.into(), "seed"));
    writeln!(out, "{}: {replicas}, {of_seeds} from {}", spec.preset, spec.seed)?;
    writeln!(out, "{}\n", report.definition)?;
    let mut table =
        Table::new(&["policy", "knee, requests/s per replica", "whole fleet", "− first policy's", "searches"]);
    for policy in &report.policies {
        table.row(vec![
            policy.label.clone(),
            policy.per_replica_per_s.map_or("–".into(), |band| rate(&band)),
            policy.per_s.map_or("–".into(), |band| rate(&band)),
            policy.versus_first.map(|band| difference(&band)).unwrap_or_default(),
            searches(policy, seeds),
        ]);
    }
    table.write(out)?;
    if seeds > 1 {
        writeln!(out, "\nMeans over seeds ± half of their 95 % interval; differences in brackets are within noise.")?;
    }
    writeln!(out)?;
    for finding in findings(report) {
        writeln!(out, "{finding}")?;
    }
    Ok(())
}

/// Three figures: the search is good to one in fifty.
fn rate(band: &Band) -> String {
    let mean = format!("{:.3}", band.mean);
    band.high.map_or(mean.clone(), |high| format!("{mean} ± {:.3}", high - band.mean))
}

fn difference(band: &Band) -> String {
    let text = format!("{}{:.3}", if band.mean < 0.0 { "−" } else { "+" }, band.mean.abs());
    if band.significant { text } else { format!("({text})") }
}

fn searches(policy: &PolicyKnee, seeds: u32) -> String {
    let mut told = vec![format!("{} of {seeds} found it", policy.per_s.map_or(0, |band| band.n))];
    if policy.never_good > 0 {
        told.push(format!("{} at no rate within the limits", words::count(policy.never_good.into())));
    }
    if policy.always_good > 0 {
        told.push(format!("{} within them at every rate", words::count(policy.always_good.into())));
    }
    told.join(", ")
}
