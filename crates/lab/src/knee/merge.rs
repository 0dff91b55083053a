//! Shards of a search for knees, put together as those of a sweep are: in any order, to the bytes of the whole.

use super::KneePlan;
use crate::sweep::{MergeError, complete};
use servelab_spec::knee::{KneeReport, KneeTrial};

/// Puts the shards of a search together, in whatever order they come.
///
/// # Errors
/// Shards of different searches, damaged ones, and trials that are missing or contradict each other.
pub fn merge(reports: Vec<KneeReport>) -> Result<KneeReport, MergeError> {
    let first = reports.first().ok_or(MergeError::Nothing)?;
    let (knee, generator) = (first.knee.clone(), first.generator.clone());
    let plan = KneePlan::of_results(knee).map_err(|error| MergeError::Damaged { at: 0, what: error.to_string() })?;
    let mut trials: Vec<KneeTrial> = Vec::with_capacity(plan.trials() as usize);
    for (at, report) in reports.into_iter().enumerate() {
        let different = |what| Err(MergeError::Different { at, what });
        if report.knee != plan.knee {
            return different("what is searched");
        }
        if report.generator != generator {
            return different("the version of the program that made it");
        }
        if let Some(fault) = report.trials.iter().find_map(|trial| fault(&plan, trial)) {
            return Err(MergeError::Damaged { at, what: fault });
        }
        trials.extend(report.trials);
    }
    trials.sort_by_key(|trial| trial.trial);
    // A shard that was run twice does no harm, since it says the same.
    trials.dedup();
    if let Some(pair) = trials.windows(2).find(|pair| pair[0].trial == pair[1].trial) {
        return Err(MergeError::Contradiction { what: "trial", number: pair[0].trial });
    }
    complete("trial", plan.trials(), trials.iter().map(|trial| trial.trial))?;
    Ok(plan.report(trials))
}

/// A trial as it should be: of this search, with its own policy and seed.
fn fault(plan: &KneePlan, trial: &KneeTrial) -> Option<String> {
    if trial.trial >= plan.trials() {
        return Some(format!("trial {} of {}", trial.trial, plan.trials()));
    }
    let own = trial.policy == trial.trial / plan.knee.seeds && trial.seed == plan.seed(trial.trial);
    (!own).then(|| format!("trial {} bears the policy or the seed of another", trial.trial))
}
