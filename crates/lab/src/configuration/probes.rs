//! Probes, grace and the order of a deploy, as a Kubernetes Deployment.
//!
//! Names from `apps/v1`: `startupProbe`, `readinessProbe`, `livenessProbe`, `lifecycle.preStop`, `terminationGracePeriodSeconds`,
//! `strategy.rollingUpdate`. Kubernetes counts whole seconds, so fractions are rounded up, and that is said. A drain that waits for the last request is a
//! hook that reads the engine's own metrics, under vLLM's names.

use servelab_spec::experiment::{ProbeSpec, Readiness, StartupSpec};
use servelab_spec::report::Configuration;

/// The Deployment of replicas that start as `startup` says and may drain for `grace_s`.
pub fn deployment(startup: &StartupSpec, grace_s: f64) -> Configuration {
    let mut text =
        String::from("# Illustrative: probes and drain as Kubernetes names them. Check it against your version.\n");
    let kinds = [&startup.probes.startup, &startup.probes.readiness, &startup.probes.liveness];
    let fractions =
        |probe: &ProbeSpec| [probe.delay_s, probe.period_s, probe.timeout_s].iter().any(|s| s.fract() > 0.0);
    if grace_s.fract() > 0.0 || kinds.iter().any(|probe| probe.on && fractions(probe)) {
        text += "# Kubernetes counts whole seconds: fractions are rounded up.\n";
    }
    if startup.nodes > 1 {
        text += &format!(
            "# A replica stands on {} nodes: that is a group of pods, for which a Deployment alone does not do.\n",
            startup.nodes
        );
    }
    let (surge, unavailable) = if startup.surge { (1, 0) } else { (0, 1) };
    text += &format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: your-model\nspec:\n  selector:\n    matchLabels:\n      app: your-model\n  strategy:\n    type: RollingUpdate\n    rollingUpdate:\n      maxSurge: {surge}\n      maxUnavailable: {unavailable}\n  template:\n    metadata:\n      labels:\n        app: your-model\n    spec:\n      terminationGracePeriodSeconds: {}\n      containers:\n      - name: engine\n        image: your-image\n        ports:\n        - containerPort: 8000\n",
        whole(grace_s, 0.0)
    );
    // Startup and liveness ask no more than the health endpoint: a generation behind a queue would have busy replicas killed.
    let at_most_health = startup.readiness.min(Readiness::Health);
    for (name, probe, asks) in [
        ("startupProbe", &startup.probes.startup, at_most_health),
        ("readinessProbe", &startup.probes.readiness, startup.readiness),
        ("livenessProbe", &startup.probes.liveness, at_most_health),
    ] {
        if probe.on {
            text += &block(name, probe, asks);
        }
    }
    text += DRAIN;
    Configuration { project: "Kubernetes".into(), file: "deployment.yaml".into(), text }
}

/// Ends when the engine has nothing left to do, or does not answer any more.
const DRAIN: &str = r#"        lifecycle:
          preStop:
            exec:
              command:
              - sh
              - -c
              - |
                until [ "$(curl -s localhost:8000/metrics | awk '/^vllm:num_requests_(running|waiting)/ {n += $NF} END {print n + 0}')" = 0 ]; do sleep 1; done
"#;

fn block(name: &str, probe: &ProbeSpec, asks: Readiness) -> String {
    let how = match asks {
        Readiness::Process => "          tcpSocket:\n            port: 8000\n",
        Readiness::Health => "          httpGet:\n            path: /health\n            port: 8000\n",
        Readiness::Generation => {
            "          exec:\n            command:\n            - sh\n            - -c\n            - |\n              curl -sf localhost:8000/v1/completions -H 'Content-Type: application/json' -d '{\"model\": \"your-model\", \"prompt\": \"a\", \"max_tokens\": 1}'\n"
        }
    };
    format!(
        "        {name}:\n{how}          initialDelaySeconds: {}\n          periodSeconds: {}\n          timeoutSeconds: {}\n          failureThreshold: {}\n          successThreshold: {}\n",
        whole(probe.delay_s, 0.0),
        whole(probe.period_s, 1.0),
        whole(probe.timeout_s, 1.0),
        probe.failures,
        probe.successes
    )
}

/// Whole seconds, rounded up, at least `least`.
fn whole(seconds: f64, least: f64) -> u64 {
    libm::ceil(seconds).max(least) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn startup() -> StartupSpec {
        let mut startup = StartupSpec::default();
        (startup.probes.startup.on, startup.probes.startup.failures) = (true, 60);
        (startup.probes.readiness.on, startup.probes.readiness.period_s) = (true, 2.5);
        startup
    }

    #[test]
    fn settings_arrive_under_kubernetes_names() {
        let text = deployment(&startup(), 30.0).text;
        let startup_probe = "        startupProbe:\n          httpGet:\n            path: /health\n            port: 8000\n          initialDelaySeconds: 0\n          periodSeconds: 10\n          timeoutSeconds: 1\n          failureThreshold: 60\n          successThreshold: 1\n";
        assert!(text.contains(startup_probe), "{text}");
        assert!(text.contains("terminationGracePeriodSeconds: 30\n") && text.contains("maxSurge: 0\n"), "{text}");
        assert!(text.contains("v1/completions") && !text.contains("livenessProbe"), "ready means a generation: {text}");
        assert!(text.contains("periodSeconds: 3\n") && text.contains("rounded up"), "{text}");
    }

    #[test]
    fn each_kind_of_readiness_asks_something_else() {
        let text = |readiness| deployment(&StartupSpec { readiness, surge: true, ..startup() }, 0.5).text;
        let process = text(Readiness::Process);
        assert!(process.contains("tcpSocket") && !process.contains("httpGet"), "{process}");
        assert_eq!(text(Readiness::Health).matches("path: /health").count(), 2);
        assert!(process.contains("maxSurge: 1\n      maxUnavailable: 0\n"));
        assert!(process.contains("terminationGracePeriodSeconds: 1\n"));
        assert!(deployment(&StartupSpec { nodes: 2, ..startup() }, 1.0).text.contains("2 nodes"));
    }

    /// Every line is a comment, a key, an item or part of a block, at an even depth that grows by one step at a time.
    #[test]
    fn the_manifest_is_well_formed() {
        let text = deployment(&startup(), 30.0).text;
        let mut depth = 0;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let indent = line.len() - line.trim_start().len();
            assert!(indent % 2 == 0 && indent <= depth + 2, "{line}");
            assert!(!line.contains('\t') && line == line.trim_end(), "{line}");
            depth = indent;
        }
    }
}
