//! Every policy there is. A plain static list: adding a policy is one line here and one file.

use super::params::Params;
use super::{
    Policy, aibrix_prefix_cache, blend, composed, dynamo_kv, envoy_least_request, join_idle_queue, kubeai_prefix_hash,
    least_kv_cache, least_qps, least_requests, least_tokens, llm_d_affinity, llm_d_default, power_of_two,
    prefix_affinity, prefix_modulo, production_stack_loadaware, production_stack_prefixaware, random,
    ray_prefix_cache_affinity, round_robin, script, session_sticky, sglang_cache_aware, smg_least_load,
    smg_prefix_hash,
};
use servelab_spec::catalog::PolicyInfo;
use servelab_spec::experiment::PolicySpec;
use servelab_spec::validate::SpecError;

/// A policy's place in the registry.
pub struct Entry {
    /// Its stable snake_case name.
    pub name: &'static str,
    /// Its description.
    pub info: fn() -> PolicyInfo,
    /// Builds it from checked parameters.
    pub(crate) build: fn(&Params) -> Box<dyn Policy>,
}

/// The policies, in the order in which they are listed.
pub static POLICIES: &[Entry] = &[
    // Plain.
    round_robin::ENTRY,
    random::ENTRY,
    least_requests::ENTRY,
    least_tokens::ENTRY,
    power_of_two::ENTRY,
    join_idle_queue::ENTRY,
    envoy_least_request::ENTRY,
    least_qps::ENTRY,
    least_kv_cache::ENTRY,
    smg_least_load::ENTRY,
    // Affinity.
    session_sticky::ENTRY,
    prefix_modulo::ENTRY,
    prefix_affinity::ENTRY,
    kubeai_prefix_hash::ENTRY,
    smg_prefix_hash::ENTRY,
    // Cache-aware.
    production_stack_prefixaware::ENTRY,
    production_stack_loadaware::ENTRY,
    sglang_cache_aware::LAUNCHER,
    sglang_cache_aware::LIBRARY,
    aibrix_prefix_cache::ENTRY,
    ray_prefix_cache_affinity::ENTRY,
    llm_d_default::ENTRY,
    llm_d_affinity::ENTRY,
    dynamo_kv::ENTRY,
    blend::ENTRY,
    // Composed.
    composed::ENTRY,
    // Your own.
    script::ENTRY,
];

/// The field of errors about a script. Whoever knows which policy of a list it is puts its index there.
pub const SCRIPT_FIELD: &str = script::FIELD;

/// Descriptions of all policies, for the catalog.
pub fn catalog() -> Vec<PolicyInfo> {
    POLICIES.iter().map(|entry| (entry.info)()).collect()
}

/// Whether the policy of that name looks at what prompts say, by its own description; where nobody does, priced runs leave token ids out, which are most
/// of what a request weighs.
pub(crate) fn reads_prompt(name: &str) -> bool {
    POLICIES.iter().find(|entry| entry.name == name).is_none_or(|entry| (entry.info)().reads_prompt)
}

/// Builds a policy.
///
/// # Errors
/// [`SpecError`] naming the field: an unknown policy (`policies.name`), an unknown parameter or one out of range
/// (`policies.<policy>.<parameter>`), a script that can not be read ([`SCRIPT_FIELD`]).
pub fn build(spec: &PolicySpec) -> Result<Box<dyn Policy>, SpecError> {
    let Some(entry) = POLICIES.iter().find(|entry| entry.name == spec.name) else {
        let known: Vec<&str> = POLICIES.iter().map(|entry| entry.name).collect();
        return Err(SpecError::new("policies.name", &spec.name, format!("policies are {}", known.join(", "))));
    };
    servelab_spec::validate::check_script(&format!("policies.{}.script", spec.name), spec)?;
    let params = Params::check(&(entry.info)(), spec)?;
    match &spec.script {
        Some(text) => script::compile(text, &params),
        None => Ok((entry.build)(&params)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use servelab_spec::catalog::ParamKind;

    #[test]
    fn descriptions_agree_with_entries_and_are_complete() {
        let mut names = std::collections::BTreeSet::new();
        for (entry, info) in POLICIES.iter().zip(catalog()) {
            assert_eq!(entry.name, info.name);
            assert!(names.insert(entry.name), "{} twice", entry.name);
            assert!(entry.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
            for text in [&info.label, &info.summary, &info.reads, &info.fails] {
                assert!(!text.is_empty());
            }
            for param in &info.params {
                assert!(param.min <= param.default && param.default <= param.max && param.step > 0.0);
                assert!(!param.help.is_empty());
                if let ParamKind::Choice(options) = &param.kind {
                    assert_eq!((param.min, param.max), (0.0, (options.len() - 1) as f64));
                }
            }
        }
    }

    #[test]
    fn every_policy_builds_at_the_ends_of_its_ranges() {
        for info in catalog() {
            let pick = |value: fn(&servelab_spec::catalog::ParamInfo) -> f64| PolicySpec {
                name: info.name.clone(),
                params: info.params.iter().map(|param| (param.name.clone(), value(param))).collect(),
                script: None,
            };
            for spec in [pick(|param| param.default), pick(|param| param.min), pick(|param| param.max)] {
                assert!(build(&spec).is_ok(), "{spec:?}");
            }
        }
    }

    #[test]
    fn what_is_not_accepted_is_named() {
        let error = build(&PolicySpec::named("fastest")).err().unwrap();
        assert_eq!((error.field.as_str(), error.found.as_str()), ("policies.name", "fastest"));
        assert!(error.accepted.contains("prefix_affinity"));
        let error = build(&PolicySpec::named("round_robin").with("x", 1.0)).err().unwrap();
        assert_eq!(error.field, "policies.round_robin.x");
        for (param, value) in
            [("prefix_tokens", 1.5), ("guard_ratio", 0.5), ("guard_ratio", f64::NAN), ("guard", 2.0), ("ties", -1.0)]
        {
            let error = build(&PolicySpec::named("prefix_affinity").with(param, value)).err().unwrap();
            assert_eq!(error.field, format!("policies.prefix_affinity.{param}"));
            assert!(error.accepted.starts_with("use "));
        }
    }
}
