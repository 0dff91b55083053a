//! A preset that is meant to show a difference shows it, beyond noise: over several seeds, paired on the same arrivals.

#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods)]

use servelab_lab::stats::{Paired, paired};
use servelab_lab::{presets, run_priced};
use servelab_spec::experiment::WorkloadSpec;
use servelab_spec::report::{PolicyReport, Report};
use servelab_spec::{Spec, patch};

const SEEDS: u64 = 8;

fn reports(name: &str) -> Vec<Report> {
    let spec = presets::find(name).unwrap().spec;
    (1..=SEEDS).map(|seed| run_priced(&Spec { seed, ..spec.clone() }).unwrap()).collect()
}

/// The paired difference first − second of a figure over the seeds.
fn difference(reports: &[Report], first: usize, second: usize, figure: impl Fn(&PolicyReport) -> f64) -> Paired {
    paired(reports.iter().map(|report| (figure(&report.policies[first]), figure(&report.policies[second])))).unwrap()
}

#[test]
fn affinity_beats_round_robin_with_many_tenants() {
    let reports = reports("multi-tenant");
    let names: Vec<&str> = reports[0].policies.iter().map(|policy| policy.name.as_str()).collect();
    assert_eq!(names, ["round_robin", "least_tokens", "prefix_affinity"]);
    let p50 = difference(&reports, 0, 2, |policy| policy.ttft_s.p50);
    let p95 = difference(&reports, 0, 2, |policy| policy.ttft_s.p95);
    let reuse = difference(&reports, 2, 0, |policy| policy.reuse.ratio);
    let good = difference(&reports, 2, 0, |policy| policy.goodput.fraction);
    println!("TTFT p50 {p50:?}\nTTFT p95 {p95:?}\nreuse {reuse:?}\ngood {good:?}");
    assert!(good.low > 0.0, "{good:?}");
    assert!(p50.low > 0.0 && p95.low > 0.0 && reuse.low > 0.0, "{p50:?} {p95:?} {reuse:?}");
    // Not only certain but worth showing.
    assert!(reuse.mean > 0.2, "{reuse:?}");
    assert!(reports.iter().all(|report| report.findings[0].starts_with("Prefix affinity gave first tokens soonest")));
}

#[test]
fn a_hot_tenant_breaks_unguarded_affinity_and_the_guard_mends_it() {
    let reports = reports("hot-tenant");
    let p95 = difference(&reports, 1, 2, |policy| policy.ttft_s.p95);
    let imbalance = difference(&reports, 1, 2, |policy| policy.imbalance.assignments);
    println!("TTFT p95 {p95:?}\nimbalance {imbalance:?}");
    assert!(p95.low > 0.0 && imbalance.low > 0.0, "{p95:?} {imbalance:?}");
}

#[test]
fn a_tiny_cache_hurts_round_robin_most() {
    let reports = reports("tiny-cache");
    let reuse = difference(&reports, 2, 0, |policy| policy.reuse.ratio);
    let evictions = difference(&reports, 0, 2, |policy| policy.evictions as f64);
    println!("reuse {reuse:?}\nevictions {evictions:?}");
    assert!(reuse.low > 0.0 && evictions.low > 0.0, "{reuse:?} {evictions:?}");
}

/// A tenth of everything, since debug builds check every block of every replica again and again.
#[test]
fn large_gpus_still_gain() {
    let mut spec = presets::find("datacenter").unwrap().spec;
    let WorkloadSpec::MultiTenant(sizes) = &mut spec.workload else { panic!("tenants expected") };
    (sizes.requests, sizes.tenants) = (sizes.requests / 10, sizes.tenants / 10);
    spec.engine.blocks /= 10;
    let reports: Vec<Report> = (1..=3).map(|seed| run_priced(&Spec { seed, ..spec.clone() }).unwrap()).collect();
    let reuse = difference(&reports, 2, 0, |policy| policy.reuse.ratio);
    println!("reuse {reuse:?}");
    assert!(reuse.low > 0.0, "{reuse:?}");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "minutes with every check on; seconds in release builds")]
fn large_gpus_still_gain_in_full() {
    let spec = presets::find("datacenter").unwrap().spec;
    let reports: Vec<Report> = (1..=4).map(|seed| run_priced(&Spec { seed, ..spec.clone() }).unwrap()).collect();
    let reuse = difference(&reports, 2, 0, |policy| policy.reuse.ratio);
    let p50 = difference(&reports, 0, 2, |policy| policy.ttft_s.p50);
    println!("reuse {reuse:?}\nTTFT p50 {p50:?}");
    assert!(reuse.low > 0.0 && p50.low > 0.0, "{reuse:?} {p50:?}");
}

/// Reports of a preset with some settings changed.
fn changed(name: &str, changes: &[(&str, &str)]) -> Vec<Report> {
    let spec = presets::find(name).unwrap().spec;
    let spec = changes.iter().fold(spec, |spec, (key, value)| patch::set(&spec, key, value).unwrap());
    (1..=SEEDS).map(|seed| run_priced(&Spec { seed, ..spec.clone() }).unwrap()).collect()
}

