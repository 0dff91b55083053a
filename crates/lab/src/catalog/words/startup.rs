//! Words of cold starts and probes.

use super::Words;
use servelab_spec::experiment::Readiness;

pub(super) const NUMBERS: &[(Words, f64)] = &[
    (("startup.parameters_b", "Parameters", "Size of the model whose weights a new replica loads; 0 loads none."), 0.5),
    (
        (
            "startup.bits",
            "Bits a parameter",
            "Quantised weights are fewer bytes to move; nothing else about a start gets shorter.",
        ),
        1.0,
    ),
    (
        ("startup.tensor_parallel", "Tensor parallel", "GPUs that hold a replica's weights together, each its part."),
        1.0,
    ),
    (
        (
            "startup.nodes",
            "Nodes a replica",
            "Nodes that those GPUs stand on: all are had or none, and one failing takes all.",
        ),
        1.0,
    ),
    (("startup.node_s", "Node", "Time until there is a node with a GPU."), 1.0),
    (("startup.image_gb", "Image", "Size of the container image."), 0.5),
    (
        ("startup.registry_gb_s", "Registry", "Bandwidth of the image registry; replicas that pull at once share it."),
        0.01,
    ),
    (("startup.unpack_gb_s", "Unpacking", "How fast an image is unpacked on its node."), 0.01),
    (
        (
            "startup.store_gb_s",
            "Weight store",
            "Bandwidth of where weights come from; replicas that fetch at once share it.",
        ),
        0.05,
    ),
    (
        ("startup.reader_gb_s", "One reader", "What one node takes from the weight store at most; 0 for all there is."),
        0.05,
    ),
    (("startup.nvme_gb_s", "Local disk", "Bandwidth of each node's own disk, used if weights are on it."), 0.5),
    (("startup.device_gb_s", "Host to GPU", "Bandwidth from the node's memory to each GPU."), 1.0),
    (("startup.process_s", "Process", "Start of the process and its imports."), 1.0),
    (
        (
            "startup.process_local_s",
            "Process, local",
            "The same when program files are on the node's own disk; 0 if that makes no difference.",
        ),
        1.0,
    ),
    (("startup.allocator_s", "Allocator", "Finding out how much memory is left for KV blocks."), 0.5),
    (("startup.compile_s", "Compile", "Compiling the model."), 1.0),
    (("startup.compile_cached_s", "Compile, cached", "The same with a compile cache kept from an earlier start."), 1.0),
    (("startup.graphs_s", "Graphs", "Capturing GPU graphs for every batch size."), 1.0),
    (("startup.graphs_few_s", "Graphs, few", "The same for a few batch sizes only."), 1.0),
    (
        (
            "startup.warm_up_s",
            "First generation",
            "The first request through a fresh engine; whatever is lazy is paid here.",
        ),
        0.5,
    ),
    (
        (
            "startup.warm_spares",
            "Warm spares",
            "Replicas kept started beyond those asked for: they serve the moment they are needed, and cost all the time.",
        ),
        1.0,
    ),
    (("startup.probes.answer_s", "Health answer", "How long a health answer takes from an engine without load."), 0.01),
    (
        (
            "startup.probes.answer_per_request_s",
            "Health answer, more a request",
            "How much longer it takes for each request in flight: a straight line, which is an assumption.",
        ),
        0.001,
    ),
    (
        (
            "startup.probes.startup.delay_s",
            "Startup probe, delay",
            "From the start of the container to the first startup probe.",
        ),
        1.0,
    ),
    (("startup.probes.startup.period_s", "Startup probe, period", "From one startup probe to the next."), 1.0),
    (
        ("startup.probes.startup.timeout_s", "Startup probe, time-out", "An answer that takes longer counts as none."),
        0.5,
    ),
    (
        (
            "startup.probes.startup.failures",
            "Startup probe, failures",
            "So many in a row kill the container, which begins again: period × failures is what a start may take.",
        ),
        1.0,
    ),
    (("startup.probes.startup.successes", "Startup probe, successes", "Kubernetes accepts 1 only."), 1.0),
    (
        (
            "startup.probes.readiness.delay_s",
            "Readiness probe, delay",
            "From the start of the container to the first readiness probe.",
        ),
        1.0,
    ),
    (("startup.probes.readiness.period_s", "Readiness probe, period", "From one readiness probe to the next."), 1.0),
    (
        (
            "startup.probes.readiness.timeout_s",
            "Readiness probe, time-out",
            "An answer that takes longer counts as none; a busy engine answers slowly.",
        ),
        0.5,
    ),
    (
        (
            "startup.probes.readiness.failures",
            "Readiness probe, failures",
            "So many in a row take the replica out of rotation.",
        ),
        1.0,
    ),
    (
        (
            "startup.probes.readiness.successes",
            "Readiness probe, successes",
            "So many in a row put the replica into rotation.",
        ),
        1.0,
    ),
    (
        (
            "startup.probes.liveness.delay_s",
            "Liveness probe, delay",
            "From the start of the container to the first liveness probe.",
        ),
        1.0,
    ),
    (("startup.probes.liveness.period_s", "Liveness probe, period", "From one liveness probe to the next."), 1.0),
    (
        (
            "startup.probes.liveness.timeout_s",
            "Liveness probe, time-out",
            "An answer that takes longer counts as none; a busy engine answers slowly.",
        ),
        0.5,
    ),
    (
        (
            "startup.probes.liveness.failures",
            "Liveness probe, failures",
            "So many in a row kill the container and all that it runs.",
        ),
        1.0,
    ),
    (("startup.probes.liveness.successes", "Liveness probe, successes", "Kubernetes accepts 1 only."), 1.0),
];

pub(super) const SWITCHES: &[Words] = &[
    ("startup.warm_node", "Warm node pool", "Nodes are kept ready, so that none has to be made."),
    ("startup.image_pulled", "Pre-pulled image", "The image is on every node already."),
    (
        "startup.streamed",
        "Streamed weights",
        "Weights go on to the GPU while they arrive: the slower of the two ways decides, not their sum.",
    ),
    (
        "startup.mapped",
        "Memory-mapped weights",
        "Pages are read when they are touched: the engine is there sooner, and its first generation waits for the bytes.",
    ),
    ("startup.nvme", "Weights on local disk", "Weights and program files are on the node's own disk."),
    ("startup.host_cache", "Weights in host memory", "The node still holds the weights in its memory."),
    ("startup.compile_cache", "Compile cache kept", "What was compiled once is found again by the next start."),
    ("startup.few_graphs", "Fewer graph sizes", "Graphs are captured for a few batch sizes only."),
    (
        "startup.sleep",
        "Sleep mode",
        "An idle engine keeps its process and leaves the GPU: it wakes as fast as weights travel from host memory.",
    ),
    ("startup.surge", "New before old", "On a deploy, the new replica starts before the old one drains."),
    ("startup.probes.startup.on", "Startup probe", "Until it has passed the others are not sent; failing kills."),
    (
        "startup.probes.readiness.on",
        "Readiness probe",
        "Failing takes the replica out of rotation, passing puts it back.",
    ),
    ("startup.probes.liveness.on", "Liveness probe", "Failing kills the replica and all that it runs."),
];

pub(super) const CHOICES: &[(Words, &[&str])] = &[(
    (
        "startup.readiness",
        "Ready means",
        "The port is open, the health endpoint says so, or a tiny generation has come back. Too early, and the first users pay for the rest.",
    ),
    &Readiness::NAMES,
)];
