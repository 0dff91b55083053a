//! Sentences of the results: table, charts, devices.

use crate::format::{bytes, duration, number, percent, whole};
use servelab_spec::Report;
use servelab_spec::experiment::SloSpec;
use servelab_spec::protocol::DeviceReport;
use servelab_spec::report::{PairedTtft, Prediction, RequestCounts};

/// Latencies over time: to the first token, to the last, and until the first step.
pub(crate) const LATENCIES: [&str; 3] = ["TTFT", "E2E", "wait"];

/// A button that offers a policy as its project's configuration.
pub(crate) fn configuration_title(label: &str, project: &str) -> String {
    format!("{label} as {project} names its settings. Illustrative: check it against your version.")
}

pub(crate) fn of(part: &str, whole: &str) -> String {
    format!("{part} / {whole}")
}

pub(crate) fn cached_of(cached: u32, fetched: u32, prompt: u32) -> String {
    let (cached, prompt) = (whole(cached.into()), whole(prompt.into()));
    format!("{prompt} tokens, {cached} from cache{}", super::and_fetched(fetched))
}

pub(crate) fn and_fetched(fetched: u32) -> String {
    if fetched > 0 { format!(", {} fetched", whole(fetched.into())) } else { String::new() }
}

pub(crate) fn fetched(tokens: u32) -> String {
    format!("{} more were fetched from the shared store.", whole(tokens.into()))
}

/// Bytes that fetches moved.
pub(crate) fn moved(moved: u64) -> String {
    format!("{} moved", bytes(moved as f64))
}

pub(crate) fn good_of(good: u64, total: u64) -> String {
    format!("{} of {} good", whole(good), whole(total))
}

pub(crate) fn def_goodput(slo: &SloSpec) -> String {
    format!("Requests with TTFT ≤ {} and ITL ≤ {}, per second", duration(slo.ttft_s), duration(slo.itl_s))
}

pub(crate) fn table_note(slo: &SloSpec) -> String {
    format!(
        "Good means TTFT ≤ {} and ITL ≤ {}. Bold is the best value of a column. Under the median stands the mean difference to the policy with the lowest mean of those that answered most requests, over the requests that both answered; grey is within noise of it (95 %).",
        duration(slo.ttft_s),
        duration(slo.itl_s)
    )
}

/// What a policy's requests waited more than under the one with the lowest mean.
pub(crate) fn versus_best(difference: &PairedTtft) -> String {
    let sign = if difference.mean_s < 0.0 { "−" } else { "+" };
    if difference.significant {
        format!("{sign}{} a request", duration(difference.mean_s.abs()))
    } else {
        "within noise".to_owned()
    }
}

pub(crate) fn table_caption(report: &Report) -> String {
    let policies = report.policies.len();
    let (runs, requests) = (if policies == 1 { "policy" } else { "policies" }, report.workload.requests);
    let s = if requests == 1 { "" } else { "s" };
    format!("{policies} {runs} on the same {} request{s}", whole(requests))
}

pub(crate) fn cost_line(report: &Report, price_list: Option<&str>) -> String {
    let w = &report.workload;
    let charged = match report.cost.source.as_str() {
        "fitted" => {
            format!("Computed on {}; charged by a cost model fitted to its measured steps.", report.cost.device)
        }
        "measured" => format!(
            "Computed on {}; charged what each step took, so numbers differ from run to run.",
            report.cost.device
        ),
        "custom" => "Priced with your own numbers.".to_owned(),
        source => format!("Priced as: {}.", price_list.unwrap_or(source)),
    };
    format!(
        "{} requests, {} prompt tokens, {} requests/s, seed {}. {charged}",
        whole(w.requests),
        whole(w.prompt_tokens),
        number(w.rate_per_s),
        report.spec.seed
    )
}