/// Beyond noise, and the printed figure for whoever tunes a preset.
fn certain(what: &str, difference: Paired) {
    println!("{what}: {difference:?}");
    assert!(difference.low > 0.0, "{what}: {difference:?}");
}

/// Round-robin, least requests, session-sticky, KubeAI's hash of the first user message.
#[test]
fn conversations_want_to_be_followed() {
    let reports = reports("sessions");
    let ceiling: Vec<f64> = reports.iter().map(|report| report.workload.ceiling.ratio).collect();
    println!("ceiling {ceiling:?}");
    for follower in [2, 3] {
        certain("reuse", difference(&reports, follower, 0, |policy| policy.reuse.ratio));
        certain("mean TTFT", difference(&reports, 0, follower, |policy| policy.ttft_s.mean));
    }
    certain("sticky over hash", difference(&reports, 2, 3, |policy| policy.reuse.ratio));
    // With a history, most of a prompt can be reused, and what is scattered finds half of that.
    assert!(reports.iter().all(|report| report.policies[2].reuse.ratio > 0.85 * report.workload.ceiling.ratio));
    assert!(reports.iter().all(|report| report.policies[0].reuse.ratio < 0.7 * report.workload.ceiling.ratio));
}

/// A burst that is larger than a batch wants to be spread, a smaller one to stay together, though it reuses more in either case.
#[test]
fn large_bursts_are_spread_and_small_ones_kept_together() {
    let large = reports("agent-tree");
    let small = changed("agent-tree", &[("workload.branches", "6")]);
    for reports in [&large, &small] {
        certain("reuse, together", difference(reports, 2, 0, |policy| policy.reuse.ratio));
    }
    certain("twenty: later when together", difference(&large, 2, 0, |policy| policy.ttft_s.mean));
    certain("six: sooner when together", difference(&small, 0, 2, |policy| policy.ttft_s.mean));
    let said =
        |reports: &[Report]| reports.iter().map(|report| report.verdict.as_ref().unwrap().option).collect::<Vec<_>>();
    assert!(said(&large).iter().all(|&option| option == 1), "{:?}", said(&large));
    assert!(said(&small).iter().all(|&option| option == 0), "{:?}", said(&small));
}

/// Round-robin, least requests, least tokens, affinity: of the first tenant, who asks the short questions, and of the second.
#[test]
fn short_questions_wait_behind_documents() {
    let reports = reports("long-short");
    let of = |tenant: usize| move |policy: &PolicyReport| policy.tenants[tenant].ttft_s.mean;
    for better in [1, 2, 3] {
        certain("short ones wait less than with round-robin", difference(&reports, 0, better, of(0)));
    }
    certain("counting tokens beats counting requests", difference(&reports, 1, 2, of(0)));
    certain("documents come back sooner where they were", difference(&reports, 2, 3, of(1)));
    certain("reuse", difference(&reports, 3, 0, |policy| policy.reuse.ratio));
}

/// Round-robin, least tokens, affinity without guard.
#[test]
fn without_reuse_affinity_is_a_hash_that_knows_no_load() {
    let reports = reports("no-reuse");
    assert!(reports.iter().flat_map(|report| &report.policies).all(|policy| policy.reuse.hit_tokens == 0));
    certain("round-robin over affinity", difference(&reports, 2, 0, |policy| policy.ttft_s.mean));
    certain("least tokens over affinity", difference(&reports, 2, 1, |policy| policy.ttft_s.mean));
}

/// Reuse differs by a few first requests, TTFT by less than a tenth.
#[test]
fn with_one_prompt_every_policy_looks_alike() {
    for report in reports("one-prompt") {
        let reuse: Vec<f64> = report.policies.iter().map(|policy| policy.reuse.ratio).collect();
        let ttft: Vec<f64> = report.policies.iter().map(|policy| policy.ttft_s.mean).collect();
        let spread = |of: &[f64]| of.iter().copied().fold(0.0, f64::max) / of.iter().copied().fold(f64::MAX, f64::min);
        println!("{reuse:?} {ttft:?}");
        assert!(spread(&reuse) < 1.02 && spread(&ttft) < 1.1, "{reuse:?} {ttft:?}");
        assert!(report.policies[0].reuse.ratio > 0.9);
        assert_eq!(report.verdict.unwrap().option, 1);
    }
}

/// A quarter of the blocks gone, the tail grows severalfold: published for other engines as a cliff (4.5 % fewer blocks, 4.7 times the TTFT p99), whose
/// edge lies elsewhere here.
#[test]
fn memory_ends_in_a_cliff() {
    let (less, more) = (reports("memory-cliff"), changed("memory-cliff", &[("engine.blocks", "128")]));
    for policy in 0..3 {
        let of = |figure: fn(&PolicyReport) -> f64| {
            paired(
                less.iter()
                    .zip(&more)
                    .map(|(less, more)| (figure(&less.policies[policy]), figure(&more.policies[policy]))),
            )
            .unwrap()
        };
        certain("TTFT p95", of(|policy| policy.ttft_s.p95));
        certain("preemptions", of(|policy| policy.preemptions as f64));
        let mean = |reports: &[Report]| reports.iter().map(|r| r.policies[policy].ttft_s.p95).sum::<f64>();
        println!("{}: {} times", less[0].policies[policy].label, mean(&less) / mean(&more));
        assert!(mean(&less) > 3.0 * mean(&more));
    }
    certain("least tokens over round-robin", difference(&less, 0, 1, |policy| policy.ttft_s.p95));
}

