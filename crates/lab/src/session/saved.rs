//! Sessions on paper: the whole state, to go on later; and the record of a live run, to run it again without its device.

use super::live::Entry;
use super::{Live, Session};
use crate::catalog;
use crate::error::RunError;
use crate::fit::Fit;
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_fleet::scaling::{LifeEvent, ScalePoint};
use servelab_fleet::{Fleet, FleetState, Poll, RequestRecord};
use servelab_spec::experiment::Spec;

/// A saved session. Pictures of the past are made from the start again after restoring.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionState {
    spec: Spec,
    live: Option<SavedLive>,
    current: u32,
    runs: Vec<SavedRun>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedRun {
    fleet: FleetState,
    records: Vec<RequestRecord>,
    #[serde(default)]
    points: Vec<ScalePoint>,
    #[serde(default)]
    lives: Vec<LifeEvent>,
    log: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedLive {
    device: String,
    fallback: Option<String>,
    fit: Option<Fit>,
}

/// A live run as recorded: enough to get its report, pictures and stories again, byte for byte, on any machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// What was run.
    pub spec: Spec,
    /// The device, in words.
    pub device: String,
    /// Why it moved there, if it did.
    pub fallback: Option<String>,
    /// The cost model fitted to the device.
    pub fit: Fit,
    /// What was computed under each policy.
    pub logs: Vec<Vec<Entry>>,
}

impl Session {
    /// The session as it stands.
    pub fn save(&self) -> SessionState {
        let live = self.live.clone().map(|Live { device, fallback, fit }| SavedLive { device, fallback, fit });
        let (mut current, mut runs) = (0, vec![]);
        if let Some(stage) = &self.stage {
            current = stage.current as u32;
            runs.extend(stage.runs.iter().map(|run| SavedRun {
                fleet: run.fleet.save(),
                records: run.records.clone(),
                points: run.ledger.points.clone(),
                lives: run.ledger.lives.clone(),
                log: run.log.clone(),
            }));
        }
        SessionState { spec: self.spec.clone(), live, current, runs }
    }

    /// A session that goes on where [`Session::save`] left off.
    ///
    /// # Errors
    /// When the state contradicts itself.
    pub fn restore(state: SessionState) -> Result<Self, RunError> {
        catalog::check(&state.spec)?;
        let mut session = Session::new(state.spec)?;
        if let Some(SavedLive { device, fallback, fit }) = state.live {
            match fit {
                Some(fit) => session.begin(device.clone(), fit)?,
                None if state.runs.is_empty() => {}
                None => return Err(RunError::Damaged("it has run without a fit".into())),
            }
            if let Some(live) = &mut session.live {
                (live.device, live.fallback) = (device, fallback);
            }
        }
        let Some(stage) = &mut session.stage else { return Ok(session) };
        if state.runs.len() != stage.runs.len() || state.current as usize > stage.runs.len() {
            let text = format!("{} runs saved, {} policies in the spec", state.runs.len(), stage.runs.len());
            return Err(RunError::Damaged(text));
        }
        stage.current = state.current as usize;
        for (run, saved) in stage.runs.iter_mut().zip(state.runs) {
            if saved.records.iter().any(|record| record.index as usize >= stage.arrivals.len()) {
                return Err(RunError::Damaged("a record of a request that the workload does not have".into()));
            }
            run.fleet = Fleet::restore(saved.fleet)?;
            if !run.keeps {
                return Err(RunError::Damaged("a run of so many requests keeps no record to go on from".into()));
            }
            saved.records.iter().for_each(|record| run.ledger.take(record));
            (run.ledger.points, run.ledger.lives) = (saved.points, saved.lives);
            // The executor of a restored session has nothing of those that went.
            run.heard = run.ledger.lives.len();
            run.over = saved.records.len() as u64;
            (run.records, run.log) = (saved.records, saved.log);
        }
        Ok(session)
    }

    /// The record of a live run so far; `None` for a priced run or before the device was measured.
    pub fn recording(&self) -> Option<Recording> {
        let (live, stage) = (self.live.as_ref()?, self.stage.as_ref()?);
        Some(Recording {
            spec: self.spec.clone(),
            device: live.device.clone(),
            fallback: live.fallback.clone(),
            fit: live.fit.clone()?,
            logs: stage.runs.iter().map(|run| run.log.clone()).collect(),
        })
    }

    /// Runs a record again, as far as it goes, without an executor.
    ///
    /// # Errors
    /// When the record does not belong to its spec.
    pub fn replay(recording: Recording) -> Result<Self, RunError> {
        let mut session = Session::new(recording.spec)?;
        if !session.is_live() {
            return Err(RunError::Mode("a priced spec has no record; run it again"));
        }
        session.begin(recording.device, recording.fit)?;
        if let Some(live) = &mut session.live {
            live.fallback = recording.fallback;
        }
        let Some(stage) = &mut session.stage else { return Ok(session) };
        if recording.logs.len() != stage.runs.len() {
            return Err(RunError::Damaged(format!("{} logs for {} policies", recording.logs.len(), stage.runs.len())));
        }
        for log in recording.logs {
            let run = &mut stage.runs[stage.current];
            for entry in log {
                loop {
                    let poll = run.fleet.poll(Nanos::MAX, run.keyframes.due());
                    match poll {
                        Poll::Execute { .. } | Poll::Start { .. } => {
                            entry.feed(&mut run.fleet, poll)?;
                            run.log.push(entry);
                            run.happened(2);
                            break;
                        }
                        Poll::Done => return Err(RunError::Damaged("the record is longer than its run".into())),
                        Poll::Failed => return Err(run.failure(stage.current)),
                        Poll::Paused | Poll::Reached => run.happened(run.keyframes.due()),
                    }
                }
            }
            // What follows the last step needs no executor.
            while run.fleet.poll(Nanos::MAX, u32::MAX) == Poll::Paused {}
            run.happened(0);
            if !run.fleet.is_done() {
                break;
            }
            stage.current += 1;
        }
        Ok(session)
    }
}
