//! Sweeps and shards: cells in a fixed order, each run for itself, put together in any order to the same bytes.
//!
//! A cell is a function of the sweep and its number, and the report a function of the cells that are there, sorted by number. So it does not
//! matter who ran which cell, on how many threads, workers or machines, or in which order results came in: W1,
//! `merge(shards)` is the report of the whole, byte for byte (`tests/sweep.rs`). No thread starts here; whoever drives it has some or none.

mod findings;

pub use findings::findings;
pub(crate) use findings::listed;

use crate::error::RunError;
use crate::session::Session;
use crate::stats::{Paired, mean, paired, ratio};
use crate::{catalog, words};
use servelab_spec::SCHEMA_VERSION;
use servelab_spec::experiment::Spec;
use servelab_spec::report::{PolicyReport, Quantiles, Report};
use servelab_spec::sweep::figures::FigureUnit;
use servelab_spec::sweep::{
    Band, CellReport, Figure, Figures, Grid, PointPolicy, PointReport, SweepPolicy, SweepReport, SweepSpec,
};
use servelab_spec::validate::SpecError;
use thiserror::Error;

/// A sweep, checked and ready to run cell by cell.
#[derive(Clone, Debug)]
pub struct Plan {
    sweep: SweepSpec,
    grid: Grid,
}

/// Results that do not go together.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MergeError {
    /// Nothing was given.
    #[error("there is nothing to merge")]
    Nothing,
    /// Shards of two sweeps; results are counted from 0.
    #[error("the {} result is of another sweep than the first: {what} differs", words::ordinal(.at + 1))]
    Different {
        /// Which result.
        at: usize,
        /// What is not the same.
        what: &'static str,
    },
    /// A result that contradicts its sweep, or is not one.
    #[error("the {} result is damaged: {what}", words::ordinal(.at + 1))]
    Damaged {
        /// Which result, from 0.
        at: usize,
        /// In what.
        what: String,
    },
    /// The same item with two outcomes.
    #[error(
        "{what} {number} is there twice with different numbers; one of the results is damaged, or made by another build"
    )]
    Contradiction {
        /// A cell or a trial.
        what: &'static str,
        /// Its number.
        number: u32,
    },
    /// Not all there yet.
    #[error("{missing} of {total} {what}s are missing, the first of them {what} {first}{hint}")]
    Missing {
        /// Cells or trials.
        what: &'static str,
        /// How many.
        missing: u32,
        /// Of how many.
        total: u32,
        /// The first one.
        first: u32,
        /// Which shard would have them.
        hint: String,
    },
}

impl Plan {
    /// The plan of a sweep; points are checked when they are run, or all at once by [`Plan::check`].
    ///
    /// # Errors
    /// The first field at fault.
    pub fn new(sweep: SweepSpec) -> Result<Self, SpecError> {
        let grid = sweep.grid()?;
        catalog::check(&sweep.spec)?;
        Ok(Plan { sweep, grid })
    }

    /// Checks every point, so that none fails in the middle of a long sweep.
    ///
    /// # Errors
    /// The first point that can not be run: the field at fault.
    pub fn check(&self) -> Result<(), SpecError> {
        (0..self.grid.points).try_for_each(|point| catalog::check(&self.sweep.point(&self.grid, point)?))
    }

    /// What is swept.
    pub fn sweep(&self) -> &SweepSpec {
        &self.sweep
    }

    /// How many cells there are; they are numbered from 0.
    pub fn cells(&self) -> u32 {
        self.grid.cells()
    }

    /// The experiment of a cell.
    ///
    /// # Errors
    /// No such cell, or a point that can not be run.
    pub fn spec(&self, cell: u32) -> Result<Spec, SpecError> {
        if cell >= self.cells() {
            let accepted = format!("accepted are 0 to {}", self.cells() - 1);
            return Err(SpecError::new("cell", cell, accepted));
        }
        let spec = self.sweep.point(&self.grid, cell / self.grid.seeds)?;
        Ok(Spec { seed: self.sweep.seed(cell), ..spec })
    }

    /// A cell's run at its start, for whoever wants to advance it in pieces; [`Plan::result`] takes it when it is done.
    ///
    /// # Errors
    /// As [`Plan::spec`].
    pub fn start(&self, cell: u32) -> Result<Session, RunError> {
        Session::unwatched(self.spec(cell)?)
    }

