//! What settings are called and what they change, in a sentence each. Limits and units stand in the spec's own table.

mod clients;
mod gateway;
mod scaling;
mod startup;
mod store;
mod trace;

use servelab_spec::experiment::WorkloadSpec;

/// Every number with the granularity of its control.
pub(super) fn numbers() -> impl Iterator<Item = &'static (Words, f64)> {
    NUMBERS
        .iter()
        .chain(gateway::NUMBERS)
        .chain(store::NUMBERS)
        .chain(clients::NUMBERS)
        .chain(scaling::NUMBERS)
        .chain(startup::NUMBERS)
        .chain(trace::NUMBERS)
        .chain(trace::FIGURES)
}

/// Every switch.
pub(super) fn switches() -> impl Iterator<Item = &'static Words> {
    let labs = clients::SWITCHES.iter().chain(gateway::SWITCHES).chain(scaling::SWITCHES);
    SWITCHES.iter().chain(labs).chain(startup::SWITCHES).chain(trace::SWITCHES)
}

/// Every choice with its options; those without come from a registry.
pub(super) fn choices() -> impl Iterator<Item = &'static (Words, &'static [&'static str])> {
    CHOICES
        .iter()
        .chain(gateway::CHOICES)
        .chain(store::CHOICES)
        .chain(clients::CHOICES)
        .chain(scaling::CHOICES)
        .chain(startup::CHOICES)
        .chain(trace::CHOICES)
}

