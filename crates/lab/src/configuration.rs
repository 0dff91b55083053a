//! A policy as its project's own configuration.
//!
//! Only what a project lets be set is written, under the names its sources and documentation give; the rest of a deployment (images, models,
//! resources) is the reader's. What comes out is illustrative: versions differ, and nobody has deployed it.
//!
//! | project | form | names from |
//! |---|---|---|
//! | vLLM production-stack | Helm values | `helm/README.md`: `routerSpec.routingLogic`, `servingEngineSpec.modelSpec[]` |
//! | SGLang / smg | command lines | `--worker-urls`, `--policy cache_aware` and its thresholds, SMG documentation on load balancing; workers' `--page-size` and limits |
//! | llm-d | `EndpointPickerConfig` | `inference.networking.x-k8s.io/v1alpha1`, since 0.7 `llm-d.ai/v1alpha1`: plugins and weighted `schedulingProfiles` |
//! | NVIDIA Dynamo | command line | router guide: `--router-mode kv`, `--kv-overlap-score-weight`, `--router-temperature` |
//! | KubeAI | `Model` resource | `api/k8s/v1/model_types.go`: `loadBalancing.prefixHash` |
//! | Ray Serve | `request_router_config` | `RequestRouterConfig`: class and keyword arguments |
//! | AIBrix | request header | `routing-strategy` |
//!
//! Gateways and queues have their own table in [`gateways`], client policies theirs in [`clients`].

pub mod autoscalers;
pub mod clients;
pub mod gateways;
pub mod probes;
mod queries;
#[cfg(all(test, not(target_arch = "wasm32")))]
mod schemas_tests;

use servelab_fleet::registry;
use servelab_spec::experiment::{PolicySpec, Spec};
use servelab_spec::report::Configuration;

/// The configuration of `policy` for the fleet of `spec`; `None` where its project has none, or there is no project.
pub fn configuration(spec: &Spec, policy: &PolicySpec) -> Option<Configuration> {
    let info = registry::catalog().into_iter().find(|info| info.name == policy.name)?;
    let value = |name: &str| -> f64 {
        let declared = info.params.iter().find(|param| param.name == name);
        policy.params.get(name).copied().unwrap_or(declared.map_or(0.0, |param| param.default))
    };
    let (project, file, body) = match policy.name.as_str() {
        "round_robin" => ("vLLM production-stack", "values.yaml", production_stack(spec, "roundrobin", "")),
        "session_sticky" => {
            ("vLLM production-stack", "values.yaml", production_stack(spec, "session", "  sessionKey: x-session-id\n"))
        }
        "production_stack_prefixaware" => {
            ("vLLM production-stack", "values.yaml", production_stack(spec, "prefixaware", ""))
        }
        "production_stack_loadaware" => {
            ("vLLM production-stack", "values.yaml", production_stack(spec, "loadaware", ""))
        }
        "sglang_cache_aware" | "sglang_cache_aware_library" => ("SGLang", "router.sh", sglang(spec, &value)),
        "llm_d_default" => ("llm-d", "endpoint-picker.yaml", llm_d(&DEFAULT_SCORERS)),
        "llm_d_affinity" => ("llm-d", "endpoint-picker.yaml", llm_d_affinity(spec, &value)),
        "dynamo_kv" => (
            "NVIDIA Dynamo",
            "frontend.sh",
            flags(
                "python -m dynamo.frontend",
                &[
                    ("--router-mode", "kv".into()),
                    ("--kv-overlap-score-weight", value("prefill_scale").to_string()),
                    ("--router-temperature", value("temperature").to_string()),
                ],
            ),
        ),
        "kubeai_prefix_hash" => {
            let (percent, chars) = (libm::round(100.0 * value("load_factor")), value("prefix_chars"));
            let (replicas, head) = (spec.replicas, "apiVersion: kubeai.org/v1\nkind: Model\nspec:\n");
            let body = format!(
                "{head}  minReplicas: {replicas}\n  maxReplicas: {replicas}\n  loadBalancing:\n    strategy: PrefixHash\n    prefixHash:\n      meanLoadFactor: {percent}\n      replication: 256\n      prefixCharLength: {chars}\n"
            );
            ("KubeAI", "model.yaml", body)
        }
        "ray_prefix_cache_affinity" => {
            let (gap, rate) = (value("imbalanced_threshold"), value("match_rate"));
            let body = format!(
                "deployment_config:\n  num_replicas: {}\n  request_router_config:\n    request_router_class: ray.serve.llm.request_router.PrefixCacheAffinityRouter\n    request_router_kwargs:\n      imbalanced_threshold: {gap}\n      match_rate_threshold: {rate}\n",
                spec.replicas
            );
            ("Ray Serve", "serve.yaml", body)
        }
        "aibrix_prefix_cache" => ("AIBrix", "request-header.txt", "routing-strategy: prefix-cache\n".into()),
        _ => return None,
    };
    let note = format!("# Illustrative: {} as {project} names it. Check it against your version.\n", info.label);
    Some(Configuration { project: project.into(), file: file.into(), text: format!("{note}{body}") })
}

