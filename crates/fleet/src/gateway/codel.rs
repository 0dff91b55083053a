//! Controlled delay: a standing queue is not a burst, and whoever waited long in one is dropped.
//!
//! The variant of Facebook's folly (`folly/executors/Codel.cpp`; described in *Fail at Scale*, ACM Queue 2015): if the *least* wait seen in an interval was above the
//! target, the queue did not once run empty, so it is standing; in the interval that follows, whoever waited more than twice the target is dropped. The first
//! request of an interval is never dropped. It pairs with *adaptive LIFO*: in a standing queue the newest goes first, because its client is still there. folly's 5 ms and
//! 100 ms are for services that answer in milliseconds; a target of the order of the TTFT that is still good, and an interval of several times that, suit
//! a model.

use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;

/// Controlled delay of the gateway's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodelConfig {
    /// A least wait above it means a standing queue; twice that is dropped then.
    pub target: Nanos,
    /// Over which the least wait is taken.
    pub interval: Nanos,
    /// The newest first in a standing queue.
    pub lifo: bool,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Codel {
    pub(crate) config: CodelConfig,
    /// End of the interval.
    until: Nanos,
    /// Least wait in it.
    least: Nanos,
    /// The interval before had a standing queue.
    standing: bool,
}

impl Codel {
    pub(crate) fn new(config: CodelConfig) -> Self {
        Codel { config, until: Nanos::ZERO, least: Nanos::ZERO, standing: false }
    }

    /// The newest is to go first.
    pub(crate) fn newest_first(&self) -> bool {
        self.standing && self.config.lifo
    }

    /// Whether somebody who leaves the queue after `wait` is dropped.
    pub(crate) fn drops(&mut self, now: Nanos, wait: Nanos) -> bool {
        if now >= self.until {
            self.standing = self.until > Nanos::ZERO && self.least > self.config.target;
            self.until = now + self.config.interval;
            self.least = wait;
            return false;
        }
        self.least = self.least.min(wait);
        self.standing && wait.0 > self.config.target.0.saturating_mul(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// folly's numbers: 5 ms in 100 ms.
    fn folly() -> Codel {
        Codel::new(CodelConfig { target: Nanos(5 * MS), interval: Nanos(100 * MS), lifo: true })
    }

    /// Instant, wait, dropped, newest first afterwards: worked by hand.
    #[test]
    fn a_standing_queue_by_hand() {
        let mut codel = folly();
        for (at, wait, dropped, lifo) in [
            // First interval, 0 to 100: least 7.
            (0, 20, false, false),
            (10, 50, false, false),
            (90, 7, false, false),
            // Second, from 100: standing, since 7 > 5. Its first is let through; more than 10 is dropped; 10 is not.
            (100, 80, false, true),
            (110, 11, true, true),
            (120, 10, false, true),
            (130, 3, false, true),
            // Third, from 205: least was 3, so not standing, however long anybody waited.
            (205, 60, false, false),
            (210, 60, false, false),
            // Fourth: least was 60.
            (310, 60, false, true),
            (320, 60, true, true),
        ] {
            assert_eq!(codel.drops(Nanos(at * MS), Nanos(wait * MS)), dropped, "at {at} ms");
            assert_eq!(codel.newest_first(), lifo, "at {at} ms");
        }
    }

    /// A burst that drains within an interval drops nobody.
    #[test]
    fn a_burst_is_no_standing_queue() {
        let mut codel = folly();
        let dropped = (0..200).filter(|&at| codel.drops(Nanos(at * MS), Nanos((60_u64.saturating_sub(at)) * MS)));
        assert_eq!(dropped.count(), 0);
    }
}
