//! A route's `retry_policy` and the cluster's `retry_budget`.

use super::{Export, duration};
use servelab_engine::Nanos;
use servelab_fleet::clients::{Budget, ClientPolicy, Growth, Jitter, Obey, RetryOn};

pub(super) fn retry_policy(policy: &ClientPolicy) -> Export {
    let mut export = Export::new("Envoy", "envoy-retries.yaml", "#");
    let RetryOn { timeouts, too_many, server_errors } = policy.retry_on;
    let retries = policy.attempts > 1 && (server_errors || too_many || timeouts);
    // An attempt's time-out is a 504 of Envoy's own, which counts as 5xx; one that ends the request is the route's.
    let per_try = policy.timeout.filter(|_| retries && timeouts);
    let whole = match (policy.deadline, policy.timeout.filter(|_| per_try.is_none())) {
        (Some(deadline), Some(timeout)) => Some(deadline.min(timeout)),
        (deadline, timeout) => deadline.or(timeout),
    };
    if whole.is_some() && policy.timeout.is_some() && per_try.is_none() && policy.attempts > 1 {
        export.lacks("A time-out that is not worth another attempt: the route's, over all attempts, stands here.");
    }
    let mut body = format!(
        "route_config:\n  virtual_hosts:\n  - name: replicas\n    domains: [\"*\"]\n    routes:\n    - match: {{prefix: /}}\n      route:\n        cluster: replicas\n        timeout: {}\n",
        whole.map_or("0s".into(), duration)
    );
    if retries {
        body += &route(policy, per_try, &mut export);
    }
    body += "clusters:\n- name: replicas\n  circuit_breakers:\n    thresholds:\n";
    match policy.budget {
        Budget::Concurrent { min, share } => {
            body += &format!(
                "    - retry_budget:\n        budget_percent:\n          value: {}\n        min_retry_concurrency: {min}\n",
                percent(share)
            );
        }
        budget => {
            if budget != Budget::Unlimited {
                export.lacks("Of retry budgets Envoy has a share of what is under way (retry_budget).");
            }
            body += "    # Without it Envoy lets three retries be under way.\n    - max_retries: 4294967295\n";
        }
    }
    if policy.breaker.is_some() {
        export.lacks("A breaker of the client's: Envoy ejects hosts instead (outlier_detection).");
    }
    if policy.throttle.is_some() {
        export.lacks("Adaptive throttling: the filter admission_control is near to it.");
    }
    if policy.hedge.is_some() {
        export.lacks("Hedging after a time of its own: Envoy hedges on per_try_timeout (hedge_policy).");
    }
    export.lacks_what_none_has(policy, &["deadline", "budget", "breaker", "throttle", "hedge"]);
    export.body = body;
    export
}

fn route(policy: &ClientPolicy, per_try: Option<Nanos>, export: &mut Export) -> String {
    let RetryOn { timeouts, too_many, server_errors } = policy.retry_on;
    let conditions = match (server_errors || timeouts, too_many) {
        (true, true) => "5xx,retriable-status-codes",
        (true, false) => "5xx",
        (false, _) => "retriable-status-codes",
    };
    if timeouts && !server_errors {
        export.lacks("Time-outs apart from other 5xx: both are worth another attempt.");
    }
    let mut body = format!("        retry_policy:\n          retry_on: {conditions}\n");
    if too_many {
        body += "          retriable_status_codes: [429]\n";
    }
    body += &format!("          num_retries: {}\n", policy.attempts - 1);
    if let Some(timeout) = per_try {
        body += &format!("          per_try_timeout: {}\n", duration(timeout));
    }
    let backoff = &policy.backoff;
    let least = Nanos(1_000_000);
    let none = backoff.growth == Growth::None || backoff.base < least;
    if none {
        export.lacks("A wait must be above nothing: a millisecond stands here.");
    } else {
        if backoff.growth == Growth::Fixed || backoff.factor != 2.0 {
            export.lacks("Envoy doubles waits, up to max_interval.");
        }
        if backoff.jitter != Jitter::Full {
            export.lacks("Envoy draws each wait between nothing and its length.");
        }
    }
    let base = if none { least } else { backoff.base };
    body += &format!("          retry_back_off:\n            base_interval: {}\n", duration(base));
    match backoff.growth {
        Growth::Exponential if backoff.cap == Nanos::MAX => {
            export.lacks("Waits without end: max_interval is ten times the first wait unless it is told.");
        }
        Growth::Exponential => body += &format!("            max_interval: {}\n", duration(backoff.cap.max(base))),
        Growth::None | Growth::Fixed => body += &format!("            max_interval: {}\n", duration(base)),
    }
    if policy.retry_after.obey != Obey::Ignored {
        if policy.retry_after.obey == Obey::Exactly || policy.retry_after.spread != 0.5 {
            export.lacks("Envoy adds up to half of what Retry-After says.");
        }
        body += "          rate_limited_retry_back_off:\n            reset_headers:\n            - name: Retry-After\n              format: SECONDS\n";
        if policy.retry_after.longest < Nanos::MAX {
            body += &format!("            max_interval: {}\n", duration(policy.retry_after.longest));
        }
    }
    body
}

/// A share in percent, without what doubles can not hold.
fn percent(share: f64) -> f64 {
    libm::round(share * 1e6) / 1e4
}
