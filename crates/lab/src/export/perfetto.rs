//! A run as a trace in Chrome's JSON trace event format, which [Perfetto](https://ui.perfetto.dev) and `chrome://tracing` open.
//!
//! Of each policy there is a process for gateway and routers and one for each replica. A replica's tracks are its steps, its slots (what a request does in the
//! batch: prefill, decode) and its life; its counters are what waits, what runs and the share of KV blocks in use. A request is one slice from arrival to end
//! and one flow: arrival → routed → first admission → first token → end, with all of its attempts on the way. Attempts that are turned away are instants.
//!
//! Times are those of the report: microseconds of virtual time, to the nanosecond. A trace has a bounded number of events; what is left out is said in it
//! (`otherData.left_out`, and an instant where a policy's part breaks off).

use super::record::{Record, listen};
use crate::catalog;
use crate::error::RunError;
use crate::presets;
use crate::report::gateway::cause;
use crate::session::{Session, Stage};
use serde_json::{Value, json};
use servelab_engine::Nanos;
use servelab_fleet::Outcome;
use servelab_fleet::fleet::{AttemptHeard, Ending};
use std::collections::BTreeMap;

/// Events of a whole trace, about: 20 to 30 MB of text, which viewers still open at once.
pub const MOST_EVENTS: usize = 200_000;

const STEPS: usize = 1;
const LIFE: usize = 2;
const STARTS: usize = 3;
/// First thread of a kind of which there are as many as overlap.
const SLOTS: usize = 100;
const WAITS: usize = 100_000;
const ROUTERS: usize = 10;
const DOORS: usize = 1000;

/// The trace of a session of at most about `most` events.
///
/// # Errors
/// When a live run's record contradicts itself.
pub fn trace(session: &Session, most: usize) -> Result<String, RunError> {
    let mut writer = Writer::default();
    let mut left_out = Vec::new();
    if let Some(stage) = &session.stage {
        let contenders = session.spec().contenders();
        for (at, contender) in contenders.iter().enumerate() {
            let fleet = &stage.runs[at].fleet;
            if fleet.now() == Nanos::ZERO && !fleet.is_done() {
                continue;
            }
            let label = catalog::contender_label(session.spec(), *contender);
            let record = listen(session, stage, at, most / contenders.len())?;
            if record.cut {
                let (all, told) = (stage.survey.requests, record.arrived);
                left_out.push(format!(
                    "{label}: everything after {} s, with the arrivals of {} of {all} requests",
                    record.until.as_secs(),
                    all - told.min(all)
                ));
            }
            Part { writer: &mut writer, label, stage, record }.write();
        }
    }
    let spec = session.spec();
    let base = presets::find(&spec.preset).map(|preset| preset.spec).unwrap_or_default();
    let other = json!({
        "generator": concat!("servelab ", env!("CARGO_PKG_VERSION")),
        "experiment": servelab_spec::patch::encode(spec, &base),
        "seed": spec.seed,
        "left_out": left_out,
    });
    Ok(format!("{{\"displayTimeUnit\":\"ms\",\"otherData\":{other},\"traceEvents\":[\n{}\n]}}\n", writer.lines))
}

/// Events, one a line.
#[derive(Default)]
struct Writer {
    lines: String,
    /// Numbers of processes given away.
    processes: usize,
    /// Numbers of requests given away: flows and requests of all policies are told apart.
    requests: usize,
}

impl Writer {
    fn event(&mut self, phase: &str, name: &str, (process, thread): (usize, usize), at: Nanos, more: &[(&str, Value)]) {
        if !self.lines.is_empty() {
            self.lines.push_str(",\n");
        }
        let name = Value::from(name);
        let head =
            format!("{{\"ph\":\"{phase}\",\"name\":{name},\"pid\":{process},\"tid\":{thread},\"ts\":{}", micros(at));
        self.lines.push_str(&head);
        for (key, value) in more {
            // Durations are given as nanoseconds, so that no binary fraction comes between.
            match (*key, value.as_u64()) {
                ("dur", Some(nanos)) => self.lines.push_str(&format!(",\"dur\":{}", micros(Nanos(nanos)))),
                _ => self.lines.push_str(&format!(",\"{key}\":{value}")),
            }
        }
        self.lines.push('}');
    }

