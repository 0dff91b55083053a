//! What clients did, what became of their attempts, and where the capacity went.

use crate::configuration::clients::clients;
use crate::session::{Run, Stage};
use crate::stats::ratio;
use crate::{catalog, costs};
use servelab_engine::CostModel;
use servelab_fleet::fleet::Flow;
use servelab_fleet::record::RefusedBy;
use servelab_spec::experiment::{Contender, Spec};
use servelab_spec::report::{AttemptsReport, CapacityShares, ClientsReport};

/// Of a run whose clients have rules of their own.
pub(super) fn report(spec: &Spec, stage: &Stage, run: &Run, contender: Contender) -> Option<ClientsReport> {
    if !spec.clients.on {
        return None;
    }
    let fleet = &run.fleet;
    let (counts, fates) = (fleet.counts(), fleet.fates());
    let policy = contender.clients.and_then(|index| spec.clients.policies.get(index));
    let capacity = fleet.capacity();
    let share = |part: f64| ratio(part, capacity.total);
    let accounted = fates.accepted + fates.refused() + fates.withdrawn + fates.vanished + fates.outside;
    let waiting = fleet.waiting();
    let served = fleet.is_done() && waiting == 0 && counts.finished == counts.arrived;
    let capacity_per_s = costs::capacity_per_s(spec, &CostModel::from_coefficients(&stage.coefficients));
    let peak_per_s = peak_per_s(fleet.flow());
    Some(ClientsReport {
        policy: policy.map(|policy| policy.name.clone()).unwrap_or_default(),
        label: policy.map(catalog::client_label).unwrap_or_default(),
        amplification: ratio(counts.attempts as f64, counts.arrived as f64),
        retries: counts.retries,
        hedges: counts.hedges,
        unpaid: counts.unpaid,
        timed_out: fates.timed_out,
        rate_per_s: run.ledger.arrivals.rate_per_s(),
        attempts: AttemptsReport {
            accepted: fates.accepted,
            refused_by_client: fates.refused_by(RefusedBy::Client),
            refused_by_gateway: fates.refused_by(RefusedBy::Gateway),
            refused_by_router: fates.refused_by(RefusedBy::Router),
            refused_by_replica: fates.refused_by(RefusedBy::Replica),
            withdrawn: fates.withdrawn,
            vanished: fates.vanished,
            outside: fates.outside,
            held: counts.attempts - accounted,
        },
        capacity: CapacityShares {
            useful: share(capacity.useful),
            wasted: share(capacity.wasted),
            refusing: share(capacity.refusing),
            unfinished: share(capacity.unfinished),
            down: share(capacity.down),
            idle: share(capacity.idle),
        },
        peak_per_s,
        peak: ratio(peak_per_s, capacity_per_s),
        all_served_s: served.then(|| run.ledger.last_end.as_secs()),
        gave_up: counts.ended() - counts.finished,
        waiting,
        configurations: policy.map(clients).unwrap_or_default(),
    })
}

/// Most attempts in a second of whole bins, a second; of one bin, if that is longer. Table, picture and verdict all say this one.
pub(crate) fn peak_per_s(flow: &Flow) -> f64 {
    most_per_s(flow.bin().as_secs(), flow.bins().iter().map(|bin| bin.attempts))
}

fn most_per_s(bin_s: f64, attempts: impl Iterator<Item = u32>) -> f64 {
    let attempts: Vec<u32> = attempts.collect();
    let together = libm::floor(1.0 / bin_s).max(1.0) as usize;
    let most = attempts.chunks(together).map(|bins| bins.iter().map(|&bin| u64::from(bin)).sum::<u64>()).max();
    most.unwrap_or(0) as f64 / (together as f64 * bin_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_that_of_a_second() {
        let bins = |text: &str| text.chars().map(|c| u32::from(c as u8 - b'0')).collect::<Vec<_>>();
        assert_eq!(most_per_s(0.25, bins("12340000999").into_iter()), 27.0);
        assert_eq!(most_per_s(4.0, bins("182").into_iter()), 2.0);
        assert_eq!(most_per_s(0.01, std::iter::empty()), 0.0);
    }
}
