//! What is told of each request and of each replica.

use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;

/// A request's end, told once for each request that arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestRecord {
    /// Its index in the workload.
    pub index: u32,
    /// Whose it was.
    pub tenant: u32,
    /// Replica of its last attempt that reached one.
    pub replica: Option<u32>,
    /// When its client first sent it.
    pub arrival: Nanos,
    /// When it first entered a batch.
    pub admitted: Option<Nanos>,
    /// When its first token came.
    pub first_token: Option<Nanos>,
    /// When it ended; the horizon for a pending one.
    pub end: Nanos,
    /// Prompt length, tokens.
    pub prompt_tokens: u32,
    /// Prompt tokens found in the cache at first admission.
    pub cached_tokens: u32,
    /// Prompt tokens that came from the store beyond those.
    #[serde(default)]
    pub fetched_tokens: u32,
    /// Tokens produced.
    pub output_tokens: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Tries, the first included.
    pub attempts: u32,
    /// A managed API served it.
    #[serde(default)]
    pub outside: bool,
    /// How long all of them together were held at the gateway.
    #[serde(default)]
    pub held: Nanos,
    /// Its replica's step that produced the first token, counted from 0; what a replay of recorded steps needs.
    pub first_token_step: u64,
    /// Its replica's step that produced the last token.
    pub last_step: u64,
    /// Generated token ids, when somebody computed them.
    pub output: Vec<u32>,
}

impl RequestRecord {
    /// Time to first token.
    pub fn ttft(&self) -> Option<Nanos> {
        self.first_token.map(|at| at.since(self.arrival))
    }

    /// Mean gap between tokens after the first, seconds; `None` for fewer than two tokens or an unfinished request.
    pub fn itl_s(&self) -> Option<f64> {
        let gaps = self.output_tokens.checked_sub(1).filter(|&gaps| gaps > 0)?;
        let first = self.first_token.filter(|_| self.outcome == Outcome::Finished)?;
        Some(self.end.since(first).as_secs() / f64::from(gaps))
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// All its output was delivered.
    Finished,
    /// Refused: it can never fit a replica (400), or the gateway turned it away (429, 503).
    Rejected {
        /// The HTTP status a client would see.
        code: u16,
        /// Who turned its last attempt away, and why.
        cause: Refusal,
    },
    /// Still under way at the horizon.
    Pending,
    /// Its replica went before it was done, and nobody tried again.
    Lost {
        /// Why the replica went.
        cause: Loss,
    },
}

/// Who turned an attempt away, and why. The status a client sees is a setting in many of these cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// A replica: it can never fit there.
    NeverFits,
    /// The router: no replica may be chosen.
    NoReplica,
    /// The gateway: its queue is full.
    GatewayQueue,
    /// The gateway: it was held there too long.
    GatewayExpired,
    /// The gateway: a prompt or an output budget is longer than it lets through.
    TooLong,
    /// The gateway: its tenant makes too many requests.
    RateLimit,
    /// The gateway: its tenant asks for too many tokens.
    TokenBudget,
    /// The gateway: it has been tried too often, or too much is tried again.
    RetryCap,
    /// The gateway: the servers fail too often.
    Failing,
    /// The gateway: its priority is negative and the fleet is full.
    Shed,
    /// The gateway: as much is in flight as may be.
    Concurrency,
    /// The gateway: as much is in flight as latency lets it.
    Gradient,
    /// The gateway: the fleet is too full for its class.
    Saturated,
    /// The gateway: the fleet has just come back.
    Ramp,
    /// The gateway: it waited long in a queue that does not empty.
    Codel,
    /// The gateway: no replica is ready, or none was for too long.
    EmptyPool,
    /// A replica: its queue holds as many requests as it may.
    EngineQueue,
    /// A replica: its queue holds as many tokens as it may.
    EngineTokens,
    /// A replica: it would have waited too long.
    EngineTooLate,
    /// A replica: it waited there too long.
    EngineExpired,
}

