//! Where requests come from: one kind of workload for each way in which prompts come to share their beginnings.
//!
//! Ranges (`user_min` to `user_max`) are inclusive and drawn uniformly. Kinds share the names of what they have in common, so that a
//! setting has one meaning, one limit and one sentence whatever the workload.

use super::demand::DemandSpec;
use super::generated::GeneratedSpec;
use super::trace::TraceSpec;
use crate::wire;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// Where requests come from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WorkloadSpec {
    /// The fixed 24-request trace: six tenants, 8 requests/s, no setting at all.
    BookTrace,
    /// Tenants with long system prompts of their own, unique user parts, Poisson arrivals.
    MultiTenant(MultiTenantSpec),
    /// Conversations: each turn's prompt holds all turns before it, answers included.
    Sessions(SessionsSpec),
    /// Tasks that fan out: each sub-agent's prompt begins with its parent's, and siblings come in bursts.
    AgentTree(AgentTreeSpec),
    /// Questions about a few long documents among many short unrelated ones.
    LongShort(LongShortSpec),
    /// Tenants whose demand follows a curve over the day.
    Demand(DemandSpec),
    /// A recorded trace.
    Trace(TraceSpec),
    /// Traffic by its figures.
    Generated(GeneratedSpec),
}

/// By hand, on a value and its `kind`: what serde derives for a tag among the fields reads every kind a second time from a buffer of its own, which the
/// page would have to carry, and lets any field pass beside the tag of a kind without fields.
impl<'de> Deserialize<'de> for WorkloadSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        fn of<T: DeserializeOwned, E: Error>(fields: Map<String, Value>) -> Result<T, E> {
            wire::from_value(Value::Object(fields)).map_err(E::custom)
        }
        let mut fields = Map::deserialize(deserializer)?;
        let kind = fields.shift_remove("kind").ok_or_else(|| D::Error::missing_field("kind"))?;
        let kind = kind.as_str().ok_or_else(|| D::Error::custom(format!("kind is {kind}, expected a string")))?;
        Ok(match kind {
            "book_trace" => match fields.keys().next() {
                Some(field) => return Err(D::Error::unknown_field(field, &[])),
                None => WorkloadSpec::BookTrace,
            },
            "multi_tenant" => WorkloadSpec::MultiTenant(of(fields)?),
            "sessions" => WorkloadSpec::Sessions(of(fields)?),
            "agent_tree" => WorkloadSpec::AgentTree(of(fields)?),
            "long_short" => WorkloadSpec::LongShort(of(fields)?),
            "demand" => WorkloadSpec::Demand(of(fields)?),
            "trace" => WorkloadSpec::Trace(of(fields)?),
            "generated" => WorkloadSpec::Generated(of(fields)?),
            unknown => return Err(D::Error::unknown_variant(unknown, &WorkloadSpec::KINDS)),
        })
    }
}

impl Default for WorkloadSpec {
    fn default() -> Self {
        WorkloadSpec::MultiTenant(MultiTenantSpec::default())
    }
}

impl WorkloadSpec {
    /// Every kind, as `workload.kind` names it.
    pub const KINDS: [&str; 8] =
        ["book_trace", "multi_tenant", "sessions", "agent_tree", "long_short", "demand", "trace", "generated"];

