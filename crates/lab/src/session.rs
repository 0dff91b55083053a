//! [`Session`]: every policy of a spec on the same arrivals, in pieces as large as the caller likes.
//!
//! Policies run one after the other, each on a fleet of its own that starts empty. A priced run is advanced with [`Session::advance`], a run
//! with the real model with [`Session::advance_live`], which measures the device first and records every step it computes. The rest is alike: [`Session::frame`]
//! shows any instant already simulated, by restoring the nearest saved state before it and simulating on from there (a live run is fed
//! from its record, never computed again), so scrubbing costs neither memory for pictures nor a second executor.
//!
//! Everything that comes out is a function of spec and record: S1, a priced spec gives the same report bytes in pieces of any size
//! (`tests/session.rs`); S2, a recorded live run replays to the same bytes; S3, a session saved anywhere goes on as if it had not been.

mod keyframes;
mod lanes;
mod live;
mod look;
mod saved;

pub use live::{Entry, LoggedBoot, LoggedStep};
pub use look::byte_text;
pub use saved::{Recording, SessionState};

use crate::error::RunError;
use crate::fit::Fit;
use crate::ledger::{KEEP, Ledger};
use crate::{admission, catalog, costs, report, situation, storm};
use keyframes::Keyframes;
use look::Look;
use servelab_engine::cost::CostModel;
use servelab_engine::{EngineConfig, Nanos};
use servelab_fleet::scaling::Life;
use servelab_fleet::{Fleet, FleetConfig, Poll, ReplicaConfig, RequestRecord};
use servelab_spec::experiment::{Charge, Coefficients, ExecutionMode, Spec};
use servelab_spec::report::Report;
use servelab_workload::{Source, Survey, Workload};

/// Requests read between two words on how far reading is: some tenths of a second in a browser.
const TELL_EVERY: u64 = 1 << 15;

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Index of the policy being run; the last one when all is done.
    pub policy: u32,
    /// Share of all requests of all policies that have ended, 0 to 1.
    pub fraction: f64,
    /// Virtual time reached under this policy.
    pub t: Nanos,
    /// Nothing is left to do.
    pub done: bool,
}

/// A run of one spec.
pub struct Session {
    pub(crate) spec: Spec,
    pub(crate) live: Option<Live>,
    /// Absent in a live run whose device is not measured yet.
    pub(crate) stage: Option<Stage>,
    /// Its preset's guess is judged when it is done.
    pub(crate) judged: bool,
}

/// What a live run knows of its device.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Live {
    pub(crate) device: String,
    pub(crate) fallback: Option<String>,
    pub(crate) fit: Option<Fit>,
}

/// Workload and fleets, once it is known what steps cost.
pub(crate) struct Stage {
    pub(crate) coefficients: Coefficients,
    pub(crate) survey: Survey,
    pub(crate) tenants: Vec<String>,
    /// Arrival of every request, by index.
    pub(crate) arrivals: Vec<Nanos>,
    source: Source,
    config: FleetConfig,
    pub(crate) current: usize,
    pub(crate) runs: Vec<Run>,
    look: Option<Look>,
}

/// One contender's run.
pub(crate) struct Run {
    pub(crate) fleet: Fleet,
    /// In order of their ends; none where requests are too many to be kept.
    pub(crate) records: Vec<RequestRecord>,
    /// Every request is kept in `records`.
    pub(crate) keeps: bool,
    /// What is counted of them, kept or not.
    pub(crate) ledger: Ledger,
    /// Requests that have ended, or are pending at the horizon.
    pub(crate) over: u64,
    /// What the executor computed; empty in a priced run.
    pub(crate) log: Vec<Entry>,
    keyframes: Keyframes,
    /// Events of lives that the executor has heard of.
    heard: usize,
}

/// Runs a priced spec to its end.
///
/// # Errors
/// When the spec can not be used, or asks for the real model.
pub fn run_priced(spec: &Spec) -> Result<Report, RunError> {
    let mut session = Session::new(spec.clone())?;
    while !session.advance(u32::MAX)?.done {}
    Ok(session.report())
}

impl Session {
    /// A run at its start. A priced one is ready; a live one measures its device when it is first advanced.
    ///
    /// # Errors
    /// When the spec can not be used.
    pub fn new(spec: Spec) -> Result<Self, RunError> {
        Session::telling(spec, &mut |_| {})
    }

