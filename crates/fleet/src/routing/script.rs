//! Your own policy: a script in Rhai that is asked for every decision.
//!
//! A script defines `fn route(request, replicas)`, which returns a replica's id or one score for each replica, of which the highest wins. It may define
//! `fn ended(request, replica)`, told when a request that it routed has ended. What stands outside of functions runs once, at the start:
//! constants, and first entries of `state`. `route` and `ended` see those constants, `state` and `now_s`; functions that
//! they call see what they are given.
//!
//! | part | holds |
//! |---|---|
//! | [`values`] | what it may read and call: one table that also is the reference |
//! | [`machine`] | the script read, its functions called, its errors in words |
//! | [`limits`] | what it may use up |
//! | [`memory`] | `state`, saved and restored |
//! | [`examples`] | scripts to start from |
//!
//! Nothing else is within reach: no clock, no files, no output, no text run as a program, no functions of the standard library
//! whose last bits differ between machines (`x ** y` is `pow(x, y)`, from `libm`). Closures are off: values shared behind a script's back could neither be saved
//! nor bounded.

mod examples;
mod limits;
mod machine;
mod memory;
mod values;

use super::params::{self, Params};
use super::registry::Entry;
use super::ties::Ties;
use super::{Choice, Policy, PolicyFault, RequestView, RouteContext};
use crate::telemetry::Reads;
use machine::{Hook, Machine};
use rhai::{Array, Dynamic};
use serde_json::Value;
use servelab_engine::Nanos;
use servelab_engine::random::Stream;
use servelab_spec::catalog::{Family, PolicyInfo, ScriptReference};
use servelab_spec::experiment::PolicySpec;
use servelab_spec::validate::SpecError;
use std::sync::Arc;
use values::{Replica, Request, Tier};

const NAME: &str = PolicySpec::SCRIPT;

/// The field that a script's own faults are about.
pub(super) const FIELD: &str = "policies.script.script";

pub(crate) const ENTRY: Entry = Entry { name: NAME, info, build };

fn info() -> PolicyInfo {
    PolicyInfo {
        name: NAME.into(),
        label: "Your own script".into(),
        family: Family::Script,
        project: String::new(),
        reads_prompt: true,
        summary: "Asks a script for a replica, or for a score of each.".into(),
        reads: "What the script reads of the tier it declares; the prompt only through the names of its first tokens."
            .into(),
        compares: "Scores of the script, the highest wins; nothing when it names a replica itself.".into(),
        fails: "As its author fails. A script that goes wrong ends the run and says in which line.".into(),
        params: vec![
            // Local: what a router always has, and the default script reads no more.
            params::choice(
                "tier",
                "Signals",
                0,
                &Tier::OPTIONS,
                "What the script may read; each tier is older than the one before it, and a script that needs none of the later ones is not misled by their age.",
            ),
            Ties::Lowest.param(),
        ],
    }
}

/// The default script.
fn build(params: &Params) -> Box<dyn Policy> {
    match Script::new(examples::EXAMPLES[0].text, params) {
        Ok(script) => Box::new(script),
        Err(fault) => unreachable!("the default script: {fault}"),
    }
}

/// Builds the policy for a script.
///
/// # Errors
/// When the script can not be read or does not define what it must; the line is named.
pub(super) fn compile(text: &str, params: &Params) -> Result<Box<dyn Policy>, SpecError> {
    let wrong = |fault: PolicyFault| {
        let found = match fault.line {
            Some(line) => format!("line {line} ({})", fault.message),
            None => fault.message,
        };
        SpecError::new(FIELD, found, "a script defines fn route(request, replicas)")
    };
    Ok(Box::new(Script::new(text, params).map_err(wrong)?))
}

/// What can be read and called, and scripts to start from.
pub fn reference() -> ScriptReference {
    ScriptReference {
        examples: examples::EXAMPLES.iter().map(examples::Example::describe).collect(),
        values: values::reference(),
    }
}

struct Script {
    machine: Machine,
    tier: Tier,
    ties: Ties,
    /// It names prefixes, so it is given the prompt.
    prefixes: bool,
    /// Cached tokens of each candidate.
    cached: Vec<u32>,
    fault: Option<PolicyFault>,
}

impl Script {
    fn new(text: &str, params: &Params) -> Result<Self, PolicyFault> {
        let tier = Tier::ALL[params.integer("tier").min(2) as usize];
        Ok(Script {
            machine: Machine::new(text, tier)?,
            tier,
            ties: Ties::of(params),
            prefixes: text.contains("prefix"),
            cached: Vec::new(),
            fault: None,
        })
    }

    /// Asks the script.
    fn ask(
        &mut self,
        ctx: &RouteContext<'_>,
        scores: &mut Vec<f64>,
        stream: &mut Stream,
    ) -> Result<Choice, PolicyFault> {
        self.cached.clear();
        if self.tier >= Tier::Events {
            ctx.matched_blocks(&mut self.cached);
            // At least one token is always computed.
            let most = ctx.request.prompt.len.saturating_sub(1);
            self.cached.iter_mut().for_each(|blocks| *blocks = blocks.saturating_mul(ctx.block_tokens).min(most));
        }
        let before = *stream;
        let request = request(&ctx.request, self.prefixes.then_some(ctx.block_tokens));
        let (tier, cached) = (self.tier, &self.cached);
        let mut args = |machine: &Machine| {
            machine.lend(Some(before));
            (request.clone(), replicas(ctx, tier, cached))
        };
        let answer = self.machine.call(Hook::Route, ctx.now, &mut args);
        *stream = self.machine.lend(None).unwrap_or(before);
        let (at, why) = self.read(&answer?, ctx.candidates, scores, stream)?;
        let expected = self.cached.get(at).copied().unwrap_or(0);
        Ok(Choice::new(ctx.candidates[at], why).expecting(expected))
    }

