//! How replicas came and went, and where the time went between the first late request and relief.

use crate::catalog;
use crate::configuration::autoscalers::autoscaler;
use crate::ledger::{Ledger, cause_index};
use crate::session::Run;
use servelab_engine::Nanos;
use servelab_fleet::record::Loss;
use servelab_fleet::scaling::Life;
use servelab_spec::experiment::{Contender, Spec};
use servelab_spec::report::{Delay, ScalingReport};

/// Of a run whose replicas come and go.
pub(super) fn report(spec: &Spec, run: &Run, contender: Contender) -> Option<ScalingReport> {
    let totals = run.fleet.scaling_totals()?;
    let controller = contender.controller.map(|index| &spec.scaling.controllers[index]);
    let ledger = &run.ledger;
    let lost = |cause| ledger.all.lost[cause_index(cause)];
    let lifetimes = run.fleet.replica_stats().map(|replica| replica.lifetime.as_secs());
    Some(ScalingReport {
        controller: controller.map(|of| of.name.clone()).unwrap_or_default(),
        label: controller.map(catalog::controller_label).unwrap_or_default(),
        configuration: controller.and_then(|of| autoscaler(&spec.scaling, of)),
        replica_s: lifetimes.sum(),
        node_s: totals.node_s as f64,
        peak_ready: ledger.points.iter().map(|point| point.ready).max().unwrap_or(0).max(spec.replicas),
        created: totals.created,
        wasted: totals.wasted,
        restarts: totals.restarts,
        cache_lost_tokens: totals.cache_lost_tokens,
        lost_grace: lost(Loss::Grace),
        lost_probe: lost(Loss::Probe),
        lost_crash: lost(Loss::Crash),
        outside: ledger.all.outside.requests,
        outside_usd: ledger.all.outside.usd(&spec.scaling.overflow),
        nodes_usd: totals.node_s as f64 / 3600.0 * spec.scaling.overflow.node_usd,
        late_s: ledger.late_s(),
        bin_s: ledger.bin.as_secs(),
        delays: delays(ledger),
    })
}

/// The way from the first late request to the first bin in which nobody was late again, after a replica had come: who had to see it, to decide, to wait
/// and to start. The parts follow each other and sum to the whole. What was on its way before anybody was late counts from then.
fn delays(ledger: &Ledger) -> Vec<Delay> {
    let Some(late) = ledger.first_late else { return vec![] };
    let lives = &ledger.lives;
    // The replica that came first after that, and its whole life until then.
    let came = lives.iter().find(|event| {
        event.what == Life::Ready
            && event.at > late
            && lives
                .iter()
                .any(|other| other.what == Life::Created && (other.replica, other.life) == (event.replica, event.life))
    });
    let Some(ready) = came else { return vec![] };
    let of_it = || {
        lives.iter().filter(|event| (event.replica, event.life) == (ready.replica, ready.life) && event.at <= ready.at)
    };
    let Some(created) = of_it().find(|event| event.what == Life::Created).map(|event| event.at) else { return vec![] };

    let mut parts: Vec<Delay> = Vec::new();
    let mut at = late;
    let mut until = |what: &str, end: Nanos| {
        if end > at {
            parts.push(Delay { what: what.into(), seconds: end.since(at).as_secs() });
            at = end;
        }
    };
    let desired = ledger.points.iter().take_while(|point| point.at <= late).last().map_or(0, |point| point.desired);
    let after = || ledger.points.iter().filter(|point| point.at >= late && point.at <= created);
    if let Some(scraped) = after().next() {
        until("scrape", scraped.at);
    }
    if let Some(wanted) = after().find(|point| point.wanted > desired) {
        until("window and loop", wanted.at);
    }
    until("persistence and rate limit", created);
    for event in of_it() {
        if let Life::Stage(stage) = event.what {
            until(stage.label(), event.at);
        }
    }
    until("readiness", ready.at);
    let relief = (ledger.bins.iter().enumerate())
        .map(|(index, bin)| (Nanos(ledger.bin.0 * index as u64), bin))
        .find(|(start, bin)| *start >= ready.at && bin.late == 0);
    if let Some((start, _)) = relief {
        until("backlog and cold cache", start);
    }
    parts
}
