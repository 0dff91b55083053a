//! Dotted keys: one setting of a spec as `workload.rate=12`, for `--set` on the command line and for addresses.
//!
//! A key is the path of a value in the spec's JSON, list items by index. Policies have a form of their own that people
//! can read and type: `policies=round_robin,prefix_affinity(guard=0)`. A script stands in it as `script(tier=1,script=…)`, its text in
//! [`crate::base64url`], so that an address needs not escape it twice; `policies.1.script` takes plain text. Only keys that the spec *has* can be set, so a
//! rate on a workload without one is an error and not a silent nothing; `workload.kind` starts the workload afresh.
//!
//! An address stores a preset and what differs from it: `#v=1&preset=multi-tenant&seed=9&workload.rate=12`. Reading one never
//! fails and never panics: what cannot be used is left out and said, nothing is clamped, and the result is always valid.

use crate::SCHEMA_VERSION;
use crate::catalog::PresetInfo;
use crate::experiment::{Coefficients, Spec, WorkloadSpec};
pub use crate::named::{
    clients_text, controllers_text, parse_clients, parse_controllers, parse_policies, policies_text, policy_text,
};
use crate::named::{clip, number, quote};
use crate::validate::{self, SpecError};
use crate::wire;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Longest address that is read, bytes: six policies with scripts of the greatest length, a third longer in base64, and all the rest. Browsers take
/// more, but no honest address needs it.
const MAX_FRAGMENT: usize = 160 * 1024;

/// Sets one value; the result is checked against the limit of that value alone, so that several settings
/// can be made one after the other. Call [`Spec::validate`] after the last.
///
/// # Errors
/// Unknown key, unreadable value, value outside its limits.
pub fn set(spec: &Spec, key: &str, text: &str) -> Result<Spec, SpecError> {
    if let Some(index) = script_index(key, spec)? {
        let mut changed = spec.clone();
        // As it is: lines are counted from its first.
        changed.policies[index].script = (!text.trim().is_empty()).then(|| text.to_owned());
        validate::check_script(key, &changed.policies[index])?;
        return Ok(changed);
    }
    let text = text.trim();
    match key {
        "version" | "preset" => {
            return Err(SpecError::new(key, quote(text), "it is not a setting; start from another preset instead"));
        }
        "policies" => {
            let mut changed = spec.clone();
            changed.policies = parse_policies(text)?;
            return Ok(changed);
        }
        "scaling.controllers" => {
            let mut changed = spec.clone();
            changed.scaling.controllers = parse_controllers(text)?;
            return Ok(changed);
        }
        "clients.policies" => {
            let mut changed = spec.clone();
            changed.clients.policies = parse_clients(text)?;
            return Ok(changed);
        }
        "workload.kind" => {
            let mut changed = spec.clone();
            if text != spec.workload.kind() {
                let accepted = || format!("accepted are {}", WorkloadSpec::KINDS.join(", "));
                changed.workload =
                    WorkloadSpec::of_kind(text).ok_or_else(|| SpecError::new(key, quote(text), accepted()))?;
            }
            return Ok(changed);
        }
        "execution.coefficients" if text == "none" => {
            let mut changed = spec.clone();
            changed.execution.coefficients = None;
            return Ok(changed);
        }
        _ => {}
    }
    let mut changed = spec.clone();
    if key.starts_with("execution.coefficients.") && changed.execution.coefficients.is_none() {
        changed.execution.coefficients = Some(Coefficients::default());
    }
    if let Some(param) = controller_param(key, &changed)? {
        let value = number(key, text)?;
        changed.scaling.controllers[param.0].params.insert(param.1, value);
        return Ok(changed);
    }
    if let Some((index, param)) = listed_param(key, "clients.policies.", changed.clients.policies.len(), spec)? {
        let value = number(key, text)?;
        changed.clients.policies[index].params.insert(param, value);
        return Ok(changed);
    }
    if let Some(param) = policy_param(key, &changed)? {
        let value = number(key, text)?;
        changed.policies[param.0].params.insert(param.1, value);
        return Ok(changed);
    }
    let mut json = to_json(&changed)?;
    let slot = find(&mut json, key).ok_or_else(|| unknown_key(key, spec))?;
    *slot = parse_like(key, slot, text)?;
    if let (Some(limit), Some(value)) = (validate::limit(key), slot.as_f64()) {
        limit.check(value)?;
    }
    let changed: Spec =
        wire::from_value(json).map_err(|error| SpecError::new(key, quote(text), accepted_by(&error)))?;
    if key == "gateway.classes" {
        changed.gateway.class_list()?;
    }
    if key == "workload.curve" {
        match &changed.workload {
            WorkloadSpec::Demand(demand) => demand.points().map(drop)?,
            WorkloadSpec::Generated(generated) => generated.points().map(drop)?,
            _ => {}
        }
    }
    Ok(changed)
}

