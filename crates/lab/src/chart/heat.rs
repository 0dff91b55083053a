//! A map over two axes: one policy's figure, or the difference of two where it is more than noise.

use super::axis::value_texts;
use super::borders::{self, Borders};
use super::palette::{Scheme, scheme};
use super::ramp::{amounts, differences, ink_on};
use super::svg::{Svg, TEXT, TITLE, text_width, wrap};
use super::sweep::{axis_name, figure_name};
use crate::recovery::Recovery;
use crate::sweep::{band, say};
use servelab_spec::protocol::{Chart, Series, SweepChartRequest};
use servelab_spec::sweep::{AxisValue, Band, Better, Figure, SweepReport};

const LINE: f64 = 16.0;
/// Width of the bar that explains the colours, with its figures beside it.
const BAR: f64 = 14.0;
/// Pieces of that bar: enough to look smooth.
const PIECES: usize = 32;

/// One field of the map.
struct Field {
    column: usize,
    row: usize,
    band: Band,
}

pub(super) fn draw(request: &SweepChartRequest, report: &SweepReport) -> Chart {
    let (width, height) = (f64::from(request.width), f64::from(request.height));
    let (colours, figure) = (scheme(request.dark), request.figure);
    let (columns, rows) = (values(report, 0), values(report, 1));
    let fields = fields(request, report, &columns, &rows);
    let (x_label, y_label) = (axis_name(&report.sweep.axes[0], report), axis_name(&report.sweep.axes[1], report));
    let recovers = of_recovery(request, report);
    let borders = borders::of(report, request.policy, [&columns, &rows]).filter(|_| request.against.is_none());
    let title =
        if recovers { recovery_title(report, request.policy, &fields) } else { title(request, report, &fields) };
    let summary = summary(request, report, &fields, (&x_label, &y_label)) + borders.as_ref().map_or("", |_| BORDERS);

    // What the colours reach from and to; a difference has its zero in the middle.
    let means = || fields.iter().map(|field| field.band.mean);
    let (low, high) = match request.against {
        Some(_) => {
            let most = means().fold(0.0f64, |most, mean| most.max(mean.abs()));
            (-most, most)
        }
        None if recovers => (0.0, 1.0),
        None => (means().fold(f64::INFINITY, f64::min), means().fold(f64::NEG_INFINITY, f64::max)),
    };
    let ramp = if request.against.is_some() { differences(request.dark) } else { amounts(request.dark) };
    let share = |value: f64| if high > low { (value - low) / (high - low) } else { 0.5 };
    // Of a difference the better side is blue, whichever sign that has.
    let turned = request.against.is_some() && figure.better() == Better::Lower;
    let colour = |value: f64| ramp.at(if turned { 1.0 - share(value) } else { share(value) });

    let heading = wrap(&title, TITLE, width - 16.0, 3);
    // Borders are named above the map.
    let named = if borders.is_some() { LINE } else { 0.0 };
    let top = 8.0 + LINE * heading.len() as f64 + LINE + 4.0 + named;
    let widest = |values: &[AxisValue]| texts(values).iter().map(|text| text_width(text, TEXT)).fold(0.0, f64::max);
    let left = 14.0 + widest(&rows);
    let ends: Vec<String> = [low, (low + high) / 2.0, high].iter().map(|&value| say(figure, value)).collect();
    let right = BAR + 14.0 + ends.iter().map(|text| text_width(text, TEXT)).fold(0.0, f64::max);
    let area = [left, top, (width - left - right).max(1.0), (height - top - 2.0 * LINE - 6.0).max(1.0)];
    let (wide, tall) = (area[2] / columns.len().max(1) as f64, area[3] / rows.len().max(1) as f64);

    let mut svg = Svg::new("sweep_map", width, height, &title, &summary);
    svg.rect([0.0, 0.0, width, height], colours.surface);
    for (index, line) in heading.iter().enumerate() {
        svg.heading((8.0, 16.0 + LINE * index as f64), colours.ink, line);
    }
    svg.text((8.0, top - named - 6.0), "start", colours.quiet, &y_label);
    svg.text((left + area[2], height - 6.0), "end", colours.quiet, &x_label);
    if fields.is_empty() {
        svg.text((left + area[2] / 2.0, top + area[3] / 2.0), "middle", colours.quiet, "No point yet.");
    }
    for field in &fields {
        let (x, y) = (left + wide * field.column as f64, top + area[3] - tall * (field.row + 1) as f64);
        let noise = request.against.is_some() && is_noise(&field.band);
        let fill = if noise { ramp.at(0.5) } else { colour(field.band.mean) };
        svg.rect([x + 0.5, y + 0.5, (wide - 1.0).max(0.5), (tall - 1.0).max(0.5)], &fill);
        let said = say(figure, field.band.mean);
        let text = if noise { format!("({said})") } else { said };
        let state = recovers.then(|| Recovery::of(field.band.mean).label());
        let worded = state.map(|state| format!("{state}, {text}"));
        let fits = |text: &&str| text_width(text, TEXT) + 4.0 <= wide && tall >= LINE;
        if let Some(text) = [worded.as_deref(), state, Some(&*text)].into_iter().flatten().find(fits) {
            svg.text((x + wide / 2.0, y + tall / 2.0 + 4.0), "middle", ink_on(&fill, colours), text);
        }
    }
    if let Some(borders) = &borders {
        draw_borders(&mut svg, colours, borders, (&columns, &rows), area);
    }
    for (column, value) in thinned(&columns, area[2], |text| text_width(text, TEXT) + 8.0) {
        let x = left + wide * (column as f64 + 0.5);
        svg.text((x, top + area[3] + 4.0 + TEXT), "middle", colours.quiet, &value);
    }
    for (row, value) in thinned(&rows, area[3], |_| LINE) {
        let y = top + area[3] - tall * (row as f64 + 0.5) + 4.0;
        svg.text((left - 6.0, y), "end", colours.quiet, &value);
    }
    if !fields.is_empty() {
        let at = left + area[2] + 8.0;
        for piece in 0..PIECES {
            let value = low + (high - low) * (piece as f64 + 0.5) / PIECES as f64;
            let tall = area[3] / PIECES as f64;
            svg.rect([at, top + area[3] - tall * (piece + 1) as f64, BAR, tall + 0.5], &colour(value));
        }
        for (end, text) in ends.iter().enumerate() {
            let y = top + area[3] - (area[3] - TEXT) * end as f64 / 2.0;
            svg.text((at + BAR + 4.0, y), "start", colours.quiet, text);
        }
    }
    let series = rows.iter().enumerate().map(|(row, value)| {
        let inside: Vec<&Field> = fields.iter().filter(|field| field.row == row).collect();
        Series {
            label: format!("{y_label} {value}"),
            x: inside.iter().map(|field| columns[field.column].number().unwrap_or(field.column as f64)).collect(),
            y: inside.iter().map(|field| field.band.mean).collect(),
            points: inside.len() as u64,
        }
    });
    Chart {
        id: "sweep_map".into(),
        title,
        summary,
        svg: svg.finish(),
        area,
        x: (0.0, columns.len() as f64),
        x_log: false,
        y: (0.0, rows.len() as f64),
        y_log: false,
        x_label,
        y_label: figure_name(figure).into(),
        series: series.collect(),
        findings: vec![],
    }
}

