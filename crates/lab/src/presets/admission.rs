//! Situations of a gateway: who is let in, who waits, and who says no.

use super::{guess, preset, scaling, tenants};
use crate::admission;
use crate::report::verdict::{Case, Judge};
use crate::stats::quantile;
use crate::words::{digits, duration, percent};
use servelab_fleet::scaling::Signal;
use servelab_spec::catalog::PresetInfo;
use servelab_spec::experiment::{
    Coefficients, GatewaySpec, MultiTenantSpec, OrderKind, PolicySpec, SloSpec, Spec, WorkloadSpec,
};
use servelab_spec::report::{PolicyReport, Verdict};

pub(super) fn all() -> Vec<PresetInfo> {
    vec![noisy_tenant(), batch(), who_says_no(), cold_spike()]
}

pub(super) fn judge(name: &str) -> Option<Judge> {
    Some(match name {
        "noisy-tenant" => quiet_again as Judge,
        "batch-beside-interactive" => held_or_ordered,
        "who-says-no" => best_no,
        "spike-in-a-cold-start" => gap_covered,
        _ => return None,
    })
}

/// Four small replicas under one policy, behind a gateway that does nothing yet.
fn fleet(sizes: MultiTenantSpec) -> Spec {
    Spec {
        policies: vec![PolicySpec::named("least_requests")],
        gateway: GatewaySpec { on: true, ..GatewaySpec::default() },
        slo: SloSpec { ttft_s: 1.0, itl_s: 0.2 },
        ..tenants(sizes)
    }
}

/// The first of twenty-four tenants sends ten times its share. Without it the fleet is half busy; what it sends beyond its share is as much as nine others send.
fn noisy_tenant() -> PresetInfo {
    let sizes = MultiTenantSpec {
        requests: 8000,
        tenants: 24,
        noisy: 10.0,
        system_min: 96,
        system_max: 128,
        rate: 1.7,
        ..Default::default()
    };
    let question = "One tenant sends ten times its share: what keeps that from the others?";
    let options =
        ["A rate limit for each tenant", "Tenants in turn in the gateway's queue", "Either of them", "Neither of them"];
    guess(
        preset("noisy-tenant", "The noisy tenant", question, fleet(sizes)),
        "What brings the others' 95th percentile of time to first token within a tenth of what it is without the noisy tenant?",
        &options,
    )
}

/// The 95th percentile of the TTFT of tenants that `of` picks, seconds.
fn p95(case: &Case<'_>, of: impl Fn(u32) -> bool) -> Option<f64> {
    let records = case.records(0).iter().filter(|record| of(record.tenant));
    let mut ttft: Vec<f64> = records.filter_map(|record| Some(record.ttft()?.as_secs())).collect();
    ttft.sort_by(f64::total_cmp);
    (!ttft.is_empty()).then(|| quantile(&ttft, 0.95))
}

/// Turns away all that the first tenant sends: metrics that are stale at once count as full.
const WITHOUT_THE_FIRST: [(&str, &str); 3] =
    [("gateway.classes", "noisy(priority=-1,tenants=A),rest"), ("gateway.stale_s", "0"), ("gateway.shed", "when_full")];

fn quiet_again(case: &Case<'_>) -> Option<Verdict> {
    let policies = &case.spec.policies;
    let WorkloadSpec::MultiTenant(sizes) = &case.spec.workload else { return None };
    // A fifth more than a quiet tenant sends, as people would set it.
    let quiet = case.report.workload.rate_per_s / (sizes.noisy - 1.0 + f64::from(sizes.tenants));
    let limit = digits(1.2 * quiet);
    let others = |changes: &[(&str, &str)]| {
        let gateway = [("gateway.on", "on")].iter().chain(changes).copied().collect::<Vec<_>>();
        p95(&case.variant(policies, &gateway)?.case()?, |tenant| tenant != 0)
    };
    let without = others(&WITHOUT_THE_FIRST)?;
    let limited = others(&[("gateway.rate_per_s", &limit), ("gateway.rate_burst", "5")])?;
    let batch = case.spec.engine.max_batch.to_string();
    let turns = others(&[
        ("gateway.in_flight", &batch),
        ("gateway.queue", "5000"),
        ("gateway.ttl_s", "0"),
        ("gateway.turns", "on"),
    ])?;
    let near = |p95: f64| p95 <= 1.1 * without;
    let option = match (near(limited), near(turns)) {
        (true, false) => 0,
        (false, true) => 1,
        (true, true) => 2,
        (false, false) => 3,
    };
    let here = match &case.spec.gateway {
        gateway if !gateway.on => "no gateway",
        gateway if *gateway == (GatewaySpec { on: true, ..GatewaySpec::default() }) => "a gateway that does nothing",
        _ => "the gateway of this run",
    };
    let because = format!(
        "The others' 95th percentile is {} without the noisy tenant, {} with it and {here}. It is {} with a limit of {limit} requests a second for each tenant, and {} with tenants in turn.",
        duration(without),
        duration(p95(case, |tenant| tenant != 0)?),
        duration(limited),
        duration(turns)
    );
    Some(Verdict { option, because })
}

