//! A client policy as settings of real clients: the Python SDKs of OpenAI and Anthropic, gRPC's service config, Envoy's retry policy, and tower.
//!
//! Names from `openai-python` and `anthropic-sdk-python` (`_base_client.py`, `_constants.py`), gRPC's proposal A6 and its guide to hedging, Envoy's
//! `config.route.v3.RetryPolicy` and `config.cluster.v3.CircuitBreakers`, and the crate `tower` (`retry::budget::TpsBudget`, `retry::backoff`). What a client has no
//! setting for is said in the export, a line for each rule that is lost. Where a policy is known as one project's, it is written for that project alone.

mod envoy;
mod grpc;
mod sdk;
mod tower;

use crate::storm;
use servelab_engine::Nanos;
use servelab_fleet::clients::{Budget, ClientPolicy};
use servelab_spec::experiment::ClientSpec;
use servelab_spec::report::Configuration;

/// What is written for one project, and what it leaves out.
struct Export {
    project: &'static str,
    file: &'static str,
    /// How a comment begins.
    comment: &'static str,
    body: String,
    /// Sentences on what can not be said there.
    lacks: Vec<String>,
}

impl Export {
    fn new(project: &'static str, file: &'static str, comment: &'static str) -> Self {
        Export { project, file, comment, body: String::new(), lacks: Vec::new() }
    }

    fn lacks(&mut self, sentence: impl Into<String>) {
        self.lacks.push(sentence.into());
    }

    /// Rules that none of the clients has settings for, but for those that `knows` names.
    fn lacks_what_none_has(&mut self, policy: &ClientPolicy, knows: &[&str]) {
        let rules = [
            ("until_first_token", policy.until_first_token, "a time-out that ends with the first token"),
            ("deadline", policy.deadline.is_some(), "a deadline over all attempts"),
            ("layers", policy.layers.iter().any(|layer| layer.on && layer.attempts > 1), "layers of retries behind it"),
            ("budget", policy.budget != Budget::Unlimited, "such a retry budget"),
            ("breaker", policy.breaker.is_some(), "a circuit breaker"),
            ("throttle", policy.throttle.is_some(), "adaptive throttling"),
            ("hedge", policy.hedge.is_some(), "hedging"),
        ];
        for (rule, there, name) in rules {
            if there && !knows.contains(&rule) {
                self.lacks(format!("No setting for {name}."));
            }
        }
    }

    fn finish(self, label: &str) -> Configuration {
        let Export { project, file, comment, body, lacks } = self;
        let mut text =
            format!("{comment} Illustrative: \"{label}\" as {project} names it. Check it against your version.\n");
        for sentence in lacks {
            text += &format!("{comment} Not expressed: {sentence}\n");
        }
        Configuration { project: project.into(), file: file.into(), text: text + body.as_str() }
    }
}

/// All that can be written of a client policy; nothing of one that is unknown.
pub fn clients(spec: &ClientSpec) -> Vec<Configuration> {
    let Ok(policy) = storm::policy(spec) else { return Vec::new() };
    let label = crate::catalog::client_label(spec);
    type Write = fn(&ClientPolicy) -> Export;
    let all: [(&str, Write); 5] = [
        ("openai_sdk", sdk::openai),
        ("anthropic_sdk", sdk::anthropic),
        ("grpc", grpc::service_config),
        ("envoy", envoy::retry_policy),
        ("tower", tower::layer),
    ];
    let own = all.iter().any(|(name, _)| *name == spec.name);
    let wanted = all.into_iter().filter(|(name, _)| !own || *name == spec.name);
    wanted.map(|(_, write)| write(&policy).finish(&label)).collect()
}

/// A time in seconds as a number.
fn seconds(time: Nanos) -> String {
    format!("{}", time.as_secs())
}

/// A time as protobuf's durations are written.
fn duration(time: Nanos) -> String {
    format!("{}s", time.as_secs())
}

/// A longest wait where one must be told: an hour stands for none.
const AN_HOUR: Nanos = Nanos(3_600_000_000_000);

#[cfg(all(test, not(target_arch = "wasm32")))]
#[path = "clients_tests.rs"]
mod tests;
