//! Every file that is written, at every edge of its settings, against what the tool that reads it accepts: its fields, their types and their ranges,
//! written down here by hand from the tool's own schema.
//!
//! | file | schema |
//! |---|---|
//! | HPA, Deployment | `kubernetes/api`: `autoscaling/v2`, `apps/v1`, `core/v1`; ranges from `pkg/apis/*/validation` |
//! | ScaledObject | `kedacore/keda:config/crd/bases/keda.sh_scaledobjects.yaml` |
//! | Service with annotations | `knative/serving`; ranges from `pkg/apis/autoscaling/annotation_validation.go` |
//! | SkyPilot service | `skypilot-org/skypilot:sky/utils/schemas.py`, which allows nothing else |
//! | Ray Serve | `ray-project/ray:python/ray/serve/config.py`, `AutoscalingConfig` |
//! | PodAutoscaler | `vllm-project/aibrix:api/autoscaling/v1alpha1` |
#![allow(clippy::unwrap_used)]

use super::{autoscalers::autoscaler, probes::deployment};
use serde::Deserialize;
use serde_yaml_ng::Value;
use servelab_fleet::scaling::registry;
use servelab_spec::experiment::{ControllerSpec, ProbeSpec, Readiness, ScalingSpec, StartupSpec};

/// What a field may hold.
enum Kind {
    /// A whole number of this range.
    Whole(i64, i64),
    /// A number of this range.
    Number(f64, f64),
    /// One of these words.
    Word(&'static [&'static str]),
    Text,
    /// Text that is a number of this range, a unit after it left out.
    TextNumber(f64, f64, &'static str),
    /// A Kubernetes quantity above 0, or from 0 on.
    Quantity,
    Share,
    List(&'static Kind),
    /// Fields by name; `!` before one says that it must be there.
    Fields(&'static [(&'static str, Kind)]),
    /// Any names, each with a text.
    Texts,
}
use Kind::{Fields, List, Number, Quantity, Share, Text, TextNumber, Texts, Whole, Word};

const MOST: i64 = i32::MAX as i64;
const TARGET: Kind = Fields(&[("apiVersion", Text), ("kind", Text), ("!name", Text)]);
const NAMED: Kind = Fields(&[("!name", Text), ("annotations", Texts), ("namespace", Text)]);

const SCALING_RULES: Kind = Fields(&[
    ("stabilizationWindowSeconds", Whole(0, 3600)),
    ("selectPolicy", Word(&["Max", "Min", "Disabled"])),
    ("tolerance", Share),
    (
        "policies",
        List(&Fields(&[
            ("!type", Word(&["Pods", "Percent"])),
            ("!value", Whole(1, MOST)),
            ("!periodSeconds", Whole(1, 1800)),
        ])),
    ),
]);
const BEHAVIOR: Kind = Fields(&[("scaleUp", SCALING_RULES), ("scaleDown", SCALING_RULES)]);
const METRIC: Kind = Fields(&[
    ("!metric", Fields(&[("!name", Text)])),
    (
        "!target",
        Fields(&[("!type", Word(&["AverageValue", "Value"])), ("averageValue", Quantity), ("value", Quantity)]),
    ),
]);

const HPA: Kind = Fields(&[
    ("!apiVersion", Word(&["autoscaling/v2"])),
    ("!kind", Word(&["HorizontalPodAutoscaler"])),
    ("!metadata", NAMED),
    (
        "!spec",
        Fields(&[
            ("!scaleTargetRef", TARGET),
            ("minReplicas", Whole(0, MOST)),
            ("!maxReplicas", Whole(1, MOST)),
            (
                "metrics",
                List(&Fields(&[("!type", Word(&["Pods", "External"])), ("pods", METRIC), ("external", METRIC)])),
            ),
            ("behavior", BEHAVIOR),
        ]),
    ),
]);

const SCALED_OBJECT: Kind = Fields(&[
    ("!apiVersion", Word(&["keda.sh/v1alpha1"])),
    ("!kind", Word(&["ScaledObject"])),
    ("!metadata", NAMED),
    (
        "!spec",
        Fields(&[
            ("!scaleTargetRef", TARGET),
            ("minReplicaCount", Whole(0, MOST)),
            ("maxReplicaCount", Whole(1, MOST)),
            ("pollingInterval", Whole(1, MOST)),
            ("cooldownPeriod", Whole(0, MOST)),
            ("advanced", Fields(&[("horizontalPodAutoscalerConfig", Fields(&[("behavior", BEHAVIOR)]))])),
            ("!triggers", List(&Fields(&[("!type", Word(&["prometheus", "cron"])), ("!metadata", Texts)]))),
        ]),
    ),
]);

