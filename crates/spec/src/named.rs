//! Lists of policies and controllers as people type them: `round_robin,prefix_affinity(guard=0)`.
//!
//! A name stands alone or with the parameters that differ from its defaults. A policy of the user's own carries its script in
//! [`crate::base64url`], so that an address needs not escape it twice.

use crate::base64url;
use crate::experiment::{ClientSpec, ControllerSpec, PolicySpec, Spec};
use crate::validate::SpecError;
use std::collections::BTreeMap;

/// Where a policy's script stands in its readable form.
const SCRIPT: &str = "script";

/// Policies as people type them: `round_robin,prefix_affinity(guard=0)`.
pub fn policies_text(policies: &[PolicySpec]) -> String {
    let texts: Vec<String> = policies.iter().map(policy_text).collect();
    texts.join(",")
}

/// One policy as people type it: its name, then parameters that differ from the defaults, then its script.
pub fn policy_text(policy: &PolicySpec) -> String {
    named_text(&policy.name, &policy.params, policy.script.as_ref())
}

/// Controllers as people type them: `kubernetes_hpa(target=5),keda`.
pub fn controllers_text(controllers: &[ControllerSpec]) -> String {
    let texts: Vec<String> = controllers.iter().map(|of| named_text(&of.name, &of.params, None)).collect();
    texts.join(",")
}

/// Client policies as people type them: `openai_sdk(attempts=5),full_jitter`.
pub fn clients_text(policies: &[ClientSpec]) -> String {
    let texts: Vec<String> = policies.iter().map(|of| named_text(&of.name, &of.params, None)).collect();
    texts.join(",")
}

fn named_text(name: &str, params: &BTreeMap<String, f64>, script: Option<&String>) -> String {
    let mut params: Vec<String> = params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    params.extend(script.map(|text| format!("{SCRIPT}={}", base64url::encode(text.as_bytes()))));
    if params.is_empty() { name.to_owned() } else { format!("{name}({})", params.join(",")) }
}

/// Reads a list of policies as [`policies_text`] writes it. Blanks around names and values are allowed.
///
/// # Errors
/// Anything else, saying what the form is.
pub fn parse_policies(text: &str) -> Result<Vec<PolicySpec>, SpecError> {
    let list = parse(text, "policies", "accepted is a list like round_robin,prefix_affinity(guard=0)", true)?;
    let policies: Vec<PolicySpec> =
        list.into_iter().map(|(name, params, script)| PolicySpec { name, params, script }).collect();
    Spec { policies: policies.clone(), ..Spec::default() }.validate()?;
    Ok(policies)
}

/// Reads a list of controllers as [`controllers_text`] writes it; nothing at all is an empty list.
///
/// # Errors
/// Anything else, saying what the form is.
pub fn parse_controllers(text: &str) -> Result<Vec<ControllerSpec>, SpecError> {
    if text.trim().is_empty() || text.trim() == "none" {
        return Ok(vec![]);
    }
    let list =
        parse(text, "scaling.controllers", "accepted is a list like kubernetes_hpa(target=5),keda, or none", false)?;
    Ok(list.into_iter().map(|(name, params, _)| ControllerSpec { name, params }).collect())
}

/// Reads a list of client policies as [`clients_text`] writes it; nothing at all is an empty list.
///
/// # Errors
/// Anything else, saying what the form is.
pub fn parse_clients(text: &str) -> Result<Vec<ClientSpec>, SpecError> {
    if text.trim().is_empty() || text.trim() == "none" {
        return Ok(vec![]);
    }
    let form = "accepted is a list like openai_sdk(attempts=5),full_jitter, or none";
    let list = parse(text, "clients.policies", form, false)?;
    Ok(list.into_iter().map(|(name, params, _)| ClientSpec { name, params }).collect())
}

type Named = (String, BTreeMap<String, f64>, Option<String>);

fn parse(text: &str, field: &str, form: &str, scripts: bool) -> Result<Vec<Named>, SpecError> {
    let wrong = |found: &str| SpecError::new(field, quote(found), form);
    let mut list: Vec<Named> = Vec::new();
    let mut rest = text.trim();
    loop {
        let end = rest.find(['(', ',', ')']).unwrap_or(rest.len());
        let (name, mut params, mut script) = (rest[..end].trim().to_owned(), BTreeMap::new(), None);
        if name.is_empty() {
            return Err(wrong(text));
        }
        rest = &rest[end..];
        if let Some(inside) = rest.strip_prefix('(') {
            let close = inside.find(')').ok_or_else(|| wrong(text))?;
            for pair in inside[..close].split(',').filter(|pair| !pair.trim().is_empty()) {
                let (param, value) = pair.split_once('=').ok_or_else(|| wrong(pair))?;
                let param = param.trim();
                if scripts && param == SCRIPT && script.is_none() {
                    script = Some(base64url::decode_text(value.trim()).ok_or_else(|| wrong_script(value))?);
                    continue;
                }
                let value = number(&format!("{field}.{name}.{param}"), value.trim())?;
                if params.insert(param.to_owned(), value).is_some() {
                    return Err(SpecError::new(field, quote(pair), "accepted is each parameter once"));
                }
            }
            rest = inside[close + 1..].trim_start();
        }
        list.push((name, params, script));
        if rest.is_empty() {
            return Ok(list);
        }
        rest = rest.strip_prefix(',').ok_or_else(|| wrong(text))?;
    }
}

fn wrong_script(found: &str) -> SpecError {
    SpecError::new("policies", quote(found), "accepted is a script's text in base64 with - and _, without =")
}

pub(crate) fn number(key: &str, text: &str) -> Result<f64, SpecError> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(SpecError::new(key, quote(text), "accepted is a number, with a point for decimals")),
    }
}

pub(crate) fn quote(text: &str) -> String {
    format!("{:?}", clip(text))
}

/// Messages quote what came in, but not pages of it.
pub(crate) fn clip(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
