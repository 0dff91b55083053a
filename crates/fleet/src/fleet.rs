//! The event loop.
//!
//! Events happen in order of time. Within one instant, steps end first (in order of replica), then timers ring (in order of
//! insertion), then requests arrive (in the source's order); when all that has happened, replicas start what they can. A fixed order of kinds,
//! rather than of insertion alone, is what makes runs of equal steps invisible: whether a step was announced alone or as part of a
//! run, it ends at the same place in the order.

mod check;
mod decisions;
mod dispatch;
mod flights;
mod frame;
mod saved;
mod slab;
mod timers;
mod tournament;

pub use check::Violation;
pub use decisions::DecisionRecord;
pub use saved::FleetState;

use crate::config::FleetConfig;
use crate::error::FleetError;
use crate::gateway::AnyGateway;
use crate::record::{Counts, ReplicaStats, RequestRecord};
use crate::replica::{Model, Next, Replica};
use crate::routing::Policy;
use crate::telemetry::LocalSignals;
use decisions::Decisions;
use flights::Flights;
use serde::{Deserialize, Serialize};
use servelab_engine::random::Stream;
use servelab_engine::{EngineEvent, Nanos, StepOutput, StepPlan};
use servelab_spec::validate::SpecError;
use servelab_workload::{Request, Source, Workload};
use timers::{Timer, Timers};
use tournament::Tournament;

/// Most replicas: pictures and policies address them by index, and memory is theirs.
const MAX_REPLICAS: u32 = 1 << 16;

/// Events between two checks of all invariants in debug builds. Checking costs as much as there is in flight.
const CHECK_EVERY: u32 = 61;

/// Why [`Fleet::poll`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// Execute [`Fleet::plan`] of this replica and call [`Fleet::executed`]; time stands still until then.
    Execute {
        /// The replica.
        replica: u32,
    },
    /// The clock stands at the instant asked for and everything due by then has happened.
    Reached,
    /// So many events have happened as were allowed.
    Paused,
    /// Every request has ended, or the horizon is reached.
    Done,
}

/// Replicas, router, gateway and clients on one virtual clock.
pub struct Fleet {
    core: Core,
    policy: Box<dyn Policy>,
    /// Everything below is rebuilt from `core`.
    ends: Tournament,
    /// Replicas in a run of several steps, whose finished ones no event has told yet.
    running_ahead: Vec<bool>,
    /// Replicas that may have something to start.
    stirred: Vec<u32>,
    executing: Option<u32>,
    draws: Stream,
    events: Vec<EngineEvent>,
    scratch: dispatch::Scratch,
    unchecked: u32,
}

/// Everything that is saved.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Core {
    config: FleetConfig,
    now: Nanos,
    source: Source,
    next_request: Option<Request>,
    gateway: AnyGateway,
    timers: Timers,
    flights: Flights,
    replicas: Vec<Replica>,
    signals: Vec<LocalSignals>,
    counts: Counts,
    decisions: Decisions,
    ended: Vec<RequestRecord>,
    done: bool,
}

impl Fleet {
    /// A fleet at time zero.
    ///
    /// # Errors
    /// When a setting is out of range.
    pub fn new(config: FleetConfig, mut source: Source, policy: Box<dyn Policy>) -> Result<Self, FleetError> {
        if config.replicas == 0 || config.replicas > MAX_REPLICAS {
            let accepted = format!("use 1 to {MAX_REPLICAS}");
            return Err(SpecError::new("replicas", config.replicas, accepted).into());
        }
        if config.block_tokens() != 0 && config.block_tokens() != source.block_tokens() {
            let accepted = format!("the workload's keys were made for blocks of {} tokens", source.block_tokens());
            return Err(SpecError::new("engine.block_tokens", config.block_tokens(), accepted).into());
        }
        let replicas =
            (0..config.replicas).map(|_| Replica::new(&config, Nanos::ZERO)).collect::<Result<Vec<_>, _>>()?;
        let next_request = source.next_request();
        let core = Core {
            now: Nanos::ZERO,
            source,
            next_request,
            gateway: AnyGateway::new(config.gateway),
            timers: Timers::default(),
            flights: Flights::default(),
            signals: vec![LocalSignals::default(); replicas.len()],
            replicas,
            counts: Counts::default(),
            decisions: Decisions::default(),
            ended: Vec::new(),
            done: false,
            config,
        };
        Ok(Fleet::around(core, policy))
    }