const KNATIVE: Kind = Fields(&[
    ("!apiVersion", Word(&["serving.knative.dev/v1"])),
    ("!kind", Word(&["Service"])),
    ("!metadata", NAMED),
    (
        "!spec",
        Fields(&[(
            "!template",
            Fields(&[
                ("metadata", Fields(&[("annotations", KNATIVE_ANNOTATIONS)])),
                ("!spec", Fields(&[("!containers", List(&Fields(&[("!image", Text)])))])),
            ]),
        )]),
    ),
]);
const KNATIVE_ANNOTATIONS: Kind = Fields(&[
    ("autoscaling.knative.dev/class", Word(&["kpa.autoscaling.knative.dev"])),
    ("autoscaling.knative.dev/metric", Word(&["concurrency", "rps"])),
    ("autoscaling.knative.dev/target", TextNumber(0.01, 1e9, "")),
    ("autoscaling.knative.dev/target-utilization-percentage", TextNumber(1.0, 100.0, "")),
    ("autoscaling.knative.dev/window", TextNumber(6.0, 3600.0, "s")),
    ("autoscaling.knative.dev/panic-window-percentage", TextNumber(1.0, 100.0, "")),
    ("autoscaling.knative.dev/panic-threshold-percentage", TextNumber(110.0, 1000.0, "")),
    ("autoscaling.knative.dev/scale-down-delay", TextNumber(0.0, 3600.0, "s")),
    ("autoscaling.knative.dev/min-scale", TextNumber(0.0, 1e9, "")),
    ("autoscaling.knative.dev/max-scale", TextNumber(0.0, 1e9, "")),
]);

const SKY: Kind = Fields(&[(
    "!service",
    Fields(&[
        ("!readiness_probe", Text),
        (
            "replica_policy",
            Fields(&[
                ("!min_replicas", Whole(0, MOST)),
                ("max_replicas", Whole(0, MOST)),
                ("target_qps_per_replica", Number(0.0, 1e9)),
                ("upscale_delay_seconds", Number(0.0, 1e9)),
                ("downscale_delay_seconds", Number(0.0, 1e9)),
            ]),
        ),
    ]),
)]);

const RAY: Kind = Fields(&[(
    "!deployment_config",
    Fields(&[(
        "!autoscaling_config",
        Fields(&[
            ("min_replicas", Whole(0, MOST)),
            ("max_replicas", Whole(1, MOST)),
            ("target_ongoing_requests", Number(1e-9, 1e9)),
            ("metrics_interval_s", Number(1e-9, 1e9)),
            ("look_back_period_s", Number(1e-9, 1e9)),
            ("upscale_delay_s", Number(0.0, 1e9)),
            ("downscale_delay_s", Number(0.0, 1e9)),
            ("downscale_to_zero_delay_s", Number(0.0, 1e9)),
            ("upscaling_factor", Number(1e-9, 1e9)),
            ("downscaling_factor", Number(1e-9, 1e9)),
        ]),
    )]),
)]);

const AIBRIX: Kind = Fields(&[
    ("!apiVersion", Word(&["autoscaling.aibrix.ai/v1alpha1"])),
    ("!kind", Word(&["PodAutoscaler"])),
    ("!metadata", NAMED),
    (
        "!spec",
        Fields(&[
            ("!scalingStrategy", Word(&["HPA", "KPA", "APA"])),
            ("!scaleTargetRef", TARGET),
            ("minReplicas", Whole(0, MOST)),
            ("!maxReplicas", Whole(1, MOST)),
            (
                "metricsSources",
                List(&Fields(&[
                    ("!metricSourceType", Word(&["pod"])),
                    ("protocolType", Word(&["http", "https"])),
                    ("port", Text),
                    ("path", Text),
                    ("!targetMetric", Text),
                    ("!targetValue", TextNumber(1e-9, 1e9, "")),
                ])),
            ),
        ]),
    ),
]);

const CONFIG_MAP: Kind =
    Fields(&[("!apiVersion", Word(&["v1"])), ("!kind", Word(&["ConfigMap"])), ("!metadata", NAMED), ("!data", Texts)]);