pub(crate) fn prediction_line(p: &Prediction) -> String {
    let care = if p.is_poor() {
        " That is a poor fit, as on a machine busy with other things: take the times as rough."
    } else {
        ""
    };
    format!(
        "Fit against measurement: a step is off by {} (median), {} (95th percentile); all steps together by {}. On one schedule, median TTFT is {} fitted, {} measured; ITL {} and {}.{care}",
        percent(p.step_error_p50),
        percent(p.step_error_p95),
        percent((p.total_ratio - 1.0).abs()),
        duration(p.ttft_fitted_s),
        duration(p.ttft_measured_s),
        duration(p.itl_fitted_s),
        duration(p.itl_measured_s)
    )
}

/// Requests without an answer to the end, as far as a run has come; empty where there are none.
pub(crate) fn unfinished(counts: &RequestCounts) -> String {
    let all = [
        (counts.pending, "pending"),
        (counts.rejected, "refused"),
        (counts.timed_out + counts.abandoned, "given up"),
        (counts.lost, "lost"),
    ];
    let parts = all.into_iter().filter(|(many, _)| *many > 0);
    parts.map(|(many, how)| format!("{} {how}", whole(many))).collect::<Vec<_>>().join(", ")
}

pub(crate) fn ttft_p95(unit: &str) -> String {
    format!("TTFT p95, {unit}")
}

pub(crate) fn first_rows(shown: usize, all: usize) -> String {
    format!("The first {shown} of {}; the files have all.", whole(all as u64))
}

pub(crate) fn read_out(x_label: &str, x: &str, values: &str, y_label: &str) -> String {
    format!("{x_label}: {x}. {y_label}: {values}")
}

pub(crate) fn device_used(device: &str) -> String {
    if device.is_empty() || device.starts_with("none") {
        "The last run was priced: no device computed it.".to_owned()
    } else {
        format!("The last run was computed on: {device}.")
    }
}

pub(crate) fn device_name(device: &DeviceReport) -> String {
    let kind = match device.kind.as_str() {
        "webgpu" => "WebGPU",
        "cpu" => "CPU",
        other => other,
    };
    let software = if device.software { ", in software" } else { "" };
    match device.name.as_str() {
        "" => format!("{kind}{software}"),
        // The CPU's name says that it is one.
        name if name.starts_with(kind) => format!("{name}{software}"),
        name => format!("{kind}: {name}{software}"),
    }
}

pub(crate) fn cpu_faster(times: f64) -> String {
    format!("The CPU is the faster device here, {} times at 8 sequences.", number(times))
}

pub(crate) fn gpu_faster(times: f64) -> String {
    format!("WebGPU is the faster device here, {} times at 8 sequences.", number(times))
}

pub(crate) fn under(policy: &str) -> String {
    format!("Under {policy}")
}

/// Where a request went; with several routers, which of them sent it there.
pub(crate) fn went_to(replica: u32, router: Option<u32>) -> String {
    let name = super::replica_name(replica);
    match router {
        Some(router) => format!("Router {} → {}.", router + 1, name.to_lowercase()),
        None => format!("→ {name}."),
    }
}

pub(crate) fn expected_and_found(expected: u32, found: u32) -> String {
    let found = whole(found.into());
    match expected {
        0 => format!("The router reckoned with nothing from the cache; {found} tokens came from there."),
        some => {
            format!("The router reckoned with {} tokens from the cache; {found} came from there.", whole(some.into()))
        }
    }
}

pub(crate) fn warmer(replica: u32, tokens: u32) -> String {
    format!("{} had {} of them.", super::replica_name(replica), whole(tokens.into()))
}

pub(crate) fn request_cost(ttft: &str, queue: Option<String>, computed: &str, prompt: &str) -> String {
    let queue = queue.map(|queue| format!(", {queue} of it in the queue")).unwrap_or_default();
    format!("It cost {computed} of {prompt} prompt tokens computed, and the first token came after {ttft}{queue}.")
}

pub(crate) fn score_means(compares: &str) -> String {
    format!("Score: {}", super::sentence(compares))
}

pub(crate) fn more_replicas(hidden: usize) -> String {
    format!(
        "{hidden} more replicas: shown are the chosen one, the three with most of the prompt cached and the three with least in flight."
    )
}

pub(crate) fn arrived(at: &str, tenant: &str) -> String {
    format!("Arrived at {at} from tenant {tenant}.")
}
