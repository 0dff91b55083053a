//! The fleet's invariants, counted from scratch.

use super::timers::Timer;
use super::{Core, Fleet};
use crate::gateway::View;
use crate::telemetry::LocalSignals;
use servelab_engine::Nanos;
use std::collections::BTreeSet;
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

/// Checks F1, F5, F6, F7, F10 and F11; with `settled` (everything of this instant has happened) F4 as well.
pub(super) fn check(core: &Core, settled: bool) -> Result<(), Violation> {
    let counts = &core.counts;
    let flights = &core.flights;
    let (ended, in_flight) = (counts.finished + counts.rejected + counts.lost, flights.requests.len() as u64);
    expect("F1 conservation", counts.arrived == ended + in_flight, || {
        format!("{} arrived, {ended} ended, {in_flight} are in flight", counts.arrived)
    })?;
    let pending = if core.done { in_flight } else { 0 };
    expect("F1 conservation", counts.pending == pending, || {
        format!("{} are counted as pending, {pending} are", counts.pending)
    })?;
    // Each request in flight is in exactly one place: at a replica, held by the gateway, waiting to be tried again or with a managed API.
    let retries = core.timers.iter().filter(|timer| matches!(timer, Timer::Retry(_) | Timer::Outside(_))).count();
    let elsewhere = u64::from(core.gateway.held()) + retries as u64;
    let mut attempted = BTreeSet::new();
    for (_, attempt) in flights.attempts.iter() {
        expect("F1 conservation", flights.requests.get(attempt.request).is_some(), || {
            format!("attempt {} has no request", attempt.id.0)
        })?;
        expect("F1 conservation", flights.by_id(attempt.id).is_some(), || {
            format!("attempt {} is not where its name says", attempt.id.0)
        })?;
        attempted.insert(attempt.request);
    }
    expect("F1 conservation", attempted.len() as u64 + elsewhere == flights.requests.len() as u64, || {
        format!(
            "{} requests at replicas and {elsewhere} elsewhere, {} in flight",
            attempted.len(),
            flights.requests.len()
        )
    })?;
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
    signals(core)?;
    gateway(core)?;
    store(core)?;
    if settled {
        for (index, replica) in core.replicas.iter().enumerate() {
            expect("F4 work", !replica.life.may_run() || !replica.model.get().idles_beside_work(), || {
                format!("replica {index} idles beside work at {:?}", core.now)
            })?;
        }
        let ready = (0u32..).zip(&core.replicas).filter(|(_, replica)| replica.life.may_be_routed_to());
        let ready: Vec<u32> = ready.map(|(index, _)| index).collect();
        let view = View { now: core.now, ready: &ready, in_flight: &core.in_flight, polled: &core.polled };
        let could = core.gateway.chain().is_some_and(|chain| chain.could_release(&view));
        expect("F4 work", !could, || {
            format!("the gateway holds {} requests and could let one go", core.gateway.held())
        })?;
    }
    Ok(())
}

/// F11.
fn gateway(core: &Core) -> Result<(), Violation> {
    let Some(chain) = core.gateway.chain() else { return Ok(()) };
    let sent = core.flights.attempts.len();
    expect("F11 gateway", chain.in_flight() as usize == sent, || {
        format!("the gateway counts {} attempts in flight, there are {sent}", chain.in_flight())
    })?;
    let stray = chain.held().find(|&place| core.flights.requests.get(place).is_none());
    expect("F11 gateway", stray.is_none(), || format!("the gateway holds {stray:?}, which is not in flight"))
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
    for (_, attempt) in core.flights.attempts.iter() {
        let (Some(total), Some(flight), Some(router)) = (
            in_flight.get_mut(attempt.replica as usize),
            core.flights.requests.get(attempt.request),
            core.routers.get(attempt.routed.router as usize),
        ) else {
            return expect("F7 signals", false, || format!("attempt {} is at no replica", attempt.id.0));
        };
        *total += 1;
        let request = &flight.request;
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
