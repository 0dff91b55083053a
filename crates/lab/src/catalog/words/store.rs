//! Words of the store behind the replicas.

use super::Words;

pub(super) const NUMBERS: &[(Words, f64)] = &[
    (
        (
            "store.blocks",
            "Shared store",
            "KV blocks held behind the replicas for all of them: a prompt that one computed, another can fetch; 0 for no store.",
        ),
        1000.0,
    ),
    (("store.latency_s", "Store latency", "Delay of every fetch from the store."), 0.001),
    (("store.link_gb_per_s", "Link to the store", "Bandwidth of each replica's link; 1.25 is 10 Gbit/s."), 0.25),
    (
        (
            "store.total_gb_per_s",
            "Store bandwidth",
            "What the store sends to all replicas together; 0 if only their links limit it.",
        ),
        0.25,
    ),
    (
        (
            "store.token_bytes",
            "KV of a token",
            "KV bytes that a fetched token moves; 0 for those of the cost model's model.",
        ),
        1.0,
    ),
];

pub(super) const CHOICES: &[(Words, &[&str])] = &[(
    (
        "store.fetch",
        "Fetch",
        "What the store holds and a replica does not is fetched when that is sooner than computing it, always, or never.",
    ),
    &["cheaper", "always", "never"],
)];
