//! The clients of a run: their rules, and what their processes remember.

use super::breaker::BreakerState;
use super::budget::{Budget, BudgetState, Load};
use super::policy::{ClientClass, ClientPolicy, Crowd, Pace};
use super::window::Window;
use super::{Failure, Obey};
use crate::record::Refusal;
use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;
use servelab_engine::random::Stream;
use servelab_workload::Request;
use std::collections::{BTreeMap, VecDeque};

/// Whose request it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Whose {
    pub(crate) class: u32,
    pub(crate) process: u32,
}

/// What a client process remembers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Process {
    active: u32,
    retrying: u32,
    budget: BudgetState,
    breaker: Option<BreakerState>,
    throttle: Option<Window>,
}

impl Process {
    fn new(policy: &ClientPolicy) -> Self {
        Process {
            active: 0,
            retrying: 0,
            budget: policy.budget.start(),
            breaker: policy.breaker.map(|breaker| breaker.start()),
            throttle: policy.throttle.map(|_| Window::new()),
        }
    }
}

/// A session whose turn is under way, and the turns that wait for it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Conversation {
    busy: bool,
    waiting: VecDeque<Request>,
}

/// All clients of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Clients {
    pub(crate) crowd: Crowd,
    processes: Vec<Vec<Process>>,
    sessions: BTreeMap<u64, Conversation>,
    /// Turns that wait, of all sessions.
    held: u64,
    draws: Stream,
}

impl Clients {
    pub(crate) fn new(crowd: Crowd, seed: u64) -> Self {
        let of = |class: &ClientClass| vec![Process::new(&class.policy); class.processes as usize];
        let processes = crowd.classes.iter().map(of).collect();
        Clients { processes, crowd, sessions: BTreeMap::new(), held: 0, draws: Stream::new(seed, b"clients") }
    }

    /// The state and the rules belong together; what a saved state must satisfy.
    pub(crate) fn is_sound(&self) -> bool {
        let sized = self.crowd.classes.iter().map(|class| class.processes as usize);
        let held: usize = self.sessions.values().map(|session| session.waiting.len()).sum();
        self.crowd.validate().is_ok() && sized.eq(self.processes.iter().map(Vec::len)) && held as u64 == self.held
    }

    /// Draws of the request `index`; every use splits them once more.
    fn draws(&self, purpose: u64, index: u32) -> Stream {
        self.draws.split(purpose).split(index.into())
    }

    /// Whose the request is: of a class drawn by its share and of any of its processes. All turns of a session are one client's, and all requests
    /// of a user.
    pub(crate) fn whose(&self, request: &Request, user: Option<u32>) -> Whose {
        let classes = &self.crowd.classes;
        if classes.len() == 1 && classes[0].processes == 1 {
            return Whose::default();
        }
        let mut draw = match (user, request.session) {
            (Some(user), _) => self.draws(1, user),
            (None, Some(session)) => self.draws.split(2).split(session),
            (None, None) => self.draws(3, request.index),
        };
        let mut left = draw.unit() * classes.iter().map(|class| class.share).sum::<f64>();
        let class = classes.iter().position(|class| {
            left -= class.share;
            left < 0.0
        });
        let class = class.unwrap_or(classes.len() - 1);
        Whose { class: class as u32, process: draw.below(classes[class].processes.into()) as u32 }
    }

    pub(crate) fn policy(&self, whose: Whose) -> &ClientPolicy {
        &self.crowd.classes[whose.class as usize].policy
    }

    fn of(&mut self, whose: Whose) -> (&ClientPolicy, &mut Process) {
        let class = whose.class as usize;
        (&self.crowd.classes[class].policy, &mut self.processes[class][whose.process as usize])
    }

    /// Every process gets this budget, as new.
    pub(crate) fn set_budget(&mut self, budget: Budget) {
        self.crowd.classes.iter_mut().for_each(|class| class.policy.budget = budget);
        self.processes.iter_mut().flatten().for_each(|process| process.budget = budget.start());
    }

    /// Attempts under way of all processes, and retries that are under way or wait.
    pub(crate) fn loads(&self) -> (u64, u64) {
        let processes = self.processes.iter().flatten();
        processes.fold((0, 0), |sum, process| (sum.0 + u64::from(process.active), sum.1 + u64::from(process.retrying)))
    }

    /// Whether an attempt is sent at all; `first`: it is the first of its request.
    pub(crate) fn sends(&mut self, now: Nanos, whose: Whose, index: u32, number: u32) -> Result<(), Refusal> {
        let mut draw = self.draws(4, index).split(number.into());
        let (policy, process) = self.of(whose);
        if number == 1 {
            policy.budget.requested(&mut process.budget, now);
        }
        if let (Some(breaker), Some(state)) = (&policy.breaker, &mut process.breaker)
            && !breaker.lets_through(state, now, number > 1)
        {
            return Err(Refusal::ClientBreaker);
        }
        if let (Some(throttle), Some(state)) = (&policy.throttle, &mut process.throttle)
            && !throttle.sends(state, now, &mut draw)
        {
            return Err(Refusal::ClientThrottle);
        }
        process.active += 1;
        Ok(())
    }

