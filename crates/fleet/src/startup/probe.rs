//! Probes with Kubernetes' meaning, as a state machine that knows no replica.
//!
//! A probe is sent every period, first after its initial delay, both counted from the start of the container. It fails when the answer is no, when
//! nobody listens, or when the answer takes longer than the time-out. So many failures in a row, or successes, make a verdict:
//!
//! - *startup*: until it has passed, the other two are not sent at all. Failing kills.
//! - *readiness*: failing takes the replica out of rotation, passing puts it back.
//! - *liveness*: failing kills, whatever was running.
//!
//! A killed container starts from nothing, with a new [`Prober`]. Without a startup probe it counts as started at once; without a readiness probe it
//! is in rotation as soon as it has started.
//!
//! The next probe of a kind waits for the answer to the one before: with a time-out longer than the period, ticks are left out.

use serde::{Deserialize, Serialize};
use servelab_engine::Nanos;

/// One kind of probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeConfig {
    /// From the start of the container to the first probe.
    pub initial_delay: Nanos,
    /// From one probe to the next, above 0.
    pub period: Nanos,
    /// An answer that takes longer counts as none.
    pub timeout: Nanos,
    /// Failures in a row that make a verdict, at least 1.
    pub failures: u32,
    /// Successes in a row that make a verdict, at least 1. Kubernetes allows 1 only, but for readiness.
    pub successes: u32,
}

impl Default for ProbeConfig {
    /// Kubernetes' own.
    fn default() -> Self {
        ProbeConfig {
            initial_delay: Nanos::ZERO,
            period: Nanos(10_000_000_000),
            timeout: Nanos(1_000_000_000),
            failures: 3,
            successes: 1,
        }
    }
}

impl ProbeConfig {
    /// How long a container may take to answer for the first time. `period × failures` is the rule of thumb; the last probe that may still pass is sent
    /// one period before that.
    pub fn budget(&self) -> Nanos {
        self.initial_delay + Nanos(self.period.0.saturating_mul(u64::from(self.failures)))
    }
}

/// The probes of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbesConfig {
    /// Gates the others and kills.
    pub startup: Option<ProbeConfig>,
    /// Takes out of rotation.
    pub readiness: Option<ProbeConfig>,
    /// Kills.
    pub liveness: Option<ProbeConfig>,
    /// How long a health answer takes.
    pub answer: AnswerTime,
}

impl ProbesConfig {
    /// The settings of a kind, if it is used.
    pub fn get(&self, probe: Probe) -> Option<&ProbeConfig> {
        match probe {
            Probe::Startup => self.startup.as_ref(),
            Probe::Readiness => self.readiness.as_ref(),
            Probe::Liveness => self.liveness.as_ref(),
        }
    }
}

/// How long an engine takes to answer a health check: the check waits its turn among the requests in flight, in a straight line. Public reports say
/// that a saturated engine answers in seconds; none gives the curve, so the line is an assumption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerTime {
    /// Without load.
    pub base: Nanos,
    /// More for each request in flight.
    pub per_request: Nanos,
}

impl AnswerTime {
    /// With `in_flight` requests.
    pub fn at(&self, in_flight: u32) -> Nanos {
        self.base + Nanos(self.per_request.0.saturating_mul(u64::from(in_flight)))
    }
}

/// Kinds of probes; at one instant they are sent in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// Has it started?
    Startup,
    /// May it be sent requests?
    Readiness,
    /// Does it still live?
    Liveness,
}

impl Probe {
    /// All of them.
    pub const ALL: [Probe; 3] = [Probe::Startup, Probe::Readiness, Probe::Liveness];

    /// As Kubernetes calls it.
    pub fn name(self) -> &'static str {
        match self {
            Probe::Startup => "startup",
            Probe::Readiness => "readiness",
            Probe::Liveness => "liveness",
        }
    }
}

/// What has to be done with a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeStep {
    /// It is sent: ask the replica and tell [`Prober::send`].
    Send,
    /// Its answer or its time-out is there: call [`Prober::receive`].
    Receive,
}

/// What a probe's answer comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It has started: the other probes are sent from now on.
    Started,
    /// It goes into rotation.
    Ready,
    /// It goes out of rotation.
    NotReady,
    /// It is killed.
    Kill,
}

/// The probes of one container, from its start to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prober {
    config: ProbesConfig,
    born: Nanos,
    started: bool,
    ready: bool,
    killed: bool,
    lines: [Line; 3],
}

/// One kind of probe on its way through time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// When the next one is sent.
    tick: Nanos,
    /// The one that is out: when it comes back, and whether it passes.
    out: Option<(Nanos, bool)>,
    /// Failures in a row.
    failed: u32,
    /// Successes in a row.
    passed: u32,
}

