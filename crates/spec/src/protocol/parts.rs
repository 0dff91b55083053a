//! What messages carry: charts and what is asked of them, the story of a request, files, devices.

use crate::sweep::Figure;
use serde::{Deserialize, Serialize};

/// A model of the visitor's own, by addresses that the worker can fetch (`blob:` addresses of files opened on the page).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriterFiles {
    /// Weights, safetensors.
    pub weights: String,
    /// The `tokenizer.json` that goes with them.
    pub tokenizer: String,
}

/// A file that a run can be taken away as, beside its report and its charts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExportKind {
    /// A trace for Perfetto or Chrome.
    Perfetto,
    /// Metrics under vLLM's names, as Prometheus reads them.
    Prometheus,
    /// A paragraph that states what was run.
    Methods,
    /// The tables of the report, for a text.
    Markdown,
}

/// A file to save.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportFile {
    /// A name for it.
    pub name: String,
    /// Its MIME type.
    pub mime: String,
    /// What stands in it.
    pub text: String,
}

/// Which figure of a latency is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// The mean.
    Mean,
    /// The median.
    #[default]
    P50,
    /// The 95th percentile.
    P95,
    /// The 99th percentile.
    P99,
}

impl Statistic {
    /// All, from the mildest to the hardest.
    pub const ALL: [Statistic; 4] = [Statistic::Mean, Statistic::P50, Statistic::P95, Statistic::P99];

    /// Its name, in files, on the command line and on the page.
    pub fn name(self) -> &'static str {
        match self {
            Statistic::Mean => "mean",
            Statistic::P50 => "p50",
            Statistic::P95 => "p95",
            Statistic::P99 => "p99",
        }
    }

    /// The share of requests that it is an upper bound of; the mean is no such thing.
    pub fn share(self) -> Option<f64> {
        match self {
            Statistic::Mean => None,
            Statistic::P50 => Some(0.5),
            Statistic::P95 => Some(0.95),
            Statistic::P99 => Some(0.99),
        }
    }
}

/// What to draw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChartRequest {
    /// Chart id of the catalog of charts: `ttft_over_time`, `ttft_cdf`, `outstanding_over_time`.
    pub id: String,
    /// Width, CSS pixels.
    pub width: u32,
    /// Height, CSS pixels.
    pub height: u32,
    /// Dark scheme.
    pub dark: bool,
    /// Part of the x axis, in its unit; the whole when absent.
    pub range: Option<(f64, f64)>,
    /// Of a latency over time: which figure of the latest requests its lines follow.
    #[serde(default)]
    pub statistic: Statistic,
}

/// What to draw of a sweep: over one axis a line for each policy, over two a map of one policy or of the difference of two.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepChartRequest {
    /// Which number.
    pub figure: Figure,
    /// Index of the policy of a map; with one axis, all policies are drawn.
    #[serde(default)]
    pub policy: u32,
    /// Index of the policy taken from it, for a map of the difference.
    #[serde(default)]
    pub against: Option<u32>,
    /// Width, CSS pixels.
    pub width: u32,
    /// Height, CSS pixels.
    pub height: u32,
    /// Dark scheme.
    pub dark: bool,
}

/// A drawn chart with the numbers behind it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// Which chart.
    pub id: String,
    /// Title: the finding or the question.
    pub title: String,
    /// One sentence for a screen reader.
    pub summary: String,
    /// The picture, a complete `<svg>` element.
    pub svg: String,
    /// Plot area within the picture in pixels: left, top, width, height.
    pub area: [f64; 4],
    /// Range of the x axis.
    pub x: (f64, f64),
    /// The x axis shows equal ratios as equal distances.
    #[serde(default)]
    pub x_log: bool,
    /// Range of the y axis.
    pub y: (f64, f64),
    /// The y axis shows equal ratios as equal distances; what is below its range stands at its foot.
    #[serde(default)]
    pub y_log: bool,
    /// Label of the x axis with unit.
    pub x_label: String,
    /// Label of the y axis with unit.
    pub y_label: String,
    /// The series as drawn, down-sampled to pixel columns with minima and maxima kept.
    pub series: Vec<Series>,
    /// What came out, in sentences: of sweeps and knees, where it depends on what is drawn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
}

/// One series of a chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its label.
    pub label: String,
    /// x values, ascending.
    pub x: Vec<f64>,
    /// y values.
    pub y: Vec<f64>,
    /// Points before down-sampling.
    pub points: u64,
}

/// A request's story under one policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestStory {
    /// Index of the request.
    pub request: u32,
    /// Its tenant's name.
    pub tenant: String,
    /// Replica that served it.
    pub replica: Option<u32>,
    /// Why that replica, in the policy's words.
    pub why: String,
    /// What the policy compared, one value per replica, none for one that could not be chosen; empty when it compares nothing.
    pub scores: Vec<Option<f64>>,
    /// What each replica had to offer when the request was routed, by index.
    pub offers: Vec<Offer>,
    /// The router that decided.
    pub router: u32,
    /// Prompt tokens the router expected to find cached.
    pub expected_tokens: u32,
    /// Arrival, seconds.
    pub arrival_s: f64,
    /// Time from arrival to its first batch, seconds.
    pub queue_s: Option<f64>,
    /// Time to first token, seconds.
    pub ttft_s: Option<f64>,
    /// Mean gap after it, seconds.
    pub itl_s: Option<f64>,
    /// Prompt length, tokens.
    pub prompt_tokens: u32,
    /// Of these from the cache.
    pub cached_tokens: u32,
    /// And from the store behind the replicas.
    #[serde(default)]
    pub fetched_tokens: u32,
    /// Tokens produced.
    pub output_tokens: u32,
    /// The prompt as text, when the workload has text.
    pub prompt: Option<String>,
    /// The generated text, when a model generated one.
    pub output: Option<String>,
}

/// What a replica had to offer when a request was routed: the truth, whatever the policy knew of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// It could be chosen.
    pub candidate: bool,
    /// Prompt tokens in its cache.
    pub cached_tokens: u32,
    /// Requests in flight there.
    pub requests: u32,
    /// Their tokens: prompt + output budget − tokens produced.
    pub tokens: u64,
}

/// A device as measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceReport {
    /// `cpu` or `webgpu`.
    pub kind: String,
    /// Adapter or instruction set, in words.
    pub name: String,
    /// A software adapter.
    pub software: bool,
    /// Milliseconds of one decode step at batch 1, context 128.
    pub decode_1_ms: Option<f64>,
    /// Milliseconds of one decode step at batch 8, context 128.
    pub decode_8_ms: Option<f64>,
    /// Milliseconds to prefill 128 tokens.
    pub prefill_128_ms: Option<f64>,
    /// Kernels dispatched in one decode step; absent on the CPU.
    pub kernels_per_step: Option<u32>,
    /// Why it cannot be used, when it cannot.
    pub error: Option<String>,
}
