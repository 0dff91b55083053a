//! The event loop.
//!
//! Events happen in order of time. Within one instant, steps end first (in order of replica), then timers ring (in order of
//! insertion), then engine metrics are scraped, then requests arrive (in the source's order); when all that has happened, replicas start what they can. A fixed order of kinds,
//! rather than of insertion alone, is what makes runs of equal steps invisible: whether a step was announced alone or as part of a
//! run, it ends at the same place in the order.

mod admission;
mod attempts;
mod capacity;
mod changes;
mod check;
mod decisions;
mod deploys;
mod dispatch;
mod faults;
mod fetches;
mod flights;
mod flow;
mod frame;
mod lives;
mod look;
mod outside;
mod routers;
mod saved;
mod scaler;
mod signals;
mod slab;
mod spares;
mod timers;
mod tournament;

pub use capacity::Capacity;
pub use check::Violation;
pub use decisions::DecisionRecord;
pub use flow::{Flow, FlowBin};
pub use saved::FleetState;

use crate::clients::crowd::Clients;
use crate::config::FleetConfig;
use crate::error::FleetError;
use crate::gateway::Gateway;
use crate::record::{Counts, Fates, RefusalCount, RequestRecord, Work};
use crate::replica::{Model, Next, Replica};
use crate::routing::PolicyFault;
use crate::scaling::Controller;
use crate::scaling::scaler::Scaler;
use crate::store::KvStore;
use crate::telemetry::{KvIndex, PolledSignals, Reads};
use decisions::Decisions;
use flights::Flights;
use routers::{Policies, RouterCounts};
use serde::{Deserialize, Serialize};
use servelab_engine::random::Stream;
use servelab_engine::{BlockKey, EngineEvent, KvChange, Nanos, StepOutput, StepPlan};
use servelab_spec::experiment::PolicySpec;
use servelab_spec::validate::SpecError;
use servelab_workload::{Request, Source, Workload};
use timers::{Timer, Timers};
use tournament::Tournament;

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
    /// The policy can not go on ([`Fleet::fault`]); time stands still for good.
    Failed,
}

/// Replicas, router, gateway and clients on one virtual clock.
pub struct Fleet {
    core: Core,
    policies: Policies,
    /// Who decides how many replicas there are.
    controller: Option<Box<dyn Controller>>,
    /// What the policies read.
    reads: Reads,
    /// Everything below is rebuilt from `core`.
    ends: Tournament,
    /// Replicas in a run of several steps, whose finished ones no event has told yet.
    running_ahead: Vec<bool>,
    /// Of each of those, the tokens produced so far and until when that holds. Arrivals are many to a step.
    ahead: Vec<(u64, Nanos)>,
    /// Replicas that may have something to start.
    stirred: Vec<u32>,
    executing: Option<u32>,
    draws: Stream,
    routing: Stream,
    errors: Stream,
    admission: Stream,
    events: Vec<EngineEvent>,
    kv_changes: Vec<KvChange>,
    filled: Vec<BlockKey>,
    scratch: dispatch::Scratch,
    /// The request whose decision is to be explained.
    explain: Option<u32>,
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
    gateway: Gateway,
    timers: Timers,
    flights: Flights,
    replicas: Vec<Replica>,
    /// Attempts in flight on each replica, of all routers.
    in_flight: Vec<u32>,
    routers: Vec<RouterCounts>,
    polled: Vec<PolledSignals>,
    /// [`Nanos::MAX`] when nobody reads metrics, or nothing has happened since the last scrape.
    next_scrape: Nanos,
    index: Option<KvIndex>,
    /// In a fleet that scales.
    scaler: Option<Scaler>,
    /// What lies behind the replicas.
    #[serde(default)]
    store: Option<KvStore>,
    counts: Counts,
    clients: Clients,
    fates: Fates,
    work: Work,
    flow: Flow,
    /// Faults of telemetry under way.
    stale: u32,
    /// When the last one was over.
    fresh_from: Nanos,
    /// Share of requests dropped at the door.
    dropping: f64,
    /// Time of slots that servers did not have before their limits were raised.
    #[serde(default)]
    lacked: Nanos,
    /// Attempts turned away so far, in the order in which causes first came up.
    #[serde(default)]
    refusals: Vec<RefusalCount>,
    decisions: Decisions,
    ended: Vec<RequestRecord>,
    done: bool,
    /// Why the policy can not go on.
    fault: Option<PolicyFault>,
}

