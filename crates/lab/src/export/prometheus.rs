//! The metrics of a run in Prometheus' text format, under vLLM's names and with its buckets, so that dashboards made for vLLM show it.
//!
//! Labels are `policy` (as the report names it), `run` (its number in the report, since two variants may share a name) and `replica`. What a managed API
//! served has the replica `outside`. Gauges stand where the run ends.
//!
//! Three differences to a scrape of vLLM. Latencies are those of the report: they begin with the first attempt at the client, so they hold what gateway, router and
//! retries took. `vllm:inter_token_latency_seconds` is left out, because a run keeps each request's mean gap and not every gap; the mean is
//! `vllm:request_time_per_output_token_seconds`. And a run of more requests than are kept has no histograms.

use crate::catalog;
use crate::session::{Run, Session, Stage};
use servelab_engine::Nanos;
use servelab_fleet::scaling::history::TTFT_BUCKETS;
use servelab_fleet::{Outcome, RequestRecord};
use std::fmt::Write;

/// Buckets of the time per output token (vLLM `v1/metrics/loggers.py`), seconds.
const TOKEN_BUCKETS: [f64; 19] =
    [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];

/// Buckets of what a request takes as a whole, or one of its phases (vLLM, as above), seconds.
const REQUEST_BUCKETS: [f64; 21] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
];

/// Reasons for which a request ends, in vLLM's words.
const REASONS: [&str; 3] = ["stop", "length", "abort"];

