//! Parameters of a policy, checked against what its file declares.

use servelab_spec::catalog::{ParamInfo, ParamKind, PolicyInfo};
use servelab_spec::experiment::PolicySpec;
use servelab_spec::validate::SpecError;
use std::collections::BTreeMap;

/// Every declared parameter with its value.
pub struct Params(BTreeMap<String, f64>);

impl Params {
    /// Fills in defaults and checks names and ranges.
    pub(crate) fn check(info: &PolicyInfo, spec: &PolicySpec) -> Result<Self, SpecError> {
        let mut values: BTreeMap<String, f64> =
            info.params.iter().map(|param| (param.name.clone(), param.default)).collect();
        for (name, &value) in &spec.params {
            let field = format!("policies.{}.{name}", info.name);
            let Some(param) = info.params.iter().find(|param| param.name == *name) else {
                let known: Vec<&str> = info.params.iter().map(|param| param.name.as_str()).collect();
                let accepted = if known.is_empty() {
                    format!("{} has no parameters", info.name)
                } else {
                    format!("parameters of {} are {}", info.name, known.join(", "))
                };
                return Err(SpecError::new(field, value, accepted));
            };
            if !accepts(param, value) {
                return Err(SpecError::new(field, value, accepted(param)));
            }
            values.insert(name.clone(), value);
        }
        Ok(Params(values))
    }

    /// A number.
    ///
    /// # Panics
    /// When the policy's file does not declare `name`.
    pub(crate) fn number(&self, name: &str) -> f64 {
        match self.0.get(name) {
            Some(&value) => value,
            None => unreachable!("parameter {name} is not declared"),
        }
    }

    /// A whole number or the index of a choice.
    pub(crate) fn integer(&self, name: &str) -> u32 {
        self.number(name) as u32
    }

    /// A switch.
    pub(crate) fn switch(&self, name: &str) -> bool {
        self.number(name) != 0.0
    }
}

fn accepts(param: &ParamInfo, value: f64) -> bool {
    let whole = !matches!(param.kind, ParamKind::Number);
    value >= param.min && value <= param.max && (!whole || value == libm::floor(value))
}

fn accepted(param: &ParamInfo) -> String {
    match &param.kind {
        ParamKind::Switch => "use 0 (off) or 1 (on)".into(),
        ParamKind::Choice(options) => {
            let options: Vec<String> =
                options.iter().enumerate().map(|(index, option)| format!("{index} ({option})")).collect();
            format!("use {}", options.join(" or "))
        }
        ParamKind::Integer => format!("use a whole number from {} to {}", param.min, param.max),
        ParamKind::Number => format!("use {} to {}", param.min, param.max),
    }
}
