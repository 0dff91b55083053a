//! Storms: what clients' retries do to a server that was away for a while, and what helps.
//!
//! Replicas are queueing stations, so that what is seen is the clients' doing alone: the same loop, client policies and faults act on engines as well.

mod judges;

use super::{guess, preset};
use crate::catalog::client_label;
use crate::report::verdict::Judge;
use servelab_spec::catalog::PresetInfo;
use servelab_spec::experiment::{
    ClientSpec, ClientsSpec, ExecutionMode, FaultsSpec, GatewaySpec, MultiTenantSpec, PolicySpec, RateUnit, Remedy,
    RetryAfterKind, ServerSpec, ServiceLaw, SloSpec, Spec, WorkloadSpec,
};

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
        "retry-storm" | "does-jitter-matter" => judges::served_first as Judge,
        "metastable" => judges::falls_over_again,
        "metastable-remedy" => judges::healed,
        "sdk-outage" => judges::share_that_gives_up,
        "retry-layers" => judges::amplified,
        "retry-after" => judges::what_to_say,
        "backoff-or-budget" => judges::what_brings_back,
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

/// A guess among the client policies of a preset, or that they hardly differ.
fn ask_which(preset: PresetInfo, ask: &str) -> PresetInfo {
    let labels: Vec<String> = preset.spec.clients.policies.iter().map(client_label).collect();
    let options: Vec<&str> = labels.iter().map(String::as_str).chain(["The two best hardly differ"]).collect();
    guess(preset, ask, &options)
}

/// Sixty requests a second, 0.6 of capacity; ten seconds without a server leave six hundred clients to come back, and turning one away takes a fifth of the
/// work of serving it.
fn retry_storm() -> PresetInfo {
    let patient = |name: &str| ClientSpec::named(name).with("attempts", 60.0);
    let policies = vec![patient("every_second"), patient("exponential"), patient("full_jitter")];
    let mut spec = Spec { faults: down(20.0, 10.0), ..storm(3000, 0.6, policies) };
    spec.faults.reject_cost_s = 0.02;
    let question =
        "The server is back after ten seconds, and six hundred clients have waited for it: whose are all served first?";
    ask_which(
        preset("retry-storm", "A retry storm", question, spec),
        "Of those who came until the server was back: whose clients are all served first?",
    )
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
        "Load and clients stay as they are. What is it like half a minute after the remedy?",
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

/// A thousand clients within a second, as a timer at the full hour makes them, before a gateway that lets few in and tells the rest when to come back; and they do,
/// to the letter.
fn synchronised() -> PresetInfo {
    let obedient = ClientSpec::named("openai_sdk").with("attempts", 60.0);
    let mut spec = storm(1000, 50.0, vec![obedient]);
    (spec.server.slots, spec.server.queue) = (2, 0);
    spec.gateway = GatewaySpec {
        on: true,
        concurrency: 4,
        queue: 40,
        ttl_s: 0.0,
        retry_after: RetryAfterKind::Fixed,
        retry_after_s: 5.0,
        ..GatewaySpec::default()
    };
    let question = "A thousand clients come at once, and the gateway tells those it turns away when to come back: should it tell all the same?";
    guess(
        preset("retry-after", "What should Retry-After say?", question, spec),
        "Told five seconds, or told anything from five to fifteen: when is the last of them served sooner?",
        &["When all are told five seconds", "When each is told another time", "It hardly matters"],
    )
}

/// Six hundred clients within a third of a second, and room for few.
fn jitter() -> PresetInfo {
    let patient = |name: &str| ClientSpec::named(name).with("attempts", 60.0).with("cap_s", 8.0);
    let policies = vec![patient("exponential"), patient("full_jitter"), patient("exponential").with("jitter", 2.0)];
    let mut spec = storm(600, 20.0, policies);
    spec.server.queue = 20;
    spec.faults.reject_cost_s = 0.002;
    let question =
        "Six hundred clients come at once, and waits double each time in all three: does it matter how alike they are?";
    ask_which(
        preset("does-jitter-matter", "Does jitter matter?", question, spec),
        "Whose clients are all served first?",
    )
}

/// A server that stood still for ten seconds, at 0.7 of capacity, four attempts each: nothing, backoff, a budget, and both.
fn backoff_or_budget() -> PresetInfo {
    let timed = |name: &str| ClientSpec::named(name).with("timeout_s", 2.0).with("attempts", 4.0);
    let policies =
        vec![timed("immediate"), timed("full_jitter"), timed("immediate").with("budget", 4.0), timed("token_bucket")];
    let mut spec = storm(4000, 0.7, policies);
    (spec.server.slots, spec.server.queue) = (2, 0);
    spec.faults = FaultsSpec { down: 1, down_at_s: 20.0, down_s: 10.0, down_loses: false, ..FaultsSpec::default() };
    spec.clients.patience_s = 60.0;
    let question = "Everybody tries four times, and the server stood still for ten seconds: what brings it back?";
    guess(
        preset("backoff-or-budget", "Backoff or budget?", question, spec),
        "What is enough for nearly all to be answered in time again at the end?",
        &[
            "Waiting longer: backoff with jitter",
            "Retrying less: a budget",
            "Either of them",
            "Only both together",
            "Not even both together",
        ],
    )
}
