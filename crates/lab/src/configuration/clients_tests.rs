//! Exports of client policies can be read back, say the numbers that were set, and say what they leave out.

#![allow(clippy::unwrap_used)]

use super::*;
use serde_json::Value;
use servelab_fleet::clients::presets::PRESETS;
use servelab_spec::patch;

fn written(policy: &str) -> Vec<Configuration> {
    clients(&patch::parse_clients(policy).unwrap()[0])
}

fn one(policy: &str, project: &str) -> String {
    written(policy).into_iter().find(|one| one.project == project).unwrap().text
}

fn json(text: &str) -> Value {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("//")).collect();
    serde_json::from_str(&lines.join("\n")).unwrap()
}

fn yaml(text: &str) -> Value {
    serde_yaml_ng::from_str(text).unwrap()
}

fn lacks(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.contains("Not expressed: ")).collect()
}

#[test]
fn a_known_client_is_written_for_its_own_project_with_its_own_numbers() {
    let names: Vec<usize> = PRESETS.iter().map(|preset| written(preset.name).len()).collect();
    assert_eq!(names, [5, 5, 5, 5, 5, 1, 1, 1, 1, 1, 5]);
    for (name, project, module, class) in
        [("openai_sdk", "OpenAI SDK", "openai", "OpenAI"), ("anthropic_sdk", "Anthropic SDK", "anthropic", "Anthropic")]
    {
        let text = one(name, project);
        assert!(text.contains(&format!("from {module} import {class}\n")), "{text}");
        assert!(text.contains("max_retries=2,\n") && text.contains("timeout=600,\n") && lacks(&text).is_empty());
    }
    // The example of proposal A6.
    let text = one("grpc", "gRPC");
    let config = json(&text);
    let retry = &config["methodConfig"][0]["retryPolicy"];
    assert_eq!((retry["maxAttempts"].as_u64(), retry["initialBackoff"].as_str()), (Some(4), Some("0.1s")));
    assert_eq!((retry["maxBackoff"].as_str(), retry["backoffMultiplier"].as_f64()), (Some("1s"), Some(2.0)));
    assert_eq!(retry["retryableStatusCodes"], serde_json::json!(["UNAVAILABLE"]));
    assert_eq!(config["retryThrottling"], serde_json::json!({"maxTokens": 10.0, "tokenRatio": 0.1}));
    assert_eq!(lacks(&text), [""; 0], "{text}");
    let text = one("envoy", "Envoy");
    let config = yaml(&text);
    let route = &config["route_config"]["virtual_hosts"][0]["routes"][0]["route"];
    assert_eq!(route["retry_policy"]["num_retries"], 1);
    assert_eq!(route["retry_policy"]["retry_back_off"]["base_interval"], "0.025s");
    assert_eq!(route["retry_policy"]["retry_back_off"]["max_interval"], "0.25s");
    assert_eq!((&route["timeout"], lacks(&text).len()), (&Value::from("15s"), 1), "{text}");
    let budget = &config["clusters"][0]["circuit_breakers"]["thresholds"][0]["retry_budget"];
    assert_eq!((budget["budget_percent"]["value"].as_f64(), &budget["min_retry_concurrency"]), (Some(20.0), &3.into()));
    let text = one("tower", "tower");
    for part in [
        "TpsBudget::new(Duration::from_secs_f64(10.0), 10, 0.2)",
        "ExponentialBackoffMaker::new(Duration::from_secs_f64(0.05), Duration::from_secs_f64(3600.0), 0.99",
        "const ATTEMPTS: usize = 4;",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(lacks(&text).is_empty(), "{text}");
}

#[test]
fn numbers_that_were_set_arrive() {
    let text =
        one("envoy(attempts=4,timeout_s=2.5,retry_timeouts=1,retry_429=1,deadline_s=20,budget_ratio=0.07)", "Envoy");
    let config = yaml(&text);
    let route = &config["route_config"]["virtual_hosts"][0]["routes"][0]["route"];
    assert_eq!((&route["timeout"], &route["retry_policy"]["per_try_timeout"]), (&"20s".into(), &"2.5s".into()));
    assert_eq!(route["retry_policy"]["retry_on"], "5xx,retriable-status-codes");
    assert_eq!(route["retry_policy"]["retriable_status_codes"][0], 429);
    let thresholds = &config["clusters"][0]["circuit_breakers"]["thresholds"][0];
    assert_eq!(thresholds["retry_budget"]["budget_percent"]["value"], 7.0);
    assert!(lacks(&text).is_empty(), "{text}");
    let config = json(&one("one_try(hedge_after_s=0.5,hedges=2,deadline_s=30)", "gRPC"));
    let method = &config["methodConfig"][0];
    assert_eq!((&method["timeout"], method.get("retryPolicy")), (&"30s".into(), None));
    assert_eq!(method["hedgingPolicy"]["maxAttempts"], 3);
    assert_eq!(method["hedgingPolicy"]["hedgingDelay"], "0.5s");
    let text = one("grpc(attempts=9,retry_429=1)", "gRPC");
    let retry = &json(&text)["methodConfig"][0]["retryPolicy"];
    assert_eq!((&retry["maxAttempts"], lacks(&text).len()), (&5.into(), 1), "{text}");
    assert_eq!(retry["retryableStatusCodes"][1], "RESOURCE_EXHAUSTED");
}

/// Whatever rule is added, each export either has a setting for it or says that it has none; and all stay readable.
#[test]
fn no_rule_is_lost_without_a_word() {
    let bare = written("full_jitter(attempts=4)");
    // Without the line that names the policy.
    let said = |one: &Configuration| one.text.lines().skip(1).collect::<Vec<_>>().join("\n");
    for rule in [
        "timeout_s=3",
        "until_first_token=1",
        "deadline_s=30",
        "layer_2_attempts=3",
        "budget=1",
        "budget=2",
        "budget=3",
        "budget=4",
        "breaker=1",
        "throttle=1",
        "hedge_after_s=1",
    ] {
        for (bare, with) in bare.iter().zip(written(&format!("full_jitter(attempts=4,{rule})"))) {
            assert_ne!(said(bare), said(&with), "{rule} is lost in {}", with.project);
            match with.project.as_str() {
                "gRPC" => drop(json(&with.text)),
                "Envoy" => drop(yaml(&with.text)),
                _ => {}
            }
        }
    }
    // Of a Brooker bucket nobody but the client itself knows.
    for one in written("token_bucket") {
        let budget = lacks(&one.text).into_iter().filter(|line| line.contains("budget")).count();
        assert_eq!(budget, 1, "{}", one.text);
        assert!(one.text.contains("Illustrative: \"Token bucket\""));
    }
    assert!(clients(&ClientSpec::named("nobody")).is_empty());
}