    /// It is never asked again, so nothing that it remembers matters; what went wrong may be what can not be saved.
    fn fail(&mut self, fault: PolicyFault) {
        self.machine.set_state(Dynamic::from_map(Default::default()));
        self.fault.get_or_insert(fault);
    }

    /// What the script's answer means: the position of a candidate, and why.
    fn read(
        &self,
        answer: &Dynamic,
        candidates: &[u32],
        scores: &mut Vec<f64>,
        stream: &mut Stream,
    ) -> Result<(usize, &'static str), PolicyFault> {
        let wrong = |message: String| PolicyFault { line: self.machine.line(Hook::Route), message };
        if let Ok(id) = answer.as_int() {
            let at = u32::try_from(id).ok().and_then(|id| candidates.binary_search(&id).ok());
            let at = at.ok_or_else(|| {
                let known: Vec<String> = candidates.iter().take(8).map(u32::to_string).collect();
                let more = if candidates.len() > known.len() { ", …" } else { "" };
                wrong(format!(
                    "route returned {id}, which is none of the replicas it was given ({}{more})",
                    known.join(", ")
                ))
            })?;
            return Ok((at, "the script named it"));
        }
        let Some(array) = answer.read_lock::<Array>() else {
            return Err(wrong(format!(
                "route returned {}; it returns a replica's id, an integer, or an array with a score for each replica",
                values::kind_of(answer)
            )));
        };
        if array.len() != candidates.len() {
            return Err(wrong(format!("route returned {} scores for {} replicas", array.len(), candidates.len())));
        }
        for (score, id) in array.iter().zip(candidates) {
            match values::real(score) {
                Ok(number) if number.is_finite() => scores.push(number),
                Ok(number) => return Err(wrong(format!("the score of replica {id} is {number}; scores are finite"))),
                Err(_) => {
                    return Err(wrong(format!(
                        "the score of replica {id} is {}, not a number",
                        values::kind_of(score)
                    )));
                }
            }
        }
        Ok((self.ties.most(scores, stream), "highest score of the script"))
    }
}

impl Policy for Script {
    fn reads(&self) -> Reads {
        match self.tier {
            Tier::Local => Reads::LOCAL,
            Tier::Polled => Reads::LOCAL.and(Reads::POLLED),
            Tier::Events => Reads::LOCAL.and(Reads::POLLED).and(Reads::EVENTS),
        }
    }

    fn route(&mut self, ctx: &RouteContext<'_>, scores: &mut Vec<f64>, stream: &mut Stream) -> Choice {
        match self.ask(ctx, scores, stream) {
            Ok(choice) => choice,
            Err(fault) => {
                scores.clear();
                self.fail(fault);
                Choice::new(ctx.candidates[0], "the script failed")
            }
        }
    }

    fn ended(&mut self, now: Nanos, request: &RequestView<'_>, replica: u32) {
        if self.machine.has(Hook::Ended) && self.fault.is_none() {
            let request = self::request(request, self.prefixes.then_some(0));
            let mut args = |_: &Machine| (request.clone(), i64::from(replica));
            if let Err(fault) = self.machine.call(Hook::Ended, now, &mut args) {
                self.fail(fault);
            }
        }
    }

    fn replicas_changed(&mut self, ready: &[u32]) {
        self.machine.replicas(ready.len() as u64);
    }

    fn fault(&self) -> Option<&PolicyFault> {
        self.fault.as_ref()
    }

    fn save(&self) -> Value {
        memory::save(&self.machine.state())
    }

    fn restore(&mut self, state: &Value) -> Result<(), String> {
        self.machine.set_state(memory::restore(state)?);
        Ok(())
    }
}

/// The request as the script sees it; with the prompt when blocks of so many tokens are named.
fn request(request: &RequestView<'_>, block_tokens: Option<u32>) -> Request {
    Request {
        tenant: request.tenant,
        session: request.session,
        adapter: request.adapter,
        prompt_tokens: request.prompt.len,
        system_tokens: request.user_at,
        max_tokens: request.max_tokens,
        attempt: request.attempt,
        prompt: block_tokens.map(|block_tokens| Arc::new((request.prompt.clone(), block_tokens))),
    }
}

/// The candidates as the script sees them.
fn replicas(ctx: &RouteContext<'_>, tier: Tier, cached: &[u32]) -> Array {
    let mut replicas = Array::with_capacity(ctx.candidates.len());
    for (at, &id) in ctx.candidates.iter().enumerate() {
        let mut replica = Replica {
            id,
            local: ctx.local()[at],
            waiting: 0,
            running: 0,
            kv_usage: 0.0,
            age_s: 0.0,
            holds_adapter: false,
            cached_tokens: cached.get(at).copied().unwrap_or(0),
        };
        if tier >= Tier::Polled {
            let polled = ctx.polled(at);
            (replica.waiting, replica.running, replica.kv_usage) = (polled.waiting, polled.running, polled.kv_usage);
            replica.age_s = (ctx.now - polled.at.unwrap_or(Nanos::ZERO)).as_secs();
            replica.holds_adapter =
                ctx.request.adapter.is_none_or(|adapter| polled.adapters.binary_search(&adapter).is_ok());
        }
        replicas.push(Dynamic::from(replica));
    }
    replicas
}

#[cfg(test)]
#[path = "script/tests.rs"]
mod tests;
