//! Questions about routing, each with a guess to make first and a judge that reads the answer off the run.

mod guard;
mod scale_out;
mod stale_load;
mod store;

use super::{guess, preset, tenants, unguarded};
use crate::report::findings::Gap;
use crate::report::verdict::{Case, Judge};
use crate::words::{count, digits, duration, percent};
use scale_out::{scale_out, scale_out_fixes, scale_out_honest, scale_out_reuse};
use servelab_fleet::RequestRecord;
use servelab_spec::catalog::PresetInfo;
use servelab_spec::experiment::{EngineSpec, MultiTenantSpec, PolicySpec, RateUnit, SloSpec, Spec};
use servelab_spec::report::Verdict;
use stale_load::stale_load;

pub(super) fn all() -> Vec<PresetInfo> {
    let scaled = [scale_out(), scale_out_honest(), scale_out_fixes(), scale_out_reuse()];
    let mut all = vec![
        hot_tenant(),
        guard::guard(),
        shared_prompts(),
        caches_shared(),
        store::shared_store(),
        store::slow_link(),
    ];
    all.extend(scaled);
    all.push(stale_load());
    all
}

pub(super) fn judge(name: &str) -> Option<Judge> {
    match name {
        "hot-tenant" => Some(where_affinity_ends),
        "guard" => Some(guard::tight_or_loose),
        "shared-prompts" => Some(why_slow),
        "caches-shared" => Some(how_often_computed),
        "scale-out" => Some(scale_out::why_worse),
        "scale-out-honest" => Some(scale_out::how_much_better),
        "scale-out-fixes" => Some(scale_out::which_fix),
        "scale-out-reuse" => Some(scale_out::most_reuse),
        "shared-store" => Some(store::what_it_saves),
        "slow-store" => Some(store::who_computes),
        "stale-load" => Some(stale_load::how_stale_load_does),
        _ => None,
    }
}

/// Zipf exponent 2: the first of eight tenants sends two thirds of the requests, and its home replica gets them all.
fn hot_tenant() -> PresetInfo {
    let sizes = MultiTenantSpec { requests: 400, tenants: 8, skew: 2.0, rate: 3.0, ..Default::default() };
    let policies = vec![PolicySpec::named("round_robin"), unguarded(), PolicySpec::named("prefix_affinity")];
    let spec = Spec { policies, ..tenants(sizes) };
    let ask = "One of eight tenants sends two thirds of the requests. Affinity without its guard reuses most; how soon are its first tokens?";
    let options = ["Soonest: reuse is what counts", "Between the two others", "Latest, behind round-robin"];
    guess(
        preset("hot-tenant", "A tenant that outgrows its replica", "When does plain affinity lose?", spec),
        ask,
        &options,
    )
}

/// How many of the others gave first tokens sooner than affinity without its guard, beyond noise.
fn where_affinity_ends(case: &Case<'_>) -> Option<Verdict> {
    let plain = case.find(&unguarded())?;
    let round_robin = case.find(&PolicySpec::named("round_robin"))?;
    let guarded = case.find(&PolicySpec::named("prefix_affinity"))?;
    let sooner = [round_robin, guarded]
        .into_iter()
        .filter(|&other| matches!(case.gap(plain, other), Gap::Real(gap) if gap.mean > 0.0));
    let option = sooner.count() as u32;
    let told = |at: usize| {
        let policy = case.policy(at);
        let (reuse, busiest) = (percent(policy.reuse.ratio), digits(policy.imbalance.assignments));
        (format!("{reuse} reused, {busiest} times the mean on the busiest replica"), duration(policy.ttft_s.mean))
    };
    let ((plain_did, plain_ttft), (even_did, even_ttft), (_, guarded_ttft)) =
        (told(plain), told(round_robin), told(guarded));
    let because = format!(
        "Without its guard, affinity took {plain_ttft} to a first token on average ({plain_did}), round-robin {even_ttft} ({even_did}). With the guard it took {guarded_ttft}: what overflows goes to replicas that have room."
    );
    Some(Verdict { option, because })
}

/// Llama 3 8B on four L4s. Of 24 GB, 21 are used; 16 hold weights; the rest is about 2 400 blocks of 16 tokens (2 MiB each): room for 19
/// system prompts of 2 000 tokens where 32 are in use, and for each replica's eight when they are divided.
fn l4s(requests: u32, rate: f64) -> Spec {
    let sizes = MultiTenantSpec {
        requests,
        tenants: 32,
        system_min: 1900,
        system_max: 2100,
        user_min: 20,
        user_max: 200,
        output_min: 30,
        output_max: 120,
        rate,
        rate_unit: RateUnit::OfCapacity,
        ..Default::default()
    };
    let mut spec = Spec { slo: SloSpec { ttft_s: 1.0, itl_s: 0.2 }, ..tenants(sizes) };
    spec.engine = EngineSpec { blocks: 2400, max_batch: 32, token_budget: 2048, max_context: 4096, ..spec.engine };
    spec.execution.cost = "l4_llama3_8b".into();
    spec
}

