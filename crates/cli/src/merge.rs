//! Puts the shards of a sweep together.

use crate::args::MergeArgs;
use crate::{Failure, source, sweep};
use servelab_lab::sweep::{MergeError, merge as merged};
use servelab_spec::sweep::SweepReport;
use std::io::Write;

pub(crate) fn merge(args: &MergeArgs, out: &mut impl Write) -> Result<(), Failure> {
    let target = sweep::Target::open(&args.into)?;
    let mut reports: Vec<SweepReport> = Vec::with_capacity(args.files.len());
    for file in &args.files {
        let name = file.display().to_string();
        let text = source::read(&name)?;
        let report = serde_json::from_str(&text);
        reports.push(
            report.map_err(|error| Failure::Request(format!("{name}: not the result of a sweep as JSON: {error}")))?,
        );
    }
    // Whoever names files wants to read their names.
    let name = |at: usize| args.files.get(at).map(|file| file.display().to_string()).unwrap_or_default();
    let report = merged(reports).map_err(|error| {
        Failure::Request(match error {
            MergeError::Different { at, what } => {
                format!("{}: of another sweep than the first file: {what} differs", name(at))
            }
            MergeError::Damaged { at, what } => format!("{}: damaged: {what}", name(at)),
            error => error.to_string(),
        })
    })?;
    sweep::write(&report, target, out)
}
