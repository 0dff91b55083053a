//! What is run: a [`Spec`] and its parts. A spec and its seed decide every byte of the report of a priced run.
//!
//! Durations are seconds and rates are per second in specs and reports (`_s`, `_per_s`); the core counts
//! integer nanoseconds.

mod classes;
mod clients;
mod demand;
mod gateway;
mod generated;
mod overflow;
mod scaling;
mod startup;
mod store;
mod trace;
mod workload;

pub use classes::{ClassSpec, MAX_CLASSES, parse_classes};
pub use clients::{ClientSpec, ClientsSpec, FaultsSpec, Pace, Remedy, ServerSpec, ServiceLaw};
pub use demand::{Curve, DemandSpec};
pub use gateway::{DetectorKind, GatewaySpec, GradientKind, OrderKind, RefuseWith, RetryAfterKind, ShedKind};
pub use generated::{ArrivalLaw, GeneratedSpec, LengthLaw};
pub use overflow::OverflowSpec;
pub use scaling::{ControllerSpec, ScalingSpec, Victim};
pub use startup::{ProbeSpec, ProbesSpec, Readiness, Stage, StartupSpec};
pub use store::{FetchRule, StoreSpec};
pub use trace::TraceSpec;
pub use workload::{AgentTreeSpec, LongShortSpec, MultiTenantSpec, RateUnit, SessionsSpec, WorkloadSpec};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One experiment: a workload, a fleet and the policies compared on the same arrivals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// Schema version, [`crate::SCHEMA_VERSION`].
    pub version: u32,
    /// The preset this spec started from; addresses store only what differs from it.
    pub preset: String,
    /// Seed of every random stream, below 2⁵³.
    pub seed: u64,
    /// Number of replicas behind the router.
    pub replicas: u32,
    /// Policies to compare, each run on the same arrivals.
    pub policies: Vec<PolicySpec>,
    /// Where requests come from.
    pub workload: WorkloadSpec,
    /// One replica's engine; every replica is alike.
    pub engine: EngineSpec,
    /// One replica of a run in ticks; every replica is alike.
    pub tick: TickSpec,
    /// One replica of a run of servers; every replica is alike.
    pub server: ServerSpec,
    /// How signals reach the routers.
    pub routing: RoutingSpec,
    /// What stands in front of the routers.
    pub gateway: GatewaySpec,
    /// A store of KV blocks behind the replicas.
    pub store: StoreSpec,
    /// What happens to the fleet on the way.
    pub events: EventsSpec,
    /// Who sends requests, and what they do when one fails.
    pub clients: ClientsSpec,
    /// What goes wrong for a while, and what is done about it.
    pub faults: FaultsSpec,
    /// Who decides how many replicas there are, and how replicas come and go.
    pub scaling: ScalingSpec,
    /// How new replicas start, and who asks whether they are ready.
    pub startup: StartupSpec,
    /// What counts as good.
    pub slo: SloSpec,
    /// Who executes the steps and what they are charged.
    pub execution: ExecutionSpec,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            version: crate::SCHEMA_VERSION,
            preset: "multi-tenant".into(),
            seed: 7,
            replicas: 4,
            policies: vec![
                PolicySpec::named("round_robin"),
                PolicySpec::named("least_tokens"),
                PolicySpec::named("prefix_affinity"),
            ],
            workload: WorkloadSpec::default(),
            engine: EngineSpec::default(),
            tick: TickSpec::default(),
            server: ServerSpec::default(),
            routing: RoutingSpec::default(),
            gateway: GatewaySpec::default(),
            store: StoreSpec::default(),
            events: EventsSpec::default(),
            clients: ClientsSpec::default(),
            faults: FaultsSpec::default(),
            scaling: ScalingSpec::default(),
            startup: StartupSpec::default(),
            slo: SloSpec::default(),
            execution: ExecutionSpec::default(),
        }
    }
}

/// One run of an experiment: which of its policies, and which of its controllers and client policies if it has any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contender {
    /// Index in [`Spec::policies`].
    pub policy: usize,
    /// Index in [`ScalingSpec::controllers`].
    pub controller: Option<usize>,
    /// Index in [`ClientsSpec::policies`]; `None` as well when they act together.
    pub clients: Option<usize>,
}

impl Spec {
    /// The runs of this experiment, in order: every policy, with every controller where there are any, with every client policy where there are any.
    pub fn contenders(&self) -> Vec<Contender> {
        // A list of nothing is one run without any.
        let each =
            |many: usize| -> Vec<Option<usize>> { if many == 0 { vec![None] } else { (0..many).map(Some).collect() } };
        let controllers = each(if self.scaling.on { self.scaling.controllers.len() } else { 0 });
        let compared = self.clients.on && !self.clients.together;
        let clients = each(if compared { self.clients.policies.len() } else { 0 });
        let mut contenders = Vec::new();
        for policy in 0..self.policies.len() {
            for &controller in &controllers {
                contenders.extend(clients.iter().map(|&clients| Contender { policy, controller, clients }));
            }
        }
        contenders
    }
}

