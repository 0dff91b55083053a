//! Runs with a real model: measure the device, execute every step, keep a record.
//!
//! A step is executed when it is planned and charged at its virtual end, by the cost model fitted to this device or by its measured time,
//! as the spec says. Measured times are recorded either way. The record (tokens and times, in the order in which the fleet asked) is all
//! that a replay needs.

use super::{Live, Session, Stage};
use crate::calibrate::calibrate;
use crate::error::RunError;
use crate::fit::Fit;
use crate::session::Progress;
use serde::{Deserialize, Serialize};
use servelab_engine::{EngineConfig, Executor, Nanos, StepOutput, StepWork};
use servelab_fleet::{Fleet, Poll};
use servelab_spec::experiment::Stage as StartStage;

/// What happened while a live run waited for its executor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Entry {
    /// A step was computed.
    Step(LoggedStep),
    /// A stage of a replica's start was done.
    Boot(LoggedBoot),
    /// The device was lost before it computed the step.
    DeviceLost,
}

/// A computed step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoggedStep {
    /// The replica.
    pub replica: u32,
    /// Its engine's number of the step.
    pub step: u64,
    /// Its virtual start.
    pub start: Nanos,
    /// What it computed.
    pub work: StepWork,
    /// Tokens and measured time.
    pub output: StepOutput,
}

/// A stage of a replica's start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoggedBoot {
    /// The replica.
    pub replica: u32,
    /// The stage.
    pub stage: StartStage,
    /// Its virtual start.
    pub start: Nanos,
    /// How long it took.
    pub time: Nanos,
}

impl Entry {
    /// Gives a fleet that waits as `poll` says what was recorded.
    pub(crate) fn feed(&self, fleet: &mut Fleet, poll: Poll) -> Result<(), RunError> {
        match (self, poll) {
            (Entry::DeviceLost, _) => fleet.device_lost(),
            (Entry::Step(step), Poll::Execute { replica }) if step.replica == replica => {
                fleet.executed(replica, step.output.clone())?;
            }
            (Entry::Boot(boot), Poll::Start { replica, stage }) if (boot.replica, boot.stage) == (replica, stage) => {
                fleet.booted(replica, boot.time)?;
            }
            (Entry::Step(LoggedStep { replica, .. }) | Entry::Boot(LoggedBoot { replica, .. }), poll) => {
                let text = format!("the record has replica {replica} where the run has {poll:?}");
                return Err(RunError::Damaged(text));
            }
        }
        Ok(())
    }
}

impl Session {
    /// A live run that has not measured its device yet: the next call of [`Session::advance_live`] does that and nothing else.
    pub fn needs_calibration(&self) -> bool {
        self.is_live() && self.stage.is_none()
    }

    /// Measures the device and fits the cost model. Done by [`Session::advance_live`] when it is due.
    ///
    /// # Errors
    /// What the executor says.
    pub async fn calibrate<E: Executor>(&mut self, executor: &mut E) -> Result<(), RunError> {
        if !self.is_live() {
            return Err(RunError::Mode("a priced run has no device to measure"));
        }
        let fit = calibrate(executor, &EngineConfig::from_spec(&self.spec.engine, true)).await?;
        self.begin(executor.device(), fit)
    }

    /// Starts a live run with a fit at hand.
    pub(crate) fn begin(&mut self, device: String, fit: Fit) -> Result<(), RunError> {
        let fallback = self.live.take().and_then(|live| live.fallback);
        self.stage = Some(Stage::new(&self.spec, fit.coefficients, &mut |_| {})?);
        self.live = Some(Live { device, fallback, fit: Some(fit) });
        Ok(())
    }

    /// Moves a live run on by at most `max_steps` executed steps. The first call measures the device instead.
    ///
    /// # Errors
    /// What a policy of the user's own says when it fails. What the executor says; the step it failed at counts as not run, and the run can go on with the same or another executor (after a
    /// loss of the device: [`Session::device_lost`]).
    pub async fn advance_live<E: Executor>(&mut self, executor: &mut E, max_steps: u32) -> Result<Progress, RunError> {
        if self.needs_calibration() {
            self.calibrate(executor).await?;
            return Ok(self.progress());
        }
        if !self.is_live() {
            return Err(RunError::Mode("this spec asks for priced steps and takes no executor"));
        }
        if let Some(stage) = &mut self.stage {
            let mut left = max_steps.max(1);
            while left > 0 && stage.current < stage.runs.len() {
                let run = &mut stage.runs[stage.current];
                let piece = run.keyframes.due();
                match run.fleet.poll(Nanos::MAX, piece) {
                    Poll::Execute { replica } => {
                        let Some(plan) = run.fleet.plan(replica) else {
                            return Err(RunError::Damaged(format!("replica {replica} waits without a step")));
                        };
                        let (step, work, start) = (plan.step, plan.work, run.fleet.now());
                        let output = executor.execute(replica, plan).await?;
                        run.fleet.executed(replica, output.clone())?;
                        run.log.push(Entry::Step(LoggedStep { replica, step, start, work, output }));
                        run.happened(2);
                        left -= 1;
                    }
                    Poll::Start { replica, stage } => {
                        // Its place may be one that another has just left.
                        run.happened(0);
                        run.gone(&mut |replica| executor.released(replica));
                        let seconds = executor.boot(replica, stage).await?;
                        let (start, time) = (run.fleet.now(), Nanos::from_secs(seconds));
                        run.fleet.booted(replica, time)?;
                        run.log.push(Entry::Boot(LoggedBoot { replica, stage, start, time }));
                        run.happened(2);
                        left -= 1;
                    }
                    Poll::Done => {
                        run.happened(0);
                        stage.current += 1;
                    }
                    Poll::Failed => {
                        run.happened(0);
                        return Err(run.failure(stage.current));
                    }
                    Poll::Paused | Poll::Reached => run.happened(piece),
                }
                run.gone(&mut |replica| executor.released(replica));
            }
        }
        Ok(self.progress())
    }

    /// The device and all K and V on it are gone; `reason` goes into the report. Sequences that were running are computed again, their
    /// tokens kept. Go on with another executor.
    pub fn device_lost(&mut self, reason: &str) {
        if let Some(live) = &mut self.live {
            live.fallback = Some(reason.to_owned());
        }
        if let Some(stage) = &mut self.stage
            && let Some(run) = stage.runs.get_mut(stage.current)
        {
            // Kept at a moment at which the fleet waits for a step, as a replay will.
            if let Poll::Execute { .. } | Poll::Start { .. } = run.fleet.poll(run.fleet.now(), 0) {
                run.fleet.device_lost();
                run.log.push(Entry::DeviceLost);
            }
        }
    }

    /// A sentence for the report on why the run is not where it was meant to be (a GPU that was not there).
    pub fn set_fallback(&mut self, reason: &str) {
        if let Some(live) = &mut self.live {
            live.fallback = Some(reason.to_owned());
        }
    }
}