    /// The numbers of a cell out of its report.
    pub fn result(&self, cell: u32, report: &Report) -> CellReport {
        CellReport {
            cell,
            point: cell / self.grid.seeds,
            seed: report.spec.seed,
            policies: report.policies.iter().map(|policy| figures(report, policy)).collect(),
        }
    }

    /// Runs a cell to its end.
    ///
    /// # Errors
    /// As [`Plan::spec`].
    pub fn run(&self, cell: u32) -> Result<CellReport, RunError> {
        let mut session = self.start(cell)?;
        while !session.advance(u32::MAX)?.done {}
        Ok(self.result(cell, &session.report()))
    }

    /// The report of the cells that are there, in whatever order.
    pub fn report(&self, mut cells: Vec<CellReport>) -> SweepReport {
        cells.sort_by_key(|cell| cell.cell);
        let points = cells.chunk_by(|a, b| a.point == b.point).map(|cells| self.point(cells)).collect();
        let (bare, spec) = (self.bare(), &self.sweep.spec);
        let policies = spec.contenders().into_iter().map(|contender| SweepPolicy {
            name: spec.policies[contender.policy].name.clone(),
            label: catalog::contender_label(&bare, contender),
        });
        SweepReport {
            version: SCHEMA_VERSION,
            generator: concat!("servelab ", env!("CARGO_PKG_VERSION")).into(),
            sweep: self.sweep.clone(),
            cells_total: self.cells(),
            policies: policies.collect(),
            points,
            cells,
        }
    }

    /// The experiment without parameters that are swept, so that labels leave them out.
    fn bare(&self) -> Spec {
        let mut bare = self.sweep.spec.clone();
        let lists = [
            ("policies.", bare.policies.iter_mut().map(|of| &mut of.params).collect::<Vec<_>>()),
            ("clients.policies.", bare.clients.policies.iter_mut().map(|of| &mut of.params).collect()),
            ("scaling.controllers.", bare.scaling.controllers.iter_mut().map(|of| &mut of.params).collect()),
        ];
        for (prefix, mut params) in lists {
            for axis in &self.sweep.axes {
                let rest = axis.key.strip_prefix(prefix).and_then(|rest| rest.split_once(".params."));
                let Some((at, param)) = rest else { continue };
                if let Some(params) = at.parse::<usize>().ok().and_then(|at| params.get_mut(at)) {
                    params.remove(param);
                }
            }
        }
        bare
    }

    fn point(&self, cells: &[CellReport]) -> PointReport {
        let point = cells.first().map_or(0, |cell| cell.point);
        let of = |at: usize, figure: Figure| cells.iter().map(move |cell| *cell.policies[at].get(figure));
        let policy = |at: usize| PointPolicy {
            mean: Figures::from_fn(|figure| band(of(at, figure).flatten())),
            versus_first: (at > 0).then(|| {
                Figures::from_fn(|figure| {
                    let pairs = of(at, figure).zip(of(0, figure));
                    band(pairs.filter_map(|(this, first)| Some(this? - first?)))
                })
            }),
        };
        let policies = (0..self.sweep.spec.contenders().len()).map(policy).collect();
        PointReport { point, at: self.grid.at(point), policies }
    }

    /// Cells as they should be: of this sweep, with a number for each policy.
    fn fault(&self, cell: &CellReport) -> Option<String> {
        let policies = self.sweep.spec.contenders().len();
        if cell.cell >= self.cells() {
            return Some(format!("cell {} of {}", cell.cell, self.cells()));
        }
        if cell.point != cell.cell / self.grid.seeds || cell.seed != self.sweep.seed(cell.cell) {
            return Some(format!("cell {} bears the point or the seed of another", cell.cell));
        }
        (cell.policies.len() != policies).then(|| format!("cell {} has {} policies", cell.cell, cell.policies.len()))
    }
}

