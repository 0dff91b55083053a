//! The fleet's invariants, counted from scratch.

use super::flights::Where;
use super::timers::Timer;
use super::{Core, Fleet};
use crate::config::ReplicaConfig;
use crate::gateway::View;
use crate::telemetry::LocalSignals;
use servelab_engine::Nanos;
use servelab_workload::Workload;
use thiserror::Error;

/// An invariant that does not hold: a defect of this crate, or a damaged saved state.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invariant {name}: {found}")]
pub struct Violation {
    /// Its name in the crate's table.
    pub name: &'static str,
    /// What was found.
    pub found: String,
}

fn expect(name: &'static str, holds: bool, found: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { name, found: found() }) }
}

/// Checks F1, F5, F6, F7 and F10 to F13; with `settled` (everything of this instant has happened) F4 as well.
pub(super) fn check(core: &Core, settled: bool) -> Result<(), Violation> {
    let counts = &core.counts;
    let flights = &core.flights;
    let (ended, in_flight) = (counts.ended(), flights.open);
    expect("F1 conservation", counts.arrived == ended + in_flight, || {
        format!("{} arrived, {ended} ended, {in_flight} are in flight", counts.arrived)
    })?;
    let pending = if core.done { in_flight } else { 0 };
    expect("F1 conservation", counts.pending == pending, || {
        format!("{} are counted as pending, {pending} are", counts.pending)
    })?;
    requests(core)?;
    let repeats = counts.retries + counts.hedges;
    expect("F5 attempts", counts.attempts == counts.arrived + repeats, || {
        format!("{} attempts of {} requests and {repeats} repeats", counts.attempts, counts.arrived)
    })?;
    let mut lifetimes = Nanos::ZERO;
    for (index, replica) in core.replicas.iter().enumerate() {
        let stats = replica.stats(core.now);
        lifetimes += stats.lifetime;
        expect("F6 lifetimes", stats.busy <= stats.lifetime, || {
            format!("replica {index} was busy {:?} of {:?}", stats.busy, stats.lifetime)
        })?;
    }
    let expected = Fleet::expected_lifetimes(core);
    expect("F6 lifetimes", u128::from(lifetimes.0) == expected.min(u64::MAX.into()), || {
        format!("lifetimes sum to {lifetimes:?}, {expected} ns were expected")
    })?;
    attempts(core)?;
    work(core)?;
    signals(core)?;
    gateway(core)?;
    store(core)?;
    if settled {
        for (index, replica) in core.replicas.iter().enumerate() {
            expect("F4 work", !replica.may_run() || !replica.model.get().idles_beside_work(), || {
                format!("replica {index} idles beside work at {:?}", core.now)
            })?;
        }
        let ready = (0u32..).zip(&core.replicas).filter(|(_, replica)| replica.may_be_routed_to());
        let ready: Vec<u32> = ready.map(|(index, _)| index).collect();
        let view = View { now: core.now, ready: &ready, in_flight: &core.in_flight, polled: &core.polled };
        let could = core.gateway.chain().is_some_and(|chain| chain.could_release(&view));
        expect("F4 work", !could, || {
            format!("the gateway holds {} attempts and could let one go", core.gateway.held())
        })?;
    }
    Ok(())
}

/// F1 for each request: one that has not ended is waited for or is to be tried again, one that has is there for the sake of an attempt.
fn requests(core: &Core) -> Result<(), Violation> {
    let flights = &core.flights;
    let (mut open, mut hanging, mut retrying) = (0, 0, 0);
    for (place, flight) in flights.requests.iter() {
        let (mut attempts, mut waited) = (0, 0);
        for at in flights.attempts_of(place) {
            let attempt = flights.attempts.get(at).filter(|attempt| attempt.request == place);
            expect("F1 conservation", attempt.is_some(), || format!("request {place} and attempt {at} disagree"))?;
            waited += attempt.map_or(0, |attempt| u32::from(attempt.waited));
            attempts += 1;
            expect("F1 conservation", attempts <= flights.attempts.len(), || format!("request {place}: a ring"))?;
        }
        hanging += attempts;
        open += u64::from(!flight.settled);
        retrying += u64::from(flight.retrying);
        let retries = flight.retry_at != Nanos::MAX;
        let sound = match flight.settled {
            true => attempts > 0 && waited == 0 && flight.timer.is_none() && !flight.retrying,
            false => (waited > 0) != retries && (!retries || flight.timer.is_some()),
        };
        expect("F1 conservation", sound && waited == flight.waited, || {
            format!("request {}: {waited} of {attempts} attempts waited for, {flight:?}", flight.index)
        })?;
        let timer = flight.timer.map(|key| core.timers.get(key));
        expect("F1 conservation", timer.is_none_or(|timer| timer == Some(Timer::Client(place))), || {
            format!("request {} has lost its timer", flight.index)
        })?;
        // What a request asks for is there as long as an attempt is, and can be had again when none is.
        let kept = flight.request.is_some();
        expect("F1 conservation", kept == (attempts > 0) && flight.index < core.source.total(), || {
            format!("request {} with {attempts} attempts: what it asks for is kept: {kept}", flight.index)
        })?;
    }
    expect("F1 conservation", open == flights.open && hanging == flights.attempts.len(), || {
        format!(
            "{open} requests are open and hold {hanging} attempts, {} and {} were counted",
            flights.open,
            flights.attempts.len()
        )
    })?;
    let waited = flights.attempts.iter().filter(|(_, attempt)| attempt.waited).count() as u64;
    expect("F1 conservation", core.clients.loads() == (waited, retrying), || {
        format!(
            "{waited} attempts are waited for and {retrying} requests retried, clients count {:?}",
            core.clients.loads()
        )
    })
}