/// What distinguishes `spec` from `base`: key and value in the order of the spec's fields. Applied to `base` with
/// [`set`] they give `spec`, version and preset name aside.
pub fn diff(base: &Spec, spec: &Spec) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut start = base.clone();
    let kind = spec.workload.kind();
    if let Some(fresh) = WorkloadSpec::of_kind(kind).filter(|_| base.workload.kind() != kind) {
        out.push(("workload.kind".into(), kind.into()));
        start.workload = fresh;
    }
    let all_coefficients = base.execution.coefficients.is_none();
    let before: BTreeMap<String, String> = entries(&start).into_iter().collect();
    for (key, value) in entries(spec) {
        let fresh = all_coefficients && key.starts_with("execution.coefficients.");
        if fresh || before.get(&key) != Some(&value) {
            out.push((key, value));
        }
    }
    if base.execution.coefficients.is_some() && spec.execution.coefficients.is_none() {
        out.push(("execution.coefficients".into(), "none".into()));
    }
    out
}

/// Every setting of a spec with its value as text, in the order of the fields. Policies are one entry, and so are controllers and client policies.
pub fn entries(spec: &Spec) -> Vec<(String, String)> {
    let mut out = Vec::new();
    if let Ok(Value::Object(fields)) = to_json(spec) {
        for (name, value) in &fields {
            match name.as_str() {
                "version" | "preset" => {}
                "policies" => out.push((name.clone(), policies_text(&spec.policies))),
                "scaling" => {
                    out.push(("scaling.controllers".into(), controllers_text(&spec.scaling.controllers)));
                    leaves(name, value, &mut out);
                }
                "clients" => {
                    out.push(("clients.policies".into(), clients_text(&spec.clients.policies)));
                    leaves(name, value, &mut out);
                }
                _ => leaves(name, value, &mut out),
            }
        }
    }
    out.retain(|(key, _)| key != "workload.kind");
    out
}

/// The address of `spec`, without the `#`: the preset `base` and what differs from it. `base` is the spec of
/// the preset that `spec.preset` names.
pub fn encode(spec: &Spec, base: &Spec) -> String {
    let mut out = format!("v={SCHEMA_VERSION}");
    push_pair(&mut out, "preset", &base.preset);
    for (key, value) in diff(base, spec) {
        push_pair(&mut out, &key, &value);
    }
    out
}

/// Reads an address (with or without its `#`). What cannot be used is left out with a warning each; the spec
/// that comes back is valid. Without a known preset the first one counts.
pub fn decode(fragment: &str, presets: &[PresetInfo]) -> (Spec, Vec<String>) {
    let mut warnings = Vec::new();
    let fragment = fragment.strip_prefix('#').unwrap_or(fragment);
    let first = presets.first().map_or_else(Spec::default, |preset| preset.spec.clone());
    if fragment.len() > MAX_FRAGMENT {
        warnings.push(format!("The address is longer than {MAX_FRAGMENT} bytes and was not read."));
        return (first, warnings);
    }
    let mut pairs: Vec<(String, String)> = Vec::new();
    for (key, value) in form_urlencoded::parse(fragment.as_bytes()) {
        if let Some(earlier) = pairs.iter_mut().find(|(known, _)| *known == key) {
            warnings.push(format!("{} stands twice in the address; the last one counts.", clip(&key)));
            earlier.1 = value.into_owned();
        } else {
            pairs.push((key.into_owned(), value.into_owned()));
        }
    }
    let mut base = first;
    for (key, value) in &pairs {
        match key.as_str() {
            "v" => check_address_version(value, &mut warnings),
            "preset" => match presets.iter().find(|preset| preset.name == *value) {
                Some(preset) => base = preset.spec.clone(),
                None => {
                    let known: Vec<&str> = presets.iter().map(|preset| preset.name.as_str()).collect();
                    let (value, known) = (clip(value), known.join(", "));
                    warnings.push(format!("There is no preset {value}; known are {known}. Showing {}.", base.preset));
                }
            },
            _ => {}
        }
    }
    // The kind of workload decides which keys exist, so it comes first wherever it stands.
    pairs.sort_by_key(|(key, _)| key != "workload.kind");
    let mut spec = base.clone();
    for (key, value) in pairs.iter().filter(|(key, _)| key != "v" && key != "preset") {
        match set(&spec, key, value) {
            Ok(changed) => spec = changed,
            Err(error) => warnings.push(format!("Left out of the address: {error}.")),
        }
    }
    if let Err(error) = spec.validate() {
        warnings.push(format!("The address does not fit together ({error}); showing {} as it is.", base.preset));
        spec = base;
    }
    (spec, warnings)
}