impl Fleet {
    /// A fleet at time zero.
    ///
    /// # Errors
    /// When a setting is out of range.
    pub fn new(config: FleetConfig, mut source: Source, policy: &PolicySpec) -> Result<Self, FleetError> {
        config.validate()?;
        if config.block_tokens() != 0 && config.block_tokens() != source.block_tokens() {
            let accepted = format!("the workload's keys were made for blocks of {} tokens", source.block_tokens());
            return Err(SpecError::new("engine.block_tokens", config.block_tokens(), accepted).into());
        }
        let policies = Policies::new(policy.clone(), config.telemetry.routers)?;
        let reads = policies.reads();
        let controller = scaler::controller(&config)?;
        let n = config.replicas_ever();
        let kv_changes = reads.has(Reads::EVENTS);
        let replicas = (0..n).map(|index| Replica::new(&config, index, kv_changes)).collect::<Result<_, _>>()?;
        let next_request = source.next_request();
        let mut timers = Timers::default();
        for (at, change) in (0u32..).zip(&config.changes) {
            timers.insert(change.at, Timer::Change(at));
        }
        for (at, fault) in (0u32..).zip(&config.faults) {
            timers.insert(fault.from, Timer::Fault(at));
            timers.insert(fault.until, Timer::Recovery(at));
        }
        let gateway = Gateway::new(&config.gateway, source.tenants());
        let scraped = reads.has(Reads::POLLED) || gateway.reads_metrics();
        let core = Core {
            now: Nanos::ZERO,
            source,
            next_request,
            gateway,
            timers,
            flights: Flights::default(),
            in_flight: vec![0; n as usize],
            routers: (0..config.telemetry.routers).map(|_| RouterCounts::new(n)).collect(),
            polled: vec![PolledSignals::default(); n as usize],
            next_scrape: if scraped { Nanos::ZERO } else { Nanos::MAX },
            scaler: config.scaling.as_ref().map(|scaling| Scaler::new(scaling, config.replicas)),
            index: kv_changes.then(|| KvIndex::new(n, config.telemetry.event_loss, config.seed)),
            store: config.store.map(KvStore::new),
            replicas,
            counts: Counts::default(),
            clients: Clients::new(config.clients.crowd(), config.seed),
            fates: Fates::default(),
            work: Work::default(),
            flow: Flow::default(),
            stale: 0,
            fresh_from: Nanos::ZERO,
            dropping: 0.0,
            lacked: Nanos::ZERO,
            refusals: Vec::new(),
            decisions: Decisions::default(),
            ended: Vec::new(),
            done: false,
            fault: None,
            config,
        };
        let mut fleet = Fleet::around(core, policies, controller);
        fleet.start_scaling();
        for (user, at) in (0u32..).zip(fleet.core.clients.users()) {
            fleet.core.timers.insert(at, Timer::User(user));
        }
        Ok(fleet)
    }

