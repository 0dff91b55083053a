//! The guess of a preset is judged by what the run shows: the answer holds over seeds, beyond noise, and turns when its cause is taken away.

#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods)]

use servelab_lab::stats::{Paired, mean, paired};
use servelab_lab::{Session, presets, run_priced};
use servelab_spec::experiment::{ExecutionMode, PolicySpec};
use servelab_spec::report::{PolicyReport, Report};
use servelab_spec::{Spec, patch};

const SEEDS: std::ops::RangeInclusive<u64> = 1..=8;

fn spec(name: &str, changes: &[(&str, &str)]) -> Spec {
    let start = presets::find(name).unwrap().spec;
    changes.iter().fold(start, |spec, (key, value)| patch::set(&spec, key, value).unwrap())
}

fn option(report: &Report) -> Option<u32> {
    report.verdict.as_ref().map(|verdict| verdict.option)
}

/// What every seed answers to a preset, changed or not.
fn answers(name: &str, changes: &[(&str, &str)]) -> Vec<Option<u32>> {
    SEEDS.map(|seed| option(&run_priced(&Spec { seed, ..spec(name, changes) }).unwrap())).collect()
}

fn all_say(wanted: u32, name: &str, changes: &[(&str, &str)]) {
    let said = answers(name, changes);
    assert!(said.iter().all(|said| *said == Some(wanted)), "{name} {changes:?}: {said:?}, expected {wanted}");
}

#[test]
fn a_guess_has_a_judge_and_its_verdict_is_an_option_in_two_sentences() {
    // A day of an autoscaler has hundreds of thousands of requests; invariants are checked at every few of them here.
    let small = |spec: &Spec| u64::from(spec.workload.requests()) * spec.contenders().len() as u64 <= 30_000;
    let affordable = |spec: &Spec| small(spec) && (!cfg!(debug_assertions) || spec.engine.blocks < 5000);
    for preset in presets::all() {
        if !affordable(&preset.spec) || preset.spec.execution.mode == ExecutionMode::Tinygpt {
            continue;
        }
        let report = run_priced(&preset.spec).unwrap();
        assert_eq!(preset.prediction.is_some(), report.verdict.is_some(), "{}", preset.name);
        let (Some(guess), Some(verdict)) = (preset.prediction, report.verdict) else { continue };
        assert!(guess.ask.ends_with('?') && guess.options.len() >= 2, "{}", preset.name);
        assert!((verdict.option as usize) < guess.options.len(), "{}", preset.name);
        let sentences = verdict.because.matches(". ").count() + usize::from(verdict.because.ends_with('.'));
        assert_eq!(sentences, 2, "{}", verdict.because);
    }
}

#[test]
fn a_stopped_run_and_one_without_its_policies_are_not_judged() {
    let mut session = Session::new(spec("multi-tenant", &[])).unwrap();
    session.advance(500).unwrap();
    assert_eq!(option(&session.report()), None);
    let without = spec("multi-tenant", &[("policies", "round_robin,least_tokens")]);
    assert_eq!(option(&run_priced(&without).unwrap()), None);
    let turned = spec("multi-tenant", &[("policies", "prefix_affinity,least_tokens,round_robin")]);
    let order = run_priced(&turned).unwrap();
    assert_eq!(option(&order), Some(2), "options follow the preset, whatever the order of the run");
}

/// Options are the preset's policies, whatever was added; but where an added one is sooner, nobody is called the soonest of all.
#[test]
fn an_added_policy_that_is_sooner_is_named() {
    let mut named = 0;
    for added in ["least_requests", "kubeai_prefix_hash", "sglang_cache_aware", "dynamo_kv", "blend"] {
        let policies = format!("round_robin,least_tokens,prefix_affinity,{added}");
        let report = run_priced(&spec("multi-tenant", &[("policies", &policies)])).unwrap();
        let verdict = report.verdict.unwrap();
        assert_eq!(verdict.option, 2, "the answer is about the policies that were asked about");
        let (asked, more) = (report.policies[2].ttft_s.mean, &report.policies[3]);
        let told = verdict.because.contains(&format!("{}, which was not asked about, was sooner still", more.label));
        assert_eq!(verdict.because.starts_with("Of the policies asked about, "), told);
        assert!(!told || more.ttft_s.mean < asked, "{}", verdict.because);
        // Half as long again is beyond noise in 300 requests.
        assert!(told || more.ttft_s.mean > asked / 1.5, "{added}: {} after {}", more.ttft_s.mean, verdict.because);
        named += u32::from(told);
    }
    assert!(named > 0, "some of them is sooner");
}

#[test]
fn affinity_is_soonest_with_many_tenants_and_nobody_is_on_one_replica() {
    all_say(2, "multi-tenant", &[]);
    // One replica leaves no choice: the last option is that there is no difference.
    all_say(3, "multi-tenant", &[("replicas", "1")]);
}

