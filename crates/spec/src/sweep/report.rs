//! What a sweep says: every cell's numbers, and of every point the mean over its seeds, the band around it, and how policies differ.
//!
//! A band is the 95 % Student-t interval of the mean over seeds. Policies are compared *paired*: the difference to the first policy is taken seed by
//! seed, on the same arrivals, so what a seed does to both of them drops out, and its interval is the one to read when the question
//! is whether they differ. Two bands that overlap do not answer that.

use super::{AxisValue, Figures, SweepSpec};
use serde::{Deserialize, Serialize};

/// The result of a sweep, or of a shard of one: then only some cells are there, and points are of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct SweepReport {
    /// Schema version.
    pub version: u32,
    /// Program and version that wrote it.
    pub generator: String,
    /// What was swept: running it again gives the same bytes.
    pub sweep: SweepSpec,
    /// How many cells the whole sweep has.
    pub cells_total: u32,
    /// The policies, in the spec's order; lists of policies below have the same.
    pub policies: Vec<SweepPolicy>,
    /// Every point that has a cell, ascending.
    pub points: Vec<PointReport>,
    /// Every cell that was run, ascending.
    pub cells: Vec<CellReport>,
}

/// A policy of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct SweepPolicy {
    /// Registry name.
    pub name: String,
    /// Name for people, with the parameters that differ from their defaults, swept ones left out.
    pub label: String,
}

/// One run of every policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct CellReport {
    /// Number of the cell.
    pub cell: u32,
    /// Its point.
    pub point: u32,
    /// Its seed.
    pub seed: u64,
    /// Numbers of each policy; absent where nothing was there to count, as TTFT when nobody was served.
    pub policies: Vec<Figures<Option<f64>>>,
}

/// A point over its seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct PointReport {
    /// Number of the point.
    pub point: u32,
    /// Value of each axis.
    pub at: Vec<AxisValue>,
    /// Numbers of each policy.
    pub policies: Vec<PointPolicy>,
}

/// One policy at one point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct PointPolicy {
    /// Means over seeds.
    pub mean: Figures<Option<Band>>,
    /// This policy − the first one, paired by seed; absent for the first one itself.
    pub versus_first: Option<Figures<Option<Band>>>,
}

/// A mean over seeds and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Band {
    /// Seeds that gave a value.
    pub n: u32,
    /// Their mean.
    pub mean: f64,
    /// Lower end of the interval; absent for a single seed, which says nothing about noise.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// The interval leaves out 0. Of a difference: it is more than noise.
    pub significant: bool,
}
