//! What probes make of a start that nothing disturbs.

use servelab_engine::Nanos;
use servelab_fleet::startup::{Probe, ProbeStep, Prober, ProbesConfig, StartupConfig, Verdict};
use servelab_spec::coldstart::{Fate, ProbeMark};

/// Most probes listed; those with a verdict are listed beyond it.
const MOST_MARKS: usize = 300;

/// Most probes looked at. Ten thousand failures of two kinds fit.
const MOST_PROBES: usize = 50_000;

/// What is seen of the probes of one replica that starts alone.
pub(super) struct Probed {
    pub(super) marks: Vec<ProbeMark>,
    pub(super) fate: Fate,
    /// When it went into rotation first.
    pub(super) rotation: Option<Nanos>,
    /// When the verdict that decides its fate fell.
    pub(super) decided: Option<Nanos>,
}

/// When a container that started at `born` has done what the first `entries` stages ask for.
fn done(config: &StartupConfig, born: Nanos, entries: usize) -> Nanos {
    let parts = config.stages.iter().take(entries).skip(config.restart_at());
    parts.fold(born, |at, &(_, work)| at + config.alone(work))
}

/// Follows the probes until they have nothing new to say: its verdict under `in_flight` requests, or the second death.
pub(super) fn follow(config: &StartupConfig, container: Nanos, in_flight: u32) -> Probed {
    let Some(probes) = config.probes else {
        let rotation = done(config, container, config.ready_after());
        let early = rotation < done(config, container, config.stages.len());
        let fate = if early { Fate::TooEarly } else { Fate::Serves };
        return Probed { marks: Vec::new(), fate, rotation: Some(rotation), decided: None };
    };
    let mut seen = Probed { marks: Vec::new(), fate: Fate::Serves, rotation: None, decided: None };
    let (mut born, mut life, mut sent) = (container, 0, [Nanos::ZERO; 3]);
    let mut prober = Prober::new(probes, born);
    let note = |seen: &mut Probed, now, ready, serves| {
        if ready && seen.rotation.is_none() {
            seen.rotation = Some(now);
            if now < serves {
                seen.fate = Fate::TooEarly;
            }
        }
    };
    note(&mut seen, born, prober.is_ready(), done(config, born, config.stages.len()));
    for _ in 0..MOST_PROBES {
        let serves = done(config, born, config.stages.len());
        let Some((now, probe, step)) = prober.next() else { break };
        // Until it has started, its startup probe decides sooner or later.
        if prober.is_started() && now > serves + patience(&probes) {
            break;
        }
        if step == ProbeStep::Send {
            let listens = done(config, born, config.answers_after(probe));
            let load = if now >= serves { in_flight } else { 0 };
            sent[probe as usize] = now;
            prober.send(now, probe, (now >= listens).then(|| probes.answer.at(load)));
            continue;
        }
        let (passed, verdict) = prober.receive(now, probe);
        if verdict.is_some() || seen.marks.len() < MOST_MARKS {
            seen.marks.push(ProbeMark {
                probe: probe.name().into(),
                life,
                sent_s: sent[probe as usize].as_secs(),
                back_s: now.as_secs(),
                passed,
                verdict: verdict.map(|verdict| name(verdict).into()),
            });
        }
        note(&mut seen, now, prober.is_ready(), serves);
        match verdict {
            Some(Verdict::NotReady) if now >= serves && seen.fate != Fate::OutUnderLoad => {
                (seen.fate, seen.decided) = (Fate::OutUnderLoad, Some(now));
            }
            Some(Verdict::Kill) => {
                if life == 0 {
                    let fate = if now < serves { Fate::KilledForEver } else { Fate::KilledUnderLoad };
                    (seen.fate, seen.decided) = (fate, Some(now));
                } else {
                    break;
                }
                (born, life) = (now, life + 1);
                prober = Prober::new(probes, born);
            }
            _ => {}
        }
    }
    if seen.rotation.is_none() && seen.fate == Fate::Serves {
        seen.fate = Fate::NeverReady;
    }
    seen
}

/// How long after it serves every verdict on it has fallen.
fn patience(probes: &ProbesConfig) -> Nanos {
    let kinds = [Probe::Readiness, Probe::Liveness].into_iter().filter_map(|probe| probes.get(probe));
    let longest = kinds.map(|probe| {
        let each = probe.period.0.saturating_add(probe.timeout.0);
        let results = u64::from(probe.failures.max(probe.successes)) + 2;
        Nanos(each.saturating_mul(results)) + probe.initial_delay
    });
    longest.max().unwrap_or(Nanos::ZERO)
}

fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Started => "started",
        Verdict::Ready => "ready",
        Verdict::NotReady => "not_ready",
        Verdict::Kill => "kill",
    }
}
