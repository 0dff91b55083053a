//! Pictures of a sweep: over one axis lines with bands, over two a map.

use super::axis::Unit;
use super::{Direction, Extent, Form, Picture, Ribbon, Stroke, check_size, heat, plot};
use crate::catalog;
use crate::sweep::{findings, say};
use crate::words::duration;
use servelab_spec::catalog::ParamInfo;
use servelab_spec::patch;
use servelab_spec::protocol::{Chart, ChartRequest, SweepChartRequest};
use servelab_spec::sweep::figures::FigureUnit;
use servelab_spec::sweep::{Axis, Better, Figure, Scale, SweepReport};
use servelab_spec::validate::SpecError;

/// Draws a picture of a sweep, all of it or what is there.
///
/// # Errors
/// A picture too small or too large, a policy that there is not.
pub fn draw(request: &SweepChartRequest, report: &SweepReport) -> Result<Chart, SpecError> {
    check_size(request.width, request.height)?;
    let policies = report.policies.len();
    for (field, policy) in [("chart.policy", Some(request.policy)), ("chart.against", request.against)] {
        if let Some(policy) = policy.filter(|&policy| policy as usize >= policies) {
            return Err(SpecError::new(field, policy, format!("accepted are 0 to {}", policies.saturating_sub(1))));
        }
    }
    let whole = report.points.iter().all(|point| point.at.len() == report.sweep.axes.len())
        && report.points.iter().all(|point| point.policies.len() == policies)
        && report.cells.iter().all(|cell| cell.policies.len() == policies);
    let said = |chart: Chart| Ok(Chart { findings: findings(report, request.figure), ..chart });
    match &report.sweep.axes[..] {
        [axis] if whole => said(lines(request, report, axis)),
        [_, _] if whole => said(heat::draw(request, report)),
        axes => {
            let found = format!("{} axes", axes.len());
            Err(SpecError::new("sweep.axes", found, "accepted are one or two, with a value of each at every point"))
        }
    }
}

/// A setting's name and unit for people; a policy's parameter bears the policy's name.
pub(super) fn axis_name(axis: &Axis, report: &SweepReport) -> String {
    let catalog = catalog::catalog();
    if let Some(setting) = catalog.settings.iter().find(|setting| setting.name == axis.key) {
        // One setting whose unit is another setting, unless that is swept as well.
        let swept = report.sweep.axes.iter().any(|axis| axis.key == "workload.rate_unit");
        let chosen = patch::entries(&report.sweep.spec).into_iter().find(|(key, _)| key == "workload.rate_unit");
        return match chosen {
            Some((_, chosen)) if axis.key == "workload.rate" && !swept => {
                with_unit(&setting.label, if chosen == "of_capacity" { "× capacity" } else { "requests/s" })
            }
            _ => with_unit(&setting.label, &setting.unit),
        };
    }
    let spec = &report.sweep.spec;
    let named = |label: &str, params: &[ParamInfo], name: &str| {
        let param = params.iter().find(|param| param.name == name)?;
        Some(with_unit(&format!("{label}: {}", param.label.to_lowercase()), &param.unit))
    };
    let of = |list: &str| axis.key.strip_prefix(list).and_then(|rest| rest.split_once(".params."));
    let known = if let Some((at, name)) = of("clients.policies.") {
        let client = at.parse::<usize>().ok().and_then(|at| spec.clients.policies.get(at));
        let info = client.and_then(|client| catalog.clients.iter().find(|info| info.name == client.name));
        info.and_then(|info| named(&info.label, &info.params, name))
    } else if let Some((at, name)) = of("policies.") {
        let policy = at.parse::<usize>().ok().and_then(|at| spec.policies.get(at));
        let info = policy.and_then(|policy| catalog.policies.iter().find(|info| info.name == policy.name));
        info.and_then(|info| named(&info.label, &info.params, name))
    } else {
        None
    };
    known.unwrap_or_else(|| axis.key.clone())
}

fn with_unit(name: &str, unit: &str) -> String {
    if unit.is_empty() { name.to_owned() } else { format!("{name} ({unit})") }
}

/// The unit of a figure's axis whose largest value is `largest`.
fn unit(figure: Figure, largest: f64) -> Unit {
    match figure.unit() {
        FigureUnit::Seconds => Unit::of_duration(largest),
        FigureUnit::Share => Unit::Percent,
        FigureUnit::PerSecond | FigureUnit::Number => Unit::Count,
    }
}

/// A figure's name, with "per second" where its unit has none of its own.
pub(super) fn figure_name(figure: Figure) -> &'static str {
    match figure {
        Figure::OfferedPerS => "offered rate (requests/s)",
        Figure::ServedPerS => "served rate (requests/s)",
        Figure::GoodputPerS => "goodput (requests/s)",
        Figure::OutputTokensPerS => "output (tokens/s)",
        Figure::ImbalanceAssignments => "imbalance of requests (max ÷ mean)",
        Figure::ImbalanceUncachedTokens => "imbalance of work (max ÷ mean)",
        figure => figure.label(),
    }
}

