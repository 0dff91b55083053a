//! From what was typed to a spec.

use crate::args::Experiment;
use crate::{Failure, trace};
use servelab_lab::{catalog, presets};
use servelab_spec::experiment::PolicySpec;
use servelab_spec::sweep::{self, SweepSpec};
use servelab_spec::validate::MAX_SCRIPT;
use servelab_spec::{Spec, patch};
use std::fs;
use std::path::Path;

/// Largest file read. Reports with a thousand tenants, and sweeps of ten thousand runs, stay below.
const MAX_FILE: u64 = 64 << 20;

/// The spec that was asked for, with its changes, checked.
pub(crate) fn spec(args: &Experiment) -> Result<Spec, Failure> {
    let start = match (&args.preset, &args.experiment) {
        (Some(name), _) => preset(name)?,
        (None, experiment) => start(experiment.as_deref().unwrap_or_default())?,
    };
    changed(start, args)
}

/// The sweep in the file that was named, if there is one in it, with the changes to its experiment.
pub(crate) fn sweep(args: &Experiment) -> Result<Option<SweepSpec>, Failure> {
    let Some(name) = args.experiment.as_deref().filter(|name| is_file(name)) else { return Ok(None) };
    let text = read(name)?;
    let refused = |error: servelab_spec::SpecError| Failure::Request(format!("{name}: {error}"));
    let there = serde_json::from_str::<serde_json::Value>(&text)
        .is_ok_and(|value| value.get("axes").is_some() || value.get("sweep").is_some());
    if !there {
        return Ok(None);
    }
    let mut sweep = sweep::from_json(&text).map_err(refused)?;
    sweep.spec = changed(sweep.spec, args)?;
    Ok(Some(sweep))
}

/// `spec` with `changes`, each of them `KEY=VALUE`.
pub(crate) fn set(mut spec: Spec, changes: &[String]) -> Result<Spec, Failure> {
    for change in changes {
        let Some((key, value)) = change.split_once('=') else {
            return Err(Failure::Request(format!("--set {change}: accepted is KEY=VALUE, as in workload.rate=12")));
        };
        let (key, value) = (key.trim(), catalog::numbered(&spec, key.trim(), value));
        spec = patch::set(&spec, key, &value).map_err(|error| Failure::Request(error.to_string()))?;
    }
    Ok(spec)
}

fn changed(mut spec: Spec, args: &Experiment) -> Result<Spec, Failure> {
    // First, so that its settings can be set.
    if let Some(file) = &args.trace {
        spec = trace::into_spec(spec, file, &args.read)?;
    }
    let mut spec = set(spec, &args.set)?;
    for file in &args.scripts {
        let policy = PolicySpec::scripted(&script(file)?).with("tier", args.script_tier.into());
        spec.policies.push(policy);
    }
    if let Some(seed) = args.seed {
        spec.seed = seed;
    }
    catalog::check(&spec).map_err(|error| Failure::Request(error.to_string()))?;
    Ok(spec)
}

/// A script's text, from a file that is no longer than a script may be.
fn script(file: &Path) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::Run(format!("{}: {error}", file.display()));
    let length = fs::metadata(file).map_err(failed)?.len();
    if length > MAX_SCRIPT as u64 {
        let accepted = format!("accepted are {MAX_SCRIPT} bytes");
        return Err(Failure::Request(format!("{}: a script of {length} bytes; {accepted}", file.display())));
    }
    fs::read_to_string(file).map_err(failed)
}

fn start(experiment: &str) -> Result<Spec, Failure> {
    if let Some((_, fragment)) = experiment.split_once('#') {
        let (spec, warnings) = patch::decode(fragment, &presets::all());
        // A page can show what it could read; a command that quietly runs something else would mislead.
        return if warnings.is_empty() { Ok(spec) } else { Err(Failure::Request(warnings.join("\n"))) };
    }
    if !is_file(experiment) {
        return preset(experiment);
    }
    let hint = match Path::new(experiment).extension().and_then(|extension| extension.to_str()) {
        Some("rhai") => "; a policy's script goes with --script FILE, after the experiment",
        Some("csv" | "jsonl" | "gz") => "; recorded requests go with --trace FILE, or to `replay`",
        _ => "",
    };
    patch::from_json(&read(experiment)?).map_err(|error| Failure::Request(format!("{experiment}: {error}{hint}")))
}

/// A preset's name counts before a file of that name.
fn is_file(experiment: &str) -> bool {
    !experiment.contains('#') && presets::find(experiment).is_none() && Path::new(experiment).is_file()
}

fn preset(name: &str) -> Result<Spec, Failure> {
    presets::find(name).map(|preset| preset.spec).ok_or_else(|| {
        let names: Vec<String> = presets::all().into_iter().map(|preset| preset.name).collect();
        Failure::Request(format!("{name}: no such preset or file; presets are {}", names.join(", ")))
    })
}

/// A file's text, unless it is too large to be one of ours.
pub(crate) fn read(name: &str) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::Run(format!("{name}: {error}"));
    if fs::metadata(name).map_err(failed)?.len() > MAX_FILE {
        return Err(Failure::Request(format!("{name}: larger than {} MiB, so hardly one of ours", MAX_FILE >> 20)));
    }
    fs::read_to_string(name).map_err(failed)
}