/// Said to whoever can not see them.
const BORDERS: &str = " Lines mark the load below which nothing stays down, capacity ÷ attempts, and capacity itself, above which nothing recovers.";

/// The map says where a fleet recovers and where it stays down.
fn of_recovery(request: &SweepChartRequest, report: &SweepReport) -> bool {
    request.figure == Figure::InTimeAtEnd && request.against.is_none() && report.sweep.spec.clients.on
}

fn recovery_title(report: &SweepReport, policy: u32, fields: &[Field]) -> String {
    let count = |state| fields.iter().filter(|field| Recovery::of(field.band.mean) == state).count();
    let (up, down) = (count(Recovery::Recovers), count(Recovery::StaysDown));
    let label = &report.policies[policy as usize].label;
    format!(
        "Where does it recover with {label}? Of {} points it recovers at {up} and stays down at {down}",
        fields.len()
    )
}

/// Border lines with their names above the map, over fields of any colour.
fn draw_borders(
    svg: &mut Svg,
    colours: &Scheme,
    borders: &Borders,
    (columns, rows): (&[AxisValue], &[AxisValue]),
    [left, top, width, height]: [f64; 4],
) {
    let (wide, tall) = (width / columns.len().max(1) as f64, height / rows.len().max(1) as f64);
    let loads = if borders.up { rows } else { columns };
    // Of a border at value `at` of the other axis: the stretch of line there, from its lower end on.
    let stretch = |at: usize, load: Option<f64>| {
        let place = borders::place(loads, load?)?;
        Some(if borders.up {
            let y = top + height - tall * place;
            [(left + wide * at as f64, y), (left + wide * (at + 1) as f64, y)]
        } else {
            let x = left + wide * place;
            [(x, top + height - tall * at as f64), (x, top + height - tall * (at + 1) as f64)]
        })
    };
    let mut names: Vec<((f64, f64), &str)> = Vec::new();
    for (name, dash, loads) in [("C ÷ A", "6 4", &borders.stable), ("C", "", &borders.capacity)] {
        let stretches: Vec<Option<_>> = loads.iter().enumerate().map(|(at, &load)| stretch(at, load)).collect();
        let steps = stretches.windows(2).filter_map(|pair| Some([pair[0]?[1], pair[1]?[0]]));
        let lines: Vec<[(f64, f64); 2]> = stretches.iter().flatten().copied().chain(steps).collect();
        for (stroke, thick, dash) in [(colours.surface, 5.0, ""), (colours.ink, 2.0, dash)] {
            for [from, to] in &lines {
                svg.line(*from, *to, stroke, thick, dash);
            }
        }
        if let Some([_, end]) = stretches.iter().flatten().last() {
            names.push((*end, name));
        }
    }
    // Near each other, one to the left and one to the right.
    let close = matches!(names[..], [(one, _), (other, _)] if (one.0 - other.0).abs() < 44.0);
    for (index, &((x, y), name)) in names.iter().enumerate() {
        let (at, anchor) = match (borders.up, close, index) {
            (true, ..) => ((x - 4.0, y - 5.0), "end"),
            (false, true, 0) => ((x, top - 6.0), "end"),
            (false, true, _) => ((x, top - 6.0), "start"),
            (false, false, _) => ((x, top - 6.0), "middle"),
        };
        svg.text(at, anchor, colours.ink, name);
    }
}

