#![allow(clippy::unwrap_used)]
use super::*;
#[cfg(not(target_arch = "wasm32"))]
use serde_yaml_ng::Value;

fn scaling(min: u32) -> ScalingSpec {
    ScalingSpec { min, max: 12, ..ScalingSpec::default() }
}

fn text(spec: &ControllerSpec) -> String {
    autoscaler(&scaling(1), spec).unwrap().text
}

/// The documents of a text, parsed.
#[cfg(not(target_arch = "wasm32"))]
fn documents(text: &str) -> Vec<Value> {
    use serde::Deserialize;
    serde_yaml_ng::Deserializer::from_str(text).map(|document| Value::deserialize(document).unwrap()).collect()
}

/// The value at a path of keys and positions.
#[cfg(not(target_arch = "wasm32"))]
fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split(' ').fold(value, |value, key| {
        let found = match key.parse::<usize>() {
            Ok(index) => value.get(index),
            Err(_) => value.get(key),
        };
        found.unwrap_or_else(|| unreachable!("no {key} of {path} in {value:?}"))
    })
}

#[cfg(not(target_arch = "wasm32"))]
fn string(value: &Value, path: &str) -> String {
    at(value, path).as_str().unwrap_or_else(|| unreachable!("{path} is no string")).into()
}

#[cfg(not(target_arch = "wasm32"))]
fn number(value: &Value, path: &str) -> f64 {
    at(value, path).as_f64().unwrap_or_else(|| unreachable!("{path} is no number"))
}

#[cfg(not(target_arch = "wasm32"))]
#[test]
fn the_hpa_with_the_rule_behind_it() {
    let documents = documents(&text(&ControllerSpec::named("kubernetes_hpa")));
    let [hpa, adapter] = &documents[..] else { unreachable!() };
    assert_eq!(string(hpa, "apiVersion"), "autoscaling/v2");
    assert_eq!((number(hpa, "spec minReplicas"), number(hpa, "spec maxReplicas")), (1.0, 12.0));
    assert_eq!(string(hpa, "spec metrics 0 type"), "Pods");
    assert_eq!(string(hpa, "spec metrics 0 pods target averageValue"), "5");
    assert_eq!(number(hpa, "spec behavior scaleDown stabilizationWindowSeconds"), 300.0);
    assert_eq!(number(hpa, "spec behavior scaleUp policies 0 value"), 4.0);
    assert_eq!(string(hpa, "spec behavior scaleUp policies 1 type"), "Percent");
    assert_eq!(string(hpa, "spec behavior scaleDown policies 0 type"), "Percent");
    assert_eq!(string(adapter, "rules 0 name as"), string(hpa, "spec metrics 0 pods metric name"));
    assert_eq!(string(adapter, "rules 0 seriesQuery"), "vllm:num_requests_waiting{namespace!=\"\",pod!=\"\"}");
    assert_eq!(
        string(adapter, "rules 0 metricsQuery"),
        "sum by (<<.GroupBy>>) (vllm:num_requests_waiting{<<.LabelMatchers>>})"
    );
    assert_eq!(string(adapter, "rules 0 resources overrides pod resource"), "pod");
}

#[cfg(not(target_arch = "wasm32"))]
#[test]
fn the_hpa_as_it_is_set() {
    let spec = ControllerSpec::named("kubernetes_hpa")
        .with("metric_type", 2.0)
        .with("target", 0.85)
        .with("signal", f64::from(Signal::KvUsage as u32))
        .with("tolerance_up", 0.05)
        .with("scale_down_select", 2.0);
    let documents = documents(&text(&spec));
    assert_eq!(string(&documents[0], "spec metrics 0 external target value"), "850m");
    assert_eq!(string(&documents[0], "spec behavior scaleUp tolerance"), "50m");
    assert_eq!(string(&documents[0], "spec behavior scaleDown selectPolicy"), "Disabled");
    assert!(documents[0]["spec"]["behavior"]["scaleDown"].get("tolerance").is_none());
    assert!(string(&documents[1], "externalRules 0 metricsQuery").starts_with("sum("));
    let plain = text(&ControllerSpec::named("kubernetes_hpa").with("behavior", 0.0));
    assert!(!plain.contains("behavior"));
    // Pods metrics cannot leave 0; external ones can, behind a gate.
    let least = |spec: &ControllerSpec| {
        self::documents(&autoscaler(&scaling(0), spec).unwrap().text)[0]["spec"]["minReplicas"].as_u64()
    };
    assert_eq!([least(&ControllerSpec::named("kubernetes_hpa")), least(&spec)], [Some(1), Some(0)]);
}

