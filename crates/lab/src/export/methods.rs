//! What was run, as a paragraph for somebody's methods section: workload, fleet, prices, policies, seed, version, and the command that repeats it. Every number in it
//! is the spec's, or of the report's facts about workload and cost.

use crate::{catalog, presets};
use servelab_spec::command;
use servelab_spec::experiment::{ExecutionMode, Spec};
use servelab_spec::patch;
use servelab_spec::report::Report;

/// The paragraph.
pub fn paragraph(report: &Report) -> String {
    let (spec, workload) = (&report.spec, &report.workload);
    let labels: Vec<String> =
        spec.contenders().into_iter().map(|contender| catalog::contender_label(spec, contender)).collect();
    let compared = match labels.as_slice() {
        [only] => format!("{only} was run"),
        many => format!("{} were compared on the same arrivals", many.join("; ")),
    };
    // A fixed workload has none.
    let chosen = match settings(spec, &["workload"], false) {
        none if none.is_empty() => none,
        some => format!("; its settings: {some}"),
    };
    let mut said = vec![
        format!(
            "{compared} with {}, schema version {}, experiment {}, seed {}.",
            report.generator, report.version, spec.preset, spec.seed
        ),
        format!(
            "The workload ({}) had {} requests with {} prompt tokens{chosen}.",
            spec.workload.kind().replace('_', " "),
            workload.requests,
            workload.prompt_tokens
        ),
        format!("The fleet began with {} replicas{}.", spec.replicas, each(spec)),
        charged(report),
        format!(
            "A request counts as good with a time to first token of at most {} s and a mean gap between tokens of at most {} s.",
            spec.slo.ttft_s, spec.slo.itl_s
        ),
    ];
    let more =
        settings(spec, &["routing", "gateway", "store", "events", "clients", "faults", "scaling", "startup"], true);
    if !more.is_empty() {
        said.push(format!("Other settings that differ from the defaults: {more}."));
    }
    let base = presets::find(&spec.preset).map(|preset| preset.spec).unwrap_or_default();
    said.push(format!("To repeat it: {}", command::run(spec, &base)));
    said.join(" ") + "\n"
}

/// What a replica is.
fn each(spec: &Spec) -> String {
    let of = match spec.execution.mode {
        ExecutionMode::Priced | ExecutionMode::Tinygpt => "engine",
        ExecutionMode::Tick => "tick",
        ExecutionMode::Server => "server",
    };
    format!(", each with {}", settings(spec, &[of], false))
}

/// What time passed.
fn charged(report: &Report) -> String {
    let (cost, c) = (&report.cost, &report.cost.coefficients);
    let formula = format!(
        "{} µs a step, {} µs a prefill token, {} µs a prefill token and token of its context, {} µs a decoding sequence, {} µs a token of context that it reads",
        c.step_us, c.prefill_token_us, c.prefill_context_us, c.decode_sequence_us, c.decode_context_us
    );
    match report.spec.execution.mode {
        ExecutionMode::Priced => {
            format!("Steps were priced, not computed ({}): {formula}. So the numbers repeat on every machine.", cost.source)
        }
        ExecutionMode::Tinygpt => format!(
            "Steps were computed by TinyGPT on {} and charged {} times ({formula}). So times differ from run to run.",
            cost.device, cost.source
        ),
        ExecutionMode::Tick | ExecutionMode::Server => {
            "No steps were computed or priced: replicas are models of time alone. So the numbers repeat on every machine.".into()
        }
    }
}

/// Settings under any of `groups`; only those that differ from the defaults when `changed`.
fn settings(spec: &Spec, groups: &[&str], changed: bool) -> String {
    let usual = patch::entries(&Spec::default());
    let said = patch::entries(spec).into_iter().filter_map(|(key, value)| {
        let (group, name) = key.split_once('.')?;
        let asked = groups.contains(&group) && !(changed && usual.contains(&(key.clone(), value.clone())));
        let name = if groups.len() == 1 { name } else { &key };
        asked.then(|| format!("{name}={value}"))
    });
    said.collect::<Vec<_>>().join(", ")
}
