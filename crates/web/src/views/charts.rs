//! The charts, on one time axis with the stage's position in all of them.

use super::chart::ChartView;
use crate::stage::has_blocks;
use crate::state::{App, CHARTS, Phase, SCALING_CHART, STORM_CHARTS};
use crate::text;
use leptos::prelude::*;

/// All charts.
#[component]
pub(super) fn Charts() -> impl IntoView {
    let app = App::here();
    let scales = Memo::new(move |_| app.run.spec.with(|spec| spec.as_ref().is_some_and(|spec| spec.scaling.on)));
    let storms = Memo::new(move |_| app.run.spec.with(|spec| spec.as_ref().is_some_and(|spec| spec.clients.on)));
    let cached = Memo::new(move |_| app.run.spec.with(|spec| spec.as_ref().is_none_or(|spec| has_blocks(spec))));
    let reported = Memo::new(move |_| app.run.report.with(Option::is_some));
    let any = Memo::new(move |_| reported.get() || app.run.phase.get() == Phase::Running);
    view! {
        <section class="charts" aria-label=text::CHARTS_REGION>
            <h2>{text::CHARTS}</h2>
            <Show when=move || any.get() fallback=|| view! { <p class="muted">{text::CHARTS_EMPTY}</p> }>
                <div class="chart-grid" class:dim=move || app.stale()>
                    {(0..CHARTS.len())
                        .map(|at| {
                            let shown = move || match CHARTS[at] {
                                id if !reported.get() => app.grows(id),
                                SCALING_CHART => scales.get(),
                                id if STORM_CHARTS.contains(&id) => storms.get(),
                                "reuse_over_time" => cached.get(),
                                _ => true,
                            };
                            view! { <Show when=shown><ChartView at=at /></Show> }
                        })
                        .collect_view()}
                </div>
            </Show>
        </section>
    }
}