    /// Rebuilds what is not saved.
    fn around(core: Core, mut policies: Policies, controller: Option<Box<dyn Controller>>) -> Self {
        let n = core.replicas.len() as u32;
        let scratch = dispatch::Scratch::new(&core);
        policies.replicas_changed(scratch.ready());
        let draws = Stream::new(core.config.seed, b"routing");
        let routing = Stream::new(core.config.seed, b"router");
        let errors = Stream::new(core.config.seed, b"errors");
        let admission = Stream::new(core.config.seed, b"gateway");
        let mut fleet = Fleet {
            core,
            reads: policies.reads(),
            policies,
            controller,
            ends: Tournament::new(n),
            running_ahead: vec![false; n as usize],
            ahead: vec![(0, Nanos::ZERO); n as usize],
            stirred: (0..n).collect(),
            executing: None,
            draws,
            routing,
            errors,
            admission,
            events: Vec::new(),
            kv_changes: Vec::new(),
            filled: Vec::new(),
            scratch,
            explain: None,
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
            if self.core.fault.is_some() {
                return Poll::Failed;
            }
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
            // Whatever may still happen to an idle fleet that expects nobody concerns nobody, but this instant is told to its end.
            let over = self.core.next_request.is_none() && self.waiting() == 0;
            let now = self.core.now;
            let Some((at, event)) = self.next_event().filter(|&(at, _)| !over || at == now) else {
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
        let next = self.core.next_request.as_ref().filter(|_| !self.core.clients.is_closed());
        let arrival = next.map_or(Nanos::MAX, |request| request.arrival);
        let scrape = self.core.next_scrape;
        let at = end.min(timer).min(scrape).min(arrival);
        if at == Nanos::MAX {
            None
        } else if end == at {
            Some((at, Event::StepEnd(replica)))
        } else if timer == at {
            Some((at, Event::Timer))
        } else if scrape == at {
            Some((at, Event::Scrape))
        } else {
            Some((at, Event::Arrival))
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::StepEnd(replica) => self.step_end(replica),
            Event::Timer => match self.core.timers.pop() {
                Some(Timer::Client(request)) => self.client(request),
                Some(Timer::Cancel(attempt)) => self.cancel_named(attempt),
                Some(Timer::User(user)) => self.user_sends(user),
                Some(Timer::Turn(session)) => self.session_goes_on(session),
                Some(Timer::Fault(at)) => self.fault_begins(at),
                Some(Timer::Recovery(at)) => self.fault_ends(at),
                Some(Timer::Poison { replica, fault }) => self.poisoned(replica, fault),
                Some(Timer::Back { replica }) => self.comes_back(replica),
                Some(Timer::Outside(attempt)) => self.answered_outside(attempt),
                Some(Timer::Change(at)) => self.change(at),
                Some(Timer::Gateway) => self.ring_gateway(),
                Some(Timer::Ready(replica)) => self.admit(replica),
                Some(Timer::Warm(replica)) => self.warm_up(replica),
                Some(Timer::Sample) => self.sample(),
                Some(Timer::Evaluate) => self.evaluate(),
                Some(Timer::Reconcile) => self.reconcile(),
                Some(Timer::Stage { replica, life }) => self.stage_ends(replica, life),
                Some(Timer::Link(link)) => self.transfers(link),
                Some(Timer::Node) => self.node_ready(),
                Some(Timer::Probe { replica, life }) => self.probe(replica, life),
                Some(Timer::Restart { replica, life }) => self.started_again(replica, life),
                Some(Timer::Grace { replica, life }) => self.grace_over(replica, life),
                None => {}
            },
            Event::Scrape => self.scrape(),
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
            if replica.may_run() {
                // Whoever reads events wants each at its instant, so steps are taken alone.
                let max_repeat = if self.core.index.is_some() { 1 } else { self.core.config.max_repeat };
                replica.model.get_mut().start(self.core.now, max_repeat);
            }
            self.refresh(index);
        }
    }

    /// Enters the replica's next instant into the order of events.
    fn refresh(&mut self, index: u32) {
        let model = self.core.replicas[index as usize].model.get();
        self.running_ahead[index as usize] = model.runs_ahead();
        self.ahead[index as usize] = (0, Nanos::ZERO);
        let at = match model.next() {
            _ if self.core.replicas[index as usize].ailments.frozen > 0 => Nanos::MAX,
            Next::At(at) => at,
            Next::Idle => Nanos::MAX,
            Next::Executing => {
                self.executing = Some(index);
                Nanos::MAX
            }
        };
        self.ends.set(index, at);
        self.tell_kv_changes(index);
    }

    /// Splits every run of equal steps at the present instant: what has been done is told, the step in progress stays.
    fn split_runs(&mut self) {
        (0..self.core.replicas.len() as u32).for_each(|index| self.split_run(index));
    }

    /// The same for one replica. A step that ends at this very instant ends, as it would have before anything else happened, and the next one has not begun.
    fn split_run(&mut self, index: u32) {
        let model = self.core.replicas[index as usize].model.get_mut();
        if !model.ends_step(self.core.now) {
            return self.show_run(index);
        }
        let step = model.step();
        model.advance(self.core.now, &mut self.events);
        self.write_through(index);
        self.take_events(index, step);
        self.stirred.push(index);
        self.refresh(index);
    }

    /// The same for all, once everything of this instant has happened: what would begin now has begun.
    fn show_runs(&mut self) {
        (0..self.core.replicas.len() as u32).for_each(|index| self.show_run(index));
    }

    fn show_run(&mut self, index: u32) {
        let model = self.core.replicas[index as usize].model.get_mut();
        model.split(self.core.now, &mut self.events);
        self.take_events(index, 0);
        self.refresh(index);
    }

    /// Why the policy can not go on, after [`Poll::Failed`].
    pub fn fault(&self) -> Option<&PolicyFault> {
        self.core.fault.as_ref()
    }

    /// The policy of `router` was asked something, and may have failed at it.
    fn heed(&mut self, router: u32) {
        if let Some(fault) = self.policies.each[router as usize].fault()
            && self.core.fault.is_none()
        {
            self.core.fault = Some(fault.clone());
        }
    }

    /// The step that `replica` waits for to be executed.
    pub fn plan(&self, replica: u32) -> Option<&StepPlan> {
        match &self.core.replicas.get(replica as usize)?.model {
            Model::Engine(engine) => engine.plan(),
            Model::Server(_) | Model::Tick(_) | Model::Vacant(_) => None,
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
        self.show_runs();
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
        self.show_runs();
        let cut = self.core.config.horizon.is_some_and(|horizon| self.core.now >= horizon);
        debug_assert!(cut || self.waiting() == 0, "requests were lost at {:?}", self.core.now);
        self.pend();
        self.core.done = true;
    }

    /// Checks every invariant of the crate's table that concerns one instant.
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self) -> Result<(), Violation> {
        // What rings at this instant may be the gateway, about to let somebody through.
        let rings = self.core.timers.first().is_some_and(|at| at <= self.core.now);
        let settled = self.stirred.is_empty() && self.executing.is_none() && !self.core.done && !rings;
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
    Scrape,
    Arrival,
}
