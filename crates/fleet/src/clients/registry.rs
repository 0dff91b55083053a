//! Client policies by name and parameters: what a spec, an address and a form say. Every preset takes the same parameters; what it is lies in
//! its defaults.

use super::backoff::{Backoff, Growth, Jitter};
use super::breaker::Breaker;
use super::budget::Budget;
use super::layers::Layer;
use super::policy::{ClientPolicy, Hedge, RetryOn};
use super::presets::{PRESETS, Preset};
use super::retry_after::{Obey, RetryAfter};
use super::throttle::Throttle;
use crate::routing::params::{Params, choice, integer, number, switch};
use servelab_engine::Nanos;
use servelab_spec::catalog::{ClientInfo, ParamInfo};
use servelab_spec::validate::SpecError;
use std::collections::BTreeMap;

const GROWTHS: [&str; 3] = ["none", "fixed", "exponential"];
const JITTERS: [&str; 7] = ["none", "full", "equal", "decorrelated", "around", "below", "above"];
const OBEYS: [&str; 3] = ["ignored", "to the letter", "jittered"];
const BUDGETS: [&str; 6] = [
    "unlimited",
    "deposits (tower, Finagle)",
    "concurrent (Envoy)",
    "throttle (gRPC)",
    "bucket, filled by successes",
    "bucket, filled by requests",
];
/// Layers behind the client that may try again as well.
const LAYERS: usize = 4;

/// Longest time that means something: beyond it, what was said is as good as never.
const LONGEST_S: f64 = 86_400.0;

fn seconds(time: Option<Nanos>) -> f64 {
    time.map_or(0.0, Nanos::as_secs).min(LONGEST_S)
}

fn growth(growth: Growth) -> u32 {
    match growth {
        Growth::None => 0,
        Growth::Fixed => 1,
        Growth::Exponential => 2,
    }
}

fn jitter(jitter: Jitter) -> (u32, f64) {
    match jitter {
        Jitter::None => (0, 0.25),
        Jitter::Full => (1, 0.25),
        Jitter::Equal => (2, 0.25),
        Jitter::Decorrelated => (3, 0.25),
        Jitter::Around(share) => (4, share),
        Jitter::Below(share) => (5, share),
        Jitter::Above(share) => (6, share),
    }
}

/// A budget's kind and its numbers: size, ratio, time to live and least.
fn budget(budget: Budget) -> (u32, [f64; 4]) {
    match budget {
        Budget::Unlimited => (0, [5.0, 0.1, 10.0, 3.0]),
        Budget::Deposits { ttl, min_per_s, ratio } => (1, [5.0, ratio, ttl.as_secs(), min_per_s]),
        Budget::Concurrent { min, share } => (2, [5.0, share, 10.0, f64::from(min)]),
        Budget::Throttle { max, ratio } => (3, [max, ratio, 10.0, 3.0]),
        Budget::Bucket { size, deposit, on_request } => (4 + u32::from(on_request), [size, deposit, 10.0, 3.0]),
    }
}