    /// Its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            WorkloadSpec::BookTrace => "book_trace",
            WorkloadSpec::MultiTenant(_) => "multi_tenant",
            WorkloadSpec::Sessions(_) => "sessions",
            WorkloadSpec::AgentTree(_) => "agent_tree",
            WorkloadSpec::LongShort(_) => "long_short",
            WorkloadSpec::Demand(_) => "demand",
            WorkloadSpec::Trace(_) => "trace",
            WorkloadSpec::Generated(_) => "generated",
        }
    }

    /// The workload of that kind with all its defaults; `None` when there is no such kind.
    pub fn of_kind(kind: &str) -> Option<Self> {
        Some(match kind {
            "book_trace" => WorkloadSpec::BookTrace,
            "multi_tenant" => WorkloadSpec::MultiTenant(MultiTenantSpec::default()),
            "sessions" => WorkloadSpec::Sessions(SessionsSpec::default()),
            "agent_tree" => WorkloadSpec::AgentTree(AgentTreeSpec::default()),
            "long_short" => WorkloadSpec::LongShort(LongShortSpec::default()),
            "demand" => WorkloadSpec::Demand(DemandSpec::default()),
            "trace" => WorkloadSpec::Trace(TraceSpec::default()),
            "generated" => WorkloadSpec::Generated(GeneratedSpec::default()),
            _ => return None,
        })
    }

    /// Number of tenants: what reports tell apart and pictures colour.
    pub fn tenants(&self) -> u32 {
        match self {
            WorkloadSpec::BookTrace => 6,
            WorkloadSpec::MultiTenant(w) => w.tenants,
            WorkloadSpec::Sessions(w) => w.tenants,
            WorkloadSpec::AgentTree(w) => w.tenants,
            // Short questions and questions about documents.
            WorkloadSpec::LongShort(_) => 2,
            WorkloadSpec::Demand(w) => w.tenants,
            WorkloadSpec::Trace(w) => w.tenants,
            WorkloadSpec::Generated(w) => w.tenants,
        }
    }

    /// Arrival rate and what it counts; `None` where arrivals are fixed.
    pub fn rate(&self) -> Option<(f64, RateUnit)> {
        match self {
            WorkloadSpec::BookTrace | WorkloadSpec::Trace(_) => None,
            WorkloadSpec::MultiTenant(w) => Some((w.rate, w.rate_unit)),
            WorkloadSpec::Sessions(w) => Some((w.rate, w.rate_unit)),
            WorkloadSpec::AgentTree(w) => Some((w.rate, w.rate_unit)),
            WorkloadSpec::LongShort(w) => Some((w.rate, w.rate_unit)),
            WorkloadSpec::Demand(w) => Some((w.rate, RateUnit::PerSecond)),
            WorkloadSpec::Generated(w) => Some((w.rate, w.rate_unit)),
        }
    }

    /// Number of requests; of a trace, the most there may be.
    pub fn requests(&self) -> u32 {
        match self {
            WorkloadSpec::BookTrace => 24,
            WorkloadSpec::MultiTenant(w) => w.requests,
            WorkloadSpec::Sessions(w) => w.requests,
            WorkloadSpec::AgentTree(w) => w.requests,
            WorkloadSpec::LongShort(w) => w.requests,
            WorkloadSpec::Demand(w) => w.expected_requests(),
            WorkloadSpec::Trace(w) => w.requests,
            WorkloadSpec::Generated(w) => w.requests,
        }
    }

    /// Longest prompt that can be asked for, tokens.
    pub fn longest_prompt(&self) -> u64 {
        let sum = |parts: &[u32]| parts.iter().map(|&part| u64::from(part)).sum::<u64>();
        match self {
            // Longest system prompt and user part.
            WorkloadSpec::BookTrace => 444 + 32,
            WorkloadSpec::MultiTenant(w) => sum(&[w.system_max, w.user_max]),
            WorkloadSpec::Sessions(w) => {
                let turns = u64::from(w.turns_max);
                let answers = turns.saturating_sub(1) * u64::from(w.output_max);
                u64::from(w.system_max) + turns * u64::from(w.user_max) + answers
            }
            WorkloadSpec::AgentTree(w) => sum(&[w.system_max, w.task_max]) + u64::from(w.depth) * u64::from(w.user_max),
            WorkloadSpec::LongShort(w) => sum(&[w.document_max, w.user_max]),
            WorkloadSpec::Demand(w) => sum(&[w.system_max, w.user_max]),
            WorkloadSpec::Trace(w) => u64::from(w.prompt_cap),
            WorkloadSpec::Generated(w) => u64::from(w.prompt_cap),
        }
    }

    /// Longest output, tokens.
    pub fn longest_output(&self) -> u64 {
        u64::from(match self {
            WorkloadSpec::BookTrace => 32,
            WorkloadSpec::MultiTenant(w) => w.output_max,
            WorkloadSpec::Sessions(w) => w.output_max,
            WorkloadSpec::AgentTree(w) => w.output_max,
            WorkloadSpec::LongShort(w) => w.output_max,
            WorkloadSpec::Demand(w) => w.output_max,
            WorkloadSpec::Trace(w) => w.output_cap,
            WorkloadSpec::Generated(w) => w.output_cap,
        })
    }
}