#[cfg(not(target_arch = "wasm32"))]
#[test]
fn keda_with_its_triggers() {
    let spec = ControllerSpec::named("keda")
        .with("cron_start_s", 27_000.0)
        .with("cron_end_s", 68_400.0)
        .with("cron_replicas", 3.0);
    let object = &documents(&text(&spec))[0];
    assert_eq!(string(object, "kind"), "ScaledObject");
    assert_eq!((number(object, "spec pollingInterval"), number(object, "spec cooldownPeriod")), (30.0, 300.0));
    assert_eq!(string(object, "spec triggers 0 metadata threshold"), "5");
    assert!(string(object, "spec triggers 0 metadata query").contains("inference_extension_flow_control_queue_size"));
    assert_eq!(string(object, "spec triggers 1 metadata start"), "30 7 * * *");
    assert_eq!(string(object, "spec triggers 1 metadata desiredReplicas"), "3");
    assert_eq!(number(object, "spec advanced horizontalPodAutoscalerConfig behavior scaleUp policies 0 value"), 4.0);
    let night = &documents(&text(&ControllerSpec::named("schedule")))[0];
    assert_eq!(
        (string(night, "spec triggers 0 metadata end"), number(night, "spec minReplicaCount")),
        ("0 19 * * *".into(), 1.0)
    );
}

#[cfg(not(target_arch = "wasm32"))]
#[test]
fn annotations_of_knative_and_aibrix_are_strings() {
    let knative = documents(&text(&ControllerSpec::named("knative_kpa")));
    let annotations = at(&knative[0], "spec template metadata annotations");
    for (name, value) in [
        ("target", "100"),
        ("window", "60s"),
        ("panic-window-percentage", "10"),
        ("panic-threshold-percentage", "200"),
        ("max-scale", "12"),
    ] {
        assert_eq!(string(annotations, &format!("autoscaling.knative.dev/{name}")), value);
    }
    assert_eq!(string(&knative[1], "data scale-to-zero-grace-period"), "30s");
    let aibrix = &documents(&text(&ControllerSpec::named("aibrix_apa")))[0];
    assert_eq!(string(aibrix, "metadata annotations autoscaling.aibrix.ai/scale-down-cooldown-window"), "300s");
    assert_eq!(string(aibrix, "spec metricsSources 0 targetMetric"), "kv_cache_usage_perc");
    assert_eq!(string(aibrix, "spec metricsSources 0 targetValue"), "0.5");
    let lagging = ControllerSpec::named("aibrix_apa").with("signal", f64::from(Signal::TtftP95 as u32));
    assert!(autoscaler(&scaling(1), &lagging).is_none(), "it has no such metric");
}

#[cfg(not(target_arch = "wasm32"))]
#[test]
fn ray_sky_and_llm_d() {
    let ray = &documents(&text(&ControllerSpec::named("ray_serve")))[0];
    assert_eq!(number(ray, "deployment_config autoscaling_config target_ongoing_requests"), 2.0);
    assert_eq!(number(ray, "deployment_config autoscaling_config metrics_interval_s"), 15.0);
    let sky = &documents(&text(&ControllerSpec::named("skyserve").with("target_qps_per_replica", 5.5)))[0];
    assert_eq!(number(sky, "service replica_policy target_qps_per_replica"), 5.5);
    assert_eq!(number(sky, "service replica_policy downscale_delay_seconds"), 1200.0);
    let wva = &documents(&text(&ControllerSpec::named("llm_d_wva")))[0];
    let inner = &documents(&string(wva, "data default"))[0];
    assert_eq!((number(inner, "kvCacheThreshold"), number(inner, "queueSpareTrigger")), (0.8, 3.0));
}

/// Whatever is set, what comes out is YAML, is marked, and names no parameter that does not exist (a debug assertion).
#[cfg(not(target_arch = "wasm32"))]
#[test]
fn everything_that_can_be_written_parses() {
    for info in registry::catalog() {
        for share in [0.0, 0.5, 1.0] {
            let mut spec = ControllerSpec::named(&info.name);
            for param in &info.params {
                spec.params.insert(
                    param.name.clone(),
                    libm::floor(param.min + share * (param.max - param.min)).max(param.min),
                );
            }
            for min in [0, 3] {
                if let Some(configuration) = autoscaler(&scaling(min), &spec) {
                    assert!(configuration.text.starts_with("# Illustrative:"), "{}", info.name);
                    assert!(!documents(&configuration.text).is_empty(), "{}", info.name);
                }
            }
        }
    }
}

#[test]
fn who_has_none() {
    for name in ["oracle", "naive_ratio", "dynamo_planner", "psychic"] {
        assert!(autoscaler(&scaling(1), &ControllerSpec::named(name)).is_none(), "{name}");
    }
    assert!(text(&ControllerSpec::named("skyserve")).contains("    target_qps_per_replica: 1\n"));
}
