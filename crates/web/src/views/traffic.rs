//! The visitor's own traffic: a file to open or drop, how it is read, what it looks like, and the way into an experiment.

use crate::state::App;
use crate::views::chart::behind;
use crate::views::files::TableBox;
use crate::views::terms::prose;
use crate::{text, traffic};
use js_sys::Reflect;
use leptos::prelude::*;
use servelab_spec::protocol::Chart;
use servelab_spec::traffic::{TraceFormat, TraceView};
use std::sync::Arc;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{Blob, Element};

/// Units that times may be in.
const UNITS: [&str; 4] = ["s", "ms", "us", "ns"];

/// The section, folded until somebody wants it or drops a file on it.
#[component]
pub(super) fn Traffic() -> impl IntoView {
    let app = App::here();
    let of = app.traffic;
    let over = RwSignal::new(false);
    Effect::new(move |_| traffic::redraw(app));
    let toggled = move |event: leptos::ev::Event| {
        let details = event.target().and_then(|target| target.dyn_into::<Element>().ok());
        of.open.set(details.is_some_and(|details| details.has_attribute("open")));
    };
    let pick = move |event: leptos::ev::Event| {
        let Some(input) = event.target() else { return };
        if let Some((file, name)) = first_file(&input) {
            traffic::choose(app, file, name);
        }
        // The same file again is a change again.
        let _ = Reflect::set(&input, &"value".into(), &"".into());
    };
    view! {
        <details
            class="traffic"
            class:over=move || over.get()
            data-testid="traffic"
            prop:open=move || of.open.get()
            on:toggle=toggled
            on:dragover=move |event| {
                event.prevent_default();
                over.set(true);
            }
            on:dragleave=move |_| over.set(false)
            on:drop=move |event| {
                event.prevent_default();
                over.set(false);
                let carried = Reflect::get(&event, &"dataTransfer".into()).unwrap_or(JsValue::UNDEFINED);
                if let Some((file, name)) = first_file(&carried) {
                    traffic::choose(app, file, name);
                }
            }
        >
            <summary><h2>{text::TRAFFIC}</h2></summary>
            <p class="muted results-note">{prose(text::TRAFFIC_NOTE)}</p>
            <p class="traffic-asked">
                <label class="linklike file-pick">
                    {text::TRAFFIC_OPEN}
                    <input type="file" class="visually-hidden" data-testid="traffic-file" on:change=pick />
                </label>
                <span class="muted">{text::TRAFFIC_DROP}</span>
                <Show when=move || !of.name.with(String::is_empty)>
                    <span class="traffic-name">{move || of.name.get()}</span>
                    <Format />
                </Show>
            </p>
            {move || of.error.get().map(|error| view! { <p class="param-error" role="alert" data-testid="traffic-error">{error}</p> })}
            <Show when=move || !of.columns.with(Vec::is_empty)>
                <Columns />
            </Show>
            {move || of.progress.get().map(|(stage, fraction, requests)| view! {
                <p role="status" data-testid="traffic-progress">
                    <progress max="1" value=fraction.to_string()></progress>
                    " "{text::traffic_progress(&stage, fraction, requests)}" "
                    <button type="button" class="quiet small" data-testid="traffic-cancel" on:click=move |_| traffic::cancel(app)>
                        {text::TRAFFIC_CANCEL}
                    </button>
                </p>
            })}
            {move || of.view.get().map(|view| view! { <Seen view=view /> })}
        </details>
    }
}

/// The first file of something that has files, and its name.
fn first_file(of: &JsValue) -> Option<(Blob, String)> {
    let files = Reflect::get(of, &"files".into()).ok()?;
    let file = Reflect::get_u32(&files, 0).ok()?.dyn_into::<Blob>().ok()?;
    let name = Reflect::get(&file, &"name".into()).ok()?.as_string()?;
    Some((file, name))
}

