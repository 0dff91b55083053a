//! Finds the knee of every policy, on all cores.

use crate::args::{Format, KneeArgs};
use crate::run::write_json;
use crate::spread::spread;
use crate::sweep::Target;
use crate::table::Table;
use crate::{Failure, failed, source};
use servelab_lab::knee::KneePlan;
use servelab_lab::words;
use servelab_spec::SCHEMA_VERSION;
use servelab_spec::csv::knee_csv;
use servelab_spec::knee::{KneeReport, KneeSpec, PolicyKnee};
use servelab_spec::sweep::Band;
use std::io::Write;

pub(crate) fn knee(args: &KneeArgs, out: &mut impl Write) -> Result<(), Failure> {
    let spec = source::spec(&args.experiment)?;
    let plan = KneePlan::new(KneeSpec { version: SCHEMA_VERSION, spec, seeds: args.seeds });
    let plan = plan.map_err(|error| Failure::Request(error.to_string()))?;
    let target = Target::open(&args.spread.into)?;
    let trials: Vec<u32> = (0..plan.trials()).collect();
    let results = spread(&trials, args.spread.jobs, |&trial| plan.run(trial)).map_err(failed)?;
    let report = plan.report(results);
    let format = target.format;
    target.fill(out, |text| match format {
        Format::Json => write_json(&report, text),
        Format::Csv => Ok(write!(text, "{}", knee_csv(&report))?),
        Format::Table => summary(&report, text),
    })
}

fn summary(report: &KneeReport, out: &mut Vec<u8>) -> Result<(), Failure> {
    let (spec, seeds) = (&report.knee.spec, report.knee.seeds);
    writeln!(out, "{}: {} replicas, {seeds} seeds from {}", spec.preset, spec.replicas, spec.seed)?;
    writeln!(out, "{}\n", report.definition)?;
    let mut table =
        Table::new(&["policy", "knee, requests/s per replica", "whole fleet", "− first policy's", "searches"]);
    for policy in &report.policies {
        table.row(vec![
            policy.policy.label.clone(),
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