/// Reads a spec from JSON text. The version is looked at first, so that a newer file is refused as newer and not for a
/// field that this program does not know. The result is validated.
///
/// # Errors
/// Not JSON, not a spec, or not valid.
pub fn from_json(text: &str) -> Result<Spec, SpecError> {
    let accepted = "accepted is a spec as JSON, or a report (its spec is taken)";
    let mut value: Value =
        serde_json::from_str(text).map_err(|error| SpecError::new("spec", format!("text ({error})"), accepted))?;
    if let Some(inner) = value.get_mut("spec") {
        value = inner.take();
    }
    if !value.is_object() {
        return Err(SpecError::new("spec", "a bare value", accepted));
    }
    if let Some(version) = value.get("version") {
        let number = version.as_u64();
        validate::check_version(
            number.ok_or_else(|| SpecError::new("version", version, "accepted is a whole number"))?,
        )?;
    }
    let spec: Spec =
        wire::from_value(value).map_err(|error| SpecError::new("spec", "this JSON", accepted_by(&error)))?;
    spec.validate()?;
    Ok(spec)
}

/// `policies.1.script`: the index.
fn script_index(key: &str, spec: &Spec) -> Result<Option<usize>, SpecError> {
    let Some(index) = key.strip_prefix("policies.").and_then(|rest| rest.strip_suffix(".script")) else {
        return Ok(None);
    };
    match index.parse::<usize>() {
        Ok(index) if index < spec.policies.len() => Ok(Some(index)),
        _ => Err(unknown_key(key, spec)),
    }
}

/// `policies.1.params.guard`: the index and the parameter's name, which need not be listed yet.
fn policy_param(key: &str, spec: &Spec) -> Result<Option<(usize, String)>, SpecError> {
    listed_param(key, "policies.", spec.policies.len(), spec)
}

/// `scaling.controllers.0.params.target`: the same for controllers.
fn controller_param(key: &str, spec: &Spec) -> Result<Option<(usize, String)>, SpecError> {
    listed_param(key, "scaling.controllers.", spec.scaling.controllers.len(), spec)
}

fn listed_param(key: &str, list: &str, many: usize, spec: &Spec) -> Result<Option<(usize, String)>, SpecError> {
    let Some((index, param)) = key.strip_prefix(list).and_then(|rest| rest.split_once(".params.")) else {
        return Ok(None);
    };
    match index.parse::<usize>() {
        Ok(index) if index < many => Ok(Some((index, param.to_owned()))),
        _ => Err(unknown_key(key, spec)),
    }
}

fn check_address_version(text: &str, warnings: &mut Vec<String>) {
    match text.parse::<u64>() {
        Ok(version) if version == u64::from(SCHEMA_VERSION) => {}
        Ok(version) if version > u64::from(SCHEMA_VERSION) => warnings.push(format!(
            "The address was made by a newer ServeLab (version {version}, this one reads {SCHEMA_VERSION}); settings it does not know are left out."
        )),
        _ => warnings.push(format!("{} is not a version of addresses; read as {SCHEMA_VERSION}.", clip(text))),
    }
}

