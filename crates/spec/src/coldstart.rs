//! A cold start stage by stage: what is asked and what is answered.

use crate::experiment::{Stage, StartupSpec};
use crate::report::Configuration;
use serde::{Deserialize, Serialize};

/// A start that is asked about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ColdStartQuery {
    /// How replicas start.
    pub startup: StartupSpec,
    /// Replicas that start at the same instant, 1 or more.
    pub together: u32,
    /// Requests in flight once it serves: what its probes then meet.
    pub in_flight: u32,
    /// How long a replica may drain, seconds: for the manifest.
    pub grace_s: f64,
    /// The table of weights.
    pub floors: FloorsSpec,
}

impl Default for ColdStartQuery {
    fn default() -> Self {
        ColdStartQuery {
            startup: StartupSpec::default(),
            together: 1,
            in_flight: 0,
            grace_s: 30.0,
            floors: FloorsSpec::default(),
        }
    }
}

/// A start as it goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ColdStart {
    /// Every stage in order, those that take no time included.
    pub stages: Vec<StagePart>,
    /// When it can serve, seconds after it was decided on.
    pub serves_s: f64,
    /// When it may say that it is ready, its probes aside.
    pub ready_s: f64,
    /// When the last of those that start together can serve.
    pub together_s: f64,
    /// What each optimisation is worth as things stand.
    pub savings: Vec<Saving>,
    /// When its container starts, from which probes count.
    pub container_s: f64,
    /// Its probes, in the order in which they come back.
    pub probes: Vec<ProbeMark>,
    /// What its probes make of it.
    pub fate: Fate,
    /// What happens, in a sentence or two.
    pub sentence: String,
    /// What weights take at least.
    pub floors: Floors,
    /// The same probes as a manifest.
    pub manifest: Configuration,
}

/// One stage of a start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StagePart {
    /// Which.
    pub stage: Stage,
    /// Its name for people.
    pub label: String,
    /// What happens in it.
    pub help: String,
    /// When it begins, seconds.
    pub start_s: f64,
    /// How long it takes, seconds.
    pub seconds: f64,
    /// How long when all replicas that start together share their links, seconds.
    pub together_s: f64,
    /// How that comes about: `16 GB ÷ 0.262 GB/s`.
    pub how: String,
}

/// An optimisation and what it is worth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saving {
    /// The setting.
    pub key: String,
    /// Its value with the optimisation, as it is typed.
    pub with: String,
    /// Its value without.
    pub without: String,
    /// Its name for people.
    pub label: String,
    /// What it changes.
    pub help: String,
    /// It is used.
    pub on: bool,
    /// How much sooner a replica serves with it than without, everything else as it stands, seconds.
    pub saves_s: f64,
}

/// A probe and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeMark {
    /// `startup`, `readiness` or `liveness`.
    pub probe: String,
    /// Which life of the container it was in, from 0.
    pub life: u32,
    /// When it was sent, seconds.
    pub sent_s: f64,
    /// When its answer came, or its time was out.
    pub back_s: f64,
    /// It passed.
    pub passed: bool,
    /// What followed: `started`, `ready`, `not_ready` or `kill`.
    pub verdict: Option<String>,
}

/// What becomes of a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It is in rotation, and serves from then on.
    #[default]
    Serves,
    /// It is in rotation before it can serve.
    TooEarly,
    /// Its probes never put it into rotation.
    NeverReady,
    /// It is killed before it ever serves, and so is every one after it.
    KilledForEver,
    /// Its load takes it out of rotation.
    OutUnderLoad,
    /// Its load has it killed.
    KilledUnderLoad,
}

/// Weights and what they come over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FloorsSpec {
    /// Sizes of models, billions of parameters.
    pub models_b: Vec<f64>,
    /// Bits of a parameter.
    pub bits: Vec<f64>,
    /// Where weights come from.
    pub sources: Vec<FloorSource>,
}

/// Where weights come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FloorSource {
    /// Its name.
    pub name: String,
    /// What it gives, GB/s.
    pub gb_s: f64,
    /// Where that number comes from.
    #[serde(default)]
    pub source: String,
}

/// Most rows of models, of precisions, and columns of a table of floors.
pub const MAX_FLOORS: usize = 12;

impl Default for FloorsSpec {
    fn default() -> Self {
        let source = |name: &str, gb_s, source: &str| FloorSource { name: name.into(), gb_s, source: source.into() };
        FloorsSpec {
            models_b: vec![8.0, 70.0],
            bits: vec![16.0, 8.0, 4.0],
            sources: vec![
                source(
                    "One reader",
                    0.31,
                    "a 15 GB model read by the usual loader in 48 s (Run:ai model streamer benchmarks)",
                ),
                source("gp3 disk", 1.05, "the same 15 GB streamed in 14.3 s (Run:ai model streamer benchmarks)"),
                source("S3, 32 streams", 3.06, "the same 15 GB streamed in 4.9 s (Run:ai model streamer benchmarks)"),
                source(
                    "NVMe RAID",
                    20.0,
                    "a round figure; fastsafetensors reports 26.4 GB/s with GPUDirect Storage and four GPUs",
                ),
                source("PCIe 5 ×16", 50.0, "a round figure below the 63 GB/s of the bus"),
            ],
        }
    }
}

/// Time that weights take at least: bytes ÷ bandwidth.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Floors {
    /// The columns.
    pub sources: Vec<FloorSource>,
    /// A row for every model in every precision.
    pub rows: Vec<FloorRow>,
}

/// A model in a precision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FloorRow {
    /// Billions of parameters.
    pub model_b: f64,
    /// Bits of a parameter.
    pub bits: f64,
    /// Size of the weights, GB.
    pub gb: f64,
    /// Seconds over each source.
    pub seconds: Vec<f64>,
}