/// Eight of twelve tenants send batch work, and all together is more than there is room for; what people send is not.
fn batch() -> PresetInfo {
    let sizes = MultiTenantSpec { requests: 1500, tenants: 12, skew: 0.0, rate: 4.0, ..Default::default() };
    let mut spec = fleet(sizes);
    spec.slo.ttft_s = 1.2;
    spec.gateway.classes = "interactive(priority=1),batch(priority=-1,tenants=E F G H I J K L)".into();
    spec.gateway.in_flight = 8;
    spec.gateway.queue = 5000;
    spec.gateway.ttl_s = 0.0;
    let question = "Batch work shares the fleet with people: what keeps their answers quick?";
    let options = [
        "Going first in the gateway's queue is enough",
        "Batch must be held back while there still is room",
        "Not even that is enough",
        "Nothing of the kind is needed",
    ];
    guess(
        preset("batch-beside-interactive", "Batch beside interactive", question, spec),
        "Interactive work goes first in the gateway's queue, and each replica takes as many as fit its batch. Does that keep the 95th percentile of its time to first token within the limit of 1.2 s?",
        &options,
    )
}

fn held_or_ordered(case: &Case<'_>) -> Option<Verdict> {
    let (policies, gateway) = (&case.spec.policies, &case.spec.gateway);
    // Nobody goes first where there is no queue, or classes take turns.
    if !gateway.on || gateway.queue == 0 || gateway.order != OrderKind::Strict {
        return None;
    }
    // Who is in the first class, also where no gateway asks.
    let (_, class_of) = admission::classed(case.spec, case.report.workload.tenants.len() as u32);
    let first = *class_of.iter().min()?;
    let people = |case: &Case<'_>| p95(case, |tenant| class_of.get(tenant as usize) == Some(&first));
    let open = people(&case.variant(policies, &[("gateway.on", "off")])?.case()?)?;
    let full = case.spec.gateway.in_flight.max(1).to_string();
    let held = case.variant(
        policies,
        &[
            ("gateway.hold_back", "on"),
            ("gateway.detector", "in_flight"),
            ("gateway.full_in_flight", &full),
            ("gateway.hold_back_share", "0.5"),
        ],
    )?;
    let held = people(&held.case()?)?;
    let ordered = match gateway.hold_back {
        false => people(case)?,
        true => people(&case.variant(policies, &[("gateway.hold_back", "off")])?.case()?)?,
    };
    let limit = case.spec.slo.ttft_s;
    let option = match (open <= limit, ordered <= limit, held <= limit) {
        (true, ..) => 3,
        (false, true, _) => 0,
        (false, false, true) => 1,
        (false, false, false) => 2,
    };
    let because = format!(
        "The 95th percentile of interactive work is {} without a gateway and {} when it goes first. When batch is held back from half full on, it is {}.",
        duration(open),
        duration(ordered),
        duration(held)
    );
    Some(Verdict { option, because })
}

/// Half as much again as there is room for.
fn who_says_no() -> PresetInfo {
    let sizes = MultiTenantSpec { requests: 1500, rate: 11.0, ..Default::default() };
    let question = "More comes than can be served: who should say no?";
    let options = [
        "The gateway, by a limit on what is in flight",
        "The replica, by a bound on its queue",
        "It hardly matters who",
        "Nobody: everybody waits",
    ];
    guess(
        preset("who-says-no", "Who should say no?", question, fleet(sizes)),
        "With whom do most requests meet the limits?",
        &options,
    )
}

