//! Arrivals per second over a sliding window: the only load that some routers look at.
//!
//! vLLM production-stack (`stats/request_stats.py`) counts what it sent to each engine within the last `request-stats-window`
//! and, where it has nothing better to go by, takes the engine with the fewest. Arrivals say nothing of what is still there: a replica
//! with few long requests looks idle (production-stack #1073).

use super::params::{self, Params};
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_spec::catalog::ParamInfo;
use std::collections::VecDeque;

/// Replicas of a fleet are fewer; a saved state that names more is damaged.
const MOST_REPLICAS: u32 = 1 << 16;

/// What was sent to whom within the window. Memory grows with the window's traffic, not with the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "Saved", try_from = "Saved")]
pub(crate) struct QpsWindow {
    window: Nanos,
    /// In order of time.
    arrivals: VecDeque<(Nanos, u32)>,
    /// By replica: how often it occurs in `arrivals`; `None` while nothing was ever sent there.
    counts: Vec<Option<u32>>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    window: Nanos,
    arrivals: VecDeque<(Nanos, u32)>,
    /// Replicas that something was sent to at some time, ascending.
    known: Vec<u32>,
}

impl QpsWindow {
    const NAME: &'static str = "qps_window";

    /// The parameter that sets its length.
    pub(crate) fn param() -> ParamInfo {
        // 60 s: what production-stack's Helm chart and command line set.
        params::number(
            Self::NAME,
            "QPS window",
            "s",
            60.0,
            (0.1, 3600.0, 0.1),
            "Arrivals of this last stretch of time count when the replica with the fewest arrivals per second is looked for.",
        )
    }

    /// An empty window as long as the parameter says.
    pub(crate) fn of(params: &Params) -> Self {
        QpsWindow { window: Nanos::from_secs(params.number(Self::NAME)), arrivals: VecDeque::new(), counts: Vec::new() }
    }

    /// A request is sent to `replica`.
    pub(crate) fn sent(&mut self, now: Nanos, replica: u32) {
        self.forget(now);
        self.arrivals.push_back((now, replica));
        *self.count_mut(replica).get_or_insert(0) += 1;
    }

    /// Position of the candidate with the fewest arrivals: the first that nothing was ever sent to, else the first of those with the
    /// fewest in the window. Leaves the arrivals per second of each in `scores`.
    pub(crate) fn lowest(&mut self, now: Nanos, candidates: &[u32], scores: &mut Vec<f64>) -> usize {
        self.forget(now);
        let count = |replica: u32| self.counts.get(replica as usize).copied().flatten();
        let window = self.window.as_secs();
        scores.extend(candidates.iter().map(|&replica| f64::from(count(replica).unwrap_or(0)) / window));
        // `None` is less than any count, and of equals the first is taken.
        let least = (0..candidates.len()).min_by_key(|&at| count(candidates[at]));
        least.unwrap_or(0)
    }

    /// Forgets what is older than the window; what is exactly as old still counts.
    fn forget(&mut self, now: Nanos) {
        while let Some(&(at, replica)) = self.arrivals.front()
            && now.since(at) > self.window
        {
            self.arrivals.pop_front();
            if let Some(count) = self.count_mut(replica) {
                *count -= 1;
            }
        }
    }

    fn count_mut(&mut self, replica: u32) -> &mut Option<u32> {
        let at = replica as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, None);
        }
        &mut self.counts[at]
    }
}

impl From<QpsWindow> for Saved {
    fn from(QpsWindow { window, arrivals, counts }: QpsWindow) -> Self {
        let known = (0u32..).zip(counts).filter_map(|(replica, count)| count.map(|_| replica)).collect();
        Saved { window, arrivals, known }
    }
}

impl TryFrom<Saved> for QpsWindow {
    type Error = String;

    fn try_from(Saved { window, arrivals, known }: Saved) -> Result<Self, String> {
        if !arrivals.iter().is_sorted_by_key(|(at, _)| *at) {
            return Err("arrivals are not in order of time".into());
        }
        if !known.is_sorted_by(|a, b| a < b) || known.last().is_some_and(|&replica| replica >= MOST_REPLICAS) {
            return Err("replicas are not ascending, or there are too many".into());
        }
        let mut restored = QpsWindow { window, arrivals: VecDeque::new(), counts: Vec::new() };
        for replica in known {
            *restored.count_mut(replica) = Some(0);
        }
        for &(_, replica) in &arrivals {
            match restored.counts.get_mut(replica as usize) {
                Some(Some(count)) => *count += 1,
                _ => return Err(format!("an arrival at replica {replica}, which nothing was sent to")),
            }
        }
        Ok(QpsWindow { arrivals, ..restored })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn secs(seconds: f64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    fn window() -> QpsWindow {
        QpsWindow { window: secs(60.0), arrivals: VecDeque::new(), counts: Vec::new() }
    }

    fn lowest(window: &mut QpsWindow, now: f64) -> (usize, Vec<f64>) {
        let mut scores = vec![];
        (window.lowest(secs(now), &[0, 2, 5], &mut scores), scores)
    }

    /// By hand, from `_qps_routing`: an engine without a record is taken at once, else the strictly lowest, the first of equals.
    #[test]
    fn the_unknown_come_first_then_the_fewest() {
        let mut window = window();
        assert_eq!(lowest(&mut window, 0.0), (0, vec![0.0; 3]));
        window.sent(secs(0.0), 0);
        assert_eq!(lowest(&mut window, 0.0).0, 1, "nothing was ever sent to 2");
        window.sent(secs(1.0), 2);
        window.sent(secs(1.0), 2);
        assert_eq!(lowest(&mut window, 1.0).0, 2, "nor to 5");
        window.sent(secs(2.0), 5);
        assert_eq!(lowest(&mut window, 2.0), (0, vec![1.0 / 60.0, 2.0 / 60.0, 1.0 / 60.0]));
        // At 60 s the arrival of 0 s still counts; just after it does not, and 0, known but quiet, has the fewest.
        window.sent(secs(60.0), 0);
        assert_eq!(lowest(&mut window, 60.0), (2, vec![2.0 / 60.0, 2.0 / 60.0, 1.0 / 60.0]));
        assert_eq!(lowest(&mut window, 60.5), (0, vec![1.0 / 60.0, 2.0 / 60.0, 1.0 / 60.0]));
        assert_eq!(lowest(&mut window, 200.0), (0, vec![0.0; 3]));
        // Known and quiet is more than never seen.
        let mut scores = vec![];
        assert_eq!(window.lowest(secs(200.0), &[0, 2, 7], &mut scores), 2);
    }

    #[test]
    fn goes_on_after_a_save_and_refuses_damage() {
        let mut whole = window();
        for (at, replica) in [(0.0, 0), (3.0, 2), (7.0, 5), (9.0, 2)] {
            whole.sent(secs(at), replica);
        }
        lowest(&mut whole, 62.0);
        let text = serde_json::to_string(&whole).unwrap();
        let mut again: QpsWindow = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
        for now in [62.0, 64.0, 68.0, 100.0] {
            assert_eq!(lowest(&mut again, now), lowest(&mut whole, now));
        }
        for (from, to) in
            [("[0,2,5]", "[0,5]"), ("[0,2,5]", "[2,0,5]"), ("[0,2,5]", "[0,2,5,4000000000]"), ("9000000000", "1")]
        {
            assert!(text.contains(from), "{text}");
            assert!(serde_json::from_str::<QpsWindow>(&text.replace(from, to)).is_err(), "{from} → {to}");
        }
    }
}
