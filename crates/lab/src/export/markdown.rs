//! The tables of a report in Markdown (the pipe tables of GitHub), with numbers as people read them. The CSV has them all.

use crate::words;
use servelab_spec::report::{Quantiles, Report, Reuse};
use servelab_spec::table::Table;

/// Stands for a figure that nothing was there to give.
const NONE: &str = "–";

/// A table of policies, one of tenants and one of replicas, and what was found.
pub fn tables(report: &Report) -> String {
    let mut policies = Table::new(&[
        "policy",
        "finished",
        "refused",
        "TTFT p50",
        "TTFT p95",
        "TTFT p99",
        "ITL p50",
        "ITL p95",
        "E2E p95",
        "output tokens/s",
        "good/s",
        "good",
        "reuse",
        "imbalance",
        "KV peak",
        "preempted",
    ]);
    let mut tenants = Table::new(&["policy", "tenant", "requests", "TTFT p50", "TTFT p95", "ITL p50", "good", "reuse"]);
    let mut replicas =
        Table::new(&["policy", "replica", "requests", "computed tokens", "cached tokens", "busy", "KV peak", "steps"]);
    for policy in &report.policies {
        policies.row(vec![
            policy.label.clone(),
            words::count(policy.requests.finished),
            words::count(policy.requests.rejected),
            time(&policy.ttft_s, policy.ttft_s.p50),
            time(&policy.ttft_s, policy.ttft_s.p95),
            time(&policy.ttft_s, policy.ttft_s.p99),
            time(&policy.itl_s, policy.itl_s.p50),
            time(&policy.itl_s, policy.itl_s.p95),
            time(&policy.e2e_s, policy.e2e_s.p95),
            format!("{:.1}", policy.output_tokens_per_s),
            format!("{:.2}", policy.goodput.per_s),
            format!("{} of {}", words::count(policy.goodput.good), words::count(policy.requests.total)),
            share(&policy.reuse),
            if policy.imbalance.assignments > 0.0 {
                format!("{:.2}", policy.imbalance.assignments)
            } else {
                NONE.into()
            },
            words::percent(policy.kv_peak),
            words::count(policy.preemptions),
        ]);
        for tenant in &policy.tenants {
            tenants.row(vec![
                policy.label.clone(),
                tenant.name.clone(),
                words::count(tenant.requests.total),
                time(&tenant.ttft_s, tenant.ttft_s.p50),
                time(&tenant.ttft_s, tenant.ttft_s.p95),
                time(&tenant.itl_s, tenant.itl_s.p50),
                words::count(tenant.goodput.good),
                share(&tenant.reuse),
            ]);
        }
        for (at, replica) in policy.replicas.iter().enumerate() {
            let lived = replica.lifetime_s > 0.0;
            replicas.row(vec![
                policy.label.clone(),
                at.to_string(),
                words::count(replica.assignments),
                words::count(replica.uncached_tokens),
                words::count(replica.hit_tokens),
                if lived { words::percent(replica.busy_s / replica.lifetime_s) } else { NONE.into() },
                words::percent(replica.kv_peak),
                words::count(replica.steps),
            ]);
        }
    }
    let mut out = format!("{}, seed {}\n\n", report.spec.preset, report.spec.seed);
    for table in [policies, tenants, replicas] {
        out.push_str(&table.to_markdown());
        out.push('\n');
    }
    for finding in &report.findings {
        out.push_str(&format!("- {finding}\n"));
    }
    out
}

fn time(of: &Quantiles, value: f64) -> String {
    if of.n == 0 { NONE.into() } else { words::duration(value) }
}

fn share(reuse: &Reuse) -> String {
    if reuse.prompt_tokens == 0 { NONE.into() } else { format!("{:.1} %", 100.0 * reuse.ratio) }
}
