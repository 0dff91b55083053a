//! What can be chosen, assembled from the registries; and whether what a spec chose exists.

mod choices;
mod words;

pub use choices::numbered;

use crate::{costs, lessons, presets, startup, storm};
use servelab_fleet::clients;
use servelab_fleet::registry;
use servelab_fleet::routing::script_reference;
use servelab_fleet::scaling::registry as controllers;
use servelab_spec::SCHEMA_VERSION;
use servelab_spec::catalog::{Catalog, ParamInfo, ParamKind};
use servelab_spec::experiment::{ClientSpec, Contender, ControllerSpec, PolicySpec, Spec, WorkloadSpec};
use servelab_spec::patch;
use servelab_spec::validate::{SpecError, limit};
use std::collections::BTreeMap;

/// Everything that can be chosen.
pub fn catalog() -> Catalog {
    Catalog {
        version: SCHEMA_VERSION,
        policies: registry::catalog(),
        controllers: controllers::catalog(),
        clients: clients::registry::catalog(),
        presets: presets::all(),
        lessons: lessons::lessons(),
        interview: lessons::interview(),
        costs: costs::all(),
        startups: startup::presets::all(),
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
    for controller in &spec.scaling.controllers {
        controllers::build(controller)?;
    }
    storm::clients(spec, None)?;
    costs::resolve(spec).map(|_| ())
}

/// A controller's name for people, with the parameters that differ from its defaults.
pub fn controller_label(controller: &ControllerSpec) -> String {
    let Some(info) = controllers::catalog().into_iter().find(|info| info.name == controller.name) else {
        return patch::controllers_text(std::slice::from_ref(controller));
    };
    let notes = notes(&info.params, &controller.params);
    if notes.is_empty() { info.label } else { format!("{} ({})", info.label, notes.join(", ")) }
}

/// A client policy's name for people, with the parameters that differ from its defaults.
pub fn client_label(policy: &ClientSpec) -> String {
    let Some(preset) = clients::presets::find(&policy.name) else {
        return patch::clients_text(std::slice::from_ref(policy));
    };
    let notes = notes(&clients::registry::params(preset), &policy.params);
    if notes.is_empty() { preset.label.into() } else { format!("{} ({})", preset.label, notes.join(", ")) }
}

/// A run's name for people: what tells it apart from the others.
pub fn contender_label(spec: &Spec, contender: Contender) -> String {
    let policy = || policy_label(&spec.policies[contender.policy]);
    let clients = contender.clients.map(|index| client_label(&spec.clients.policies[index]));
    if let Some(clients) = clients {
        let rest = Contender { clients: None, ..contender };
        let alone = spec.policies.len() == 1 && spec.scaling.controllers.len() <= 1;
        return match spec.clients.policies.len() {
            _ if alone => clients,
            1 => contender_label(spec, rest),
            _ => format!("{}, {clients}", contender_label(spec, rest)),
        };
    }
    match contender.controller.map(|index| controller_label(&spec.scaling.controllers[index])) {
        None => policy(),
        Some(controller) if spec.policies.len() == 1 => controller,
        Some(_) if spec.scaling.controllers.len() == 1 => policy(),
        Some(controller) => format!("{}, {controller}", policy()),
    }
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
    let notes = notes(&info.params, &policy.params);
    if notes.is_empty() { label } else { format!("{label} ({})", notes.join(", ")) }
}

/// What differs from the defaults, in words.
fn notes(declared: &[ParamInfo], given: &BTreeMap<String, f64>) -> Vec<String> {
    let mut notes = Vec::new();
    for param in declared {
        if let Some(&value) = given.get(&param.name).filter(|&&value| value != param.default) {
            let name = param.label.to_lowercase();
            notes.push(match &param.kind {
                ParamKind::Switch => format!("{name} {}", if value == 0.0 { "off" } else { "on" }),
                ParamKind::Choice(options) => {
                    format!(
                        "{name} {}",
                        options.get(value as usize).map_or("?".into(), |option| option.replace('_', " "))
                    )
                }
                ParamKind::Number | ParamKind::Integer => format!("{name} {value}"),
            });
        }
    }
    notes
}

/// What the setting `key` is called, and what it changes.
pub(crate) fn words_of(key: &str) -> (&'static str, &'static str) {
    let numbers = words::numbers().map(|(words, _)| words);
    let choices = words::choices().map(|(words, _)| words);
    let all = numbers.chain(words::switches()).chain(choices);
    all.filter(|words| words.0 == key).map(|words| (words.1, words.2)).next().unwrap_or_default()
}

/// Every setting of a spec. Defaults are those of the default workload, else of the first kind that has the setting.
fn settings() -> Vec<ParamInfo> {
    let mut defaults: Vec<(String, String)> = patch::entries(&Spec::default());
    for workload in WorkloadSpec::KINDS.into_iter().filter_map(WorkloadSpec::of_kind) {
        defaults.extend(patch::entries(&Spec { workload, ..Spec::default() }));
    }
    let default = |key: &str| defaults.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str());
    let info = |words: &words::Words, unit: &str, default, (min, max, step), kind| ParamInfo {
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
    for (words, step) in words::numbers() {
        let Some(limit) = limit(words.0) else { continue };
        let kind = if limit.integer { ParamKind::Integer } else { ParamKind::Number };
        let default = default(words.0).and_then(|text| text.parse().ok()).unwrap_or(0.0);
        out.push(info(words, limit.unit, default, (limit.min, limit.max, *step), kind));
    }
    for words in words::switches() {
        let on = default(words.0) == Some("on");
        out.push(info(words, "", f64::from(u8::from(on)), (0.0, 1.0, 1.0), ParamKind::Switch));
    }
    for (words, options) in words::choices() {
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
        // Lists and texts have forms of their own.
        let contenders = ["policies", "scaling.controllers", "clients.policies"];
        for key in contenders.into_iter().chain(["gateway.classes", "workload.curve", "workload.trace"]) {
            assert!(all.remove(key), "{key}");
        }
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
