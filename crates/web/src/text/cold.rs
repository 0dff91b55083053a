//! Sentences of the cold start.

use crate::format::duration;
use servelab_spec::coldstart::{ProbeMark, Saving, StagePart};

texts! {
    COLD = "Cold start, stage by stage";
    COLD_NOTE = "What a new replica does before it can serve, under the settings of this experiment. Tick an optimisation and see which stage it shortens; what you change here is part of the experiment.";
    COLD_WAIT = "Asking the simulator…";
    COLD_FROM = "Start from";
    COLD_OWN = "your own numbers";
    COLD_SOURCE = "Where the numbers come from: ";
    COLD_TOGETHER = "start together";
    COLD_TOGETHER_HELP = "Replicas that start at the same instant: they share the registry and the weight store.";
    COLD_IN_FLIGHT = "requests in flight";
    COLD_IN_FLIGHT_HELP = "Load on the replica once it serves: a busy engine answers its probes slowly.";
    COLD_STAGES = "Stages and probes over time";
    COLD_STAGE = "Stage";
    COLD_TIME = "Time";
    COLD_HOW = "How";
    COLD_OPTIMISATIONS = "Optimisations";
    COLD_NOTHING = "Nothing takes any time with these settings. Start from one of the measured cold starts, or set stages under Cold start.";
    COLD_FLOORS = "What weights take at least";
    COLD_FLOORS_NOTE = "Bytes ÷ bandwidth, whatever the engine. Sizes and bandwidths are yours to change.";
    COLD_WEIGHTS = "Weights";
    COLD_MODEL = "Billions of parameters";
    COLD_MANIFEST = "Probes as a Kubernetes manifest";
    COLD_PASSED = "passed";
    COLD_FAILED = "failed";
    GROUP_STARTUP = "Cold start";
    STARTUP_NOTE = "What a new replica does before it can serve. Stages without numbers take no time.";
    GROUP_PROBES = "Probes";
    PROBES_NOTE = "Who asks a replica whether it lives, in Kubernetes' sense. Without any it is believed.";
}

/// Why a count was not taken.
pub(crate) fn count_refused(label: &str, typed: &str, least: u32) -> String {
    let typed = if typed.is_empty() { "nothing" } else { typed };
    format!("{label}: {typed} is not accepted; accepted is a whole number from {least} on")
}

/// A bar for people who do not see it.
pub(crate) fn part_words(part: &StagePart) -> String {
    format!("{}: {}, from {}. {}", part.label, duration(part.seconds), duration(part.start_s), part.help)
}

pub(crate) fn saves(saving: &Saving) -> String {
    let time = duration(saving.saves_s.abs());
    match saving.saves_s {
        s if s > 0.0 && saving.on => format!("saves {time}"),
        s if s > 0.0 => format!("would save {time}"),
        s if s < 0.0 => format!("costs {time}"),
        _ => "saves nothing here".into(),
    }
}

/// A probe's mark in words.
pub(crate) fn probe_words(mark: &ProbeMark) -> String {
    let passed = if mark.passed { COLD_PASSED } else { COLD_FAILED };
    let then = mark.verdict.as_deref().map_or(String::new(), |verdict| format!(": {}", verdict_words(verdict)));
    format!("{} probe sent at {}, {passed} at {}{then}", mark.probe, duration(mark.sent_s), duration(mark.back_s))
}

pub(crate) fn probe_name(kind: &str) -> &'static str {
    match kind {
        "startup" => "Startup probe",
        "readiness" => "Readiness probe",
        _ => "Liveness probe",
    }
}

/// What follows from a probe.
pub(crate) fn verdict_words(verdict: &str) -> &'static str {
    match verdict {
        "started" => "started",
        "ready" => "into rotation",
        "not_ready" => "out of rotation",
        "kill" => "killed",
        _ => "",
    }
}

pub(crate) fn last_of(together: u32, seconds: f64) -> String {
    format!("Of {together} that start at once the last serves after {}.", duration(seconds))
}

pub(crate) fn precision(bits: f64, gb: &str) -> String {
    format!("{bits} bits, {gb} GB")
}

pub(crate) fn bandwidth_label(source: &str) -> String {
    format!("Bandwidth of {source}, GB/s")
}
