//! From the settings of a cold start to its stages.
//!
//! ```text
//! bytes            = parameters · bits ÷ 8
//! staged           = bytes ÷ source + bytes ÷ (GPUs · host to GPU)
//! streamed, mapped = bytes ÷ the smaller of the two
//! ```
//!
//! The weight store is shared by the nodes of a replica and by replicas that start at once; each node has a disk of its own and each GPU a way of its
//! own from the host. Every optimisation changes its own stage and nothing else:
//!
//! | setting | changes |
//! |---|---|
//! | `warm_node` | no node has to be made |
//! | `image_pulled` | nothing is pulled or unpacked |
//! | `streamed` | loading overlaps with fetching: one stage, at the slower of the two |
//! | `mapped` | nothing is loaded ahead: the first generation waits for the bytes, behind a readiness that does not ask for one |
//! | `nvme` | weights come from the nodes' disks, which nobody else shares, and so do program files |
//! | `host_cache` | weights are in host memory |
//! | `compile_cache`, `few_graphs` | these stages take what is stated for them |
//! | `sleep` | all that is left is the way from host memory to the GPU |
//! | `bits` | fewer bytes to move; everything else takes as long as it did |

mod answer;
pub mod floors;
pub mod presets;
mod probing;

pub use answer::cold_start;

use servelab_engine::Nanos;
use servelab_fleet::startup::{
    AnswerTime, LinkConfig, ProbeConfig, ProbesConfig, Stage, StageWork, StartupConfig, stage::Link,
};
use servelab_spec::experiment::{ProbeSpec, ProbesSpec, StartupSpec};

/// Bytes of a gigabyte, as vendors of links count.
const GB: f64 = 1e9;

/// How replicas of a live run start: what a tab has no part in (node, image, process) takes what the settings say, weights and first generation take
/// the time they take. A tab has nothing to compile and no graphs to capture before the first generation, which does both.
pub(crate) fn live(spec: &StartupSpec) -> StartupConfig {
    let settled = config(&StartupSpec { sleep: false, ..*spec });
    let before = [Stage::Node, Stage::Image, Stage::Process];
    let (mut stages, after): (Vec<_>, Vec<_>) = (settled.stages.into_iter())
        .filter(|(stage, _)| before.contains(stage))
        .partition(|&(stage, _)| stage < Stage::WeightsToHost);
    let measured = |stage| (stage, StageWork::Measured);
    stages.extend([Stage::WeightsToHost, Stage::WeightsToDevice].map(measured));
    stages.extend(after);
    stages.push(measured(Stage::WarmUp));
    StartupConfig { stages, ..settled }
}

/// How replicas start under `spec`.
pub fn config(spec: &StartupSpec) -> StartupConfig {
    let weights = Weights::of(spec);
    let mut stages = Vec::new();
    // Parts without work are left out: a bar of nothing helps nobody, and an event at the same instant costs time.
    let mut add = |stage, work| match work {
        StageWork::Fixed(Nanos::ZERO) | StageWork::Transfer { bytes: 0, .. } | StageWork::Shared { bytes: 0, .. } => {}
        work => stages.push((stage, work)),
    };
    let fixed = |seconds| StageWork::Fixed(Nanos::from_secs(seconds));
    if spec.sleep {
        add(Stage::WeightsToDevice, weights.to_device());
    } else {
        add(Stage::Node, fixed(if spec.warm_node { 0.0 } else { spec.node_s }));
        let image = if spec.image_pulled { 0 } else { bytes(spec.image_gb) };
        add(Stage::Image, StageWork::Shared { bytes: image, link: Link::Registry });
        add(Stage::Image, StageWork::Transfer { bytes: image, bytes_per_s: bandwidth(spec.unpack_gb_s) });
        if !spec.mapped {
            add(Stage::WeightsToHost, weights.to_host(spec));
            if !spec.streamed || spec.host_cache {
                add(Stage::WeightsToDevice, weights.to_device());
            }
        }
        let local = spec.nvme && spec.process_local_s > 0.0;
        add(Stage::Process, fixed(if local { spec.process_local_s } else { spec.process_s }));
        add(Stage::Allocator, fixed(spec.allocator_s));
        add(Stage::Compile, fixed(if spec.compile_cache { spec.compile_cached_s } else { spec.compile_s }));
        add(Stage::GraphCapture, fixed(if spec.few_graphs { spec.graphs_few_s } else { spec.graphs_s }));
        if spec.mapped {
            let read = if spec.host_cache { weights.to_device() } else { weights.to_host(spec) };
            add(Stage::WarmUp, read);
        }
        add(Stage::WarmUp, fixed(spec.warm_up_s));
    }
    StartupConfig {
        stages,
        registry: LinkConfig { bytes_per_s: bandwidth(spec.registry_gb_s), each_bytes_per_s: None },
        store: LinkConfig { bytes_per_s: bandwidth(spec.store_gb_s), each_bytes_per_s: weights.reader },
        readiness: spec.readiness,
        probes: probes(&spec.probes),
        nodes: spec.nodes,
        warm_spares: spec.warm_spares,
        surge: spec.surge,
    }
}