/// Name, help, buckets and what is observed of a request.
type Histogram = (&'static str, &'static str, &'static [f64], fn(&RequestRecord) -> Option<f64>);

const HISTOGRAMS: [Histogram; 7] = [
    ("vllm:time_to_first_token_seconds", "Time to first token.", &TTFT_BUCKETS, |record| {
        record.ttft().map(Nanos::as_secs)
    }),
    (
        "vllm:request_time_per_output_token_seconds",
        "Mean gap between a request's tokens after the first.",
        &TOKEN_BUCKETS,
        RequestRecord::itl_s,
    ),
    ("vllm:e2e_request_latency_seconds", "Arrival to last token.", &REQUEST_BUCKETS, |record| {
        span(record, Some(record.arrival), Some(record.end))
    }),
    ("vllm:request_queue_time_seconds", "Arrival to first admission.", &REQUEST_BUCKETS, |record| {
        span(record, Some(record.arrival), record.admitted.filter(|_| !record.outside))
    }),
    ("vllm:request_prefill_time_seconds", "First admission to first token.", &REQUEST_BUCKETS, |record| {
        span(record, record.admitted.filter(|_| !record.outside), record.first_token)
    }),
    ("vllm:request_decode_time_seconds", "First token to last.", &REQUEST_BUCKETS, |record| {
        span(record, record.first_token, Some(record.end))
    }),
    ("vllm:request_inference_time_seconds", "First admission to last token.", &REQUEST_BUCKETS, |record| {
        span(record, record.admitted.filter(|_| !record.outside), Some(record.end))
    }),
];

/// The time between two instants of a request that finished, seconds.
fn span(record: &RequestRecord, from: Option<Nanos>, until: Option<Nanos>) -> Option<f64> {
    (record.outcome == Outcome::Finished).then_some(())?;
    Some(until?.since(from?).as_secs())
}

/// The metrics of a session as it stands.
pub fn text(session: &Session) -> String {
    let mut out = format!(
        "# servelab {}, experiment {}, seed {}\n",
        env!("CARGO_PKG_VERSION"),
        session.spec().preset,
        session.spec().seed
    );
    let Some(stage) = &session.stage else { return out };
    let contenders = session.spec().contenders();
    let runs: Vec<Part> = (stage.runs.iter().zip(contenders).enumerate())
        .map(|(at, (run, contender))| Part::of(stage, run, at, &catalog::contender_label(session.spec(), contender)))
        .collect();
    let simple: [Plain; 8] = [
        ("vllm:num_requests_running", "gauge", "Requests running where the run ends.", |replica| replica.running),
        ("vllm:num_requests_waiting", "gauge", "Requests waiting where the run ends.", |replica| replica.waiting),
        ("vllm:kv_cache_usage_perc", "gauge", "Share of KV blocks in use where the run ends, 0 to 1.", |r| r.kv_usage),
        ("vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up in the prefix cache.", |r| r.prompt),
        ("vllm:prefix_cache_hits_total", "counter", "Prompt tokens found in the prefix cache.", |replica| replica.hits),
        ("vllm:num_preemptions_total", "counter", "Preemptions.", |replica| replica.preemptions),
        ("vllm:prompt_tokens_total", "counter", "Prompt tokens of admitted requests.", |replica| replica.prompt),
        ("vllm:generation_tokens_total", "counter", "Tokens generated for requests.", |replica| replica.generated),
    ];
    for (name, kind, help, value) in simple {
        head(&mut out, name, kind, help);
        for replica in runs.iter().flat_map(|part| &part.replicas).filter(|replica| replica.is_engine) {
            line(&mut out, name, &replica.labels, value(replica));
        }
    }
    head(&mut out, "vllm:request_success_total", "counter", "Requests that ended at a replica, by reason.");
    for replica in runs.iter().flat_map(|part| &part.replicas) {
        for (reason, count) in REASONS.iter().zip(replica.ended) {
            let labels = format!("{},finished_reason=\"{reason}\"", replica.labels);
            line(&mut out, "vllm:request_success_total", &labels, count as f64);
        }
    }
    for (name, help, buckets, _) in &HISTOGRAMS {
        head(&mut out, name, "histogram", help);
        let at = HISTOGRAMS.iter().position(|histogram| histogram.0 == *name).unwrap_or_default();
        for part in runs.iter().filter(|part| part.keeps) {
            for replica in &part.replicas {
                observed(&mut out, name, &replica.labels, buckets, &replica.observed[at]);
            }
        }
    }
    out
}

/// One contender's run.
struct Part {
    /// Its requests were kept.
    keeps: bool,
    /// Its replicas, and behind them what is outside if anything was.
    replicas: Vec<Replica>,
}

/// A metric of one number: name, kind, help, and where the number comes from.
type Plain = (&'static str, &'static str, &'static str, fn(&Replica) -> f64);

#[derive(Default)]
struct Replica {
    labels: String,
    /// It is one, and not what is outside.
    is_engine: bool,
    running: f64,
    waiting: f64,
    kv_usage: f64,
    prompt: f64,
    hits: f64,
    preemptions: f64,
    generated: f64,
    /// By [`REASONS`].
    ended: [u64; REASONS.len()],
    /// By [`HISTOGRAMS`].
    observed: [Vec<f64>; HISTOGRAMS.len()],
}

impl Part {
    fn of(stage: &Stage, run: &Run, at: usize, label: &str) -> Self {
        let labels = |replica: &str| format!("policy=\"{}\",run=\"{at}\",replica=\"{replica}\"", escaped(label));
        let mut replicas: Vec<Replica> = (run.fleet.replica_stats().zip(run.fleet.gauges()).enumerate())
            .map(|(index, (stats, gauges))| Replica {
                labels: labels(&index.to_string()),
                is_engine: true,
                running: f64::from(gauges.running),
                waiting: f64::from(gauges.waiting),
                kv_usage: gauges.kv_usage,
                prompt: stats.prompt_tokens as f64,
                hits: stats.hit_tokens as f64,
                preemptions: stats.preemptions as f64,
                ..Replica::default()
            })
            .collect();
        if run.records.iter().any(|record| record.outside) {
            replicas.push(Replica { labels: labels("outside"), ..Replica::default() });
        }
        let outside = replicas.len() - 1;
        for record in &run.records {
            let place = if record.outside { Some(outside) } else { record.replica.map(|replica| replica as usize) };
            let Some(replica) = place.and_then(|place| replicas.get_mut(place)) else { continue };
            replica.generated += f64::from(record.output_tokens);
            let reason = match record.outcome {
                Outcome::Finished => {
                    let asked = stage.asked(record.index);
                    usize::from(asked.is_some_and(|asked| record.output_tokens >= asked.max_tokens))
                }
                Outcome::TimedOut | Outcome::Abandoned => 2,
                Outcome::Rejected { .. } | Outcome::Lost { .. } | Outcome::Pending => REASONS.len(),
            };
            if let Some(count) = replica.ended.get_mut(reason) {
                *count += 1;
            }
            for (observed, (.., observe)) in replica.observed.iter_mut().zip(&HISTOGRAMS) {
                observed.extend(observe(record));
            }
        }
        Part { keeps: run.keeps, replicas }
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string can not fail.
    let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

fn line(out: &mut String, name: &str, labels: &str, value: f64) {
    let _ = writeln!(out, "{name}{{{labels}}} {value}");
}

/// A histogram: how many observations are not above each bound.
fn observed(out: &mut String, name: &str, labels: &str, buckets: &[f64], values: &[f64]) {
    let bucket = format!("{name}_bucket");
    for bound in buckets {
        let count = values.iter().filter(|value| *value <= bound).count();
        line(out, &bucket, &format!("{labels},le=\"{bound:?}\""), count as f64);
    }
    line(out, &bucket, &format!("{labels},le=\"+Inf\""), values.len() as f64);
    line(out, &format!("{name}_sum"), labels, values.iter().sum());
    line(out, &format!("{name}_count"), labels, values.len() as f64);
}

/// A label's value as it stands between quotes.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
