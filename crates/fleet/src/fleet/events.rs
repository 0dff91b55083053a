//! One event after the other, in their order.

use super::timers::Timer;
use super::{CHECK_EVERY, Fleet, Poll};
use crate::replica::Next;
use servelab_engine::Nanos;
use servelab_workload::Workload;

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    StepEnd(u32),
    Timer,
    Scrape,
    Arrival,
}

impl Fleet {
    pub(super) fn run(&mut self, until: Nanos, max_events: u32) -> Poll {
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
            if let Some((replica, stage)) = self.asks_to_boot() {
                return Poll::Start { replica, stage };
            }
            if self.core.done {
                return Poll::Done;
            }
            // Not between two steps that end at once: whoever is let through would be routed by what one of them, or both, had left to do.
            if self.core.freed && self.ends.first().0 > self.core.now {
                self.core.freed = false;
                self.release();
                continue;
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
            self.note_conditions();
            self.unchecked += 1;
            if self.unchecked >= CHECK_EVERY.max(self.core.flights.requests.len() as u32 / 16) {
                self.debug_check(false);
            }
        }
    }

    /// The next event, in the order this module's text gives.
    pub(super) fn next_event(&mut self) -> Option<(Nanos, Event)> {
        let (end, replica) = self.ends.first();
        let next = self.core.next_request.as_ref().filter(|_| !self.core.clients.is_closed());
        let arrival = next.map_or(Nanos::MAX, |request| request.arrival);
        let scrape = self.core.next_scrape;
        let other = end.min(scrape).min(arrival);
        let timer = self.core.timers.first(other).unwrap_or(Nanos::MAX);
        let at = other.min(timer);
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
    pub(super) fn refresh(&mut self, index: u32) {
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
        self.note_replica(index);
    }

    /// Splits every run of equal steps at the present instant: what has been done is told, the step in progress stays.
    pub(super) fn split_runs(&mut self) {
        (0..self.core.replicas.len() as u32).for_each(|index| self.split_run(index));
    }

    /// The same for one replica. A step that ends at this very instant ends, as it would have before anything else happened, and the next one has not begun.
    pub(super) fn split_run(&mut self, index: u32) {
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
    pub(super) fn show_runs(&mut self) {
        (0..self.core.replicas.len() as u32).for_each(|index| self.show_run(index));
    }

    fn show_run(&mut self, index: u32) {
        let model = self.core.replicas[index as usize].model.get_mut();
        model.split(self.core.now, &mut self.events);
        self.take_events(index, 0);
        self.refresh(index);
    }
}
