//! Sweeps: one experiment at every value of one or two settings, with several seeds.
//!
//! | word | means |
//! |---|---|
//! | *axis* | a setting by its dotted key ([`crate::patch::set`]) and the values it takes |
//! | *point* | one value of each axis |
//! | *cell* | a point and a seed: one run of every policy on the same arrivals |
//!
//! Points are numbered with the last axis fastest, cells with the seeds of a point next to each other: cell = point · seeds + seed's index.
//! A shard k of n is every n-th cell from the k-th. Neighbours cost about the same to run (a point's seeds do, nearly exactly), so
//! dealing them out like cards gives shards of equal length, where cutting the list would give one of them all the slow points.
//!
//! How axes are written stands in [`Axis`], which numbers come out in [`figures`], what a result looks like in [`report`].

mod axis;
pub mod figures;
pub mod report;

pub use axis::{Axis, AxisRange, AxisValue, AxisValues, MAX_STEPS, Scale};
pub use figures::{Better, Figure, Figures};
pub use report::{Band, CellReport, PointPolicy, PointReport, SweepPolicy, SweepReport};

use crate::experiment::{ExecutionMode, Spec};
use crate::validate::{self, SpecError};
use crate::{MAX_SEED, SCHEMA_VERSION, patch, wire};
use axis::short;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Most cells of a sweep. A choice: at a second each, three hours of one core; more are better asked in two questions.
pub const MAX_CELLS: u32 = 10_000;

/// Most seeds. The interval shrinks with their root: a hundred gives a fifth of the width that eight give.
pub const MAX_SEEDS: u32 = 100;

/// What is swept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SweepSpec {
    /// Schema version, [`SCHEMA_VERSION`].
    #[serde(default = "version")]
    pub version: u32,
    /// The experiment; its seed is the first one, and its policies are compared in every cell.
    pub spec: Spec,
    /// One or two axes.
    pub axes: Vec<Axis>,
    /// Runs of every point, with the seeds `spec.seed`, `spec.seed + 1` and so on.
    #[serde(default = "one")]
    pub seeds: u32,
}

fn version() -> u32 {
    SCHEMA_VERSION
}

fn one() -> u32 {
    1
}

/// Part k of n of a sweep's cells, k from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// Which part, from 1.
    pub part: u32,
    /// How many parts there are.
    pub of: u32,
}

impl Shard {
    /// All cells.
    pub const WHOLE: Shard = Shard { part: 1, of: 1 };

    /// Reads `k/n`.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Shard, SpecError> {
        let read = text.split_once('/').map(|(part, of)| (part.trim().parse::<u32>(), of.trim().parse::<u32>()));
        match read {
            Some((Ok(part), Ok(of))) if (1..=of).contains(&part) => Ok(Shard { part, of }),
            _ => Err(SpecError::new(
                "shard",
                format!("{:?}", short(text)),
                "accepted is K/N with K from 1 to N, as in 2/8",
            )),
        }
    }

    /// The cells of this part, ascending: every n-th of `cells`.
    pub fn cells(self, cells: u32) -> impl Iterator<Item = u32> {
        (self.part.saturating_sub(1)..cells).step_by(self.of.max(1) as usize)
    }
}

impl SweepSpec {
    /// Values of every axis, checked: how many points and cells there are. The points themselves are checked by [`SweepSpec::point`].
    ///
    /// # Errors
    /// The first field at fault.
    pub fn grid(&self) -> Result<Grid, SpecError> {
        validate::check_version(u64::from(self.version))?;
        self.spec.validate()?;
        if self.spec.execution.mode == ExecutionMode::Tinygpt {
            return Err(SpecError::new(
                "execution.mode",
                "tinygpt",
                "a sweep computes nothing; accepted are execution.mode=priced, tick and server",
            ));
        }
        if !(1..=2).contains(&self.axes.len()) {
            return Err(SpecError::new(
                "axes",
                format!("a list of {}", self.axes.len()),
                "accepted are one or two axes",
            ));
        }
        if !(1..=MAX_SEEDS).contains(&self.seeds) {
            return Err(SpecError::new("seeds", self.seeds, format!("accepted are 1 to {MAX_SEEDS}")));
        }
        if self.spec.seed > MAX_SEED - u64::from(self.seeds - 1) {
            let accepted = format!(
                "accepted is at most {}, so that every seed stays below 2⁵³",
                MAX_SEED - u64::from(self.seeds - 1)
            );
            return Err(SpecError::new("seed", self.spec.seed, accepted));
        }
        let mut values = Vec::with_capacity(self.axes.len());
        for (at, axis) in self.axes.iter().enumerate() {
            check_key(&axis.key)?;
            if self.axes[..at].iter().any(|other| other.key == axis.key) {
                return Err(SpecError::new(format!("axes.{at}"), &axis.key, "accepted is each setting once"));
            }
            values.push(axis.expanded()?);
        }
        let points = values.iter().map(|values| values.len() as u64).product::<u64>();
        let cells = points * u64::from(self.seeds);
        if cells > u64::from(MAX_CELLS) {
            let found = format!("{points} points with {} seeds", self.seeds);
            return Err(SpecError::new("axes", found, format!("accepted are {MAX_CELLS} runs in all")));
        }
        Ok(Grid { values, points: points as u32, seeds: self.seeds })
    }