    /// The same; while a long workload is read, `tell` hears how much of it has been, 0 to 1. A short one says nothing.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn telling(spec: Spec, tell: &mut dyn FnMut(f64)) -> Result<Self, RunError> {
        catalog::check(&spec)?;
        let mut session = Session { spec, live: None, stage: None, judged: true };
        if session.is_live() {
            session.live = Some(Live::default());
        } else {
            session.stage = Some(Stage::new(&session.spec, costs::resolve(&session.spec)?, tell)?);
        }
        Ok(session)
    }

    /// A run that nobody will look into: it keeps no states to come back to, and pictures of the past are made from the start. The report is
    /// the same but for the verdict, which is left out: a judge may have to run variants, and a cell of a sweep is no answer to a guess.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn unwatched(spec: Spec) -> Result<Self, RunError> {
        let mut session = Session::new(spec)?;
        session.judged = false;
        if let Some(stage) = &mut session.stage {
            stage.runs.iter_mut().for_each(|run| run.keyframes = Keyframes::none());
        }
        Ok(session)
    }

    /// The spec being run.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Steps are computed by the real model.
    pub fn is_live(&self) -> bool {
        self.spec.execution.mode == ExecutionMode::Tinygpt
    }

    /// Moves a priced run on by at most `max_events` events.
    ///
    /// # Errors
    /// When the spec asks for the real model, or a policy of the user's own fails.
    pub fn advance(&mut self, max_events: u32) -> Result<Progress, RunError> {
        if self.is_live() {
            return Err(RunError::Mode("this spec asks for the real model: hand an executor in"));
        }
        if let Some(stage) = &mut self.stage {
            let mut left = max_events.max(1);
            while left > 0 && stage.current < stage.runs.len() {
                let run = &mut stage.runs[stage.current];
                let piece = left.min(run.keyframes.due());
                let poll = run.fleet.poll(Nanos::MAX, piece);
                run.happened(piece);
                left -= piece;
                match poll {
                    Poll::Done => stage.current += 1,
                    Poll::Failed => return Err(run.failure(self.spec.contenders()[stage.current].policy)),
                    Poll::Paused | Poll::Reached | Poll::Execute { .. } | Poll::Start { .. } => {}
                }
            }
        }
        Ok(self.progress())
    }

    /// How far it has come.
    pub fn progress(&self) -> Progress {
        let Some(stage) = &self.stage else {
            return Progress { policy: 0, fraction: 0.0, t: Nanos::ZERO, done: false };
        };
        let done = stage.current >= stage.runs.len();
        let policy = stage.current.min(stage.runs.len() - 1);
        let ended: u64 = stage.runs.iter().map(|run| run.over).sum();
        let all = stage.survey.requests * stage.runs.len() as u64;
        let fraction = if done { 1.0 } else { ended as f64 / all.max(1) as f64 };
        Progress { policy: policy as u32, fraction, t: stage.runs[policy].fleet.now(), done }
    }

    /// The virtual time simulated under a policy so far.
    pub fn simulated(&self, policy: u32) -> Nanos {
        let run = self.stage.as_ref().and_then(|stage| stage.runs.get(policy as usize));
        run.map_or(Nanos::ZERO, |run| run.fleet.now())
    }

    /// The result so far; that of policies not yet run is empty.
    pub fn report(&self) -> Report {
        report::build(self)
    }

    /// What steps are charged, once it is known.
    pub fn coefficients(&self) -> Option<Coefficients> {
        self.stage.as_ref().map(|stage| stage.coefficients)
    }
}

