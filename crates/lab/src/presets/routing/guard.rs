//! "The guard from too tight to too loose": one policy at five settings of one threshold. Too tight, it sends requests away from their cache for a moment's
//! unevenness; too loose, it leaves them waiting behind a home that is overloaded.

use super::{guess, preset, tenants};
use crate::report::findings::Gap;
use crate::report::verdict::Case;
use crate::words::{duration, percent};
use servelab_spec::catalog::PresetInfo;
use servelab_spec::experiment::{MultiTenantSpec, PolicySpec, Spec};
use servelab_spec::report::Verdict;

/// Thresholds from the tightest there is to one that never acts with four replicas, whose busiest can hold four times the mean.
const RATIOS: [f64; 5] = [1.0, 1.5, 2.0, 3.0, 4.0];

fn guarded(ratio: f64) -> PolicySpec {
    PolicySpec::named("prefix_affinity").with("guard_ratio", ratio)
}

/// One tenant sends 45 % of the requests, and no cache holds every system prompt (24 × 26 blocks of 384): leaving a home costs a prompt, staying costs a queue. The rate is
/// what the middle settings can still carry and the ends can not.
pub(super) fn guard() -> PresetInfo {
    let sizes = MultiTenantSpec { requests: 600, tenants: 24, skew: 1.5, rate: 3.5, ..Default::default() };
    let spec = Spec { policies: RATIOS.map(guarded).into(), ..tenants(sizes) };
    let ask = "Affinity leaves a prompt's home when that holds more than so many times the mean of the work in flight: 1, 1.5, 2, 3 or 4 times. How does the mean TTFT change from tight to loose?";
    let options = [
        "It falls: the looser, the more is reused",
        "It rises: the tighter, the evener the load",
        "It is lowest somewhere between: both ends lose",
        "It hardly changes",
    ];
    let question = "How loose should affinity's guard be?";
    guess(preset("guard", "The guard, from too tight to too loose", question, spec), ask, &options)
}

/// The best setting against both ends, request by request.
pub(super) fn tight_or_loose(case: &Case<'_>) -> Option<Verdict> {
    let places: Vec<usize> = RATIOS.iter().map(|&ratio| case.find(&guarded(ratio))).collect::<Option<_>>()?;
    let (&tight, &loose) = (places.first()?, places.last()?);
    let ttft = |at: usize| case.policy(at).ttft_s.mean;
    let best = places.iter().copied().min_by(|&a, &b| ttft(a).total_cmp(&ttft(b)))?;
    let loses = |end: usize| end != best && matches!(case.gap(end, best), Gap::Real(gap) if gap.mean > 0.0);
    let option = match (loses(tight), loses(loose)) {
        (true, true) => 2,
        (true, false) => 0,
        (false, true) => 1,
        (false, false) => 3,
    };
    let told = |at: usize| {
        let policy = case.policy(at);
        format!(
            "{} ({} reused, {:.1} times the mean on the busiest replica)",
            duration(policy.ttft_s.mean),
            percent(policy.reuse.ratio),
            policy.imbalance.assignments
        )
    };
    let between = if best == tight || best == loose {
        "no setting between them was sooner".to_owned()
    } else {
        format!("{} took {}", case.policy(best).label, told(best))
    };
    let because = format!(
        "On average a first token took {} at the tightest setting, {} at the loosest; {between}. What the guard sends away finds room and computes its prompt again.",
        told(tight),
        told(loose)
    );
    Some(Verdict { option, because })
}
