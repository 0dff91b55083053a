//! Filters: which candidates are scored at all.

use super::super::RouteContext;
use super::super::params::{self, Params};
use super::prefixes::Prefixes;
use crate::telemetry::Reads;
use servelab_engine::Nanos;
use servelab_spec::catalog::ParamInfo;

/// Requests waiting, and share of KV blocks used, at which llm-d calls a replica saturated.
const WAITING: f64 = 5.0;
const KV_USAGE: f64 = 0.8;
/// Metrics older than this say nothing, and llm-d takes the replica for saturated: four of its scrape periods.
const STALE: Nanos = Nanos(200_000_000);

/// Keeps the replicas that hold the prompt, unless they are too far behind.
///
/// Time to first token is estimated as uncached tokens in flight ÷ prefill rate. When the best replica that holds the prompt is slower
/// than the best that does not by more than the valve, everybody stays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Affinity {
    /// Share of the prompt that makes a replica a holder; 0: no filter.
    pub(crate) threshold: f64,
    /// How much slower, seconds; 0: however much.
    pub(crate) valve_s: f64,
    /// Prefill rate, tokens/s.
    pub(crate) rate: f64,
}

/// What a filter did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nobody holds enough of the prompt, or there is no filter.
    All,
    /// The holders stayed.
    Holders,
    /// The holders are too slow, everybody stayed.
    ValveOpen,
}

impl Affinity {
    /// No filter.
    pub(crate) const OFF: Affinity = Affinity { threshold: 0.0, valve_s: 0.0, rate: 1.0 };

    /// The parameters, with this threshold by default.
    pub(crate) fn params(threshold: f64) -> [ParamInfo; 3] {
        [
            params::number(
                "affinity_threshold",
                "Affinity threshold",
                "of the prompt",
                threshold,
                (0.0, 1.0, 0.01),
                "Share of the prompt that makes a replica a holder; only holders are considered. 0: no filter.",
            ),
            // 18 s: llm-d's default. It suits prompts of tens of thousands of tokens; short prompts never queue that long, and then it never opens.
            params::number(
                "valve_s",
                "TTFT valve",
                "s",
                18.0,
                (0.0, 3600.0, 0.01),
                "Consider everybody when the best holder's estimated TTFT exceeds the best other's by more than this. 0: never.",
            ),
            // Measured by llm-d for a 32B model on two H100s; other hardware needs its own.
            params::number(
                "prefill_rate",
                "Prefill rate",
                "tokens/s",
                15_928.0,
                (1.0, 10_000_000.0, 1.0),
                "What TTFT is estimated with: uncached tokens in flight ÷ this.",
            ),
        ]
    }

    /// From the parameters.
    pub(crate) fn of(params: &Params) -> Self {
        Affinity {
            threshold: params.number("affinity_threshold"),
            valve_s: params.number("valve_s"),
            rate: params.number("prefill_rate"),
        }
    }

    pub(crate) fn is_on(self) -> bool {
        self.threshold > 0.0
    }

    pub(crate) fn reads(self) -> Reads {
        if self.is_on() && self.valve_s > 0.0 { Reads::LOCAL } else { Reads::NOTHING }
    }

    /// Keeps some of the candidates at the positions `left`.
    pub(crate) fn keep(self, ctx: &RouteContext<'_>, prefixes: &Prefixes, left: &mut Vec<u32>) -> Outcome {
        let holds = |at: u32| prefixes.share(at as usize) >= self.threshold;
        if !self.is_on() || left.len() <= 1 || !left.iter().any(|&at| holds(at)) {
            return Outcome::All;
        }
        if self.valve_s > 0.0 {
            let best = |holders: bool| {
                let of = left.iter().filter(|&&at| holds(at) == holders);
                of.map(|&at| ctx.local()[at as usize].prefill_tokens).min()
            };
            if let (Some(holder), Some(other)) = (best(true), best(false))
                && holder as f64 / self.rate - other as f64 / self.rate > self.valve_s
            {
                return Outcome::ValveOpen;
            }
        }
        left.retain(|&at| holds(at));
        Outcome::Holders
    }
}

/// Keeps the replicas whose saturation, max(waiting ÷ 5, KV usage ÷ 0.8), is below a limit; all of them when none is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Saturation {
    /// The limit; 0: no filter.
    pub(crate) limit: f64,
}

impl Saturation {
    /// No filter.
    pub(crate) const OFF: Saturation = Saturation { limit: 0.0 };

    /// The parameter.
    pub(crate) fn param() -> ParamInfo {
        params::number(
            "saturation",
            "Saturation limit",
            "",
            0.0,
            (0.0, 100.0, 0.1),
            "Leave out replicas whose saturation reaches this: the larger of waiting ÷ 5 and KV usage ÷ 0.8, 1 when metrics are older than 200 ms. 0: no filter.",
        )
    }

    pub(crate) fn reads(self) -> Reads {
        if self.limit > 0.0 { Reads::POLLED } else { Reads::NOTHING }
    }

    /// Keeps some of the candidates at the positions `left`.
    pub(crate) fn keep(self, ctx: &RouteContext<'_>, left: &mut Vec<u32>) {
        if self.limit == 0.0 {
            return;
        }
        let below = |at: u32| saturation(ctx, at as usize) < self.limit;
        if left.iter().any(|&at| below(at)) {
            left.retain(|&at| below(at));
        }
    }
}

/// Saturation of the candidate at position `at`.
fn saturation(ctx: &RouteContext<'_>, at: usize) -> f64 {
    let polled = ctx.polled(at);
    match polled.at {
        Some(taken) if ctx.now.since(taken) <= STALE => {
            (f64::from(polled.waiting) / WAITING).max(polled.kv_usage / KV_USAGE)
        }
        _ => 1.0,
    }
}