/// Puts the shards of a sweep together, in whatever order they come.
///
/// # Errors
/// Shards of different sweeps, damaged ones, and cells that are missing or contradict each other.
pub fn merge(reports: Vec<SweepReport>) -> Result<SweepReport, MergeError> {
    let first = reports.first().ok_or(MergeError::Nothing)?;
    let (sweep, generator) = (first.sweep.clone(), first.generator.clone());
    let plan = Plan::new(sweep).map_err(|error| MergeError::Damaged { at: 0, what: error.to_string() })?;
    let mut cells: Vec<CellReport> = Vec::with_capacity(plan.cells() as usize);
    for (at, report) in reports.into_iter().enumerate() {
        let different = |what| Err(MergeError::Different { at, what });
        if report.sweep != plan.sweep {
            return different("what is swept");
        }
        if report.generator != generator {
            return different("the version of the program that made it");
        }
        if let Some(fault) = report.cells.iter().find_map(|cell| plan.fault(cell)) {
            return Err(MergeError::Damaged { at, what: fault });
        }
        cells.extend(report.cells);
    }
    cells.sort_by_key(|cell| cell.cell);
    // A shard that was run twice does no harm, since it says the same.
    cells.dedup();
    if let Some(pair) = cells.windows(2).find(|pair| pair[0].cell == pair[1].cell) {
        return Err(MergeError::Contradiction { what: "cell", number: pair[0].cell });
    }
    complete("cell", plan.cells(), cells.iter().map(|cell| cell.cell))?;
    Ok(plan.report(cells))
}

/// All items of `total` are among `there`, each number once; else which are not.
pub(crate) fn complete(what: &'static str, total: u32, there: impl Iterator<Item = u32>) -> Result<(), MergeError> {
    let mut known = vec![false; total as usize];
    there.for_each(|number| known[number as usize] = true);
    let lacking = (0..total).filter(|&number| !known[number as usize]);
    let Some(first) = lacking.clone().next() else { return Ok(()) };
    // Which shard is missing, if it is one: the n of which the items that lack are exactly one part. A single item is a part of many.
    let mut parts = (first + 1..=total).filter(|&of| lacking.clone().eq((first..total).step_by(of as usize)));
    let one = parts.next().filter(|_| parts.next().is_none());
    let hint = one.map(|of| format!("; they are shard {}/{of}", first + 1)).unwrap_or_default();
    Err(MergeError::Missing { what, missing: lacking.count() as u32, total, first, hint })
}

/// A figure as a person says it.
pub fn say(figure: Figure, value: f64) -> String {
    let sign = if value < 0.0 { "−" } else { "" };
    let size = value.abs();
    match figure.unit() {
        FigureUnit::Seconds => format!("{sign}{}", words::duration(size)),
        FigureUnit::Share => format!("{sign}{}", words::percent(size)),
        FigureUnit::PerSecond => format!("{sign}{}/s", words::digits(size)),
        FigureUnit::Number => format!("{sign}{size:.2}"),
    }
}

/// Numbers of one policy's run.
pub(crate) fn figures(report: &Report, policy: &PolicyReport) -> Figures<Option<f64>> {
    let known = |of: &Quantiles, value: f64| (of.n > 0).then_some(value);
    let served = policy.replicas.iter().any(|replica| replica.assignments > 0);
    Figures::from_fn(|figure| match figure {
        Figure::OfferedPerS => (report.workload.rate_per_s > 0.0).then_some(report.workload.rate_per_s),
        Figure::ServedPerS => Some(ratio(policy.requests.finished as f64, policy.duration_s)),
        Figure::GoodputPerS => Some(policy.goodput.per_s),
        Figure::GoodputFraction => Some(policy.goodput.fraction),
        Figure::TtftP50S => known(&policy.ttft_s, policy.ttft_s.p50),
        Figure::TtftP95S => known(&policy.ttft_s, policy.ttft_s.p95),
        Figure::TtftP99S => known(&policy.ttft_s, policy.ttft_s.p99),
        Figure::ItlP95S => known(&policy.itl_s, policy.itl_s.p95),
        Figure::Reuse => (policy.reuse.prompt_tokens > 0).then_some(policy.reuse.ratio),
        Figure::ImbalanceAssignments => served.then_some(policy.imbalance.assignments),
        Figure::ImbalanceUncachedTokens => served.then_some(policy.imbalance.uncached_tokens),
        Figure::OutputTokensPerS => Some(policy.output_tokens_per_s),
        Figure::InTimeAtEnd => policy.in_time_at_end,
        Figure::Attempts => Some(policy.requests.attempts as f64),
    })
}

/// Mean and Student-t interval of what is there.
pub(crate) fn band(values: impl Iterator<Item = f64>) -> Option<Band> {
    let values: Vec<f64> = values.collect();
    let n = values.len() as u32;
    match paired(values.iter().map(|&value| (value, 0.0))) {
        Some(Paired { mean, low, high, .. }) => {
            Some(Band { n, mean, low: Some(low), high: Some(high), significant: low > 0.0 || high < 0.0 })
        }
        None => (n > 0).then(|| Band { n, mean: mean(&values), low: None, high: None, significant: false }),
    }
}
