//! A guard for routers that send a prefix home: when the home is overloaded, the request goes where least is outstanding.

use super::params::{self, Params};
use super::ties::Ties;
use super::{Choice, RouteContext};
use crate::telemetry::Reads;
use servelab_engine::random::Stream;
use servelab_spec::catalog::ParamInfo;

/// Trips when the home's outstanding tokens exceed a multiple of the mean.
pub(crate) struct Guard {
    on: bool,
    ratio: f64,
    ties: Ties,
}

impl Guard {
    /// Its parameters.
    pub(crate) fn params() -> [ParamInfo; 3] {
        [
            params::switch(
                "guard",
                "Imbalance guard",
                true,
                "Leave the home replica when it holds too much of the outstanding work.",
            ),
            // 2: with n replicas the guard trips when the home holds more than 2/n of the outstanding tokens.
            params::number(
                "guard_ratio",
                "Guard ratio",
                "× mean",
                2.0,
                (1.0, 1000.0, 0.1),
                "The guard acts when the home's outstanding tokens exceed this multiple of the mean.",
            ),
            Ties::Lowest.param(),
        ]
    }

    /// As the parameters say.
    pub(crate) fn of(params: &Params) -> Self {
        Guard { on: params.switch("guard"), ratio: params.number("guard_ratio"), ties: Ties::of(params) }
    }

    /// What it reads.
    pub(crate) fn reads(&self) -> Reads {
        if self.on { Reads::LOCAL } else { Reads::NOTHING }
    }

    /// Where the request goes when the candidate at position `home` is overloaded; `None` when it is not. Then `scores` are the tokens
    /// in flight.
    pub(crate) fn divert(
        &self,
        ctx: &RouteContext<'_>,
        home: usize,
        scores: &mut Vec<f64>,
        stream: &mut Stream,
    ) -> Option<Choice> {
        if !self.on {
            return None;
        }
        let local = ctx.local();
        let mean = local.iter().map(|signals| signals.tokens).sum::<u64>() as f64 / local.len() as f64;
        if local[home].tokens as f64 <= self.ratio * mean {
            return None;
        }
        scores.clear();
        scores.extend(local.iter().map(|signals| signals.tokens as f64));
        let at = self.ties.least(local.iter().map(|signals| signals.tokens), stream);
        Some(Choice::new(ctx.candidates[at], "guard: home overloaded, fewest outstanding tokens"))
    }
}