#[test]
fn shared_prompts_are_slow_because_they_are_computed_again() {
    all_say(0, "shared-prompts", &[]);
    // Every request a tenant of its own, nearly: nothing to compute again.
    all_say(1, "shared-prompts", &[("workload.tenants", "400")]);
    let pairs = SEEDS.map(|seed| {
        let report = run_priced(&Spec { seed, ..spec("shared-prompts", &[]) }).unwrap();
        (report.policies[0].ttft_s.mean, report.policies[2].ttft_s.mean)
    });
    let gap = paired(pairs).unwrap();
    println!("shared-prompts, mean TTFT, round-robin − affinity: {gap:?}");
    assert!(gap.low > 0.1, "{gap:?}");
}

#[test]
fn a_prompt_is_computed_once_on_each_replica() {
    all_say(1, "caches-shared", &[]);
    all_say(0, "caches-shared", &[("replicas", "1")]);
    all_say(2, "caches-shared", &[("engine.prefix_cache", "off")]);
    // Replicas that ask before the first one has computed it compute it too; nobody does afterwards.
    let mut fetched = 0;
    for seed in SEEDS {
        let report = run_priced(&Spec { seed, ..spec("caches-shared", &[("store.blocks", "1000")]) }).unwrap();
        assert!(option(&report) < Some(2), "{report:?}");
        let fetches = report.policies[0].store.unwrap().fetches;
        assert!(fetches < 4, "each replica lacks it once, and the first has nowhere to fetch it from");
        fetched += fetches;
        // What the verdict of the run without a store says of the one with it.
        let said = run_priced(&Spec { seed, ..spec("caches-shared", &[]) }).unwrap().verdict.unwrap().because;
        let times = |n: u64| if n == 1 { "once".to_owned() } else { format!("{n} times") };
        let expected = format!("would have computed it {} and fetched it {}", times(4 - fetches), times(fetches));
        assert!(said.contains(&expected), "{said}, expected {expected}");
    }
    assert!(fetched > 0);
}

/// The store spares round-robin its repeats while the link is quick enough, and a slow link before a quick GPU spares nothing.
#[test]
fn a_shared_store_pays_where_fetching_is_sooner() {
    // Round-robin alone: judges of these presets run variants, and this is about the runs.
    let turns = |name: &str, changes: &[(&str, &str)], figure: fn(&PolicyReport) -> f64| {
        let alone = Spec { policies: vec![PolicySpec::named("round_robin")], ..spec(name, changes) };
        let run = |seed| {
            let mut session = Session::unwatched(Spec { seed, ..alone.clone() }).unwrap();
            while !session.advance(u32::MAX).unwrap().done {}
            figure(&session.report().policies[0])
        };
        (1..=4).map(run).collect::<Vec<f64>>()
    };
    let compare = |first: Vec<f64>, second: Vec<f64>| paired(first.into_iter().zip(second)).unwrap();
    let ttft = |policy: &PolicyReport| policy.ttft_s.mean;
    let saved = compare(turns("shared-store", &[("store.blocks", "0")], ttft), turns("shared-store", &[], ttft));
    println!("shared-store, mean TTFT of round-robin, without − with: {saved:?}");
    assert!(saved.low > 0.1, "{saved:?}");
    let fetches = turns("slow-store", &[], |policy| policy.store.unwrap().fetches as f64);
    assert!(fetches.iter().all(|&fetches| fetches == 0.0), "{fetches:?}");
    let always = turns("slow-store", &[("store.fetch", "always")], ttft);
    let worse = compare(always, turns("slow-store", &[], ttft));
    println!("slow-store, mean TTFT of round-robin, always − where it is sooner: {worse:?}");
    assert!(worse.low > 0.0, "{worse:?}");
    let said = |name: &str, changes: &[(&str, &str)]| {
        let verdict = run_priced(&spec(name, changes)).unwrap().verdict.unwrap();
        println!("{name} {changes:?}: {}", verdict.because);
        verdict.option
    };
    assert_eq!(said("slow-store", &[]), 2);
    assert_eq!(said("slow-store", &[("store.link_gb_per_s", "12.5")]), 0);
    said("shared-store", &[]);
}

#[test]
fn plain_affinity_ends_last_with_a_hot_tenant_only() {
    all_say(2, "hot-tenant", &[]);
    // The same load spread evenly over tenants: nobody overflows.
    for said in answers("hot-tenant", &[("workload.skew", "0"), ("workload.tenants", "64")]) {
        assert_ne!(said, Some(2));
    }
}

/// The guard's threshold has a best place: beyond noise, both ends of its range lose to it. With little to do, nothing is lost by staying at home.
#[test]
fn a_guard_can_be_too_tight_and_too_loose() {
    all_say(2, "guard", &[]);
    for said in answers("guard", &[("workload.rate", "0.5")]) {
        assert!(matches!(said, Some(0 | 3)), "{said:?}");
    }
}

/// Mean TTFT of a policy before the replicas join, caches having filled, and after.
fn around_the_join(spec: &Spec, policy: usize) -> (f64, f64) {
    let mut session = Session::new(spec.clone()).unwrap();
    while !session.advance(u32::MAX).unwrap().done {}
    let join = spec.events.join_at_s;
    let ttft = &session.chart_lanes()[policy].ttft;
    let of = |from: f64, to: f64| {
        let samples = ttft.iter().filter(|(at, _)| (from..to).contains(at));
        mean(&samples.map(|(_, ttft)| *ttft).collect::<Vec<_>>())
    };
    (of(join / 2.0, join), of(join, f64::INFINITY))
}

