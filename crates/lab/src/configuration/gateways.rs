//! The gateway and the engines' queues as settings of real ones: Envoy's filters, the endpoint picker of the Gateway API inference extension with its priorities, vLLM's and
//! SGLang's flags.
//!
//! Names from `envoy.extensions.filters.http.{local_ratelimit,adaptive_concurrency,admission_control}.v3`, the inference extension's guide to its
//! `EndpointPickerConfig` (feature gate `flowControl`) and its `InferenceObjective`, `vllm serve` and `sglang.launch_server`. What a project has no
//! setting for is left out, and said.

use crate::admission;
use servelab_spec::experiment::{DetectorKind, GatewaySpec, GradientKind, RefuseWith, Spec};
use servelab_spec::report::Configuration;

/// All that can be written of a spec's gateway and queues.
pub fn gateways(spec: &Spec) -> Vec<Configuration> {
    let mut all = Vec::new();
    if spec.gateway.on {
        all.extend(envoy(&spec.gateway));
        all.extend(picker(&spec.gateway));
        all.extend(objectives(&spec.gateway));
    }
    all.extend(engines(spec));
    all
}

fn configuration(project: &str, file: &str, body: &str) -> Configuration {
    let text = format!("# Illustrative: limits as {project} names them. Check it against your version.\n{body}");
    Configuration { project: project.into(), file: file.into(), text }
}

/// Seconds as Envoy's durations.
fn seconds(seconds: f64) -> String {
    format!("{seconds}s")
}

/// HTTP filters, in the order in which ServeLab's stages stand.
fn envoy(gateway: &GatewaySpec) -> Option<Configuration> {
    let code = match gateway.refuse_with {
        RefuseWith::TooMany => 429,
        RefuseWith::Unavailable => 503,
    };
    let mut text = String::new();
    if gateway.success_rate {
        text += &filter("admission_control", "AdmissionControl");
        text += &format!(
            "    enabled:\n      default_value: true\n    sampling_window: {}s\n    sr_threshold:\n      default_value:\n        value: {}\n    max_rejection_probability:\n      default_value:\n        value: 80.0\n    success_criteria:\n      http_criteria:\n        http_success_status:\n        - start: 100\n          end: 500\n",
            gateway.success_window_s,
            gateway.success_threshold * 100.0
        );
    }
    if gateway.rate_per_s > 0.0 {
        // Envoy fills in whole tokens, so the time of one is given instead of their rate.
        text += &filter("local_ratelimit", "LocalRateLimit");
        text += &format!(
            "    stat_prefix: per_tenant\n    # The bucket below is everybody's; the descriptors give each tenant one of its own.\n    token_bucket: &bucket\n      max_tokens: {}\n      tokens_per_fill: 1\n      fill_interval: {}\n    descriptors:\n    - entries:\n      - key: tenant\n      token_bucket: *bucket\n    rate_limits:\n    - actions:\n      - request_headers:\n          header_name: x-tenant\n          descriptor_key: tenant\n    filter_enabled: &all\n      default_value:\n        numerator: 100\n    filter_enforced: *all\n",
            gateway.rate_burst,
            seconds(1.0 / gateway.rate_per_s)
        );
    }
    if gateway.gradient != GradientKind::Off {
        text += &filter("adaptive_concurrency", "AdaptiveConcurrency");
        text += &format!(
            "    enabled:\n      default_value: true\n    concurrency_limit_exceeded_status:\n      code: {code}\n    gradient_controller_config:\n      sample_aggregate_percentile:\n        value: 50\n      concurrency_limit_params:\n        max_concurrency_limit: 1000\n        concurrency_update_interval: 0.1s\n      min_rtt_calc_params:\n        interval: 60s\n        request_count: 50\n        min_concurrency: 3\n        buffer:\n          value: 25\n"
        );
        if gateway.gradient == GradientKind::FirstToken {
            text += "    # Envoy's round trip ends with the answer, not with its first token.\n";
        }
    }
    if text.is_empty() && gateway.concurrency == 0 {
        return None;
    }
    let mut body = if text.is_empty() { String::new() } else { format!("http_filters:\n{text}") };
    if gateway.concurrency > 0 {
        body += &format!(
            "clusters:\n- name: replicas\n  circuit_breakers:\n    thresholds:\n    - max_requests: {}\n      max_pending_requests: {}\n",
            gateway.concurrency,
            gateway.queue.max(1)
        );
    }
    if gateway.tokens_per_s > 0.0 {
        body += &format!(
            "# A budget of {} tokens a second needs a filter that counts tokens (Envoy AI Gateway: llmRequestCosts with a global rate limit).\n",
            gateway.tokens_per_s
        );
    }
    Some(configuration("Envoy", "envoy-filters.yaml", &body))
}

