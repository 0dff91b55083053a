//! What the picker offers: grouped by family, found by words, and made different from what is there already.

use servelab_spec::catalog::{Family, ParamInfo, ParamKind, PolicyInfo};
use servelab_spec::experiment::PolicySpec;

/// Policies under the names of their families, in registry order; families without any are left out.
pub(super) fn grouped(known: &[PolicyInfo], query: &str) -> Vec<(Family, Vec<PolicyInfo>)> {
    let mut groups: Vec<(Family, Vec<PolicyInfo>)> = Vec::new();
    for info in known.iter().filter(|info| matches(info, query)) {
        match groups.iter_mut().find(|(family, _)| *family == info.family) {
            Some((_, members)) => members.push(info.clone()),
            None => groups.push((info.family, vec![info.clone()])),
        }
    }
    groups.sort_by_key(|(family, _)| *family);
    groups
}

/// Every word of the query occurs somewhere in what a policy is called or does.
fn matches(info: &PolicyInfo, query: &str) -> bool {
    let text = [&info.label, &info.name, &info.project, info.family.label(), &info.summary].join(" ").to_lowercase();
    query.to_lowercase().split_whitespace().all(|word| text.contains(word))
}

/// A policy that is not in the list yet: with its defaults, or as a variant with one parameter changed, since the same policy with the
/// same parameters would only be itself again.
pub(super) fn fresh(info: &PolicyInfo, all: &[PolicySpec]) -> Option<PolicySpec> {
    let plain = PolicySpec::named(&info.name);
    if !all.contains(&plain) {
        return Some(plain);
    }
    // What a switch or a choice changes is seen at once; how ties are broken rarely is, so that comes last.
    let rank = |param: &&ParamInfo| match (param.name.as_str(), &param.kind) {
        ("ties", _) => 2,
        (_, ParamKind::Number | ParamKind::Integer) => 1,
        _ => 0,
    };
    let mut params: Vec<&ParamInfo> = info.params.iter().collect();
    params.sort_by_key(rank);
    let variants = params.into_iter().flat_map(|param| {
        others(param).into_iter().map(|value| PolicySpec::named(&info.name).with(&param.name, value))
    });
    variants.into_iter().find(|policy| !all.contains(policy))
}

/// Values other than the default, the nearest to it first: the other position of a switch, half and twice a number.
fn others(param: &ParamInfo) -> Vec<f64> {
    let candidates = match &param.kind {
        ParamKind::Switch => vec![1.0 - param.default],
        ParamKind::Choice(options) => (0..options.len()).map(|at| at as f64).collect(),
        ParamKind::Number => vec![param.default / 2.0, param.default * 2.0, param.min, param.max],
        ParamKind::Integer => vec![(param.default / 2.0).round(), param.default * 2.0, param.min, param.max],
    };
    candidates.into_iter().filter(|&value| value != param.default && param.check(&param.name, value).is_ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn param(name: &str, kind: ParamKind, default: f64, max: f64) -> ParamInfo {
        ParamInfo {
            name: name.into(),
            label: name.into(),
            unit: String::new(),
            default,
            min: 0.0,
            max,
            step: 1.0,
            kind,
            help: String::new(),
        }
    }

    fn info(name: &str, family: Family, project: &str, params: Vec<ParamInfo>) -> PolicyInfo {
        PolicyInfo {
            name: name.into(),
            family,
            project: project.into(),
            reads_prompt: false,
            compares: String::new(),
            label: name.replace('_', " "),
            summary: "Sends each request somewhere.".into(),
            reads: String::new(),
            fails: String::new(),
            params,
        }
    }

    #[test]
    fn a_policy_added_again_is_a_variant_until_there_is_none_left() {
        let ties = param("ties", ParamKind::Choice(vec!["lowest".into(), "random".into()]), 0.0, 1.0);
        let ratio = param("ratio", ParamKind::Number, 2.0, 3.0);
        let guard = param("guard", ParamKind::Switch, 1.0, 1.0);
        let info = info("prefix_affinity", Family::Affinity, "", vec![ties, ratio, guard]);
        let mut all: Vec<PolicySpec> = Vec::new();
        while let Some(policy) = fresh(&info, &all) {
            assert!(!all.contains(&policy));
            all.push(policy);
        }
        let params: Vec<Vec<(&str, f64)>> = all
            .iter()
            .map(|policy| policy.params.iter().map(|(key, value)| (key.as_str(), *value)).collect())
            .collect();
        // Twice the ratio is out of range.
        let wanted: [&[(&str, f64)]; 6] =
            [&[], &[("guard", 0.0)], &[("ratio", 1.0)], &[("ratio", 0.0)], &[("ratio", 3.0)], &[("ties", 1.0)]];
        assert_eq!(params, wanted);
    }

    #[test]
    fn policies_stand_by_family_and_are_found_by_any_of_their_words() {
        let known = [
            info("prefix_aware", Family::CacheAware, "vLLM production-stack", vec![]),
            info("random", Family::Plain, "", vec![]),
            info("cache_aware", Family::CacheAware, "SGLang", vec![]),
        ];
        let names = |query: &str| -> Vec<(Family, Vec<String>)> {
            let groups = grouped(&known, query).into_iter();
            groups.map(|(family, members)| (family, members.into_iter().map(|info| info.name).collect())).collect()
        };
        let (plain, aware) = (Family::Plain, Family::CacheAware);
        assert_eq!(
            names(""),
            [(plain, vec!["random".into()]), (aware, vec!["prefix_aware".into(), "cache_aware".into()])]
        );
        assert_eq!(names("  AWARE sglang "), [(aware, vec!["cache_aware".into()])]);
        assert_eq!(names("cache-aware production"), [(aware, vec!["prefix_aware".into()])]);
        assert!(names("quantum").is_empty());
    }
}