/// A policy by its registry name, with the parameters that differ from its defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PolicySpec {
    /// Stable snake_case name from the registry.
    pub name: String,
    /// Parameters by name; switches are 0 and 1, choices the index of the option.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, f64>,
    /// The text of the policy [`PolicySpec::SCRIPT`]; its first example when absent. No other policy has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
}

impl PolicySpec {
    /// Name of the policy whose text is the user's own.
    pub const SCRIPT: &'static str = "script";

    /// The policy with all its defaults.
    pub fn named(name: &str) -> Self {
        PolicySpec { name: name.into(), params: BTreeMap::new(), script: None }
    }

    /// A policy of the user's own.
    pub fn scripted(text: &str) -> Self {
        PolicySpec { script: Some(text.into()), ..PolicySpec::named(Self::SCRIPT) }
    }

    /// The policy with one parameter set.
    #[must_use]
    pub fn with(mut self, param: &str, value: f64) -> Self {
        self.params.insert(param.into(), value);
        self
    }
}

/// One replica's engine (continuous batching over paged KV blocks).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct EngineSpec {
    /// Tokens in one KV block.
    pub block_tokens: u32,
    /// KV blocks in the pool.
    pub blocks: u32,
    /// Most sequences running at once.
    pub max_batch: u32,
    /// Most new tokens computed in one step (prefill and decode together).
    pub token_budget: u32,
    /// Longest prompt plus output the model can hold, tokens.
    pub max_context: u32,
    /// Split a long prefill over steps. Off: a prompt is computed whole, however long.
    pub chunked_prefill: bool,
    /// Admit at most one prefill a step.
    pub one_prefill: bool,
    /// Keep and share full blocks by content.
    pub prefix_cache: bool,
    /// Share of the pool that admission leaves free, 0 to 0.5.
    pub watermark: f64,
    /// Adapters (LoRA) held at once; 0: they cost nothing and are always there.
    pub adapter_slots: u32,
    /// KV blocks that the memory of one slot takes from the pool for good.
    pub adapter_blocks: u32,
    /// Time to load an adapter, seconds, charged to the step that needs it.
    pub adapter_load_s: f64,
    /// Most requests that wait at a replica; 0: any.
    pub max_queued: u32,
    /// Running requests count towards that, as in vLLM.
    pub queued_count_running: bool,
    /// Most prompt tokens of a replica's requests without a first token; 0: any.
    pub max_queued_tokens: u32,
    /// Longest wait at a replica before the first admission, seconds; 0: any.
    pub queue_ttl_s: f64,
    /// Longest wait at a replica that may be predicted, seconds; 0: any.
    pub max_wait_s: f64,
}

impl Default for EngineSpec {
    fn default() -> Self {
        EngineSpec {
            block_tokens: 16,
            blocks: 384,
            max_batch: 8,
            token_budget: 512,
            max_context: 2048,
            chunked_prefill: true,
            one_prefill: false,
            prefix_cache: true,
            watermark: 0.0,
            adapter_slots: 0,
            adapter_blocks: 8,
            adapter_load_s: 0.1,
            max_queued: 0,
            queued_count_running: false,
            max_queued_tokens: 0,
            queue_ttl_s: 0.0,
            max_wait_s: 0.0,
        }
    }
}

/// The teaching replica: it remembers a few prefixes, and a request takes a whole number of ticks. No blocks, no batch, no model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct TickSpec {
    /// Length of a tick, seconds.
    pub tick_s: f64,
    /// Prefixes remembered; the one used longest ago is forgotten first.
    pub prefixes: u32,
    /// Ticks of a request whose prefix is remembered.
    pub hit_ticks: u32,
    /// Ticks of any other request.
    pub miss_ticks: u32,
}

impl Default for TickSpec {
    fn default() -> Self {
        TickSpec { tick_s: 0.1, prefixes: 3, hit_ticks: 1, miss_ticks: 2 }
    }
}

/// How signals reach the routers. Policies declare which of the tiers they read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RoutingSpec {
    /// Routers that share the traffic, each with counts and indexes of its own.
    pub routers: u32,
    /// Seconds between two scrapes of engine metrics; 0: fresh at every decision, which nothing real is.
    pub scrape_s: f64,
    /// Age of KV events when they reach the routers, seconds.
    pub event_delay_s: f64,
    /// Share of KV events that never reach them, 0 to 1.
    pub event_loss: f64,
}

