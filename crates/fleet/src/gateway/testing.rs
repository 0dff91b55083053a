//! What the gateway's unit tests share.

use super::ask::{Ask, Ended, View};
use servelab_engine::Nanos;

/// A small first try.
pub(crate) fn ask(tenant: u32) -> Ask {
    Ask { place: 0, tenant, prompt: 10, max_tokens: 10, attempt: 1 }
}

/// One idle replica without metrics.
pub(crate) fn quiet(now: u64) -> View<'static> {
    View { now: Nanos(now), ready: &[0], in_flight: &[0], polled: &[] }
}

/// An answer that came whole at `now`.
pub(crate) fn answered(tenant: u32, now: u64) -> Ended {
    Ended { now: Nanos(now), tenant, max_tokens: 10, produced: 10, ok: true, sent: Nanos::ZERO, first_token: None }
}
