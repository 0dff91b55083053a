//! A run once more, listened to: every step, every attempt, every change of a gauge.
//!
//! A session keeps no steps, since memory grows with what is in flight. A fleet of its own runs the same again, step by step; a live run's steps come from its
//! record. Runs of equal steps or single ones, the outcome is the same (F8), so what is heard is what the report counts.

use crate::error::RunError;
use crate::session::{Session, Stage};
use servelab_engine::Nanos;
use servelab_fleet::fleet::{Condition, Gauges, Heard};
use servelab_fleet::scaling::{Life, LifeEvent};
use servelab_fleet::{Outcome, Poll};
use std::collections::BTreeMap;

/// Events between two looks at the tape.
const PIECE: u32 = 256;

/// Lines of a trace that stand for one attempt, about: its slices and its flow.
const LINES_OF_AN_ATTEMPT: usize = 10;

/// What one contender's run did.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Everything but the ends of requests.
    pub(super) heard: Heard,
    /// How requests ended and when, by index; those that have not are missing.
    pub(super) ends: BTreeMap<u32, (Nanos, Outcome)>,
    /// What happened in replicas' lives, where a fleet scales.
    pub(super) lives: Vec<LifeEvent>,
    /// Until when it was listened to.
    pub(super) until: Nanos,
    /// It goes on after that, and was too long to be told.
    pub(super) cut: bool,
    /// Requests that arrived until then.
    pub(super) arrived: u64,
}

impl Record {
    /// Lines that it will take, about.
    fn lines(&self) -> usize {
        let Heard { steps, attempts, gauges, conditions } = &self.heard;
        steps.len() + attempts.len() * LINES_OF_AN_ATTEMPT + gauges.len() * 2 + conditions.len() + self.lives.len()
    }

    fn take(&mut self, heard: Heard) {
        self.heard.steps.extend(heard.steps);
        self.heard.attempts.extend(heard.attempts);
        self.heard.gauges.extend(heard.gauges);
        self.heard.conditions.extend(heard.conditions);
    }
}

/// Runs contender `at` again, as far as the session has run it, and until about `most` lines are heard.
pub(super) fn listen(session: &Session, stage: &Stage, at: usize, most: usize) -> Result<Record, RunError> {
    let run = &stage.runs[at];
    let mut fleet = stage.fresh_with(&session.spec, at, |config| config.max_repeat = 1)?;
    let head = if run.fleet.is_done() { Nanos::MAX } else { run.fleet.now() };
    let mut record = Record::default();
    let (mut log, mut points) = (run.log.iter(), Vec::new());
    fleet.listen();
    loop {
        let poll = fleet.poll(head, PIECE);
        record.take(fleet.heard());
        fleet.take_ended(&mut |ended| {
            record.ends.insert(ended.index, (ended.end, ended.outcome));
        });
        fleet.take_scaling(&mut points, &mut record.lives);
        points.clear();
        match poll {
            Poll::Execute { .. } | Poll::Start { .. } => match log.next() {
                Some(entry) => entry.feed(&mut fleet, poll)?,
                // What is being computed right now.
                None => break,
            },
            Poll::Paused if record.lines() > most => {
                record.cut = true;
                break;
            }
            Poll::Paused => {}
            Poll::Reached | Poll::Done | Poll::Failed => break,
        }
    }
    record.take(fleet.heard_last());
    record.until = fleet.now();
    record.arrived = fleet.counts().arrived;
    Ok(record)
}

/// Where a replica stood, from when to when.
pub(super) struct Spell {
    pub(super) name: &'static str,
    pub(super) from: Nanos,
    pub(super) until: Nanos,
}

impl Record {
    /// Conditions of `replica` one after the other; times at which nothing is there are left out.
    pub(super) fn spells(&self, replica: u32) -> Vec<Spell> {
        let changes: Vec<_> = self.heard.conditions.iter().filter(|heard| heard.replica == replica).collect();
        let ends = changes.iter().skip(1).map(|next| next.at).chain([self.until]);
        let spells = changes.iter().zip(ends).filter_map(|(heard, until)| {
            let name = named(&heard.condition)?;
            (until > heard.at).then_some(Spell { name, from: heard.at, until })
        });
        spells.collect()
    }

    /// Stages of the starts of `replica`, one after the other.
    pub(super) fn stages(&self, replica: u32) -> Vec<(String, Nanos, Nanos)> {
        let mut begun = None;
        let mut stages = Vec::new();
        for event in self.lives.iter().filter(|event| event.replica == replica) {
            match event.what {
                Life::Created | Life::Restarted => begun = Some(event.at),
                Life::Stage(stage) => {
                    if let Some(from) = begun.replace(event.at).filter(|&from| from < event.at) {
                        let name = serde_json::to_value(stage).ok();
                        let name = name.and_then(|name| name.as_str().map(|name| name.replace('_', " ")));
                        stages.push((name.unwrap_or_default(), from, event.at));
                    }
                }
                Life::Gone | Life::Killed(_) => begun = None,
                Life::Standby | Life::Ready | Life::NotReady | Life::Draining => {}
            }
        }
        stages
    }

    /// Gauges of `replica`, in order.
    pub(super) fn gauges(&self, replica: u32) -> impl Iterator<Item = (Nanos, Gauges)> + '_ {
        let of = self.heard.gauges.iter().filter(move |heard| heard.replica == replica);
        of.map(|heard| (heard.at, heard.gauges))
    }
}

/// A condition in words; `None` where nothing is there.
fn named(condition: &Condition) -> Option<&'static str> {
    use servelab_spec::frame::ReplicaState as State;
    Some(match condition.state {
        State::Planned | State::Gone => return None,
        _ if condition.down => "down",
        _ if condition.frozen => "frozen",
        _ if condition.split => "cut off",
        State::Starting => "starting",
        State::Ready => "ready",
        State::NotReady => "not ready",
        State::Standby => "standby",
        State::Draining => "draining",
    })
}