/// A replica's weights and the ways that are its own.
struct Weights {
    bytes: u64,
    /// From all disks of its nodes.
    disk: u64,
    /// To all its GPUs.
    device: u64,
    /// What it takes from the store at most.
    reader: Option<u64>,
    /// Bytes go on to the GPU as they come.
    overlaps: bool,
}

impl Weights {
    fn of(spec: &StartupSpec) -> Self {
        let nodes = f64::from(spec.nodes);
        let device = bandwidth(spec.device_gb_s * f64::from(spec.tensor_parallel));
        let overlaps = spec.streamed || spec.mapped;
        let reader = (spec.reader_gb_s > 0.0).then(|| bandwidth(spec.reader_gb_s * nodes));
        let reader = if overlaps { Some(reader.map_or(device, |reader| reader.min(device))) } else { reader };
        Weights {
            bytes: weight_bytes(spec.parameters_b, spec.bits),
            disk: bandwidth(spec.nvme_gb_s * nodes),
            device,
            reader,
            overlaps,
        }
    }

    /// From where they are kept to the host, and on to the GPU where that overlaps.
    fn to_host(&self, spec: &StartupSpec) -> StageWork {
        if spec.host_cache {
            StageWork::Fixed(Nanos::ZERO)
        } else if spec.nvme {
            let bytes_per_s = if self.overlaps { self.disk.min(self.device) } else { self.disk };
            StageWork::Transfer { bytes: self.bytes, bytes_per_s }
        } else {
            StageWork::Shared { bytes: self.bytes, link: Link::WeightStore }
        }
    }

    fn to_device(&self) -> StageWork {
        StageWork::Transfer { bytes: self.bytes, bytes_per_s: self.device }
    }
}

/// Bytes of `parameters_b` billion parameters of `bits` each.
pub fn weight_bytes(parameters_b: f64, bits: f64) -> u64 {
    bytes(parameters_b * bits / 8.0)
}

fn bytes(gb: f64) -> u64 {
    libm::round(gb * GB) as u64
}

fn bandwidth(gb_s: f64) -> u64 {
    bytes(gb_s).max(1)
}

/// The probes that are on; none at all when none is.
fn probes(spec: &ProbesSpec) -> Option<ProbesConfig> {
    let one = |probe: &ProbeSpec| {
        probe.on.then(|| ProbeConfig {
            initial_delay: Nanos::from_secs(probe.delay_s),
            period: Nanos::from_secs(probe.period_s),
            timeout: Nanos::from_secs(probe.timeout_s),
            failures: probe.failures,
            successes: probe.successes,
        })
    };
    let (startup, readiness, liveness) = (one(&spec.startup), one(&spec.readiness), one(&spec.liveness));
    let any = startup.or(readiness).or(liveness).is_some();
    let answer =
        AnswerTime { base: Nanos::from_secs(spec.answer_s), per_request: Nanos::from_secs(spec.answer_per_request_s) };
    any.then_some(ProbesConfig { startup, readiness, liveness, answer })
}

#[cfg(test)]
#[path = "startup/tests.rs"]
mod tests;