/// Share of requests that found their prefix, in a run in ticks: a hit reuses all but one token.
fn hit_rate(policy: &PolicyReport) -> f64 {
    policy.reuse.hit_tokens as f64 / (policy.reuse.prompt_tokens - policy.requests.total) as f64
}

/// Eight prompts under Zipf 1.0, three remembered: turns thin the draws evenly, so every replica's memory is an LRU under independent draws, which hits
/// .5356 (sum over ordered triples). A home for each prompt hits nearly always and overloads whoever owns the hottest. The blend gets both.
#[test]
fn in_ticks_the_blend_hits_and_does_not_wait() {
    let reports = reports("tick-model");
    let hits = |at: usize| -> Vec<f64> { reports.iter().map(|report| hit_rate(&report.policies[at])).collect() };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let busiest =
        |at: usize| mean(&reports.iter().map(|report| report.policies[at].imbalance.assignments).collect::<Vec<_>>());
    let shown: Vec<(f64, f64)> = (0..4).map(|at| (mean(&hits(at)), busiest(at))).collect();
    println!("hit rate and busiest replica: {shown:?}");
    // 19 200 draws of a chance of .54, a little dependent: two hundredths are more than four standard errors.
    assert!((mean(&hits(0)) - 0.5356).abs() < 0.02, "round-robin");
    assert!((0.45..0.62).contains(&mean(&hits(1))), "least requests");
    assert!(mean(&hits(2)) > 0.93 && busiest(2) > 1.5, "hash");
    assert!(hits(3).iter().all(|&hit| hit > 0.9) && busiest(3) < 1.45, "blend");
    for other in 0..3 {
        certain("queueing p95", difference(&reports, other, 3, |policy| policy.queue_s.p95));
        certain("TTFT p50", difference(&reports, other, 3, |policy| policy.ttft_s.p50));
    }
}

#[test]
fn adapters_want_to_be_kept_together() {
    let reports = reports("many-adapters");
    certain("TTFT p50", difference(&reports, 0, 3, |policy| policy.ttft_s.p50));
    certain("reuse", difference(&reports, 3, 0, |policy| policy.reuse.ratio));
}

#[test]
fn turns_do_not_see_a_slow_replica() {
    let reports = reports("slow-replica");
    for other in 1..4 {
        certain("TTFT p95", difference(&reports, 0, other, |policy| policy.ttft_s.p95));
    }
}

/// Paired with runs in which nothing restarts: what has no memory gives the same bytes, what has an index loses reuse.
#[test]
fn a_restart_costs_those_who_remember() {
    let (with, without) = (reports("router-restart"), changed("router-restart", &[("events.restart", "off")]));
    let lost = |at: usize| {
        let reuse = |report: &Report| report.policies[at].reuse.ratio;
        paired(with.iter().zip(&without).map(|(with, without)| (reuse(without), reuse(with)))).unwrap()
    };
    println!("reuse lost: {:?}", (0..4).map(|at| lost(at).mean).collect::<Vec<_>>());
    for (with, without) in with.iter().zip(&without) {
        assert_eq!(with.policies[1].ttft_s, without.policies[1].ttft_s, "a hash needs no memory");
    }
    certain("SGLang", lost(2));
    certain("llm-d", lost(3));
}

/// Two of six leave: under modulo nearly every prefix gets another home, under rendezvous only what the leavers held.
#[test]
fn leaving_moves_less_under_rendezvous() {
    let reports = reports("scale-in");
    certain("reuse", difference(&reports, 2, 1, |policy| policy.reuse.ratio));
}

#[test]
#[ignore = "prints every preset's table, for whoever tunes one"]
fn show() {
    // SHOW=name picks one.
    let wanted = std::env::var("SHOW").unwrap_or_default();
    for preset in presets::all().into_iter().filter(|preset| preset.name.contains(&wanted)) {
        let started = std::time::Instant::now();
        let report = run_priced(&preset.spec).unwrap();
        println!("{} {:?} rate {:.2}/s", preset.name, started.elapsed(), report.workload.rate_per_s);
        for p in &report.policies {
            println!(
                "  {:40} ttft {:.3} {:.3} itl {:.3} reuse {:.3} imb {:.2} {:.2} good {:.2} evict {} preempt {} dur {:.1} kv {:.2}",
                p.label,
                p.ttft_s.p50,
                p.ttft_s.p95,
                p.itl_s.p50,
                p.reuse.ratio,
                p.imbalance.assignments,
                p.imbalance.uncached_tokens,
                p.goodput.fraction,
                p.evictions,
                p.preemptions,
                p.duration_s,
                p.kv_peak
            );
        }
        for finding in &report.findings {
            println!("  - {finding}");
        }
        println!("  = {:?}", report.verdict);
    }
}
