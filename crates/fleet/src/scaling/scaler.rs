//! What the event loop keeps of scaling: how many replicas are asked for, what scrapes found, and what is told of it.

use super::config::ScalingConfig;
use super::nodes::Nodes;
use super::{History, Pod, Sample};
use crate::record::Loss;
use crate::startup::{Link, SharedLink, Stage};
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;

/// The state of scaling, saved with the fleet.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scaler {
    /// Replicas last asked for.
    pub(crate) current: u32,
    pub(crate) history: History,
    /// A sample to be filled again.
    #[serde(skip)]
    pub(crate) spare: Option<Sample>,
    pub(crate) nodes: Nodes,
    /// Transfers under way, one entry for each link of the start-up.
    pub(crate) links: Vec<SharedLink>,
    /// Replicas that are there, and since when so many.
    alive: (u32, Nanos),
    /// ∫ replicas that are there, nanoseconds until then.
    alive_for: u128,
    /// Places still to be replaced by a deploy, the next one last.
    pub(crate) deploy: Vec<u32>,
    pub(crate) totals: ScalingTotals,
    /// Not yet handed out.
    pub(crate) points: Vec<ScalePoint>,
    /// The latest of all.
    point: Option<ScalePoint>,
    /// Not yet handed out.
    pub(crate) lives: Vec<LifeEvent>,
    /// What the controller last said.
    pub(crate) said: (u32, u32),
}

/// What is counted over a whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScalingTotals {
    /// Replicas decided on.
    pub created: u32,
    /// Of those, given up before they served anything.
    pub wasted: u32,
    /// Containers started again after a probe had failed.
    pub restarts: u32,
    /// Cached tokens thrown away with replicas that went.
    pub cache_lost_tokens: u64,
    /// Node time paid for, seconds. Filled in when asked.
    pub node_s: u64,
}

/// The fleet at one scrape or evaluation, for charts. Instants at which nothing changed are left out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScalePoint {
    /// When.
    pub at: Nanos,
    /// What the controller's rule came to, before delays and limits.
    pub wanted: u32,
    /// Replicas asked for.
    pub desired: u32,
    /// Replicas that take requests.
    pub ready: u32,
    /// Replicas on their way.
    pub starting: u32,
    /// Replicas that go as soon as they are done.
    pub draining: u32,
    /// Requests that wait, at replicas or in front of the router.
    pub queued: u32,
    /// Requests being served.
    pub running: u32,
    /// Requests arrived so far.
    pub arrived: u64,
    /// GPU utilisation as tools report it, mean over replicas, since the scrape before.
    pub gpu: f64,
    /// Compute utilisation, likewise.
    pub compute: f64,
    /// CPU utilisation, likewise.
    pub cpu: f64,
    /// KV-cache usage, mean over replicas.
    pub kv: f64,
}

/// Something that happened in a replica's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LifeEvent {
    /// When.
    pub at: Nanos,
    /// The place.
    pub replica: u32,
    /// Which life of it.
    pub life: u32,
    /// What.
    pub what: Life,
}

/// What can happen in a replica's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Life {
    /// It was decided on.
    Created,
    /// A stage of its start is over.
    Stage(Stage),
    /// It is started, and kept without traffic.
    Standby,
    /// It takes requests.
    Ready,
    /// It is out of rotation.
    NotReady,
    /// It takes no more requests.
    Draining,
    /// Its process is started again.
    Restarted,
    /// It went.
    Gone,
    /// It went with work on it.
    Killed(Loss),
}

impl Scaler {
    pub(crate) fn new(config: &ScalingConfig, replicas: u32) -> Self {
        Scaler {
            current: replicas,
            nodes: Nodes::new(config.nodes(), replicas, config.max),
            links: Link::ALL.map(|link| SharedLink::new(config.startup.link(link))).to_vec(),
            alive: (replicas, Nanos::ZERO),
            said: (replicas, replicas),
            ..Scaler::default()
        }
    }

    /// So many more or fewer are there.
    pub(crate) fn count_alive(&mut self, now: Nanos, change: i32) {
        self.alive_for = self.alive_for(now);
        self.alive = (self.alive.0.saturating_add_signed(change), now);
    }

    /// ∫ replicas that are there by `now`, nanoseconds.
    pub(crate) fn alive_for(&self, now: Nanos) -> u128 {
        self.alive_for + u128::from(self.alive.0) * u128::from(now.since(self.alive.1).0)
    }

    pub(crate) fn tell(&mut self, at: Nanos, replica: u32, life: u32, what: Life) {
        self.lives.push(LifeEvent { at, replica, life, what });
    }

    /// Keeps a point, unless nothing but the clock has changed since the latest.
    pub(crate) fn point(&mut self, point: ScalePoint) {
        if self.point.is_none_or(|last| ScalePoint { at: last.at, ..point } != last) {
            self.points.push(point);
            self.point = Some(point);
        }
    }
}

/// Who goes first of `pods`: whoever is on its way before whoever is ready, of those the one that `colder` puts first, the newest among equals.
pub(crate) fn victims(pods: &[Pod], many: usize, rank: impl Fn(u32) -> u64) -> Vec<u32> {
    let mut order: Vec<&Pod> = pods.iter().collect();
    order.sort_by_key(|pod| {
        let rank = if pod.phase == super::Phase::Ready { rank(pod.replica) } else { 0 };
        (pod.phase, rank, std::cmp::Reverse((pod.created, pod.replica)))
    });
    order.iter().take(many).map(|pod| pod.replica).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaling::Phase;

    #[test]
    fn whoever_is_not_ready_goes_first_and_the_newest_of_equals() {
        let pod = |replica, phase, created| Pod { replica, phase, created: Nanos(created), since: Nanos(created) };
        let pods = [
            pod(0, Phase::Ready, 0),
            pod(1, Phase::Ready, 10),
            pod(2, Phase::Starting, 20),
            pod(3, Phase::Pending, 5),
            pod(4, Phase::Pending, 5),
        ];
        assert_eq!(victims(&pods, 4, |_| 0), [4, 3, 2, 1]);
        // The idlest: replica 0 has one request, replica 1 has nine.
        assert_eq!(victims(&pods, 4, |replica| [1, 9, 0, 0, 0][replica as usize]), [4, 3, 2, 0]);
    }
}
