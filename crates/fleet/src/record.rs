//! What is told of each request and of each replica.

use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use std::collections::BTreeMap;

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
    /// Its client waited no longer for its last attempt, and nobody tried again.
    TimedOut,
    /// Its client gave it up: the time it had for all attempts together was over.
    Abandoned,
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
    /// A replica: its queue is full.
    ReplicaQueue,
    /// A replica: it answered with an error.
    ReplicaError,
    /// The gateway: part of the load is dropped at the door.
    LoadDropped,
    /// The client itself: its circuit breaker is open.
    ClientBreaker,
    /// The client itself: it expects to be refused.
    ClientThrottle,
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
    /// A replica's engine: its queue holds as many requests as it may.
    EngineQueue,
    /// A replica's engine: its queue holds as many tokens as it may.
    EngineTokens,
    /// A replica's engine: it would have waited too long.
    EngineTooLate,
    /// A replica's engine: it waited there too long.
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

/// Where on its way an attempt was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusedBy {
    /// Before it was sent.
    Client,
    /// In front of the router.
    Gateway,
    /// By the router.
    Router,
    /// By the replica that was chosen.
    Replica,
}

impl Refusal {
    /// Who it is that turns away for this reason.
    pub fn by(self) -> RefusedBy {
        match self {
            Refusal::ClientBreaker | Refusal::ClientThrottle => RefusedBy::Client,
            Refusal::NoReplica => RefusedBy::Router,
            Refusal::NeverFits
            | Refusal::ReplicaQueue
            | Refusal::ReplicaError
            | Refusal::EngineQueue
            | Refusal::EngineTokens
            | Refusal::EngineTooLate
            | Refusal::EngineExpired => RefusedBy::Replica,
            Refusal::LoadDropped
            | Refusal::GatewayQueue
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
            | Refusal::EmptyPool => RefusedBy::Gateway,
        }
    }

    /// It never left its client.
    pub(crate) fn is_the_clients(self) -> bool {
        self.by() == RefusedBy::Client
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
    /// The network between router and replica was split, and the connection broke.
    Network,
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
    /// Whose last attempt took too long for its client.
    #[serde(default)]
    pub timed_out: u64,
    /// Given up by their clients.
    #[serde(default)]
    pub abandoned: u64,
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
    /// Retries that a budget or a breaker did not allow, so that their requests were given up; they are no attempts.
    #[serde(default)]
    pub unpaid: u64,
}

impl Counts {
    /// Requests that have ended, one way or another.
    pub fn ended(&self) -> u64 {
        self.finished + self.rejected + self.lost + self.timed_out + self.abandoned
    }
}

/// Prompt tokens of requests that a replica has admitted, each request counted once, whatever was tried again: at the first admission of the first of its
/// attempts. What a retry finds of its own earlier attempt is no reuse, and would be more than any cache could give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirstSight {
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// Of those, found in the cache.
    pub hit_tokens: u64,
}

/// Time that replicas have spent on attempts that have ended, by what came of it. Of an engine it is what an attempt's own tokens cost, and what a
/// step costs whatever is in it is nobody's; of a server and of a replica in ticks it is the whole time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// For answers that somebody waited for.
    pub useful: Nanos,
    /// For nobody: too late, or another attempt was answered first.
    pub abandoned: Nanos,
    /// Lost with a replica.
    pub lost: Nanos,
}

/// What became of all attempts so far. Each is counted under one of *accepted* (its replica took it in), *refused*, *withdrawn* and *vanished*, or is
/// held by the gateway; and for its client each succeeded, failed or was of no more use, or is waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fates {
    /// A replica took them in, and did not turn them away later.
    pub accepted: u64,
    /// Turned away, by reason.
    pub refused: BTreeMap<Refusal, u64>,
    /// Taken out of the gateway's queue because nobody waited any more.
    pub withdrawn: u64,
    /// Sent into a split network.
    pub vanished: u64,
    /// Sent to a managed API.
    #[serde(default)]
    pub outside: u64,
    /// Answered in time.
    pub succeeded: u64,
    /// Answered with a refusal or an error.
    pub failed: u64,
    /// Not waited for any longer: too slow.
    pub timed_out: u64,
    /// Lost with their replica or their connection.
    pub lost: u64,
    /// Of no more use: another attempt was answered first, or the request was given up.
    pub superseded: u64,
}

impl Fates {
    /// All that were turned away.
    pub fn refused(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Those turned away by `layer`.
    pub fn refused_by(&self, layer: RefusedBy) -> u64 {
        self.refused.iter().filter(|(refusal, _)| refusal.by() == layer).map(|(_, count)| count).sum()
    }
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
    /// The same, of each of its slots: of a server as many times as long as it has slots, of any other the same.
    #[serde(default)]
    pub worked: Nanos,
    /// Of that, spent on turning attempts away.
    #[serde(default)]
    pub refusing: Nanos,
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
            worked: self.worked + later.worked,
            refusing: self.refusing + later.refusing,
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
