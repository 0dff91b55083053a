//! How a replica starts: what its cold start consists of, which optimisations are used, and who asks whether it is ready.
//!
//! By default nothing takes any time. Bandwidths matter only where there are bytes.

use serde::{Deserialize, Serialize};

/// Cold start and probes of every replica that is created after the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct StartupSpec {
    /// Parameters of the model, billions; 0: no weights to load.
    pub parameters_b: f64,
    /// Bits of a parameter: 16, 8 or 4 are usual.
    pub bits: f64,
    /// GPUs that hold a replica's weights together, each its part.
    pub tensor_parallel: u32,
    /// Nodes that they stand on: all are had or none, and one failing takes all.
    pub nodes: u32,
    /// Time until there is a node, seconds.
    pub node_s: f64,
    /// Size of the container image, GB (10⁹ bytes).
    pub image_gb: f64,
    /// Bandwidth of the image registry, GB/s, shared by the replicas that pull at once.
    pub registry_gb_s: f64,
    /// How fast an image is unpacked, GB/s.
    pub unpack_gb_s: f64,
    /// Bandwidth of the weight store, GB/s, shared by the replicas that fetch at once.
    pub store_gb_s: f64,
    /// What one node takes from the store at most, GB/s; 0: all there is.
    pub reader_gb_s: f64,
    /// Bandwidth of each node's own disk, GB/s.
    pub nvme_gb_s: f64,
    /// Bandwidth from host memory to each GPU, GB/s.
    pub device_gb_s: f64,
    /// Start of the process and imports, seconds.
    pub process_s: f64,
    /// The same once program files are on the node's disk, seconds; 0: no different.
    pub process_local_s: f64,
    /// Allocator warm-up, seconds.
    pub allocator_s: f64,
    /// Compiling the model, seconds.
    pub compile_s: f64,
    /// The same with a compile cache, seconds.
    pub compile_cached_s: f64,
    /// Capturing graphs of all batch sizes, seconds.
    pub graphs_s: f64,
    /// Capturing graphs of few batch sizes, seconds.
    pub graphs_few_s: f64,
    /// The first generation, seconds.
    pub warm_up_s: f64,
    /// A node is there already.
    pub warm_node: bool,
    /// The image is on the node already.
    pub image_pulled: bool,
    /// Weights go to the GPU while they arrive, instead of after.
    pub streamed: bool,
    /// Weights are mapped, and read when the first generation touches them.
    pub mapped: bool,
    /// Weights and program files are on the node's own disk.
    pub nvme: bool,
    /// Weights are in the node's memory.
    pub host_cache: bool,
    /// The compile cache is kept between starts.
    pub compile_cache: bool,
    /// Graphs are captured for few batch sizes.
    pub few_graphs: bool,
    /// Replicas that are not needed sleep, their weights in host memory, and wake instead of starting.
    pub sleep: bool,
    /// Replicas kept started beyond those asked for.
    pub warm_spares: u32,
    /// On a deploy, start the new replica before the old one drains.
    pub surge: bool,
    /// When a replica says that it is ready.
    pub readiness: Readiness,
    /// The probes that ask it.
    pub probes: ProbesSpec,
}

impl Default for StartupSpec {
    fn default() -> Self {
        StartupSpec {
            parameters_b: 0.0,
            bits: 16.0,
            tensor_parallel: 1,
            nodes: 1,
            node_s: 0.0,
            image_gb: 0.0,
            registry_gb_s: 0.1,
            unpack_gb_s: 0.1,
            store_gb_s: 1.0,
            reader_gb_s: 0.0,
            nvme_gb_s: 5.0,
            device_gb_s: 25.0,
            process_s: 0.0,
            process_local_s: 0.0,
            allocator_s: 0.0,
            compile_s: 0.0,
            compile_cached_s: 0.0,
            graphs_s: 0.0,
            graphs_few_s: 0.0,
            warm_up_s: 0.0,
            warm_node: false,
            image_pulled: false,
            streamed: false,
            mapped: false,
            nvme: false,
            host_cache: false,
            compile_cache: false,
            few_graphs: false,
            sleep: false,
            warm_spares: 0,
            surge: false,
            readiness: Readiness::Generation,
            probes: ProbesSpec::default(),
        }
    }
}

