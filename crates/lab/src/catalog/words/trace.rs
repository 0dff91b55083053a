//! Settings of a replayed trace.

use super::Words;

pub(super) const NUMBERS: &[(Words, f64)] = &[
    (("workload.from_s", "From", "Leave out what was recorded earlier, counted from the first request."), 1.0),
    (("workload.until_s", "Until", "Leave out what was recorded later; 0 for nothing."), 1.0),
    (("workload.share", "Share kept", "Keep so much of the traffic at random, conversations whole."), 0.05),
    (("workload.repeat", "Times played", "Play the trace several times, one after the other."), 1.0),
    (
        (
            "workload.speed",
            "Speed",
            "Play it so many times as fast as it was recorded: the rate is scaled, lengths are not.",
        ),
        0.1,
    ),
    (
        (
            "workload.trace_block",
            "Tokens of a trace's block",
            "Count every recorded block as so many tokens, and prompts in proportion: sharing stays, lengths shrink; 0 as recorded.",
        ),
        16.0,
    ),
    (("workload.prompt_scale", "Prompt factor", "Prompts, and their blocks, so many times as long as recorded."), 0.1),
    (("workload.prompt_cap", "Prompt, longest", "The end of a longer prompt is cut off."), 256.0),
    (("workload.output_scale", "Output factor", "Answers so many times as long as recorded."), 0.1),
    (
        (
            "workload.output_cap",
            "Output, longest",
            "Longer answers end here; it is also the budget that clients state.",
        ),
        64.0,
    ),
    (("workload.spike_at_s", "Spike at", "When a spike begins."), 1.0),
    (
        (
            "workload.spike_for_s",
            "Spike lasts",
            "How long requests are added, copies of others with ends of their own; 0 for no spike.",
        ),
        1.0,
    ),
    (("workload.spike_factor", "Spike", "Arrival rate while the spike lasts, in means of the trace."), 0.5),
];

pub(super) const SWITCHES: &[Words] = &[
    (
        "workload.repeat_fresh",
        "Fresh repetitions",
        "Repetitions share no block with each other. Off: the second time, caches have seen it all.",
    ),
    (
        "workload.spread",
        "Spread arrivals",
        "Arrivals recorded on a coarse grid are spread over its step at random. Off: they come in heaps, as recorded.",
    ),
];

/// Of generated traffic.
pub(super) const FIGURES: &[(Words, f64)] = &[
    (
        (
            "workload.cv",
            "Burstiness",
            "Standard deviation of gaps in means, with Gamma arrivals: 1 is chance, above come bursts, below an even flow.",
        ),
        0.1,
    ),
    (("workload.on_s", "Burst lasts", "Mean length of a burst, with bursts and quiet in turn."), 1.0),
    (("workload.off_s", "Quiet lasts", "Mean length of the quiet between bursts."), 1.0),
    (("workload.off_level", "Rate in the quiet", "Share of a burst's rate that goes on between bursts."), 0.05),
    (("workload.user_mean", "User part, mean", "Mean part of a prompt that is its own."), 10.0),
    (("workload.user_cv", "User part, spread", "Standard deviation of user parts in means, lognormal."), 0.1),
    (("workload.output_mean", "Output, mean", "Mean answer."), 10.0),
    (("workload.output_cv", "Output, spread", "Standard deviation of answers in means, lognormal."), 0.1),
];

pub(super) const CHOICES: &[(Words, &[&str])] = &[
    (
        ("workload.arrivals", "Arrivals", "By chance, with gaps of a Gamma law, or in bursts with quiet between them."),
        &["poisson", "gamma", "on_off"],
    ),
    (
        ("workload.lengths", "Lengths", "Lognormal by mean and spread, or drawn from the requests of a trace."),
        &["lognormal", "empirical"],
    ),
];
