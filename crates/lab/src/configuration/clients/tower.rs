//! tower: a budget, a backoff, and what one's own `retry::Policy` must count.

use super::{AN_HOUR, Export, seconds};
use servelab_engine::Nanos;
use servelab_fleet::clients::{Budget, ClientPolicy, Growth, Jitter};

pub(super) fn layer(policy: &ClientPolicy) -> Export {
    let mut export = Export::new("tower", "tower_retries.rs", "//");
    let mut uses = String::from("use std::time::Duration;\n");
    let mut body = format!(
        "// Your `tower::retry::Policy` counts these, waits for the backoff and asks the budget.\nconst ATTEMPTS: usize = {};\n",
        policy.attempts
    );
    for (there, name) in [
        (policy.retry_on.timeouts, "RETRY_TIMEOUTS"),
        (policy.retry_on.too_many, "RETRY_429"),
        (policy.retry_on.server_errors, "RETRY_5XX"),
    ] {
        body += &format!("const {name}: bool = {there};\n");
    }
    body += "\n";
    let backoff = &policy.backoff;
    if backoff.growth != Growth::None {
        uses += "use tower::retry::backoff::ExponentialBackoffMaker;\nuse tower::util::rng::HasherRng;\n";
        if backoff.growth == Growth::Fixed || backoff.factor != 2.0 {
            export.lacks("tower doubles waits, up to the longest.");
        }
        let jitter = match backoff.jitter {
            Jitter::None => 0.0,
            Jitter::Above(share) => share,
            Jitter::Full | Jitter::Equal | Jitter::Decorrelated | Jitter::Around(_) | Jitter::Below(_) => {
                export.lacks("tower's jitter makes waits longer, never shorter.");
                0.99
            }
        };
        let cap = match backoff.growth {
            Growth::Exponential => backoff.cap.min(AN_HOUR),
            Growth::None | Growth::Fixed => backoff.base,
        };
        body += &format!(
            "let backoff = ExponentialBackoffMaker::new({}, {}, {jitter:?}, HasherRng::default())?;\n",
            time(backoff.base),
            time(cap.max(backoff.base).max(Nanos(1_000_000)))
        );
    }
    match policy.budget {
        Budget::Unlimited => {}
        Budget::Deposits { ttl, min_per_s, ratio } => {
            if !(1.0..=60.0).contains(&ttl.as_secs()) {
                export.lacks("A deposit of tower lives 1 s to 60 s; the nearest stands here.");
            }
            if min_per_s.fract() != 0.0 {
                export.lacks("tower counts whole retries a second.");
            }
            uses += "use tower::retry::budget::TpsBudget;\n";
            let ttl = ttl.clamp(Nanos(1_000_000_000), Nanos(60_000_000_000));
            body += &format!("let budget = TpsBudget::new({}, {}, {ratio:?});\n", time(ttl), libm::round(min_per_s));
        }
        _ => export.lacks("Of retry budgets tower has deposits that expire (TpsBudget)."),
    }
    if let Some(timeout) = policy.timeout {
        uses += "use tower::timeout::TimeoutLayer;\n";
        body += &format!("let each = TimeoutLayer::new({}); // inside of the retries\n", time(timeout));
    }
    if let Some(deadline) = policy.deadline {
        uses += "use tower::timeout::TimeoutLayer as DeadlineLayer;\n";
        body += &format!("let all = DeadlineLayer::new({}); // outside of the retries\n", time(deadline));
    }
    if policy.retry_after.obey != servelab_fleet::clients::Obey::Ignored {
        export.lacks("tower reads no Retry-After: your policy would.");
    }
    export.lacks_what_none_has(policy, &["deadline", "budget"]);
    export.body = format!("{uses}\n{body}");
    export
}

fn time(time: Nanos) -> String {
    let seconds = seconds(time);
    let point = if seconds.contains('.') { "" } else { ".0" };
    format!("Duration::from_secs_f64({seconds}{point})")
}