/// Probes in Kubernetes' sense. Each kind is on or off; what is off is not asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ProbesSpec {
    /// Until it has passed the others are not sent; failing kills.
    pub startup: ProbeSpec,
    /// Failing takes the replica out of rotation.
    pub readiness: ProbeSpec,
    /// Failing kills the replica and what it runs.
    pub liveness: ProbeSpec,
    /// How long a health answer takes without load, seconds.
    pub answer_s: f64,
    /// How much longer for each request in flight, seconds.
    pub answer_per_request_s: f64,
}

/// One kind of probe, with Kubernetes' defaults.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ProbeSpec {
    /// It is used.
    pub on: bool,
    /// From the start of the container to the first probe, seconds.
    pub delay_s: f64,
    /// From one probe to the next, seconds.
    pub period_s: f64,
    /// An answer that takes longer counts as none, seconds.
    pub timeout_s: f64,
    /// Failures in a row that make a verdict.
    pub failures: u32,
    /// Successes in a row that make a verdict.
    pub successes: u32,
}

impl Default for ProbeSpec {
    fn default() -> Self {
        ProbeSpec { on: false, delay_s: 0.0, period_s: 10.0, timeout_s: 1.0, failures: 3, successes: 1 }
    }
}

/// When a replica says that it is ready. In the order in which it comes true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Readiness {
    /// Its port is open: the process has started.
    Process,
    /// Its health endpoint says so: the engine is initialised, and nothing has been generated yet.
    Health,
    /// A tiny generation has come back.
    Generation,
}

impl Readiness {
    /// As specs name them.
    pub const NAMES: [&'static str; 3] = ["process", "health", "generation"];

    /// The stage that must be over.
    pub fn last_stage(self) -> Stage {
        match self {
            Readiness::Process => Stage::Process,
            Readiness::Health => Stage::GraphCapture,
            Readiness::Generation => Stage::WarmUp,
        }
    }
}

/// Stages of a cold start, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// A node is found or made.
    Node,
    /// The image is pulled and unpacked.
    Image,
    /// Weights reach the host.
    WeightsToHost,
    /// Weights reach the GPU.
    WeightsToDevice,
    /// The process starts and imports what it needs.
    Process,
    /// The allocator finds out how much memory there is for KV.
    Allocator,
    /// The model is compiled.
    Compile,
    /// Graphs are captured, one for each batch size.
    GraphCapture,
    /// The first generation.
    WarmUp,
}

impl Stage {
    /// All, in order.
    pub const ALL: [Stage; 9] = [
        Stage::Node,
        Stage::Image,
        Stage::WeightsToHost,
        Stage::WeightsToDevice,
        Stage::Process,
        Stage::Allocator,
        Stage::Compile,
        Stage::GraphCapture,
        Stage::WarmUp,
    ];

    /// Its name in specs and reports.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Node => "node",
            Stage::Image => "image",
            Stage::WeightsToHost => "weights_to_host",
            Stage::WeightsToDevice => "weights_to_device",
            Stage::Process => "process",
            Stage::Allocator => "allocator",
            Stage::Compile => "compile",
            Stage::GraphCapture => "graph_capture",
            Stage::WarmUp => "warm_up",
        }
    }

    /// Its name for people.
    pub fn label(self) -> &'static str {
        match self {
            Stage::Node => "Node",
            Stage::Image => "Image",
            Stage::WeightsToHost => "Weights to host",
            Stage::WeightsToDevice => "Weights to GPU",
            Stage::Process => "Process",
            Stage::Allocator => "Allocator",
            Stage::Compile => "Compile",
            Stage::GraphCapture => "Graphs",
            Stage::WarmUp => "Warm-up",
        }
    }

    /// What happens in it, in a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Stage::Node => "A node with a GPU is found, or made.",
            Stage::Image => "The container image is pulled and unpacked.",
            Stage::WeightsToHost => "Weights travel from their store to the node.",
            Stage::WeightsToDevice => "Weights travel from the node's memory to the GPU.",
            Stage::Process => "The process starts and imports its libraries.",
            Stage::Allocator => "The engine measures how much memory is left for KV blocks.",
            Stage::Compile => "The model is compiled for this GPU.",
            Stage::GraphCapture => "GPU graphs are captured, one for each batch size.",
            Stage::WarmUp => "A first generation runs; whatever is lazy is paid here.",
        }
    }
}
