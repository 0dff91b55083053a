//! The latest routing decisions, with what the policy compared. Their number is fixed and their buffers are reused.

use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_spec::protocol::Offer;
use std::borrow::Cow;
use std::collections::VecDeque;

/// Decisions kept. A picture shows 16; a story asks right after its request arrived.
const KEPT: usize = 32;

/// One routing decision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionRecord {
    /// When.
    pub at: Nanos,
    /// Index of the request.
    pub request: u32,
    /// Its tenant.
    pub tenant: u32,
    /// Prompt length, tokens.
    pub prompt_tokens: u32,
    /// The router that decided.
    pub router: u32,
    /// The chosen replica.
    pub replica: u32,
    /// Prompt tokens the router expected to find cached there.
    pub expected_hit: u32,
    /// What each replica had to offer, by index; empty unless this request was to be explained.
    pub offers: Vec<Offer>,
    /// What the policy compared, one value for each replica (none for one that could not be chosen); empty when it compares nothing.
    pub scores: Vec<Option<f64>>,
    /// Why, in a phrase.
    pub why: Cow<'static, str>,
}

/// A decision as it is kept: of a fleet of hundreds one score each is a lot to write, and hardly ever is a decision looked at. So scores stay as the policy
/// left them until somebody asks.
#[derive(Clone, Debug, Default)]
struct Kept {
    /// Its scores are empty.
    record: DecisionRecord,
    candidates: Vec<u32>,
    /// One for each candidate, not a number where it was not looked at; empty when the policy compares nothing.
    scores: Vec<f64>,
    replicas: u32,
}

impl Kept {
    fn record(&self) -> DecisionRecord {
        let mut scores = Vec::new();
        if !self.scores.is_empty() {
            scores.resize(self.replicas as usize, None);
            for (&candidate, &score) in self.candidates.iter().zip(&self.scores) {
                scores[candidate as usize] = Some(score).filter(|score| !score.is_nan());
            }
        }
        DecisionRecord { scores, ..self.record.clone() }
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(into = "Vec<DecisionRecord>", from = "Vec<DecisionRecord>")]
pub(crate) struct Decisions(VecDeque<Kept>);

impl From<Decisions> for Vec<DecisionRecord> {
    fn from(decisions: Decisions) -> Self {
        decisions.0.iter().map(Kept::record).collect()
    }
}

impl From<Vec<DecisionRecord>> for Decisions {
    fn from(records: Vec<DecisionRecord>) -> Self {
        let kept = records.into_iter().map(|mut record| {
            let scores = std::mem::take(&mut record.scores);
            Kept {
                candidates: (0..scores.len() as u32).collect(),
                replicas: scores.len() as u32,
                scores: scores.into_iter().map(|score| score.unwrap_or(f64::NAN)).collect(),
                record,
            }
        });
        Decisions(kept.collect())
    }
}

impl Decisions {
    /// Keeps a decision; `scores` belong to `candidates`, not a number where one was not looked at.
    pub(crate) fn push(&mut self, record: DecisionRecord, candidates: &[u32], scores: &[f64], replicas: u32) {
        let mut kept = match self.0.len() {
            KEPT.. => self.0.pop_front().unwrap_or_default(),
            _ => Kept::default(),
        };
        kept.candidates.clear();
        kept.scores.clear();
        if scores.len() == candidates.len() {
            kept.candidates.extend_from_slice(candidates);
            kept.scores.extend_from_slice(scores);
        }
        (kept.record, kept.replicas) = (record, replicas);
        self.0.push_back(kept);
    }

    /// The latest ones, `most` at most, oldest first.
    pub(crate) fn latest(&self, most: usize) -> impl Iterator<Item = DecisionRecord> {
        self.0.range(self.0.len().saturating_sub(most)..).map(Kept::record)
    }

    /// The latest about a request.
    pub(crate) fn about(&self, request: u32) -> Option<DecisionRecord> {
        self.0.iter().rev().find(|kept| kept.record.request == request).map(Kept::record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_stand_at_their_replicas_and_survive_saving() {
        let mut decisions = Decisions::default();
        for request in 0..40 {
            let record = DecisionRecord { request, ..DecisionRecord::default() };
            decisions.push(record, &[1, 3], &[0.5, f64::NAN], 4);
        }
        decisions.push(DecisionRecord { request: 40, ..DecisionRecord::default() }, &[0, 1], &[], 4);
        let restored = Decisions::from(Vec::from(decisions.clone()));
        for decisions in [decisions, restored] {
            let kept: Vec<u32> = decisions.latest(100).map(|record| record.request).collect();
            assert_eq!(kept, (9..=40).collect::<Vec<_>>());
            assert_eq!(decisions.latest(2).map(|record| record.request).collect::<Vec<_>>(), [39, 40]);
            let scores = |request| decisions.about(request).map(|record| record.scores);
            assert_eq!(scores(39), Some(vec![None, Some(0.5), None, None]));
            assert_eq!(scores(40), Some(vec![]));
            assert_eq!(scores(3), None);
        }
    }
}