const ADAPTER_RULE: Kind = List(&Fields(&[
    ("!seriesQuery", Text),
    ("resources", Fields(&[("overrides", Fields(&[("namespace", RESOURCE), ("pod", RESOURCE)]))])),
    ("name", Fields(&[("as", Text)])),
    ("metricsQuery", Text),
]));
const RESOURCE: Kind = Fields(&[("!resource", Text)]);
const ADAPTER: Kind = Fields(&[("rules", ADAPTER_RULE), ("externalRules", ADAPTER_RULE)]);

const PROBE: Kind = Fields(&[
    ("httpGet", Fields(&[("path", Text), ("!port", Whole(1, 65535))])),
    ("tcpSocket", Fields(&[("!port", Whole(1, 65535))])),
    ("exec", Fields(&[("command", List(&Text))])),
    ("initialDelaySeconds", Whole(0, MOST)),
    ("periodSeconds", Whole(1, MOST)),
    ("timeoutSeconds", Whole(1, MOST)),
    ("failureThreshold", Whole(1, MOST)),
    ("successThreshold", Whole(1, MOST)),
]);
const DEPLOYMENT: Kind = Fields(&[
    ("!apiVersion", Word(&["apps/v1"])),
    ("!kind", Word(&["Deployment"])),
    ("!metadata", NAMED),
    (
        "!spec",
        Fields(&[
            ("!selector", Fields(&[("matchLabels", Texts)])),
            (
                "strategy",
                Fields(&[
                    ("type", Word(&["RollingUpdate"])),
                    ("rollingUpdate", Fields(&[("maxSurge", Whole(0, MOST)), ("maxUnavailable", Whole(0, MOST))])),
                ]),
            ),
            (
                "!template",
                Fields(&[
                    ("!metadata", Fields(&[("labels", Texts)])),
                    (
                        "!spec",
                        Fields(&[
                            ("terminationGracePeriodSeconds", Whole(0, MOST)),
                            (
                                "!containers",
                                List(&Fields(&[
                                    ("!name", Text),
                                    ("!image", Text),
                                    ("ports", List(&Fields(&[("!containerPort", Whole(1, 65535))]))),
                                    ("startupProbe", PROBE),
                                    ("readinessProbe", PROBE),
                                    ("livenessProbe", PROBE),
                                    (
                                        "lifecycle",
                                        Fields(&[(
                                            "preStop",
                                            Fields(&[("exec", Fields(&[("command", List(&Text))]))]),
                                        )]),
                                    ),
                                ])),
                            ),
                        ]),
                    ),
                ]),
            ),
        ]),
    ),
]);

fn inside(value: f64, from: f64, to: f64, path: &str) -> Result<(), String> {
    if (from..=to).contains(&value) { Ok(()) } else { Err(format!("{path} is {value}, accepted is {from} to {to}")) }
}

/// Whether `value` is what its reader accepts; where it is not.
fn fits(value: &Value, kind: &Kind, path: &str) -> Result<(), String> {
    let text = || value.as_str().ok_or_else(|| format!("{path} is no text: {value:?}"));
    match kind {
        Whole(from, to) => {
            let whole = value.as_i64().ok_or_else(|| format!("{path} is no whole number: {value:?}"))?;
            inside(whole as f64, *from as f64, *to as f64, path)
        }
        Number(from, to) => inside(value.as_f64().ok_or_else(|| format!("{path} is no number"))?, *from, *to, path),
        Text => text().map(|_| ()),
        Word(words) => {
            let text = text()?;
            if words.contains(&text) { Ok(()) } else { Err(format!("{path} is {text}, accepted are {words:?}")) }
        }
        TextNumber(from, to, unit) => {
            let text = text()?.strip_suffix(unit).ok_or_else(|| format!("{path} has no {unit}"))?;
            inside(text.parse().map_err(|_| format!("{path} is {text}, no number"))?, *from, *to, path)
        }
        Quantity | Share => {
            let text = text()?;
            let least = if matches!(kind, Share) { 0.0 } else { 1e-9 };
            let number = text.strip_suffix('m').unwrap_or(text);
            inside(number.parse().map_err(|_| format!("{path} is {text}, no quantity"))?, least, 1e18, path)
        }
        List(of) => {
            let items = value.as_sequence().ok_or_else(|| format!("{path} is no list"))?;
            items.iter().enumerate().try_for_each(|(at, item)| fits(item, of, &format!("{path}[{at}]")))
        }
        Texts => {
            let all = value.as_mapping().ok_or_else(|| format!("{path} is no mapping"))?;
            all.iter().try_for_each(|(key, value)| fits(value, &Text, &format!("{path}.{key:?}")))
        }
        Fields(fields) => {
            let found = value.as_mapping().ok_or_else(|| format!("{path} is no mapping: {value:?}"))?;
            for (key, value) in found {
                let key = key.as_str().unwrap_or_default();
                let known = fields.iter().find(|(name, _)| name.trim_start_matches('!') == key);
                let (_, kind) = known.ok_or_else(|| format!("{path} has no field {key}"))?;
                fits(value, kind, &format!("{path}.{key}"))?;
            }
            let missing =
                fields.iter().find(|(name, _)| name.strip_prefix('!').is_some_and(|name| !found.contains_key(name)));
            missing.map_or(Ok(()), |(name, _)| Err(format!("{path} lacks {name}")))
        }
    }
}

