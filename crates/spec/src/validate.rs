//! Limits of a spec. Every error names the field, the value found and what would be accepted.
//!
//! Limits of single numbers stand once, in [`LIMITS`]: validation, `--set`, addresses and the catalog's controls all
//! read them there. They are wide: they keep a run from exhausting memory or time, not from being foolish. Whether a policy or
//! a cost model *exists* is for the registries to say (the lab checks it): this crate knows none.

mod clients;
mod gateway;
mod scaling;
mod startup;
mod store;
mod workload;

use crate::experiment::{ExecutionMode, PolicySpec, Spec};
use crate::{MAX_SEED, SCHEMA_VERSION};
use serde_json::Value;
use thiserror::Error;

/// A value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: {found} is not accepted; {accepted}")]
pub struct SpecError {
    /// Dotted key of the field (`workload.rate`).
    pub field: String,
    /// The value found, as text.
    pub found: String,
    /// What would be accepted, as a phrase.
    pub accepted: String,
}

impl SpecError {
    /// An error about `field`.
    pub fn new(field: impl Into<String>, found: impl ToString, accepted: impl Into<String>) -> Self {
        SpecError { field: field.into(), found: found.to_string(), accepted: accepted.into() }
    }
}

/// Most policies compared in one run: more do not fit a table or a palette.
pub const MAX_POLICIES: usize = 6;

/// Longest script, bytes. The examples have about one thousand; an address with six of this length still opens.
pub const MAX_SCRIPT: usize = 16 * 1024;

/// KV bytes of one token in the reference TinyGPT: 6 layers × (K, V) × 2 heads × 32 × 4 bytes.
const TINYGPT_KV_BYTES: u64 = 3072;

/// Most replicas of a live run that scales: each starts with weights of its own, 23 MB of the reference model.
const LIVE_REPLICAS: u32 = 8;

/// Most KV memory of a live run. A browser tab's GPU buffers become unreliable past about a gigabyte.
const LIVE_KV_BYTES: u64 = 1 << 30;

/// Most block records of a priced run (all replicas together): about 400 MB of bookkeeping.
const MAX_BLOCKS: u64 = 10_000_000;

/// Longest a run in ticks may take, seconds: a century.
const LONGEST_S: f64 = 3.15e9;

/// Limits of one number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Dotted key.
    pub key: &'static str,
    /// Smallest accepted value.
    pub min: f64,
    /// Largest accepted value.
    pub max: f64,
    /// Whole numbers only.
    pub integer: bool,
    /// Unit, empty for a pure number.
    pub unit: &'static str,
}

const fn whole(key: &'static str, min: u64, max: u64, unit: &'static str) -> Limit {
    Limit { key, min: min as f64, max: max as f64, integer: true, unit }
}

const fn real(key: &'static str, min: f64, max: f64, unit: &'static str) -> Limit {
    Limit { key, min, max, integer: false, unit }
}

/// Limits of every number of a spec but policy parameters (their registry entries hold those).
pub const LIMITS: &[Limit] = &joined::<
    { GENERAL.len() + gateway::LIMITS.len() + startup::LIMITS.len() + clients::LIMITS.len() },
>(&[GENERAL, gateway::LIMITS, startup::LIMITS, clients::LIMITS]);

/// Tables one after the other, `N` limits in all.
const fn joined<const N: usize>(tables: &[&[Limit]]) -> [Limit; N] {
    let mut all = [GENERAL[0]; N];
    let (mut at, mut table) = (0, 0);
    while table < tables.len() {
        let mut row = 0;
        while row < tables[table].len() {
            all[at] = tables[table][row];
            (at, row) = (at + 1, row + 1);
        }
        table += 1;
    }
    all
}