    /// The experiment at a point, checked as far as it can be without the registries.
    ///
    /// # Errors
    /// A key that the experiment does not have, a value outside its limits, values that do not go together.
    pub fn point(&self, grid: &Grid, point: u32) -> Result<Spec, SpecError> {
        let at = grid.at(point);
        let mut spec = self.spec.clone();
        for (axis, value) in self.axes.iter().zip(&at) {
            spec = patch::set(&spec, &axis.key, &value.to_string())?;
        }
        spec.validate()?;
        Ok(spec)
    }

    /// The seed of a cell.
    pub fn seed(&self, cell: u32) -> u64 {
        self.spec.seed + u64::from(cell % self.seeds.max(1))
    }
}

/// The values of a sweep's axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// Values of each axis.
    pub values: Vec<Vec<AxisValue>>,
    /// How many points there are.
    pub points: u32,
    /// Runs of each.
    pub seeds: u32,
}

impl Grid {
    /// How many cells there are.
    pub fn cells(&self) -> u32 {
        self.points * self.seeds
    }

    /// Values at a point, one for each axis; the last axis is the fastest.
    pub fn at(&self, point: u32) -> Vec<AxisValue> {
        let mut rest = point as usize;
        let mut out: Vec<AxisValue> = Vec::with_capacity(self.values.len());
        for values in self.values.iter().rev() {
            out.push(values[rest % values.len()].clone());
            rest /= values.len();
        }
        out.reverse();
        out
    }
}

/// What must not be an axis, and why.
///
/// # Errors
/// A key that says which runs there are instead of how they are.
pub fn check_key(key: &str) -> Result<(), SpecError> {
    let accepted = match key {
        "seed" => "each point is run with several seeds as it is; say how many with seeds",
        "policies" => {
            "policies are compared at every point as it is; sweep one of their parameters, as in policies.0.params.guard_ratio"
        }
        "workload.kind" => "the kind decides which settings there are; sweep one kind at a time",
        "execution.mode" => "what replicas are decides which settings there are; sweep one kind at a time",
        "clients.on" | "clients.together" | "clients.policies" | "scaling.on" | "scaling.controllers" => {
            "the runs of a point are the same at every point; sweep a parameter, as in clients.policies.0.params.attempts"
        }
        _ if key.starts_with("policies.") && key.ends_with(".name") => "policies are compared at every point as it is",
        _ => return Ok(()),
    };
    Err(SpecError::new(key, "an axis over it", accepted))
}

/// Reads a sweep from JSON text, or a sweep's report, whose sweep is taken. It is checked as a whole by [`SweepSpec::grid`].
///
/// # Errors
/// Not JSON, not a sweep, or made by a newer version.
pub fn from_json(text: &str) -> Result<SweepSpec, SpecError> {
    let accepted = "accepted is a sweep as JSON (spec, axes, seeds), or a report of one";
    let mut value: Value =
        serde_json::from_str(text).map_err(|error| SpecError::new("sweep", format!("text ({error})"), accepted))?;
    if let Some(inner) = value.get_mut("sweep") {
        value = inner.take();
    }
    if let Some(version) = value.get("version") {
        let number = version.as_u64();
        validate::check_version(
            number.ok_or_else(|| SpecError::new("version", version, "accepted is a whole number"))?,
        )?;
    }
    wire::from_value(value).map_err(|error| SpecError::new("sweep", "this JSON", format!("{error}; {accepted}")))
}

#[cfg(test)]
#[path = "sweep/tests.rs"]
mod tests;
