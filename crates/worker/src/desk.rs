//! Messages in, messages out, and the run between them.
//!
//! W1: every `Frame` and `Step` of the present run gets exactly one answer, in order; the page counts on it. Pictures of the latest instant wait until
//! the run can spare the time ([`held`]).
//! W2: a run that was started ends with exactly one `Report` or `Failed`, unless another took its place.
//! W3: messages about other runs are answered by nothing.
//! W4: a cell or a trial that was asked for is answered exactly once: with its numbers, with nothing in their place when it was cancelled or
//! another took its place, or with `Failed`. It goes before a run, which waits and stays as it is.
//! W5: a request to write is answered by a picture after each step, the last of which says that it is done, or by `Failed`; nothing comes after
//! another has taken its place. It goes before runs, cells and trials: somebody reads along.
//! Files of recorded requests have promises of their own, see [`trace`].
//! Tests: `tests/desk.rs`, `tests/jobs.rs`, `tests/trace.rs`.

mod held;
mod jobs;
mod trace;
mod writing;

use crate::devices::{Devices, Opened};
use held::Held;
use jobs::Job;
use servelab_engine::{ExecuteError, Nanos};
use servelab_lab::export::export;
use servelab_lab::knee::KneePlan;
use servelab_lab::session::byte_text;
use servelab_lab::signals::signals;
use servelab_lab::startup::cold_start;
use servelab_lab::sweep::Plan;
use servelab_lab::{Progress, RunError, Session, catalog, chart};
use servelab_spec::Spec;
use servelab_spec::experiment::ModelChoice;
use servelab_spec::frame::Frame;
use servelab_spec::protocol::{FromWorker, RequestStory, ToWorker};
use trace::{Opening, Viewed};
use writing::Writing;

/// Wall time of a slice, ms: short enough that a frame asked for meanwhile comes within two animation frames, long
/// enough that yielding costs nothing beside it.
const SLICE_MS: f64 = 10.0;

/// Wall time between two progress messages, ms. More would only be noise to a progress bar.
const PROGRESS_EVERY_MS: f64 = 50.0;

/// Events between two looks at the clock. An event costs about a microsecond, a look a tenth of that or more.
const EVENTS: u32 = 256;

/// A wall clock in ms.
pub type Clock = fn() -> f64;

/// A worker's desk.
pub struct Desk<D: Devices> {
    devices: D,
    clock: Clock,
    run: Option<Run<D::Executor>>,
    job: Option<Job>,
    writing: Writing<D::Executor>,
    opening: Option<Opening>,
    /// A cell or trial that waits for the file to be read: it may be about that trace.
    waiting: Option<ToWorker>,
    /// What was viewed last.
    viewed: Option<Viewed>,
    /// Pictures that wait until the run can spare the time.
    held: Held,
}

struct Run<E> {
    number: u32,
    session: Session,
    executor: Option<E>,
    state: State,
    said_ms: f64,
    policy: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A live run whose device is not ready yet.
    Opening,
    /// A live run whose device is not measured yet.
    Calibrating,
    Running,
    /// Finished, cancelled or failed: only looked at from now on.
    Ended,
}

impl<D: Devices> Desk<D> {
    /// A desk with nothing on it.
    pub fn new(devices: D, clock: Clock) -> Self {
        let writing = Writing::default();
        let held = Held::default();
        Desk { devices, clock, run: None, job: None, writing, opening: None, waiting: None, viewed: None, held }
    }

    /// What a worker says first.
    pub fn ready() -> FromWorker {
        FromWorker::Ready { catalog: Box::new(catalog::catalog()) }
    }

    /// There is something to work on.
    pub fn busy(&self) -> bool {
        self.job.is_some() || self.opening.is_some() || self.running() || self.writing.busy()
    }

    /// A file is being read: the next thing to do is [`Desk::feed`].
    pub fn reading(&self) -> bool {
        self.opening.as_ref().is_some_and(Opening::reading)
    }

    /// Takes the next piece of the file that is being read; none at its end.
    pub fn feed(&mut self, piece: Option<&[u8]>, say: &mut dyn FnMut(FromWorker)) {
        if let Some(answer) = self.opening.as_mut().and_then(|opening| opening.feed(piece, self.clock, say)) {
            say(answer);
            self.opening = None;
            self.resume(say);
        }
    }

