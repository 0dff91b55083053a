//! Sweeps and knees: many runs over several workers of their own, so that neither the stage nor the page waits for them.
//!
//! A batch hands its items (cells of a sweep, trials of a knee) to workers, one at a time each ([`queue`]). The first worker stays when the
//! batch is over: it puts the numbers together and draws, also of a batch that was cancelled or failed.

mod beside;
pub(crate) mod form;
mod queue;

use crate::link::{Event, Host, Link};
use crate::state::Phase;
use crate::{env, text};
use form::AxisForm;
use leptos::prelude::*;
use queue::{Queue, workers_for};
use servelab_spec::knee::{KneeChartRequest, KneeReport, KneeSpec, KneeTrial};
use servelab_spec::protocol::{Chart, FromWorker, SweepChartRequest, ToWorker};
use servelab_spec::sweep::{CellReport, Figure, SweepReport, SweepSpec};
use std::sync::Arc;
use std::time::Duration;

/// Seeds unless it is said: the interval is then 1.24 standard deviations to each side.
pub(crate) const SEEDS: u32 = 5;

/// Wall time between two pictures of a batch under way, ms.
const PICTURE_EVERY_MS: f64 = 1000.0;

/// Cells of which a picture is drawn while others still run: of more, sending them would hold up the worker.
const MOST_PICTURED: usize = 600;

/// A worker that has not answered by then is in a piece of work that does not end, and is replaced.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Work {
    Sweep(SweepSpec),
    Knee(KneeSpec),
}

/// What came out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Sweep(Arc<SweepReport>),
    Knee(Arc<KneeReport>),
}

/// What to draw of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Picture {
    Sweep(SweepChartRequest),
    Knee(KneeChartRequest),
}

/// The section's signals.
#[derive(Clone, Copy)]
pub(crate) struct Study {
    pub open: RwSignal<bool>,
    /// The axes as they stand in the form; the second may be none.
    pub axes: [RwSignal<Option<AxisForm>>; 2],
    pub seeds: RwSignal<u32>,
    pub figure: RwSignal<Figure>,
    /// The policy of a map, and the one it is compared with.
    pub policy: RwSignal<u32>,
    pub against: RwSignal<Option<u32>>,
    pub sweep: Batch,
    pub knee_seeds: RwSignal<u32>,
    pub knee: Batch,
}

/// A batch and its result.
#[derive(Clone, Copy)]
pub(crate) struct Batch {
    pub phase: RwSignal<Phase>,
    /// What the present result is of, or will be.
    pub asked: RwSignal<Option<Arc<Work>>>,
    /// Items that have ended, and all of them.
    pub done: RwSignal<u32>,
    pub total: RwSignal<u32>,
    /// Share that is done, items under way included.
    pub share: RwSignal<f64>,
    pub workers: RwSignal<usize>,
    pub started_ms: RwSignal<f64>,
    pub failure: RwSignal<Option<String>>,
    /// The latest result; of a batch under way it is a part.
    pub outcome: RwSignal<Option<Outcome>>,
    pub charts: [RwSignal<Option<Arc<Chart>>>; 2],
    crew: StoredValue<Crew, LocalStorage>,
}

/// Workers, what they have to do and what they have done.
#[derive(Default)]
struct Crew {
    links: Vec<Option<Link>>,
    /// The visitor's own file, for workers to read first.
    beside: beside::Beside,
    queue: Queue,
    cells: Vec<CellReport>,
    trials: Vec<KneeTrial>,
    /// The last number that something was asked for with; never reused, so that late answers are known as such.
    last: u32,
    /// The report that is on its way, and the phase that it ends in, when it ends the batch.
    report: Option<(u32, Option<Phase>)>,
    /// Wall clock when the last report was asked for, ms.
    pictured_ms: f64,
    /// Numbers of the pictures that are on their way, by place.
    charts: [u32; 2],
}

impl Crew {
    fn number(&mut self) -> u32 {
        self.last += 1;
        self.last
    }
}

impl Study {
    pub(crate) fn new() -> Study {
        Study {
            open: RwSignal::new(false),
            axes: std::array::from_fn(|_| RwSignal::new(None)),
            seeds: RwSignal::new(SEEDS),
            figure: RwSignal::new(Figure::TtftP95S),
            policy: RwSignal::new(0),
            against: RwSignal::new(None),
            sweep: Batch::new(),
            knee_seeds: RwSignal::new(SEEDS),
            knee: Batch::new(),
        }
    }
}

impl Batch {
    fn new() -> Batch {
        Batch {
            phase: RwSignal::new(Phase::Idle),
            asked: RwSignal::new(None),
            done: RwSignal::new(0),
            total: RwSignal::new(0),
            share: RwSignal::new(0.0),
            workers: RwSignal::new(0),
            started_ms: RwSignal::new(0.0),
            failure: RwSignal::new(None),
            outcome: RwSignal::new(None),
            charts: std::array::from_fn(|_| RwSignal::new(None)),
            crew: StoredValue::new_local(Crew::default()),
        }
    }

