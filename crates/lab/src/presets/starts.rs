//! What a start is made of, and what an end costs.

use super::scaling::{fleet, hpa};
use super::{guess, preset};
use crate::report::verdict::{Case, Judge};
use crate::startup;
use crate::words::{count, duration};
use servelab_fleet::scaling::Signal;
use servelab_spec::catalog::PresetInfo;
use servelab_spec::experiment::{EngineSpec, StartupSpec, WorkloadSpec};
use servelab_spec::report::Verdict;

pub(super) fn all() -> Vec<PresetInfo> {
    vec![parts(), scale_down()]
}

pub(super) fn judge(name: &str) -> Option<Judge> {
    match name {
        "cold-start-parts" => Some(shortens_most),
        "scale-down-drops" => Some(cut_off),
        _ => None,
    }
}

/// What can be done about a start: words, the setting, and the switch.
type Shorter = (&'static str, &'static str, fn(&mut StartupSpec));

const SHORTER: [Shorter; 4] = [
    ("A node that stands ready", "startup.warm_node", |startup| startup.warm_node = true),
    ("An image that is there already", "startup.image_pulled", |startup| startup.image_pulled = true),
    ("Weights on the node's own disk", "startup.nvme", |startup| startup.nvme = true),
    ("Compiled programs that are kept", "startup.compile_cache", |startup| startup.compile_cache = true),
];

fn parts() -> PresetInfo {
    let mut spec = fleet("0:0.4,0.5:0.4,0.51:1.2,1.5:1.2", 20.0, vec![hpa(Signal::InFlight, 6.0)]);
    spec.scaling.max = 6;
    let question = "What is a cold start made of, and what shortens it most?";
    let options = SHORTER.map(|(words, ..)| words);
    let ask = "Traffic triples, and replicas have to start. Which one of these takes most off a start?";
    guess(preset("cold-start-parts", "The parts of a cold start", question, spec), ask, &options)
}

/// Answers of a minute, and half a minute to finish them, where traffic falls to a fifth twice.
fn scale_down() -> PresetInfo {
    let curve = "0:1,0.4:1,0.41:0.2,0.8:0.2,0.81:1,1.2:1,1.21:0.2,1.6:0.2";
    let mut spec = fleet(curve, 20.0, vec![hpa(Signal::InFlight, 6.0)]);
    spec.replicas = 5;
    if let WorkloadSpec::Demand(demand) = &mut spec.workload {
        (demand.rate, demand.output_min, demand.output_max) = (0.5, 1500, 3000);
    }
    spec.engine = EngineSpec { blocks: 2048, max_context: 8192, ..spec.engine };
    spec.scaling.grace_s = 30.0;
    let options = ["None: a draining replica finishes what it has", "Some of them", "All of them"];
    guess(
        preset("scale-down-drops", "Scale-down drops requests", "Scale-down drops requests: why?", spec),
        "Answers take a minute, and a replica that is taken away has 30 s. How many of the answers under way there are cut off?",
        &options,
    )
}

/// The least time that a start takes with one of them, the others left as they are; what that does for users is run.
fn shortens_most(case: &Case<'_>) -> Option<Verdict> {
    let time = |startup: &StartupSpec| startup::config(startup).nominal().as_secs();
    let whole = time(&case.spec.startup);
    let mut saved: Vec<(usize, f64)> = (SHORTER.iter().enumerate())
        .map(|(at, (_, _, switch))| {
            let mut startup = case.spec.startup;
            switch(&mut startup);
            (at, whole - time(&startup))
        })
        .collect();
    saved.sort_by(|a, b| b.1.total_cmp(&a.1));
    let [(best, most), (second, less), ..] = saved[..] else { return None };
    if most <= 0.0 {
        return None;
    }
    let (words, key, _) = SHORTER[best];
    let with = case.variant(&case.spec.policies[..1], &[(key, "on")])?;
    let late = case.policy(0).scaling.as_ref()?.late_s;
    let because = format!(
        "With \u{201c}{words}\u{201d} a start takes {} in place of {}; with \u{201c}{}\u{201d}, the next best, {}. Users are late for {} then, and for {} without.",
        duration(whole - most),
        duration(whole),
        SHORTER[second].0,
        duration(whole - less),
        duration(with.policy().scaling.as_ref()?.late_s),
        duration(late)
    );
    Some(Verdict { option: best as u32, because })
}

/// Without any grace everything under way is lost: that says how much it was.
fn cut_off(case: &Case<'_>) -> Option<Verdict> {
    let policies = &case.spec.policies[..1];
    let lost = case.policy(0).requests.lost;
    let at_once = case.variant(policies, &[("scaling.grace_s", "0")])?.policy().requests.lost;
    let patient = case.variant(policies, &[("scaling.grace_s", "300")])?.policy().requests.lost;
    if at_once == 0 {
        return None;
    }
    let option = match lost {
        0 => 0,
        lost if lost < at_once => 1,
        _ => 2,
    };
    let because = format!(
        "With {} to finish, {} of {at_once} answers under way were cut off. With five minutes it is {}.",
        duration(case.spec.scaling.grace_s),
        count(lost),
        count(patient)
    );
    Some(Verdict { option, because })
}
