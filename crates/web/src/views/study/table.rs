//! A sweep's numbers as a table: a row for each point, a column for each policy.

use crate::state::App;
use crate::text;
use crate::views::files::TableBox;
use leptos::prelude::*;
use servelab_spec::sweep::{Figure, PointPolicy, PointReport, SweepReport};
use std::sync::Arc;

/// Rows shown; the file has all of them.
const MOST_ROWS: usize = 200;

/// The table of the chosen figure.
#[component]
pub(super) fn SweepTable(report: Arc<SweepReport>) -> impl IntoView {
    let app = App::here();
    let study = app.study;
    let names: Vec<String> = report.sweep.axes.iter().map(|axis| key_words(app, &axis.key)).collect();
    let head =
        report.policies.iter().map(|policy| view! { <th scope="col">{policy.label.clone()}</th> }).collect_view();
    let axes = names.into_iter().map(|name| view! { <th scope="col">{name}</th> }).collect_view();
    let total = report.points.len();
    let rows = move || {
        let figure = study.figure.get();
        let row = |point: &PointReport| {
            let values = point.at.iter().map(|value| view! { <th scope="row" class="num">{value.to_string()}</th> });
            let cells = point.policies.iter().map(|of| cell(figure, of));
            view! { <tr>{values.collect_view()} {cells.collect_view()}</tr> }
        };
        report.points.iter().take(MOST_ROWS).map(row).collect_view()
    };
    view! {
        <details class="more-table">
            <summary>{text::SWEEP_TABLE}</summary>
            <TableBox label=text::SWEEP_TABLE name="sweep-table" class="chart-table">
                <table class="table study-table" data-testid="sweep-table">
                    <caption class="visually-hidden">{move || study.figure.get().label()}</caption>
                    <thead><tr>{axes} {head}</tr></thead>
                    <tbody>{rows}</tbody>
                </table>
            </TableBox>
            {(total > MOST_ROWS).then(|| view! { <p class="muted">{text::first_rows(MOST_ROWS, total)}</p> })}
        </details>
    }
}

/// Mean, interval, and whether that is more than noise.
fn cell(figure: Figure, of: &PointPolicy) -> impl IntoView + use<> {
    let Some(band) = of.mean.get(figure) else { return view! { <td class="num">"–"</td> }.into_any() };
    let versus = of.versus_first.as_ref().and_then(|all| *all.get(figure));
    let noise = versus.is_some_and(|band| band.low.is_some() && !band.significant);
    let interval = text::figure_interval(figure, band);
    view! {
        <td class="num" class:noise=noise title=noise.then_some(text::WITHIN_NOISE)>
            {text::figure_value(figure, band.mean)}
            {interval.map(|interval| view! { <span class="cell-note">{interval}</span> })}
        </td>
    }
    .into_any()
}

/// A setting's name, or its key.
fn key_words(app: App, key: &str) -> String {
    let known = app.catalog.with_untracked(|catalog| {
        catalog.as_ref()?.settings.iter().find(|setting| setting.name == key).map(|setting| setting.label.clone())
    });
    known.unwrap_or_else(|| key.to_owned())
}