/// What each fix is worth, the first policy being round-robin and the third affinity with its guard.
#[test]
fn scaling_out_hurts_first_and_two_fixes_help() {
    all_say(0, "scale-out", &[]);
    all_say(0, "scale-out-honest", &[]);
    // Without warm-up there is nothing to be dishonest about; the caches are still empty.
    all_say(1, "scale-out", &[("events.warm_up_s", "0")]);
    assert_eq!(option(&run_priced(&spec("scale-out", &[("events.join", "0")])).unwrap()), None);

    let compare = |first: (&str, usize), second: (&str, usize)| -> Paired {
        let after = |seed, (name, policy): (&str, usize)| around_the_join(&Spec { seed, ..spec(name, &[]) }, policy).1;
        paired(SEEDS.map(|seed| (after(seed, first), after(seed, second)))).unwrap()
    };
    let readiness = compare(("scale-out", 0), ("scale-out-honest", 0));
    let affinity = compare(("scale-out-honest", 0), ("scale-out-honest", 2));
    let affinity_alone = compare(("scale-out", 0), ("scale-out", 2));
    let rise = paired(SEEDS.map(|seed| {
        let (before, after) = around_the_join(&Spec { seed, ..spec("scale-out", &[]) }, 0);
        (after, before)
    }));
    println!("mean TTFT after − before, round-robin: {rise:?}");
    println!("saved by honest readiness: {readiness:?}");
    println!("saved by affinity with its guard, readiness honest: {affinity:?}");
    println!("saved by affinity with its guard alone: {affinity_alone:?}");
    assert!(rise.unwrap().low > 0.0);
    assert!(readiness.low > 0.5, "most of the rise: {readiness:?}");
    assert!(affinity.low > 0.0, "{affinity:?}");
}

/// Of the three fixes honest readiness is worth most while replicas warm up for seconds; without warm-up there is nothing to be honest about.
#[test]
fn fixes_of_a_scale_out_are_compared() {
    let said = |changes: &[(&str, &str)]| {
        let verdict = run_priced(&spec("scale-out-fixes", changes)).unwrap().verdict.unwrap();
        println!("scale-out-fixes {changes:?}: {}", verdict.because);
        verdict.option
    };
    assert_eq!(said(&[]), 2);
    assert_ne!(said(&[("events.warm_up_s", "0")]), 2);
}

/// Mitzenmacher (TPDS 2000), T12 of the routing facts: argmin on old information is worse than chance, two choices on it are not so bad. KV use says
/// nothing of waiting requests, so read afresh at every decision it is still no better than chance here; what must hold is that age makes it worse.
#[test]
fn stale_load_is_worse_than_chance_and_than_fresh_load() {
    all_say(2, "stale-load", &[]);
    let means = |scrape: &'static str, policy: usize| {
        SEEDS.map(move |seed| {
            let spec = Spec { seed, ..spec("stale-load", &[("routing.scrape_s", scrape)]) };
            run_priced(&spec).unwrap().policies[policy].ttft_s.mean
        })
    };
    let (random, two_choices, least) = (0, 1, 2);
    let age = paired(means("1", least).zip(means("0", least))).unwrap();
    let herd = paired(means("1", least).zip(means("1", two_choices))).unwrap();
    let chance = paired(means("1", two_choices).zip(means("1", random))).unwrap();
    println!("mean TTFT, least at the last reading − the same read afresh: {age:?}");
    println!("least − two choices, on the same readings: {herd:?}");
    println!("two choices − random: {chance:?}");
    assert!(age.low > 0.5 && herd.low > 0.5, "{age:?} {herd:?}");
    assert!(chance.low < 0.0, "two choices on old readings are not beyond noise worse than chance: {chance:?}");
}

/// Half a minute is enough for answers that are half done; with none all are cut off, with five minutes none.
#[test]
fn a_short_grace_cuts_off_and_a_long_one_does_not() {
    all_say(1, "scale-down-drops", &[]);
    let seed = |changes| option(&run_priced(&spec("scale-down-drops", changes)).unwrap());
    assert_eq!(seed(&[("scaling.grace_s", "0")]), Some(2));
    assert_eq!(seed(&[("scaling.grace_s", "300")]), Some(0));
}

/// Weights of 16 GB at the store's pace are the longest part that can be taken away; with them on the node's own disk the node is.
#[test]
fn the_longest_part_of_a_start_is_what_shortens_it_most() {
    let small = |changes: &[(&str, &str)]| {
        let changes: Vec<_> = [("workload.rate", "1")].into_iter().chain(changes.iter().copied()).collect();
        option(&run_priced(&spec("cold-start-parts", &changes)).unwrap())
    };
    assert_eq!(small(&[]), Some(2));
    assert_eq!(small(&[("startup.nvme", "on")]), Some(0));
    assert_eq!(small(&[("startup.bits", "4")]), Some(0));
}
