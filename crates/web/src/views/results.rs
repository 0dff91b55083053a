//! The answer: a row per policy, the better value bold, and what happened in sentences.

mod clients;
mod column;
mod gateway;
mod scaling;
mod table;

pub(crate) use column::Sort;

use super::export::Export;
use super::tenants::{Replicas, Tenants};
use super::terms::marked;
use crate::first::BEFORE;
use crate::state::{App, Phase};
use crate::text;
use crate::text::glossary::Marker;
use clients::Clients;
use gateway::Gateway;
use leptos::prelude::*;
use scaling::Scaling;
use servelab_spec::Report;
use std::sync::Arc;
use table::Table;

/// The results of the latest run.
#[component]
pub(super) fn Results() -> impl IntoView {
    let app = App::here();
    let (tenants, replicas) = (RwSignal::new(false), RwSignal::new(false));
    // Announced once per result, and only then.
    let announced =
        move || app.run.report.with(|report| report.as_ref().map(|r| r.findings.join(" ")).unwrap_or_default());
    let before = Memo::new(move |_| app.run.reported.get() == BEFORE);
    let old = move || !before.get() && app.run.reported.get() != app.run.number.get();
    view! {
        <section class="results" aria-label=text::RESULTS_REGION>
            <h2>
                {text::RESULTS}
                {move || before.get().then(|| view! { <span class="muted results-before" data-testid="before">{text::FROM_BEFORE}</span> })}
            </h2>
            <p class="visually-hidden" aria-live="polite">{announced}</p>
            {move || match app.run.report.get() {
                None => view! { <p class="muted">{move || match app.run.phase.get() {
                    Phase::Failed => text::RESULTS_FAILED,
                    _ => text::RESULTS_EMPTY,
                }}</p> }.into_any(),
                Some(report) => view! {
                    <div class:dim=move || app.stale() || old()>
                        <Notes report=report.clone() />
                        <ul class="findings" data-testid="findings">
                            {found(&report.findings)}
                        </ul>
                        <Clients report=report.clone() />
                        <Scaling report=report.clone() />
                        <Table report=report.clone() />
                        <Gateway report=report.clone() />
                        <Tenants report=report.clone() open=tenants />
                        <Replicas report=report.clone() open=replicas />
                        <Export report=report />
                    </div>
                }.into_any(),
            }}
        </section>
    }
}

/// Findings with their terms marked, each once.
fn found(findings: &[String]) -> impl IntoView + use<> {
    let mut marker = Marker::default();
    findings.iter().map(|finding| view! { <li>{marked(&mut marker, finding)}</li> }).collect_view()
}

/// What a reader must know before the numbers: partial, stale, of which device.
#[component]
fn Notes(report: Arc<Report>) -> impl IntoView {
    let app = App::here();
    let price_list = app.catalog.with_untracked(|catalog| {
        let name = report.cost.source.strip_prefix("preset:")?;
        catalog.as_ref()?.costs.iter().find(|cost| cost.name == name).map(|cost| cost.label.clone())
    });
    let cost = text::cost_line(&report, price_list.as_deref());
    let prediction = report.cost.prediction.as_ref().map(text::prediction_line);
    let fallback = report.cost.fallback.clone();
    view! {
        {move || (app.run.phase.get() == Phase::Partial).then(|| view! { <p class="stale">{text::PARTIAL}</p> })}
        {move || app.stale().then(|| view! { <p class="stale">{text::STALE_RESULTS}</p> })}
        {fallback.map(|reason| view! { <p class="stale" data-testid="fallback">{text::moved_to_cpu(&reason)}</p> })}
        <p class="muted results-note">{cost}</p>
        {prediction.map(|line| view! { <p class="muted results-note">{line}</p> })}
    }
}