const GENERAL: &[Limit] = &[
    whole("seed", 0, MAX_SEED, ""),
    whole("replicas", 1, 512, ""),
    whole("workload.requests", 1, 1_000_000, ""),
    whole("workload.tenants", 1, 1000, ""),
    real("workload.skew", 0.0, 5.0, ""),
    real("workload.noisy", 0.01, 1000.0, "×"),
    whole("workload.adapters", 0, 1000, ""),
    whole("workload.turns_min", 1, 100, "turns"),
    whole("workload.turns_max", 1, 100, "turns"),
    real("workload.think_s", 0.0, 3600.0, "s"),
    whole("workload.depth", 0, 6, "levels"),
    whole("workload.branches", 1, 64, ""),
    real("workload.burst_s", 0.0, 3600.0, "s"),
    real("workload.answer_s", 0.0, 3600.0, "s"),
    real("workload.long_share", 0.0, 1.0, ""),
    whole("workload.documents", 1, 1000, ""),
    whole("workload.document_min", 1, 1_000_000, "tokens"),
    whole("workload.document_max", 1, 1_000_000, "tokens"),
    whole("workload.task_min", 1, 1_000_000, "tokens"),
    whole("workload.task_max", 1, 1_000_000, "tokens"),
    whole("workload.system_min", 1, 1_000_000, "tokens"),
    whole("workload.system_max", 1, 1_000_000, "tokens"),
    whole("workload.user_min", 1, 1_000_000, "tokens"),
    whole("workload.user_max", 1, 1_000_000, "tokens"),
    whole("workload.output_min", 1, 100_000, "tokens"),
    whole("workload.output_max", 1, 100_000, "tokens"),
    real("workload.hour_s", 0.001, 1e6, "s"),
    real("workload.rate", 0.001, 100_000.0, "requests/s or × capacity"),
    real("workload.from_s", 0.0, 1e8, "s"),
    real("workload.until_s", 0.0, 1e8, "s"),
    real("workload.share", 0.0001, 1.0, ""),
    whole("workload.repeat", 1, 1000, "times"),
    real("workload.speed", 0.0001, 10_000.0, "×"),
    whole("workload.trace_block", 0, 8192, "tokens"),
    real("workload.prompt_scale", 0.0001, 1000.0, "×"),
    whole("workload.prompt_cap", 1, 2_000_000, "tokens"),
    real("workload.output_scale", 0.0001, 1000.0, "×"),
    whole("workload.output_cap", 1, 100_000, "tokens"),
    real("workload.spike_at_s", 0.0, 1e8, "s"),
    real("workload.spike_for_s", 0.0, 1e6, "s"),
    real("workload.spike_factor", 1.0, 1000.0, "×"),
    real("workload.cv", 0.05, 20.0, ""),
    real("workload.on_s", 0.001, 1e6, "s"),
    real("workload.off_s", 0.001, 1e6, "s"),
    real("workload.off_level", 0.0, 1.0, ""),
    real("workload.user_mean", 1.0, 1e6, "tokens"),
    real("workload.user_cv", 0.0, 20.0, ""),
    real("workload.output_mean", 1.0, 1e5, "tokens"),
    real("workload.output_cv", 0.0, 20.0, ""),
    whole("engine.block_tokens", 1, 1024, "tokens"),
    whole("engine.blocks", 1, 1_000_000, "blocks"),
    whole("engine.max_batch", 1, 1024, "sequences"),
    whole("engine.token_budget", 1, 1_000_000, "tokens"),
    whole("engine.max_context", 2, 2_000_000, "tokens"),
    real("engine.watermark", 0.0, 0.5, ""),
    whole("engine.adapter_slots", 0, 1024, ""),
    whole("engine.adapter_blocks", 0, 1_000_000, "blocks"),
    real("engine.adapter_load_s", 0.0, 3600.0, "s"),
    real("tick.tick_s", 0.000_001, 3600.0, "s"),
    whole("tick.prefixes", 1, 100_000, ""),
    whole("tick.hit_ticks", 1, 10_000, "ticks"),
    whole("tick.miss_ticks", 1, 10_000, "ticks"),
    whole("routing.routers", 1, 64, ""),
    real("routing.scrape_s", 0.0, 3600.0, "s"),
    real("routing.event_delay_s", 0.0, 3600.0, "s"),
    real("routing.event_loss", 0.0, 1.0, ""),
    whole("store.blocks", 0, 10_000_000, "blocks"),
    real("store.latency_s", 0.0, 3600.0, "s"),
    real("store.link_gb_per_s", 0.000_001, 100_000.0, "GB/s"),
    real("store.total_gb_per_s", 0.0, 100_000.0, "GB/s"),
    whole("store.token_bytes", 0, 100_000_000, "bytes"),
    whole("events.join", 0, 512, ""),
    real("events.join_at_s", 0.0, 1e6, "s"),
    real("events.warm_up_s", 0.0, 1e6, "s"),
    whole("events.leave", 0, 511, ""),
    real("events.leave_at_s", 0.0, 1e6, "s"),
    whole("events.crash", 0, 512, ""),
    real("events.crash_at_s", 0.0, 1e6, "s"),
    real("events.deploy_at_s", 0.0, 1e6, "s"),
    whole("events.slow", 0, 512, ""),
    real("events.slow_factor", 0.01, 1000.0, "×"),
    real("events.restart_at_s", 0.0, 1e6, "s"),
    whole("scaling.min", 0, 512, ""),
    whole("scaling.max", 1, 512, ""),
    real("scaling.scrape_s", 0.1, 3600.0, "s"),
    real("scaling.grace_s", 0.0, 86_400.0, "s"),
    real("scaling.node_linger_s", 0.0, 86_400.0, "s"),
    whole("scaling.host_cores", 1, 1024, ""),
    real("scaling.host_request_us", 0.0, 1e9, "µs"),
    real("scaling.host_step_us", 0.0, 1e9, "µs"),
    real("scaling.patience_s", 0.0, 1e6, "s"),
    real("scaling.overflow.load", 0.01, 100_000.0, ""),
    real("scaling.overflow.from_h", 0.0, 24.0, "h"),
    real("scaling.overflow.until_h", 0.0, 24.0, "h"),
    real("scaling.overflow.ttft_s", 0.0, 3600.0, "s"),
    real("scaling.overflow.token_s", 0.0, 60.0, "s"),
    real("scaling.overflow.prompt_usd", 0.0, 100_000.0, "$"),
    real("scaling.overflow.output_usd", 0.0, 100_000.0, "$"),
    real("scaling.overflow.node_usd", 0.0, 100_000.0, "$/h"),
    real("slo.ttft_s", 0.000_001, 3600.0, "s"),
    real("slo.itl_s", 0.000_001, 3600.0, "s"),
    real("execution.coefficients.step_us", 0.0, 1e9, "µs"),
    real("execution.coefficients.prefill_token_us", 0.0, 1e9, "µs"),
    real("execution.coefficients.prefill_context_us", 0.0, 1e9, "µs"),
    real("execution.coefficients.decode_sequence_us", 0.0, 1e9, "µs"),
    real("execution.coefficients.decode_context_us", 0.0, 1e9, "µs"),
];