/// How the file is read.
#[component]
fn Format() -> impl IntoView {
    let app = App::here();
    let format = app.traffic.format;
    let choose = move |name: String| {
        format.set(TraceFormat::named(&name).ok());
        traffic::read(app);
    };
    view! {
        <label>
            {text::TRAFFIC_FORMAT}" "
            <select data-testid="traffic-format" on:change=move |event| choose(event_target_value(&event))>
                <option value="" selected=move || format.get().is_none()>{text::TRAFFIC_RECOGNISED}</option>
                {TraceFormat::ALL
                    .map(|of| view! { <option value=of.name() selected=move || format.get() == Some(of)>{of.label()}</option> })
                    .collect_view()}
            </select>
        </label>
    }
}

/// Which column of a table is what.
#[component]
fn Columns() -> impl IntoView {
    let app = App::here();
    let (columns, map) = (app.traffic.columns, app.traffic.map);
    let part = move |part: &'static str, chosen: String| {
        let names = columns.get_untracked();
        let names: Vec<String> = if part == "unit" { UNITS.map(str::to_owned).into() } else { names };
        view! {
            <label>
                {text::traffic_part(part)}
                <select
                    data-testid=format!("traffic-{part}")
                    on:change=move |event| map.update(|map| map.set(part, &event_target_value(&event)))
                >
                    <option value="" selected=chosen.is_empty()>{text::TRAFFIC_NONE}</option>
                    {names
                        .into_iter()
                        .map(|name| {
                            let selected = name == chosen;
                            view! { <option value=name.clone() selected=selected>{name.clone()}</option> }
                        })
                        .collect_view()}
                </select>
            </label>
        }
    };
    view! {
        <fieldset class="traffic-columns">
            <legend><h3>{text::TRAFFIC_COLUMNS}</h3></legend>
            {move || {
                columns.track();
                let parts = map.with_untracked(|map| map.parts().map(|(name, column)| (name, column.to_owned())));
                parts.map(|(name, column)| part(name, column)).collect_view()
            }}
            <button type="button" data-testid="traffic-read" on:click=move |_| traffic::read(app)>{text::TRAFFIC_READ}</button>
        </fieldset>
    }
}

/// What it looks like.
#[component]
fn Seen(view: Arc<TraceView>) -> impl IntoView {
    let app = App::here();
    let facts = view
        .facts
        .iter()
        .map(|(name, value)| view! { <tr><th scope="row">{name.clone()}</th><td>{value.clone()}</td></tr> })
        .collect_view();
    let findings = view.findings.iter().map(|finding| view! { <li>{finding.clone()}</li> });
    let charts = move || {
        let picture = |chart: Chart| {
            view! {
                <figure class="chart" data-keys="">
                    <div class="picture" data-testid=chart.id.clone() inner_html=chart.svg.clone()></div>
                    <p class="muted results-note">{prose(&chart.summary)}</p>
                    {behind(Signal::stored(Some(Arc::new(chart))))}
                </figure>
            }
        };
        app.traffic.charts.get().into_iter().map(picture).collect_view()
    };
    let remarks = view.remarks.iter().map(|remark| view! { <li>{text::traffic_remark(remark)}</li> }).collect_view();
    view! {
        <div data-testid="traffic-view" data-trace=view.trace.clone()>
            <p><strong>{view.format.clone()}</strong></p>
            <div role="status"><ul class="findings" data-testid="traffic-findings">{findings.collect_view()}</ul></div>
            <p class="exports">
                <button type="button" data-testid="traffic-compare" on:click=move |_| traffic::compare(app, false)>
                    {text::TRAFFIC_COMPARE}
                </button>
                <button type="button" data-testid="traffic-generate" on:click=move |_| traffic::compare(app, true)>
                    {text::TRAFFIC_GENERATE}
                </button>
            </p>
            <TableBox label=text::TRAFFIC_FACTS name="traffic" class="traffic-facts"><table><tbody>{facts}</tbody></table></TableBox>
            {(!view.remarks.is_empty()).then(|| view! {
                <h3>{text::TRAFFIC_REMARKS}</h3>
                <ul data-testid="traffic-remarks">{remarks}</ul>
            })}
            <div class="traffic-charts">{charts}</div>
        </div>
    }
}