fn filter(name: &str, kind: &str) -> String {
    format!(
        "- name: envoy.filters.http.{name}\n  typed_config:\n    \"@type\": type.googleapis.com/envoy.extensions.filters.http.{name}.v3.{kind}\n"
    )
}

/// Saturation, time to live and priority bands.
fn picker(gateway: &GatewaySpec) -> Option<Configuration> {
    if !gateway.hold_back {
        return None;
    }
    let mut body = String::from(
        "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: EndpointPickerConfig\nfeatureGates:\n- flowControl\n",
    );
    match gateway.detector {
        DetectorKind::Metrics => {
            body += &format!(
                "saturationDetector:\n  queueDepthThreshold: {}\n  kvCacheUtilThreshold: {}\n  metricsStalenessThreshold: {}ms\n",
                libm::round(gateway.full_queue),
                gateway.full_kv,
                libm::round(gateway.stale_s * 1000.0)
            );
        }
        DetectorKind::InFlight => {
            body +=
                &format!("# The concurrency detector counts {} requests for each replica.\n", gateway.full_in_flight);
        }
    }
    body += "flowControl:\n";
    if gateway.ttl_s > 0.0 {
        body += &format!("  defaultRequestTTL: {}\n", seconds(gateway.ttl_s));
    }
    let fairness = if gateway.turns { "round-robin-fairness-policy" } else { "global-strict-fairness-policy" };
    let band = |head: String| {
        format!("{head}    orderingPolicyRef: fcfs-ordering-policy\n    fairnessPolicyRef: {fairness}\n")
    };
    let classes = admission::classes(gateway);
    if classes.is_empty() {
        body += &band("  defaultPriorityBand:\n".into());
    } else {
        body += "  priorityBands:\n";
        for class in &classes {
            body += &band(format!("  # {}\n  - priority: {}\n", class.name, class.priority));
        }
    }
    body += &format!("# A band holds bytes there and {} requests here.\n", gateway.queue);
    if gateway.hold_back_share > 0.0 && classes.len() > 1 {
        body +=
            &format!("# Lower bands are held back sooner, the last by {} of saturation.\n", gateway.hold_back_share);
    }
    Some(configuration("Gateway API inference extension", "endpoint-picker.yaml", &body))
}

/// A class is an objective that requests name.
fn objectives(gateway: &GatewaySpec) -> Option<Configuration> {
    let classes = admission::classes(gateway);
    if classes.is_empty() {
        return None;
    }
    let each = classes.iter().map(|class| {
        format!(
            "apiVersion: inference.networking.x-k8s.io/v1alpha2\nkind: InferenceObjective\nmetadata:\n  name: {}\nspec:\n  priority: {}\n  poolRef:\n    name: your-pool\n",
            class.name, class.priority
        )
    });
    let body = each.collect::<Vec<_>>().join("---\n");
    Some(configuration("Gateway API", "objectives.yaml", &body))
}

