//! A recorded trace, played again, with its transforms.
//!
//! What is played is settled when the source is made: a slot of 24 bytes for each request, in order of arrival. Prompts are built from the trace when
//! their request is due.
//!
//! A budget (`max_tokens`) is the longest output for everybody: a trace tells how long answers were, not what clients asked for. Answers are not found in
//! caches: keys of a trace name what a conversation's next prompt says of them, and the engine names what decoding fills otherwise, so the
//! next turn computes them once more.

use super::{Workload, check};
use crate::request::Request;
use crate::trace::prompts::Copy;
use crate::trace::{Row, Shape, Trace, shelf};
use servelab_engine::random::Stream;
use servelab_engine::{Nanos, Sampling};
use servelab_spec::experiment::TraceSpec;
use servelab_spec::validate::SpecError;
use std::sync::Arc;

/// Most requests of a replay, repetitions and spikes included.
const MOST: u64 = 4_000_000;

/// One request to be played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    at: Nanos,
    row: u32,
    copy: Copy,
}

#[derive(Debug)]
struct Played {
    trace: Arc<Trace>,
    shape: Shape,
    tenants: u32,
    output_cap: u32,
    samples: Stream,
    slots: Box<[Slot]>,
}

/// The replay of a trace.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    all: Arc<Played>,
    next: u32,
}

impl Replay {
    /// Finds the trace and settles who comes when.
    ///
    /// # Errors
    /// [`SpecError`] naming the field that can not be used; the trace is not there, or nothing is left of it.
    pub(crate) fn new(spec: &TraceSpec, seed: u64, block_tokens: u32) -> Result<Self, SpecError> {
        check::tenants(spec.tenants, 0.0)?;
        check::whole("prompt_cap", spec.prompt_cap, 1, 2_000_000)?;
        check::whole("output_cap", spec.output_cap, 1, 2_000_000)?;
        check::whole("repeat", spec.repeat, 1, 1_000_000)?;
        for (field, value) in
            [("speed", spec.speed), ("prompt_scale", spec.prompt_scale), ("output_scale", spec.output_scale)]
        {
            check::real(field, value, 1e6)?;
            if value <= 0.0 {
                return Err(SpecError::new(format!("workload.{field}"), value, "use more than 0"));
            }
        }
        for (field, value, most) in [
            ("from_s", spec.from_s, 1e9),
            ("until_s", spec.until_s, 1e9),
            ("share", spec.share, 1.0),
            ("spike_at_s", spec.spike_at_s, 1e9),
            ("spike_for_s", spec.spike_for_s, 1e9),
            ("spike_factor", spec.spike_factor, 1e6),
        ] {
            check::real(field, value, most)?;
        }
        let trace = shelf::of(spec)?;
        let slots = slots(&trace, spec, seed)?;
        let all = Played {
            shape: Shape::new(&trace, spec, block_tokens),
            tenants: spec.tenants,
            output_cap: spec.output_cap,
            samples: Stream::new(seed, b"sampling"),
            slots,
            trace,
        };
        Ok(Replay { all: Arc::new(all), next: 0 })
    }

    /// Names of the tenants: the trace's, where it has names.
    pub(crate) fn tenant_names(&self) -> Vec<String> {
        let groups = self.all.trace.groups();
        let most = self.all.tenants as usize;
        let others = groups.len() > most;
        (0..most)
            .map(|tenant| match groups.get(tenant) {
                Some(_) if others && tenant + 1 == most && most > 1 => "all others".to_owned(),
                Some(name) if !name.is_empty() && groups.len() > 1 => name.clone(),
                _ => crate::population::name(tenant as u32),
            })
            .collect()
    }
}