/// The parameters of a preset, its own numbers as their defaults.
pub fn params(preset: &Preset) -> Vec<ParamInfo> {
    let policy = (preset.policy)();
    let (jitter, jitter_share) = jitter(policy.backoff.jitter);
    let (kind, [size, ratio, ttl, least]) = budget(policy.budget);
    let breaker = policy.breaker.unwrap_or_default();
    let throttle = policy.throttle.unwrap_or_default();
    let hedge = policy.hedge.unwrap_or(Hedge { after: Nanos::ZERO, most: 1 });
    let time = (0.0, LONGEST_S, 0.1);
    let longest = Some(policy.retry_after.longest);
    let mut params = vec![
        integer(
            "attempts",
            "Attempts",
            "",
            policy.attempts,
            (1, 1000),
            "Most attempts of a request, the first included: one more than its retries.",
        ),
        number(
            "timeout_s",
            "Time-out",
            "s",
            seconds(policy.timeout),
            time,
            "How long it waits for an attempt; 0: for ever.",
        ),
        switch(
            "until_first_token",
            "Until the first token",
            policy.until_first_token,
            "The time-out ends with the first token instead of the last.",
        ),
        number(
            "deadline_s",
            "Deadline",
            "s",
            seconds(policy.deadline),
            time,
            "How long it waits for a request, all its attempts together; 0: for ever.",
        ),
        choice("backoff", "Backoff", growth(policy.backoff.growth), &GROWTHS, "How waits between attempts grow."),
        number(
            "base_s",
            "First wait",
            "s",
            policy.backoff.base.as_secs(),
            (0.0, 600.0, 0.01),
            "The wait after the first failure.",
        ),
        number(
            "factor",
            "Factor",
            "",
            policy.backoff.factor,
            (1.0, 100.0, 0.1),
            "What each wait is of the one before, in exponential backoff.",
        ),
        number("cap_s", "Longest wait", "s", seconds(Some(policy.backoff.cap)), time, "No wait is longer."),
        choice("jitter", "Jitter", jitter, &JITTERS, "How chance spreads waits."),
        number(
            "jitter_share",
            "Share of jitter",
            "",
            jitter_share,
            (0.0, 1.0, 0.05),
            "Share of the wait within which the jitters around, below and above spread it.",
        ),
        switch("retry_timeouts", "Retry time-outs", policy.retry_on.timeouts, "A time-out is worth another attempt."),
        switch("retry_429", "Retry 429", policy.retry_on.too_many, "A full queue or quota is worth another attempt."),
        switch(
            "retry_5xx",
            "Retry 5xx",
            policy.retry_on.server_errors,
            "An error of the server, or losing it, is worth another attempt.",
        ),
        choice(
            "retry_after",
            "Retry-After",
            obey(policy.retry_after.obey),
            &OBEYS,
            "What it makes of the server's word on when to come back.",
        ),
        number(
            "retry_after_spread",
            "Spread of Retry-After",
            "",
            policy.retry_after.spread,
            (0.0, 100.0, 0.1),
            "Largest share of the time named that jitter adds to it.",
        ),
        number(
            "retry_after_longest_s",
            "Longest Retry-After",
            "s",
            seconds(longest),
            time,
            "A longer one is not waited for.",
        ),
        choice("budget", "Budget", kind, &BUDGETS, "How many retries a process may send in all."),
        number(
            "budget_size",
            "Size of the budget",
            "retries",
            size,
            (1.0, 1e6, 1.0),
            "Most tokens of a bucket or throttle, held at the start.",
        ),
        number(
            "budget_ratio",
            "Deposit",
            "retries",
            ratio,
            (0.0, 1.0, 0.01),
            "What a success or a request adds; in a concurrent budget the share of retries.",
        ),
        number("budget_ttl_s", "Life of a deposit", "s", ttl, (0.1, 3600.0, 1.0), "How long a deposit can be spent."),
        number(
            "budget_min",
            "Least",
            "",
            least,
            (0.0, 1e6, 1.0),
            "Retries that are always allowed: a second (deposits) or at once (concurrent).",
        ),
        switch("breaker", "Circuit breaker", policy.breaker.is_some(), "A process stops calling what keeps failing."),
        number(
            "breaker_window_s",
            "Window of the breaker",
            "s",
            breaker.window.as_secs(),
            (0.1, 3600.0, 1.0),
            "What counts as lately.",
        ),
        integer(
            "breaker_min",
            "Least answers",
            "",
            breaker.min_requests,
            (1, 1_000_000),
            "Fewer answers than this say nothing.",
        ),
        number(
            "breaker_failures",
            "Failures",
            "",
            breaker.failures,
            (0.0, 1.0, 0.05),
            "Share of failures above which it opens.",
        ),
        number(
            "breaker_open_s",
            "Open for",
            "s",
            breaker.open_for.as_secs(),
            (0.0, 3600.0, 1.0),
            "How long it stays open.",
        ),
        switch(
            "breaker_retries_only",
            "Only retries",
            breaker.retries_only,
            "It holds back retries, never first attempts.",
        ),
        switch(
            "throttle",
            "Adaptive throttling",
            policy.throttle.is_some(),
            "A process drops what the backend would refuse.",
        ),
        number(
            "throttle_k",
            "K",
            "",
            throttle.k,
            (1.0, 100.0, 0.1),
            "Attempts that may be sent for each that is accepted.",
        ),
        number(
            "throttle_window_s",
            "Window of the throttle",
            "s",
            throttle.window.as_secs(),
            (0.1, 3600.0, 1.0),
            "What counts as lately.",
        ),
        number(
            "hedge_after_s",
            "Hedge after",
            "s",
            hedge.after.as_secs(),
            time,
            "A second attempt is sent when the first has not been answered for so long; 0: never.",
        ),
        integer("hedges", "Hedges", "", hedge.most, (1, 100), "Most of a request."),
    ];
    for layer in 0..LAYERS {
        let attempts = policy.layers.get(layer).map_or(1, |layer| if layer.on { layer.attempts } else { 1 });
        let (name, label) = (format!("layer_{}_attempts", layer + 2), format!("Attempts of layer {}", layer + 2));
        params.push(integer(&name, &label, "", attempts, (1, 100), "Attempts that this layer between client and server makes for each that it is asked for; 1: it passes failures on."));
    }
    let pause = policy.layers.first().map_or(Nanos::ZERO, |layer| layer.backoff.base);
    params.push(number(
        "layer_pause_s",
        "Pause of the layers",
        "s",
        pause.as_secs(),
        (0.0, 600.0, 0.01),
        "How long each of them waits between its attempts.",
    ));
    params
}