/// An axis' values in the order of its points; numbers ascending.
fn values(report: &SweepReport, axis: usize) -> Vec<AxisValue> {
    let mut values: Vec<AxisValue> = Vec::new();
    for point in &report.points {
        if !values.contains(&point.at[axis]) {
            values.push(point.at[axis].clone());
        }
    }
    if values.iter().all(|value| value.number().is_some()) {
        values.sort_by(|a, b| a.number().unwrap_or(0.0).total_cmp(&b.number().unwrap_or(0.0)));
    }
    values
}

fn fields(request: &SweepChartRequest, report: &SweepReport, columns: &[AxisValue], rows: &[AxisValue]) -> Vec<Field> {
    let figure = request.figure;
    let fields = report.points.iter().filter_map(|point| {
        let at = |policy: u32| {
            let cells = report.cells.iter().filter(|cell| cell.point == point.point);
            cells.map(move |cell| *cell.policies[policy as usize].get(figure))
        };
        let band = match request.against {
            None => (*point.policies[request.policy as usize].mean.get(figure))?,
            Some(other) => {
                let pairs = at(request.policy).zip(at(other));
                band(pairs.filter_map(|(this, other)| Some(this? - other?)))?
            }
        };
        let column = columns.iter().position(|value| *value == point.at[0])?;
        let row = rows.iter().position(|value| *value == point.at[1])?;
        Some(Field { column, row, band })
    });
    fields.collect()
}

