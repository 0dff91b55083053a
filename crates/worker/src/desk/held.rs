//! Pictures of a run in progress, and what they may cost it.
//!
//! Following a run, the page asks for its latest picture once per animation frame, and for a chart. A picture of 64 replicas with 4 096 blocks each takes longer
//! to write down than a slice of the simulation lasts, a chart of a million requests as long as a dozen of them. So what pictures cost is
//! measured, and the next one waits until nineteen times that has passed: whatever they cost, nineteen twentieths of the time are the run's.

use super::{Desk, State};
use crate::devices::Devices;
use servelab_engine::Nanos;
use servelab_spec::protocol::{FromWorker, ToWorker};
use std::collections::VecDeque;

/// Time for the run after each picture, in multiples of what the picture took.
const PAUSE: f64 = 19.0;

/// Requests for pictures that wait, oldest first.
#[derive(Default)]
pub(super) struct Held {
    waiting: VecDeque<ToWorker>,
    /// When the next one may be made, ms.
    from_ms: f64,
}

impl Held {
    /// A picture may be made now.
    pub(super) fn is_due(&self, now_ms: f64) -> bool {
        now_ms >= self.from_ms
    }

    /// Keeps one for later.
    pub(super) fn push(&mut self, message: ToWorker) {
        self.waiting.push_back(message);
    }

    /// The oldest one.
    pub(super) fn pop(&mut self) -> Option<ToWorker> {
        self.waiting.pop_front()
    }

    /// One has been made.
    pub(super) fn spent(&mut self, began_ms: f64, ended_ms: f64) {
        self.from_ms = ended_ms + PAUSE * (ended_ms - began_ms);
    }
}

impl<D: Devices> Desk<D> {
    /// A picture of a run at its latest instant, while it goes on.
    pub(super) fn latest(&self, message: &ToWorker) -> bool {
        let Some(open) = self.run.as_ref().filter(|open| open.state != State::Ended) else { return false };
        match *message {
            ToWorker::Frame { run, policy, t_s, .. } => {
                run == open.number && Nanos::from_secs(t_s) > open.session.simulated(policy)
            }
            ToWorker::Chart { run, .. } => run == open.number,
            _ => false,
        }
    }

    /// Answers what asks for a picture or a chart of the run.
    pub(super) fn answer(&mut self, message: ToWorker, say: &mut dyn FnMut(FromWorker)) {
        let began = (self.clock)();
        let latest = self.latest(&message);
        match message {
            ToWorker::Frame { run, policy, t_s, only } => {
                if let Some(open) = self.open_run(run) {
                    let frame = open.frame(policy, Nanos::from_secs(t_s), only);
                    say(FromWorker::Frame { run, frame: Box::new(frame) });
                }
            }
            ToWorker::Chart { run, chart } => {
                if let Some(drawn) = self.open_run(run).and_then(|open| open.session.chart(&chart).ok()) {
                    say(FromWorker::Chart { run, chart: Box::new(drawn) });
                }
            }
            _ => {}
        }
        if latest {
            self.held.spent(began, (self.clock)());
        }
    }
}
