//! The knee: its form, and its result as sentences, pictures, table and files.

use super::picture::Picture;
use super::progress::Progress;
use super::{NumberField, knee_of, stale};
use crate::state::App;
use crate::study::form;
use crate::study::{Outcome, Picture as Wanted};
use crate::text;
use crate::views::files::{Kind, TableBox, save};
use crate::views::terms::prose;
use leptos::prelude::*;
use servelab_spec::csv::knee_csv;
use servelab_spec::knee::{KneeChartRequest, KneeCurve, KneeReport, PolicyKnee};
use servelab_spec::sweep::MAX_SEEDS;
use servelab_spec::wire::to_pretty;
use std::sync::Arc;

/// Height of both pictures, CSS pixels.
const HEIGHT: u32 = 300;

/// Form and result.
#[component]
pub(super) fn Knee() -> impl IntoView {
    let app = App::here();
    let study = app.study;
    let batch = study.knee;
    let now = Memo::new(move |_| knee_of(app));
    let old = Memo::new(move |_| now.with(|now| stale(batch.asked.get(), now)));
    let planned =
        move || now.with(|now| now.as_ref().map(|(_, trials)| text::trials_planned(*trials)).unwrap_or_default());
    let live = Memo::new(move |_| app.draft.with(|draft| form::priced(draft).1));
    view! {
        <div class="study-part" data-testid="knee" data-keys="">
            <h3>{text::KNEE}</h3>
            <p class="muted results-note">{prose(text::KNEE_NOTE)}</p>
            <Show when=move || live.get()>
                <p class="muted results-note">{text::STUDY_PRICED}</p>
            </Show>
            <div class="study-form">
                <NumberField label=text::SEEDS id="knee-seeds".to_owned() value=Signal::derive(move || f64::from(study.knee_seeds.get()))
                    range=(1.0, f64::from(MAX_SEEDS)) whole=true on_change=Callback::new(move |seeds| study.knee_seeds.set(seeds as u32)) />
                <span class="muted num">{planned}</span>
            </div>
            <Progress batch=batch name="knee" now=now stale=old />
            {move || match report(&batch.outcome.get()) {
                None => view! { <p class="muted">{move || (!batch.phase.get().busy()).then_some(text::KNEE_EMPTY)}</p> }.into_any(),
                Some(_) => view! { <Shown old=old /> }.into_any(),
            }}
        </div>
    }
}

#[component]
fn Shown(old: Memo<bool>) -> impl IntoView {
    let batch = App::here().study.knee;
    let wanted = |curve: KneeCurve| {
        Callback::new(move |(width, dark)| Wanted::Knee(KneeChartRequest { curve, width, height: HEIGHT, dark }))
    };
    let findings = Memo::new(move |_| {
        batch.charts[0].with(|chart| chart.as_ref().map(|chart| chart.findings.clone()).unwrap_or_default())
    });
    view! {
        <div class:dim=move || old.get() data-testid="knee-result">
            <ul class="findings" aria-live="polite" data-testid="knee-findings">
                {move || findings.get().into_iter().map(|finding| view! { <li>{finding}</li> }).collect_view()}
            </ul>
            <div class="chart-grid">
                <Picture batch=batch place=0 name="knee-goodput" wanted=wanted(KneeCurve::Goodput) />
                <Picture batch=batch place=1 name="knee-ttft" wanted=wanted(KneeCurve::TtftP95) />
            </div>
            {move || report(&batch.outcome.get()).map(|report| view! {
                {table(&report)}
                <p class="muted results-note">{report.definition.clone()}</p>
                {files(&report)}
            })}
        </div>
    }
}

fn report(outcome: &Option<Outcome>) -> Option<Arc<KneeReport>> {
    match outcome {
        Some(Outcome::Knee(report)) => Some(report.clone()),
        _ => None,
    }
}

fn table(report: &KneeReport) -> impl IntoView + use<> {
    let seeds = report.knee.seeds;
    let rows = report.policies.iter().enumerate().map(|(at, policy)| row(at, policy, seeds)).collect_view();
    view! {
        <TableBox label=text::KNEE_TABLE name="knees">
            <table class="table study-table" data-testid="knee-table">
                <thead>
                    <tr>
                        <th scope="col">{text::COL_POLICY}</th>
                        <th scope="col">{text::KNEE_PER_REPLICA}</th>
                        <th scope="col">{text::KNEE_FLEET}</th>
                        <th scope="col">{text::KNEE_VERSUS}</th>
                        <th scope="col">{text::KNEE_SEARCHES}</th>
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
            </table>
        </TableBox>
    }
}

fn row(at: usize, policy: &PolicyKnee, seeds: u32) -> impl IntoView + use<> {
    let note = |text: Option<String>| text.map(|text| view! { <span class="cell-note">{text}</span> });
    let (replica, fleet) = (policy.per_replica_per_s.as_ref(), policy.per_s.as_ref());
    let versus = policy.versus_first.as_ref();
    let noise = versus.is_some_and(|band| band.low.is_some() && !band.significant);
    view! {
        <tr data-testid=format!("knee-row-{at}")>
            <th scope="row">{policy.label.clone()}</th>
            <td class="num">{text::knee_value(replica)} {note(text::knee_interval(replica))}</td>
            <td class="num">{text::knee_value(fleet)} {note(text::knee_interval(fleet))}</td>
            <td class="num" class:noise=noise>
                {versus.map(text::knee_difference)}
                {note(noise.then(|| text::WITHIN_NOISE.to_owned()))}
            </td>
            <td>{text::knee_searches(policy, seeds)}</td>
        </tr>
    }
}

fn files(report: &Arc<KneeReport>) -> impl IntoView + use<> {
    let (json, csv) = (report.clone(), report.clone());
    let name = format!("servelab-knee-{}-seed{}", report.knee.spec.preset, report.knee.spec.seed);
    view! {
        <p class="exports">
            <span class="muted">{text::KNEE_WHOLE}</span>
            {save(Kind::Json, "knee-json", &name, move || to_pretty(&*json).ok())}
            {save(Kind::Csv, "knee-csv", &name, move || Some(knee_csv(&csv)))}
        </p>
    }
}