fn to_json(spec: &Spec) -> Result<Value, SpecError> {
    serde_json::to_value(spec).map_err(|error| SpecError::new("spec", error, "accepted are plain values"))
}

fn find<'a>(json: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    let mut at = json;
    for part in key.split('.') {
        at = match at {
            Value::Object(fields) => fields.get_mut(part)?,
            Value::Array(items) => items.get_mut(part.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(at)
}

/// Reads `text` as the type that stands there now.
fn parse_like(key: &str, now: &Value, text: &str) -> Result<Value, SpecError> {
    match now {
        Value::Bool(_) => match text.to_ascii_lowercase().as_str() {
            "true" | "on" | "yes" | "1" => Ok(Value::Bool(true)),
            "false" | "off" | "no" | "0" => Ok(Value::Bool(false)),
            _ => Err(SpecError::new(key, quote(text), "accepted are on and off")),
        },
        Value::Number(_) => {
            let value = number(key, text)?;
            // Whole numbers are kept whole, else a seed written as 7 would come back as 7.0 and be refused.
            let whole = value.fract() == 0.0 && (0.0..=crate::MAX_SEED as f64).contains(&value);
            let json = if whole { Some((value as u64).into()) } else { serde_json::Number::from_f64(value) };
            json.map(Value::Number).ok_or_else(|| SpecError::new(key, quote(text), "accepted is a finite number"))
        }
        Value::String(_) => Ok(Value::String(text.to_owned())),
        Value::Array(_) | Value::Object(_) | Value::Null => {
            Err(SpecError::new(key, quote(text), "it is a group; set one of the values in it"))
        }
    }
}

fn unknown_key(key: &str, spec: &Spec) -> SpecError {
    let group = key.split('.').next().unwrap_or_default();
    let all = entries(spec);
    let inside: Vec<&str> = all
        .iter()
        .map(|(known, _)| known.as_str())
        .filter(|known| known.split_once('.').is_some_and(|(start, _)| start == group))
        .collect();
    let known = if inside.is_empty() {
        "accepted are seed, replicas, policies and what lies under workload, engine, tick, server, routing, gateway, store, events, clients, faults, scaling, startup, slo and execution".to_owned()
    } else {
        format!("accepted are {}", inside.join(", "))
    };
    SpecError::new(clip(key), "a setting of this name", format!("this experiment has none; {known}"))
}

/// The part of a serde message that says what would be accepted.
fn accepted_by(error: &serde_json::Error) -> String {
    let text = error.to_string().replace('`', "");
    match text.split_once(", expected ") {
        Some((problem, expected)) => format!("{problem}, accepted is {expected}"),
        None => text,
    }
}

fn leaves(path: &str, value: &Value, out: &mut Vec<(String, String)>) {
    let nested = |fields: &Map<String, Value>, out: &mut Vec<(String, String)>| {
        for (name, value) in fields {
            leaves(&format!("{path}.{name}"), value, out);
        }
    };
    match value {
        Value::Object(fields) => nested(fields, out),
        Value::String(text) => out.push((path.to_owned(), text.clone())),
        Value::Bool(on) => out.push((path.to_owned(), if *on { "on" } else { "off" }.to_owned())),
        Value::Number(number) => {
            // `12` and not `12.0`: shorter, and both read back as the same number.
            let text = match number.as_u64() {
                Some(whole) => whole.to_string(),
                None => number.as_f64().map(|value| value.to_string()).unwrap_or_default(),
            };
            out.push((path.to_owned(), text));
        }
        Value::Null | Value::Array(_) => {}
    }
}

/// Appends `&key=value`. Characters that an address may hold as they are stay readable.
fn push_pair(out: &mut String, key: &str, value: &str) {
    out.push('&');
    push_encoded(out, key);
    out.push('=');
    push_encoded(out, value);
}

fn push_encoded(out: &mut String, text: &str) {
    let mut buffer = [0u8; 4];
    for c in text.chars() {
        if matches!(c, '(' | ')' | ',' | ':' | '=') {
            out.push(c);
        } else {
            out.extend(form_urlencoded::byte_serialize(c.encode_utf8(&mut buffer).as_bytes()));
        }
    }
}

#[cfg(test)]
#[path = "patch_tests.rs"]
mod tests;