    /// An attempt that was sent is under way no longer, as far as its client knows.
    pub(crate) fn ended(&mut self, whose: Whose) {
        self.of(whose).1.active -= 1;
    }

    /// A request that was tried again, or was to be, has ended, or will not be.
    pub(crate) fn retried(&mut self, whose: Whose) {
        self.of(whose).1.retrying -= 1;
    }

    /// An attempt was answered.
    pub(crate) fn succeeded(&mut self, now: Nanos, whose: Whose) {
        let (policy, process) = self.of(whose);
        policy.budget.answered(&mut process.budget, true);
        if let (Some(breaker), Some(state)) = (&policy.breaker, &mut process.breaker) {
            breaker.answered(state, now, true);
        }
        if let (Some(throttle), Some(state)) = (&policy.throttle, &mut process.throttle) {
            throttle.accepted(state, now);
        }
    }

    /// An attempt failed.
    pub(crate) fn failed(&mut self, now: Nanos, whose: Whose, failure: &Failure) {
        let (policy, process) = self.of(whose);
        // A request that is wrong says nothing of the backend, nor does what never left the client.
        let own = matches!(failure.cause, super::Cause::Refused(refusal) if refusal.is_the_clients());
        if failure.code == 400 || own {
            return;
        }
        policy.budget.answered(&mut process.budget, false);
        if let (Some(breaker), Some(state)) = (&policy.breaker, &mut process.breaker) {
            breaker.answered(state, now, false);
        }
    }

    /// Pays for one more attempt beside or after others; `retrying`: its request is counted among those tried again already.
    pub(crate) fn pays(&mut self, now: Nanos, whose: Whose, retrying: bool) -> bool {
        let (policy, process) = self.of(whose);
        let load = Load { active: process.active, retrying: process.retrying - u32::from(retrying) };
        let breaker = match (&policy.breaker, &mut process.breaker) {
            (Some(breaker), Some(state)) if breaker.retries_only => breaker.lets_through(state, now, true),
            _ => true,
        };
        let paid = breaker && policy.budget.take(&mut process.budget, now, load);
        process.retrying += u32::from(paid && !retrying);
        paid
    }

    /// How long to wait before the attempt after number `number`, which failed; and whether the backoff begins again with that. `since`:
    /// failures since it last did.
    pub(crate) fn wait(
        &self,
        whose: Whose,
        index: u32,
        (number, made, since): (u32, u32, u32),
        previous: Option<Nanos>,
        said: Option<Nanos>,
    ) -> Option<(Nanos, bool)> {
        let policy = self.policy(whose);
        let (backoff, nth) = policy.next(made)?;
        let mut draw = self.draws(5, index).split(number.into());
        if policy.retry_after.obey != Obey::Ignored
            && let Some(wait) = policy.retry_after.wait(said, &mut draw)
        {
            return Some((wait, policy.retry_after.restarts_backoff));
        }
        Some((backoff.wait(nth.min(since), previous, &mut draw), false))
    }

    /// A time of thinking with mean `mean`, drawn for what comes after request `index`.
    fn thinks(&self, index: u64, mean: Nanos) -> Nanos {
        let draw = self.draws.split(6).split(index).exponential();
        Nanos(libm::round(draw * mean.0 as f64) as u64)
    }

    /// When the users of a closed loop send first: each after a time of thinking.
    pub(crate) fn users(&self) -> Vec<Nanos> {
        let Pace::Closed { users, think } = self.crowd.pace else { return Vec::new() };
        (0..users).map(|user| self.thinks(u64::MAX - u64::from(user), think)).collect()
    }

    /// How long whoever sent request `index` thinks before the next; `None` in an open loop.
    pub(crate) fn think(&self, index: u32) -> Option<Nanos> {
        match self.crowd.pace {
            Pace::Open => None,
            Pace::Closed { think, .. } | Pace::Sessions { think } => Some(self.thinks(index.into(), think)),
        }
    }

    /// Requests come when their users are ready, not when the workload says.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.crowd.pace, Pace::Closed { .. })
    }

    /// A turn is due. It comes back when it may be sent; otherwise it waits for the turn before.
    pub(crate) fn turn(&mut self, request: Request) -> Option<Request> {
        let Some(session) = request.session.filter(|_| matches!(self.crowd.pace, Pace::Sessions { .. })) else {
            return Some(request);
        };
        let conversation = self.sessions.entry(session).or_default();
        if conversation.busy {
            conversation.waiting.push_back(request);
            self.held += 1;
            return None;
        }
        conversation.busy = true;
        Some(request)
    }

    /// A session has thought about its latest answer: its next turn, if one waits.
    pub(crate) fn next_turn(&mut self, session: u64) -> Option<Request> {
        let conversation = self.sessions.get_mut(&session)?;
        let next = conversation.waiting.pop_front();
        match next {
            Some(_) => self.held -= 1,
            None => {
                self.sessions.remove(&session);
            }
        }
        next
    }

    /// Turns that wait for the one before.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }
}
