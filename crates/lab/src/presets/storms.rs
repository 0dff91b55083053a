//! Storms: what clients' retries do to a server that was away for a while, and what helps.
//!
//! Replicas are queueing stations, so that what is seen is the clients' doing alone: the same loop, client policies and faults act on engines as well.

use super::{guess, preset};
use crate::catalog::client_label;
use crate::report::verdict::{Case, Judge};
use crate::words::{digits, duration, percent};
use servelab_spec::catalog::PresetInfo;
use servelab_spec::experiment::{
    ClientSpec, ClientsSpec, ExecutionMode, FaultsSpec, MultiTenantSpec, PolicySpec, RateUnit, Remedy, ServerSpec,
    ServiceLaw, SloSpec, Spec, WorkloadSpec,
};
use servelab_spec::report::{ClientsReport, Verdict};

pub(super) fn all() -> Vec<PresetInfo> {
    vec![
        retry_storm(),
        metastable(),
        remedied(),
        sdk_defaults(),
        layers(),
        synchronised(),
        jitter(),
        backoff_or_budget(),
    ]
}

pub(super) fn judge(name: &str) -> Option<Judge> {
    Some(match name {
        "retry-storm" | "does-jitter-matter" => everybody_served as Judge,
        "metastable" => falls_over_again,
        "metastable-remedy" => healed,
        "sdk-outage" => share_that_gives_up,
        "retry-layers" => amplified,
        "retry-after" => highest_peak,
        "backoff-or-budget" => most_useful,
        _ => return None,
    })
}

fn named(names: &[&str]) -> Vec<ClientSpec> {
    names.iter().map(|name| ClientSpec::named(name)).collect()
}

/// One server, or a few, under a steady rate; clients as they are listed.
fn storm(requests: u32, rate: f64, policies: Vec<ClientSpec>) -> Spec {
    let sizes = MultiTenantSpec {
        requests,
        tenants: 1,
        system_min: 1,
        system_max: 1,
        user_min: 1,
        user_max: 1,
        output_min: 1,
        output_max: 1,
        rate,
        rate_unit: RateUnit::OfCapacity,
        ..MultiTenantSpec::default()
    };
    let mut spec = Spec {
        replicas: 1,
        policies: vec![PolicySpec::named("least_requests")],
        workload: WorkloadSpec::MultiTenant(sizes),
        server: ServerSpec { slots: 10, service_s: 0.1, queue: 100, ..ServerSpec::default() },
        clients: ClientsSpec { on: true, policies, patience_s: 300.0, ..ClientsSpec::default() },
        slo: SloSpec { ttft_s: 2.0, itl_s: 1.0 },
        ..Spec::default()
    };
    spec.execution.mode = ExecutionMode::Server;
    spec
}

fn down(at_s: f64, for_s: f64) -> FaultsSpec {
    FaultsSpec { down: 1, down_at_s: at_s, down_s: for_s, reject_cost_s: 0.005, ..FaultsSpec::default() }
}

/// A guess among the client policies of a preset.
fn ask_which(preset: PresetInfo, ask: &str) -> PresetInfo {
    let labels: Vec<String> = preset.spec.clients.policies.iter().map(client_label).collect();
    let options: Vec<&str> = labels.iter().map(String::as_str).collect();
    guess(preset, ask, &options)
}

/// Three thousand requests at 0.6 of capacity; ten seconds without a server leave six hundred clients to come back.
fn retry_storm() -> PresetInfo {
    let patient = |name: &str| ClientSpec::named(name).with("attempts", 30.0);
    let policies = vec![patient("every_second"), patient("exponential"), patient("full_jitter")];
    let spec = Spec { faults: down(20.0, 10.0), ..storm(4000, 0.6, policies) };
    let question =
        "The server is back after ten seconds, and everybody asks at once: whose clients are all served first?";
    ask_which(preset("retry-storm", "A retry storm", question, spec), "Whose clients are all served first?")
}

/// Load of 0.6, three attempts and a time-out of two seconds: capacity is enough for one attempt of everybody and not for three.
fn metastable() -> PresetInfo {
    let policy = ClientSpec::named("immediate").with("attempts", 3.0).with("timeout_s", 2.0);
    let mut spec = storm(3000, 0.6, vec![policy]);
    spec.server = ServerSpec { slots: 2, queue: 0, draws: ServiceLaw::Fixed, ..spec.server };
    spec.faults = FaultsSpec { down: 1, down_at_s: 30.0, down_s: 10.0, down_loses: false, ..FaultsSpec::default() };
    spec.clients.patience_s = 60.0;
    let question = "Load is 0.6 of capacity, and the server stood still for ten seconds: what happens when it goes on?";
    guess(
        preset("metastable", "The recovered service falls over again", question, spec),
        "What is it like a hundred seconds after the stop is over?",
        &[
            "It has recovered: nearly all are answered in time",
            "About half are answered in time",
            "It is still down: hardly any are",
        ],
    )
}

