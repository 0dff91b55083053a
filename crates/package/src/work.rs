//! Runs and sweeps in pieces, and their reports as the command line writes them.

use crate::ask;
use serde_json::Value;
use servelab_lab::chart::draw_sweep;
use servelab_lab::sweep::Plan;
use servelab_lab::{Progress, RunError, Session};
use servelab_spec::protocol::SweepChartRequest;
use servelab_spec::sweep::{Axis, CellReport, Figure, SweepReport, SweepSpec};
use servelab_spec::validate::SpecError;
use servelab_spec::{SCHEMA_VERSION, wire};

/// How far something has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Come {
    /// 0 to 1.
    pub fraction: f64,
    /// The policy being run, by its index.
    pub policy: u32,
    /// Virtual time under this policy, seconds.
    pub t_s: f64,
    /// Nothing is left to do.
    pub done: bool,
}

impl From<Progress> for Come {
    fn from(progress: Progress) -> Self {
        Come { fraction: progress.fraction, policy: progress.policy, t_s: progress.t.as_secs(), done: progress.done }
    }
}

/// One spec, run as the command line runs it.
pub struct Run {
    session: Session,
}

impl Run {
    /// At its start; `asked` is what [`ask::spec`] takes.
    ///
    /// # Errors
    /// The first field at fault.
    pub fn new(asked: &str) -> Result<Self, RunError> {
        Ok(Run { session: Session::new(ask::spec(asked)?)? })
    }

    /// Moves on by at most `events` events.
    ///
    /// # Errors
    /// A policy of the user's own fails.
    pub fn advance(&mut self, events: u32) -> Result<Come, RunError> {
        self.session.advance(events).map(Come::from)
    }

    /// The report as text, byte for byte that of `servelab run --format json`.
    ///
    /// # Errors
    /// Never for a report of ours: every one has a form as text.
    pub fn report(&self) -> Result<String, RunError> {
        text(&self.session.report())
    }
}

/// A sweep, cell after cell.
pub struct Sweep {
    plan: Plan,
    session: Option<Session>,
    cells: Vec<CellReport>,
}

impl Sweep {
    /// At its start. `asked` is the experiment, as [`ask::spec`] takes it; `axes` JSON with `axes`, each an object or as people type it
    /// (`workload.rate=0.5..2*7`), and `seeds`.
    ///
    /// # Errors
    /// The first field at fault, of any of the points.
    pub fn new(asked: &str, axes: &str) -> Result<Self, RunError> {
        let plan = Plan::new(sweep(asked, axes)?)?;
        plan.check()?;
        Ok(Sweep { plan, session: None, cells: vec![] })
    }

    /// Moves on by at most `events` events.
    ///
    /// # Errors
    /// A policy of the user's own fails.
    pub fn advance(&mut self, events: u32) -> Result<Come, RunError> {
        let (over, all) = (self.cells.len() as u32, self.plan.cells());
        if over >= all {
            return Ok(Come { fraction: 1.0, policy: 0, t_s: 0.0, done: true });
        }
        let session = match &mut self.session {
            Some(session) => session,
            none => none.insert(self.plan.start(over)?),
        };
        let come = Come::from(session.advance(events)?);
        if come.done {
            self.cells.push(self.plan.result(over, &session.report()));
            self.session = None;
        }
        let fraction = (f64::from(over) + come.fraction) / f64::from(all);
        Ok(Come { fraction, done: self.cells.len() as u32 >= all, ..come })
    }

    /// The report as text, byte for byte that of `servelab sweep --format json`.
    ///
    /// # Errors
    /// As [`Run::report`].
    pub fn report(&self) -> Result<String, RunError> {
        text(&self.plan.report(self.cells.clone()))
    }
}

fn sweep(asked: &str, axes: &str) -> Result<SweepSpec, SpecError> {
    let accepted = "accepted are axes, a list of one or two, and seeds";
    let value: Value = serde_json::from_str(axes).map_err(|error| SpecError::new("axes", error, accepted))?;
    let list = value.get("axes").and_then(Value::as_array);
    let list = list.ok_or_else(|| SpecError::new("axes", value.get("axes").unwrap_or(&Value::Null), accepted))?;
    let axes = list.iter().enumerate().map(|(at, axis)| {
        let field = format!("axes.{at}");
        match axis {
            Value::String(text) => Axis::parse(text).map_err(|error| SpecError { field, ..error }),
            _ => wire::from_value(axis.clone()).map_err(|error| {
                SpecError::new(
                    field,
                    axis,
                    format!("{error}; accepted is an object with key and values, or text as in workload.rate=0.5..2*7"),
                )
            }),
        }
    });
    let axes = axes.collect::<Result<Vec<Axis>, SpecError>>()?;
    let seeds = value.get("seeds").unwrap_or(&Value::Null);
    let seeds = match seeds {
        Value::Null => 1,
        number => number
            .as_u64()
            .and_then(|number| u32::try_from(number).ok())
            .ok_or_else(|| SpecError::new("seeds", seeds, "accepted is a whole number"))?,
    };
    Ok(SweepSpec { version: SCHEMA_VERSION, spec: ask::spec(asked)?, axes, seeds })
}

/// Draws a number of a sweep's report as the page and the command line do, as SVG. `asked` is JSON with `figure`, and if need be `policy`,
/// `against`, `width`, `height` and `dark`.
///
/// # Errors
/// What is not a report of a sweep, or what such a report can not show.
pub fn sweep_chart(report: &str, asked: &str) -> Result<String, SpecError> {
    let wrong = |field: &str, error: serde_json::Error, accepted: &str| SpecError::new(field, error, accepted);
    let report: SweepReport =
        wire::from_text(report).map_err(|error| wrong("report", error, "accepted is what a sweep has reported"))?;
    let figures = || Figure::ALL.iter().map(|figure| figure.name()).collect::<Vec<_>>().join(", ");
    let asked: SweepChartRequest = wire::from_text(asked)
        .map_err(|error| wrong("figure", error, &format!("accepted is an object with figure: one of {}", figures())))?;
    Ok(draw_sweep(&asked, &report)?.svg)
}

fn text(report: &impl serde::Serialize) -> Result<String, RunError> {
    let text = serde_json::to_string_pretty(report).map_err(|error| RunError::Damaged(error.to_string()))?;
    Ok(text + "\n")
}
