//! Settings that are swept, and the values they take.

use crate::validate::{self, SpecError};
use crate::wire;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::fmt;

/// Most values of one axis: a picture has no more columns than that to tell apart.
pub const MAX_STEPS: u32 = 1000;

/// Figures kept of a value between the ends of a range: enough to look evenly spaced, few enough to read.
const DIGITS: usize = 6;

/// A setting and its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Dotted key: `workload.rate`, `policies.1.params.guard_ratio`.
    pub key: String,
    /// The values.
    pub values: AxisValues,
    /// How a range is spaced, and how a chart draws the axis.
    #[serde(default)]
    pub scale: Scale,
}

/// The values of an axis: as they are, or a range.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum AxisValues {
    /// One by one.
    List(Vec<AxisValue>),
    /// Evenly spaced, both ends included.
    Range(AxisRange),
}

/// Evenly spaced values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AxisRange {
    /// The first value.
    pub from: f64,
    /// The last value.
    pub to: f64,
    /// How many, the ends among them; a setting in whole numbers may have fewer, since equal ones count once.
    pub steps: u32,
}

/// Spacing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Equal differences.
    #[default]
    Linear,
    /// Equal ratios.
    Log,
}

/// One value of an axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum AxisValue {
    /// A number.
    Number(f64),
    /// A choice or a switch, as `--set` takes it.
    Text(String),
}

// Both by hand: what serde derives for enums without tags tries one after the other on a buffer of its own, a second reader of each type that the
// page would have to carry, and says of a mistake only that nothing fitted.
impl<'de> Deserialize<'de> for AxisValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let read = match value {
            Value::Array(_) => wire::from_value(value).map(AxisValues::List),
            _ => wire::from_value(value).map(AxisValues::Range),
        };
        read.map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for AxisValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Number(number) => Ok(AxisValue::Number(number.as_f64().unwrap_or(f64::NAN))),
            Value::String(text) => Ok(AxisValue::Text(text)),
            other => Err(D::Error::custom(format!("{other} is no value of an axis, expected a number or a string"))),
        }
    }
}

impl fmt::Display for AxisValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AxisValue::Number(value) => write!(f, "{value}"),
            AxisValue::Text(text) => f.write_str(text),
        }
    }
}

impl AxisValue {
    fn read(text: &str) -> AxisValue {
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => AxisValue::Number(value),
            _ => AxisValue::Text(text.to_owned()),
        }
    }

    /// The number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            AxisValue::Number(value) => Some(*value),
            AxisValue::Text(_) => None,
        }
    }
}

impl Axis {
    /// Reads an axis as people type it: `key=1,2,4`, `key=0.5..2*7` (seven values, equal differences) or `key=1..64^7` (equal ratios).
    ///
    /// # Errors
    /// Anything else, saying what the form is.
    pub fn parse(text: &str) -> Result<Axis, SpecError> {
        let form =
            "accepted is KEY=V1,V2,…, KEY=FROM..TO*STEPS (equal differences) or KEY=FROM..TO^STEPS (equal ratios)";
        let wrong = || SpecError::new("axis", format!("{:?}", short(text)), form);
        let (key, values) = text.split_once('=').ok_or_else(wrong)?;
        let (key, values) = (key.trim().to_owned(), values.trim());
        if key.is_empty() || values.is_empty() {
            return Err(wrong());
        }
        let Some((from, rest)) = values.split_once("..") else {
            let list = values.split(',').map(|value| AxisValue::read(value.trim())).collect();
            return Ok(Axis { key, values: AxisValues::List(list), scale: Scale::Linear });
        };
        let (at, scale) = match (rest.find('*'), rest.find('^')) {
            (Some(at), None) => (at, Scale::Linear),
            (None, Some(at)) => (at, Scale::Log),
            _ => return Err(wrong()),
        };
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| wrong());
        let steps = rest[at + 1..].trim().parse::<u32>().map_err(|_| wrong())?;
        let range = AxisRange { from: number(from)?, to: number(&rest[..at])?, steps };
        Ok(Axis { key, values: AxisValues::Range(range), scale })
    }

    /// Every value, in order.
    ///
    /// # Errors
    /// An empty list, a value twice, a range without an extent, more than [`MAX_STEPS`].
    pub fn expanded(&self) -> Result<Vec<AxisValue>, SpecError> {
        let refuse = |found: String, accepted: &str| Err(SpecError::new(&self.key, found, accepted));
        let values = match &self.values {
            AxisValues::List(list) => list.clone(),
            AxisValues::Range(range) => {
                let AxisRange { from, to, steps } = *range;
                if !(from.is_finite() && to.is_finite() && from < to) {
                    return refuse(
                        format!("a range from {from} to {to}"),
                        "accepted are two numbers, the smaller one first",
                    );
                }
                if self.scale == Scale::Log && from <= 0.0 {
                    return refuse(format!("a range from {from} in equal ratios"), "accepted is a start above 0");
                }
                if !(2..=MAX_STEPS).contains(&steps) {
                    return refuse(format!("{steps} steps"), "accepted are 2 to 1000");
                }
                let whole = validate::limit(&self.key).is_some_and(|limit| limit.integer);
                spaced(range, self.scale, whole).into_iter().map(AxisValue::Number).collect()
            }
        };
        if values.is_empty() || values.len() > MAX_STEPS as usize {
            return refuse(format!("a list of {}", values.len()), "accepted are 1 to 1000 values");
        }
        for (at, value) in values.iter().enumerate() {
            if values[..at].contains(value) {
                return refuse(format!("{:?} twice", short(&value.to_string())), "accepted is each value once");
            }
            if value.number().is_some_and(|number| !number.is_finite()) {
                return refuse("a number without an end".into(), "accepted are finite numbers");
            }
        }
        Ok(values)
    }
}

/// `steps` values over a range: both ends as they are, between them [`DIGITS`] figures. Rounded to whole numbers where asked, equal neighbours once.
pub(super) fn spaced(range: &AxisRange, scale: Scale, whole: bool) -> Vec<f64> {
    let AxisRange { from, to, steps } = *range;
    let mut out: Vec<f64> = Vec::with_capacity(steps as usize);
    for step in 0..steps {
        let share = f64::from(step) / f64::from(steps - 1);
        let value = match (step, scale) {
            (0, _) => from,
            (last, _) if last == steps - 1 => to,
            (_, Scale::Linear) => figures_of(from + (to - from) * share),
            (_, Scale::Log) => figures_of(from * libm::pow(to / from, share)),
        };
        let value = if whole { libm::round(value) } else { value };
        if out.last() != Some(&value) {
            out.push(value);
        }
    }
    out
}

/// To [`DIGITS`] figures, by way of text: decimal rounding without a power of ten, the same on every machine.
fn figures_of(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}

/// The start of what somebody typed.
pub(super) fn short(text: &str) -> String {
    text.chars().take(60).collect()
}
