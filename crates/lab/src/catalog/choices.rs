//! Parameters of policies by the names of their options, as people type them: `kubernetes_hpa(signal=in_flight)`. A spec holds numbers.

use servelab_fleet::clients;
use servelab_fleet::registry;
use servelab_fleet::scaling::registry as controllers;
use servelab_spec::catalog::{ParamInfo, ParamKind};
use servelab_spec::experiment::Spec;

/// What is set under `key` with names of options and `on` and `off` turned into the numbers of a list of policies. What is no such name stays as it is, for
/// whoever reads it to refuse.
pub fn numbered(spec: &Spec, key: &str, value: &str) -> String {
    if matches!(key, "policies" | "scaling.controllers" | "clients.policies") {
        return in_list(value, |name| params(key, name));
    }
    let of = |list: &str, names: Vec<&String>| -> Option<ParamInfo> {
        let (at, param) = key.strip_prefix(list)?.strip_prefix('.')?.split_once(".params.")?;
        let name = names.get(at.parse::<usize>().ok()?)?;
        params(list, name).into_iter().find(|info| info.name == param)
    };
    let param = of("policies", spec.policies.iter().map(|policy| &policy.name).collect())
        .or_else(|| of("scaling.controllers", spec.scaling.controllers.iter().map(|of| &of.name).collect()))
        .or_else(|| of("clients.policies", spec.clients.policies.iter().map(|of| &of.name).collect()));
    param.map_or(value.to_owned(), |param| number(&param, value))
}

/// The parameters of what is called `name` in the list `key`.
fn params(key: &str, name: &str) -> Vec<ParamInfo> {
    let found = match key {
        "policies" => registry::catalog().into_iter().find(|info| info.name == name).map(|info| info.params),
        "scaling.controllers" => {
            controllers::catalog().into_iter().find(|info| info.name == name).map(|info| info.params)
        }
        _ => clients::presets::find(name).map(clients::registry::params),
    };
    found.unwrap_or_default()
}

/// The same of a whole list: whatever stands in brackets after a name.
fn in_list(text: &str, params: impl Fn(&str) -> Vec<ParamInfo>) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, (inside, after))) =
        rest.split_once('(').and_then(|(before, behind)| Some((before, behind.split_once(')')?)))
    {
        let known = params(before.rsplit(',').next().unwrap_or_default().trim());
        let pair = |pair: &str| match pair.split_once('=') {
            Some((name, value)) => {
                let param = known.iter().find(|param| param.name == name.trim());
                format!("{name}={}", param.map_or(value.to_owned(), |param| number(param, value)))
            }
            None => pair.to_owned(),
        };
        let pairs: Vec<String> = inside.split(',').map(pair).collect();
        out.push_str(&format!("{before}({})", pairs.join(",")));
        rest = after;
    }
    out + rest
}

fn number(param: &ParamInfo, text: &str) -> String {
    let found = match (&param.kind, text.trim()) {
        (ParamKind::Switch, "on" | "yes" | "true") => Some(1),
        (ParamKind::Switch, "off" | "no" | "false") => Some(0),
        (ParamKind::Choice(options), text) => options.iter().position(|option| plain(option) == plain(text)),
        _ => None,
    };
    found.map_or(text.to_owned(), |number| number.to_string())
}

/// An option as one word: what explains it in brackets left out, and `_` between words.
fn plain(option: &str) -> String {
    let words = option.split(" (").next().unwrap_or_default();
    let words = words.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use servelab_spec::experiment::ClientSpec;
    use servelab_spec::patch;

    #[test]
    fn options_are_set_by_their_names() {
        let spec = Spec::default();
        let clients = numbered(
            &spec,
            "clients.policies",
            "openai_sdk(jitter=full, retry_after=to_the_letter,attempts=5),grpc,immediate(budget=deposits,breaker=on)",
        );
        assert_eq!(clients, "openai_sdk(jitter=1, retry_after=1,attempts=5),grpc,immediate(budget=1,breaker=1)");
        let policies = numbered(&spec, "policies", "round_robin,prefix_affinity(guard=off)");
        assert_eq!(policies, "round_robin,prefix_affinity(guard=0)");
        // Every option of every parameter, by its own name.
        for preset in clients::presets::PRESETS {
            for param in clients::registry::params(preset) {
                let ParamKind::Choice(options) = &param.kind else { continue };
                for (at, option) in options.iter().enumerate() {
                    assert_eq!(number(&param, &plain(option)), at.to_string(), "{option}");
                }
            }
        }
    }

    #[test]
    fn a_single_parameter_and_what_is_no_name_of_an_option() {
        let mut spec = Spec::default();
        spec.clients.policies = vec![ClientSpec::named("openai_sdk")];
        assert_eq!(numbered(&spec, "clients.policies.0.params.jitter", "around"), "4");
        assert_eq!(numbered(&spec, "clients.policies.0.params.attempts", "7"), "7");
        for (key, value) in [
            ("clients.policies.0.params.jitter", "sideways"),
            ("clients.policies.9.params.jitter", "full"),
            ("workload.rate", "full"),
            ("clients.policies", "openai_sdk(jitter=sideways)"),
            ("clients.policies", "openai_sdk(jitter"),
        ] {
            assert_eq!(numbered(&spec, key, value), value);
        }
        assert!(patch::set(&spec, "clients.policies.0.params.jitter", "sideways").is_err());
    }
}
