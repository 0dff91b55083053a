//! "Does stale load information hurt?" Mitzenmacher (*How useful is old information?*, IEEE TPDS 2000): sending everything to what looked least loaded
//! at the last reading can be worse than not looking at all, and the better of two random choices on the same reading suffers far less.

use super::{guess, preset, tenants};
use crate::report::findings::Gap;
use crate::report::verdict::Case;
use crate::words::{digits, duration};
use servelab_spec::catalog::PresetInfo;
use servelab_spec::experiment::{MultiTenantSpec, PolicySpec, RoutingSpec, Spec};
use servelab_spec::report::Verdict;

/// Polled tokens in the engine, as SGLang's gateway reads them.
const POLLED: f64 = 2.0;

fn blind() -> PolicySpec {
    PolicySpec::named("random")
}

fn two_choices() -> PolicySpec {
    PolicySpec::named("power_of_two").with("measure", POLLED)
}

fn least() -> PolicySpec {
    PolicySpec::named("least_kv_cache")
}

fn fresh() -> PolicySpec {
    PolicySpec::named("least_requests")
}

/// Prompts that are nobody else's, so that caches do not matter and load is all there is. Metrics are read every second, between the 50 ms of
/// llm-d and AIBrix and the 30 s of production-stack; some sixteen requests arrive between two readings.
pub(super) fn stale_load() -> PresetInfo {
    let sizes = MultiTenantSpec {
        requests: 600,
        tenants: 1,
        system_min: 16,
        system_max: 16,
        user_min: 50,
        user_max: 600,
        output_min: 16,
        output_max: 128,
        rate: 0.7,
        ..Default::default()
    };
    let routing = RoutingSpec { scrape_s: 1.0, ..RoutingSpec::default() };
    let policies = vec![blind(), two_choices(), least(), fresh()];
    let spec = Spec { replicas: 8, policies, routing, ..tenants(sizes) };
    let ask = "Load is read once a second. One router always takes the replica that held least at the last reading. How does it do?";
    let options = [
        "As well as one that counts its own requests in flight",
        "Worse than that, and no worse than choosing at random",
        "Worse than choosing at random",
    ];
    guess(preset("stale-load", "Load as it was a second ago", "Does stale load information hurt?", spec), ask, &options)
}

pub(super) fn how_stale_load_does(case: &Case<'_>) -> Option<Verdict> {
    let (blind, two) = (case.find(&blind())?, case.find(&two_choices())?);
    let (least, fresh) = (case.find(&least())?, case.find(&fresh())?);
    let worse_than = |other: usize| matches!(case.gap(least, other), Gap::Real(gap) if gap.mean > 0.0);
    let option = match (worse_than(blind), worse_than(fresh)) {
        (true, _) => 2,
        (false, true) => 1,
        (false, false) => 0,
    };
    let mean = |at: usize| duration(case.policy(at).ttft_s.mean);
    let because = format!(
        "Taking what held least at the last reading gave a mean TTFT of {}, choosing at random {}, counting requests in flight {}. The better of two random replicas by readings of the same {} s gave {}: not everybody takes the same one.",
        mean(least),
        mean(blind),
        mean(fresh),
        digits(case.spec.routing.scrape_s),
        mean(two)
    );
    Some(Verdict { option, because })
}