/// The limits of `key`, if it is a number of a spec.
pub fn limit(key: &str) -> Option<&'static Limit> {
    LIMITS.iter().find(|limit| limit.key == key)
}

impl Limit {
    /// Checks one value.
    ///
    /// # Errors
    /// Names the key, the value and the range.
    pub fn check(&self, value: f64) -> Result<(), SpecError> {
        let inside = value.is_finite() && value >= self.min && value <= self.max;
        if inside && (!self.integer || value.fract() == 0.0) {
            return Ok(());
        }
        Err(SpecError::new(self.key, value, self.accepted()))
    }

    /// What is accepted, as a phrase.
    pub fn accepted(&self) -> String {
        let kind = if self.integer { "a whole number" } else { "a number" };
        let unit = if self.unit.is_empty() { String::new() } else { format!(" ({})", self.unit) };
        format!("accepted is {kind} from {} to {}{unit}", self.min, self.max)
    }
}

impl Spec {
    /// Checks everything that can be known without the registries.
    ///
    /// # Errors
    /// The first field at fault: version, single numbers, then what must hold between fields.
    pub fn validate(&self) -> Result<(), SpecError> {
        check_version(u64::from(self.version))?;
        check_name("preset", &self.preset)?;
        check_name("execution.cost", &self.execution.cost)?;
        check_numbers(self)?;
        self.check_policies()?;
        workload::check(self)?;
        startup::check(self)?;
        self.check_engine()?;
        self.check_events()?;
        scaling::check(self)?;
        clients::check(self)?;
        store::check(self)?;
        gateway::check(self)?;
        self.check_execution()
    }

    /// Replicas there ever are.
    pub fn replicas_ever(&self) -> u32 {
        if self.scaling.on {
            return self.scaling.max.max(self.replicas);
        }
        self.replicas + self.events.join
    }

