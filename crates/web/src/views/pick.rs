//! One of a few: buttons in a row, the chosen one pressed.

use leptos::prelude::*;

/// The row. `chosen` is a position in `options`; outside of them none is pressed.
#[component]
pub(super) fn Pick(
    label: &'static str,
    options: Vec<&'static str>,
    #[prop(into)] chosen: Signal<usize>,
    #[prop(into)] choose: Callback<usize>,
    testid: &'static str,
) -> impl IntoView {
    let buttons = options.into_iter().enumerate().map(|(at, words)| {
        view! {
            <button
                type="button"
                class="tab small"
                class:tab-on=move || chosen.get() == at
                aria-pressed=move || (chosen.get() == at).to_string()
                data-testid=format!("{testid}-{words}")
                on:click=move |_| choose.run(at)
            >
                {words}
            </button>
        }
    });
    view! { <div class="pick" role="group" aria-label=label data-testid=testid>{buttons.collect_view()}</div> }
}

/// Names of the figures of a latency, as they stand on buttons.
pub(super) fn statistics() -> Vec<&'static str> {
    servelab_spec::protocol::Statistic::ALL.map(servelab_spec::protocol::Statistic::name).to_vec()
}
