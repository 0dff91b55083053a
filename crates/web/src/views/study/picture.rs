//! A picture of a sweep or a knee: as the worker drew it, with its files.

use crate::stage::watch_width;
use crate::state::App;
use crate::study::{Batch, Picture as Wanted};
use crate::text;
use crate::views::chart;
use crate::views::terms::prose;
use leptos::html;
use leptos::prelude::*;

/// Narrowest picture that is asked for; the box scrolls below that.
const NARROWEST: u32 = 300;

/// The picture at a place of the batch's. `wanted` says what to draw at a width, dark or not.
#[component]
pub(super) fn Picture(
    batch: Batch,
    place: usize,
    name: &'static str,
    #[prop(into)] wanted: Callback<(u32, bool), Wanted>,
) -> impl IntoView {
    let app = App::here();
    let figure = NodeRef::<html::Figure>::new();
    let resized = watch_width(figure);
    Effect::new(move |_| {
        resized.track();
        batch.outcome.track();
        let Some(figure) = figure.get() else { return };
        let width = figure.client_width().unsigned_abs().max(NARROWEST);
        batch.draw(place, wanted.run((width, app.look.dark())));
    });
    let drawn = batch.charts[place];
    let svg = Memo::new(move |_| drawn.with(|chart| chart.as_ref().map(|c| c.svg.clone()).unwrap_or_default()));
    let title = Memo::new(move |_| drawn.with(|chart| chart.as_ref().map(|c| c.title.clone()).unwrap_or_default()));
    let summary = Memo::new(move |_| drawn.with(|chart| chart.as_ref().map(|c| c.summary.clone()).unwrap_or_default()));
    view! {
        <figure class="chart" node_ref=figure data-testid=name>
            <figcaption class="visually-hidden">{move || title.get()}</figcaption>
            <div class="plot" role="region" tabindex="0" aria-label=move || title.get() data-keys="">
                // The picture brings its own role, name and description.
                <div class="picture" inner_html=svg></div>
                <Show when=move || svg.with(String::is_empty)>
                    <p class="muted">{text::CHART_LOADING}</p>
                </Show>
            </div>
            <p class="muted results-note">{move || prose(&summary.get())}</p>
            {chart::behind(drawn.into())}
        </figure>
    }
}
