//! What can be chosen, assembled from the registries; and whether what a spec chose exists.

use crate::{costs, presets};
use servelab_fleet::registry;
use servelab_fleet::routing::script_reference;
use servelab_spec::SCHEMA_VERSION;
use servelab_spec::catalog::{Catalog, ParamInfo, ParamKind};
use servelab_spec::experiment::{PolicySpec, Spec, WorkloadSpec};
use servelab_spec::patch;
use servelab_spec::validate::{SpecError, limit};

/// Everything that can be chosen.
pub fn catalog() -> Catalog {
    Catalog {
        version: SCHEMA_VERSION,
        policies: registry::catalog(),
        presets: presets::all(),
        costs: costs::all(),
        settings: settings(),
        script: script_reference(),
    }
}

/// Checks a spec wholly: its limits, and that its policies, their parameters and its cost model exist.
///
/// # Errors
/// The first field at fault.
pub fn check(spec: &Spec) -> Result<(), SpecError> {
    spec.validate()?;
    for (index, policy) in spec.policies.iter().enumerate() {
        registry::build(policy).map_err(|error| match error.field.as_str() {
            // Several policies may be scripts: which one it is, is what the page needs to know.
            registry::SCRIPT_FIELD => SpecError { field: script_field(index), ..error },
            _ => error,
        })?;
    }
    costs::resolve(spec).map(|_| ())
}

/// The field of faults of the script that is policy `index`.
pub(crate) fn script_field(index: usize) -> String {
    format!("policies.{index}.script")
}

/// What a script calls itself: its first line, when that is a comment.
fn script_title(policy: &PolicySpec) -> Option<String> {
    /// Fits a table and a legend.
    const LONGEST: usize = 48;
    let first = policy.script.as_deref()?.lines().next()?;
    let title: String = first.strip_prefix("//")?.trim().chars().take(LONGEST).collect();
    (!title.is_empty()).then_some(title)
}

/// A policy's name for people, with the parameters that differ from its defaults: `Prefix affinity (imbalance guard off)`.
pub fn policy_label(policy: &PolicySpec) -> String {
    let Some(info) = registry::catalog().into_iter().find(|info| info.name == policy.name) else {
        return patch::policy_text(policy);
    };
    let label = script_title(policy).unwrap_or(info.label);
    let mut notes = Vec::new();
    for param in &info.params {
        if let Some(&value) = policy.params.get(&param.name).filter(|&&value| value != param.default) {
            let name = param.label.to_lowercase();
            notes.push(match &param.kind {
                ParamKind::Switch => format!("{name} {}", if value == 0.0 { "off" } else { "on" }),
                ParamKind::Choice(options) => {
                    format!("{name} {}", options.get(value as usize).map_or("?", String::as_str))
                }
                ParamKind::Number | ParamKind::Integer => format!("{name} {value}"),
            });
        }
    }
    if notes.is_empty() { label } else { format!("{label} ({})", notes.join(", ")) }
}