impl Default for RoutingSpec {
    fn default() -> Self {
        RoutingSpec { routers: 1, scrape_s: 0.05, event_delay_s: 0.01, event_loss: 0.0 }
    }
}

/// What happens to the fleet on the way. Instants are virtual seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct EventsSpec {
    /// Replicas that join, with empty caches; 0: none.
    pub join: u32,
    /// When they join.
    pub join_at_s: f64,
    /// How long they need until they can serve.
    pub warm_up_s: f64,
    /// They say that they are ready only once they can serve.
    pub honest_readiness: bool,
    /// Replicas that leave: the last ones of the start; 0: none. At least one must stay.
    pub leave: u32,
    /// When they leave.
    pub leave_at_s: f64,
    /// Replicas slower than the rest: the last ones of the start; 0: none.
    pub slow: u32,
    /// How many times as long their steps take.
    pub slow_factor: f64,
    /// The routers restart, and what they remember is gone.
    pub restart: bool,
    /// When they restart.
    pub restart_at_s: f64,
    /// Every replica is replaced, one after the other. Only with scaling on.
    pub deploy: bool,
    /// When that begins.
    pub deploy_at_s: f64,
    /// Replicas that crash with their nodes; 0: none. Only with scaling on.
    pub crash: u32,
    /// When they crash.
    pub crash_at_s: f64,
}

impl Default for EventsSpec {
    fn default() -> Self {
        EventsSpec {
            join: 0,
            join_at_s: 10.0,
            warm_up_s: 0.0,
            honest_readiness: true,
            leave: 0,
            leave_at_s: 10.0,
            slow: 0,
            slow_factor: 2.0,
            restart: false,
            restart_at_s: 10.0,
            deploy: false,
            deploy_at_s: 10.0,
            crash: 0,
            crash_at_s: 10.0,
        }
    }
}

/// Service-level objective: a request is good when it meets both limits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SloSpec {
    /// Largest acceptable time to first token, seconds.
    pub ttft_s: f64,
    /// Largest acceptable mean gap between tokens after the first, seconds.
    pub itl_s: f64,
}

impl Default for SloSpec {
    fn default() -> Self {
        SloSpec { ttft_s: 1.0, itl_s: 0.05 }
    }
}

/// Who executes the steps and what they are charged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ExecutionSpec {
    /// Priced steps or a real model.
    pub mode: ExecutionMode,
    /// Cost model of a priced run: a preset's name from the catalog, or `custom`.
    pub cost: String,
    /// Coefficients, required when `cost` is `custom` and ignored otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coefficients: Option<Coefficients>,
    /// Which TinyGPT a live run uses.
    pub model: ModelChoice,
    /// Where a live run computes.
    pub device: DeviceChoice,
    /// What a live run charges to a replica's clock.
    pub charge: Charge,
}

impl Default for ExecutionSpec {
    fn default() -> Self {
        ExecutionSpec {
            mode: ExecutionMode::Priced,
            cost: "tinygpt_wasm".into(),
            coefficients: None,
            model: ModelChoice::Reference,
            device: DeviceChoice::Auto,
            charge: Charge::Fitted,
        }
    }
}

/// Priced steps or a real model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExecutionMode {
    /// No tensor is touched; the cost model alone moves the clock.
    Priced,
    /// TinyGPT computes every step.
    Tinygpt,
    /// No steps at all: replicas that remember a few prefixes and count ticks, for teaching.
    Tick,
    /// No steps either: replicas that are queueing stations with drawn service times, for storms and checks against theory.
    Server,
}

/// Coefficients of `step = a + b·uncached prefill tokens + c·Σ(new token × its context)
/// + d·decoding sequences + e·Σ context`, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Coefficients {
    /// a: every step, µs.
    pub step_us: f64,
    /// b: a prefill token, µs.
    pub prefill_token_us: f64,
    /// c: a prefill token for each token of its context, µs.
    pub prefill_context_us: f64,
    /// d: a decoding sequence, µs.
    pub decode_sequence_us: f64,
    /// e: a token of context that a decoding sequence reads, µs.
    pub decode_context_us: f64,
}

/// Which TinyGPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelChoice {
    /// 5 838 080 parameters: 6 layers of width 256.
    Reference,
    /// 2 layers of width 64: for slow devices and tests.
    Small,
    /// The trained one that comes with the page, fetched: 3 541 248 parameters, 1 024 tokens.
    Trained,
}

/// Where a live run computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeviceChoice {
    /// WebGPU when a hardware adapter answers and is the faster one, else the CPU.
    Auto,
    /// The SIMD CPU backend.
    Cpu,
    /// WebGPU, software adapters included.
    Webgpu,
}

/// What a live run charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Charge {
    /// The cost model fitted to this device's own measured steps: results repeat.
    Fitted,
    /// The raw measured time of each step: results differ from run to run.
    Measured,
}