/// Several seeds do not tell it from nothing; a single one can not say.
fn is_noise(band: &Band) -> bool {
    band.low.is_some() && !band.significant
}

/// Values as the map says them.
fn texts(values: &[AxisValue]) -> Vec<String> {
    match values.iter().map(AxisValue::number).collect::<Option<Vec<f64>>>() {
        Some(numbers) => value_texts(&numbers),
        None => values.iter().map(ToString::to_string).collect(),
    }
}

/// Values that have room, evenly thinned out.
fn thinned(values: &[AxisValue], room: f64, needs: impl Fn(&str) -> f64) -> Vec<(usize, String)> {
    let texts = texts(values);
    let widest = texts.iter().map(|text| needs(text)).fold(1.0, f64::max);
    let every = libm::ceil(widest * texts.len() as f64 / room.max(1.0)).max(1.0) as usize;
    texts.into_iter().enumerate().step_by(every).collect()
}

fn title(request: &SweepChartRequest, report: &SweepReport, fields: &[Field]) -> String {
    let (figure, name) = (request.figure, |policy: u32| report.policies[policy as usize].label.as_str());
    let ahead = |a: f64, b: f64| if figure.better() == Better::Higher { a > b } else { a < b };
    match request.against {
        Some(other) => {
            let question =
                format!("Where does {} differ from {} in {}?", name(request.policy), name(other), figure.label());
            let count = |better: bool| {
                fields
                    .iter()
                    .filter(|f| !is_noise(&f.band) && f.band.mean != 0.0 && ahead(f.band.mean, 0.0) == better)
                    .count()
            };
            let (wins, losses, all) = (count(true), count(false), fields.len());
            let (wins_are, losses_are) =
                if figure.better() == Better::Neither { ("lower", "higher") } else { ("better", "worse") };
            let noise = all - wins - losses;
            format!(
                "{question} Of {all} points {wins_are} at {wins}, {losses_are} at {losses}, alike within noise at {noise}"
            )
        }
        None => {
            let question = format!("How does {} with {} depend on both?", figure.label(), name(request.policy));
            let mut best: Option<&Field> = None;
            for field in fields {
                best = best.filter(|best| !ahead(field.band.mean, best.band.mean)).or(Some(field));
            }
            match best {
                Some(field) if figure.better() != Better::Neither => {
                    let (columns, rows) = (values(report, 0), values(report, 1));
                    let (x, y) = (&texts(&columns)[field.column], &texts(&rows)[field.row]);
                    format!("{question} Best is {} at {x} and {y}", say(figure, field.band.mean))
                }
                _ => question,
            }
        }
    }
}

fn summary(request: &SweepChartRequest, report: &SweepReport, fields: &[Field], (x, y): (&str, &str)) -> String {
    if fields.is_empty() {
        return "Nothing to show yet.".into();
    }
    let figure = request.figure;
    let low = fields.iter().map(|field| field.band.mean).fold(f64::INFINITY, f64::min);
    let high = fields.iter().map(|field| field.band.mean).fold(f64::NEG_INFINITY, f64::max);
    let noise = match (request.against, report.sweep.seeds) {
        (Some(_), 1) => " A single seed: nothing says what is noise.",
        (Some(_), _) => " Grey and in brackets: within noise. Blue: better; orange: worse.",
        _ => "",
    };
    let (low, high) = (say(figure, low), say(figure, high));
    format!("{} over {x} and {y}: from {low} to {high}.{noise}", figure_name(figure))
}
