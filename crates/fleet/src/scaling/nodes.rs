//! Nodes: what replicas run on, and what is paid for.
//!
//! A node outlives its replica: the cluster autoscaler removes it only after it has been idle for a while. That time is a cost, and a
//! gift to a replica that comes meanwhile.

use super::config::NodesConfig;
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use std::collections::VecDeque;

/// Nodes there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nodes {
    /// Under replicas.
    used: u32,
    /// Since when each idle one is idle, the oldest first.
    idle: VecDeque<Nanos>,
    /// Of the warm pool, there now.
    warm: u32,
    /// Node time paid for by `at`, nanoseconds, idle ones that are still there left out.
    paid: u128,
    at: Nanos,
}

impl Nodes {
    /// Nodes under the replicas of the start, those on which others sleep (of at most `max`), and the warm pool.
    pub(crate) fn new(config: NodesConfig, replicas: u32, max: u32) -> Self {
        let asleep = if config.kept { max.saturating_sub(replicas) * config.per_replica } else { 0 };
        let idle = (0..asleep).map(|_| Nanos::ZERO).collect();
        Nodes { used: replicas * config.per_replica, idle, warm: config.warm, ..Nodes::default() }
    }

    fn advance(&mut self, now: Nanos, config: NodesConfig) {
        // The pool is paid for whether its nodes are there or on their way.
        let each = u128::from(now.since(self.at).0);
        self.paid += each * u128::from(self.used + config.warm);
        self.at = now;
        while !config.kept && self.idle.front().is_some_and(|&since| since + config.linger <= now) {
            self.idle.pop_front();
            self.paid += u128::from(config.linger.0);
        }
    }

    /// A replica needs its nodes. Answers whether all of them were there, and how many came from the pool; otherwise they must be
    /// provided first, and are paid for from now on.
    pub(crate) fn take(&mut self, now: Nanos, config: NodesConfig) -> (bool, u32) {
        self.advance(now, config);
        let need = config.per_replica;
        self.used += need;
        if self.idle.len() as u32 + self.warm < need {
            return (false, 0);
        }
        let mut left = need;
        // The ones idle for the shortest time: the others may be about to go.
        while left > 0
            && let Some(since) = self.idle.pop_back()
        {
            self.paid += u128::from(now.since(since).0);
            left -= 1;
        }
        self.warm -= left;
        (true, left)
    }

    /// A node for the pool is there.
    pub(crate) fn refill(&mut self) {
        self.warm += 1;
    }

    /// A replica went; `lost`: its nodes with it.
    pub(crate) fn give_back(&mut self, now: Nanos, config: NodesConfig, lost: bool) {
        self.advance(now, config);
        self.used -= config.per_replica;
        if !lost {
            self.idle.extend((0..config.per_replica).map(|_| now));
        }
    }

    /// Node time paid for by `now`, nanoseconds.
    pub(crate) fn paid(&self, now: Nanos, config: NodesConfig) -> u128 {
        let mut then = self.clone();
        then.advance(now, config);
        then.paid + then.idle.iter().map(|&since| u128::from(now.since(since).0)).sum::<u128>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Nanos {
        Nanos(seconds * 1_000_000_000)
    }

    /// One node used from 0 to 100 s, idle until taken again at 150 s; another used from 150 s, given back at 200 s, gone at 260 s.
    #[test]
    fn nodes_linger_are_found_again_and_are_paid_for() {
        let config = NodesConfig { per_replica: 1, linger: s(60), warm: 0, kept: false };
        let mut nodes = Nodes::new(config, 1, 8);
        nodes.give_back(s(100), config, false);
        assert_eq!(nodes.take(s(150), config), (true, 0));
        assert_eq!(nodes.take(s(150), config), (false, 0), "the only one is taken");
        nodes.give_back(s(200), config, false);
        assert_eq!(nodes.paid(s(230), config), u128::from(s(230 + 80).0));
        assert_eq!(nodes.paid(s(300), config), u128::from(s(300 + 110).0));
        assert_eq!(nodes.take(s(300), config), (false, 0), "gone after a minute");
        nodes.give_back(s(310), config, true);
        assert_eq!(nodes.take(s(310), config), (false, 0), "lost with its replica");
    }

    /// Two replicas of four run from the start; one more wakes at 100 s and sleeps again at 150 s. Four nodes are paid for all the while.
    #[test]
    fn whoever_sleeps_keeps_its_node() {
        let config = NodesConfig { kept: true, linger: s(60), ..NodesConfig::default() };
        let mut nodes = Nodes::new(config, 2, 4);
        assert_eq!(nodes.take(s(100), config), (true, 0));
        nodes.give_back(s(150), config, false);
        assert_eq!(nodes.paid(s(1000), config), u128::from(s(4 * 1000).0));
    }

    #[test]
    fn a_group_gets_all_its_nodes_or_none() {
        let config = NodesConfig { per_replica: 4, linger: s(60), warm: 3, kept: false };
        let mut nodes = Nodes::new(config, 0, 8);
        assert_eq!(nodes.take(s(0), config), (false, 0), "three are not four");
        nodes.refill();
        assert_eq!(nodes.take(s(10), config), (true, 4));
        // 4 for 20 s, 4 more for 10 s, and the pool of 3 throughout.
        assert_eq!(nodes.paid(s(20), config), u128::from(s(4 * 20 + 4 * 10 + 3 * 20).0));
    }
}
