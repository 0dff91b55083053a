//! An autoscaler as its project's own configuration.
//!
//! | controller | form | names from |
//! |---|---|---|
//! | Kubernetes HPA | `autoscaling/v2` manifest and rules of the Prometheus adapter | API reference; adapter's `docs/config.md` |
//! | KEDA, schedule | `ScaledObject` with a Prometheus or cron triggers | `scaledobject-spec.md`, `scalers/{prometheus,cron}.md` |
//! | Knative | annotations of a `Service`, ConfigMap `config-autoscaler` | Knative Serving, autoscaling |
//! | Ray Serve | `autoscaling_config` | `python/ray/serve/config.py` |
//! | SkyServe | `service.replica_policy` | SkyServe documentation |
//! | AIBrix | `PodAutoscaler` with annotations | metric-based autoscaling, `types/annotations.go` |
//! | llm-d WVA | ConfigMap of thresholds | `docs/saturation-analyzer.md` |
//!
//! The Dynamo planner is left out: what it predicts with is measured, not written. Whoever has no project has no configuration.

use super::queries::{Query, aibrix_metric};
use servelab_fleet::scaling::{Signal, registry};
use servelab_spec::experiment::{ControllerSpec, ScalingSpec};
use servelab_spec::report::Configuration;

/// Where the reader's own names stand.
const TARGET: &str = "your-model";
const SELECTOR: &str = "namespace=\"default\"";

/// The configuration of `controller` within the bounds of `scaling`; `None` where its project has none, or none for this signal.
pub fn autoscaler(scaling: &ScalingSpec, controller: &ControllerSpec) -> Option<Configuration> {
    let info = registry::catalog().into_iter().find(|info| info.name == controller.name)?;
    let of = Of { scaling, controller, params: &info.params };
    let (project, file, body) = match controller.name.as_str() {
        "kubernetes_hpa" => ("Kubernetes", "hpa.yaml", of.hpa()),
        "keda" => ("KEDA", "scaledobject.yaml", of.keda()),
        "schedule" => ("KEDA", "scaledobject.yaml", of.schedule()),
        "knative_kpa" => ("Knative", "service.yaml", of.knative()),
        "ray_serve" => ("Ray Serve", "serve.yaml", of.ray()),
        "skyserve" => ("SkyPilot", "service.yaml", of.sky()),
        "aibrix_apa" => ("AIBrix", "podautoscaler.yaml", of.aibrix()?),
        "llm_d_wva" => ("llm-d", "saturation-config.yaml", of.wva()),
        _ => return None,
    };
    let note = format!("# Illustrative: {} as {project} names it. Check it against your version.\n", info.label);
    Some(Configuration { project: project.into(), file: file.into(), text: format!("{note}{body}") })
}

/// A controller with the values of its parameters.
struct Of<'a> {
    scaling: &'a ScalingSpec,
    controller: &'a ControllerSpec,
    params: &'a [servelab_spec::catalog::ParamInfo],
}

