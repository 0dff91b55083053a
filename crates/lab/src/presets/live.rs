//! Situations of the real model: replicas that compute every step, start for real, and are stormed by clients.
//!
//! What they take differs from device to device, so loads are shares of what was measured, and answers are read off the run.

use super::{guess, preset, tenants};
use crate::report::verdict::{Case, Judge};
use crate::words::{digits, duration};
use servelab_spec::catalog::PresetInfo;
use servelab_spec::experiment::{
    ClientSpec, ClientsSpec, ControllerSpec, EngineSpec, ExecutionMode, FaultsSpec, ModelChoice, MultiTenantSpec,
    PolicySpec, ScalingSpec, SloSpec, Spec, StartupSpec,
};
use servelab_spec::report::Verdict;

pub(super) fn all() -> Vec<PresetInfo> {
    vec![cold_start(), storm()]
}

pub(super) fn judge(name: &str) -> Option<Judge> {
    Some(match name {
        "live-cold-start" => longest_stage as Judge,
        "live-storm" => attempts_each,
        _ => return None,
    })
}

/// The trained model under short prompts of a few tenants. `load` is a share of what the fleet could serve without any reuse; three quarters of these prompts
/// are reused.
fn trained(requests: u32, load: f64) -> Spec {
    let sizes = MultiTenantSpec {
        requests,
        tenants: 4,
        system_min: 48,
        system_max: 48,
        user_min: 8,
        user_max: 24,
        output_min: 16,
        output_max: 24,
        rate: load,
        ..MultiTenantSpec::default()
    };
    let mut spec = Spec { policies: vec![PolicySpec::named("least_requests")], ..tenants(sizes) };
    spec.engine = EngineSpec { blocks: 128, max_batch: 8, token_budget: 128, max_context: 512, ..spec.engine };
    spec.execution.mode = ExecutionMode::Tinygpt;
    spec.execution.model = ModelChoice::Trained;
    spec
}

/// One replica under more than it can serve, whatever it reuses. Node, image and process take no time here: what is left happens in this tab.
fn cold_start() -> PresetInfo {
    let controller = ControllerSpec::named("naive_ratio").with("sync_s", 1.0);
    let spec = Spec {
        replicas: 1,
        scaling: ScalingSpec {
            on: true,
            controllers: vec![controller],
            min: 1,
            max: 3,
            scrape_s: 1.0,
            ..ScalingSpec::default()
        },
        startup: StartupSpec { node_s: 0.0, image_gb: 0.0, process_s: 0.0, ..StartupSpec::default() },
        slo: SloSpec { ttft_s: 0.2, itl_s: 0.1 },
        ..trained(600, 5.0)
    };
    let question = "One replica is too few. The next one fetches its weights, loads them and warms up, here and now: what takes longest?";
    guess(
        preset("live-cold-start", "A cold start in this tab", question, spec),
        "Which part of the start takes longest on this device?",
        &["Fetching the weights", "Loading them", "The first generation"],
    )
}

fn longest_stage(case: &Case<'_>) -> Option<Verdict> {
    let delays = &case.policy(0).scaling.as_ref()?.delays;
    let of = |what: &str| delays.iter().find(|delay| delay.what == what).map(|delay| delay.seconds);
    let parts = [of("Weights to host")?, of("Weights to GPU")?, of("Warm-up")?];
    let (option, _) = parts.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
    let [fetched, loaded, warmed] = parts.map(duration);
    let because = format!(
        "The first replica that helped fetched for {fetched}, loaded for {loaded} and generated for {warmed} before it took a request. Each was measured."
    );
    Some(Verdict { option: option as u32, because })
}

/// Two replicas at most of what they can do, one of them away for some seconds, and clients with the defaults of an SDK and little patience.
fn storm() -> PresetInfo {
    let policy = ClientSpec::named("openai_sdk").with("timeout_s", 2.0);
    let spec = Spec {
        replicas: 2,
        clients: ClientsSpec { on: true, policies: vec![policy], patience_s: 30.0, ..ClientsSpec::default() },
        faults: FaultsSpec { down: 1, down_at_s: 5.0, down_s: 10.0, ..FaultsSpec::default() },
        slo: SloSpec { ttft_s: 1.0, itl_s: 0.1 },
        ..trained(1200, 2.0)
    };
    let question =
        "Two real replicas, one is away for ten seconds, and clients ask again: what do they add to the load?";
    guess(
        preset("live-storm", "A storm over real replicas", question, spec),
        "How many attempts does a request take, on average?",
        &["Less than 1.05", "Between 1.05 and 1.5", "More than 1.5"],
    )
}

fn attempts_each(case: &Case<'_>) -> Option<Verdict> {
    let of = case.policy(0);
    let clients = of.clients.as_ref()?;
    let each = of.requests.attempts as f64 / of.requests.total.max(1) as f64;
    let option = [1.05, 1.5].iter().position(|&limit| each < limit).unwrap_or(2);
    let because = format!(
        "It was {}, with {} retries for {} requests. {} gave up.",
        digits(each),
        clients.retries,
        of.requests.total,
        clients.gave_up
    );
    Some(Verdict { option: option as u32, because })
}