/// Scorer and weight of llm-d's default profile.
const DEFAULT_SCORERS: [(&str, u32); 3] =
    [("queue-scorer", 2), ("kv-cache-utilization-scorer", 2), ("prefix-cache-scorer", 3)];

fn llm_d(scorers: &[(&str, u32)]) -> String {
    let mut text =
        String::from("apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n");
    for (scorer, _) in scorers {
        text += &format!("- type: {scorer}\n");
    }
    text += "- type: max-score-picker\nschedulingProfiles:\n- name: default\n  plugins:\n";
    for (scorer, weight) in scorers {
        text += &format!("  - pluginRef: {scorer}\n    weight: {weight}\n");
    }
    text + "  - pluginRef: max-score-picker\n"
}

/// The affinity filter and token load of llm-d's guides. Where beliefs come from is a plugin of its own, which the filter names.
fn llm_d_affinity(spec: &Spec, value: &dyn Fn(&str) -> f64) -> String {
    let block = spec.engine.block_tokens;
    let (producer, sized) = if value("prefix_index") > 0.0 {
        let sized = format!("    tokenProcessorConfig:\n      blockSizeTokens: {block}\n");
        ("precise-prefix-cache-producer", sized)
    } else if value("engine_capacity") > 0.0 {
        ("approx-prefix-cache-producer", "    autoTune: true\n".to_owned())
    } else {
        let entries = value("index_entries");
        ("approx-prefix-cache-producer", format!("    autoTune: false\n    lruCapacityPerServer: {entries}\n"))
    };
    let (threshold, rate) = (value("affinity_threshold"), value("prefill_rate"));
    let (valve_ms, limit) = (libm::round(1000.0 * value("valve_s")), value("token_limit"));
    format!(
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: {producer}\n  parameters:\n{sized}- type: inflight-load-producer\n  parameters:\n    prefixMatchInfoProducerName: {producer}\n- type: prefix-cache-affinity-filter\n  parameters:\n    prefixMatchInfoProducerName: {producer}\n    inFlightLoadProducerName: inflight-load-producer\n    affinityThreshold: {threshold}\n    maxTTFTPenaltyMs: {valve_ms}\n    peakPrefillThroughput: {rate}\n- type: token-load-scorer\n  parameters:\n    queueThresholdTokens: {limit}\n- type: max-score-picker\nschedulingProfiles:\n- name: default\n  plugins:\n  - pluginRef: prefix-cache-affinity-filter\n  - pluginRef: token-load-scorer\n    weight: 1\n  - pluginRef: max-score-picker\n"
    )
}

/// Most worker addresses that are written out.
const ADDRESSES: u32 = 16;

