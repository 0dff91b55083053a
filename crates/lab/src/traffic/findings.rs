//! What will matter when a trace is run, in sentences.

use super::report::{Sharing, Traffic};
use crate::words::{count, digits, duration, percent};

/// Burstier than this is not Poisson, and more even than the other neither.
const BURSTY: f64 = 1.5;
const EVEN: f64 = 0.6;

/// Fewer requests say nothing of burstiness.
const FEW: u64 = 20;

/// A share of prompt tokens below which a cache hardly matters.
const LITTLE: f64 = 0.05;

/// Sentences, what matters most first.
pub fn findings(traffic: &Traffic) -> Vec<String> {
    let mut out = Vec::new();
    match &traffic.sharing {
        Some(sharing) if sharing.inferred => out.push(format!(
            "The file has no block keys. From its conversations and named beginnings it follows that at most {} of the prompt tokens were there before.",
            percent(sharing.unlimited)
        )),
        Some(sharing) => shared(sharing, &mut out),
        None => out.push(
            "The file says nothing of what prompts share, so every prompt counts as its own: policies that look for prefixes find none here."
                .into(),
        ),
    }
    out.push(burstiness(traffic));
    let arrivals = &traffic.arrivals;
    if arrivals.step_s > 0.0 {
        out.push(format!(
            "Times were recorded every {}: as they stand, each step's requests come at one instant. A replay spreads them at random (workload.spread).",
            duration(arrivals.step_s)
        ));
    }
    let (prompt, output) = (&traffic.prompt, &traffic.output);
    if prompt.mean > 20.0 * output.mean {
        out.push(format!(
            "Prompts have {} tokens on average and answers {}: prefill is where the time goes, and what a cache saves of it.",
            count(prompt.mean as u64),
            count(output.mean as u64)
        ));
    } else if output.mean > prompt.mean {
        out.push(format!(
            "Answers ({} tokens on average) are longer than prompts ({}): decoding is where the time goes, and balance matters more than caches.",
            count(output.mean as u64),
            count(prompt.mean as u64)
        ));
    }
    if prompt.p99 > 8.0 * prompt.p50 {
        out.push(format!(
            "One prompt in a hundred has {} tokens or more, {} times the median: counting requests is no measure of load, counting tokens is.",
            count(prompt.p99 as u64),
            digits(prompt.p99 / prompt.p50.max(1.0))
        ));
    }
    if let Some(sessions) = &traffic.sessions
        && sessions.turns.mean > 1.05
    {
        out.push(format!(
            "{} conversations of {} turns on average, the next one after {} (median): a router that keeps a conversation where it was finds its blocks if they last that long.",
            count(sessions.count),
            digits(sessions.turns.mean),
            duration(sessions.gap_s.p50)
        ));
    }
    out
}

/// How requests follow each other.
fn burstiness(traffic: &Traffic) -> String {
    let (arrivals, many) = (&traffic.arrivals, count(traffic.requests));
    if traffic.requests < FEW {
        return format!("{many} requests are too few to tell bursts from chance.");
    }
    if traffic.span_s <= 0.0 {
        return format!(
            "All {many} requests have the same time: no rate is known, and a replay lets them come at one instant."
        );
    }
    let cv = digits(arrivals.gap_cv);
    let peak =
        format!("the fullest {} has {} times the mean", duration(arrivals.bin_s), digits(arrivals.peak_over_mean));
    if arrivals.gap_cv > BURSTY {
        format!(
            "Arrivals are bursty: gaps have a CV of {cv} where a Poisson process has 1, and {peak}. Queues and autoscalers will feel it."
        )
    } else if arrivals.gap_cv < EVEN {
        format!("Arrivals are more even than chance (CV of gaps {cv}): something paces them, or they were made.")
    } else {
        format!("Arrivals are close to a Poisson process (CV of gaps {cv}); {peak}.")
    }
}

fn shared(sharing: &Sharing, out: &mut Vec<String>) {
    if sharing.common_blocks > 0 {
        out.push(format!(
            "Every request shares block 0{}: hashing the first block sends everything to one replica.",
            match sharing.common_blocks {
                1 => String::new(),
                many => format!(" and the {} after it", many - 1),
            }
        ));
    } else if sharing.first_block_share > 0.25 {
        out.push(format!(
            "{} of the requests begin with the same block: hashing the first block sends all these to one replica.",
            percent(sharing.first_block_share)
        ));
    }
    let unlimited = sharing.unlimited;
    if unlimited < LITTLE {
        let found = percent(unlimited);
        return out.push(format!("Even an unlimited cache would find only {found} of the prompt tokens: little to gain from routing by prefix."));
    }
    let half = sharing.curve.iter().find(|point| point.ratio >= unlimited / 2.0);
    let half = half.map_or(String::new(), |point| {
        format!("; half of that takes {} blocks ({} tokens)", count(point.blocks.into()), count(point.tokens))
    });
    out.push(format!("One unlimited cache would find {} of the prompt tokens{half}.", percent(unlimited)));
    if sharing.once_share > 0.5 {
        out.push(format!(
            "{} of the distinct blocks occur in one request only: a cache fills with what nobody asks for again.",
            percent(sharing.once_share)
        ));
    }
}