    /// Runs all of it; what another batch had is dropped.
    pub(crate) fn start(self, work: Work, items: u32) {
        if self.phase.get_untracked().busy() {
            return;
        }
        let workers = workers_for(items, env::cores());
        self.asked.set(Some(Arc::new(work)));
        self.done.set(0);
        self.total.set(items);
        self.share.set(0.0);
        self.workers.set(workers);
        self.failure.set(None);
        self.outcome.set(None);
        self.charts.iter().for_each(|chart| chart.set(None));
        self.started_ms.set(env::now_ms());
        self.phase.set(Phase::Loading);
        self.crew.update_value(|crew| {
            crew.queue = Queue::new(items, workers);
            (crew.cells, crew.trials) = (vec![], vec![]);
            crew.report = None;
            crew.pictured_ms = env::now_ms();
        });
        for worker in 0..workers {
            self.hand(worker);
        }
    }

    /// Stops it; what has ended is kept and reported.
    pub(crate) fn cancel(self) {
        if self.phase.get_untracked().busy() {
            self.end(Phase::Partial);
        }
    }

    /// Draws a picture of the present result, to be found at a place of `charts`.
    pub(crate) fn draw(self, place: usize, picture: Picture) {
        let Some(outcome) = self.outcome.get_untracked() else { return };
        let run = self.crew.try_update_value(|crew| {
            let run = crew.number();
            crew.charts[place] = run;
            run
        });
        let Some(run) = run else { return };
        match (&outcome, picture) {
            (Outcome::Sweep(report), Picture::Sweep(chart)) => {
                self.post(0, &ToWorker::SweepChart { run, report: Box::new((**report).clone()), chart });
            }
            (Outcome::Knee(report), Picture::Knee(chart)) => {
                self.post(0, &ToWorker::KneeChart { run, report: Box::new((**report).clone()), chart });
            }
            _ => {}
        }
    }

    /// Sends to a worker, starting it when it is not there.
    fn post(self, worker: usize, message: &ToWorker) {
        let missing = self.crew.with_value(|crew| crew.links.get(worker).is_none_or(Option::is_none));
        if missing {
            match Link::open(Host::Cpu, move |event| self.hear(worker, event)) {
                Ok(link) => self.crew.update_value(|crew| {
                    while crew.links.len() <= worker {
                        crew.links.push(None);
                    }
                    crew.brief(&link);
                    crew.links[worker] = Some(link);
                }),
                Err(reason) => {
                    set_timeout(move || self.stopped(worker, &reason), Duration::ZERO);
                    return;
                }
            }
        }
        self.crew.with_value(|crew| {
            if let Some(Some(link)) = crew.links.get(worker) {
                link.post(message);
            }
        });
    }

    /// Gives a worker the next item, if there is one.
    fn hand(self, worker: usize) {
        let handed = self.crew.try_update_value(|crew| {
            let run = crew.number();
            crew.queue.hand(worker, run).map(|item| (run, item))
        });
        let (Some(Some((run, item))), Some(work)) = (handed, self.asked.get_untracked()) else { return };
        match &*work {
            Work::Sweep(sweep) => {
                self.post(worker, &ToWorker::SweepCell { run, sweep: Box::new(sweep.clone()), cell: item });
            }
            Work::Knee(knee) => {
                self.post(worker, &ToWorker::KneeTrial { run, knee: Box::new(knee.clone()), trial: item });
            }
        }
    }

    fn hear(self, worker: usize, event: Event) {
        match event {
            Event::Loading { .. } => {}
            Event::Stopped { reason } => {
                // In a later turn: this is the worker's own listener.
                set_timeout(move || self.stopped(worker, &reason), Duration::ZERO);
            }
            Event::Message(message) => self.listen(worker, *message),
        }
    }

    fn listen(self, worker: usize, message: FromWorker) {
        match message {
            FromWorker::Progress { run, fraction, .. } => {
                if self.phase.get_untracked() == Phase::Loading {
                    self.phase.set(Phase::Running);
                }
                self.crew.update_value(|crew| crew.queue.progress(worker, run, fraction));
                self.tell_share();
            }
            FromWorker::SweepCell { run, result, .. } => {
                self.ended(worker, run, |crew| crew.cells.extend(result.map(|cell| *cell)));
            }
            FromWorker::KneeTrial { run, result, .. } => {
                self.ended(worker, run, |crew| crew.trials.extend(result.map(|trial| *trial)));
            }
            FromWorker::SweepReport { run, report } => self.reported(run, Outcome::Sweep(Arc::new(*report))),
            FromWorker::KneeReport { run, report } => self.reported(run, Outcome::Knee(Arc::new(*report))),
            FromWorker::Chart { run, chart } => {
                let place = self.crew.with_value(|crew| crew.charts.iter().position(|asked| *asked == run));
                if let Some(place) = place {
                    self.charts[place].set(Some(Arc::new(*chart)));
                }
            }
            FromWorker::Failed { run, message, .. } => {
                let ours = self.crew.with_value(|crew| {
                    crew.queue.has(run) || crew.charts.contains(&run) || crew.report.is_some_and(|asked| asked.0 == run)
                });
                if ours {
                    self.fail(message);
                }
            }
            _ => {}
        }
    }

