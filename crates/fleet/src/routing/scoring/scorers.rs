//! llm-d's scorers. Each gives every candidate that is left a score from 0 to 1.
//!
//! | scorer | formula | tier |
//! |---|---|---|
//! | queue | (max − q) ÷ (max − min); all equal → 1 | polled: requests waiting |
//! | kv-util | 1 − KV usage | polled |
//! | prefix | entries matched ÷ entries of the prompt | index |
//! | active-request | idle → 1, else (max − requests) ÷ max | router-local |
//! | token-load | 1 − min(1, (uncached tokens in flight + mine) ÷ limit) | router-local, index |
//! | load-aware | ½ · (1 − q ÷ 128), 0 from 128 on | polled |
//! | lora-affinity | holds the adapter 1; a slot is free 0.8; being loaded 0.6; else 0 | polled |
//! | no-hit-lru | somebody holds something → ½; else by how long ago it last took a cold request | index |
//! | session | 1 on the replica that the session is bound to | own memory |
//!
//! Minimum and maximum are taken over the candidates that filters left. They make one waiting request more swing the whole weight of
//! the queue scorer.

use super::super::RouteContext;
use super::prefixes::Prefixes;
use crate::telemetry::Reads;

/// Requests waiting at which load-aware gives nothing: llm-d's queue threshold.
const QUEUE_THRESHOLD: f64 = 128.0;
/// What lora-affinity gives a replica with a free slot, and one that is loading the adapter already.
const SLOT_FREE: f64 = 0.8;
const BEING_LOADED: f64 = 0.6;

/// A scorer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scorer {
    Queue,
    KvUtil,
    Prefix,
    ActiveRequest,
    TokenLoad,
    LoadAware,
    LoraAffinity,
    NoHitLru,
    Session,
}

/// What scorers score by.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) ctx: &'a RouteContext<'a>,
    /// Looked up for this request, if any scorer reads it.
    pub(crate) prefixes: &'a Prefixes,
    /// Tokens at which token-load gives nothing.
    pub(crate) token_limit: f64,
    /// Replicas that took cold requests, the latest last.
    pub(crate) cold: &'a [u32],
    /// The replica that the request's session is bound to.
    pub(crate) bound: Option<u32>,
}

impl Scorer {
    pub(crate) const ALL: [Scorer; 9] = [
        Scorer::Queue,
        Scorer::KvUtil,
        Scorer::Prefix,
        Scorer::ActiveRequest,
        Scorer::TokenLoad,
        Scorer::LoadAware,
        Scorer::LoraAffinity,
        Scorer::NoHitLru,
        Scorer::Session,
    ];