fn best_no(case: &Case<'_>) -> Option<Verdict> {
    let policies = &case.spec.policies;
    let good = |changes: &[(&str, &str)]| Some(case.variant(policies, changes)?.policy().goodput.fraction);
    let room = u64::from(case.spec.engine.max_batch) * u64::from(case.spec.replicas);
    let limit = (room + room / 2).to_string();
    let queue = (case.spec.engine.max_batch / 2).max(1).to_string();
    let gateway = good(&[("gateway.on", "on"), ("gateway.concurrency", &limit), ("gateway.refuse_with", "503")])?;
    let replica = good(&[("gateway.on", "off"), ("engine.max_queued", &queue)])?;
    let open = [
        ("gateway.on", "off"),
        ("engine.max_queued", "0"),
        ("engine.max_queued_tokens", "0"),
        ("engine.queue_ttl_s", "0"),
        ("engine.max_wait_s", "0"),
    ];
    let nobody = good(&open)?;
    let best = gateway.max(replica);
    let option = if nobody >= best {
        3
    } else if (gateway - replica).abs() <= 0.05 * best {
        2
    } else {
        u32::from(replica > gateway)
    };
    let because = format!(
        "{} of the requests met the limits when the gateway let {limit} be in flight, {} when a replica's queue held {queue}. When nobody said no it was {}.",
        percent(gateway),
        percent(replica),
        percent(nobody)
    );
    Some(Verdict { option, because })
}

/// The spike of the scaling lab on replicas four times as slow under a quarter of the load, and a gateway that lets in no more than the replicas that are
/// there can serve in time.
fn cold_spike() -> PresetInfo {
    let mut spec = scaling::fleet("0:0.4,0.02:0.4,0.03:1.5,0.15:1.5", 5.0, vec![scaling::hpa(Signal::InFlight, 6.0)]);
    spec.slo = SloSpec { ttft_s: 8.0, itl_s: 0.4 };
    if let Some(costs) = &mut spec.execution.coefficients {
        *costs = Coefficients {
            step_us: 4.0 * costs.step_us,
            prefill_token_us: 4.0 * costs.prefill_token_us,
            prefill_context_us: 4.0 * costs.prefill_context_us,
            decode_sequence_us: 4.0 * costs.decode_sequence_us,
            decode_context_us: 4.0 * costs.decode_context_us,
        };
    }
    spec.gateway =
        GatewaySpec { on: true, in_flight: 10, queue: 20, ttl_s: 6.0, hold_empty: true, ..GatewaySpec::default() };
    let question = "Traffic grows fourfold and a replica takes minutes to start: does turning away help meanwhile?";
    let options = ["No: fewer requests are good", "It makes no difference", "Yes: more requests are good"];
    guess(
        preset("spike-in-a-cold-start", "A spike during a cold start", question, spec),
        "The gateway turns away what the replicas that are there cannot serve in time. Are more requests good than when everybody is let in?",
        &options,
    )
}

fn gap_covered(case: &Case<'_>) -> Option<Verdict> {
    if !case.spec.gateway.on {
        return None;
    }
    let open = case.variant(&case.spec.policies, &[("gateway.on", "off")])?;
    let (with, without) = (case.policy(0), open.policy());
    let (guarded, all_in) = (with.goodput.fraction, without.goodput.fraction);
    let option = if guarded > 1.05 * all_in {
        2
    } else if guarded < 0.95 * all_in {
        0
    } else {
        1
    };
    let share = |policy: &PolicyReport, of: u64| percent(of as f64 / policy.requests.total.max(1) as f64);
    // Beside the fleet a managed API may serve some.
    let outside = |policy: &PolicyReport| match policy.scaling.as_ref().map_or(0, |scaling| scaling.outside) {
        0 => String::new(),
        many => format!(", {} going to a managed API", share(policy, many)),
    };
    let because = format!(
        "{} of the requests were good with the gateway, {} being turned away{}. With everybody let in it was {}{}, and half of all first tokens came after {} or later.",
        percent(guarded),
        share(with, with.requests.rejected),
        outside(with),
        percent(all_in),
        outside(without),
        duration(without.ttft_s.p50)
    );
    Some(Verdict { option, because })
}