impl Prober {
    /// Probes of a container that starts at `born`.
    pub fn new(config: ProbesConfig, born: Nanos) -> Self {
        let line = |probe| {
            let delay = config.get(probe).map_or(Nanos::ZERO, |of| of.initial_delay);
            Line { tick: born + delay, ..Line::default() }
        };
        let started = config.startup.is_none();
        let ready = started && config.readiness.is_none();
        Prober { config, born, started, ready, killed: false, lines: Probe::ALL.map(line) }
    }

    /// Probes of a container that has been in rotation since before `now`.
    pub fn of_ready(config: ProbesConfig, now: Nanos) -> Self {
        Prober { started: true, ready: true, ..Prober::new(config, now) }
    }

    /// The startup probe has passed, or there is none.
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// It is in rotation.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// What is to be done next, and when. `None` once it was killed, and when there is nothing to ask.
    pub fn next(&self) -> Option<(Nanos, Probe, ProbeStep)> {
        let kinds = Probe::ALL.into_iter().filter(|&probe| self.is_asked(probe));
        let steps = kinds.map(|probe| match self.line(probe).out {
            Some((back, _)) => (back, probe, ProbeStep::Receive),
            None => (self.line(probe).tick, probe, ProbeStep::Send),
        });
        // An answer that is there comes before a probe that is sent at the same instant.
        steps.min_by_key(|&(at, probe, step)| (at, step == ProbeStep::Send, probe))
    }

    /// `probe` is sent at `now`. `answer`: how long the replica takes to say yes; `None` when it says no or nobody listens, which is known at once.
    pub fn send(&mut self, now: Nanos, probe: Probe, answer: Option<Nanos>) {
        let Some(config) = self.config.get(probe).copied().filter(|_| self.is_asked(probe)) else { return };
        let (takes, passes) = match answer {
            None => (Nanos::ZERO, false),
            Some(takes) if takes <= config.timeout => (takes, true),
            Some(_) => (config.timeout, false),
        };
        let back = now + takes;
        let line = &mut self.lines[probe as usize];
        line.out = Some((back, passes));
        line.tick = next_tick(&config, self.born, back.max(now + Nanos(1)));
    }

    /// The answer to `probe`, or its time-out. Answers whether it passed, and the verdict if this makes one.
    pub fn receive(&mut self, now: Nanos, probe: Probe) -> (bool, Option<Verdict>) {
        let Some(config) = self.config.get(probe).copied() else { return (false, None) };
        let line = &mut self.lines[probe as usize];
        let Some((_, passes)) = line.out.take_if(|out| out.0 <= now) else { return (false, None) };
        (line.passed, line.failed) = if passes { (line.passed + 1, 0) } else { (0, line.failed + 1) };
        let (passed, failed) = (line.passed >= config.successes, line.failed >= config.failures);
        let verdict = match probe {
            Probe::Startup if passed => self.has_started(now),
            Probe::Readiness if passed && !self.ready => {
                self.ready = true;
                Some(Verdict::Ready)
            }
            Probe::Readiness if failed && self.ready => {
                self.ready = false;
                Some(Verdict::NotReady)
            }
            Probe::Startup | Probe::Liveness if failed => {
                (self.killed, self.ready) = (true, false);
                Some(Verdict::Kill)
            }
            _ => None,
        };
        (passes, verdict)
    }

    fn has_started(&mut self, now: Nanos) -> Option<Verdict> {
        self.started = true;
        for probe in [Probe::Readiness, Probe::Liveness] {
            // Their ticks went by unused while the startup probe had the word.
            if let Some(config) = self.config.get(probe) {
                self.lines[probe as usize].tick = next_tick(config, self.born, now);
            }
        }
        self.ready = self.config.readiness.is_none();
        Some(if self.ready { Verdict::Ready } else { Verdict::Started })
    }

    fn is_asked(&self, probe: Probe) -> bool {
        let turn = match probe {
            Probe::Startup => !self.started,
            Probe::Readiness | Probe::Liveness => self.started,
        };
        turn && !self.killed && self.config.get(probe).is_some()
    }

    fn line(&self, probe: Probe) -> &Line {
        &self.lines[probe as usize]
    }
}

/// The first tick at or after `now`.
fn next_tick(config: &ProbeConfig, born: Nanos, now: Nanos) -> Nanos {
    let first = born + config.initial_delay;
    let periods = now.since(first).0.div_ceil(config.period.0.max(1));
    first + Nanos(periods.saturating_mul(config.period.0))
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
