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
        Self::read(&format!("policies.{}", info.name), &info.params, &spec.params)
    }

    /// The same for anything that declares parameters; `of` is the field whose parts they are.
    pub(crate) fn read(of: &str, declared: &[ParamInfo], given: &BTreeMap<String, f64>) -> Result<Self, SpecError> {
        let mut values: BTreeMap<String, f64> =
            declared.iter().map(|param| (param.name.clone(), param.default)).collect();
        for (name, &value) in given {
            let field = format!("{of}.{name}");
            let Some(param) = declared.iter().find(|param| param.name == *name) else {
                let known: Vec<&str> = declared.iter().map(|param| param.name.as_str()).collect();
                let owner = of.rsplit('.').next().unwrap_or(of);
                let accepted = if known.is_empty() {
                    format!("{owner} has no parameters")
                } else {
                    format!("parameters of {owner} are {}", known.join(", "))
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

fn param(
    name: &str,
    label: &str,
    unit: &str,
    default: f64,
    range: (f64, f64, f64),
    kind: ParamKind,
    help: &str,
) -> ParamInfo {
    let (min, max, step) = range;
    let (name, label, unit, help) = (name.into(), label.into(), unit.into(), help.into());
    ParamInfo { name, label, unit, default, min, max, step, kind, help }
}

/// Declares a number: its name, label, unit and default, then (smallest, largest, granularity), then what it changes.
pub(crate) fn number(
    name: &str,
    label: &str,
    unit: &str,
    default: f64,
    range: (f64, f64, f64),
    help: &str,
) -> ParamInfo {
    param(name, label, unit, default, range, ParamKind::Number, help)
}

/// Declares a whole number: its name, label, unit and default, then (smallest, largest), then what it changes.
pub(crate) fn integer(name: &str, label: &str, unit: &str, default: u32, range: (u32, u32), help: &str) -> ParamInfo {
    let range = (range.0.into(), range.1.into(), 1.0);
    param(name, label, unit, default.into(), range, ParamKind::Integer, help)
}

/// Declares a switch.
pub(crate) fn switch(name: &str, label: &str, on: bool, help: &str) -> ParamInfo {
    param(name, label, "", f64::from(u8::from(on)), (0.0, 1.0, 1.0), ParamKind::Switch, help)
}

/// Declares a choice among `options`, by index.
pub(crate) fn choice(name: &str, label: &str, default: u32, options: &[&str], help: &str) -> ParamInfo {
    let last = options.len().saturating_sub(1) as f64;
    let options = options.iter().map(|&option| option.into()).collect();
    param(name, label, "", default.into(), (0.0, last, 1.0), ParamKind::Choice(options), help)
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
