//! Filters, then scorers, then a picker.

use super::super::expiring::Expiring;
use super::super::params;
use super::super::{Choice, Policy, RequestView, RouteContext};
use super::filters::{Affinity, Outcome, Saturation};
use super::picker::Picker;
use super::prefixes::Prefixes;
use super::scorers::{Scorer, Seen};
use crate::telemetry::Reads;
use serde_json::{Value, json};
use servelab_engine::Nanos;
use servelab_engine::random::Stream;
use servelab_spec::catalog::ParamInfo;

/// How long llm-d keeps a session bound when nothing comes, seconds.
const SESSION_TTL_S: f64 = 300.0;

/// What a pipeline is put together from.
pub(crate) struct Parts {
    /// Scorers with weights above 0.
    pub(crate) scorers: Vec<(Scorer, f64)>,
    pub(crate) prefixes: Prefixes,
    pub(crate) affinity: Affinity,
    pub(crate) saturation: Saturation,
    pub(crate) picker: Picker,
    /// Tokens at which token-load gives nothing.
    pub(crate) token_limit: f64,
    /// How long a session stays bound.
    pub(crate) session_ttl: Nanos,
}

/// Filters, scorers and a picker, as a policy.
pub(crate) struct Pipeline {
    parts: Parts,
    looks_up: bool,
    binds: bool,
    ranks: bool,
    /// Session → replica that served it last.
    sessions: Expiring,
    /// Replicas that took cold requests, the latest last.
    cold: Vec<u32>,
    /// The latest decision was about a request that nobody held anything of.
    was_cold: bool,
    left: Vec<u32>,
    totals: Vec<f64>,
    weights: Vec<f64>,
}

/// The parameter of token-load.
pub(crate) fn token_limit() -> ParamInfo {
    // 128 requests of 32 768 tokens. Far above what a small fleet ever has in flight, so differences in load make small differences in score; without
    // another scorer beside it only their order matters.
    params::number(
        "token_limit",
        "Token load limit",
        "tokens",
        4_194_304.0,
        (1.0, 1e9, 1.0),
        "Uncached tokens in flight at which token load gives a replica nothing.",
    )
}

/// The parameter of the session scorer.
pub(crate) fn session_ttl() -> ParamInfo {
    params::number(
        "session_ttl_s",
        "Session binding",
        "s",
        SESSION_TTL_S,
        (0.001, 1e6, 1.0),
        "How long a session stays bound to the replica that served it last.",
    )
}

impl Pipeline {
    pub(crate) fn new(parts: Parts) -> Self {
        let has = |wanted: Scorer| parts.scorers.iter().any(|&(scorer, _)| scorer == wanted);
        Pipeline {
            looks_up: parts.affinity.is_on() || parts.scorers.iter().any(|(scorer, _)| scorer.needs_prefixes()),
            binds: has(Scorer::Session),
            ranks: has(Scorer::NoHitLru),
            sessions: Expiring::new(parts.session_ttl),
            cold: Vec::new(),
            was_cold: false,
            left: Vec::new(),
            totals: Vec::new(),
            weights: Vec::new(),
            parts,
        }
    }
}

impl Policy for Pipeline {
    fn reads(&self) -> Reads {
        let mut reads = self.parts.affinity.reads().and(self.parts.saturation.reads());
        if self.looks_up {
            reads = reads.and(self.parts.prefixes.reads());
        }
        self.parts.scorers.iter().fold(reads, |reads, (scorer, _)| reads.and(scorer.reads()))
    }

    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, stream: &mut Stream) -> Choice {
        let Pipeline { parts, left, totals, .. } = self;
        if self.looks_up {
            parts.prefixes.look_up(ctx);
        }
        self.was_cold = self.ranks && parts.prefixes.is_cold();
        left.clear();
        left.extend(0..ctx.candidates.len() as u32);
        parts.saturation.keep(ctx, left);
        let outcome = parts.affinity.keep(ctx, &parts.prefixes, left);
        totals.clear();
        totals.resize(left.len(), 0.0);
        let bound = if self.binds { ctx.request.session } else { None };
        let seen = Seen {
            ctx,
            prefixes: &parts.prefixes,
            token_limit: parts.token_limit,
            cold: &self.cold,
            bound: bound.and_then(|session| self.sessions.get(ctx.now, session)),
        };
        for &(scorer, weight) in &parts.scorers {
            scorer.add(weight, &seen, left, totals);
        }
        scores.resize(ctx.candidates.len(), f64::NAN);
        for (&at, &total) in left.iter().zip(totals.iter()) {
            scores[at as usize] = total;
        }
        let at = left[parts.picker.pick(totals, &mut self.weights, stream)] as usize;
        let why = match (outcome, parts.picker) {
            (Outcome::All, Picker::Max(_)) => "highest score",
            (Outcome::All, _) => "drawn by score",
            (Outcome::Holders, Picker::Max(_)) => "highest score of those that hold the prompt",
            (Outcome::Holders, _) => "drawn by score from those that hold the prompt",
            (Outcome::ValveOpen, Picker::Max(_)) => "holders too slow: highest score of all",
            (Outcome::ValveOpen, _) => "holders too slow: drawn by score from all",
        };
        let choice = Choice::new(ctx.candidates[at], why);
        if !self.looks_up {
            return choice;
        }
        parts.prefixes.chosen(ctx, at);
        choice.expecting(parts.prefixes.tokens(at, ctx.request.prompt.len))
    }

    fn dispatched(&mut self, now: Nanos, request: &RequestView<'_>, replica: u32) {
        if self.looks_up {
            self.parts.prefixes.dispatched(request.prompt, replica);
        }
        if self.was_cold {
            self.cold.retain(|&other| other != replica);
            self.cold.push(replica);
        }
        if let Some(session) = request.session.filter(|_| self.binds) {
            self.sessions.set(now, session, replica);
        }
    }

    fn replicas_changed(&mut self, ready: &[u32]) {
        self.parts.prefixes.keep(ready);
        self.cold.retain(|replica| ready.binary_search(replica).is_ok());
    }

    fn save(&self) -> Value {
        json!({ "prefixes": self.parts.prefixes.save(), "sessions": self.sessions.save(), "cold": self.cold })
    }

    fn restore(&mut self, state: &Value) -> Result<(), String> {
        self.parts.prefixes.restore(&state["prefixes"])?;
        self.sessions.restore(&state["sessions"])?;
        self.cold = serde_json::from_value(state["cold"].clone()).map_err(|error| error.to_string())?;
        Ok(())
    }
}