/// One line for each policy, its band around it.
fn lines(request: &SweepChartRequest, report: &SweepReport, axis: &Axis) -> Chart {
    let figure = request.figure;
    // Words stand at equal distances, in their order.
    let numbers = report.points.iter().all(|point| point.at[0].number().is_some());
    let x_of = |index: usize| report.points[index].at[0].number().filter(|_| numbers).unwrap_or(index as f64);
    let mut order: Vec<usize> = (0..report.points.len()).collect();
    order.sort_by(|&a, &b| x_of(a).total_cmp(&x_of(b)));
    let log = axis.scale == Scale::Log && numbers && order.first().is_none_or(|&first| x_of(first) > 0.0);
    let (mut ribbons, mut strokes, mut dots) = (vec![], vec![], vec![]);
    for (lane, policy) in report.policies.iter().enumerate() {
        let bands = order.iter().filter_map(|&at| {
            let band = (*report.points[at].policies[lane].mean.get(figure))?;
            Some((x_of(at), band))
        });
        let bands: Vec<_> = bands.collect();
        let points: Vec<(f64, f64)> = bands.iter().map(|(x, band)| (*x, band.mean)).collect();
        let ends = bands.iter().filter_map(|(x, band)| Some((*x, band.low?.max(0.0), band.high?)));
        ribbons.push(Ribbon { lane, points: ends.collect() });
        let label = format!("{}, points run", policy.label);
        dots.push(Stroke { lane, label, form: Form::Dots, points: points.clone() });
        strokes.push(Stroke { lane, label: policy.label.clone(), form: Form::Line, points });
    }
    let largest = strokes.iter().flat_map(|stroke| &stroke.points).fold(0.0f64, |max, point| max.max(point.1));
    let slo = &report.sweep.spec.slo;
    let limit = match figure {
        Figure::TtftP50S | Figure::TtftP95S | Figure::TtftP99S => Some(slo.ttft_s),
        Figure::ItlP95S => Some(slo.itl_s),
        _ => None,
    };
    let (first, last) = (order.first().map_or(0.0, |&at| x_of(at)), order.last().map_or(1.0, |&at| x_of(at)));
    // A single value still has a left and a right.
    let (low, high) = match (first < last, log) {
        (true, _) => (first, last),
        (false, true) => (first / 2.0, first * 2.0),
        (false, false) => (first - 0.5, first + 0.5),
    };
    let words = |&at: &usize| (x_of(at), report.points[at].at[0].to_string());
    let ticks = if numbers { vec![] } else { order.iter().map(words).collect() };
    let name = axis_name(axis, report);
    let picture = Picture {
        title: title(report, figure, &strokes, &name, &order),
        summary: summary(report, figure, &strokes, &name),
        x_name: if log { format!("{name}, logarithmic") } else { name }.into(),
        x_unit: Unit::Count,
        y_name: figure_name(figure).into(),
        y_unit: unit(figure, largest),
        y_at_least: 0.0,
        y_at_most: f64::INFINITY,
        y_log: false,
        marks: vec![],
        extent: Some(Extent { low, high, log, ticks }),
        ribbons,
        strokes: dots.into_iter().chain(strokes).collect(),
        limit: limit.map(|limit| (Direction::Horizontal, limit, format!("limit {}", duration(limit)))),
        empty: "No point yet.",
    };
    let size = ChartRequest {
        id: "sweep_lines".into(),
        width: request.width,
        height: request.height,
        dark: request.dark,
        ..ChartRequest::default()
    };
    plot::render(&size, &picture)
}

/// The question, and what the last point that all policies have says to it.
fn title(report: &SweepReport, figure: Figure, strokes: &[Stroke], name: &str, order: &[usize]) -> String {
    // In a sentence without its unit.
    let setting = name.split(" (").next().unwrap_or(name).to_lowercase();
    let question = format!("How does {} change with {setting}?", figure.label());
    let Some(&last) = order.last() else { return question };
    let at = report.points[last].at[0].to_string();
    let ends = strokes.iter().filter_map(|stroke| Some((stroke.label.as_str(), stroke.points.last()?.1)));
    // Of equals the first, on either side.
    let order = if figure.better() == Better::Higher { -1.0 } else { 1.0 };
    let best = ends.clone().min_by(|a, b| (order * a.1).total_cmp(&(order * b.1)));
    let worst = ends.min_by(|a, b| (-order * a.1).total_cmp(&(-order * b.1)));
    match (best, worst) {
        (Some(best), Some(worst)) if say(figure, best.1) != say(figure, worst.1) => {
            format!(
                "{question} At {at}: {} with {}, {} with {}",
                say(figure, best.1),
                best.0,
                say(figure, worst.1),
                worst.0
            )
        }
        (Some(best), _) if strokes.len() == 1 => format!("{question} At {at}: {} with {}", say(figure, best.1), best.0),
        (Some(best), _) => format!("{question} At {at}: {} with every policy", say(figure, best.1)),
        _ => question,
    }
}

/// First and last value of every policy, for a screen reader.
fn summary(report: &SweepReport, figure: Figure, strokes: &[Stroke], name: &str) -> String {
    let each = strokes.iter().filter_map(|stroke| {
        let (first, last) = (stroke.points.first()?, stroke.points.last()?);
        Some(format!("{} from {} to {}", stroke.label, say(figure, first.1), say(figure, last.1)))
    });
    let each: Vec<String> = each.collect();
    if each.is_empty() {
        return "Nothing to show yet.".into();
    }
    let bands = if report.sweep.seeds > 1 { "; bands are 95 % intervals of the mean over seeds" } else { "" };
    format!("{} over {name}: {}{bands}.", figure.label(), each.join(", "))
}