    fn check_events(&self) -> Result<(), SpecError> {
        let most = self.replicas.saturating_sub(1);
        if self.events.leave > most {
            let accepted = format!("accepted is at most {most}: one of the {} replicas must stay", self.replicas);
            return Err(SpecError::new("events.leave", self.events.leave, accepted));
        }
        if self.events.slow > self.replicas {
            let accepted = format!("accepted is at most {}, the number of replicas", self.replicas);
            return Err(SpecError::new("events.slow", self.events.slow, accepted));
        }
        Ok(())
    }

    /// Longest prompt plus output that the workload can ask for, tokens.
    pub fn longest_request(&self) -> u64 {
        self.workload.longest_prompt() + self.workload.longest_output()
    }

    fn check_policies(&self) -> Result<(), SpecError> {
        let count = self.policies.len();
        if count == 0 || count > MAX_POLICIES {
            let found = format!("a list of {count}");
            return Err(SpecError::new("policies", found, format!("accepted are 1 to {MAX_POLICIES} policies")));
        }
        for (index, policy) in self.policies.iter().enumerate() {
            check_name(&format!("policies.{index}.name"), &policy.name)?;
            for (param, value) in &policy.params {
                check_name(&format!("policies.{index}.params"), param)?;
                if !value.is_finite() {
                    let field = format!("policies.{index}.params.{param}");
                    return Err(SpecError::new(field, value, "accepted is a finite number"));
                }
            }
            check_script(&format!("policies.{index}.script"), policy)?;
            if self.policies[..index].contains(policy) {
                let accepted = "accepted is each policy once with the same parameters";
                return Err(SpecError::new(format!("policies.{index}"), &policy.name, accepted));
            }
        }
        Ok(())
    }

    fn check_engine(&self) -> Result<(), SpecError> {
        let e = &self.engine;
        if e.token_budget < e.max_batch {
            let accepted = format!(
                "accepted is at least engine.max_batch, which is {}: every sequence decodes one token a step",
                e.max_batch
            );
            return Err(SpecError::new("engine.token_budget", e.token_budget, accepted));
        }
        let slots = u64::from(e.adapter_slots) * u64::from(e.adapter_blocks);
        if slots >= u64::from(e.blocks) {
            let found = format!("{} blocks for each of {} slots", e.adapter_blocks, e.adapter_slots);
            let accepted = format!("accepted are fewer blocks in all than engine.blocks, which is {}", e.blocks);
            return Err(SpecError::new("engine.adapter_blocks", found, accepted));
        }
        let longest = self.longest_request();
        if longest > u64::from(e.max_context) {
            let accepted = format!("accepted is at least {longest}, the longest prompt plus output of the workload");
            return Err(SpecError::new("engine.max_context", e.max_context, accepted));
        }
        let blocks = u64::from(self.replicas_ever()) * u64::from(e.blocks);
        if blocks > MAX_BLOCKS {
            let found = format!("{} blocks on each of {} replicas", e.blocks, self.replicas);
            return Err(SpecError::new("engine.blocks", found, format!("accepted are {MAX_BLOCKS} blocks in all")));
        }
        Ok(())
    }

