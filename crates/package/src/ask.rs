//! From what a program hands in to a spec: an object, or an address of the page.
//!
//! An object with a `version`, or a report, is a whole spec, and what it leaves out has its default, as in a file for the command line. Any other
//! object says what differs from its `preset`: nested as in a spec (`{workload: {rate: 0.9}}`) or by dotted keys (`{"workload.rate": 0.9}`). Lists
//! are replaced as a whole, and their items may be written as in an address (`"prefix_affinity(guard=0)"`).
//!
//! Every change goes through [`patch::set`], one by one, so an error names the very field and what would be accepted there.

use serde_json::{Map, Value};
use servelab_lab::{catalog, presets};
use servelab_spec::experiment::ExecutionMode;
use servelab_spec::validate::SpecError;
use servelab_spec::{Spec, patch, wire};

/// What can be handed in, for errors.
const ACCEPTED: &str =
    "accepted are an object with a preset and what differs from it, a whole spec, a report, or the text of an address";

/// The lists of a spec. They are set as a whole; everything else is, one value at a time.
const LISTS: [&str; 3] = ["policies", "scaling.controllers", "clients.policies"];

/// Reads what a program hands in: JSON of an object, else the text of an address or the name of a preset.
///
/// # Errors
/// The first field at fault.
pub fn spec(text: &str) -> Result<Spec, SpecError> {
    let text = text.trim();
    let spec = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(fields)) if fields.contains_key("version") || is_report(&fields) => whole(text, &fields)?,
        Ok(Value::Object(fields)) => changed(&fields)?,
        Ok(_) => return Err(SpecError::new("spec", clip(text), ACCEPTED)),
        Err(_) => address(text)?,
    };
    catalog::check(&spec)?;
    if spec.execution.mode == ExecutionMode::Tinygpt {
        let accepted = "the package simulates and computes no model; accepted are priced, tick and server";
        return Err(SpecError::new("execution.mode", "tinygpt", accepted));
    }
    Ok(spec)
}

fn is_report(fields: &Map<String, Value>) -> bool {
    fields.get("spec").is_some_and(Value::is_object)
}

/// A whole spec. Where it can not be read as one, its fields are tried one by one, to say which it is.
fn whole(text: &str, fields: &Map<String, Value>) -> Result<Spec, SpecError> {
    patch::from_json(text).map_err(|error| {
        let inner = fields.get("spec").and_then(Value::as_object).unwrap_or(fields);
        let found = if error.field == "spec" { apply(Spec::default(), inner).err() } else { None };
        found.unwrap_or(error)
    })
}

/// A preset and what differs from it.
fn changed(fields: &Map<String, Value>) -> Result<Spec, SpecError> {
    let start = match fields.get("preset") {
        None => presets::all().into_iter().next().map_or_else(Spec::default, |preset| preset.spec),
        Some(Value::String(name)) => preset(name)?,
        Some(other) => return Err(SpecError::new("preset", other, "accepted is the name of a preset")),
    };
    apply(start, fields)
}

fn preset(name: &str) -> Result<Spec, SpecError> {
    presets::find(name).map(|preset| preset.spec).ok_or_else(|| {
        let names: Vec<String> = presets::all().into_iter().map(|preset| preset.name).collect();
        SpecError::new("preset", clip(name), format!("accepted are {}", names.join(", ")))
    })
}

/// The address of a page, with or without what stands before its `#`; or a preset's name alone.
fn address(text: &str) -> Result<Spec, SpecError> {
    let fragment = text.split_once('#').map_or(text, |(_, fragment)| fragment);
    if !fragment.contains('=') {
        return preset(fragment);
    }
    let (spec, warnings) = patch::decode(fragment, &presets::all());
    let Some(first) = warnings.first() else { return Ok(spec) };
    // A page can show what it could read; a program that quietly got something else would be misled. The words are those of the page, the field is
    // found by doing it again.
    Err(fault_of(fragment).unwrap_or_else(|| SpecError::new("spec", clip(text), first.clone())))
}