    /// The name of its weight, what it is called, and what a higher weight does.
    pub(crate) fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Scorer::Queue => ("queue", "Queue", "Weight of the shortest queue, as polled."),
            Scorer::KvUtil => ("kv_util", "KV utilisation", "Weight of the emptiest KV cache, as polled."),
            Scorer::Prefix => ("prefix", "Prefix", "Weight of the share of the prompt that a replica holds."),
            Scorer::ActiveRequest => {
                ("active_request", "Active requests", "Weight of the fewest requests that this router has in flight.")
            }
            Scorer::TokenLoad => (
                "token_load",
                "Token load",
                "Weight of the fewest uncached prompt tokens that this router has in flight.",
            ),
            Scorer::LoadAware => {
                ("load_aware", "Load-aware", "Weight of a short queue on an absolute scale: 128 waiting give nothing.")
            }
            Scorer::LoraAffinity => {
                ("lora_affinity", "LoRA affinity", "Weight of a replica that holds the adapter or has a slot for it.")
            }
            Scorer::NoHitLru => {
                ("no_hit_lru", "No-hit LRU", "Weight of taking turns with prompts that nobody holds anything of.")
            }
            Scorer::Session => ("session", "Session", "Weight of the replica that served the session before."),
        }
    }

    /// The tier it reads, apart from prefixes.
    pub(crate) fn reads(self) -> Reads {
        match self {
            Scorer::Queue | Scorer::KvUtil | Scorer::LoadAware | Scorer::LoraAffinity => Reads::POLLED,
            Scorer::ActiveRequest | Scorer::TokenLoad => Reads::LOCAL,
            Scorer::Prefix | Scorer::NoHitLru | Scorer::Session => Reads::NOTHING,
        }
    }

    /// It asks how much of the prompt replicas hold.
    pub(crate) fn needs_prefixes(self) -> bool {
        matches!(self, Scorer::Prefix | Scorer::TokenLoad | Scorer::NoHitLru)
    }

    /// Adds `weight` times its score of each candidate at the positions `left` to `totals`, in that order.
    pub(crate) fn add(self, weight: f64, seen: &Seen<'_>, left: &[u32], totals: &mut [f64]) {
        let Seen { ctx, prefixes, token_limit, cold, bound } = *seen;
        let mut each = |score: &mut dyn FnMut(usize) -> f64| {
            for (&at, total) in left.iter().zip(totals.iter_mut()) {
                *total += weight * score(at as usize).clamp(0.0, 1.0);
            }
        };
        match self {
            Scorer::Queue => {
                let waiting = |at: usize| ctx.polled(at).waiting;
                let (mut least, mut most) = (u32::MAX, 0);
                for &at in left {
                    least = least.min(waiting(at as usize));
                    most = most.max(waiting(at as usize));
                }
                let range = f64::from(most.saturating_sub(least));
                each(&mut |at| if range == 0.0 { 1.0 } else { f64::from(most - waiting(at)) / range });
            }
            Scorer::KvUtil => each(&mut |at| 1.0 - ctx.polled(at).kv_usage),
            Scorer::Prefix => each(&mut |at| prefixes.share(at)),
            Scorer::ActiveRequest => {
                let requests = |at: usize| f64::from(ctx.local()[at].requests);
                let most = left.iter().map(|&at| requests(at as usize)).fold(0.0, f64::max);
                each(&mut |at| if requests(at) == 0.0 { 1.0 } else { (most - requests(at)) / most });
            }
            Scorer::TokenLoad => {
                let len = ctx.request.prompt.len;
                each(&mut |at| {
                    let mine = u64::from(len - prefixes.tokens(at, len));
                    1.0 - (ctx.local()[at].prefill_tokens + mine) as f64 / token_limit
                });
            }
            Scorer::LoadAware => each(&mut |at| 0.5 * (1.0 - f64::from(ctx.polled(at).waiting) / QUEUE_THRESHOLD)),
            Scorer::LoraAffinity => each(&mut |at| {
                let polled = ctx.polled(at);
                let among = |list: &[u32]| ctx.request.adapter.is_some_and(|adapter| list.contains(&adapter));
                let taken = polled.adapters.len() + polled.adapters_waiting.len();
                if among(&polled.adapters) {
                    1.0
                } else if taken < polled.adapter_slots as usize {
                    SLOT_FREE
                } else if among(&polled.adapters_waiting) {
                    BEING_LOADED
                } else {
                    0.0
                }
            }),
            Scorer::NoHitLru if !prefixes.is_cold() => each(&mut |_| 0.5),
            Scorer::NoHitLru => {
                let place = |at: usize| cold.iter().position(|&replica| replica == ctx.candidates[at]);
                let fresh = left.iter().filter(|&&at| place(at as usize).is_none()).count();
                let last = left.len().saturating_sub(1).max(1) as f64;
                let mut nth_fresh = 0;
                each(&mut |at| {
                    let rank = place(at).map_or(nth_fresh, |place| fresh + place);
                    nth_fresh += usize::from(place(at).is_none());
                    1.0 - rank as f64 / last
                });
            }
            Scorer::Session => each(&mut |at| if bound == Some(ctx.candidates[at]) { 1.0 } else { 0.0 }),
        }
    }
}