    fn slice(&mut self, name: &str, track: (usize, usize), from: Nanos, until: Nanos, category: &str, args: Value) {
        let dur = Value::from(until.since(from).0);
        self.event("X", name, track, from, &[("dur", dur), ("cat", category.into()), ("args", args)]);
    }

    fn named(&mut self, what: &str, track: (usize, usize), name: &str, order: usize) {
        self.event("M", &format!("{what}_name"), track, Nanos::ZERO, &[("args", json!({ "name": name }))]);
        self.event("M", &format!("{what}_sort_index"), track, Nanos::ZERO, &[("args", json!({ "sort_index": order }))]);
    }

    fn process(&mut self, name: &str) -> usize {
        self.processes += 1;
        self.named("process", (self.processes, 0), name, self.processes);
        self.processes
    }

    /// A point of a request's flow, bound to the slice that was written last on that track.
    fn flow(&mut self, phase: &str, id: usize, track: (usize, usize), at: Nanos) {
        let more = [("cat", "flow".into()), ("id", id.into()), ("bp", "e".into())];
        self.event(phase, "request", track, at, if phase == "f" { &more } else { &more[..2] });
    }
}

/// Microseconds, to the nanosecond.
fn micros(at: Nanos) -> String {
    match (at.0 / 1000, at.0 % 1000) {
        (whole, 0) => whole.to_string(),
        (whole, rest) => format!("{whole}.{rest:03}"),
    }
}

/// Threads of one kind: as many as are needed for nothing on one of them to overlap.
#[derive(Default)]
struct Lanes(Vec<Nanos>);

impl Lanes {
    /// The first that is free from `from` on; it is taken until `until`.
    fn take(&mut self, from: Nanos, until: Nanos) -> usize {
        let free = self.0.iter().position(|&busy| busy <= from).unwrap_or_else(|| {
            self.0.push(Nanos::ZERO);
            self.0.len() - 1
        });
        self.0[free] = until;
        free
    }
}

/// One policy's part of a trace.
struct Part<'a> {
    writer: &'a mut Writer,
    label: String,
    stage: &'a Stage,
    record: Record,
}

/// A request with its attempts.
struct Request {
    /// Its number in the trace.
    id: usize,
    name: String,
    /// Positions of its attempts, the first one first.
    attempts: Vec<usize>,
    /// The one that ends last.
    last: usize,
}

