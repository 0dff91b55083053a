//! The latest steps of a replica, one by one: for pictures, and for whoever listens. Runs of equal steps are taken apart here.

use super::{EngineReplica, RECENT, Run};
use servelab_engine::{Nanos, StepWork};
use servelab_spec::frame::StepFrame;

impl EngineReplica {
    /// The step in flight at `now` and the latest ones before it, newest last.
    pub(crate) fn step_frames(&self, now: Nanos) -> (Option<StepFrame>, Vec<StepFrame>) {
        let mut recent = Vec::new();
        let mut current = None;
        if let (Some(flight), Some(plan)) = (&self.flight, self.engine.in_flight())
            && flight.cost.is_some()
        {
            let run =
                Run { start: flight.start, end: flight.end, clock: self.clock, work: plan.work, repeat: plan.repeat };
            let done = self.steps_done(now).min(plan.repeat - 1);
            current = Some(self.frame_of(&run, done));
            recent.extend((0..done).rev().take(RECENT).map(|step| self.frame_of(&run, step)));
        }
        for run in self.recent.iter().rev() {
            let room = RECENT - recent.len();
            recent.extend((0..run.repeat).rev().take(room).map(|step| self.frame_of(run, step)));
        }
        recent.reverse();
        (current, recent)
    }

    /// Tells start, end and work of each step that ended after `after`, oldest first, as far as the latest runs are kept.
    pub(crate) fn steps_after(&self, after: Nanos, tell: &mut dyn FnMut(Nanos, Nanos, &StepWork)) {
        let known = self.recent.iter().rev().take_while(|run| run.start >= after && run.end > after).count();
        for run in self.recent.range(self.recent.len() - known..) {
            (0..run.repeat.max(1)).for_each(|step| {
                let [start, end] = [step, step + 1].map(|steps| self.boundary_of(run, steps));
                tell(start, end, &run.work);
            });
        }
    }

    /// End of the first `steps` steps of a run that ended.
    fn boundary_of(&self, run: &Run, steps: u32) -> Nanos {
        match steps {
            0 => run.start,
            // The end of a run is not always the cost model's: measured steps are charged what they took.
            steps if steps == run.repeat.max(1) => run.end,
            steps => run.start + run.clock.preview(self.cost.run(&run.work, steps)),
        }
    }

    fn frame_of(&self, run: &Run, step: u32) -> StepFrame {
        StepFrame {
            start_s: self.boundary_of(run, step).as_secs(),
            end_s: self.boundary_of(run, step + 1).as_secs(),
            prefill_tokens: run.work.prefill_tokens as u32,
            decode_sequences: run.work.decode_sequences as u32,
        }
    }
}