/// Rows that are left after cutting and thinning, with their instants from the cut on.
fn kept(trace: &Trace, spec: &TraceSpec, seed: u64) -> Vec<(Nanos, u32)> {
    let until = if spec.until_s > 0.0 { Nanos::from_secs(spec.until_s) } else { Nanos::MAX };
    let from = Nanos::from_secs(spec.from_s);
    let draws = Stream::new(seed, b"thin");
    // A conversation stays whole: half of its turns would be another conversation.
    let stays = |index: u32, row: &Row| {
        let of = row.session.map_or(u64::from(index), |session| 1 << 32 | u64::from(session));
        spec.share >= 1.0 || draws.split(of).unit() < spec.share
    };
    let rows = (0u32..).zip(trace.rows());
    let inside = rows.filter(|(_, row)| row.at >= from && row.at < until);
    let left = inside.filter(|(index, row)| stays(*index, row)).take(spec.requests as usize);
    left.map(|(index, row)| (row.at.since(from), index)).collect()
}

fn slots(trace: &Trace, spec: &TraceSpec, seed: u64) -> Result<Box<[Slot]>, SpecError> {
    let rows = kept(trace, spec, seed);
    let many = rows.len() as u64;
    if many == 0 {
        let found = format!("{} to {} s of a trace of {} requests", spec.from_s, spec.until_s, trace.rows().len());
        return Err(SpecError::new("workload.from_s", found, "nothing of it is left; cut or thin it less"));
    }
    if many * u64::from(spec.repeat) > MOST {
        let found = format!("{} times {many} requests", spec.repeat);
        return Err(SpecError::new("workload.repeat", found, format!("at most {MOST} requests in all")));
    }
    let jitter = Stream::new(seed, b"spread");
    let step = if spec.spread { trace.step() } else { Nanos::ZERO };
    // A repetition begins one mean gap after the last arrival of the one before, spread or not.
    let span = rows.last().map_or(0, |last| last.0.0) + step.0;
    let period = span + span / many.max(2).saturating_sub(1);
    let mut slots: Vec<Slot> = Vec::with_capacity((many * u64::from(spec.repeat)) as usize);
    for round in 0..spec.repeat {
        let salt = if spec.repeat_fresh { round } else { 0 };
        let draws = jitter.split(round.into());
        for &(at, row) in &rows {
            let moved = if step.0 > 0 { draws.split(row.into()).below(step.0) } else { 0 };
            // Cut in time, a row may be moved past no end: instants only order the rows.
            let ns = (at.0 + moved) as f64 + round as f64 * period as f64;
            slots.push(Slot { at: Nanos(libm::round(ns / spec.speed) as u64), row, copy: Copy { salt, extra: 0 } });
        }
    }
    spike(&mut slots, spec, seed)?;
    slots.sort();
    Ok(slots.into())
}

/// Adds requests while a spike lasts: copies of others drawn at random, spread evenly at random.
fn spike(slots: &mut Vec<Slot>, spec: &TraceSpec, seed: u64) -> Result<(), SpecError> {
    if spec.spike_for_s <= 0.0 || spec.spike_factor <= 1.0 {
        return Ok(());
    }
    let many = slots.len();
    let end = slots.iter().map(|slot| slot.at).max().unwrap_or_default();
    let mean_per_s = many as f64 / end.as_secs().max(1e-9);
    let extra = libm::round(mean_per_s * spec.spike_for_s * (spec.spike_factor - 1.0));
    if many as f64 + extra > MOST as f64 {
        let found = format!("{extra} requests more");
        return Err(SpecError::new("workload.spike_factor", found, format!("at most {MOST} requests in all")));
    }
    let draws = Stream::new(seed, b"spike");
    for number in 1..=extra as u32 {
        let mut draw = draws.split(number.into());
        let of = slots[draw.below(many as u64) as usize];
        let at = Nanos::from_secs(spec.spike_at_s + draw.unit() * spec.spike_for_s);
        slots.push(Slot { at, row: of.row, copy: Copy { extra: number, ..of.copy } });
    }
    Ok(())
}

impl Workload for Replay {
    fn next_request(&mut self) -> Option<Request> {
        let request = self.request_again(self.next)?;
        self.next += 1;
        Some(request)
    }

    fn total(&self) -> u32 {
        self.all.slots.len() as u32
    }

    fn tenants(&self) -> u32 {
        self.all.tenants
    }

