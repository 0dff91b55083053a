//! How long a container that was killed waits before it starts again: Kubernetes' back-off, which `kubectl` shows as CrashLoopBackOff.
//!
//! The first restart is immediate, the next ones wait 10 s, 20 s, 40 s and so on, at most five minutes. A container that ran for ten minutes begins anew
//! (`kubernetes/website:…/pod-lifecycle.md`, "How Pods handle problems with containers").

use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;

const FIRST: Nanos = Nanos(10_000_000_000);
const MOST: Nanos = Nanos(300_000_000_000);
const FORGOTTEN: Nanos = Nanos(600_000_000_000);

/// What is remembered of one container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CrashLoop {
    started: Nanos,
    kills: u32,
}

impl CrashLoop {
    /// The container starts.
    pub(crate) fn start(&mut self, now: Nanos) {
        self.started = now;
    }

    /// It is killed; answers how long it waits before it starts again.
    pub(crate) fn kill(&mut self, now: Nanos) -> Nanos {
        if now.since(self.started) >= FORGOTTEN {
            self.kills = 0;
        }
        self.kills = self.kills.saturating_add(1);
        match self.kills {
            1 => Nanos::ZERO,
            many => Nanos(FIRST.0.saturating_mul(1 << (many - 2).min(8))).min(MOST),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Nanos {
        Nanos(seconds * 1_000_000_000)
    }

    /// Killed a minute after each start.
    #[test]
    fn waits_double_up_to_five_minutes() {
        let (mut of, mut now) = (CrashLoop::default(), s(0));
        for expected in [0, 10, 20, 40, 80, 160, 300, 300, 300, 300, 300, 300] {
            of.start(now);
            now += s(60);
            let wait = of.kill(now);
            assert_eq!(wait, s(expected));
            now += wait;
        }
        // Ten minutes without a kill: it begins anew.
        of.start(now);
        assert_eq!(of.kill(now + s(600)), s(0));
        of.start(now + s(600));
        assert_eq!(of.kill(now + s(1199)), s(10));
    }
}
