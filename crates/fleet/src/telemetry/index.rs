//! Which replica holds which KV block, as events told it.
//!
//! Replicas tell when content becomes findable and when the last block with it is gone. Events arrive after a delay, in order, and some may be
//! lost: a lost "stored" hides content, a lost "removed" leaves an owner that owns nothing. The index is only looked
//! up while requests are routed, so events wait in a queue until then.

use super::holders::Holders;
use serde::{Deserialize, Serialize};
use servelab_engine::random::Stream;
use servelab_engine::{BlockKey, KvChange, Nanos, Prompt};
use std::collections::VecDeque;

/// The event-fed index.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "Saved", from = "Saved")]
pub struct KvIndex {
    holders: Holders,
    underway: VecDeque<(Nanos, u32, KvChange)>,
    loss: f64,
    draws: Stream,
    told: u64,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    words: u32,
    /// Key, then the bits of its replicas, by key.
    rows: Vec<(BlockKey, Vec<u64>)>,
    underway: VecDeque<(Nanos, u32, KvChange)>,
    loss: f64,
    draws: Stream,
    told: u64,
}

impl KvIndex {
    /// An empty index over replicas `0..replicas`, which loses a share `loss` of all events.
    pub(crate) fn new(replicas: u32, loss: f64, seed: u64) -> Self {
        KvIndex {
            holders: Holders::new(replicas),
            underway: VecDeque::new(),
            loss,
            draws: Stream::new(seed, b"kv_event_loss"),
            told: 0,
        }
    }

    /// The routers start afresh: what they were told is gone, what is under way still comes. What replicas hold and told before stays unknown
    /// until it is told again.
    pub(crate) fn restart(&mut self) {
        self.holders = Holders::new(self.holders.room());
    }

    /// A replica told of changes, which arrive at `at`.
    pub(crate) fn tell(&mut self, at: Nanos, replica: u32, changes: impl Iterator<Item = KvChange>) {
        for change in changes {
            let lost = self.loss > 0.0 && self.draws.split(self.told).unit() < self.loss;
            self.told += 1;
            if !lost {
                self.underway.push_back((at, replica, change));
            }
        }
    }

    /// Takes in what has arrived by `now`.
    pub(crate) fn receive(&mut self, now: Nanos) {
        while let Some(&(at, replica, change)) = self.underway.front()
            && at <= now
        {
            self.underway.pop_front();
            self.apply(replica, change);
        }
    }

    fn apply(&mut self, replica: u32, change: KvChange) {
        if replica >= self.holders.room() {
            return;
        }
        match change {
            KvChange::Stored(key) => self.holders.add(key, replica),
            KvChange::Removed(key) => self.holders.remove(key, replica),
        }
    }

    /// A replica is gone: forgets what it held.
    pub(crate) fn forget(&mut self, replica: u32) {
        self.holders.forget(replica);
        self.underway.retain(|&(_, owner, _)| owner != replica);
    }

    /// Leading full blocks of `prompt` that each of `candidates` holds, appended to `matched` in their order.
    pub fn matched(&self, prompt: &Prompt, candidates: &[u32], matched: &mut Vec<u32>) {
        self.holders.matched((0..).map_while(|block| prompt.key(block)), candidates, matched);
    }
}

impl From<KvIndex> for Saved {
    fn from(index: KvIndex) -> Self {
        let KvIndex { holders, underway, loss, draws, told } = index;
        Saved { words: holders.words() as u32, rows: holders.sorted_rows(), underway, loss, draws, told }
    }
}

impl From<Saved> for KvIndex {
    fn from(saved: Saved) -> Self {
        let Saved { words, rows, underway, loss, draws, told } = saved;
        KvIndex { holders: Holders::from_rows(words, rows), underway, loss, draws, told }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn prompt(ids: std::ops::Range<u32>) -> Prompt {
        Prompt::from_tokens(&ids.collect::<Vec<_>>(), 4, 0)
    }

    fn matched(index: &KvIndex, prompt: &Prompt) -> Vec<u32> {
        let mut out = vec![];
        index.matched(prompt, &[0, 1, 70], &mut out);
        out
    }

    fn stored(index: &mut KvIndex, at: u64, replica: u32, prompt: &Prompt, blocks: u32) {
        index.tell(Nanos(at), replica, (0..blocks).map(|block| KvChange::Stored(prompt.key(block).unwrap())));
    }

    #[test]
    fn leading_blocks_count_and_events_take_their_time() {
        let mut index = KvIndex::new(71, 0.0, 1);
        let asked = prompt(0..19);
        stored(&mut index, 10, 0, &asked, 3);
        stored(&mut index, 20, 70, &asked, 1);
        assert_eq!(matched(&index, &asked), [0, 0, 0]);
        index.receive(Nanos(10));
        assert_eq!(matched(&index, &asked), [3, 0, 0]);
        index.receive(Nanos(30));
        assert_eq!(matched(&index, &asked), [3, 0, 1]);
        // A hole ends the match whatever lies behind it.
        index.tell(Nanos(31), 0, [KvChange::Removed(asked.key(1).unwrap())].into_iter());
        index.receive(Nanos(31));
        assert_eq!(matched(&index, &asked), [1, 0, 1]);
        let again: KvIndex = serde_json::from_str(&serde_json::to_string(&index).unwrap()).unwrap();
        assert_eq!(matched(&again, &asked), [1, 0, 1]);
        index.forget(0);
        assert_eq!(matched(&index, &asked), [0, 0, 1]);
    }

    #[test]
    fn a_share_of_events_is_lost() {
        let mut index = KvIndex::new(71, 0.25, 3);
        let prompts: Vec<Prompt> = (0..4000).map(|at| prompt(at * 4..at * 4 + 5)).collect();
        prompts.iter().for_each(|asked| stored(&mut index, 0, 1, asked, 1));
        index.receive(Nanos(0));
        let known = prompts.iter().filter(|asked| matched(&index, asked)[1] == 1).count();
        // 3000 ± 4 standard deviations of 27.
        assert!((2890..3110).contains(&known), "{known}");
    }
}