/// The engines' own limits.
fn engines(spec: &Spec) -> Vec<Configuration> {
    let engine = &spec.engine;
    let limits = engine.max_queued > 0 || engine.max_queued_tokens > 0;
    if !limits && engine.queue_ttl_s == 0.0 && engine.max_wait_s == 0.0 {
        return Vec::new();
    }
    let mut all = Vec::new();
    if limits {
        let mut flags = vec![format!("--max-num-seqs {}", engine.max_batch)];
        if engine.max_queued > 0 {
            // vLLM counts those that run as well.
            let running = if engine.queued_count_running { 0 } else { engine.max_batch };
            flags.push(format!("--max-num-queued-reqs {}", engine.max_queued + running));
        }
        if engine.max_queued_tokens > 0 {
            flags.push(format!("--max-num-queued-tokens {}", engine.max_queued_tokens));
        }
        let body = format!("vllm serve your-model \\\n  {}\n", flags.join(" \\\n  "));
        all.push(configuration("vLLM", "vllm.sh", &body));
    }
    if engine.max_queued > 0 {
        let running = if engine.queued_count_running { engine.max_batch } else { 0 };
        let body = format!(
            "python -m sglang.launch_server --model-path your-model \\\n  --max-running-requests {} \\\n  --max-queued-requests {}\n",
            engine.max_batch,
            engine.max_queued.saturating_sub(running)
        );
        all.push(configuration("SGLang", "sglang.sh", &body));
    }
    for (what, value) in [("time to live", engine.queue_ttl_s), ("longest predicted wait", engine.max_wait_s)] {
        if value > 0.0 {
            let note = format!("# Neither vLLM nor SGLang has a {what} in its queue ({value} s here).\n");
            match all.first_mut() {
                Some(first) => first.text += &note,
                None => all.push(configuration("vLLM", "vllm.sh", &note)),
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use servelab_spec::patch;

    fn written(settings: &[(&str, &str)]) -> Vec<Configuration> {
        gateways(&settings.iter().fold(Spec::default(), |spec, (key, value)| patch::set(&spec, key, value).unwrap()))
    }

    fn text(all: &[Configuration], project: &str) -> String {
        all.iter().find(|one| one.project == project).map(|one| one.text.clone()).unwrap_or_default()
    }

    #[test]
    fn nothing_is_written_of_what_is_off() {
        assert_eq!(written(&[]), []);
        assert_eq!(written(&[("gateway.on", "on")]), []);
        assert_eq!(written(&[("gateway.rate_per_s", "2")]), [], "without a gateway its limits say nothing");
    }

    #[test]
    fn envoys_bucket_fills_in_the_time_of_one_request() {
        let all = written(&[("gateway.on", "on"), ("gateway.rate_per_s", "4"), ("gateway.rate_burst", "7")]);
        let envoy = text(&all, "Envoy");
        assert!(envoy.contains("max_tokens: 7\n") && envoy.contains("fill_interval: 0.25s\n"), "{envoy}");
        let all = written(&[("gateway.on", "on"), ("gateway.gradient", "answer"), ("gateway.refuse_with", "503")]);
        let envoy = text(&all, "Envoy");
        assert!(envoy.contains("adaptive_concurrency.v3") && envoy.contains("code: 503\n"), "{envoy}");
        assert!(!envoy.contains("first token"));
    }

    #[test]
    fn classes_are_bands_and_objectives() {
        let all = written(&[
            ("gateway.on", "on"),
            ("gateway.hold_back", "on"),
            ("gateway.classes", "interactive(priority=10),batch(priority=-1,tenants=C)"),
            ("gateway.turns", "on"),
        ]);
        let picker = text(&all, "Gateway API inference extension");
        for part in [
            "queueDepthThreshold: 5\n",
            "metricsStalenessThreshold: 200ms\n",
            "priority: -1\n",
            "round-robin",
            "TTL: 60s",
        ] {
            assert!(picker.contains(part), "{part}: {picker}");
        }
        assert_eq!(text(&all, "Gateway API").matches("kind: InferenceObjective").count(), 2);
    }

    /// vLLM counts running and waiting together, SGLang only who waits: 8 run here.
    #[test]
    fn engines_count_differently() {
        let all = written(&[("engine.max_queued", "20"), ("engine.queue_ttl_s", "2")]);
        assert!(text(&all, "vLLM").contains("--max-num-queued-reqs 28\n"), "{all:?}");
        assert!(text(&all, "vLLM").contains("time to live"));
        assert!(text(&all, "SGLang").contains("--max-queued-requests 20\n"));
        let all = written(&[("engine.max_queued", "20"), ("engine.queued_count_running", "on")]);
        assert!(text(&all, "vLLM").contains("--max-num-queued-reqs 20\n"), "{all:?}");
        assert!(text(&all, "SGLang").contains("--max-queued-requests 12\n"));
    }
}
