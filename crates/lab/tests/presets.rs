//! A preset that is meant to show a difference shows it, beyond noise: over several seeds, paired on the same arrivals.

#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods)]

use servelab_lab::stats::{Paired, paired};
use servelab_lab::{presets, run_priced};
use servelab_spec::Spec;
use servelab_spec::experiment::WorkloadSpec;
use servelab_spec::report::{PolicyReport, Report};

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
