//! The table of what weights take at least, with sizes and bandwidths to change.

use crate::format::{duration, number};
use crate::state::App;
use crate::views::files::TableBox;
use crate::views::terms::prose;
use crate::{env, text};
use leptos::prelude::*;
use servelab_spec::coldstart::FloorsSpec;

/// The table.
#[component]
pub(super) fn Floors() -> impl IntoView {
    let app = App::here();
    let cold = app.cold;
    // Fields are those of the first question: while one is typed in, it must not be built anew.
    let spec = cold.floors.get_untracked();
    let heads = spec
        .sources
        .iter()
        .enumerate()
        .map(|(at, source)| {
            let label = text::bandwidth_label(&source.name);
            let set = move |floors: &mut FloorsSpec, value| floors.sources[at].gb_s = value;
            view! {
                <th scope="col" title=source.source.clone()>
                    {source.name.clone()}
                    <span class="cold-field">{field(label, format!("floor-source-{at}"), source.gb_s, set)}<span class="muted">"GB/s"</span></span>
                </th>
            }
        })
        .collect_view();
    let (models, precisions) = (spec.models_b.len(), spec.bits.len());
    let bodies = (0..models)
        .map(|model| {
            let set = move |floors: &mut FloorsSpec, value| floors.models_b[model] = value;
            let size = field(text::COLD_MODEL.into(), format!("floor-model-{model}"), spec.models_b[model], set);
            let mut size = Some(view! { <span class="cold-field">{size}<span class="muted">"B"</span></span> });
            let rows = (0..precisions)
                .map(|precision| {
                    let at = model * precisions + precision;
                    let row = move || cold.answer.with(|answer| answer.as_ref()?.floors.rows.get(at).cloned());
                    view! {
                        <tr data-testid=format!("floor-{at}")>
                            <th scope="row">
                                {size.take()}
                                <span class="cold-bits">
                                    {move || row().map(|row| text::precision(row.bits, &number(row.gb)))}
                                </span>
                            </th>
                            {move || {
                                let seconds = row().map(|row| row.seconds).unwrap_or_default();
                                seconds.into_iter().map(|s| view! { <td class="num">{duration(s)}</td> }).collect_view()
                            }}
                        </tr>
                    }
                })
                .collect_view();
            view! { <tbody>{rows}</tbody> }
        })
        .collect_view();
    view! {
        <h3 class="cold-head">{text::COLD_FLOORS}</h3>
        <p class="muted results-note">{prose(text::COLD_FLOORS_NOTE)}</p>
        <TableBox label=text::COLD_FLOORS name="weights">
            <table class="table cold-floors" data-testid="cold-floors">
                <thead><tr><th scope="col">{text::COLD_WEIGHTS}</th>{heads}</tr></thead>
                {bodies}
            </table>
        </TableBox>
        <ul class="muted cold-sources">
            {spec.sources.into_iter().map(|of| view! { <li>{of.name}": "{of.source}</li> }).collect_view()}
        </ul>
    }
}

fn field(label: String, id: String, value: f64, set: impl Fn(&mut FloorsSpec, f64) + 'static) -> impl IntoView {
    let floors = App::here().cold.floors;
    view! {
        <input
            type="number"
            lang=env::locale()
            class="num"
            step="any"
            min="0"
            aria-label=label
            data-testid=id
            prop:value=value.to_string()
            on:change=move |event| {
                if let Ok(value) = event_target_value(&event).parse::<f64>() {
                    floors.update(|floors| set(floors, value));
                }
            }
        />
    }
}