    fn check_execution(&self) -> Result<(), SpecError> {
        let x = &self.execution;
        if x.cost == "custom" {
            let field = "execution.coefficients";
            let accepted = "execution.cost=custom needs coefficients, at least one of them above 0";
            let Some(c) = &x.coefficients else { return Err(SpecError::new(field, "no numbers", accepted)) };
            let sum =
                c.step_us + c.prefill_token_us + c.prefill_context_us + c.decode_sequence_us + c.decode_context_us;
            if sum <= 0.0 {
                return Err(SpecError::new(field, "all zero", accepted));
            }
        } else if x.coefficients.is_some() {
            // They would be ignored without a word.
            let found = format!("a set of numbers next to execution.cost={}", x.cost);
            let accepted = "add execution.cost=custom to have steps charged by them";
            return Err(SpecError::new("execution.coefficients", found, accepted));
        }
        if self.tick.miss_ticks < self.tick.hit_ticks {
            let accepted = format!("accepted is at least tick.hit_ticks, which is {}", self.tick.hit_ticks);
            return Err(SpecError::new("tick.miss_ticks", self.tick.miss_ticks, accepted));
        }
        // One replica may have to serve them all, one after the other, and a clock of nanoseconds ends after five centuries.
        let each_s = self.tick.tick_s * f64::from(self.tick.miss_ticks);
        let all_s = each_s * f64::from(self.workload.requests());
        if x.mode == ExecutionMode::Tick && all_s > LONGEST_S {
            let found = format!("{each_s} s for each of {} requests", self.workload.requests());
            let accepted =
                format!("accepted are shorter or fewer ticks, so that all requests in turn take at most {LONGEST_S} s");
            return Err(SpecError::new("tick.tick_s", found, accepted));
        }
        if x.mode == ExecutionMode::Tinygpt {
            let e = &self.engine;
            if e.max_context > 2048 {
                return Err(SpecError::new("engine.max_context", e.max_context, "TinyGPT holds at most 2048 tokens"));
            }
            // Those that start do so beside those that still drain, each with weights of its own.
            let most = self.scaling.max.saturating_add(self.startup.warm_spares);
            let places = if self.scaling.on { most.saturating_add(self.scaling.max) } else { self.replicas };
            if self.scaling.on && most > LIVE_REPLICAS {
                let accepted = format!(
                    "with the real model accepted are at most {LIVE_REPLICAS}, spares counted, each with weights of its own"
                );
                return Err(SpecError::new("scaling.max", most, accepted));
            }
            if self.scaling.on && self.startup.sleep {
                let accepted = "accepted is off with the real model, which starts for real";
                return Err(SpecError::new("startup.sleep", "on", accepted));
            }
            let bytes = u64::from(places) * u64::from(e.blocks) * u64::from(e.block_tokens) * TINYGPT_KV_BYTES;
            if bytes > LIVE_KV_BYTES {
                let found = format!("{} MiB of KV on {places} replicas", bytes >> 20);
                let accepted = format!(
                    "a run with the real model is accepted up to {} MiB; fewer replicas or blocks, or execution.mode=priced",
                    LIVE_KV_BYTES >> 20
                );
                return Err(SpecError::new("engine.blocks", found, accepted));
            }
        }
        Ok(())
    }
}

/// Refuses versions that this program cannot read.
pub(crate) fn check_version(version: u64) -> Result<(), SpecError> {
    if version == 0 || version > u64::from(SCHEMA_VERSION) {
        let newer = if version > 0 { "; a newer ServeLab made this" } else { "" };
        let accepted = format!("this ServeLab reads spec versions 1 to {SCHEMA_VERSION}{newer}");
        return Err(SpecError::new("version", version, accepted));
    }
    Ok(())
}

fn check_numbers(spec: &Spec) -> Result<(), SpecError> {
    // Floats that JSON cannot hold become null on the way, so they are caught as "not a number".
    let value = serde_json::to_value(spec).map_err(|e| SpecError::new("spec", e, "accepted are plain values"))?;
    for limit in LIMITS {
        let mut at = Some(&value);
        for part in limit.key.split('.') {
            at = at.and_then(|value| value.get(part));
        }
        match at {
            None => {}
            Some(Value::Number(number)) => limit.check(number.as_f64().unwrap_or(f64::NAN))?,
            Some(_) => limit.check(f64::NAN)?,
        }
    }
    Ok(())
}

/// Only one policy has a text of its own, and that is no longer than an address can carry.
///
/// # Errors
/// Names `field`.
pub fn check_script(field: &str, policy: &PolicySpec) -> Result<(), SpecError> {
    let Some(text) = &policy.script else { return Ok(()) };
    if policy.name != PolicySpec::SCRIPT {
        let accepted = format!("only the policy {} has one; {} is as it is", PolicySpec::SCRIPT, policy.name);
        return Err(SpecError::new(field, "a script", accepted));
    }
    if text.len() > MAX_SCRIPT {
        let found = format!("a script of {} bytes", text.len());
        return Err(SpecError::new(field, found, format!("accepted are {MAX_SCRIPT} bytes")));
    }
    Ok(())
}

/// Names travel in addresses, file names and tables: short and plain.
fn check_name(field: &str, name: &str) -> Result<(), SpecError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        let found: String = name.chars().take(80).collect();
        let accepted = "accepted are 1 to 64 characters out of a-z, 0-9, _ and -";
        return Err(SpecError::new(field, format!("{found:?}"), accepted));
    }
    Ok(())
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