impl Part<'_> {
    fn write(mut self) {
        let front = self.writer.process(&format!("{}: gateway and routers", self.label));
        let requests = self.requests(front);
        // The attempt's request, and whether its flow begins and ends with it.
        let mut of: BTreeMap<usize, (&Request, bool, bool)> = BTreeMap::new();
        for request in &requests {
            for &at in &request.attempts {
                of.insert(at, (request, request.attempts.first() == Some(&at), request.last == at));
            }
        }
        self.front(front, &of);
        let replicas = self.replicas();
        for (replica, conditions) in replicas {
            self.replica(replica, conditions, &of);
        }
        if self.record.cut {
            let text = "left out from here: the trace would be too large";
            self.writer.event("i", text, (front, 0), self.record.until, &[("s", "g".into())]);
        }
    }

    /// Every request as a slice from its arrival to its end.
    fn requests(&mut self, front: usize) -> Vec<Request> {
        let heard = &self.record.heard.attempts;
        let mut attempts: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, attempt) in heard.iter().enumerate() {
            attempts.entry(attempt.request).or_default().push(at);
        }
        let mut requests = Vec::with_capacity(attempts.len());
        for (index, mut attempts) in attempts {
            attempts.sort_by_key(|&at| heard[at].number);
            let (first, last) =
                (attempts[0], attempts.iter().copied().max_by_key(|&at| (heard[at].end, heard[at].number)));
            self.writer.requests += 1;
            let id = self.writer.requests;
            let tenant = self.stage.tenant_of(index).unwrap_or_default();
            let name = format!("{tenant} {index}");
            let (end, outcome) = match self.record.ends.get(&index) {
                Some((end, outcome)) => (*end, ended(outcome)),
                None => (self.record.until, "under way"),
            };
            let more = [("cat", Value::from("request")), ("id", id.into())];
            let args = json!({ "request": index, "tenant": tenant, "attempts": attempts.len(), "ended": outcome });
            let begin = [more[0].clone(), more[1].clone(), ("args", args)];
            self.writer.event("b", &name, (front, 0), heard[first].offered, &begin);
            self.writer.event("e", &name, (front, 0), end, &more);
            requests.push(Request { id, name, last: last.unwrap_or(first), attempts });
        }
        requests
    }

    /// Gateway and routers: what is held, who is turned away, where requests go.
    fn front(&mut self, front: usize, of: &BTreeMap<usize, (&Request, bool, bool)>) {
        let Part { writer, record, .. } = self;
        let heard = &record.heard.attempts;
        let (mut doors, mut refusals) = (Lanes::default(), 0);
        let mut routers: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for at in sorted(heard, |attempt| Some(attempt.offered)) {
            let (attempt, (request, begins, ends)) = (&heard[at], of[&at]);
            let until = attempt.sent.map_or(attempt.end, |(sent, ..)| sent);
            let track = (front, DOORS + doors.take(attempt.offered, until));
            let args = json!({ "request": attempt.request, "attempt": attempt.number });
            writer.slice(&request.name, track, attempt.offered, until, "gateway", args);
            writer.flow(if begins { "s" } else { "t" }, request.id, track, attempt.offered);
            if attempt.sent.is_none() && ends {
                writer.flow("f", request.id, track, attempt.end);
            }
            if let Ending::Refused { cause: refusal, code } = attempt.ending {
                refusals += 1;
                let args = json!({ "request": attempt.request, "attempt": attempt.number, "status": code,
                    "by": serde_json::to_value(refusal.by()).unwrap_or_default() });
                let name = format!("refused: {}", cause(refusal));
                let more = [("s", "t".into()), ("cat", "refusal".into()), ("args", args)];
                writer.event("i", &name, (front, 1), attempt.end, &more);
            }
            if let Some((.., router)) = attempt.sent {
                routers.entry(router).or_default().push(at);
            }
        }
        if refusals > 0 {
            writer.named("thread", (front, 1), "refusals", 1);
        }
        for (router, mut routed) in routers {
            let track = (front, ROUTERS + router as usize);
            writer.named("thread", track, &format!("router {router}"), track.1);
            routed.sort_by_key(|&at| (heard[at].sent, heard[at].request, heard[at].number));
            for at in routed {
                let (attempt, (request, ..)) = (&heard[at], of[&at]);
                let Some((sent, replica, _)) = attempt.sent else { continue };
                let args = json!({ "request": attempt.request, "attempt": attempt.number, "replica": replica });
                writer.slice(&format!("→ replica {replica}"), track, sent, sent, "routing", args);
                writer.flow("t", request.id, track, sent);
            }
        }
        for lane in 0..doors.0.len() {
            writer.named("thread", (front, DOORS + lane), "gateway", DOORS + lane);
        }
    }

    /// Replicas of which anything was heard, and whether they change their condition.
    fn replicas(&self) -> BTreeMap<u32, usize> {
        let heard = &self.record.heard;
        let mut replicas = BTreeMap::new();
        for condition in &heard.conditions {
            if !self.record.spells(condition.replica).is_empty() {
                *replicas.entry(condition.replica).or_default() += 1;
            }
        }
        replicas
    }

    fn replica(&mut self, replica: u32, conditions: usize, of: &BTreeMap<usize, (&Request, bool, bool)>) {
        let Part { writer, record, label, .. } = self;
        let process = writer.process(&format!("{label}: replica {replica}"));
        let steps: Vec<_> = record.heard.steps.iter().filter(|step| step.replica == replica).collect();
        if !steps.is_empty() {
            writer.named("thread", (process, STEPS), "steps", STEPS);
        }
        for step in steps {
            let (prefill, decode) = (step.work.prefill_tokens, step.work.decode_sequences);
            let name = match (prefill, decode) {
                (0, _) => "decode",
                (_, 0) => "prefill",
                _ => "prefill and decode",
            };
            let args = json!({ "prefill_tokens": prefill, "decode_sequences": decode });
            writer.slice(name, (process, STEPS), step.start, step.end, "step", args);
        }
        // A replica that is ready from beginning to end has no life to tell of.
        let spells = record.spells(replica);
        if conditions > 1 {
            writer.named("thread", (process, LIFE), "life", LIFE);
            for spell in spells {
                writer.slice(spell.name, (process, LIFE), spell.from, spell.until, "life", json!({}));
            }
        }
        let stages = record.stages(replica);
        if !stages.is_empty() {
            writer.named("thread", (process, STARTS), "starts", STARTS);
        }
        for (name, from, until) in stages {
            writer.slice(&name, (process, STARTS), from, until, "start", json!({}));
        }
        for (at, gauges) in record.gauges(replica) {
            let requests = json!({ "waiting": gauges.waiting, "running": gauges.running });
            writer.event("C", "requests", (process, 0), at, &[("args", requests)]);
            let percent = libm::round(gauges.kv_usage * 1e5) / 1e3;
            writer.event("C", "KV blocks in use, %", (process, 0), at, &[("args", json!({ "used": percent }))]);
        }
        self.slots(process, replica, of);
    }

    /// What requests do at a replica: those that came into a batch, and those that never did.
    fn slots(&mut self, process: usize, replica: u32, of: &BTreeMap<usize, (&Request, bool, bool)>) {
        let Part { writer, record, .. } = self;
        let heard = &record.heard.attempts;
        let here = |attempt: &AttemptHeard| attempt.sent.is_some_and(|(_, at, _)| at == replica);
        let mut slots = Lanes::default();
        for at in sorted(heard, |attempt| attempt.admitted.filter(|_| here(attempt))) {
            let (attempt, (request, _, ends)) = (&heard[at], of[&at]);
            let Some(admitted) = attempt.admitted else { continue };
            let track = (process, SLOTS + slots.take(admitted, attempt.end));
            let args = json!({ "request": attempt.request, "attempt": attempt.number, "cached_tokens": attempt.cached_tokens,
                "output_tokens": attempt.output_tokens, "ended": ending(&attempt.ending) });
            writer.slice(&request.name, track, admitted, attempt.end, "request", args);
            let first = attempt.first_token.unwrap_or(attempt.end);
            writer.slice("prefill", track, admitted, first, "phase", json!({ "request": attempt.request }));
            writer.flow("t", request.id, track, admitted);
            if attempt.first_token.is_some() {
                writer.slice("decode", track, first, attempt.end, "phase", json!({ "request": attempt.request }));
                writer.flow("t", request.id, track, first);
            }
            if ends {
                writer.flow("f", request.id, track, attempt.end);
            }
        }
        let mut waits = Lanes::default();
        for at in sorted(heard, |attempt| {
            attempt.sent.map(|(sent, ..)| sent).filter(|_| here(attempt) && attempt.admitted.is_none())
        }) {
            let (attempt, (request, _, ends)) = (&heard[at], of[&at]);
            let Some((sent, ..)) = attempt.sent else { continue };
            let track = (process, WAITS + waits.take(sent, attempt.end));
            let args =
                json!({ "request": attempt.request, "attempt": attempt.number, "ended": ending(&attempt.ending) });
            writer.slice(&request.name, track, sent, attempt.end, "waiting", args);
            if ends {
                writer.flow("f", request.id, track, attempt.end);
            }
        }
        for (first, name, lanes) in [(SLOTS, "slot", slots), (WAITS, "never admitted", waits)] {
            for lane in 0..lanes.0.len() {
                writer.named("thread", (process, first + lane), &format!("{name} {lane}"), first + lane);
            }
        }
    }
}

/// Positions of the attempts that `at` gives an instant, in order of it.
fn sorted(heard: &[AttemptHeard], at: impl Fn(&AttemptHeard) -> Option<Nanos>) -> Vec<usize> {
    let mut order: Vec<_> =
        heard.iter().enumerate().filter_map(|(index, attempt)| Some((at(attempt)?, index))).collect();
    order.sort_by_key(|&(at, index)| (at, heard[index].request, heard[index].number));
    order.into_iter().map(|(_, index)| index).collect()
}

/// How a request ended, in a word.
fn ended(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Finished => "finished",
        Outcome::Rejected { .. } => "rejected",
        Outcome::Pending => "under way",
        Outcome::Lost { .. } => "lost",
        Outcome::TimedOut => "timed out",
        Outcome::Abandoned => "abandoned",
    }
}

/// How an attempt ended, in a word.
fn ending(ending: &Ending) -> &'static str {
    match ending {
        Ending::Finished => "finished",
        Ending::Outside => "outside",
        Ending::Cancelled => "cancelled",
        Ending::Refused { .. } => "refused",
        Ending::Lost { .. } => "lost",
        Ending::TimedOut => "timed out",
        Ending::Open => "under way",
    }
}
