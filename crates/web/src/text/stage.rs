//! Sentences of the stage and the play bar.

use crate::format::{duration, number, percent, whole};
use servelab_spec::frame::{BlockCell, Frame, Pill, ReplicaFrame, ReplicaState, StepFrame};

pub(crate) fn stage_label(policy: &str) -> String {
    format!("The fleet under {policy}")
}

pub(crate) fn replica_name(replica: u32) -> String {
    format!("Replica {}", replica + 1)
}

/// A tenant's letter, as on its pills: A to Z, then numbers.
pub(crate) fn tenant_letter(tenant: u32) -> String {
    match u8::try_from(tenant) {
        Ok(small) if small < 26 => char::from(b'A' + small).to_string(),
        _ => (tenant + 1).to_string(),
    }
}

pub(crate) fn request_name(request: u32) -> String {
    format!("Request {}", request + 1)
}

pub(crate) fn pill_label(pill: &Pill) -> String {
    let attempt = if pill.attempt > 1 { format!(", attempt {}", pill.attempt) } else { String::new() };
    format!(
        "{}, tenant {}{attempt}: {} prompt tokens, {} from cache{}",
        request_name(pill.request),
        tenant_letter(pill.tenant),
        pill.prompt_tokens,
        pill.cached_tokens,
        super::and_fetched(pill.fetched_tokens)
    )
}

pub(crate) fn and_more(hidden: u32) -> String {
    format!("+{hidden}")
}

pub(crate) fn queue_label(waiting: u32) -> String {
    format!("queue {waiting}")
}

pub(crate) fn running_label(running: u32) -> String {
    format!("running {running}")
}

pub(crate) fn score_label(score: f64) -> String {
    number(score)
}

pub(crate) fn step_label(step: &StepFrame) -> String {
    let work = match (step.prefill_tokens, step.decode_sequences) {
        (0, decode) => format!("decode × {decode}"),
        (prefill, 0) => format!("prefill {prefill}"),
        (prefill, decode) => format!("prefill {prefill} + decode × {decode}"),
    };
    format!("{work} · {}", duration(step.end_s - step.start_s))
}

pub(crate) fn kv_label(replica: &ReplicaFrame) -> String {
    let total = replica.blocks.len() as u64;
    let used = (replica.kv_usage * total as f64).round() as u64;
    let evicted =
        if replica.evictions > 0 { format!(" · {} evicted", whole(replica.evictions)) } else { String::new() };
    let preempted = match replica.preemptions {
        0 => String::new(),
        some => format!(" · {} preempted", whole(some)),
    };
    format!("KV {} of {} blocks held{evicted}{preempted}", whole(used), whole(total))
}

pub(crate) fn reuse_label(replica: &ReplicaFrame) -> String {
    if replica.prompt_tokens == 0 {
        return String::new();
    }
    format!("reuse {}", percent(replica.hit_tokens as f64 / replica.prompt_tokens as f64))
}

pub(crate) fn block_label(block: usize, cell: BlockCell) -> String {
    let state = match (cell.tenant, cell.used, cell.shared) {
        (None, ..) => return format!("Block {block}: empty"),
        (_, true, true) => "shared by sequences",
        (_, true, false) => "held by a sequence",
        (_, false, _) if cell.cached => "kept for reuse",
        _ => return format!("Block {block}: empty"),
    };
    format!("Block {block}: tenant {}, {state}", cell.tenant.map(tenant_letter).unwrap_or_default())
}

pub(crate) fn cell_label(replica: u32, state: &str, waiting: u32, running: u32, usage: u32) -> String {
    format!("{}, {state}: {running} running, {waiting} waiting, {usage} % of KV blocks held", replica_name(replica))
}

pub(crate) fn finished_label(finished: u32) -> String {
    format!("{} finished", whole(finished.into()))
}

pub(crate) fn rejected_label(rejected: u32) -> String {
    format!("{} refused", whole(rejected.into()))
}

/// Who went where; with several routers, by which of them.
pub(crate) fn decision_head(tenant: u32, router: Option<u32>, replica: u32) -> String {
    let via = router.map(|router| format!(", router {}", router + 1)).unwrap_or_default();
    format!("{}{via} → {}:", tenant_letter(tenant), replica_name(replica).to_lowercase())
}

/// The picture in words.
pub(crate) fn describe_frame(frame: &Frame, policy: &str) -> String {
    let mut out = format!(
        "At {} under {policy}: {} requests have arrived, {} have finished.",
        duration(frame.t_s),
        frame.arrived,
        frame.finished
    );
    for (at, replica) in frame.replicas.iter().enumerate().take(16) {
        if matches!(replica.state, ReplicaState::Planned | ReplicaState::Gone) {
            let state = if replica.state == ReplicaState::Gone { super::STATE_GONE } else { super::STATE_PLANNED };
            out.push_str(&format!(" {}: {state}.", replica_name(at as u32)));
            continue;
        }
        let used = (replica.kv_usage * 100.0).round();
        out.push_str(&format!(
            " {}: {} running, {} waiting, {used} % of its KV blocks held.",
            replica_name(at as u32),
            replica.running_total,
            replica.waiting_total
        ));
    }
    out
}

pub(crate) fn clock_of(now: &str, end: &str) -> String {
    format!("{now} of {end}")
}

pub(crate) fn of_end(end: &str) -> String {
    format!(" of {end}")
}

pub(crate) fn speed_name(speed: f64) -> String {
    let words = match speed {
        0.25 => "¼".to_owned(),
        0.5 => "½".to_owned(),
        slow if slow < 0.25 => format!("1/{}", whole((1.0 / slow).round() as u64)),
        fast => whole(fast as u64),
    };
    format!("{words} ×")
}
