//! What colours, patterns and shapes mean.

use crate::stage::has_blocks;
use crate::state::App;
use crate::text;
use leptos::prelude::*;

/// Tenants beyond this many share colours, and the legend says so.
const COLOURS: u32 = 8;

/// The legend under the stage.
#[component]
pub(super) fn Legend() -> impl IntoView {
    let app = App::here();
    let tenants = Memo::new(move |_| app.run.spec.with(|spec| spec.as_ref().map_or(0, |spec| spec.workload.tenants())));
    view! {
        <details class="legend" open>
            <summary>{text::LEGEND}</summary>
            <div class="legend-rows">
                <ul class="legend-row">
                    <li class="muted">{text::LEGEND_TENANTS}</li>
                    {move || {
                        (0..tenants.get().min(COLOURS))
                            .map(|tenant| {
                                view! {
                                    <li>
                                        <span class=format!("swatch tenant-{tenant}") aria-hidden="true"></span>
                                        {text::tenant_letter(tenant)}
                                    </li>
                                }
                            })
                            .collect_view()
                    }}
                    <Show when=move || { tenants.get() > COLOURS }>
                        <li class="muted">{text::LEGEND_REPEAT}</li>
                    </Show>
                </ul>
                <ul class="legend-row">
                    <li class="muted">{text::LEGEND_PILL}</li>
                    <li><span class="key key-cached" aria-hidden="true"></span>{text::LEGEND_CACHED}</li>
                    <li><span class="key key-computed" aria-hidden="true"></span>{text::LEGEND_COMPUTED}</li>
                    <li><span class="key key-todo" aria-hidden="true"></span>{text::LEGEND_TODO}</li>
                    <li><span class="key key-tail" aria-hidden="true"></span>{text::LEGEND_OUTPUT}</li>
                </ul>
                <ul class="legend-row" class:legend-none=move || app.run.spec.with(|spec| spec.as_ref().is_some_and(|spec| !has_blocks(spec)))>
                    <li class="muted">{text::LEGEND_BLOCKS}</li>
                    <li><span class="square square-held" aria-hidden="true"></span>{text::LEGEND_HELD}</li>
                    <li><span class="square square-shared" aria-hidden="true"></span>{text::LEGEND_SHARED}</li>
                    <li><span class="square square-kept" aria-hidden="true"></span>{text::LEGEND_KEPT}</li>
                    <li><span class="square square-empty" aria-hidden="true"></span>{text::LEGEND_EMPTY}</li>
                    <li><span class="square square-evicted" aria-hidden="true"></span>{text::LEGEND_EVICTED}</li>
                </ul>
            </div>
        </details>
    }
}