    /// Begins what has waited for a file.
    fn resume(&mut self, say: &mut dyn FnMut(FromWorker)) {
        match self.waiting.take() {
            Some(ToWorker::SweepCell { run, sweep, cell }) => self.begin(run, Job::cell(run, *sweep, cell), say),
            Some(ToWorker::KneeTrial { run, knee, trial }) => self.begin(run, Job::trial(run, *knee, trial), say),
            _ => {}
        }
    }

    /// The file that is being read can not be read on; why.
    pub fn unreadable(&mut self, reason: &str, say: &mut dyn FnMut(FromWorker)) {
        if let Some(opening) = self.opening.take() {
            say(FromWorker::Failed { run: opening.run, message: reason.to_owned(), field: None });
            self.resume(say);
        }
    }

    fn running(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.state != State::Ended)
    }

    /// Answers one message.
    pub async fn hear(&mut self, message: ToWorker, say: &mut dyn FnMut(FromWorker)) {
        if self.latest(&message) && !self.held.is_due((self.clock)()) {
            self.held.push(message);
            return;
        }
        while let Some(earlier) = self.held.pop() {
            self.answer(earlier, say);
        }
        self.hear_now(message, say).await;
    }

    async fn hear_now(&mut self, message: ToWorker, say: &mut dyn FnMut(FromWorker)) {
        match message {
            ToWorker::Frame { .. } | ToWorker::Chart { .. } => self.answer(message, say),
            ToWorker::Run { run, spec } => self.start(run, *spec, say),
            ToWorker::SweepCell { .. } | ToWorker::KneeTrial { .. } if self.opening.is_some() => {
                if let Some(other) = self.waiting.replace(message) {
                    say(jobs::never_begun(&other));
                }
            }
            ToWorker::Cancel { run } => {
                if let Some(job) = self.job.take_if(|job| job.run == run) {
                    say(job.dropped());
                    return;
                }
                if self.writing.cancel(run, say) {
                    return;
                }
                if let Some(opening) = self.opening.take_if(|opening| opening.run == run) {
                    say(opening.dropped());
                    self.resume(say);
                    return;
                }
                if let Some(message) = self.waiting.take_if(|message| jobs::number(message) == Some(run)) {
                    say(jobs::never_begun(&message));
                    return;
                }
                if let Some(open) = self.open_run(run).filter(|open| open.state != State::Ended) {
                    open.end(true, say);
                    self.give_back();
                }
            }
            ToWorker::Step { run, policy, t_s, only } => {
                if let Some(open) = self.open_run(run) {
                    let now = Nanos::from_secs(t_s);
                    let next = open.session.next_instant(policy, now).unwrap_or(now);
                    let mut frame = open.frame(policy, next, only);
                    // Not simulated so far, the picture is an earlier one; the clock of whoever steps forward stays.
                    frame.t_s = frame.t_s.max(t_s);
                    say(FromWorker::Frame { run, frame: Box::new(frame) });
                }
            }
            ToWorker::Request { run, policy, request } => {
                let devices = &self.devices;
                if let Some(open) = self.run.as_mut().filter(|open| open.number == run) {
                    let trained = open.session.spec().execution.model == ModelChoice::Trained;
                    let text = |tokens: &[u32]| match devices.text(tokens) {
                        Some(text) if trained => text,
                        _ => byte_text(tokens),
                    };
                    let story = match open.session.story(policy, request, &text) {
                        Ok(Some(story)) => story,
                        Ok(None) => {
                            RequestStory { request, why: "it has not arrived yet".into(), ..Default::default() }
                        }
                        Err(error) => RequestStory { request, why: error.to_string(), ..Default::default() },
                    };
                    say(FromWorker::Request { run, story: Box::new(story) });
                }
            }
            ToWorker::Export { run, kind } => {
                if let Some(open) = self.open_run(run) {
                    match export(&open.session, kind) {
                        Ok(file) => say(FromWorker::Export { run, kind, file: Box::new(file) }),
                        Err(error) => say(failed(run, &error)),
                    }
                }
            }
            ToWorker::SweepCell { run, sweep, cell } => self.begin(run, Job::cell(run, *sweep, cell), say),
            ToWorker::KneeTrial { run, knee, trial } => self.begin(run, Job::trial(run, *knee, trial), say),
            ToWorker::SweepReport { run, sweep, cells } => match Plan::new(*sweep) {
                Ok(plan) => say(FromWorker::SweepReport { run, report: Box::new(plan.report(cells)) }),
                Err(error) => say(failed(run, &error.into())),
            },
            ToWorker::KneeReport { run, knee, trials } => match KneePlan::new(*knee) {
                Ok(plan) => say(FromWorker::KneeReport { run, report: Box::new(plan.report(trials)) }),
                Err(error) => say(failed(run, &error.into())),
            },
            ToWorker::SweepChart { run, report, chart } => match chart::draw_sweep(&chart, &report) {
                Ok(drawn) => say(FromWorker::Chart { run, chart: Box::new(drawn) }),
                Err(error) => say(failed(run, &error.into())),
            },
            ToWorker::ColdStart { run, query } => match cold_start(&query) {
                Ok(answer) => say(FromWorker::ColdStart { run, answer: Box::new(answer) }),
                Err(error) => say(failed(run, &error.into())),
            },
            ToWorker::Signals { run, spec, window_s } => match signals(&spec, window_s) {
                Ok(report) => say(FromWorker::Signals { run, report: Box::new(report) }),
                Err(error) => say(failed(run, &error)),
            },
            ToWorker::KneeChart { run, report, chart } => match chart::draw_knee(&chart, &report) {
                Ok(drawn) => say(FromWorker::Chart { run, chart: Box::new(drawn) }),
                Err(error) => say(failed(run, &error.into())),
            },
            ToWorker::Write { run, request } => self.writing.ask(run, *request, say),
            ToWorker::WriterModel { run, files } => self.writing.choose(run, files),
            ToWorker::TraceOpen { run, query } => {
                if let Some(other) = self.opening.replace(Opening::new(run, query)) {
                    say(other.dropped());
                }
            }
            ToWorker::TraceCharts { run, width, height, dark } => {
                if let Some(answer) = self.viewed.as_ref().and_then(|seen| seen.redrawn(run, width, height, dark)) {
                    say(answer);
                }
            }
            ToWorker::Measure { allow_software } => {
                let devices = self.devices.measure(allow_software).await;
                say(FromWorker::Measured { devices });
            }
        }
    }

    /// Works for one slice: on what is to be written, on a file that has been read, on the cell or trial, else on the run, or takes one step towards it.
    pub async fn work(&mut self, say: &mut dyn FnMut(FromWorker)) {
        if self.writing.busy() {
            self.writing.work(&mut self.devices, say).await;
            return;
        }
        if let Some(opening) = &mut self.opening {
            if let Some(answer) = opening.slice(self.clock, &mut self.viewed, say) {
                say(answer);
                self.opening = None;
                self.resume(say);
            }
            return;
        }
        if let Some(job) = &mut self.job {
            let answer = match job.slice(self.clock, say) {
                Ok(None) => return,
                Ok(Some(answer)) => answer,
                Err(error) => failed(job.run, &error),
            };
            say(answer);
            self.job = None;
            return;
        }
        if self.held.is_due((self.clock)())
            && let Some(message) = self.held.pop()
        {
            self.answer(message, say);
        }
        let Some(run) = self.run.as_mut().filter(|run| run.state != State::Ended) else { return };
        let result = match run.state {
            State::Opening => match self.devices.open(run.session.spec()).await {
                Ok(Opened { executor, fallback }) => {
                    run.executor = Some(executor);
                    if let Some(reason) = fallback {
                        run.session.set_fallback(&reason);
                    }
                    run.state = State::Calibrating;
                    run.report_stage("calibrating", say);
                    Ok(())
                }
                Err(error) => {
                    run.fail(error.message, error.field, say);
                    Ok(())
                }
            },
            _ => run.slice(self.clock, say).await,
        };
        if let Err(error) = result {
            run.fail(error.to_string(), error.field().map(str::to_owned), say);
            if matches!(error, RunError::Execute(ExecuteError::DeviceLost { .. })) {
                // What is left of it is of no use to the next run.
                run.executor = None;
            }
        }
        if !self.running() {
            self.give_back();
            while let Some(message) = self.held.pop() {
                self.answer(message, say);
            }
        }
    }

    fn begin(&mut self, run: u32, job: Result<Job, RunError>, say: &mut dyn FnMut(FromWorker)) {
        if let Some(other) = self.job.take() {
            say(other.dropped());
        }
        match job {
            Ok(job) => self.job = Some(job),
            Err(error) => say(failed(run, &error)),
        }
    }

    fn start(&mut self, number: u32, spec: Spec, say: &mut dyn FnMut(FromWorker)) {
        self.give_back();
        self.run = None;
        // A long workload takes seconds to read, in which nothing else is heard.
        let mut reading = |fraction: f64| {
            say(FromWorker::Progress { run: number, policy: 0, fraction, t_s: 0.0, stage: "building".into() });
        };
        let session = match Session::telling(spec, &mut reading) {
            Ok(session) => session,
            Err(error) => {
                say(failed(number, &error));
                return;
            }
        };
        let state = if session.is_live() { State::Opening } else { State::Running };
        let run = Run { number, session, executor: None, state, said_ms: f64::NEG_INFINITY, policy: 0 };
        run.report_stage(if state == State::Opening { "loading" } else { "running" }, say);
        self.run = Some(run);
    }

    fn open_run(&mut self, number: u32) -> Option<&mut Run<D::Executor>> {
        self.run.as_mut().filter(|run| run.number == number)
    }

    fn give_back(&mut self) {
        if let Some(executor) = self.run.as_mut().and_then(|run| run.executor.take()) {
            self.devices.close(executor);
        }
    }
}

