//! The JSON Schema of spec and report: the files that the page serves are those that the types make, and what the lab reads and writes is valid by them.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use servelab_lab::{presets, run_priced};
use servelab_spec::experiment::WorkloadSpec;
use servelab_spec::{Spec, patch, schema};

/// What is wrong with `value`, by as much of JSON Schema as there is in ours; a keyword that is not known here is an error, so nothing goes unchecked.
fn wrong(whole: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    let Value::Object(rules) = schema else {
        return (schema == &Value::Bool(false)).then(|| format!("{at}: nothing is allowed here"));
    };
    let sub = |schema: &Value, value: &Value| wrong(whole, schema, value, at);
    for (keyword, rule) in rules {
        let found = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "default" | "format" => None,
            "$ref" => {
                let path = rule.as_str().unwrap().strip_prefix('#').unwrap();
                sub(whole.pointer(path).unwrap(), value)
            }
            "type" => {
                let is = |name: &Value| match name.as_str().unwrap() {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "null" => value.is_null(),
                    "number" => value.is_number(),
                    "integer" => value.is_u64() || value.is_i64(),
                    other => panic!("type {other}"),
                };
                let fits = rule.as_array().map_or_else(|| is(rule), |names| names.iter().any(is));
                (!fits).then(|| format!("{at}: {value} is no {rule}"))
            }
            "const" => (rule != value).then(|| format!("{at}: {value} is not {rule}")),
            "enum" => (!rule.as_array().unwrap().contains(value)).then(|| format!("{at}: {value} is none of {rule}")),
            "minimum" => {
                (value.as_f64() < rule.as_f64() && value.is_number()).then(|| format!("{at}: {value} < {rule}"))
            }
            "maximum" => {
                (value.as_f64() > rule.as_f64() && value.is_number()).then(|| format!("{at}: {value} > {rule}"))
            }
            "items" => value.as_array().and_then(|items| items.iter().find_map(|item| sub(rule, item))),
            "required" => value.as_object().and_then(|fields| {
                let missing =
                    rule.as_array().unwrap().iter().find(|name| !fields.contains_key(name.as_str().unwrap()))?;
                Some(format!("{at}: {missing} is missing"))
            }),
            "properties" => value.as_object().and_then(|fields| {
                let known = rule.as_object().unwrap();
                let field = |(name, value)| wrong(whole, known.get(name)?, value, &format!("{at}.{name}"));
                fields.iter().find_map(field)
            }),
            "additionalProperties" => value.as_object().and_then(|fields| {
                let known = rules.get("properties").and_then(Value::as_object);
                let others = fields.iter().filter(|(name, _)| known.is_none_or(|known| !known.contains_key(*name)));
                let mut others = others.map(|(name, value)| wrong(whole, rule, value, &format!("{at}.{name}")));
                others.find_map(|found| found)
            }),
            "allOf" => rule.as_array().unwrap().iter().find_map(|one| sub(one, value)),
            "anyOf" | "oneOf" => {
                let fits = rule.as_array().unwrap().iter().filter(|one| sub(one, value).is_none()).count();
                let good = if keyword == "oneOf" { fits == 1 } else { fits > 0 };
                (!good).then(|| format!("{at}: {fits} alternatives fit {value}"))
            }
            other => panic!("the keyword {other} is not known to this test: {rule}"),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

fn check(schema: &Value, value: &Value) -> Option<String> {
    wrong(schema, schema, value, "")
}

#[test]
fn the_files_are_what_the_types_make() {
    for (name, schema) in schema::all() {
        let path = format!("{}/../../www/schema/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        let fresh = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        assert!(text == fresh, "www/schema/{name}.json is old: servelab schema {name} > www/schema/{name}.json");
    }
}

#[test]
fn every_preset_and_every_workload_is_valid() {
    let schema = schema::of_spec();
    for preset in presets::all() {
        let value = serde_json::to_value(&preset.spec).unwrap();
        assert_eq!(check(&schema, &value), None, "{}", preset.name);
    }
    for kind in WorkloadSpec::KINDS {
        let spec = patch::set(&Spec::default(), "workload.kind", kind).unwrap();
        assert_eq!(check(&schema, &serde_json::to_value(&spec).unwrap()), None, "{kind}");
    }
    // A part of a spec is one: the rest has its defaults.
    assert_eq!(check(&schema, &json!({ "replicas": 8 })), None);
}

#[test]
fn reports_are_valid() {
    let schema = schema::of_report();
    for (name, changes) in [
        ("book-trace", vec![]),
        ("noisy-tenant", vec![("workload.requests", "200"), ("gateway.rate_per_s", "0.5")]),
        ("retry-storm", vec![("workload.requests", "200")]),
    ] {
        let start = presets::find(name).unwrap().spec;
        let spec = changes.iter().fold(start, |spec, (key, value)| patch::set(&spec, key, value).unwrap());
        let value = serde_json::to_value(run_priced(&spec).unwrap()).unwrap();
        assert_eq!(check(&schema, &value), None, "{name}");
    }
}

/// What the lab refuses, the schema does: an unknown field, a value of another type, a workload's field of another kind, a report with something missing.
#[test]
fn what_is_wrong_is_refused() {
    let schema = schema::of_spec();
    let good = serde_json::to_value(Spec::default()).unwrap();
    for (pointer, value, about) in [
        ("/replica", json!(4), "replica"),
        ("/replicas", json!("four"), "replicas"),
        ("/replicas", json!(-1), "replicas"),
        ("/engine/block_token", json!(16), "block_token"),
        ("/workload/kind", json!("nonsense"), "workload"),
        ("/workload/turns_min", json!(2), "workload"),
        ("/execution/mode", json!("guessed"), "mode"),
    ] {
        let mut bad = good.clone();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        bad.pointer_mut(parent).unwrap()[name] = value;
        let found = check(&schema, &bad).unwrap_or_else(|| panic!("{pointer} is let through"));
        assert!(found.contains(about), "{pointer}: {found}");
        assert!(patch::from_json(&bad.to_string()).is_err(), "{pointer}: the lab takes what the schema does not");
    }
    let report = schema::of_report();
    let mut value = serde_json::to_value(run_priced(&presets::find("book-trace").unwrap().spec).unwrap()).unwrap();
    value["policies"][0].as_object_mut().unwrap().remove("ttft_s");
    assert!(check(&report, &value).unwrap().contains("ttft_s"));
}