/// Key, label, sentence.
pub(super) type Words = (&'static str, &'static str, &'static str);

/// Numbers with the granularity of their control. Limits, unit and kind stand in the spec's own table.
const NUMBERS: &[(Words, f64)] = &[
    (("seed", "Seed", "Decides every random draw; the same seed gives the same run."), 1.0),
    (("replicas", "Replicas", "Engines behind the router, all alike."), 1.0),
    (("workload.requests", "Requests", "Length of the run."), 1.0),
    (("workload.tenants", "Tenants", "Each has a long system prompt of its own."), 1.0),
    (
        (
            "workload.adapters",
            "LoRA adapters",
            "Tenants ask for one of so many adapters in turn; blocks of one are no use to another; 0 for none.",
        ),
        1.0,
    ),
    (("workload.turns_min", "Turns, fewest", "Fewest turns of a session."), 1.0),
    (("workload.turns_max", "Turns, most", "Most turns of a session; its prompts grow with every turn."), 1.0),
    (("workload.think_s", "Think time", "Mean time between an answer and the next turn."), 0.1),
    (("workload.depth", "Depth", "Levels of sub-agents below a task's first agent."), 1.0),
    (("workload.branches", "Branches", "Sub-agents that each agent above the last level starts."), 1.0),
    (("workload.burst_s", "Burst", "Mean delay of a sub-agent: short, and siblings come all at once."), 0.05),
    (
        (
            "workload.answer_s",
            "Nominal answer",
            "What comes next is sent this long after what it follows, whether or not the answer is there.",
        ),
        0.1,
    ),
    (("workload.long_share", "Long requests", "Share of requests that are about a document."), 0.01),
    (("workload.documents", "Documents", "Each is asked about again and again."), 1.0),
    (("workload.document_min", "Document, shortest", "Shortest document."), 1.0),
    (("workload.document_max", "Document, longest", "Longest document."), 1.0),
    (("workload.task_min", "Task, shortest", "Shortest description of a task, which all its agents share."), 1.0),
    (("workload.task_max", "Task, longest", "Longest description of a task, which all its agents share."), 1.0),
    (("workload.skew", "Skew", "Zipf exponent of tenant popularity; 0 gives every tenant the same share."), 0.1),
    (("workload.noisy", "Noisy tenant", "How many times its share the first tenant sends."), 1.0),
    (("workload.system_min", "System prompt, shortest", "Shortest system prompt of a tenant."), 1.0),
    (("workload.system_max", "System prompt, longest", "Longest system prompt of a tenant."), 1.0),
    (("workload.user_min", "User part, shortest", "Shortest part of a prompt that is its own."), 1.0),
    (("workload.user_max", "User part, longest", "Longest part of a prompt that is its own."), 1.0),
    (("workload.output_min", "Output, shortest", "Shortest answer."), 1.0),
    (("workload.output_max", "Output, longest", "Longest answer."), 1.0),
    (("workload.rate", "Arrival rate", "How fast requests arrive (Poisson)."), 0.05),
    (("engine.block_tokens", "Block size", "Tokens in one KV block; only full blocks are shared."), 1.0),
    (("engine.blocks", "KV blocks", "Blocks of each replica's pool: running sequences and cache share it."), 1.0),
    (("engine.max_batch", "Batch", "Most sequences running at once on a replica."), 1.0),
    (
        (
            "engine.token_budget",
            "Token budget",
            "Most new tokens in one step: small keeps gaps short, large keeps queues short.",
        ),
        1.0,
    ),
    (("engine.max_context", "Context", "Longest prompt plus output that the model can hold."), 1.0),
    (
        (
            "engine.adapter_slots",
            "Adapter slots",
            "LoRA adapters a replica holds at once; 0 if adapters cost nothing and are always there.",
        ),
        1.0,
    ),
    (("engine.adapter_blocks", "Memory of an adapter", "KV blocks that each adapter slot takes from the pool."), 1.0),
    (("engine.adapter_load_s", "Adapter load", "Time to load an adapter; the step that needs it waits."), 0.05),
    (("engine.watermark", "Watermark", "Share of the pool that admission leaves free for sequences that grow."), 0.01),
    (("tick.tick_s", "Tick", "Length of a tick, in a run in ticks."), 0.01),
    (
        (
            "tick.prefixes",
            "Prefixes remembered",
            "How many prefixes a replica remembers; it forgets what it used longest ago.",
        ),
        1.0,
    ),
    (("tick.hit_ticks", "Ticks of a hit", "How long a request takes whose prefix is remembered."), 1.0),
    (("tick.miss_ticks", "Ticks of a miss", "How long any other request takes."), 1.0),
    (("routing.routers", "Routers", "Routers that share the traffic; each counts only what it sent itself."), 1.0),
    (
        (
            "routing.scrape_s",
            "Scrape period",
            "Time between two readings of engine metrics. 0 is an oracle: they are read at every decision, which nothing real does; take what comes out for a bound.",
        ),
        0.05,
    ),
    (("routing.event_delay_s", "Event delay", "Age of KV events when they reach the routers."), 0.005),
    (("routing.event_loss", "Event loss", "Share of KV events that never reach the routers."), 0.01),
    (("events.join", "Replicas that join", "How many are added on the way, with empty caches; 0 for none."), 1.0),
    (("events.join_at_s", "They join at", "When the new replicas are created."), 1.0),
    (("events.warm_up_s", "Warm-up", "How long a new replica needs until it can serve."), 0.5),
    (
        (
            "events.leave",
            "Replicas that leave",
            "How many finish what they have and go, their caches with them; 0 for none.",
        ),
        1.0,
    ),
    (("events.leave_at_s", "They leave at", "When those replicas stop taking requests."), 1.0),
    (("events.slow", "Slow replicas", "How many replicas are slower than the rest; 0 for none."), 1.0),
    (("events.slow_factor", "How slow", "How many times as long their steps take."), 0.1),
    (("events.restart_at_s", "Routers restart at", "When the routers lose what they remember, if they restart."), 1.0),
    (
        ("slo.ttft_s", "TTFT limit", "A request is good if its first token comes within this time, and its ITL holds."),
        0.05,
    ),
    (
        (
            "slo.itl_s",
            "ITL limit",
            "A request is good if the mean gap between its tokens is at most this, and its TTFT holds.",
        ),
        0.005,
    ),
    (("execution.coefficients.step_us", "Cost of a step", "a: charged for every step."), 1.0),
    (
        (
            "execution.coefficients.prefill_token_us",
            "Cost of a prefill token",
            "b: charged for each prompt token computed.",
        ),
        1.0,
    ),
    (
        (
            "execution.coefficients.prefill_context_us",
            "Cost of prefill context",
            "c: charged for each prompt token computed and each token it attends to.",
        ),
        0.001,
    ),
    (
        (
            "execution.coefficients.decode_sequence_us",
            "Cost of a decoding sequence",
            "d: charged for each sequence that decodes a token.",
        ),
        1.0,
    ),
    (
        (
            "execution.coefficients.decode_context_us",
            "Cost of decode context",
            "e: charged for each token of context that a decoding sequence reads.",
        ),
        0.001,
    ),
];

const SWITCHES: &[Words] = &[
    (
        "engine.chunked_prefill",
        "Chunked prefill",
        "Split a long prefill over steps, so that running sequences go on meanwhile.",
    ),
    ("engine.one_prefill", "One prefill a step", "Admit at most one new sequence a step."),
    (
        "events.honest_readiness",
        "Honest readiness",
        "A new replica says that it is ready only once it can serve. Off: it is sent requests while it still warms up.",
    ),
    ("events.restart", "Routers restart", "The routers start afresh on the way: counts and indexes are gone."),
    ("engine.prefix_cache", "Prefix cache", "Keep full blocks and share them between requests that begin alike."),
];

const CHOICES: &[(Words, &[&str])] = &[
    (("workload.kind", "Workload", "Where requests come from."), &WorkloadSpec::KINDS),
    (
        (
            "workload.rate_unit",
            "Rate counts",
            "Requests per second, or multiples of what the fleet serves when nothing is reused.",
        ),
        &["per_second", "of_capacity"],
    ),
    (
        (
            "execution.mode",
            "Steps",
            "Priced by a cost model, computed by the real model, or no steps: ticks and a memory of a few prefixes, or servers with drawn times.",
        ),
        &["priced", "tinygpt", "tick", "server"],
    ),
    (("execution.cost", "Cost model", "What steps of a priced run cost."), &[]),
    (("execution.model", "Model", "Which TinyGPT computes a live run."), &["reference", "small", "trained"]),
    (("execution.device", "Device", "Where a live run computes."), &["auto", "cpu", "webgpu"]),
    (
        (
            "execution.charge",
            "Charge",
            "Charge steps by the cost model fitted to this device, or by the time each took. Both are measured anew in every run, so a live run's times differ from run to run.",
        ),
        &["fitted", "measured"],
    ),
];