impl Stage {
    /// Fleets at time zero, charged `coefficients`.
    pub(crate) fn new(spec: &Spec, coefficients: Coefficients, tell: &mut dyn FnMut(f64)) -> Result<Self, RunError> {
        let adapter_load = libm::round(spec.engine.adapter_load_s * 1e12) as u64;
        let cost = CostModel { adapter_load, ..CostModel::from_coefficients(&coefficients) };
        let mode = spec.execution.mode;
        let engine = EngineConfig::from_spec(&spec.engine, mode == ExecutionMode::Tinygpt);
        let measured = spec.execution.charge == Charge::Measured;
        let config = match mode {
            ExecutionMode::Tinygpt => FleetConfig::executed(spec.replicas, engine, cost, measured),
            ExecutionMode::Priced => FleetConfig::priced(spec.replicas, engine, cost),
            ExecutionMode::Tick => FleetConfig::new(spec.replicas, ReplicaConfig::Tick(situation::tick(&spec.tick))),
            ExecutionMode::Server => {
                FleetConfig::new(spec.replicas, ReplicaConfig::Server(storm::server(&spec.server)))
            }
        };
        let config = situation::apply(spec, config);
        let rate = costs::rate_per_s(spec, &cost);
        let source = Source::new(&spec.workload, spec.seed, spec.engine.block_tokens, rate)?;
        let all = u64::from(source.total());
        let mut arrivals = Vec::with_capacity(source.total() as usize);
        let survey = situation::survey(spec, &source, &mut |read, arrival| {
            arrivals.push(arrival);
            if read.is_multiple_of(TELL_EVERY) {
                tell(read as f64 / all.max(1) as f64);
            }
        });
        let mut stage = Stage {
            coefficients,
            survey,
            tenants: source.tenant_names(),
            arrivals,
            source,
            config,
            current: 0,
            runs: vec![],
            look: None,
        };
        if let Some(scaling) = &spec.scaling.on.then_some(&spec.scaling) {
            stage.config.horizon = Some(stage.survey.last_arrival + Nanos::from_secs(scaling.patience_s));
        } else if spec.clients.on {
            stage.config.horizon = Some(stage.survey.last_arrival + Nanos::from_secs(spec.clients.patience_s));
        }
        for run in 0..spec.contenders().len() {
            let fleet = stage.fresh(spec, run)?;
            let (keyframes, keeps) = (Keyframes::new(spec), stage.survey.requests <= KEEP);
            let ledger = Ledger::new(spec.slo, stage.tenants.len(), stage.survey.last_arrival);
            let (classes, class_of) = admission::classed(spec, stage.tenants.len() as u32);
            let ledger = ledger.classed(classes, class_of);
            stage.runs.push(Run { fleet, records: vec![], keeps, ledger, over: 0, log: vec![], keyframes, heard: 0 });
        }
        Ok(stage)
    }

    /// A contender's fleet at time zero.
    pub(crate) fn fresh(&self, spec: &Spec, run: usize) -> Result<Fleet, RunError> {
        self.fresh_with(spec, run, |_| {})
    }

    /// The same with settings changed that leave the outcome as it is.
    pub(crate) fn fresh_with(
        &self,
        spec: &Spec,
        run: usize,
        change: impl FnOnce(&mut FleetConfig),
    ) -> Result<Fleet, RunError> {
        let contender = spec.contenders()[run];
        let mut config = self.config.clone();
        change(&mut config);
        if let Some(scaling) = &mut config.scaling {
            scaling.controller = contender.controller.map(|index| spec.scaling.controllers[index].clone());
        }
        if let Some(clients) = storm::clients(spec, contender.clients)? {
            config.clients = clients;
        }
        Ok(Fleet::new(config, self.source.clone(), &spec.policies[contender.policy])?)
    }

    /// What a request asks for.
    pub(crate) fn asked(&self, request: u32) -> Option<servelab_workload::Request> {
        self.source.request_again(request)
    }

    /// The name of the tenant of a request.
    pub(crate) fn tenant_of(&self, request: u32) -> Option<&str> {
        self.tenants.get(self.asked(request)?.tenant as usize).map(String::as_str)
    }

    /// What the fleets are built with.
    pub(crate) fn config(&self) -> &FleetConfig {
        &self.config
    }
}

impl Run {
    /// Why the run of policy `index` can not go on.
    pub(crate) fn failure(&self, index: usize) -> RunError {
        match self.fleet.fault() {
            Some(fault) => RunError::Policy { field: catalog::script_field(index), fault: fault.clone() },
            None => RunError::Damaged("a policy failed and does not say why".into()),
        }
    }

    /// Tells of replicas that went since the last call.
    pub(crate) fn gone(&mut self, tell: &mut dyn FnMut(u32)) {
        for event in &self.ledger.lives[self.heard..] {
            if let Life::Gone | Life::Killed(_) = event.what {
                tell(event.replica);
            }
        }
        self.heard = self.ledger.lives.len();
    }

    /// Takes what ended, and keeps a state to come back to when one is due.
    pub(crate) fn happened(&mut self, events: u32) {
        let Run { records, keeps, ledger, over, fleet, .. } = self;
        fleet.take_ended(&mut |record| {
            *over += 1;
            ledger.take(record);
            if *keeps {
                records.push(record.clone());
            }
        });
        fleet.take_scaling(&mut ledger.points, &mut ledger.lives);
        self.keyframes.passed(events, &self.fleet, self.log.len());
    }
}
