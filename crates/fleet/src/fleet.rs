//! The event loop.
//!
//! Events happen in order of time. Within one instant, steps end first (in order of replica), then the gateway lets through whom it
//! can, then timers ring (in order of insertion), then engine metrics are scraped, then requests arrive (in the source's order); when all that has happened, replicas start what they can. A fixed order of kinds,
//! rather than of insertion alone, is what makes runs of equal steps invisible: whether a step was announced alone or as part of a
//! run, it ends at the same place in the order.

mod admission;
mod answers;
mod attempts;
mod cancels;
mod capacity;
mod changes;
mod check;
mod decisions;
mod deploys;
mod dispatch;
mod events;
mod faults;
mod fetches;
mod flights;
mod flow;
mod frame;
mod lives;
mod look;
mod outside;
mod patience;
mod routers;
mod saved;
mod scaler;
mod signals;
mod slab;
mod spares;
mod tape;
mod timers;
mod tournament;

pub use capacity::Capacity;
pub use check::Violation;
pub use decisions::DecisionRecord;
pub use flow::{Flow, FlowBin};
pub use saved::FleetState;
pub use tape::{AttemptHeard, Condition, ConditionHeard, Ending, Gauges, GaugesHeard, Heard, StepHeard};

use crate::clients::crowd::Clients;
use crate::config::FleetConfig;
use crate::error::FleetError;
use crate::gateway::Gateway;
use crate::record::{Counts, Fates, FirstSight, RefusalCount, RequestRecord, Work};
use crate::replica::{Model, Replica};
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
use servelab_engine::{BlockKey, EngineEvent, KvChange, Nanos, SequenceId, StepOutput, StepPlan};
use servelab_spec::experiment::{PolicySpec, Stage};
use servelab_spec::validate::SpecError;
use servelab_workload::{Request, Source, Workload};
use timers::{Timer, Timers};
use tournament::Tournament;

/// Events between two checks of all invariants in debug builds, at least; with many requests in flight a sixteenth of their number, since checking costs
/// as much as there is in flight.
const CHECK_EVERY: u32 = 61;

/// Why [`Fleet::poll`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// Execute [`Fleet::plan`] of this replica and call [`Fleet::executed`]; time stands still until then.
    Execute {
        /// The replica.
        replica: u32,
    },
    /// Do this stage of the replica's start and call [`Fleet::booted`]; time stands still until then.
    Start {
        /// The replica.
        replica: u32,
        /// The stage.
        stage: Stage,
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
    /// Replicas whose driver is asked for a stage of their start, in order.
    booting: Vec<u32>,
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
    /// What is told to whoever listens.
    tape: Option<Box<tape::Tape>>,
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
    #[serde(default)]
    first_sight: FirstSight,
    flow: Flow,
    /// Faults of telemetry under way.
    stale: u32,
    /// When the last one was over.
    fresh_from: Nanos,
    /// Replicas about to crash at this instant, and the attempts that make them.
    #[serde(default)]
    crashing: Vec<(u32, SequenceId)>,
    /// A step has ended since the gateway was last asked who may pass.
    #[serde(default)]
    freed: bool,
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
        if !config.executes() && !policies.read_prompts() {
            source.leave_words_out();
        }
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
            first_sight: FirstSight::default(),
            flow: Flow::default(),
            stale: 0,
            fresh_from: Nanos::ZERO,
            crashing: Vec::new(),
            freed: false,
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
    fn around(mut core: Core, mut policies: Policies, controller: Option<Box<dyn Controller>>) -> Self {
        let n = core.replicas.len() as u32;
        let scratch = dispatch::Scratch::new(&core);
        policies.replicas_changed(scratch.ready());
        if !core.config.executes() && !policies.read_prompts() {
            core.source.leave_words_out();
        }
        let draws = Stream::new(core.config.seed, b"routing");
        let routing = Stream::new(core.config.seed, b"router");
        let errors = Stream::new(core.config.seed, b"errors");
        let admission = Stream::new(core.config.seed, b"gateway");
        let booting = (0..n).filter(|&index| core.replicas[index as usize].boot.asked).collect();
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
            booting,
            draws,
            routing,
            errors,
            admission,
            events: Vec::new(),
            kv_changes: Vec::new(),
            filled: Vec::new(),
            scratch,
            explain: None,
            tape: None,
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
        // What is due at this instant may let somebody through, or end the wait of a queue.
        let now = self.core.now;
        let due = self.core.freed || self.ends.first().0 <= now || self.core.timers.may_ring(now);
        let settled = self.stirred.is_empty() && self.executing.is_none() && !self.core.done && !due;
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
