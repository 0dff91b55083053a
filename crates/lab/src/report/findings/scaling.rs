//! What an autoscaler did, in a few sentences: for how long users were late, what that cost, and where the time went.

use crate::words::{self, count, dollars, duration, percent};
use servelab_spec::report::{PolicyReport, Report, ScalingReport};

pub(super) fn findings(report: &Report, done: &[usize]) -> Vec<String> {
    let runs = || done.iter().filter_map(|&at| Some((&report.policies[at], report.policies[at].scaling.as_ref()?)));
    let mut out = Vec::new();
    let late = |of: &(&PolicyReport, &ScalingReport)| of.1.late_s;
    let Some(best) = runs().min_by(|a, b| late(a).total_cmp(&late(b))) else { return out };
    let cost = |of: &ScalingReport| {
        let nodes = if of.node_s > of.replica_s { format!(", {} of nodes", hours(of.node_s)) } else { String::new() };
        format!("{} of replicas{nodes}", hours(of.replica_s))
    };
    let name = |of: &(&PolicyReport, &ScalingReport)| of.0.label.clone();
    if done.len() == 1 {
        out.push(if best.1.late_s > 0.0 {
            format!("Users were late in {} of the run; it cost {}.", duration(best.1.late_s), cost(best.1))
        } else {
            format!("Nobody was late; it cost {}.", cost(best.1))
        });
    } else {
        let others = runs().filter(|run| run.0.label != best.0.label);
        let others: Vec<String> =
            others.map(|run| format!("{} ({}) with {}", duration(run.1.late_s), cost(run.1), name(&run))).collect();
        out.push(format!(
            "Users were late for {} with {} ({}), {}.",
            duration(best.1.late_s),
            name(&best),
            cost(best.1),
            others.join(", ")
        ));
    }
    // Where the time went is told of whoever was late longest: that is the question.
    if let Some(worst) = runs().max_by(|a, b| late(a).total_cmp(&late(b)))
        && let Some(longest) = worst.1.delays.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds))
    {
        let whole: f64 = worst.1.delays.iter().map(|delay| delay.seconds).sum();
        let with = if done.len() == 1 { String::new() } else { format!(" with {}", name(&worst)) };
        out.push(format!(
            "From the first late request to relief it took {}{with}; the longest part was {}, {} ({}).",
            duration(whole),
            lower(&longest.what),
            duration(longest.seconds),
            percent(longest.seconds / whole)
        ));
    }
    for (policy, scaling) in runs() {
        let whom = if done.len() == 1 { String::new() } else { format!(" with {}", policy.label) };
        let lost = [
            (scaling.lost_grace, "because a replica had too little time to drain"),
            (scaling.lost_probe, "because a probe had a replica killed"),
            (scaling.lost_crash, "with a replica that crashed"),
        ];
        for (many, why) in lost.into_iter().filter(|(many, _)| *many > 0) {
            let were = if many == 1 { "was" } else { "were" };
            out.push(format!("{} {were} lost {why}{whom}.", words::many(many, "request")));
        }
        if scaling.outside > 0 {
            out.push(format!(
                "{} of {} requests went to the managed API, for {}{whom}; the nodes cost {}.",
                count(scaling.outside),
                count(policy.requests.total),
                dollars(scaling.outside_usd),
                dollars(scaling.nodes_usd)
            ));
        }
        if scaling.wasted > 0 {
            out.push(format!(
                "Of {} that were started, {} {} given up before serving{whom}.",
                words::many(scaling.created.into(), "replica"),
                scaling.wasted,
                if scaling.wasted == 1 { "was" } else { "were" }
            ));
        }
        if scaling.restarts > 0 {
            let times = words::many(scaling.restarts.into(), "time");
            out.push(format!("Probes had containers started again {times}{whom}."));
        }
    }
    out
}

fn hours(seconds: f64) -> String {
    let hours = seconds / 3600.0;
    match hours {
        10.0.. => format!("{hours:.0} h"),
        1.0.. => format!("{hours:.1} h"),
        // Of less than an hour no digit after the point would be left.
        _ => duration(seconds),
    }
}

/// The name of a stage within a sentence.
fn lower(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_lowercase().chain(chars).collect())
}