impl Of<'_> {
    fn value(&self, name: &str) -> f64 {
        let declared = self.params.iter().find(|param| param.name == name);
        debug_assert!(declared.is_some(), "{} has no {name}", self.controller.name);
        self.controller.params.get(name).copied().unwrap_or(declared.map_or(0.0, |param| param.default))
    }

    fn signal(&self) -> Signal {
        Signal::of(self.value("signal") as u32)
    }

    fn query(&self) -> Query {
        Query::new(self.signal(), self.scaling.scrape_s, self.value("window_s"))
    }

    /// The behavior section, indented by `indent`; nothing when there is none.
    fn behavior(&self, indent: &str, tolerances: bool) -> String {
        if self.value("behavior") == 0.0 {
            return String::new();
        }
        let mut text = format!("{indent}behavior:\n");
        for (way, key) in [("up", "scaleUp"), ("down", "scaleDown")] {
            let value = |name: &str| self.value(&format!("scale_{way}_{name}"));
            let policies = [
                ("Pods", value("pods"), value("pods_period_s")),
                ("Percent", value("percent"), value("percent_period_s")),
            ];
            let there = policies.iter().filter(|&&(_, value, _)| value > 0.0);
            let select = if there.clone().count() == 0 {
                "Disabled"
            } else {
                ["Max", "Min", "Disabled"][(value("select") as usize).min(2)]
            };
            text += &format!(
                "{indent}  {key}:\n{indent}    stabilizationWindowSeconds: {}\n{indent}    selectPolicy: {select}\n",
                value("stabilization_s")
            );
            if tolerances && self.value(&format!("tolerance_{way}")) != 0.1 {
                text += &format!("{indent}    tolerance: {}\n", quantity(self.value(&format!("tolerance_{way}"))));
            }
            if there.clone().count() > 0 {
                text += &format!("{indent}    policies:\n");
            }
            for (kind, value, period) in there {
                text += &format!(
                    "{indent}    - type: {kind}\n{indent}      value: {value}\n{indent}      periodSeconds: {period}\n"
                );
            }
        }
        text
    }

    fn hpa(&self) -> String {
        let (query, target) = (self.query(), quantity(self.value("target")));
        let name = &query.name;
        let metric = match self.value("metric_type") as u32 {
            0 => format!(
                "  - type: Pods\n    pods:\n      metric:\n        name: {name}\n      target:\n        type: AverageValue\n        averageValue: {target}\n"
            ),
            1 => format!(
                "  - type: External\n    external:\n      metric:\n        name: {name}\n      target:\n        type: AverageValue\n        averageValue: {target}\n"
            ),
            _ => format!(
                "  - type: External\n    external:\n      metric:\n        name: {name}\n      target:\n        type: Value\n        value: {target}\n"
            ),
        };
        let pods = self.value("metric_type") == 0.0;
        let rules = if pods { "rules" } else { "externalRules" };
        let expr = if pods { query.adapter() } else { query.fleet(self.signal(), SELECTOR) };
        let pod = if pods { "      pod: {resource: pod}\n" } else { "" };
        // The smallest minimum without the gate for scale to zero is 1, and Pods metrics cannot leave 0.
        let least = if pods { self.scaling.min.max(1) } else { self.scaling.min };
        let gate = if least == 0 { "  # 0 needs the feature gate HPAScaleToZero.\n" } else { "" };
        format!(
            "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata:\n  name: {TARGET}\nspec:\n  scaleTargetRef:\n    apiVersion: apps/v1\n    kind: Deployment\n    name: {TARGET}\n{gate}  minReplicas: {least}\n  maxReplicas: {max}\n  metrics:\n{metric}{behavior}---\n# Configuration of the Prometheus adapter: the rule behind the metric.\n{rules}:\n- seriesQuery: '{series}{{namespace!=\"\",pod!=\"\"}}'\n  resources:\n    overrides:\n      namespace: {{resource: namespace}}\n{pod}  name:\n    as: {name}\n  metricsQuery: '{expr}'\n",
            max = self.scaling.max.max(1),
            behavior = self.behavior("  ", true),
            series = query.series,
        )
    }

    fn keda(&self) -> String {
        let mut triggers = format!(
            "  - type: prometheus\n    metadata:\n      serverAddress: http://prometheus:9090\n      query: '{}'\n      threshold: \"{}\"\n      activationThreshold: \"{}\"\n",
            self.query().fleet(self.signal(), SELECTOR),
            self.value("threshold"),
            self.value("activation"),
        );
        if self.value("cron_replicas") > 0.0 {
            let minutes = |name: &str| self.value(name) / 60.0;
            triggers += &cron(minutes("cron_start_s"), minutes("cron_end_s"), self.value("cron_replicas"));
        }
        let behavior = self.behavior("      ", false);
        let advanced = if behavior.is_empty() {
            String::new()
        } else {
            format!("  advanced:\n    horizontalPodAutoscalerConfig:\n{behavior}")
        };
        let intervals =
            format!("  pollingInterval: {}\n  cooldownPeriod: {}\n", self.value("polling_s"), self.value("cooldown_s"));
        self.scaled_object(self.scaling.min, &format!("{intervals}{advanced}"), &triggers)
    }

    fn schedule(&self) -> String {
        let mut triggers = String::new();
        for window in ["a", "b", "c", "d"] {
            let value = |part: &str| self.value(&format!("{window}_{part}"));
            if value("from") != value("to") && value("replicas") > 0.0 {
                triggers += &cron(60.0 * value("from"), 60.0 * value("to"), value("replicas"));
            }
        }
        // A ScaledObject has to have a trigger: one that is a floor of the base all day.
        if triggers.is_empty() {
            triggers = cron(0.0, 1439.0, self.value("base"));
        }
        self.scaled_object(self.scaling.min.max(self.value("base") as u32), "", &triggers)
    }

    fn scaled_object(&self, min: u32, more: &str, triggers: &str) -> String {
        format!(
            "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata:\n  name: {TARGET}\nspec:\n  scaleTargetRef:\n    name: {TARGET}\n  minReplicaCount: {min}\n  maxReplicaCount: {}\n{more}  triggers:\n{triggers}",
            self.scaling.max.max(min).max(1)
        )
    }

    fn knative(&self) -> String {
        let stable = self.value("stable_window_s");
        let panic = 100.0 * self.value("panic_window_s") / stable;
        let (delay, target) = (self.value("scale_down_delay_s"), self.value("target"));
        // What the annotations' own validation accepts.
        let limited = (stable.clamp(6.0, 3600.0), delay.min(3600.0), target.max(0.01));
        let note = match limited == (stable, delay, target) {
            true => "",
            false => {
                "# Knative accepts windows of 6 s to an hour, delays up to an hour and targets from 0.01: what is set beyond is at that limit here.\n"
            }
        };
        let annotations = [
            ("class", "kpa.autoscaling.knative.dev".into()),
            ("metric", "concurrency".into()),
            ("target", limited.2.to_string()),
            ("target-utilization-percentage", self.value("utilization").to_string()),
            ("window", format!("{}s", limited.0)),
            ("panic-window-percentage", panic.clamp(1.0, 100.0).to_string()),
            ("panic-threshold-percentage", (100.0 * self.value("panic_threshold")).to_string()),
            ("scale-down-delay", format!("{}s", limited.1)),
            ("min-scale", self.scaling.min.to_string()),
            ("max-scale", self.scaling.max.to_string()),
        ];
        let annotations: String = annotations
            .iter()
            .map(|(name, value)| format!("        autoscaling.knative.dev/{name}: \"{value}\"\n"))
            .collect();
        format!(
            "{note}apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata:\n  name: {TARGET}\nspec:\n  template:\n    metadata:\n      annotations:\n{annotations}    spec:\n      containers:\n      - image: your-image\n---\n# For the whole cluster.\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: config-autoscaler\n  namespace: knative-serving\ndata:\n  max-scale-up-rate: \"{}\"\n  max-scale-down-rate: \"{}\"\n  scale-to-zero-grace-period: \"{}s\"\n",
            self.value("max_scale_up_rate"),
            self.value("max_scale_down_rate"),
            self.value("grace_s"),
        )
    }

    fn ray(&self) -> String {
        let mut text = format!(
            "deployment_config:\n  autoscaling_config:\n    min_replicas: {}\n    max_replicas: {}\n",
            self.scaling.min,
            self.scaling.max.max(1)
        );
        for name in [
            "target_ongoing_requests",
            "upscale_delay_s",
            "downscale_delay_s",
            "upscaling_factor",
            "downscaling_factor",
            "look_back_period_s",
        ] {
            text += &format!("    {name}: {}\n", self.value(name));
        }
        if self.scaling.min == 0 {
            text += &format!("    downscale_to_zero_delay_s: {}\n", self.value("downscale_to_zero_delay_s"));
        }
        text += &format!("    metrics_interval_s: {}\n", self.scaling.scrape_s);
        text
    }

    fn sky(&self) -> String {
        format!(
            "service:\n  readiness_probe: /health\n  replica_policy:\n    min_replicas: {}\n    max_replicas: {}\n    target_qps_per_replica: {}\n    upscale_delay_seconds: {}\n    downscale_delay_seconds: {}\n",
            self.scaling.min,
            self.scaling.max,
            self.value("target_qps_per_replica"),
            self.value("upscale_delay_s"),
            self.value("downscale_delay_s"),
        )
    }

    fn aibrix(&self) -> Option<String> {
        let metric = aibrix_metric(self.signal())?;
        let annotations = [
            ("autoscaling.aibrix.ai/scale-up-tolerance", self.value("up_tolerance").to_string()),
            ("autoscaling.aibrix.ai/scale-down-tolerance", self.value("down_tolerance").to_string()),
            ("autoscaling.aibrix.ai/max-scale-up-rate", self.value("max_scale_up_rate").to_string()),
            ("autoscaling.aibrix.ai/max-scale-down-rate", self.value("max_scale_down_rate").to_string()),
            ("autoscaling.aibrix.ai/scale-down-cooldown-window", format!("{}s", self.value("scale_down_cooldown_s"))),
            ("apa.autoscaling.aibrix.ai/window", format!("{}s", self.value("window_s").max(1.0))),
        ];
        let annotations: String =
            annotations.iter().map(|(name, value)| format!("    {name}: \"{value}\"\n")).collect();
        Some(format!(
            "apiVersion: autoscaling.aibrix.ai/v1alpha1\nkind: PodAutoscaler\nmetadata:\n  name: {TARGET}\n  annotations:\n{annotations}spec:\n  scalingStrategy: APA\n  scaleTargetRef:\n    apiVersion: apps/v1\n    kind: Deployment\n    name: {TARGET}\n  minReplicas: {}\n  maxReplicas: {}\n  metricsSources:\n  - metricSourceType: pod\n    protocolType: http\n    port: \"8000\"\n    path: /metrics\n    targetMetric: {metric}\n    targetValue: \"{}\"\n",
            self.scaling.min,
            self.scaling.max.max(1),
            self.value("target"),
        ))
    }

    fn wva(&self) -> String {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: capacity-scaling-config\n  namespace: workload-variant-autoscaler-system\ndata:\n  default: |\n    kvCacheThreshold: {}\n    queueLengthThreshold: {}\n    kvSpareTrigger: {}\n    queueSpareTrigger: {}\n",
            self.value("kv_cache_threshold"),
            self.value("queue_length_threshold"),
            self.value("kv_spare_trigger"),
            self.value("queue_spare_trigger"),
        )
    }
}

/// A cron trigger from and to that minute of the day.
fn cron(from: f64, to: f64, replicas: f64) -> String {
    let at = |minute: f64| {
        let minute = libm::round(minute) as u32 % 1440;
        format!("{} {} * * *", minute % 60, minute / 60)
    };
    format!(
        "  - type: cron\n    metadata:\n      timezone: Etc/UTC\n      start: \"{}\"\n      end: \"{}\"\n      desiredReplicas: \"{replicas}\"\n",
        at(from),
        at(to)
    )
}

/// A number as a Kubernetes quantity: whole, or in thousandths.
fn quantity(value: f64) -> String {
    if value.fract() == 0.0 { format!("\"{value}\"") } else { format!("{}m", (value * 1000.0) as u64) }
}

#[cfg(test)]
#[path = "autoscalers_tests.rs"]
mod tests;