/// The same, and cancellation reaches the server from the middle of the run on.
fn remedied() -> PresetInfo {
    let base = metastable().spec;
    let faults = FaultsSpec { remedy: Remedy::Cancel, remedy_at_s: 140.0, ..base.faults };
    let question =
        "The service that stays down: from one moment on, what nobody waits for is cancelled. Is that enough?";
    guess(
        preset("metastable-remedy", "A remedy in mid-run", question, Spec { faults, ..base }),
        "Load and clients stay as they are. What is it like half a minute after cancellation reaches the server?",
        &["It has recovered", "It is better, and still overloaded", "Nothing has changed"],
    )
}

fn sdk_defaults() -> PresetInfo {
    let spec = Spec { faults: down(10.0, 10.0), ..storm(3000, 0.5, named(&["openai_sdk"])) };
    let question = "The server is away for ten seconds, and clients have the SDK's defaults: who notices?";
    guess(
        preset("sdk-outage", "SDK defaults in an outage of ten seconds", question, spec),
        "Of the requests that come while it is away, how many are given up?",
        &["None: retries bridge it", "About half", "More than three quarters"],
    )
}

/// Half of all calls fail for a while; a client, its SDK and a mesh each try three times.
fn layers() -> PresetInfo {
    let one = ClientSpec::named("immediate").with("attempts", 3.0);
    let policies = vec![
        one.clone(),
        one.clone().with("layer_2_attempts", 3.0),
        one.with("layer_2_attempts", 3.0).with("layer_3_attempts", 3.0),
    ];
    let mut spec = storm(3000, 0.3, policies);
    spec.faults = down(20.0, 5.0);
    let question = "A client, its SDK and a mesh each try three times: what does the server see of one request?";
    guess(
        preset("retry-layers", "Layers of retries", question, spec),
        "With three layers of three attempts, what becomes of a request that always fails?",
        &["9 attempts", "27 attempts", "81 attempts"],
    )
}

/// Whoever is turned away by a full queue is told nothing here; a fixed Retry-After is what a gateway adds. Clients that come back on the same
/// second are the same thing: every second, against the same with jitter.
fn synchronised() -> PresetInfo {
    let fixed = ClientSpec::named("every_second").with("base_s", 5.0);
    let policies = vec![fixed.clone(), fixed.with("jitter", 4.0).with("jitter_share", 0.9)];
    let spec = Spec { faults: down(20.0, 10.0), ..storm(3000, 0.5, policies) };
    let question = "Everybody is told to come back in five seconds, or in anything from half a second to ten: who makes the higher wave?";
    ask_which(
        preset("retry-after", "Retry-After that re-synchronises everyone", question, spec),
        "With whom is the highest peak of attempts lower?",
    )
}

fn jitter() -> PresetInfo {
    let patient = |name: &str| ClientSpec::named(name).with("attempts", 30.0).with("cap_s", 8.0);
    let policies = vec![patient("exponential"), patient("full_jitter"), patient("exponential").with("jitter", 2.0)];
    let mut spec = Spec { faults: down(5.0, 10.0), ..storm(4000, 0.8, policies) };
    spec.faults.reject_cost_s = 0.02;
    let question = "Waits double each time in all three: does it matter that they are not all alike?";
    ask_which(
        preset("does-jitter-matter", "Does jitter matter?", question, spec),
        "Whose clients are all served first?",
    )
}

fn backoff_or_budget() -> PresetInfo {
    let timed = |name: &str| ClientSpec::named(name).with("timeout_s", 2.0).with("attempts", 4.0);
    let policies =
        vec![timed("immediate"), timed("full_jitter"), timed("immediate").with("budget", 4.0), timed("token_bucket")];
    let mut spec = storm(2400, 0.7, policies);
    (spec.server.slots, spec.server.queue) = (2, 0);
    spec.faults = FaultsSpec { down: 1, down_at_s: 20.0, down_s: 10.0, down_loses: false, ..FaultsSpec::default() };
    spec.clients.patience_s = 60.0;
    let question = "Waiting longer, retrying less, or both: what brings a server back that everybody keeps asking?";
    ask_which(
        preset("backoff-or-budget", "Backoff or budget?", question, spec),
        "With whom does most of the capacity go into answers that somebody waited for?",
    )
}

/// Reports of the preset's client policies, in the order of its options.
fn reports<'a>(case: &Case<'a>) -> Option<Vec<&'a ClientsReport>> {
    let runs = case.spec.contenders();
    let of = |policy: &ClientSpec| {
        let at =
            runs.iter().position(|run| run.clients.is_some_and(|index| case.spec.clients.policies[index] == *policy));
        case.policy(at?).clients.as_ref()
    };
    case.preset.spec.clients.policies.iter().map(of).collect()
}

