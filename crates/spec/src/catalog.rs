//! What can be chosen: policies, presets, cost models and settings, with the words that explain them. The
//! registries yield it; page, CLI, docs and tests read it.

use crate::experiment::{Coefficients, Spec};
use serde::{Deserialize, Serialize};

/// Everything that can be chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Catalog {
    /// Schema version.
    pub version: u32,
    /// Routing policies, in registry order.
    pub policies: Vec<PolicyInfo>,
    /// Ready-made experiments.
    pub presets: Vec<PresetInfo>,
    /// Cost models by name.
    pub costs: Vec<CostInfo>,
    /// Settings of a spec, by dotted key.
    pub settings: Vec<ParamInfo>,
}

/// A routing policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyInfo {
    /// Stable snake_case name.
    pub name: String,
    /// Name for people.
    pub label: String,
    /// One sentence: what it does.
    pub summary: String,
    /// What it reads, the prompt's content included or not.
    pub reads: String,
    /// How it fails.
    pub fails: String,
    /// Its parameters.
    pub params: Vec<ParamInfo>,
}

/// A number, switch or choice that can be set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParamInfo {
    /// Name within its policy, or dotted key within the spec.
    pub name: String,
    /// Name for people.
    pub label: String,
    /// Unit, empty for a pure number, switch or choice.
    pub unit: String,
    /// Default value; switches are 0 and 1, choices the index of the option.
    pub default: f64,
    /// Smallest accepted value.
    pub min: f64,
    /// Largest accepted value.
    pub max: f64,
    /// Granularity of the control; 1 for whole numbers.
    pub step: f64,
    /// How it is set.
    pub kind: ParamKind,
    /// One sentence: what it changes.
    pub help: String,
}

/// How a parameter is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParamKind {
    /// Any value between min and max.
    Number,
    /// Whole values between min and max.
    Integer,
    /// Off (0) or on (1).
    Switch,
    /// One of these, by index.
    Choice(Vec<String>),
}

/// A ready-made experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PresetInfo {
    /// Stable name, used in addresses and on the command line.
    pub name: String,
    /// Title.
    pub title: String,
    /// The one question it answers.
    pub question: String,
    /// The experiment.
    pub spec: Spec,
}

/// A cost model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostInfo {
    /// Stable snake_case name.
    pub name: String,
    /// Name for people.
    pub label: String,
    /// Where the numbers come from.
    pub source: String,
    /// Share of the datasheet's figures assumed reached; 1 for measured ones.
    pub efficiency: f64,
    /// The coefficients.
    pub coefficients: Coefficients,
}
