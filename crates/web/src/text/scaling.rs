//! Words of scaling.

use crate::format::duration;
use servelab_spec::report::ScalingReport;

pub(crate) const CONTROLLERS: &str = "Controllers";
pub(crate) const NO_CONTROLLER: &str =
    "Nobody decides: as many replicas as at the start. Those that are lost are replaced.";
pub(crate) const ADD_CONTROLLER: &str = "Add a controller…";
pub(crate) const CONTROLLER_RULE: &str = "Rule";
pub(crate) const GROUP_SCALING: &str = "Scaling";
pub(crate) const SCALING_NOTE: &str = "Replicas come and go by themselves: a controller reads signals and decides, a cold start lies between its decision and the first answer.";
pub(crate) const CURVE: &str = "Demand curve";
pub(crate) const CURVE_HELP: &str =
    "Pairs hour:level, hours ascending from 0, straight lines between them. Level 1 is the arrival rate above.";
pub(crate) const CURVE_PAD: &str = "The demand curve: draw on it, or change the pairs below";
pub(crate) const CURVE_FILE: &str = "Take two columns from a file";
pub(crate) const CURVE_TOO_LARGE: &str =
    "The file is larger than a curve can be: at most 2000 lines of hour and level are read.";
pub(crate) const CURVE_UNREADABLE: &str = "The file could not be read as text.";

pub(crate) const SCALING_RESULTS: &str = "Replicas and what they cost";
pub(crate) const COL_CONTROLLER: &str = "Who decided";
pub(crate) const COL_LATE: &str = "Users late";
pub(crate) const COL_REPLICA_HOURS: &str = "Replicas";
pub(crate) const COL_NODE_HOURS: &str = "Nodes";
pub(crate) const COL_PEAK: &str = "Most ready";
pub(crate) const COL_WASTED: &str = "Given up / started";
pub(crate) const COL_RESTARTS: &str = "Killed by probes";
pub(crate) const COL_CACHE_LOST: &str = "Cache lost";
pub(crate) const COL_LOST: &str = "Requests lost";
pub(crate) const DELAYS: &str = "Where did the delay go?";

/// A controller that nobody can have.
pub(crate) fn bound(label: &str) -> String {
    format!("{label} (a bound)")
}

pub(crate) fn late_note(bin_s: f64) -> String {
    format!(
        "Users count as late by the {}: somebody who arrived in it missed the TTFT limit, was refused or lost.",
        duration(bin_s)
    )
}

pub(crate) fn delays_of(label: &str, whole: &str) -> String {
    format!("{label}: {whole} from the first late request to relief.")
}

pub(crate) fn lost_causes(of: &ScalingReport) -> String {
    let causes = [(of.lost_grace, "drain too short"), (of.lost_probe, "killed by a probe"), (of.lost_crash, "crash")];
    let said: Vec<String> =
        causes.into_iter().filter(|(many, _)| *many > 0).map(|(many, why)| format!("{many} {why}")).collect();
    said.join(", ")
}

pub(crate) const FORESIGHT: &str = "Which signal sees it coming?";
pub(crate) const FORESIGHT_NOTE: &str = "The load of this experiment on a fleet that nobody scales, until ten minutes after the first late user. A signal calls at its threshold; what counts is how long before the first late user it began to, and how often it calls while nothing is wrong. Every signal is the mean of a minute.";
pub(crate) const FORESIGHT_ASK: &str = "Ask every signal";
pub(crate) const FORESIGHT_ASKING: &str = "Running…";
pub(crate) const FORESIGHT_HEADS: [&str; 7] =
    ["Signal", "Verdict", "Before the first late user", "Calls in calm", "Calls at", "Calm", "When late"];

/// How long before the first late user a signal called.
pub(crate) fn lead(seconds: f64) -> String {
    if seconds < 0.0 { format!("{} after", duration(-seconds)) } else { duration(seconds) }
}
