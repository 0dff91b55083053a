//! Words of the gateway and of the engine's bounded queue.

use super::Words;

pub(super) const NUMBERS: &[(Words, f64)] = &[
    (
        (
            "engine.max_queued",
            "Queue, requests",
            "Most requests that wait at a replica; more get 503; 0 takes everybody.",
        ),
        1.0,
    ),
    (
        (
            "engine.max_queued_tokens",
            "Queue, tokens",
            "Most prompt tokens of a replica's requests without a first token: about the TTFT you want times the prefill rate; 0 for any.",
        ),
        64.0,
    ),
    (
        (
            "engine.queue_ttl_s",
            "Queue, time to live",
            "Who waits longer at a replica is dropped with 503; 0 for never.",
        ),
        0.5,
    ),
    (
        (
            "engine.max_wait_s",
            "Queue, predicted wait",
            "Who would wait longer, as the queue has moved lately, is refused at once; 0 for nobody.",
        ),
        0.5,
    ),
    (("gateway.max_prompt", "Longest prompt", "Longer prompts get 400; 0 for any."), 64.0),
    (("gateway.max_output", "Largest output budget", "Larger budgets get 400; 0 for any."), 64.0),
    (
        (
            "gateway.max_attempt",
            "Highest attempt",
            "An attempt of a higher number gets 429: 1 lets no retry through; 0 for any.",
        ),
        1.0,
    ),
    (
        (
            "gateway.retry_ratio",
            "Retries per request",
            "Retries let through for each first try, over all clients; more get 429; 0 for any.",
        ),
        0.05,
    ),
    (
        (
            "gateway.success_threshold",
            "Success wanted",
            "Admission control turns away only while fewer attempts than this share end well.",
        ),
        0.01,
    ),
    (("gateway.success_window_s", "Success over", "How far admission control looks back."), 1.0),
    (("gateway.rate_per_s", "Requests per tenant", "Each tenant's requests per second; more get 429; 0 for any."), 0.1),
    (("gateway.rate_burst", "Requests at once", "How many of its requests a tenant may save up."), 1.0),
    (
        (
            "gateway.tokens_per_s",
            "Tokens per tenant",
            "Each tenant's tokens per second, prompts and output budgets together; what is not used comes back; 0 for any.",
        ),
        100.0,
    ),
    (("gateway.tokens_burst", "Tokens at once", "How many tokens a tenant may save up."), 100.0),
    (
        (
            "gateway.in_flight",
            "In flight per replica",
            "A replica with so many attempts gets no more; who finds none waits or is turned away; 0 for any.",
        ),
        1.0,
    ),
    (
        (
            "gateway.concurrency",
            "In flight in all",
            "Attempts in flight over the whole fleet; more wait or are turned away; 0 for any.",
        ),
        1.0,
    ),
    (
        (
            "gateway.hold_back_share",
            "Hold back by",
            "How much sooner the last class is held than the first: 0.2 holds it from saturation 0.8 on.",
        ),
        0.05,
    ),
    (("gateway.full_queue", "Full: waiting", "Requests that wait at a full replica."), 0.5),
    (("gateway.full_kv", "Full: KV usage", "KV usage of a full replica."), 0.05),
    (("gateway.full_in_flight", "Full: in flight", "Attempts in flight on a full replica."), 1.0),
    (("gateway.stale_s", "Stale after", "A replica whose metrics are older counts as full."), 0.05),
    (
        (
            "gateway.ramp_s",
            "Ramp after recovery",
            "When replicas come back after there was none, what is let through grows over this time; 0 for at once.",
        ),
        1.0,
    ),
    (("gateway.ramp_least", "Ramp from", "Share let through when the ramp begins."), 0.05),
    (("gateway.ramp_full", "Ramp to", "Attempts in flight on each replica when the ramp ends."), 1.0),
    (("gateway.queue", "Gateway queue", "Attempts of each class that may wait at the gateway; 0 for none."), 1.0),
    (("gateway.queue_tokens", "Gateway queue, tokens", "Tokens of each class that may wait there; 0 for any."), 100.0),
    (("gateway.ttl_s", "Time to live", "Who waits longer at the gateway gets 429; 0 for never."), 1.0),
    (
        (
            "gateway.empty_ttl_s",
            "Time to live without replicas",
            "Who waits longer for a ready replica gets 503; 0 for never.",
        ),
        1.0,
    ),
    (
        (
            "gateway.codel_target_s",
            "CoDel target",
            "If nobody waited less than this in an interval the queue is standing, and who waited twice as long is dropped; 0 for nobody.",
        ),
        0.1,
    ),
    (("gateway.codel_interval_s", "CoDel interval", "Over which the least wait is taken."), 0.5),
    (("gateway.retry_after_s", "Come back after", "The fixed time that clients are told."), 0.5),
    (
        (
            "gateway.retry_spread_s",
            "Come back, spread",
            "Up to so much more, drawn for each client, so that they do not come back together.",
        ),
        0.5,
    ),
];

pub(super) const SWITCHES: &[Words] = &[
    ("engine.queued_count_running", "Count running requests", "Running requests count as queued, as vLLM does it."),
    ("gateway.on", "Gateway", "Something stands in front of the routers that may hold requests or turn them away."),
    (
        "gateway.success_rate",
        "Admission control",
        "Envoy's: the more of the latest attempts failed, the more new ones are turned away with 503, at random.",
    ),
    (
        "gateway.hold_back",
        "Hold back",
        "llm-d's flow control: attempts wait while the fleet is saturated, those of lower classes sooner.",
    ),
    ("gateway.turns", "Tenants in turn", "Of a class, tenants take turns. Off: who came first."),
    (
        "gateway.hold_empty",
        "Wait for a replica",
        "Attempts wait while no replica is ready. Off: they are turned away with 503.",
    ),
    ("gateway.lifo", "Newest first", "In a standing queue the newest goes first: its client is still there."),
    ("gateway.retry_whole", "Whole seconds", "Retry-After is rounded up to whole seconds, as the header has them."),
];

pub(super) const CHOICES: &[(Words, &[&str])] = &[
    (
        ("gateway.shed", "Shed", "Work of negative priority is turned away with 429 as the fleet fills up."),
        &["off", "when_full", "gradually"],
    ),
    (
        (
            "gateway.gradient",
            "Gradient limit",
            "A limit on attempts in flight that finds itself by latency: Envoy's adaptive concurrency.",
        ),
        &["off", "first_token", "answer"],
    ),
    (
        (
            "gateway.detector",
            "Saturation by",
            "Engine metrics as of the latest scrape, or what was sent and has not ended.",
        ),
        &["metrics", "in_flight"],
    ),
    (("gateway.order", "Order of classes", "By priority, or turns in proportion to weights."), &["strict", "weighted"]),
    (("gateway.refuse_with", "Full means", "What a full queue, a closed gate and a drop answer."), &["429", "503"]),
    (
        ("gateway.retry_after", "Retry-After", "What clients that are turned away are told of when to come back."),
        &["nothing", "fixed", "computed"],
    ),
];