fn everybody_served(case: &Case<'_>) -> Option<Verdict> {
    let reports = reports(case)?;
    // Whoever serves not everybody comes after all who do.
    let rank = |report: &ClientsReport| (report.gave_up + report.waiting, report.all_served_s.unwrap_or(f64::INFINITY));
    let (option, best) = reports.iter().enumerate().min_by(|a, b| {
        let (a, b) = (rank(a.1), rank(b.1));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    })?;
    let when = best.all_served_s.map_or("never".to_owned(), |at| format!("after {}", duration(at)));
    let others: Vec<String> = (reports.iter().filter(|report| report.label != best.label))
        .map(|report| match report.all_served_s {
            Some(at) => format!("{} after {}", report.label, duration(at)),
            None => format!("{} never ({} were not served)", report.label, report.gave_up + report.waiting),
        })
        .collect();
    let because = format!("With {} the last client was served {when}. The others: {}.", best.label, others.join(", "));
    Some(Verdict { option: option as u32, because })
}

/// Share of the requests that arrive within a span and are answered within the limit.
fn in_time(case: &Case<'_>, at: usize, from_s: f64, to_s: f64) -> Option<f64> {
    let records = case.records(at);
    let within = records.iter().filter(|record| (from_s..to_s).contains(&record.arrival.as_secs()));
    let (mut all, mut good) = (0u32, 0u32);
    for record in within {
        all += 1;
        good += u32::from(record.ttft().is_some_and(|ttft| ttft.as_secs() <= case.spec.slo.ttft_s));
    }
    (all > 0).then(|| f64::from(good) / f64::from(all))
}

fn falls_over_again(case: &Case<'_>) -> Option<Verdict> {
    let back = case.spec.faults.down_at_s + case.spec.faults.down_s;
    let share = in_time(case, 0, back + 90.0, back + 110.0)?;
    let option = if share > 0.9 { 0 } else { u32::from(share < 0.3) + 1 };
    let wasted = case.policy(0).clients.as_ref()?.capacity.wasted;
    let because = format!(
        "{} of those who came then were answered in time. {} of the capacity went into answers that nobody waited for any more.",
        percent(share),
        percent(wasted)
    );
    Some(Verdict { option, because })
}

fn healed(case: &Case<'_>) -> Option<Verdict> {
    let at = case.spec.faults.remedy_at_s;
    let (before, after) = (in_time(case, 0, at - 20.0, at)?, in_time(case, 0, at + 30.0, at + 50.0)?);
    let option = if after > 0.9 { 0 } else { u32::from(after < before + 0.1) + 1 };
    let because =
        format!("{} were answered in time before it, {} half a minute after.", percent(before), percent(after));
    Some(Verdict { option, because })
}

fn share_that_gives_up(case: &Case<'_>) -> Option<Verdict> {
    let (from, to) = (case.spec.faults.down_at_s, case.spec.faults.down_at_s + case.spec.faults.down_s);
    let those = || case.records(0).iter().filter(move |record| (from..to).contains(&record.arrival.as_secs()));
    let all = those().count();
    let lost = those().filter(|record| record.first_token.is_none()).count();
    let share = (all > 0).then(|| lost as f64 / all as f64)?;
    let option = if lost == 0 { 0 } else { u32::from(share > 0.75) + 1 };
    let because = format!(
        "{} of {all} were given up ({}). Two retries are over a second and a half after the first attempt.",
        lost,
        percent(share)
    );
    Some(Verdict { option, because })
}

fn amplified(case: &Case<'_>) -> Option<Verdict> {
    let reports = reports(case)?;
    let most = case.records(reports.len() - 1).iter().map(|record| record.attempts).max()?;
    let option = [9, 27, 81].iter().position(|&attempts| attempts == most)?;
    let peaks: Vec<String> =
        reports.iter().map(|report| format!("{} times the capacity", digits(report.peak))).collect();
    let because = format!("The most attempts of a request were {most}. The peaks were {}.", peaks.join(", "));
    Some(Verdict { option: option as u32, because })
}

fn highest_peak(case: &Case<'_>) -> Option<Verdict> {
    let reports = reports(case)?;
    let (option, best) = reports.iter().enumerate().min_by(|a, b| a.1.peak.total_cmp(&b.1.peak))?;
    let others: Vec<String> = (reports.iter().filter(|report| report.label != best.label))
        .map(|report| format!("{} with {}", digits(report.peak), report.label))
        .collect();
    let because = format!(
        "The peak was {} times the capacity with {}. It was {}.",
        digits(best.peak),
        best.label,
        others.join(", ")
    );
    Some(Verdict { option: option as u32, because })
}

fn most_useful(case: &Case<'_>) -> Option<Verdict> {
    let reports = reports(case)?;
    let useful = |report: &ClientsReport| report.capacity.useful;
    let (option, best) = reports.iter().enumerate().max_by(|a, b| useful(a.1).total_cmp(&useful(b.1)))?;
    let others: Vec<String> = (reports.iter().filter(|report| report.label != best.label))
        .map(|report| format!("{} with {}", percent(useful(report)), report.label))
        .collect();
    let because = format!("With {} it was {}. It was {}.", best.label, percent(useful(best)), others.join(", "));
    Some(Verdict { option: option as u32, because })
}