fn obey(obey: Obey) -> u32 {
    match obey {
        Obey::Ignored => 0,
        Obey::Exactly => 1,
        Obey::Jittered => 2,
    }
}

/// Descriptions of all client policies, for the catalog.
pub fn catalog() -> Vec<ClientInfo> {
    let info = |preset: &Preset| ClientInfo {
        name: preset.name.into(),
        label: preset.label.into(),
        summary: preset.description.into(),
        source: preset.source.into(),
        params: params(preset),
    };
    PRESETS.iter().map(info).collect()
}

/// The policy of that name with some parameters set.
///
/// # Errors
/// [`SpecError`] naming the field: an unknown policy (`clients.policies`), an unknown parameter or one out of range
/// (`clients.policies.<policy>.<parameter>`).
pub fn build(name: &str, given: &BTreeMap<String, f64>) -> Result<ClientPolicy, SpecError> {
    let Some(preset) = super::presets::find(name) else {
        let known: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        return Err(SpecError::new("clients.policies", name, format!("accepted are {}", known.join(", "))));
    };
    let field = format!("clients.policies.{name}");
    let params = Params::read(&field, &params(preset), given)?;
    if params.number("cap_s") < params.number("base_s") {
        let accepted = format!("use at least the first wait, {} s", params.number("base_s"));
        return Err(SpecError::new(format!("{field}.cap_s"), params.number("cap_s"), accepted));
    }
    let policy = policy(&params, (preset.policy)());
    policy.validate(&field)?;
    Ok(policy)
}