    /// An item has ended: the next one, or the end of it all.
    fn ended(self, worker: usize, run: u32, keep: impl FnOnce(&mut Crew)) {
        let over = self.crew.try_update_value(|crew| {
            let ours = crew.queue.ended(worker, run);
            if ours {
                keep(crew);
            }
            ours.then(|| crew.queue.over())
        });
        let Some(Some(over)) = over else { return };
        self.done.update(|done| *done += 1);
        self.phase.set(Phase::Running);
        self.tell_share();
        if over {
            self.end(Phase::Done);
        } else {
            self.hand(worker);
            let now = env::now_ms();
            let due = self.crew.with_value(|crew| {
                crew.report.is_none() && now - crew.pictured_ms >= PICTURE_EVERY_MS && crew.cells.len() <= MOST_PICTURED
            });
            if due {
                self.ask_report(None);
            }
        }
    }

    fn tell_share(self) {
        let share = self.crew.with_value(|crew| crew.queue.share());
        self.share.set(share);
    }

    /// Puts together what is there; `end` is the phase that the batch is in afterwards.
    fn ask_report(self, end: Option<Phase>) {
        let Some(work) = self.asked.get_untracked() else { return };
        let message = self.crew.try_update_value(|crew| {
            let run = crew.number();
            crew.report = Some((run, end));
            crew.pictured_ms = env::now_ms();
            match &*work {
                Work::Sweep(sweep) => {
                    ToWorker::SweepReport { run, sweep: Box::new(sweep.clone()), cells: crew.cells.clone() }
                }
                Work::Knee(knee) => {
                    ToWorker::KneeReport { run, knee: Box::new(knee.clone()), trials: crew.trials.clone() }
                }
            }
        });
        if let Some(message) = message {
            self.post(0, &message);
        }
    }

    fn reported(self, run: u32, outcome: Outcome) {
        let asked = self.crew.try_update_value(|crew| crew.report.take_if(|asked| asked.0 == run)).flatten();
        let Some((_, end)) = asked else { return };
        self.outcome.set(Some(outcome));
        if let Some(phase) = end {
            self.phase.set(phase);
        }
    }

    /// No more items: the workers go, but for the first, which reports what there is.
    fn end(self, phase: Phase) {
        let held = self.crew.try_update_value(|crew| crew.queue.stop()).unwrap_or_default();
        let first = held.into_iter().find(|(worker, _)| *worker == 0);
        if let Some((_, run)) = first {
            self.post(0, &ToWorker::Cancel { run });
        }
        // In a later turn: this may be called from one of their listeners.
        set_timeout(move || self.crew.update_value(|crew| crew.links.truncate(1)), Duration::ZERO);
        let any = self.crew.with_value(|crew| !crew.cells.is_empty() || !crew.trials.is_empty());
        match (any, phase) {
            (true, _) => self.ask_report(Some(phase)),
            (false, Phase::Partial) => self.phase.set(Phase::Cancelled),
            (false, _) => self.phase.set(phase),
        }
        if any {
            let asked = self.crew.with_value(|crew| crew.report.map(|asked| asked.0));
            set_timeout(move || self.replace_first(asked, phase), PATIENCE);
        }
    }

    /// The first worker has not reported: another one will.
    fn replace_first(self, asked: Option<u32>, phase: Phase) {
        let waiting = self.crew.with_value(|crew| asked.is_some() && crew.report.map(|report| report.0) == asked);
        if waiting {
            self.crew.update_value(|crew| crew.links.iter_mut().take(1).for_each(|link| *link = None));
            self.ask_report(Some(phase));
        }
    }

    fn stopped(self, worker: usize, reason: &str) {
        self.crew.update_value(|crew| {
            if let Some(link) = crew.links.get_mut(worker) {
                *link = None;
            }
        });
        self.fail(text::study_worker_stopped(reason));
    }

    fn fail(self, message: String) {
        let busy = self.phase.get_untracked().busy();
        // The report itself failed: there is none to ask for.
        let reporting = self.crew.try_update_value(|crew| crew.report.take().is_some_and(|(_, end)| end.is_some()));
        self.failure.set(Some(message));
        if reporting == Some(true) {
            self.phase.set(Phase::Failed);
        } else if busy {
            self.end(Phase::Failed);
        }
    }
}