fn shared_prompts() -> PresetInfo {
    let ask = "Round-robin is slow here. What takes the time?";
    let options = [
        "The same system prompts are computed again and again",
        "The prompts are new: there is just much to compute",
        "One replica gets most of the requests",
    ];
    let question = "4 replicas, shared 2000-token system prompts, caches that cannot hold them all, high TTFT: why?";
    let info = preset("shared-prompts", "More shared prompts than a cache holds", question, l4s(400, 1.2));
    guess(info, ask, &options)
}

/// Where the baseline's computed prompt tokens come from, and whether a policy that avoids repeats is faster for it.
fn why_slow(case: &Case<'_>) -> Option<Verdict> {
    let slow = case.find(&PolicySpec::named("round_robin"))?;
    let fast = case.find(&PolicySpec::named("prefix_affinity"))?;
    let (round_robin, affinity) = (case.policy(slow), case.policy(fast));
    let computed = round_robin.computed_tokens();
    // What one cache of unlimited size would have had, and round-robin computed.
    let again = case.report.workload.ceiling.hit_tokens.saturating_sub(round_robin.reuse.hit_tokens);
    let mostly_again = 2 * again > computed;
    let uneven = round_robin.imbalance.assignments >= 1.5;
    let option = match (mostly_again, uneven) {
        (true, _) => 0,
        (false, true) => 2,
        (false, false) => 1,
    };
    let because = format!(
        "Of the {} prompt tokens that Round-robin computed, {} had been computed before, on this replica or another. {} computed {} on the same replicas, and its first tokens came after {} on average instead of {}.",
        count(computed),
        percent(again as f64 / computed.max(1) as f64),
        affinity.label,
        count(affinity.computed_tokens()),
        duration(affinity.ttft_s.mean),
        duration(round_robin.ttft_s.mean)
    );
    Some(Verdict { option, because })
}

/// One tenant and room for its prompt everywhere: whatever is computed twice is computed on two replicas.
fn caches_shared() -> PresetInfo {
    let sizes = MultiTenantSpec { requests: 40, tenants: 1, rate: 0.5, ..Default::default() };
    let policies = vec![PolicySpec::named("round_robin"), unguarded()];
    let ask = "All 40 requests begin with the same system prompt, and round-robin deals them to four replicas in turn. How often is that prompt computed?";
    let options = ["Once", "Once on each replica", "Every time"];
    let spec = Spec { policies, ..tenants(sizes) };
    guess(preset("caches-shared", "One prompt for everyone", "Are caches shared across replicas?", spec), ask, &options)
}

fn how_often_computed(case: &Case<'_>) -> Option<Verdict> {
    let (dealt, kept) = (case.find(&PolicySpec::named("round_robin"))?, case.find(&unguarded())?);
    // A prompt is its tenant's part and a short one of its own, so less than half from the cache is none of the shared part.
    let anew = |record: &&RequestRecord| (record.cached_tokens + record.fetched_tokens) * 2 < record.prompt_tokens;
    let whole = |at: usize| case.records(at).iter().filter(anew).count() as u64;
    let used = |at: usize| case.policy(at).replicas.iter().filter(|replica| replica.assignments > 0).count() as u64;
    let (by_turns, at_home) = (whole(dealt), whole(kept));
    let option = match by_turns {
        0 | 1 => 0,
        some if some <= used(dealt) => 1,
        _ => 2,
    };
    let times = |n: u64| if n == 1 { "once".to_owned() } else { format!("{} times", count(n)) };
    let of = case.policy(dealt).requests.total;
    // What a store behind the replicas would change, where there could be one and there is none yet.
    let none = case.spec.store.blocks == 0;
    let stored = none.then(|| case.variant(&[PolicySpec::named("round_robin")], &[("store.blocks", "1000")])).flatten();
    let stored = stored.as_ref().and_then(|variant| {
        let computed = variant.case()?.records(0).iter().filter(anew).count() as u64;
        let fetched = times(variant.policy().store?.fetches);
        let computed = times(computed);
        Some(format!("; with a store that all replicas share, round-robin would have computed it {computed} and fetched it {fetched} (it is there once the first has computed it)"))
    });
    let (stored, found) =
        (stored.unwrap_or_default(), if none { "found it in their replica's cache" } else { "found or fetched it" });
    let because = format!(
        "Round-robin sent the {} requests to {} replicas and the shared prompt was computed {}; the other {} {found}. {} sent them to {}, and it was computed {}{stored}.",
        count(of),
        used(dealt),
        times(by_turns),
        count(of.saturating_sub(by_turns)),
        case.policy(kept).label,
        if used(kept) == 1 { "one replica".to_owned() } else { format!("{} replicas", used(kept)) },
        times(at_home)
    );
    Some(Verdict { option, because })
}