/// F11: every attempt is accounted for, at the server and at its client.
fn attempts(core: &Core) -> Result<(), Violation> {
    let (fates, made) = (&core.fates, core.counts.attempts);
    let all = || core.flights.attempts.iter().map(|(_, attempt)| attempt);
    let held = all().filter(|attempt| attempt.at == Where::Gateway).count() as u64;
    expect("F11 attempts", u64::from(core.gateway.held()) == held, || {
        format!("the gateway holds {}, {held} are there", core.gateway.held())
    })?;
    let at_server = fates.accepted + fates.refused() + fates.withdrawn + fates.vanished + fates.outside + held;
    let waited = all().filter(|attempt| attempt.waited).count() as u64;
    let at_client = fates.succeeded + fates.failed + fates.timed_out + fates.lost + fates.superseded + waited;
    expect("F11 attempts", at_server == made && at_client == made, || {
        format!("{made} attempts were made, servers account for {at_server} and clients for {at_client}: {fates:?}")
    })?;
    let by_status: u64 = core.refusals.iter().map(|of| of.attempts).sum();
    expect("F11 attempts", by_status == fates.refused(), || {
        format!("{} attempts were turned away, {by_status} by status", fates.refused())
    })
}

/// F12, of fleets whose replicas are servers or count ticks: there an attempt's time is a replica's time.
fn work(core: &Core) -> Result<(), Violation> {
    // What they are, whether any is there at present or not.
    if matches!(core.config.replica, ReplicaConfig::Engine { .. }) {
        return Ok(());
    }
    let (mut worked, mut refusing) = (Nanos::ZERO, Nanos::ZERO);
    for stats in core.replicas.iter().map(|replica| replica.stats(core.now)) {
        (worked, refusing) = (worked + stats.worked, refusing + stats.refusing);
    }
    let work = core.work;
    let spent = work.useful + work.abandoned + work.lost + refusing;
    expect("F12 work", worked == spent, || format!("{worked:?} were worked, {spent:?} spent: {work:?}"))
}

/// F13: the gateway knows what is at replicas, and holds what has not been sent there.
fn gateway(core: &Core) -> Result<(), Violation> {
    let Some(chain) = core.gateway.chain() else { return Ok(()) };
    let sent = core.flights.attempts.iter().filter(|(_, attempt)| attempt.was_sent()).count();
    expect("F13 gateway", chain.in_flight() as usize == sent, || {
        format!("the gateway counts {} attempts in flight, there are {sent}", chain.in_flight())
    })?;
    let waits = |place| core.flights.attempts.get(place).is_some_and(|attempt| attempt.at == Where::Gateway);
    let stray = chain.held().find(|&place| !waits(place));
    expect("F13 gateway", stray.is_none(), || format!("the gateway holds {stray:?}, which is not in front of it"))
}

/// F10.
fn store(core: &Core) -> Result<(), Violation> {
    let Some(store) = &core.store else { return Ok(()) };
    store.check().map_err(|found| Violation { name: "F10 store", found })?;
    let used: u64 = core.replicas.iter().map(|replica| replica.model.get().stats().fetched_tokens).sum();
    let moved = store.stats().fetched_tokens;
    expect("F10 store", used <= moved, || format!("{used} tokens were used, {moved} fetched"))
}

/// F7, for each router.
fn signals(core: &Core) -> Result<(), Violation> {
    let n = core.replicas.len();
    let mut in_flight = vec![0; n];
    let mut counted: Vec<Vec<LocalSignals>> = vec![vec![LocalSignals::default(); n]; core.routers.len()];
    for (_, attempt) in core.flights.attempts.iter().filter(|(_, attempt)| attempt.was_sent()) {
        let (Some(total), Some(request), Some(router)) = (
            in_flight.get_mut(attempt.replica as usize),
            core.flights.asked(attempt.request),
            core.routers.get(attempt.routed.router as usize),
        ) else {
            return expect("F7 signals", false, || format!("attempt {} is at no replica", attempt.id.0));
        };
        *total += 1;
        let budget = u64::from(request.prompt.len) + u64::from(request.max_tokens);
        let (produced, expected) = (u64::from(attempt.produced), attempt.routed.expected_hit);
        expect("F7 signals", produced <= budget && expected < request.prompt.len.max(1), || {
            format!("attempt {} produced {produced} of {budget} tokens, {expected} expected", attempt.id.0)
        })?;
        if attempt.routed.counts == router.resets {
            let signals = &mut counted[attempt.routed.router as usize][attempt.replica as usize];
            signals.send(request.prompt.len, budget, expected);
            signals.tokens -= produced;
            if attempt.first_token.is_some() {
                signals.first_token(request.prompt.len, expected);
            }
        }
    }
    expect("F7 signals", in_flight == core.in_flight, || {
        format!("{:?} were kept in flight, {in_flight:?} counted", core.in_flight)
    })?;
    for (router, counted) in core.routers.iter().zip(&counted) {
        expect("F7 signals", router.signals == *counted, || format!("kept {:?}, counted {counted:?}", router.signals))?;
    }
    Ok(())
}
