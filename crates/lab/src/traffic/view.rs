//! A trace as the page shows it: figures in words, sentences, pictures.

use super::charts::{self, CHARTS};
use super::findings::findings;
use super::report::Traffic;
use crate::words::{count, digits, duration, percent};
use servelab_spec::protocol::{Chart, ChartRequest};
use servelab_spec::report::Quantiles;
use servelab_spec::traffic::{Remark, TraceFormat, TraceView};
use servelab_spec::validate::SpecError;
use servelab_workload::trace::Trace;

/// Size and scheme of the pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Width of each, CSS pixels.
    pub width: u32,
    /// Height of each, CSS pixels.
    pub height: u32,
    /// Dark scheme.
    pub dark: bool,
}

/// The whole view.
///
/// # Errors
/// Pictures too small or too large.
pub fn view(trace: &Trace, traffic: &Traffic, remarks: Vec<Remark>, look: Look) -> Result<TraceView, SpecError> {
    let charts = pictures(trace, traffic, look)?;
    let format =
        TraceFormat::named(&traffic.format).map_or_else(|_| traffic.format.clone(), |format| format.label().into());
    Ok(TraceView {
        trace: traffic.trace.clone(),
        format,
        facts: facts(traffic),
        findings: findings(traffic),
        remarks,
        charts,
        columns: vec![],
        map: None,
    })
}

/// The pictures alone: what a change of the scheme draws anew.
///
/// # Errors
/// Pictures too small or too large.
pub fn pictures(trace: &Trace, traffic: &Traffic, look: Look) -> Result<Vec<Chart>, SpecError> {
    let Look { width, height, dark } = look;
    let shares = traffic.sharing.as_ref().is_some_and(|sharing| !sharing.inferred);
    let shown = CHARTS.iter().filter(|(id, _)| *id != "traffic_cache" || shares);
    let request = |id: &str| ChartRequest { id: id.into(), width, height, dark, ..ChartRequest::default() };
    shown.map(|(id, _)| charts::draw(&request(id), trace, traffic)).collect()
}

/// Figures: what, and how much.
pub fn facts(traffic: &Traffic) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    let mut fact = |name: &str, value: String| out.push((name.to_owned(), value));
    let lengths = |of: &Quantiles| {
        let each = [of.mean, of.p50, of.p95, of.p99, of.max].map(|value| count(libm::round(value) as u64));
        format!("mean {}, p50 {}, p95 {}, p99 {}, longest {}", each[0], each[1], each[2], each[3], each[4])
    };
    fact("requests", format!("{} in {}", count(traffic.requests), duration(traffic.span_s)));
    let (rate, peak) = (digits(traffic.rate_per_s), digits(traffic.arrivals.peak_over_mean));
    if traffic.span_s > 0.0 {
        fact("rate", format!("{rate} requests/s, {peak} times that at its peak"));
        fact("burstiness", format!("CV of gaps {:.2} (Poisson: 1)", traffic.arrivals.gap_cv));
    } else {
        fact("rate", "not known: all at one instant".into());
    }
    fact("prompt tokens", lengths(&traffic.prompt));
    fact("output tokens", lengths(&traffic.output));
    if let Some(sessions) = &traffic.sessions {
        fact("conversations", format!("{} of {} turns on average", count(sessions.count), digits(sessions.turns.mean)));
    }
    if traffic.tenants.len() > 1 {
        let most: Vec<String> = (traffic.tenants.iter().take(4))
            .map(|tenant| {
                let name = if tenant.name.is_empty() { "unnamed" } else { &tenant.name };
                format!("{name} {}", percent(tenant.requests as f64 / traffic.requests.max(1) as f64))
            })
            .collect();
        let rest = traffic.tenants.len().saturating_sub(most.len());
        let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        fact("tenants", format!("{}{rest}", most.join(", ")));
    }
    if let Some(sharing) = &traffic.sharing {
        if !sharing.inferred {
            fact(
                "blocks",
                format!(
                    "{} of {} tokens, {} distinct",
                    count(sharing.blocks),
                    sharing.block_tokens,
                    count(sharing.unique_blocks)
                ),
            );
            fact(
                "first block",
                format!("the most frequent one in {} of the requests", percent(sharing.first_block_share)),
            );
        }
        fact("found by an unlimited cache", format!("{} of the prompt tokens", percent(sharing.unlimited)));
    }
    out
}
