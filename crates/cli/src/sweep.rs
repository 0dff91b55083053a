//! Runs a sweep, or a shard of one, on all cores.

use crate::args::{Format, Into, SweepArgs};
use crate::output::Output;
use crate::run::write_json;
use crate::spread::spread;
use crate::table::Table;
use crate::{Failure, failed, source};
use servelab_lab::chart::draw_sweep;
use servelab_lab::sweep::{Plan, findings, say};
use servelab_lab::words;
use servelab_spec::SCHEMA_VERSION;
use servelab_spec::csv::sweep_csv;
use servelab_spec::protocol::SweepChartRequest;
use servelab_spec::sweep::{Axis, Band, Figure, PointPolicy, Shard, SweepReport, SweepSpec};
use std::io::Write;
use std::path::Path;

/// Seeds where nothing else is said: the interval is then 1.24 standard deviations to each side, and a sixth seed would take off a tenth of it.
const SEEDS: u32 = 5;

pub(crate) fn sweep(args: &SweepArgs, out: &mut impl Write) -> Result<(), Failure> {
    let request = |error: servelab_spec::SpecError| Failure::Request(error.to_string());
    let axes = args.axes.iter().map(|text| Axis::parse(text)).collect::<Result<Vec<_>, _>>().map_err(request)?;
    let shard = args.shard.as_deref().map_or(Ok(Shard::WHOLE), Shard::parse).map_err(request)?;
    let mut sweep = match source::sweep(&args.experiment)? {
        Some(sweep) => sweep,
        None => {
            let spec = source::spec(&args.experiment)?;
            SweepSpec { version: SCHEMA_VERSION, spec, axes: vec![], seeds: SEEDS }
        }
    };
    if !axes.is_empty() {
        sweep.axes = axes;
    }
    if sweep.axes.is_empty() {
        return Err(Failure::Request("--axis: a sweep needs one or two, as in --axis workload.rate=0.5..2*7".into()));
    }
    sweep.seeds = args.seeds.unwrap_or(sweep.seeds);
    let plan = Plan::new(sweep).map_err(request)?;
    plan.check().map_err(request)?;
    // As in a run: what is mistyped, and a file that can not be written, should cost no work.
    let charts = args.charts.iter().map(|text| chart(args, &plan, text)).collect::<Result<Vec<_>, _>>()?;
    let charts = (charts.into_iter())
        .map(|(request, file)| Ok((request, Output::open(Path::new(file))?)))
        .collect::<Result<Vec<_>, Failure>>()?;
    let target = Target::open(&args.spread.into)?;
    let cells: Vec<u32> = shard.cells(plan.cells()).collect();
    let results = spread(&cells, args.spread.jobs, |&cell| plan.run(cell)).map_err(failed)?;
    let report = plan.report(results);
    write(&report, target, out)?;
    out.flush()?;
    for (wanted, file) in charts {
        file.write(&draw_sweep(&wanted, &report).map_err(request)?.svg)?;
    }
    Ok(())
}

/// Pixels of a chart: those of a run's, unless one asks otherwise there.
pub(crate) const SIZE: (u32, u32) = (960, 480);

fn chart<'a>(args: &SweepArgs, plan: &Plan, text: &'a str) -> Result<(SweepChartRequest, &'a str), Failure> {
    let parts = text.split_once('=').filter(|(_, file)| !file.is_empty());
    let figure = parts.and_then(|(name, _)| Figure::ALL.iter().copied().find(|figure| figure.name() == name));
    let (Some((_, file)), Some(figure)) = (parts, figure) else {
        let names: Vec<&str> = Figure::ALL.iter().map(|figure| figure.name()).collect();
        let accepted = format!("accepted is FIGURE=FILE.svg with one of {}", names.join(", "));
        return Err(Failure::Request(format!("--chart {text}: {accepted}")));
    };
    let (width, height) = SIZE;
    let policy = args.policy.unwrap_or(0);
    let request = SweepChartRequest { figure, policy, against: args.against, width, height, dark: false };
    // Drawing nothing finds every fault of the request.
    draw_sweep(&request, &plan.report(vec![])).map_err(|error| Failure::Request(error.to_string()))?;
    Ok((request, file))
}

/// Where a result goes and in which form.
pub(crate) struct Target {
    file: Option<Output>,
    pub(crate) format: Format,
}