/// What the parameters say; `base` has what they can not.
fn policy(params: &Params, base: ClientPolicy) -> ClientPolicy {
    let time = |name: &str| Nanos::from_secs(params.number(name));
    let unless_zero = |name: &str| Some(time(name)).filter(|&time| time > Nanos::ZERO);
    // What is beyond the largest number stays what it was.
    let bounded = |name: &str, was: Nanos| match params.number(name) {
        seconds if seconds >= LONGEST_S && was >= Nanos::from_secs(LONGEST_S) => was,
        seconds => Nanos::from_secs(seconds),
    };
    let share = params.number("jitter_share");
    let jitter = match params.integer("jitter") {
        0 => Jitter::None,
        1 => Jitter::Full,
        2 => Jitter::Equal,
        3 => Jitter::Decorrelated,
        4 => Jitter::Around(share),
        5 => Jitter::Below(share),
        _ => Jitter::Above(share),
    };
    let growth = match params.integer("backoff") {
        0 => Growth::None,
        1 => Growth::Fixed,
        _ => Growth::Exponential,
    };
    let (size, ratio, least) =
        (params.number("budget_size"), params.number("budget_ratio"), params.number("budget_min"));
    let budget = match params.integer("budget") {
        0 => Budget::Unlimited,
        1 => Budget::Deposits { ttl: time("budget_ttl_s"), min_per_s: least, ratio },
        2 => Budget::Concurrent { min: least as u32, share: ratio },
        3 => Budget::Throttle { max: size, ratio },
        kind => Budget::Bucket { size, deposit: ratio, on_request: kind == 5 },
    };
    let pause = Backoff::fixed(time("layer_pause_s"));
    let layers = (0..LAYERS).map(|layer| params.integer(&format!("layer_{}_attempts", layer + 2)));
    ClientPolicy {
        attempts: params.integer("attempts"),
        backoff: Backoff {
            growth,
            base: time("base_s"),
            factor: params.number("factor"),
            cap: bounded("cap_s", base.backoff.cap),
            jitter,
        },
        retry_on: RetryOn {
            timeouts: params.switch("retry_timeouts"),
            too_many: params.switch("retry_429"),
            server_errors: params.switch("retry_5xx"),
        },
        retry_after: RetryAfter {
            obey: match params.integer("retry_after") {
                0 => Obey::Ignored,
                1 => Obey::Exactly,
                _ => Obey::Jittered,
            },
            spread: params.number("retry_after_spread"),
            longest: bounded("retry_after_longest_s", base.retry_after.longest),
            restarts_backoff: base.retry_after.restarts_backoff,
        },
        timeout: unless_zero("timeout_s"),
        until_first_token: params.switch("until_first_token"),
        deadline: unless_zero("deadline_s"),
        layers: layers
            .filter(|&attempts| attempts > 1)
            .map(|attempts| Layer { on: true, attempts, backoff: pause })
            .collect(),
        budget,
        breaker: params.switch("breaker").then(|| Breaker {
            window: time("breaker_window_s"),
            min_requests: params.integer("breaker_min"),
            failures: params.number("breaker_failures"),
            open_for: time("breaker_open_s"),
            retries_only: params.switch("breaker_retries_only"),
        }),
        throttle: params
            .switch("throttle")
            .then(|| Throttle { k: params.number("throttle_k"), window: time("throttle_window_s") }),
        hedge: unless_zero("hedge_after_s").map(|after| Hedge { after, most: params.integer("hedges") }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Through its parameters and back, a preset stays what it is.
    #[test]
    fn defaults_of_parameters_are_the_presets_own() {
        for preset in PRESETS {
            assert_eq!(build(preset.name, &BTreeMap::new()).unwrap(), (preset.policy)(), "{}", preset.name);
        }
    }

    #[test]
    fn parameters_change_what_they_name_and_nonsense_is_refused_there() {
        let with = |pairs: &[(&str, f64)]| {
            build("openai_sdk", &pairs.iter().map(|&(name, value)| (name.to_owned(), value)).collect())
        };
        let changed = with(&[
            ("attempts", 5.0),
            ("jitter", 1.0),
            ("budget", 2.0),
            ("hedge_after_s", 2.0),
            ("layer_3_attempts", 4.0),
        ])
        .unwrap();
        assert_eq!((changed.attempts, changed.backoff.jitter, changed.most_attempts()), (5, Jitter::Full, 20));
        assert_eq!(changed.budget, Budget::Concurrent { min: 3, share: 0.1 });
        assert_eq!(changed.hedge, Some(Hedge { after: Nanos::from_secs(2.0), most: 1 }));
        for (param, value) in [
            ("attempts", 0.0),
            ("attempts", 2.5),
            ("jitter", 7.0),
            ("cap_s", 0.1),
            ("retries", 1.0),
            ("throttle_k", 0.5),
        ] {
            let field = with(&[(param, value)]).unwrap_err().field;
            assert_eq!(field, format!("clients.policies.openai_sdk.{param}"));
        }
        let unknown = build("nobody", &BTreeMap::new()).unwrap_err();
        assert!(unknown.field == "clients.policies" && unknown.accepted.contains("openai_sdk, anthropic_sdk"));
        let layers = with(&[("attempts", 1000.0), ("layer_2_attempts", 11.0)]).unwrap_err();
        assert_eq!(layers.field, "clients.policies.openai_sdk.attempts");
    }
}