/// Addresses to be replaced by one's own; of many, the shell counts them.
fn sglang_addresses(spec: &Spec) -> String {
    if spec.replicas > ADDRESSES {
        return format!("$(seq -f http://worker-%g:8000 0 {})", spec.replicas - 1);
    }
    let addresses: Vec<String> = (0..spec.replicas).map(|replica| format!("http://worker-{replica}:8000")).collect();
    addresses.join(" ")
}

/// How each worker is started, where a page is a KV block, and the router before them.
fn sglang(spec: &Spec, value: &dyn Fn(&str) -> f64) -> String {
    let engine = &spec.engine;
    let chunk = if engine.chunked_prefill { engine.token_budget.to_string() } else { "-1".into() };
    let cache = if engine.prefix_cache { "" } else { " --disable-radix-cache" };
    let workers = format!(
        "# each of {} workers: python -m sglang.launch_server --model-path YOUR_MODEL --port 8000 --page-size {} --max-running-requests {} --chunked-prefill-size {chunk}{cache}",
        spec.replicas, engine.block_tokens, engine.max_batch
    );
    let router = flags(
        "python -m sglang_router.launch_router",
        &[
            ("--worker-urls", sglang_addresses(spec)),
            ("--policy", "cache_aware".into()),
            ("--cache-threshold", value("cache_threshold").to_string()),
            ("--balance-abs-threshold", value("balance_abs").to_string()),
            ("--balance-rel-threshold", value("balance_rel").to_string()),
            ("--eviction-interval", value("eviction_s").to_string()),
            ("--max-tree-size", value("max_tree").to_string()),
        ],
    );
    format!("{workers}\n{router}")
}

fn production_stack(spec: &Spec, logic: &str, more: &str) -> String {
    format!(
        "routerSpec:\n  routingLogic: {logic}\n{more}  replicaCount: {}\nservingEngineSpec:\n  modelSpec:\n  - name: your-model\n    replicaCount: {}\n    vllmConfig:\n      enablePrefixCaching: {}\n      enableChunkedPrefill: {}\n      maxNumSeqs: {}\n",
        spec.routing.routers,
        spec.replicas,
        spec.engine.prefix_cache,
        spec.engine.chunked_prefill,
        spec.engine.max_batch
    )
}

