//! "Are caches shared across replicas?" Only where a store behind them holds what each has computed; and whether that pays is a question of bytes and bandwidth.

use super::{guess, l4s, preset, unguarded};
use crate::report::verdict::Case;
use crate::words::{bytes, count, duration, percent};
use servelab_spec::catalog::PresetInfo;
use servelab_spec::experiment::{PolicySpec, Spec, StoreSpec, WorkloadSpec};
use servelab_spec::report::{StoreReport, Verdict};

/// Four L4s whose caches cannot hold all system prompts, and 40 GB of host memory behind them on links of 25 Gbit/s.
pub(super) fn shared_store() -> PresetInfo {
    let store = StoreSpec { blocks: 20_000, link_gb_per_s: 3.125, ..StoreSpec::default() };
    let spec = Spec { store, ..l4s(400, 1.2) };
    let ask = "Round-robin scatters 32 long prompts over four caches that cannot hold them. With a store behind the caches that can, how much sooner are its first tokens than without?";
    let options = ["Not at all: fetching takes as long as computing", "Up to twice as soon", "More than twice as soon"];
    let question = "Are caches shared across replicas if a store stands behind them, and does the router still matter?";
    guess(preset("shared-store", "A store behind the caches", question, spec), ask, &options)
}

/// Below a tenth a person would call it no change.
const SAME: f64 = 1.1;

pub(super) fn what_it_saves(case: &Case<'_>) -> Option<Verdict> {
    let (turns, affine) = (PolicySpec::named("round_robin"), PolicySpec::named("prefix_affinity"));
    let (with, affinity) = (case.policy(case.find(&turns)?), case.policy(case.find(&affine)?));
    let store = with.store?;
    let without = case.variant(&[turns], &[("store.blocks", "0")])?;
    let plain = case.variant(&[affine], &[("store.blocks", "0")])?;
    let ratio = without.policy().ttft_s.mean / with.ttft_s.mean.max(f64::MIN_POSITIVE);
    let option = match ratio {
        same if same <= SAME => 0,
        twice if twice <= 2.0 => 1,
        _ => 2,
    };
    let because = format!(
        "Round-robin's mean TTFT was {} without the store and {} with it: {} of the prompt tokens were fetched ({} in {} fetches, {} each on average) besides the {} in its replicas' own caches. With affinity it was {} without and {} with the store, which moved {}.",
        duration(without.policy().ttft_s.mean),
        duration(with.ttft_s.mean),
        percent(store.ratio),
        bytes(store.bytes),
        count(store.fetches),
        duration(store.fetch_s / store.fetches.max(1) as f64),
        percent(with.reuse.ratio),
        duration(plain.policy().ttft_s.mean),
        duration(affinity.ttft_s.mean),
        bytes(affinity.store.map_or(0, |store| store.bytes))
    );
    Some(Verdict { option, because })
}

/// The same prompts on four H100s and 10 Gbit/s: 131 072 KV bytes of a token take 105 µs on the link and 25 µs to compute.
pub(super) fn slow_link() -> PresetInfo {
    let mut spec = l4s(400, 1.2);
    if let WorkloadSpec::MultiTenant(sizes) = &mut spec.workload {
        sizes.tenants = 48;
    }
    spec.policies = vec![PolicySpec::named("round_robin"), unguarded()];
    spec.execution.cost = "h100_llama3_8b".into();
    spec.slo.ttft_s = 0.5;
    spec.store = StoreSpec { blocks: 20_000, ..StoreSpec::default() };
    let ask = "Round-robin's replicas often lack a prompt that the store behind them has. Each fetches it where that is sooner than computing it. How often is it fetched?";
    let options =
        ["Nearly always", "In some cases", "Hardly ever: a fast GPU computes it before a slow link brings it"];
    let question = "Four H100s and a shared store at 10 Gbit/s: fetch or compute?";
    guess(preset("slow-store", "A store behind a slow link", question, spec), ask, &options)
}

pub(super) fn who_computes(case: &Case<'_>) -> Option<Verdict> {
    let turns = PolicySpec::named("round_robin");
    let run = case.policy(case.find(&turns)?);
    let StoreReport { fetches, declined, .. } = run.store?;
    let share = fetches as f64 / (fetches + declined).max(1) as f64;
    let option = if share >= 0.9 {
        0
    } else if share > 0.1 {
        1
    } else {
        2
    };
    let always = case.variant(std::slice::from_ref(&turns), &[("store.fetch", "always")])?;
    let quick = case.variant(std::slice::from_ref(&turns), &[("store.link_gb_per_s", "12.5")])?;
    let fetched = |at: &Option<StoreReport>| at.map_or(0, |store| store.fetches);
    let because = format!(
        "Of {} times that the store had more of a prompt than the replica, it was fetched {} times, and the mean TTFT was {}. Fetching always would have made it {}; on links of 100 Gbit/s {} fetches would have paid, for {}.",
        count(fetches + declined),
        count(fetches),
        duration(run.ttft_s.mean),
        duration(always.policy().ttft_s.mean),
        count(fetched(&quick.policy().store)),
        duration(quick.policy().ttft_s.mean)
    );
    Some(Verdict { option, because })
}