/// The first setting of an address that can not be used.
fn fault_of(fragment: &str) -> Option<SpecError> {
    let mut pairs: Vec<_> = form_urlencoded::parse(fragment.as_bytes()).collect();
    pairs.sort_by_key(|(key, _)| (key != "preset", key != "workload.kind"));
    let mut spec = Spec::default();
    for (key, value) in pairs {
        let set = match key.as_ref() {
            "v" => Ok(spec.clone()),
            "preset" => preset(&value),
            key => patch::set(&spec, key, &value),
        };
        match set {
            Ok(changed) => spec = changed,
            Err(error) => return Some(error),
        }
    }
    spec.validate().err()
}

/// `start` with everything that is in `fields`.
fn apply(start: Spec, fields: &Map<String, Value>) -> Result<Spec, SpecError> {
    let mut changes = Vec::new();
    collect("", fields, &mut changes);
    // The kind of workload decides which settings there are; a list's items are there before their parameters are set.
    changes.sort_by_key(|(key, _)| match key.as_str() {
        "workload.kind" => 0,
        key if LISTS.contains(&key) => 1,
        _ => 2,
    });
    changes.into_iter().try_fold(start, |spec, (key, value)| change(spec, &key, value))
}

/// Every value that is no group, by its dotted key.
fn collect<'a>(path: &str, fields: &'a Map<String, Value>, out: &mut Vec<(String, &'a Value)>) {
    for (name, value) in fields {
        let key = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match value {
            Value::Object(inner) => collect(&key, inner, out),
            _ => out.push((key, value)),
        }
    }
}

fn change(spec: Spec, key: &str, value: &Value) -> Result<Spec, SpecError> {
    match (key, value) {
        // Looked at before.
        ("preset" | "version", _) => Ok(spec),
        ("execution.coefficients", Value::Null) => patch::set(&spec, key, "none"),
        (_, Value::Array(items)) => list(spec, key, items),
        (_, Value::String(text)) => patch::set(&spec, key, &catalog::numbered(&spec, key, text)),
        (_, Value::Number(_) | Value::Bool(_)) => patch::set(&spec, key, &value.to_string()),
        (_, Value::Null | Value::Object(_)) => {
            Err(SpecError::new(key, value, "accepted is a value; leave it out where it is to stay as it is"))
        }
    }
}

fn list(mut spec: Spec, key: &str, items: &[Value]) -> Result<Spec, SpecError> {
    match key {
        "policies" => spec.policies = listed(key, items, patch::parse_policies)?,
        "scaling.controllers" => spec.scaling.controllers = listed(key, items, patch::parse_controllers)?,
        "clients.policies" => spec.clients.policies = listed(key, items, patch::parse_clients)?,
        _ => return Err(SpecError::new(key, "a list", format!("accepted are lists for {}", LISTS.join(", ")))),
    }
    Ok(spec)
}

/// Items of a list, each as an object or as it is written in an address.
fn listed<T: serde::de::DeserializeOwned>(
    key: &str,
    items: &[Value],
    parse: fn(&str) -> Result<Vec<T>, SpecError>,
) -> Result<Vec<T>, SpecError> {
    let mut all = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let field = format!("{key}.{at}");
        match item {
            Value::String(text) => {
                let text = catalog::numbered(&Spec::default(), key, text);
                all.extend(parse(&text).map_err(|error| SpecError { field, ..error })?);
            }
            Value::Object(_) => {
                let read = wire::from_value::<T>(item.clone());
                all.push(read.map_err(|error| SpecError::new(field, clip(&item.to_string()), error.to_string()))?);
            }
            _ => {
                return Err(SpecError::new(field, item, "accepted are objects with a name, and text as in an address"));
            }
        }
    }
    Ok(all)
}

/// Enough of a text to be recognised by.
fn clip(text: &str) -> String {
    const MOST: usize = 60;
    let start: String = text.chars().take(MOST).collect();
    format!("{start:?}{}", if text.chars().count() > MOST { "…" } else { "" })
}

#[cfg(test)]
#[path = "ask_tests.rs"]
mod tests;