    fn request_again(&self, index: u32) -> Option<Request> {
        let all = &*self.all;
        let slot = all.slots.get(index as usize)?;
        let row = all.trace.rows().get(slot.row as usize)?;
        let (prompt_tokens, output_tokens) = all.shape.lengths(row);
        let seed = all.samples.split(index.into()).next_u64() >> 11;
        // Conversations of a repetition are other conversations, and an extra request belongs to none.
        let session = row.session.filter(|_| slot.copy.extra == 0);
        Some(Request {
            index,
            tenant: u32::from(row.group).min(all.tenants - 1),
            session: session.map(|session| u64::from(slot.copy.salt) << 32 | u64::from(session)),
            arrival: slot.at,
            prompt: all.shape.prompt(&all.trace, slot.row, slot.copy, prompt_tokens),
            user_at: 0,
            user_tokens: prompt_tokens,
            max_tokens: all.output_cap,
            output_tokens,
            ignore_eos: true,
            sampling: Sampling { seed, ..Sampling::default() },
            output_seed: index.into(),
            adapter: None,
        })
    }

    fn position(&self) -> (u32, Nanos) {
        (self.next, Nanos::ZERO)
    }

    /// Requests a second in the fullest of eight parts of the time.
    fn peak_rate(&self, from: Nanos, to: Nanos) -> f64 {
        let slots = &self.all.slots;
        let part = to.since(from).0 / 8;
        if part == 0 {
            return 0.0;
        }
        let before = |at: u64| slots.partition_point(|slot| slot.at.0 < at) as f64;
        let each = (0..8).map(|index| before(from.0 + (index + 1) * part) - before(from.0 + index * part));
        each.fold(0.0, f64::max) / Nanos(part).as_secs()
    }

    fn seek(&mut self, next: u32, _clock: Nanos) {
        self.next = next;
    }
}

/// How much is played in what time when nothing is hastened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Requests, repetitions included.
    pub requests: u32,
    /// From the first arrival to the last at [`TraceSpec::speed`] 1, before arrivals are spread.
    pub span: Nanos,
}

impl Pace {
    /// Mean arrival rate, requests per second; infinite when all come at one instant.
    pub fn per_s(&self) -> f64 {
        f64::from(self.requests) / self.span.as_secs()
    }
}

/// The pace at which `spec` was recorded, without its spike. It depends on the seed where only a share is kept.
///
/// # Errors
/// The trace is not there, or nothing is left of it.
pub fn pace(spec: &TraceSpec, seed: u64) -> Result<Pace, SpecError> {
    let trace = shelf::of(spec)?;
    let as_recorded = TraceSpec { speed: 1.0, spread: false, spike_for_s: 0.0, ..spec.clone() };
    let slots = slots(&trace, &as_recorded, seed)?;
    let (first, last) = (slots.first().map(|slot| slot.at), slots.last().map(|slot| slot.at));
    let span = last.zip(first).map_or(Nanos::ZERO, |(last, first)| last.since(first));
    Ok(Pace { requests: slots.len() as u32, span })
}

/// Mean prompt and output length of what is played; those of the spec where the trace is missing.
pub(crate) fn mean_lengths(spec: &TraceSpec) -> (f64, f64) {
    let Some(trace) = shelf::find(&spec.trace) else {
        return (spec.prompt_cap.into(), spec.output_cap.into());
    };
    let shape = Shape::new(&trace, spec, 1);
    let until = if spec.until_s > 0.0 { Nanos::from_secs(spec.until_s) } else { Nanos::MAX };
    let inside = trace.rows().iter().filter(|row| row.at >= Nanos::from_secs(spec.from_s) && row.at < until);
    let (mut many, mut prompts, mut outputs) = (0u64, 0u64, 0u64);
    for row in inside.take(spec.requests as usize) {
        let (prompt, output) = shape.lengths(row);
        (many, prompts, outputs) = (many + 1, prompts + u64::from(prompt), outputs + u64::from(output));
    }
    let of = |sum: u64| sum as f64 / many.max(1) as f64;
    (of(prompts), of(outputs))
}
