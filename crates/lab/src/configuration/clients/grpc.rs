//! A service config: `retryPolicy` or `hedgingPolicy` of all methods, and `retryThrottling`.

use super::{AN_HOUR, Export, duration};
use serde_json::{Map, Value, json};
use servelab_engine::Nanos;
use servelab_fleet::clients::{Budget, ClientPolicy, Growth, Jitter, Obey};

/// More are taken for so many (A6).
const MOST: u32 = 5;

pub(super) fn service_config(policy: &ClientPolicy) -> Export {
    let mut export = Export::new("gRPC", "grpc-service-config.json", "//");
    let mut method = Map::from_iter([("name".to_owned(), json!([{}]))]);
    if let Some(deadline) = policy.deadline {
        method.insert("timeout".into(), duration(deadline).into());
    }
    if policy.timeout.is_some() {
        export.lacks("No time-out for one attempt: `timeout` is that of the whole call.");
    }
    let attempts = |export: &mut Export, wanted: u32| {
        if wanted > MOST {
            export.lacks(format!("gRPC makes at most {MOST} attempts, not {wanted}."));
        }
        wanted.min(MOST)
    };
    match policy.hedge {
        Some(hedge) if policy.attempts == 1 => {
            let hedging = json!({
                "maxAttempts": attempts(&mut export, hedge.most.saturating_add(1)),
                "hedgingDelay": duration(hedge.after),
                "nonFatalStatusCodes": codes(policy),
            });
            method.insert("hedgingPolicy".into(), hedging);
        }
        _ if policy.attempts > 1 => {
            if policy.hedge.is_some() {
                export.lacks("A method has a retry policy or a hedging policy, not both: hedging is left out.");
            }
            let most = attempts(&mut export, policy.attempts);
            let retry = retry_policy(policy, most, &mut export);
            method.insert("retryPolicy".into(), retry);
        }
        _ => {}
    }
    let mut config = Map::from_iter([("methodConfig".to_owned(), json!([method]))]);
    match policy.budget {
        Budget::Unlimited => {}
        Budget::Throttle { max, ratio } => {
            config.insert("retryThrottling".into(), json!({"maxTokens": max, "tokenRatio": ratio}));
        }
        _ => export.lacks("Of retry budgets gRPC has a throttle that failures empty and successes fill."),
    }
    export.lacks_what_none_has(policy, &["deadline", "budget", "hedge"]);
    export.body = serde_json::to_string_pretty(&Value::Object(config)).unwrap_or_default() + "\n";
    export.body.insert_str(0, "// JSON has no comments: leave these lines out.\n");
    export
}

fn retry_policy(policy: &ClientPolicy, most: u32, export: &mut Export) -> Value {
    let backoff = &policy.backoff;
    // gRPC wants a wait above nothing.
    let least = Nanos(1_000_000);
    let (base, factor) = match backoff.growth {
        Growth::None => (Nanos::ZERO, 1.0),
        Growth::Fixed => (backoff.base, 1.0),
        Growth::Exponential => (backoff.base, backoff.factor),
    };
    if base < least {
        export.lacks("A wait must be above nothing: a millisecond stands here.");
    }
    if backoff.jitter != Jitter::Around(0.2) {
        export.lacks("gRPC spreads waits by a fifth to either side, and by nothing else.");
    }
    if policy.retry_after.obey != Obey::Exactly {
        export.lacks("A server's pushback is always obeyed to the letter.");
    }
    let (base, cap) = (base.max(least), backoff.cap.min(AN_HOUR));
    if backoff.cap > AN_HOUR && backoff.growth == Growth::Exponential {
        export.lacks("A longest wait must be told: an hour stands here.");
    }
    let cap = if backoff.growth == Growth::Exponential { cap.max(base) } else { base };
    json!({
        "maxAttempts": most,
        "initialBackoff": duration(base),
        "maxBackoff": duration(cap),
        "backoffMultiplier": factor,
        "retryableStatusCodes": codes(policy),
    })
}

/// 5xx and lost connections are UNAVAILABLE, a full quota is RESOURCE_EXHAUSTED.
fn codes(policy: &ClientPolicy) -> Vec<&'static str> {
    let of = [
        (policy.retry_on.server_errors, "UNAVAILABLE"),
        (policy.retry_on.too_many, "RESOURCE_EXHAUSTED"),
        (policy.retry_on.timeouts, "DEADLINE_EXCEEDED"),
    ];
    of.into_iter().filter_map(|(there, code)| there.then_some(code)).collect()
}