/// Attempts turned away for one cause with one status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefusalCount {
    /// Why.
    pub cause: Refusal,
    /// The HTTP status.
    pub code: u16,
    /// How many.
    pub attempts: u64,
}

/// Who turns attempts away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The gateway.
    Gateway,
    /// A router.
    Router,
    /// A replica's engine.
    Engine,
}

impl Refusal {
    /// Who turned it away.
    pub fn layer(self) -> Layer {
        match self {
            Refusal::NoReplica => Layer::Router,
            Refusal::NeverFits
            | Refusal::EngineQueue
            | Refusal::EngineTokens
            | Refusal::EngineTooLate
            | Refusal::EngineExpired => Layer::Engine,
            Refusal::GatewayQueue
            | Refusal::GatewayExpired
            | Refusal::TooLong
            | Refusal::RateLimit
            | Refusal::TokenBudget
            | Refusal::RetryCap
            | Refusal::Failing
            | Refusal::Shed
            | Refusal::Concurrency
            | Refusal::Gradient
            | Refusal::Saturated
            | Refusal::Ramp
            | Refusal::Codel
            | Refusal::EmptyPool => Layer::Gateway,
        }
    }
}

/// Why a replica went with work on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// It was told to go, and was killed when its time to drain was over.
    Grace,
    /// Its liveness or start-up probe failed too often, and it was started again.
    Probe,
    /// It crashed, or its node did.
    Crash,
}

/// How many requests came to which end so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Requests that have arrived.
    pub arrived: u64,
    /// Of those, finished.
    pub finished: u64,
    /// Refused.
    pub rejected: u64,
    /// Lost with their replica.
    #[serde(default)]
    pub lost: u64,
    /// Pending at the horizon (0 before it).
    pub pending: u64,
    /// Tries of all requests together.
    pub attempts: u64,
    /// Of those, repeats after a failure.
    pub retries: u64,
    /// Of those, sent to a managed API.
    #[serde(default)]
    pub outside: u64,
    /// Of those, sent while another try was under way.
    pub hedges: u64,
}

/// One replica's totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaStats {
    /// Attempts sent to it.
    pub assignments: u64,
    /// Prompt tokens of first admissions.
    pub prompt_tokens: u64,
    /// Of those, found in the cache.
    pub hit_tokens: u64,
    /// Of those, not found there but fetched from the store.
    pub fetched_tokens: u64,
    /// Virtual time spent in steps that ended.
    pub busy: Nanos,
    /// Virtual time since it was created.
    pub lifetime: Nanos,
    /// Most KV blocks in use ÷ blocks (of a server: most slots busy ÷ slots).
    pub kv_peak: f64,
    /// Steps committed.
    pub steps: u64,
    /// Sequences preempted.
    pub preemptions: u64,
    /// Cached blocks evicted.
    pub evictions: u64,
    /// Most requests waiting at once.
    pub peak_waiting: u32,
}

impl ReplicaStats {
    /// The totals of both, of which `self` is the earlier life of the same place.
    #[must_use]
    pub(crate) fn and(self, later: ReplicaStats) -> ReplicaStats {
        ReplicaStats {
            assignments: self.assignments + later.assignments,
            prompt_tokens: self.prompt_tokens + later.prompt_tokens,
            hit_tokens: self.hit_tokens + later.hit_tokens,
            fetched_tokens: self.fetched_tokens + later.fetched_tokens,
            busy: self.busy + later.busy,
            lifetime: self.lifetime + later.lifetime,
            kv_peak: self.kv_peak.max(later.kv_peak),
            steps: self.steps + later.steps,
            preemptions: self.preemptions + later.preemptions,
            evictions: self.evictions + later.evictions,
            peak_waiting: self.peak_waiting.max(later.peak_waiting),
        }
    }

    /// Prompt tokens that had to be computed, repeats after preemption left out.
    pub fn uncached_tokens(&self) -> u64 {
        self.prompt_tokens - self.hit_tokens - self.fetched_tokens
    }
}