    /// Rebuilds what is not saved.
    fn around(core: Core, mut policy: Box<dyn Policy>) -> Self {
        let n = core.config.replicas;
        let scratch = dispatch::Scratch::new(&core);
        policy.replicas_changed(scratch.ready());
        let draws = Stream::new(core.config.seed, b"routing");
        let mut fleet = Fleet {
            core,
            policy,
            ends: Tournament::new(n),
            running_ahead: vec![false; n as usize],
            stirred: (0..n).collect(),
            executing: None,
            draws,
            events: Vec::new(),
            scratch,
            unchecked: 0,
        };
        (0..n).for_each(|index| fleet.refresh(index));
        fleet
    }

    /// Moves on until the clock stands at `until` (or the horizon), or something needs the driver, or `max_events` events have
    /// happened.
    pub fn poll(&mut self, until: Nanos, max_events: u32) -> Poll {
        let poll = self.run(until, max_events);
        self.debug_check(poll == Poll::Reached);
        poll
    }

    fn run(&mut self, until: Nanos, max_events: u32) -> Poll {
        let horizon = self.core.config.horizon.unwrap_or(Nanos::MAX);
        let until = until.max(self.core.now);
        let mut left = max_events;
        loop {
            if let Some(replica) = self.executing {
                return Poll::Execute { replica };
            }
            if self.core.done {
                return Poll::Done;
            }
            if !self.stirred.is_empty() && self.next_event().is_none_or(|(at, _)| at > self.core.now) {
                self.settle();
                continue;
            }
            let Some((at, event)) = self.next_event() else {
                self.finish();
                continue;
            };
            if at > horizon && until >= horizon {
                self.core.now = horizon.max(self.core.now);
                self.finish();
                continue;
            }
            if at > until {
                self.core.now = until;
                return Poll::Reached;
            }
            if left == 0 {
                return Poll::Paused;
            }
            left -= 1;
            debug_assert!(at >= self.core.now, "F3 clock: {at:?} after {:?}", self.core.now);
            self.core.now = at;
            self.happen(event);
            self.unchecked += 1;
            if self.unchecked >= CHECK_EVERY {
                self.debug_check(false);
            }
        }
    }

    /// The next event, in the order this module's text gives.
    fn next_event(&self) -> Option<(Nanos, Event)> {
        let (end, replica) = self.ends.first();
        let timer = self.core.timers.first().unwrap_or(Nanos::MAX);
        let arrival = self.core.next_request.as_ref().map_or(Nanos::MAX, |request| request.arrival);
        let at = end.min(timer).min(arrival);
        if at == Nanos::MAX {
            None
        } else if end == at {
            Some((at, Event::StepEnd(replica)))
        } else if timer == at {
            Some((at, Event::Timer))
        } else {
            Some((at, Event::Arrival))
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::StepEnd(replica) => self.step_end(replica),
            Event::Timer => match self.core.timers.pop() {
                Some(Timer::Retry(request)) => self.attempt(request),
                None => {}
            },
            Event::Arrival => {
                if let Some(request) = self.core.next_request.take() {
                    self.core.next_request = self.core.source.next_request();
                    self.arrive(request);
                }
            }
        }
    }

    /// Lets replicas start what they can, now that everything of this instant has happened, until one waits for its driver.
    fn settle(&mut self) {
        // In order of index whatever stirred them, so that a restored fleet does the same; the last is popped first.
        self.stirred.sort_unstable_by(|a, b| b.cmp(a));
        while self.executing.is_none()
            && let Some(index) = self.stirred.pop()
        {
            let replica = &mut self.core.replicas[index as usize];
            if replica.life.may_run() {
                replica.model.get_mut().start(self.core.now, self.core.config.max_repeat);
            }
            self.refresh(index);
        }
    }

    /// Enters the replica's next instant into the order of events.
    fn refresh(&mut self, index: u32) {
        let model = self.core.replicas[index as usize].model.get();
        self.running_ahead[index as usize] = model.runs_ahead();
        let at = match model.next() {
            Next::At(at) => at,
            Next::Idle => Nanos::MAX,
            Next::Executing => {
                self.executing = Some(index);
                Nanos::MAX
            }
        };
        self.ends.set(index, at);
    }

    /// Splits every run of equal steps at the present instant: what has been done is told, the step in progress stays.
    fn split_runs(&mut self) {
        for index in 0..self.core.replicas.len() as u32 {
            let model = self.core.replicas[index as usize].model.get_mut();
            model.split(self.core.now, &mut self.events);
            self.take_events(index, 0);
            self.refresh(index);
        }
    }

