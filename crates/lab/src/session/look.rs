//! Looking into a run at any instant already simulated: pictures, the next instant, a request's story.

use super::live::Entry;
use super::{Session, Stage};
use crate::error::RunError;
use servelab_engine::Nanos;
use servelab_fleet::{Fleet, Outcome, Poll};
use servelab_spec::experiment::Spec;
use servelab_spec::frame::Frame;
use servelab_spec::protocol::RequestStory;
use servelab_spec::validate::SpecError;
use servelab_workload::Workload;

/// A second fleet that stands where somebody looked last; playing forward goes on from there.
pub(crate) struct Look {
    policy: usize,
    fleet: Fleet,
    /// Entries of the log that it has used.
    log: usize,
}

impl Look {
    /// Moves on to `t`; a live run's steps come from its record.
    fn go(&mut self, log: &[Entry], t: Nanos) -> Result<(), RunError> {
        loop {
            let poll = self.fleet.poll(t, u32::MAX);
            self.fleet.take_ended(&mut |_| {});
            match poll {
                Poll::Execute { .. } | Poll::Start { .. } => match log.get(self.log) {
                    Some(entry) => {
                        entry.feed(&mut self.fleet, poll)?;
                        self.log += 1;
                    }
                    // What is being computed right now.
                    None => return Ok(()),
                },
                Poll::Paused => {}
                Poll::Reached | Poll::Done | Poll::Failed => return Ok(()),
            }
        }
    }
}

impl Session {
    /// The picture of a policy's fleet at `t`, or at the latest instant simulated when `t` is later. A policy that has finished rests
    /// from then on: its pictures go on for as long as any policy's run does.
    ///
    /// # Errors
    /// When there is no such policy.
    pub fn frame(&mut self, policy: u32, t: Nanos) -> Result<Frame, RunError> {
        self.frame_with(policy, t, |fleet| fleet.frame(policy))
    }

    /// The same, with everything of the replica `only` and counts of the others.
    ///
    /// # Errors
    /// When there is no such policy.
    pub fn frame_of(&mut self, policy: u32, t: Nanos, only: u32) -> Result<Frame, RunError> {
        self.frame_with(policy, t, |fleet| fleet.frame_of(policy, only))
    }

    fn frame_with(&mut self, policy: u32, t: Nanos, picture: impl Fn(&mut Fleet) -> Frame) -> Result<Frame, RunError> {
        let at = self.index(policy)?;
        let Some(stage) = &mut self.stage else { return Ok(Frame { policy, ..Frame::default() }) };
        if t >= stage.runs[at].fleet.now() {
            let end = stage.runs.iter().map(|run| run.fleet.now()).max().unwrap_or(Nanos::ZERO);
            let fleet = &mut stage.runs[at].fleet;
            let mut frame = picture(fleet);
            if fleet.is_done() {
                frame.t_s = t.min(end).as_secs();
            }
            return Ok(frame);
        }
        Ok(picture(&mut stage.look_at(&self.spec, at, t)?.fleet))
    }

    /// The first instant after `t` at which something happens (a step ends, a request arrives); the latest instant simulated when
    /// that is not known yet, and `t` itself when that is later: another policy's run may be longer, and a step never goes back.
    ///
    /// # Errors
    /// When there is no such policy.
    pub fn next_instant(&mut self, policy: u32, t: Nanos) -> Result<Nanos, RunError> {
        let at = self.index(policy)?;
        let Some(stage) = &mut self.stage else { return Ok(t) };
        let head = stage.runs[at].fleet.now();
        if t >= head {
            return Ok(t);
        }
        let fleet = &mut stage.look_at(&self.spec, at, t)?.fleet;
        // Runs of equal steps are one event; the picture knows where the step in progress ends.
        let frame = fleet.frame(policy);
        let ends = frame.replicas.iter().filter_map(|replica| replica.step.as_ref());
        let ends = ends.map(|step| Nanos::from_secs(step.end_s)).filter(|&end| end > t);
        let next = ends.chain(fleet.next_event_time()).min();
        Ok(next.map_or(head, |next| next.min(head)))
    }

