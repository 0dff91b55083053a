//! The left of the stage: arrivals, gateway, router, and why the last request went where it went.

use crate::format::whole;
use crate::state::App;
use crate::text;
use leptos::prelude::*;
use servelab_spec::frame::{Decision, Frame};
use std::sync::Arc;

/// Arrivals, gateway and router.
#[component]
pub(super) fn Flow(policy: u32, frame: RwSignal<Option<Arc<Frame>>>) -> impl IntoView {
    let app = App::here();
    let count =
        move |of: fn(&Frame) -> u32| Memo::new(move |_| frame.with(|frame| frame.as_ref().map_or(0, |f| of(f))));
    let (arrived, finished, rejected) = (count(|f| f.arrived), count(|f| f.finished), count(|f| f.rejected));
    let several = move || app.run.spec.with(|spec| spec.as_ref().is_some_and(|spec| spec.routing.routers > 1));
    let last = Memo::new(move |_| {
        let several = several();
        frame.with(|frame| frame.as_ref().and_then(|f| f.decisions.last().map(|decision| words(decision, several))))
    });
    view! {
        <div class="flow">
            <div class="flow-node" data-anchor="arrivals">
                <h3 class="flow-name">{text::ARRIVALS}</h3>
                <p class="flow-count num flow-demand">{move || whole(arrived.get().into())}</p>
                <p class="muted num">{move || text::finished_label(finished.get())}</p>
            </div>
            <div class="flow-node" data-anchor="gateway">
                <h3 class="flow-name">{text::GATEWAY}</h3>
                <p class="muted">
                    {move || match rejected.get() {
                        0 => text::GATEWAY_OPEN.to_owned(),
                        some => text::rejected_label(some),
                    }}
                </p>
            </div>
            <div class="flow-node flow-router" data-anchor="router">
                <h3 class="flow-name">{text::ROUTER}</h3>
                <p class="flow-policy">{move || app.router_label(policy)}</p>
                <p class="flow-why">
                    {move || last.get().map(|(head, tenant, why)| {
                        view! {
                            <span class=format!("swatch tenant-{}", tenant % 8) aria-hidden="true"></span>
                            <strong>{head}</strong>
                            " "
                            {why}
                        }
                    })}
                </p>
                <label class="check flow-scores">
                    <input
                        type="checkbox"
                        prop:checked=move || app.look.scores.get()
                        on:change=move |event| app.look.scores.set(event_target_checked(&event))
                    />
                    {text::SHOW_SCORES}
                </label>
            </div>
        </div>
    }
}

/// A decision in words: who went where, and why.
fn words(decision: &Decision, several: bool) -> (String, u32, String) {
    let router = several.then_some(decision.router);
    (text::decision_head(decision.tenant, router, decision.replica), decision.tenant, decision.why.clone())
}