impl Target {
    /// Opened before the work, so that a file that can not be written costs none.
    pub(crate) fn open(into: &Into) -> Result<Self, Failure> {
        let file = into.out.as_deref().map(Output::open).transpose()?;
        let usual = if file.is_some() { Format::Json } else { Format::Table };
        Ok(Target { file, format: into.format.unwrap_or(usual) })
    }

    /// Fills the file, or else the terminal, with what `fill` writes.
    pub(crate) fn fill(
        self,
        out: &mut impl Write,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut text = Vec::new();
        fill(&mut text)?;
        match self.file {
            Some(file) => file.write(&String::from_utf8_lossy(&text)),
            None => Ok(out.write_all(&text)?),
        }
    }
}

/// A sweep's result in the form that was asked for.
pub(crate) fn write(report: &SweepReport, target: Target, out: &mut impl Write) -> Result<(), Failure> {
    let format = target.format;
    target.fill(out, |text| match format {
        Format::Json => write_json(report, text),
        Format::Csv => Ok(write!(text, "{}", sweep_csv(report))?),
        Format::Table | Format::Markdown => summary(report, text),
    })
}

/// The figures of the table: what most questions are about. Files have all of them.
const SHOWN: [Figure; 6] = [
    Figure::GoodputPerS,
    Figure::GoodputFraction,
    Figure::TtftP50S,
    Figure::TtftP95S,
    Figure::Reuse,
    Figure::ImbalanceAssignments,
];

/// The figures that sentences under the table are about.
const SAID: [Figure; 2] = [Figure::TtftP95S, Figure::GoodputPerS];

/// One more where clients have rules of their own: whether the end is well.
fn shown(report: &SweepReport) -> Vec<Figure> {
    let ends = report.sweep.spec.clients.on.then_some(Figure::InTimeAtEnd);
    SHOWN.into_iter().chain(ends).collect()
}

fn summary(report: &SweepReport, out: &mut Vec<u8>) -> Result<(), Failure> {
    let (sweep, cells) = (&report.sweep, report.cells.len());
    writeln!(
        out,
        "{}: {}, {} from {}; {cells} of {}",
        sweep.spec.preset,
        words::many(report.points.len() as u64, "point"),
        words::many(sweep.seeds.into(), "seed"),
        sweep.spec.seed,
        words::many(report.cells_total.into(), "run")
    )?;
    let versus = report.policies.len() > 1;
    let mut head: Vec<&str> = sweep.axes.iter().map(|axis| axis.key.as_str()).collect();
    head.push("policy");
    let shown = shown(report);
    head.extend(shown.iter().map(|figure| figure.label()));
    if versus {
        head.push("TTFT p95 − first policy's");
    }
    let mut table = Table::with_names(sweep.axes.len() + 1, &head);
    for point in &report.points {
        for (policy, of) in report.policies.iter().zip(&point.policies) {
            let mut row: Vec<String> = point.at.iter().map(ToString::to_string).collect();
            row.push(policy.label.clone());
            row.extend(shown.iter().map(|&figure| cell(figure, *of.mean.get(figure))));
            if versus {
                row.push(difference(of));
            }
            table.row(row);
        }
    }
    table.write(out)?;
    if sweep.seeds > 1 {
        writeln!(out, "\nMeans over seeds ± half of their 95 % interval.")?;
        if versus {
            writeln!(out, "Differences are paired on the same arrivals, in brackets where they are within noise.")?;
        }
    }
    writeln!(out)?;
    for finding in SAID.iter().flat_map(|&figure| findings(report, figure)) {
        writeln!(out, "{finding}")?;
    }
    Ok(())
}

/// Mean ± half of the interval.
fn cell(figure: Figure, band: Option<Band>) -> String {
    let Some(band) = band else { return "–".into() };
    let mean = say(figure, band.mean);
    match band.low.zip(band.high) {
        Some((low, high)) => {
            // What no run can give is no part of the interval: a share above 1, a time below 0.
            let half = (figure.possible(high) - band.mean).max(band.mean - figure.possible(low));
            format!("{mean} ± {}", say(figure, half))
        }
        None => mean,
    }
}

fn difference(of: &PointPolicy) -> String {
    match of.versus_first.and_then(|figures| figures.ttft_p95_s) {
        None => String::new(),
        Some(band) => {
            let sign = if band.mean < 0.0 { "−" } else { "+" };
            let text = format!("{sign}{}", words::duration(band.mean.abs()));
            if band.significant { text } else { format!("({text})") }
        }
    }
}