/// Unit of an arrival rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RateUnit {
    /// Requests per second.
    PerSecond,
    /// Multiple of what the whole fleet can serve when no prompt token is reused.
    OfCapacity,
}

/// Parameters of the multi-tenant workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct MultiTenantSpec {
    /// Number of requests.
    pub requests: u32,
    /// Number of tenants.
    pub tenants: u32,
    /// Zipf exponent of tenant popularity; 0 is uniform.
    pub skew: f64,
    /// How many times its share the first tenant sends.
    pub noisy: f64,
    /// LoRA adapters: tenant `t` asks for adapter `t % adapters`, and blocks of one adapter are never another's; 0: none.
    pub adapters: u32,
    /// Shortest system prompt, tokens.
    pub system_min: u32,
    /// Longest system prompt, tokens.
    pub system_max: u32,
    /// Shortest user part, tokens.
    pub user_min: u32,
    /// Longest user part, tokens.
    pub user_max: u32,
    /// Shortest output, tokens.
    pub output_min: u32,
    /// Longest output, tokens.
    pub output_max: u32,
    /// Arrival rate, in [`RateUnit`].
    pub rate: f64,
    /// What `rate` counts.
    pub rate_unit: RateUnit,
}

impl Default for MultiTenantSpec {
    fn default() -> Self {
        MultiTenantSpec {
            requests: 200,
            tenants: 6,
            skew: 0.0,
            noisy: 1.0,
            adapters: 0,
            system_min: 384,
            system_max: 448,
            user_min: 8,
            user_max: 32,
            output_min: 16,
            output_max: 32,
            rate: 0.7,
            rate_unit: RateUnit::OfCapacity,
        }
    }
}

/// Parameters of conversations. They are an open loop: a turn is sent when the user has thought for `think_s` after `answer_s`, whether or
/// not the answer has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SessionsSpec {
    /// Number of requests: turns of all sessions together.
    pub requests: u32,
    /// Number of tenants; the sessions of a tenant share its system prompt.
    pub tenants: u32,
    /// Zipf exponent of tenant popularity; 0 is uniform.
    pub skew: f64,
    /// Fewest turns of a session.
    pub turns_min: u32,
    /// Most turns of a session.
    pub turns_max: u32,
    /// Mean time a user thinks between an answer and the next turn, exponential, seconds.
    pub think_s: f64,
    /// Nominal time of an answer, seconds: a user is taken to start thinking that long after sending.
    pub answer_s: f64,
    /// Shortest system prompt, tokens.
    pub system_min: u32,
    /// Longest system prompt, tokens.
    pub system_max: u32,
    /// Shortest user part of a turn, tokens.
    pub user_min: u32,
    /// Longest user part of a turn, tokens.
    pub user_max: u32,
    /// Shortest output, tokens.
    pub output_min: u32,
    /// Longest output, tokens.
    pub output_max: u32,
    /// Arrival rate of turns, in [`RateUnit`], once sessions overlap: a run begins with nobody there and ends with the last turn of its last
    /// session, so over the length of a session it rises, and falls off again.
    pub rate: f64,
    /// What `rate` counts.
    pub rate_unit: RateUnit,
}