/// The schema that a document claims to follow.
fn schema(document: &Value) -> &'static Kind {
    match document.get("kind").and_then(Value::as_str) {
        Some("HorizontalPodAutoscaler") => &HPA,
        Some("ScaledObject") => &SCALED_OBJECT,
        Some("Service") => &KNATIVE,
        Some("PodAutoscaler") => &AIBRIX,
        Some("ConfigMap") => &CONFIG_MAP,
        Some("Deployment") => &DEPLOYMENT,
        _ if document.get("service").is_some() => &SKY,
        _ if document.get("deployment_config").is_some() => &RAY,
        _ => &ADAPTER,
    }
}

/// What is wrong with the documents of a text.
fn refused(text: &str, of: &str) -> Vec<String> {
    let documents = serde_yaml_ng::Deserializer::from_str(text).map(|document| Value::deserialize(document).unwrap());
    documents.filter_map(|document| fits(&document, schema(&document), of).err()).collect()
}

#[test]
fn autoscalers_are_written_as_their_readers_accept() {
    let (mut written, mut wrong) = (0, std::collections::BTreeSet::new());
    for info in registry::catalog() {
        let mut specs = vec![ControllerSpec::named(&info.name)];
        for param in &info.params {
            for value in [param.min, param.max] {
                specs.push(ControllerSpec::named(&info.name).with(&param.name, value));
            }
        }
        for (spec, min) in specs.iter().flat_map(|spec| [(spec, 0), (spec, 3)]) {
            let scaling = ScalingSpec { min, max: 12, ..ScalingSpec::default() };
            if let Some(configuration) = autoscaler(&scaling, spec) {
                wrong.extend(refused(&configuration.text, &info.name));
                written += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(written > 100, "{written}");
}

#[test]
fn deployments_are_written_as_kubernetes_accepts() {
    for readiness in [Readiness::Process, Readiness::Health, Readiness::Generation] {
        for (seconds, failures) in [(0.0, 1), (0.4, 3), (900.0, 1000)] {
            let mut startup = StartupSpec { readiness, ..StartupSpec::default() };
            for probe in [&mut startup.probes.startup, &mut startup.probes.readiness, &mut startup.probes.liveness] {
                *probe =
                    ProbeSpec { on: true, delay_s: seconds, period_s: seconds, timeout_s: seconds, failures, ..*probe };
            }
            assert_eq!(refused(&deployment(&startup, seconds).text, "deployment"), Vec::<String>::new());
        }
    }
}

/// The reader of schemas itself: what is not accepted is named.
#[test]
fn what_a_reader_refuses_is_found() {
    let refused = |text: &str| refused(text, "").concat();
    assert!(
        refused("service:\n  readiness_probe: /\n  replica_policy:\n    min_replicas: 0.5\n")
            .contains("no whole number")
    );
    assert!(refused("service:\n  replica_policy:\n    min_replicas: 1\n").contains("lacks !readiness_probe"));
    assert!(refused("service:\n  readiness_probe: /\n  qps: 1\n").contains("no field qps"));
    let keda = "kind: ScaledObject\napiVersion: keda.sh/v1alpha1\nmetadata:\n  name: a\nspec:\n  scaleTargetRef:\n    name: a\n  triggers:\n  - type: cron\n    metadata:\n      desiredReplicas: 3\n";
    assert!(refused(keda).contains("no text"), "KEDA's metadata are texts");
}