    /// The step that `replica` waits for to be executed.
    pub fn plan(&self, replica: u32) -> Option<&StepPlan> {
        match &self.core.replicas.get(replica as usize)?.model {
            Model::Engine(engine) => engine.plan(),
            Model::Server(_) | Model::Tick(_) => None,
        }
    }

    /// Takes the result of an executed step. It is committed when the clock reaches the step's virtual end.
    ///
    /// # Errors
    /// When that replica waits for no result or the result does not fit its step; nothing has changed then.
    pub fn executed(&mut self, replica: u32, output: StepOutput) -> Result<(), FleetError> {
        if self.executing != Some(replica) {
            return Err(FleetError::NotExecuting { replica });
        }
        let Model::Engine(engine) = &mut self.core.replicas[replica as usize].model else {
            return Err(FleetError::NotExecuting { replica });
        };
        engine.executed(output).map_err(|error| FleetError::Commit { replica, error })?;
        self.executing = None;
        self.refresh(replica);
        Ok(())
    }

    /// The device that holds all K and V is gone. Steps in flight never happened, running sequences are computed again, their
    /// tokens kept; the caller goes on with another executor.
    pub fn device_lost(&mut self) {
        self.split_runs();
        self.executing = None;
        for index in 0..self.core.replicas.len() as u32 {
            if let Model::Engine(engine) = &mut self.core.replicas[index as usize].model {
                engine.lose_device(&mut self.events);
            }
            self.take_events(index, 0);
            self.refresh(index);
            self.stirred.push(index);
        }
    }

    /// Ends the run: whatever is still in flight is pending.
    fn finish(&mut self) {
        self.split_runs();
        let cut = self.core.config.horizon.is_some_and(|horizon| self.core.now >= horizon);
        debug_assert!(cut || self.core.flights.requests.len() == 0, "requests were lost at {:?}", self.core.now);
        self.pend();
        self.core.done = true;
    }

    /// The clock.
    pub fn now(&self) -> Nanos {
        self.core.now
    }

    /// When something next happens after a poll came back; `None` when nothing will, or while a step is out for execution. Runs of
    /// equal steps are split at the present instant, so the answer is the end of a single step.
    pub fn next_event_time(&mut self) -> Option<Nanos> {
        if self.executing.is_some() || self.core.done {
            return None;
        }
        self.split_runs();
        self.next_event().map(|(at, _)| at)
    }

    /// Every request has ended or the horizon is reached.
    pub fn is_done(&self) -> bool {
        self.core.done
    }

    /// Hands out the records of requests that ended since the last call, in order of their ends.
    pub fn take_ended(&mut self, each: &mut dyn FnMut(&RequestRecord)) {
        self.core.ended.iter().for_each(each);
        self.core.ended.clear();
    }

    /// How many requests came to which end so far.
    pub fn counts(&self) -> Counts {
        self.core.counts
    }

    /// Requests of the workload, arrived or not.
    pub fn total_requests(&self) -> u32 {
        self.core.source.total()
    }

    /// Each replica's totals by now.
    pub fn replica_stats(&self) -> impl ExactSizeIterator<Item = ReplicaStats> + '_ {
        self.core.replicas.iter().map(|replica| replica.stats(self.core.now))
    }

    /// The latest decision about a request, if it is among the last 32.
    pub fn decision(&self, request: u32) -> Option<&DecisionRecord> {
        self.core.decisions.newest().find(|decision| decision.request == request)
    }

    /// Tokens a request has produced so far, when somebody computed them; `None` unless it is at a replica.
    pub fn output(&self, request: u32) -> Option<&[u32]> {
        let flights = &self.core.flights;
        let (_, attempt) = flights.attempts.iter().find(|(_, attempt)| {
            flights.requests.get(attempt.request).is_some_and(|flight| flight.request.index == request)
        })?;
        Some(self.core.replicas[attempt.replica as usize].model.get().output(attempt.id))
    }

    /// The source, as far as it has been read.
    pub fn source(&self) -> &Source {
        &self.core.source
    }

    /// Its settings.
    pub fn config(&self) -> &FleetConfig {
        &self.core.config
    }

    /// The policy.
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// Checks every invariant of the crate's table that concerns one instant.
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self) -> Result<(), Violation> {
        let settled = self.stirred.is_empty() && self.executing.is_none() && !self.core.done;
        check::check(&self.core, settled)
    }

    fn debug_check(&mut self, settled: bool) {
        self.unchecked = 0;
        if cfg!(debug_assertions)
            && let Err(violation) = check::check(&self.core, settled && self.executing.is_none())
        {
            unreachable!("{violation}");
        }
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    StepEnd(u32),
    Timer,
    Arrival,
}