impl Default for SessionsSpec {
    fn default() -> Self {
        SessionsSpec {
            requests: 400,
            tenants: 4,
            skew: 0.0,
            turns_min: 2,
            turns_max: 8,
            think_s: 4.0,
            answer_s: 1.0,
            system_min: 96,
            system_max: 160,
            user_min: 24,
            user_max: 96,
            output_min: 16,
            output_max: 64,
            rate: 0.7,
            rate_unit: RateUnit::OfCapacity,
        }
    }
}

/// Parameters of agent trees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct AgentTreeSpec {
    /// Number of requests: agents of all tasks together.
    pub requests: u32,
    /// Number of tenants; the tasks of a tenant share its system prompt.
    pub tenants: u32,
    /// Zipf exponent of tenant popularity; 0 is uniform.
    pub skew: f64,
    /// Levels of sub-agents below a task's first agent.
    pub depth: u32,
    /// Sub-agents that every agent above the last level starts.
    pub branches: u32,
    /// Mean delay of a sub-agent after its parent's answer, exponential, seconds: how tight a burst of siblings is.
    pub burst_s: f64,
    /// Nominal time of an answer, seconds: sub-agents start that long after their parent, whether or not its answer has come.
    pub answer_s: f64,
    /// Shortest system prompt, tokens.
    pub system_min: u32,
    /// Longest system prompt, tokens.
    pub system_max: u32,
    /// Shortest description of a task, tokens: what all its agents share.
    pub task_min: u32,
    /// Longest description of a task, tokens.
    pub task_max: u32,
    /// Shortest part that a sub-agent adds to its parent's prompt, tokens.
    pub user_min: u32,
    /// Longest part that a sub-agent adds to its parent's prompt, tokens.
    pub user_max: u32,
    /// Shortest output, tokens.
    pub output_min: u32,
    /// Longest output, tokens.
    pub output_max: u32,
    /// Arrival rate of agents, in [`RateUnit`].
    pub rate: f64,
    /// What `rate` counts.
    pub rate_unit: RateUnit,
}

impl AgentTreeSpec {
    /// Agents of one task: `1 + branches + branches² + …`, `depth` levels below the first.
    pub fn agents(&self) -> u64 {
        let level = |level: u32| u64::from(self.branches).saturating_pow(level);
        (0..=self.depth).fold(0, |sum: u64, at| sum.saturating_add(level(at)))
    }
}

impl Default for AgentTreeSpec {
    fn default() -> Self {
        AgentTreeSpec {
            requests: 390,
            tenants: 4,
            skew: 0.0,
            depth: 2,
            branches: 3,
            burst_s: 0.2,
            answer_s: 1.0,
            system_min: 96,
            system_max: 160,
            task_min: 256,
            task_max: 512,
            user_min: 32,
            user_max: 96,
            output_min: 16,
            output_max: 32,
            rate: 0.7,
            rate_unit: RateUnit::OfCapacity,
        }
    }
}

/// Parameters of long documents among short questions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct LongShortSpec {
    /// Number of requests.
    pub requests: u32,
    /// Share of requests that are about a document, 0 to 1.
    pub long_share: f64,
    /// Number of documents; each is asked about again and again.
    pub documents: u32,
    /// Shortest document, tokens.
    pub document_min: u32,
    /// Longest document, tokens.
    pub document_max: u32,
    /// Shortest question, tokens.
    pub user_min: u32,
    /// Longest question, tokens.
    pub user_max: u32,
    /// Shortest output, tokens.
    pub output_min: u32,
    /// Longest output, tokens.
    pub output_max: u32,
    /// Arrival rate, in [`RateUnit`].
    pub rate: f64,
    /// What `rate` counts.
    pub rate_unit: RateUnit,
}

impl Default for LongShortSpec {
    fn default() -> Self {
        LongShortSpec {
            requests: 400,
            long_share: 0.2,
            documents: 6,
            document_min: 1000,
            document_max: 1600,
            user_min: 16,
            user_max: 64,
            output_min: 16,
            output_max: 32,
            rate: 0.7,
            rate_unit: RateUnit::OfCapacity,
        }
    }
}
