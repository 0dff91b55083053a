//! The table of all signals: which of them saw the first late user coming, and how long before.

use crate::format::{duration, fixed};
use crate::state::App;
use crate::text;
use crate::views::files::TableBox;
use crate::views::terms::prose;
use leptos::prelude::*;
use servelab_spec::experiment::ExecutionMode;
use servelab_spec::signals::{SignalRow, SignalVerdict, SignalsReport};
use std::sync::Arc;

/// The question and its answer, where replicas come and go.
#[component]
pub(super) fn Foresight() -> impl IntoView {
    let app = App::here();
    let foresight = app.foresight;
    let fits = Memo::new(move |_| app.draft.with(|d| d.scaling.on && d.execution.mode == ExecutionMode::Priced));
    move || {
        fits.get().then(|| {
            view! {
                <details class="cold" data-testid="foresight">
                    <summary><h2>{text::FORESIGHT}</h2></summary>
                    <p class="muted results-note">{prose(text::FORESIGHT_NOTE)}</p>
                    <div class="cold-asked">
                        <button
                            type="button"
                            data-testid="foresight-ask"
                            prop:disabled=move || foresight.asking.get()
                            on:click=move |_| foresight.ask(app)
                        >
                            {move || if foresight.asking.get() { text::FORESIGHT_ASKING } else { text::FORESIGHT_ASK }}
                        </button>
                    </div>
                    {move || foresight.error.get().map(|error| view! { <p class="param-error" role="alert">{error}</p> })}
                    {move || foresight.answer.get().map(|report| view! { <Answer report=report /> })}
                </details>
            }
        })
    }
}

#[component]
fn Answer(report: Arc<SignalsReport>) -> impl IntoView {
    let rows = report.rows.iter().map(row).collect_view();
    let heads = text::FORESIGHT_HEADS.map(|head| view! { <th scope="col">{head}</th> }).collect_view();
    let said = report.sentences.join(" ");
    view! {
        <p role="status" data-testid="foresight-said">{said}</p>
        <TableBox label=text::FORESIGHT name="signals">
            <table class="table worded" data-testid="foresight-table">
                <thead><tr>{heads}</tr></thead>
                <tbody>{rows}</tbody>
            </table>
        </TableBox>
    }
}

fn row(row: &SignalRow) -> impl IntoView + use<> {
    let value = |of: Option<f64>| of.map_or("–".to_owned(), |value| figure(row, value));
    let cells = [
        row.verdict.label().to_owned(),
        row.lead_s.map_or("–".to_owned(), text::lead),
        format!("{:.0} %", row.false_share * 100.0),
        figure(row, row.threshold),
        value(row.calm),
        value(row.at_first_late),
    ];
    // One kind of cell: every kind is bytes of the first load.
    let best = row.verdict == SignalVerdict::InTime;
    let cells = cells.into_iter().enumerate().map(|(at, cell)| {
        let class = match at {
            0 if best => "winner",
            0 => "",
            _ => "num",
        };
        view! { <td class=class>{cell}</td> }
    });
    view! {
        <tr data-testid=format!("foresight-{}", row.name) data-seconds=row.lead_s.map(|lead| lead.to_string()) title=row.basis.clone()>
            <th scope="row">{row.label.clone()}</th>
            {cells.collect_view()}
        </tr>
    }
}

/// A value with its unit.
fn figure(row: &SignalRow, value: f64) -> String {
    match row.unit.as_str() {
        "s" => duration(value),
        unit if value.abs() < 10.0 => format!("{}{unit}", fixed(value, 2)),
        unit => format!("{value:.0}{unit}"),
    }
}
