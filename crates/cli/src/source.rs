//! From what was typed to a spec.

use crate::Failure;
use crate::args::RunArgs;
use servelab_lab::{catalog, presets};
use servelab_spec::{Spec, patch};
use std::fs;
use std::path::Path;

/// Largest file read as a spec. Reports with a thousand tenants stay far below.
const MAX_FILE: u64 = 64 << 20;

/// The spec that was asked for, with its changes, checked.
pub(crate) fn spec(args: &RunArgs) -> Result<Spec, Failure> {
    let mut spec = start(&args.experiment)?;
    let request = |error: servelab_spec::SpecError| Failure::Request(error.to_string());
    for change in &args.set {
        let Some((key, value)) = change.split_once('=') else {
            return Err(Failure::Request(format!("--set {change}: accepted is KEY=VALUE, as in workload.rate=12")));
        };
        spec = patch::set(&spec, key.trim(), value).map_err(request)?;
    }
    if let Some(seed) = args.seed {
        spec.seed = seed;
    }
    catalog::check(&spec).map_err(request)?;
    Ok(spec)
}

fn start(experiment: &str) -> Result<Spec, Failure> {
    if let Some((_, fragment)) = experiment.split_once('#') {
        let (spec, warnings) = patch::decode(fragment, &presets::all());
        // A page can show what it could read; a command that quietly runs something else would mislead.
        return if warnings.is_empty() { Ok(spec) } else { Err(Failure::Request(warnings.join("\n"))) };
    }
    if let Some(preset) = presets::find(experiment) {
        return Ok(preset.spec);
    }
    let path = Path::new(experiment);
    if !path.is_file() {
        let names: Vec<String> = presets::all().into_iter().map(|preset| preset.name).collect();
        let known = names.join(", ");
        return Err(Failure::Request(format!("{experiment}: no such preset or file; presets are {known}")));
    }
    let failed = |error: std::io::Error| Failure::Run(format!("{experiment}: {error}"));
    if fs::metadata(path).map_err(failed)?.len() > MAX_FILE {
        return Err(Failure::Request(format!("{experiment}: larger than {} MiB, so hardly a spec", MAX_FILE >> 20)));
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    patch::from_json(&text).map_err(|error| Failure::Request(format!("{experiment}: {error}")))
}