fn failed(run: u32, error: &RunError) -> FromWorker {
    FromWorker::Failed { run, message: error.to_string(), field: error.field().map(str::to_owned) }
}

impl<E: servelab_engine::Executor> Run<E> {
    async fn slice(&mut self, clock: Clock, say: &mut dyn FnMut(FromWorker)) -> Result<(), RunError> {
        let until = clock() + SLICE_MS;
        loop {
            let progress = match &mut self.executor {
                Some(executor) => self.session.advance_live(executor, 1).await?,
                None => self.session.advance(EVENTS)?,
            };
            self.state = State::Running;
            let now = clock();
            if progress.policy != self.policy {
                // The policy before has reached its end; the page learns where that is.
                let t = self.session.simulated(self.policy);
                self.report_progress(Progress { policy: self.policy, t, ..progress }, say);
                self.policy = progress.policy;
            }
            if progress.done {
                self.end(false, say);
                return Ok(());
            }
            if now - self.said_ms >= PROGRESS_EVERY_MS {
                self.said_ms = now;
                self.report_progress(progress, say);
            }
            if now >= until {
                return Ok(());
            }
        }
    }

    fn report_stage(&self, stage: &str, say: &mut dyn FnMut(FromWorker)) {
        let stage = stage.to_owned();
        say(FromWorker::Progress { run: self.number, policy: 0, fraction: 0.0, t_s: 0.0, stage });
    }

    fn report_progress(&self, progress: Progress, say: &mut dyn FnMut(FromWorker)) {
        say(FromWorker::Progress {
            run: self.number,
            policy: progress.policy,
            fraction: progress.fraction,
            t_s: progress.t.as_secs(),
            stage: "running".into(),
        });
    }

    fn frame(&mut self, policy: u32, t: Nanos, only: Option<u32>) -> Frame {
        let frame = match only {
            Some(only) => self.session.frame_of(policy, t, only),
            None => self.session.frame(policy, t),
        };
        // A policy that there is not has an empty picture: the answer is counted on.
        frame.unwrap_or(Frame { policy, t_s: t.as_secs(), ..Frame::default() })
    }

    fn end(&mut self, partial: bool, say: &mut dyn FnMut(FromWorker)) {
        self.state = State::Ended;
        self.report_progress(self.session.progress(), say);
        say(FromWorker::Report { run: self.number, partial, report: Box::new(self.session.report()) });
    }

    fn fail(&mut self, message: String, field: Option<String>, say: &mut dyn FnMut(FromWorker)) {
        self.state = State::Ended;
        say(FromWorker::Failed { run: self.number, message, field });
    }
}
