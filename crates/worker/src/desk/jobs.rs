//! Cells of sweeps and trials of knees: one message runs one of them, in slices like a run, and answers with its numbers.
//!
//! A page that wants a sweep starts as many workers as there are cores and gives each a cell at a time; any worker can put the numbers together.

use super::{Clock, EVENTS, PROGRESS_EVERY_MS, SLICE_MS};
use servelab_lab::knee::{KneePlan, Next, Search};
use servelab_lab::sweep::Plan;
use servelab_lab::{RunError, Session};
use servelab_spec::knee::KneeSpec;
use servelab_spec::protocol::{FromWorker, ToWorker};
use servelab_spec::sweep::SweepSpec;

/// Runs that a search for a knee takes: seven of the grid and six halvings. Only the progress bar rests on it.
const USUAL_PROBES: f64 = 13.0;

/// One cell or trial under way.
pub(super) struct Job {
    pub(super) run: u32,
    kind: Kind,
    session: Session,
    said_ms: f64,
}

enum Kind {
    Cell { plan: Plan, cell: u32 },
    Trial { plan: KneePlan, trial: u32, search: Search, rate_per_s: f64, step: Option<i32> },
}

impl Job {
    pub(super) fn cell(run: u32, sweep: SweepSpec, cell: u32) -> Result<Job, RunError> {
        let plan = Plan::new(sweep)?;
        let session = plan.start(cell)?;
        Ok(Job { run, kind: Kind::Cell { plan, cell }, session, said_ms: f64::NEG_INFINITY })
    }

    pub(super) fn trial(run: u32, knee: KneeSpec, trial: u32) -> Result<Job, RunError> {
        let plan = KneePlan::new(knee)?;
        let search = plan.search();
        let Next::Try(rate_per_s, step) = search.next() else {
            return Err(RunError::Mode("a search that ends before its first run"));
        };
        let session = plan.start(trial, rate_per_s)?;
        let kind = Kind::Trial { plan, trial, search, rate_per_s, step };
        Ok(Job { run, kind, session, said_ms: f64::NEG_INFINITY })
    }

    /// Works for one slice; the answer when that was the last one.
    pub(super) fn slice(
        &mut self,
        clock: Clock,
        say: &mut dyn FnMut(FromWorker),
    ) -> Result<Option<FromWorker>, RunError> {
        let until = clock() + SLICE_MS;
        loop {
            let progress = self.session.advance(EVENTS)?;
            if progress.done
                && let Some(answer) = self.ended()?
            {
                return Ok(Some(answer));
            }
            let now = clock();
            if now - self.said_ms >= PROGRESS_EVERY_MS {
                self.said_ms = now;
                let (policy, fraction) = match &self.kind {
                    Kind::Cell { .. } => (progress.policy, progress.fraction),
                    Kind::Trial { search, .. } => {
                        (0, ((f64::from(search.tried()) + progress.fraction) / USUAL_PROBES).min(0.99))
                    }
                };
                let (run, t_s, stage) = (self.run, progress.t.as_secs(), "running".to_owned());
                say(FromWorker::Progress { run, policy, fraction, t_s, stage });
            }
            if now >= until {
                return Ok(None);
            }
        }
    }

    /// The session is done: the answer, or the next rate to try.
    fn ended(&mut self) -> Result<Option<FromWorker>, RunError> {
        let run = self.run;
        match &mut self.kind {
            Kind::Cell { plan, cell } => {
                let result = plan.result(*cell, &self.session.report());
                Ok(Some(FromWorker::SweepCell { run, cell: *cell, result: Some(Box::new(result)) }))
            }
            Kind::Trial { plan, trial, search, rate_per_s, step } => {
                search.told(*rate_per_s, *step, &self.session.report());
                match search.next() {
                    Next::Try(rate, at) => {
                        (*rate_per_s, *step) = (rate, at);
                        self.session = plan.start(*trial, rate)?;
                        Ok(None)
                    }
                    Next::End(end, per_s) => {
                        let result = plan.result(*trial, search.clone(), end, per_s);
                        Ok(Some(FromWorker::KneeTrial { run, trial: *trial, result: Some(Box::new(result)) }))
                    }
                }
            }
        }
    }

    /// What is answered when it is not to be finished.
    pub(super) fn dropped(&self) -> FromWorker {
        let run = self.run;
        match self.kind {
            Kind::Cell { cell, .. } => FromWorker::SweepCell { run, cell, result: None },
            Kind::Trial { trial, .. } => FromWorker::KneeTrial { run, trial, result: None },
        }
    }
}

/// Number of a cell or a trial that was asked for.
pub(super) fn number(message: &ToWorker) -> Option<u32> {
    match message {
        ToWorker::SweepCell { run, .. } | ToWorker::KneeTrial { run, .. } => Some(*run),
        _ => None,
    }
}

/// What is answered to one that was stopped before it began.
pub(super) fn never_begun(message: &ToWorker) -> FromWorker {
    match message {
        ToWorker::SweepCell { run, cell, .. } => FromWorker::SweepCell { run: *run, cell: *cell, result: None },
        ToWorker::KneeTrial { run, trial, .. } => FromWorker::KneeTrial { run: *run, trial: *trial, result: None },
        _ => FromWorker::Failed { run: 0, message: "nothing was asked for".into(), field: None },
    }
}
