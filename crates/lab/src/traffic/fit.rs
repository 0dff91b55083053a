//! A generator with a trace's figures: what is left of a trace when its order and its content are forgotten.
//!
//! Kept are the rate and how it changes over time, the burstiness that remains when that change is taken out, the mean and spread of lengths (or the lengths themselves),
//! and how much prompts share: as many tenants as there are first blocks, as unequal as they, with system prompts of the length at which an unlimited cache would find
//! as much. Conversations are not: what they share beyond that is counted as system prompt.

use super::report::Traffic;
use crate::stats::ratio;
use servelab_engine::random::Stream;
use servelab_spec::experiment::{ArrivalLaw, GeneratedSpec, LengthLaw, RateUnit};
use servelab_workload::trace::{Row, Trace};

/// Points of a fitted curve.
const POINTS: usize = 24;

/// Variance of counts in means beyond which the rate is taken to change; 1 is chance, and bursts of a CV of 2 give about 4.
const CHANGES: f64 = 8.0;

/// Most tenants of a fit.
const MOST_TENANTS: u64 = 500;

/// The generator of a trace; lengths are lognormal, or drawn from the trace itself.
pub fn fit(trace: &Trace, traffic: &Traffic, lengths: LengthLaw) -> GeneratedSpec {
    let rows = trace.rows();
    let (curve, cv) = arrivals(trace);
    let (prompt_mean, prompt_cv) = moments(rows, |row| row.prompt);
    let (output_mean, output_cv) = moments(rows, |row| row.output);
    let sharing = traffic.sharing.as_ref();
    let tenants = sharing.map_or(1, |sharing| sharing.first_blocks).clamp(1, MOST_TENANTS) as u32;
    let unlimited = sharing.map_or(0.0, |sharing| sharing.unlimited);
    let again = 1.0 - ratio(f64::from(tenants), rows.len() as f64);
    // Of a prompt at least a tenth is its own: a fit is no place for prompts without a question.
    let system = libm::round(ratio(unlimited * prompt_mean, again).min(0.9 * prompt_mean)).max(1.0) as u32;
    let user_mean = (prompt_mean - f64::from(system)).max(1.0);
    let prompt_cap = (traffic.prompt.max as u32).clamp(system + 1, 2_000_000);
    GeneratedSpec {
        requests: (rows.len() as u64).min(1_000_000) as u32,
        tenants,
        skew: sharing.map_or(0.0, |sharing| skew(tenants, sharing.first_block_share)),
        arrivals: ArrivalLaw::Gamma,
        cv: three(cv.clamp(0.05, 20.0)),
        curve,
        hour_s: 3600.0,
        system_min: system,
        system_max: system,
        lengths,
        trace: traffic.trace.clone(),
        user_mean: three(user_mean),
        user_cv: three((prompt_cv * prompt_mean / user_mean).min(20.0)),
        output_mean: three(output_mean),
        output_cv: three(output_cv.min(20.0)),
        prompt_cap,
        output_cap: (traffic.output.max as u32).clamp(1, 100_000),
        rate: traffic.rate_per_s.clamp(0.001, 100_000.0),
        rate_unit: RateUnit::PerSecond,
        ..GeneratedSpec::default()
    }
}

/// Four digits after the point are more than a fit knows, and short in an address.
fn three(value: f64) -> f64 {
    libm::round(value * 1e4) / 1e4
}

fn moments(rows: &[Row], of: fn(&Row) -> u32) -> (f64, f64) {
    let n = rows.len() as f64;
    let mean = ratio(rows.iter().map(|row| f64::from(of(row))).sum(), n);
    let squares = rows.iter().map(|row| f64::from(of(row)) - mean).map(|x| x * x).sum();
    (mean, ratio(libm::sqrt(ratio(squares, n)), mean))
}

/// The curve, empty where the rate does not change beyond chance, and the CV of gaps under it.
fn arrivals(trace: &Trace) -> (String, f64) {
    let span = trace.span().as_secs();
    let step = trace.step().0;
    let draws = Stream::new(0, b"spread");
    let spread = |(index, row): (u64, &Row)| row.at.0 + if step > 0 { draws.split(index).below(step) } else { 0 };
    let mut times: Vec<f64> = (0u64..).zip(trace.rows()).map(spread).map(|ns| ns as f64 / 1e9).collect();
    times.sort_by(f64::total_cmp);
    let width = span / POINTS as f64;
    let mut counts = [0.0f64; POINTS];
    if width > 0.0 {
        for at in &times {
            counts[((at / width) as usize).min(POINTS - 1)] += 1.0;
        }
    }
    let mean = ratio(times.len() as f64, POINTS as f64);
    let variance = counts.iter().map(|count| (count - mean) * (count - mean)).sum::<f64>() / POINTS as f64;
    if width <= 0.0 || variance < CHANGES * mean {
        return (String::new(), gap_cv(times.windows(2).map(|pair| pair[1] - pair[0])));
    }
    // Each bin is a plateau: two points, the second a thousandth before the next bin.
    let hour = |at: f64| libm::round(at / 3600.0 * 1e6) / 1e6;
    let mut pairs: Vec<String> = Vec::new();
    for (bin, count) in counts.iter().enumerate() {
        let level = three(count / mean);
        let (from, to) = (hour(bin as f64 * width), hour((bin as f64 + 0.999) * width));
        pairs.push(format!("{from}:{level},{to}:{level}"));
    }
    // Time as the rate sees it: the share of a bin passed, times its requests.
    let before: Vec<f64> = counts.iter().scan(0.0, |sum, count| Some(std::mem::replace(sum, *sum + count))).collect();
    let warped = |at: f64| {
        let bin = ((at / width) as usize).min(POINTS - 1);
        before[bin] + counts[bin] * (at / width - bin as f64)
    };
    (pairs.join(","), gap_cv(times.windows(2).map(|pair| warped(pair[1]) - warped(pair[0]))))
}

fn gap_cv(gaps: impl Iterator<Item = f64> + Clone) -> f64 {
    let n = gaps.clone().count() as f64;
    let mean = ratio(gaps.clone().sum(), n);
    let variance = ratio(gaps.map(|gap| (gap - mean) * (gap - mean)).sum(), n);
    if mean > 0.0 { libm::sqrt(variance) / mean } else { 1.0 }
}

/// The Zipf exponent at which the first of so many ranks has this share, by halving; 0 where it has no more than its part.
fn skew(tenants: u32, share: f64) -> f64 {
    let first = |skew: f64| 1.0 / (1..=tenants).map(|rank| libm::pow(f64::from(rank), -skew)).sum::<f64>();
    let (mut low, mut high) = (0.0, 5.0);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if first(middle) < share { low = middle } else { high = middle }
    }
    if tenants > 1 { libm::round(low * 100.0) / 100.0 } else { 0.0 }
}
