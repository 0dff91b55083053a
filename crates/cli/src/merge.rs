//! Puts the shards of a sweep, or of a search for knees, together.

use crate::args::MergeArgs;
use crate::{Failure, knee, source, sweep};
use serde::de::DeserializeOwned;
use servelab_lab::knee::merge as merged_knees;
use servelab_lab::sweep::{MergeError, merge as merged_sweeps};
use servelab_spec::knee::KneeReport;
use servelab_spec::sweep::SweepReport;
use std::io::Write;

pub(crate) fn merge(args: &MergeArgs, out: &mut impl Write) -> Result<(), Failure> {
    let target = sweep::Target::open(&args.into)?;
    let mut texts: Vec<(String, String)> = Vec::with_capacity(args.files.len());
    for file in &args.files {
        let name = file.display().to_string();
        let text = source::read(&name)?;
        texts.push((name, text));
    }
    // Whoever names files wants to read their names.
    let name = |at: usize| texts.get(at).map(|(name, _)| name.clone()).unwrap_or_default();
    let told = |error: MergeError| {
        Failure::Request(match error {
            MergeError::Different { at, what } => {
                format!("{}: of another one than the first file: {what} differs", name(at))
            }
            MergeError::Damaged { at, what } => format!("{}: damaged: {what}", name(at)),
            error => error.to_string(),
        })
    };
    // The first file says what they are.
    let of_knee = texts.first().is_some_and(|(_, text)| serde_json::from_str::<KneeReport>(text).is_ok());
    if of_knee {
        let report = merged_knees(read(&texts, "a search for knees")?).map_err(told)?;
        return knee::write(&report, target, out);
    }
    let reports: Vec<SweepReport> = read(&texts, "a sweep")?;
    sweep::write(&merged_sweeps(reports).map_err(told)?, target, out)
}

fn read<T: DeserializeOwned>(texts: &[(String, String)], what: &str) -> Result<Vec<T>, Failure> {
    let read = texts.iter().map(|(name, text)| {
        serde_json::from_str(text)
            .map_err(|error| Failure::Request(format!("{name}: not the result of {what} as JSON: {error}")))
    });
    read.collect()
}