/// Key, label, sentence.
type Words = (&'static str, &'static str, &'static str);

/// Numbers with the granularity of their control. Limits, unit and kind stand in the spec's own table.
const NUMBERS: &[(Words, f64)] = &[
    (("seed", "Seed", "Decides every random draw; the same seed gives the same run."), 1.0),
    (("replicas", "Replicas", "Engines behind the router, all alike."), 1.0),
    (("workload.requests", "Requests", "Length of the run."), 1.0),
    (("workload.tenants", "Tenants", "Each has a long system prompt of its own."), 1.0),
    (
        (
            "workload.adapters",
            "LoRA adapters",
            "Tenants ask for one of so many adapters in turn; blocks of one are no use to another; 0 for none.",
        ),
        1.0,
    ),
    (("workload.turns_min", "Turns, fewest", "Fewest turns of a session."), 1.0),
    (("workload.turns_max", "Turns, most", "Most turns of a session; its prompts grow with every turn."), 1.0),
    (("workload.think_s", "Think time", "Mean time between an answer and the next turn."), 0.1),
    (("workload.depth", "Depth", "Levels of sub-agents below a task's first agent."), 1.0),
    (("workload.branches", "Branches", "Sub-agents that each agent above the last level starts."), 1.0),
    (("workload.burst_s", "Burst", "Mean delay of a sub-agent: short, and siblings come all at once."), 0.05),
    (
        (
            "workload.answer_s",
            "Nominal answer",
            "What comes next is sent this long after what it follows, whether or not the answer is there.",
        ),
        0.1,
    ),
    (("workload.long_share", "Long requests", "Share of requests that are about a document."), 0.01),
    (("workload.documents", "Documents", "Each is asked about again and again."), 1.0),
    (("workload.document_min", "Document, shortest", "Shortest document."), 1.0),
    (("workload.document_max", "Document, longest", "Longest document."), 1.0),
    (("workload.task_min", "Task, shortest", "Shortest description of a task, which all its agents share."), 1.0),
    (("workload.task_max", "Task, longest", "Longest description of a task, which all its agents share."), 1.0),
    (("workload.skew", "Skew", "Zipf exponent of tenant popularity; 0 gives every tenant the same share."), 0.1),
    (("workload.system_min", "System prompt, shortest", "Shortest system prompt of a tenant."), 1.0),
    (("workload.system_max", "System prompt, longest", "Longest system prompt of a tenant."), 1.0),
    (("workload.user_min", "User part, shortest", "Shortest part of a prompt that is its own."), 1.0),
    (("workload.user_max", "User part, longest", "Longest part of a prompt that is its own."), 1.0),
    (("workload.output_min", "Output, shortest", "Shortest answer."), 1.0),
    (("workload.output_max", "Output, longest", "Longest answer."), 1.0),
    (("workload.rate", "Arrival rate", "How fast requests arrive (Poisson)."), 0.05),
    (("engine.block_tokens", "Block size", "Tokens in one KV block; only full blocks are shared."), 1.0),
    (("engine.blocks", "KV blocks", "Blocks of each replica's pool: running sequences and cache share it."), 1.0),
    (("engine.max_batch", "Batch", "Most sequences running at once on a replica."), 1.0),
    (
        (
            "engine.token_budget",
            "Token budget",
            "Most new tokens in one step: small keeps gaps short, large keeps queues short.",
        ),
        1.0,
    ),
    (("engine.max_context", "Context", "Longest prompt plus output that the model can hold."), 1.0),
    (
        (
            "engine.adapter_slots",
            "Adapter slots",
            "LoRA adapters a replica holds at once; 0 if adapters cost nothing and are always there.",
        ),
        1.0,
    ),
    (("engine.adapter_blocks", "Memory of an adapter", "KV blocks that each adapter slot takes from the pool."), 1.0),
    (("engine.adapter_load_s", "Adapter load", "Time to load an adapter; the step that needs it waits."), 0.05),
    (("engine.watermark", "Watermark", "Share of the pool that admission leaves free for sequences that grow."), 0.01),
    (("tick.tick_s", "Tick", "Length of a tick, in a run in ticks."), 0.01),
    (
        (
            "tick.prefixes",
            "Prefixes remembered",
            "How many prefixes a replica remembers; it forgets what it used longest ago.",
        ),
        1.0,
    ),
    (("tick.hit_ticks", "Ticks of a hit", "How long a request takes whose prefix is remembered."), 1.0),
    (("tick.miss_ticks", "Ticks of a miss", "How long any other request takes."), 1.0),
    (("routing.routers", "Routers", "Routers that share the traffic; each counts only what it sent itself."), 1.0),
    (
        (
            "routing.scrape_s",
            "Scrape period",
            "Time between two readings of engine metrics; 0 reads them at every decision, which nothing real does.",
        ),
        0.05,
    ),
    (("routing.event_delay_s", "Event delay", "Age of KV events when they reach the routers."), 0.005),
    (("routing.event_loss", "Event loss", "Share of KV events that never reach the routers."), 0.01),
    (
        (
            "store.blocks",
            "Shared store",
            "KV blocks held behind the replicas for all of them: a prompt that one computed, another can fetch; 0 for no store.",
        ),
        1000.0,
    ),
    (("store.latency_s", "Store latency", "Delay of every fetch from the store."), 0.001),
    (("store.link_gb_per_s", "Link to the store", "Bandwidth of each replica's link; 1.25 is 10 Gbit/s."), 0.25),
    (
        (
            "store.total_gb_per_s",
            "Store bandwidth",
            "What the store sends to all replicas together; 0 if only their links limit it.",
        ),
        0.25,
    ),
    (
        (
            "store.token_bytes",
            "KV of a token",
            "KV bytes that a fetched token moves; 0 for those of the cost model's model.",
        ),
        1.0,
    ),
    (("events.join", "Replicas that join", "How many are added on the way, with empty caches; 0 for none."), 1.0),
    (("events.join_at_s", "They join at", "When the new replicas are created."), 1.0),
    (("events.warm_up_s", "Warm-up", "How long a new replica needs until it can serve."), 0.5),
    (
        (
            "events.leave",
            "Replicas that leave",
            "How many finish what they have and go, their caches with them; 0 for none.",
        ),
        1.0,
    ),
    (("events.leave_at_s", "They leave at", "When those replicas stop taking requests."), 1.0),
    (("events.slow", "Slow replicas", "How many replicas are slower than the rest; 0 for none."), 1.0),
    (("events.slow_factor", "How slow", "How many times as long their steps take."), 0.1),
    (("events.restart_at_s", "Routers restart at", "When the routers lose what they remember, if they restart."), 1.0),
    (
        ("slo.ttft_s", "TTFT limit", "A request is good if its first token comes within this time, and its ITL holds."),
        0.05,
    ),
    (
        (
            "slo.itl_s",
            "ITL limit",
            "A request is good if the mean gap between its tokens is at most this, and its TTFT holds.",
        ),
        0.005,
    ),
    (("execution.coefficients.step_us", "Cost of a step", "a: charged for every step."), 1.0),
    (
        (
            "execution.coefficients.prefill_token_us",
            "Cost of a prefill token",
            "b: charged for each prompt token computed.",
        ),
        1.0,
    ),
    (
        (
            "execution.coefficients.prefill_context_us",
            "Cost of prefill context",
            "c: charged for each prompt token computed and each token it attends to.",
        ),
        0.001,
    ),
    (
        (
            "execution.coefficients.decode_sequence_us",
            "Cost of a decoding sequence",
            "d: charged for each sequence that decodes a token.",
        ),
        1.0,
    ),
    (
        (
            "execution.coefficients.decode_context_us",
            "Cost of decode context",
            "e: charged for each token of context that a decoding sequence reads.",
        ),
        0.001,
    ),
];

const SWITCHES: &[Words] = &[
    (
        "engine.chunked_prefill",
        "Chunked prefill",
        "Split a long prefill over steps, so that running sequences go on meanwhile.",
    ),
    ("engine.one_prefill", "One prefill a step", "Admit at most one new sequence a step."),
    (
        "events.honest_readiness",
        "Honest readiness",
        "A new replica says that it is ready only once it can serve. Off: it is sent requests while it still warms up.",
    ),
    ("events.restart", "Routers restart", "The routers start afresh on the way: counts and indexes are gone."),
    ("engine.prefix_cache", "Prefix cache", "Keep full blocks and share them between requests that begin alike."),
];

const CHOICES: &[(Words, &[&str])] = &[
    (("workload.kind", "Workload", "Where requests come from."), &WorkloadSpec::KINDS),
    (
        (
            "workload.rate_unit",
            "Rate counts",
            "Requests per second, or multiples of what the fleet serves when nothing is reused.",
        ),
        &["per_second", "of_capacity"],
    ),
    (
        (
            "execution.mode",
            "Steps",
            "Priced by a cost model, computed by the real model, or no steps but ticks: replicas that remember a few prefixes.",
        ),
        &["priced", "tinygpt", "tick"],
    ),
    (
        (
            "store.fetch",
            "Fetch",
            "What the store holds and a replica does not is fetched when that is sooner than computing it, always, or never.",
        ),
        &["cheaper", "always", "never"],
    ),
    (("execution.cost", "Cost model", "What steps of a priced run cost."), &[]),
    (("execution.model", "Model", "Which TinyGPT computes a live run."), &["reference", "small"]),
    (("execution.device", "Device", "Where a live run computes."), &["auto", "cpu", "webgpu"]),
    (
        (
            "execution.charge",
            "Charge",
            "Charge steps by the cost model fitted to this device, or by the time each took. Both are measured anew in every run, so a live run's times differ from run to run.",
        ),
        &["fitted", "measured"],
    ),
];

/// Every setting of a spec. Defaults are those of the default workload, else of the first kind that has the setting.
fn settings() -> Vec<ParamInfo> {
    let mut defaults: Vec<(String, String)> = patch::entries(&Spec::default());
    for workload in WorkloadSpec::KINDS.into_iter().filter_map(WorkloadSpec::of_kind) {
        defaults.extend(patch::entries(&Spec { workload, ..Spec::default() }));
    }
    let default = |key: &str| defaults.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str());
    let info = |words: &Words, unit: &str, default, (min, max, step), kind| ParamInfo {
        name: words.0.into(),
        label: words.1.into(),
        unit: unit.into(),
        default,
        min,
        max,
        step,
        kind,
        help: words.2.into(),
    };
    let mut out = Vec::new();
    for (words, step) in NUMBERS {
        let Some(limit) = limit(words.0) else { continue };
        let kind = if limit.integer { ParamKind::Integer } else { ParamKind::Number };
        let default = default(words.0).and_then(|text| text.parse().ok()).unwrap_or(0.0);
        out.push(info(words, limit.unit, default, (limit.min, limit.max, *step), kind));
    }
    for words in SWITCHES {
        let on = default(words.0) == Some("on");
        out.push(info(words, "", f64::from(u8::from(on)), (0.0, 1.0, 1.0), ParamKind::Switch));
    }
    for (words, options) in CHOICES {
        let mut options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        if words.0 == "execution.cost" {
            options = costs::all().into_iter().map(|cost| cost.name).chain(["custom".to_owned()]).collect();
        }
        let chosen = default(words.0).unwrap_or(Spec::default().workload.kind());
        let index = options.iter().position(|option| option == chosen).unwrap_or(0);
        let max = (options.len() - 1) as f64;
        out.push(info(words, "", index as f64, (0.0, max, 1.0), ParamKind::Choice(options)));
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use servelab_spec::experiment::Coefficients;
    use servelab_spec::validate::LIMITS;
    use std::collections::BTreeSet;

    /// A spec of each kind of workload, with every setting there can be.
    fn complete() -> Vec<Spec> {
        let spec = |kind| {
            let mut spec = Spec { workload: WorkloadSpec::of_kind(kind).unwrap(), ..Spec::default() };
            spec.execution.coefficients = Some(Coefficients::default());
            spec
        };
        WorkloadSpec::KINDS.into_iter().map(spec).collect()
    }

    fn keys(spec: &Spec) -> impl Iterator<Item = String> {
        patch::entries(spec).into_iter().map(|(key, _)| key)
    }

    #[test]
    fn settings_and_specs_have_the_same_keys() {
        let listed = settings().into_iter().map(|setting| setting.name);
        let settings: BTreeSet<String> = listed.clone().collect();
        assert_eq!(settings.len(), listed.count(), "each once");
        let mut all: BTreeSet<String> = complete().iter().flat_map(keys).collect();
        all.remove("policies");
        all.insert("workload.kind".into());
        assert_eq!(settings, all);
        assert!(LIMITS.iter().all(|limit| settings.contains(limit.key)));
    }

    #[test]
    fn ends_of_every_setting_can_be_set_and_beyond_cannot() {
        for setting in settings() {
            assert!(setting.default >= setting.min && setting.default <= setting.max, "{}", setting.name);
            assert!(!setting.label.is_empty() && !setting.help.is_empty() && setting.step > 0.0);
            let texts: Vec<String> = match &setting.kind {
                ParamKind::Choice(options) => options.clone(),
                _ => vec![setting.min.to_string(), setting.max.to_string(), setting.default.to_string()],
            };
            let beyond = if matches!(setting.kind, ParamKind::Choice(_)) {
                "nothing-like-it".into()
            } else {
                (setting.max * 2.0 + 1.0).to_string()
            };
            let kind = setting.name == "workload.kind";
            for spec in complete().iter().filter(|spec| kind || keys(spec).any(|key| key == setting.name)) {
                for text in &texts {
                    patch::set(spec, &setting.name, text).unwrap();
                }
                if setting.name != "execution.cost" {
                    patch::set(spec, &setting.name, &beyond).unwrap_err();
                }
            }
        }
    }

    #[test]
    fn every_preset_is_valid_and_bears_its_name() {
        for preset in presets::all() {
            check(&preset.spec).unwrap();
            assert_eq!(preset.spec.preset, preset.name);
            assert!(preset.question.ends_with('?'));
        }
    }

    #[test]
    fn catalogs_survive_json() {
        let text = serde_json::to_string(&catalog()).unwrap();
        assert_eq!(serde_json::from_str::<Catalog>(&text).unwrap(), catalog());
    }

    #[test]
    fn labels_say_what_differs() {
        let affinity = PolicySpec::named("prefix_affinity");
        assert_eq!(policy_label(&affinity), "Prefix affinity");
        assert_eq!(policy_label(&affinity.clone().with("guard", 1.0)), "Prefix affinity");
        assert_eq!(policy_label(&affinity.with("guard", 0.0)), "Prefix affinity (imbalance guard off)");
        // A script is called what it calls itself.
        assert_eq!(policy_label(&PolicySpec::named("script")), "Your own script");
        assert_eq!(policy_label(&PolicySpec::scripted("fn route(a, b) { 0 }")), "Your own script");
        let named = PolicySpec::scripted("//  Mine, all mine \nfn route(a, b) { 0 }").with("tier", 1.0);
        assert_eq!(policy_label(&named), "Mine, all mine (signals local + polled)");
    }

    #[test]
    fn what_does_not_exist_is_refused() {
        let spec = Spec { policies: vec![PolicySpec::named("psychic")], ..Spec::default() };
        assert!(check(&spec).unwrap_err().accepted.contains("round_robin"));
        let mut spec = Spec::default();
        spec.execution.cost = "abacus".into();
        assert_eq!(check(&spec).unwrap_err().field, "execution.cost");
    }

    #[test]
    fn scripts_are_blamed_by_their_place_and_examples_run() {
        let spec = |policies| Spec { policies, ..Spec::default() };
        let broken =
            spec(vec![PolicySpec::named("script"), PolicySpec::scripted("fn route(request, replicas) {\n(\n}")]);
        let error = check(&broken).unwrap_err();
        assert_eq!(error.field, "policies.1.script");
        assert!(error.found.starts_with("line "), "{error}");
        let misplaced = PolicySpec { script: Some("x".into()), ..PolicySpec::named("round_robin") };
        assert_eq!(check(&spec(vec![misplaced])).unwrap_err().field, "policies.0.script");
        let examples = catalog().script.examples;
        assert_eq!(examples.len(), 2);
        let policies = examples.iter().map(|of| PolicySpec::scripted(&of.text).with("tier", of.tier.into())).collect();
        let report = crate::run_priced(&spec(policies)).unwrap();
        for (policy, example) in report.policies.iter().zip(&examples) {
            assert_eq!(policy.requests.finished, 200);
            assert!(policy.label.starts_with(&example.title), "{}", policy.label);
        }
    }

    #[test]
    fn the_page_refuses_what_the_lab_refuses() {
        let policy = |policy: PolicySpec| Spec { policies: vec![policy], ..Spec::default() };
        let affinity = || PolicySpec::named("prefix_affinity");
        let mut cost = Spec::default();
        cost.execution.cost = "abacus".into();
        let specs = [
            (policy(affinity()), true),
            (policy(affinity().with("guard_ratio", 1.0)), true),
            (policy(affinity().with("guard_ratio", 0.5)), false),
            (policy(affinity().with("guard_ratio", 1e9)), false),
            (policy(affinity().with("guard", 0.5)), false),
            (policy(affinity().with("prefix_tokens", 1.5)), false),
            (policy(affinity().with("ties", 9.0)), false),
            (policy(affinity().with("mood", 1.0)), false),
            (policy(PolicySpec::named("psychic")), false),
            (cost, false),
        ];
        let catalog = catalog();
        for (spec, accepted) in specs {
            assert_eq!(check(&spec).is_ok(), accepted, "{:?}", spec.policies);
            assert_eq!(catalog.check(&spec).is_ok(), accepted, "{:?}", spec.policies);
        }
        for preset in &catalog.presets {
            assert_eq!(catalog.check(&preset.spec), Ok(()), "{}", preset.name);
        }
    }
}
