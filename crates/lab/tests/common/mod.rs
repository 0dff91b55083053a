//! What several tests of whole runs start from.

/// Settings that make the presets of autoscalers affordable: four times as slow under a quarter of the load, so the same queues from a quarter of the requests.
pub const SLOWER: [(&str, &str); 7] = [
    ("workload.rate", "5"),
    ("slo.ttft_s", "8"),
    ("slo.itl_s", "0.4"),
    ("execution.coefficients.step_us", "80000"),
    ("execution.coefficients.prefill_token_us", "240"),
    ("execution.coefficients.decode_sequence_us", "2400"),
    ("execution.coefficients.decode_context_us", "1.2"),
];