fn flags(command: &str, flags: &[(&str, String)]) -> String {
    let flags: Vec<String> = flags.iter().map(|(name, value)| format!("  {name} {value}")).collect();
    format!("{command} \\\n{}\n", flags.join(" \\\n"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn text(policy: &PolicySpec) -> String {
        configuration(&Spec::default(), policy).unwrap().text
    }

    #[test]
    fn settings_arrive_under_their_projects_names() {
        let sglang = text(&PolicySpec::named("sglang_cache_aware").with("cache_threshold", 0.4));
        assert!(
            sglang.contains("--cache-threshold 0.4 \\\n") && sglang.contains("--balance-abs-threshold 64"),
            "{sglang}"
        );
        let kubeai = text(&PolicySpec::named("kubeai_prefix_hash").with("load_factor", 1.5));
        assert!(kubeai.contains("meanLoadFactor: 150") && kubeai.contains("prefixCharLength: 100"), "{kubeai}");
        let llm_d = text(&PolicySpec::named("llm_d_default"));
        assert!(llm_d.contains("- pluginRef: prefix-cache-scorer\n    weight: 3\n"), "{llm_d}");
        let stack = text(&PolicySpec::named("production_stack_prefixaware"));
        assert!(stack.contains("routingLogic: prefixaware") && stack.contains("    replicaCount: 4"), "{stack}");
        assert!(text(&PolicySpec::named("dynamo_kv")).contains("--router-mode kv"));
    }

    #[test]
    fn sglangs_workers_have_addresses_and_pages() {
        let mut spec = Spec { replicas: 2, ..Spec::default() };
        spec.engine.block_tokens = 32;
        let of = |spec: &Spec| configuration(spec, &PolicySpec::named("sglang_cache_aware")).unwrap().text;
        let text = of(&spec);
        assert!(text.contains("  --worker-urls http://worker-0:8000 http://worker-1:8000 \\\n"), "{text}");
        assert!(text.contains("# each of 2 workers") && text.contains("--page-size 32 "), "{text}");
        assert!(of(&Spec { replicas: 100, ..spec }).contains("--worker-urls $(seq -f http://worker-%g:8000 0 99) "));
    }

    /// What is written is read back as a document of the right shape.
    #[cfg(not(target_arch = "wasm32"))]
    #[test]
    fn llm_ds_profiles_name_their_plugins() {
        use serde_yaml_ng::Value;
        let affinity = PolicySpec::named("llm_d_affinity");
        let read = |policy: &PolicySpec| serde_yaml_ng::from_str::<Value>(&text(policy)).unwrap();
        for policy in [PolicySpec::named("llm_d_default"), affinity.clone(), affinity.clone().with("prefix_index", 1.0)]
        {
            let document = read(&policy);
            let named = |list: &Value, key: &str| -> Vec<String> {
                list.as_sequence().unwrap().iter().map(|item| item[key].as_str().unwrap().to_owned()).collect()
            };
            let types = named(&document["plugins"], "type");
            let used = named(&document["schedulingProfiles"][0]["plugins"], "pluginRef");
            assert!(used.iter().all(|name| types.contains(name)), "{used:?} of {types:?}");
            assert_eq!(used.last().unwrap(), "max-score-picker");
        }
        let filter = |policy: &PolicySpec, at: &str| read(policy)["plugins"][2]["parameters"][at].clone();
        assert_eq!(filter(&affinity, "affinityThreshold").as_f64(), Some(0.8));
        assert_eq!(filter(&affinity, "maxTTFTPenaltyMs").as_f64(), Some(18_000.0));
        assert_eq!(filter(&affinity, "peakPrefillThroughput").as_f64(), Some(15_928.0));
        let precise = affinity.with("prefix_index", 1.0).with("valve_s", 0.25);
        assert_eq!(filter(&precise, "prefixMatchInfoProducerName").as_str(), Some("precise-prefix-cache-producer"));
        assert_eq!(filter(&precise, "maxTTFTPenaltyMs").as_f64(), Some(250.0));
        assert_eq!(read(&precise)["plugins"][0]["parameters"]["tokenProcessorConfig"]["blockSizeTokens"], 16);
    }

    /// A parameter that is looked up here and renamed there would be written as 0.
    #[test]
    fn every_parameter_that_is_written_exists() {
        let needed = [
            ("sglang_cache_aware", "cache_threshold balance_abs balance_rel eviction_s max_tree"),
            (
                "llm_d_affinity",
                "prefix_index engine_capacity index_entries affinity_threshold valve_s prefill_rate token_limit",
            ),
            ("dynamo_kv", "prefill_scale temperature"),
            ("kubeai_prefix_hash", "load_factor prefix_chars"),
            ("ray_prefix_cache_affinity", "imbalanced_threshold match_rate"),
        ];
        for (name, params) in needed {
            let info = registry::catalog().into_iter().find(|info| info.name == name).unwrap();
            for param in params.split(' ') {
                assert!(info.params.iter().any(|known| known.name == param), "{name}.{param}");
            }
        }
    }

    #[test]
    fn textbook_policies_have_none_and_all_others_are_marked() {
        assert!(configuration(&Spec::default(), &PolicySpec::named("power_of_two")).is_none());
        for info in registry::catalog() {
            if let Some(configuration) = configuration(&Spec::default(), &PolicySpec::named(&info.name)) {
                assert!(configuration.text.starts_with("# Illustrative:"), "{}", info.name);
            }
        }
    }
}