    /// A request's story under a policy; `detokenise` turns generated token ids into text. `None` when it has not arrived yet.
    ///
    /// # Errors
    /// When there is no such policy or no such request.
    pub fn story(
        &mut self,
        policy: u32,
        request: u32,
        detokenise: &dyn Fn(&[u32]) -> String,
    ) -> Result<Option<RequestStory>, RunError> {
        let at = self.index(policy)?;
        let Some(stage) = &mut self.stage else { return Ok(None) };
        let Some(&arrival) = stage.arrivals.get(request as usize) else {
            let accepted = format!("accepted are 0 to {}", stage.arrivals.len().saturating_sub(1));
            return Err(SpecError::new("request", request, accepted).into());
        };
        if arrival > stage.runs[at].fleet.now() {
            return Ok(None);
        }
        let Some(asked) = stage.source.request_again(request) else { return Ok(None) };
        let mut story = RequestStory {
            request,
            tenant: stage.tenants.get(asked.tenant as usize).cloned().unwrap_or_default(),
            arrival_s: arrival.as_secs(),
            prompt_tokens: asked.prompt.len,
            prompt: stage.source.prompt_text(request),
            ..RequestStory::default()
        };
        let run = &stage.runs[at];
        let mut tokens: Vec<u32> = vec![];
        if let Some(record) = run.records.iter().find(|record| record.index == request) {
            story.replica = record.replica;
            story.queue_s = record.admitted.map(|at| at.since(record.arrival).as_secs());
            story.ttft_s = record.ttft().map(Nanos::as_secs);
            story.itl_s = record.itl_s();
            story.cached_tokens = record.cached_tokens;
            story.fetched_tokens = record.fetched_tokens;
            story.output_tokens = record.output_tokens;
            tokens.clone_from(&record.output);
            match record.outcome {
                Outcome::Rejected { code, .. } => story.why = format!("refused with status {code}"),
                Outcome::Lost { .. } => story.why = "lost with its replica".into(),
                Outcome::TimedOut => story.why = "its client waited no longer".into(),
                Outcome::Abandoned => story.why = "its client gave it up".into(),
                Outcome::Finished | Outcome::Pending => {}
            }
        } else if let Some(output) = run.fleet.output(request) {
            tokens.extend(output);
            story.output_tokens = tokens.len() as u32;
        }
        story.output = (!tokens.is_empty()).then(|| detokenise(&tokens));
        // The fleet just before, so that what replicas have to offer is seen when the request is routed.
        let before = Nanos(arrival.0.saturating_sub(1));
        stage.look_at(&self.spec, at, before)?;
        let Stage { look, runs, .. } = stage;
        let Some(look) = look else { return Ok(Some(story)) };
        look.fleet.explain(request);
        look.go(&runs[at].log, arrival)?;
        if let Some(decision) = look.fleet.decision(request) {
            story.why = decision.why.clone().into_owned();
            story.scores.clone_from(&decision.scores);
            story.offers.clone_from(&decision.offers);
            story.router = decision.router;
            story.expected_tokens = decision.expected_hit;
            story.replica = story.replica.or(Some(decision.replica));
        }
        Ok(Some(story))
    }

    fn index(&self, policy: u32) -> Result<usize, RunError> {
        let count = self.spec.contenders().len();
        let accepted = || format!("accepted are 0 to {}", count - 1);
        let index = policy as usize;
        if index < count { Ok(index) } else { Err(SpecError::new("policy", policy, accepted()).into()) }
    }
}

impl Stage {
    /// A fleet of its own at `t`: the one that looked last if it stands before `t`, else one restored from the nearest kept state.
    fn look_at(&mut self, spec: &Spec, policy: usize, t: Nanos) -> Result<&mut Look, RunError> {
        let run = &self.runs[policy];
        let key = run.keyframes.before(t);
        let standing = self.look.take().filter(|look| look.policy == policy && look.fleet.now() <= t);
        let mut look = match (standing, key) {
            // Going on is only worth it when no kept state is nearer.
            (Some(look), key) if key.is_none_or(|key| key.at <= look.fleet.now()) => look,
            (_, Some(key)) => Look { policy, fleet: Fleet::restore(key.state.clone())?, log: key.log },
            (_, None) => Look { policy, fleet: self.fresh(spec, policy)?, log: 0 },
        };
        look.go(&self.runs[policy].log, t)?;
        Ok(self.look.insert(look))
    }
}

/// Byte tokens as text: printable ASCII as it is, other bytes as `\xNN`, ids that are no byte as `<id>`.
pub fn byte_text(tokens: &[u32]) -> String {
    let mut out = String::new();
    for &token in tokens {
        match u8::try_from(token) {
            Ok(b'\n') => out.push('\n'),
            Ok(byte) => out.push_str(&byte.escape_ascii().to_string()),
            Err(_) => out.push_str(&format!("<{token}>")),
        }
    }
    out
}
