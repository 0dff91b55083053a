//! The sweep: its form, and its result as sentences, picture, table and files.

use super::axis::Axis;
use super::picture::Picture;
use super::progress::Progress;
use super::table::SweepTable;
use super::{NumberField, stale, sweep_of};
use crate::state::App;
use crate::study::form::{self, Choice};
use crate::study::{Outcome, Picture as Wanted, Work};
use crate::text;
use crate::views::files::{Kind, save};
use crate::views::pick::Pick;
use crate::views::terms::prose;
use leptos::prelude::*;
use servelab_spec::csv::sweep_csv;
use servelab_spec::protocol::SweepChartRequest;
use servelab_spec::sweep::{Figure, MAX_SEEDS, SweepReport};
use servelab_spec::wire::to_pretty;
use std::sync::Arc;

/// Heights of a line chart and of a map, CSS pixels.
const HEIGHTS: (u32, u32) = (320, 380);

/// The figures of one latency, the milder one first.
const TTFT: [Figure; 3] = [Figure::TtftP50S, Figure::TtftP95S, Figure::TtftP99S];

/// Form and result.
#[component]
pub(super) fn Sweep(choices: Memo<Vec<Choice>>) -> impl IntoView {
    let app = App::here();
    let study = app.study;
    let batch = study.sweep;
    let now = Memo::new(move |_| sweep_of(app));
    let old = Memo::new(move |_| now.with(|now| stale(batch.asked.get(), now)));
    let planned = move || {
        now.with(|now| match now {
            Ok((Work::Sweep(sweep), runs)) => text::runs_planned(runs / sweep.seeds.max(1), sweep.seeds),
            _ => String::new(),
        })
    };
    let live = Memo::new(move |_| app.draft.with(|draft| form::priced(draft).1));
    view! {
        <div class="study-part" data-testid="sweep" data-keys="">
            <h3>{text::SWEEP}</h3>
            <p class="muted results-note">{prose(text::SWEEP_NOTE)}</p>
            <Show when=move || live.get()>
                <p class="muted results-note">{text::STUDY_PRICED}</p>
            </Show>
            <div class="study-form">
                <Axis at=0 choices=choices />
                <Axis at=1 choices=choices />
                <fieldset class="study-axis">
                    <legend class="visually-hidden">{text::SEEDS}</legend>
                    <NumberField label=text::SEEDS id="sweep-seeds".to_owned() value=Signal::derive(move || f64::from(study.seeds.get()))
                        range=(1.0, f64::from(MAX_SEEDS)) whole=true on_change=Callback::new(move |seeds| study.seeds.set(seeds as u32)) />
                    <span class="muted num" data-testid="sweep-planned">{planned}</span>
                </fieldset>
            </div>
            <Progress batch=batch name="sweep" now=now stale=old />
            {move || match report(&batch.outcome.get()) {
                None => view! { <p class="muted">{move || (!batch.phase.get().busy()).then_some(text::SWEEP_EMPTY)}</p> }.into_any(),
                Some(_) => view! { <Shown old=old /> }.into_any(),
            }}
        </div>
    }
}

/// What came out, as far as it is there.
#[component]
fn Shown(old: Memo<bool>) -> impl IntoView {
    let app = App::here();
    let study = app.study;
    let batch = study.sweep;
    // Who was compared and over how many axes does not change while runs come in.
    let shape = Memo::new(move |_| {
        let report = report(&batch.outcome.get());
        report.map(|report| {
            let labels: Vec<String> = report.policies.iter().map(|policy| policy.label.clone()).collect();
            (report.sweep.axes.len(), labels)
        })
    });
    let map = move || shape.with(|shape| shape.as_ref().is_some_and(|(axes, _)| *axes == 2));
    let policies = move || shape.with(|shape| shape.as_ref().map(|(_, labels)| labels.clone()).unwrap_or_default());
    Effect::new(move |_| {
        // Of a map, the difference is the answer where there is somebody to differ from.
        let many = policies().len();
        let kept = study.policy.get_untracked();
        if kept as usize >= many || (study.against.get_untracked().is_some_and(|against| against as usize >= many)) {
            study.policy.set(0);
            study.against.set(None);
        }
    });
    let wanted = Callback::new(move |(width, dark)| {
        let height = if map() { HEIGHTS.1 } else { HEIGHTS.0 };
        let against = study.against.get().filter(|_| map());
        let policy = if map() { study.policy.get() } else { 0 };
        Wanted::Sweep(SweepChartRequest { figure: study.figure.get(), policy, against, width, height, dark })
    });
    let findings = Memo::new(move |_| {
        batch.charts[0].with(|chart| chart.as_ref().map(|chart| chart.findings.clone()).unwrap_or_default())
    });
    let figure_of = |name: &str| Figure::ALL.iter().copied().find(|figure| figure.name() == name);
    view! {
        <div class:dim=move || old.get() data-testid="sweep-result">
            <ul class="findings" aria-live="polite" data-testid="sweep-findings">
                {move || findings.get().into_iter().map(|finding| view! { <li>{finding}</li> }).collect_view()}
            </ul>
            <div class="study-form">
                <label class="study-field study-wide">
                    <span>{text::FIGURE}</span>
                    <select
                        id="sweep-figure"
                        data-testid="sweep-figure"
                        prop:value=move || study.figure.get().name()
                        on:change=move |event| {
                            if let Some(figure) = figure_of(&event_target_value(&event)) {
                                study.figure.set(figure);
                            }
                        }
                    >
                        {Figure::ALL.iter().map(|figure| view! {
                            <option value=figure.name() selected=*figure == study.figure.get_untracked()>{figure.label()}</option>
                        }).collect_view()}
                    </select>
                </label>
                <Show when=move || TTFT.contains(&study.figure.get())>
                    <Pick label=text::STATISTIC options=vec!["p50", "p95", "p99"] testid="sweep-statistic"
                        chosen=Signal::derive(move || TTFT.iter().position(|figure| *figure == study.figure.get()).unwrap_or(0))
                        choose=move |at: usize| study.figure.set(TTFT[at]) />
                </Show>
                {move || map().then(|| view! { <MapOf labels=policies() /> })}
            </div>
            <Picture batch=batch place=0 name="sweep-picture" wanted=wanted />
            {move || report(&batch.outcome.get()).map(|report| view! {
                <SweepTable report=report.clone() />
                {files(&report)}
            })}
        </div>
    }
}

/// Of whom the map is, and against whom.
#[component]
fn MapOf(labels: Vec<String>) -> impl IntoView {
    let study = App::here().study;
    let option = |(at, label): (usize, &String), chosen: Option<u32>| {
        view! { <option value=at.to_string() selected=chosen == Some(at as u32)>{label.clone()}</option> }
    };
    let of = labels.iter().enumerate().map(|each| option(each, Some(study.policy.get_untracked()))).collect_view();
    let less = labels.iter().enumerate().map(|each| option(each, study.against.get_untracked())).collect_view();
    view! {
        <label class="study-field study-wide">
            <span>{text::MAP_OF}</span>
            <select data-testid="map-of" on:change=move |event| study.policy.set(event_target_value(&event).parse().unwrap_or(0))>{of}</select>
        </label>
        <label class="study-field study-wide">
            <span>{text::MAP_AGAINST}</span>
            <select data-testid="map-against" on:change=move |event| study.against.set(event_target_value(&event).parse().ok())>
                <option value="" selected=study.against.get_untracked().is_none()>{text::MAP_ALONE}</option>
                {less}
            </select>
        </label>
    }
}

fn report(outcome: &Option<Outcome>) -> Option<Arc<SweepReport>> {
    match outcome {
        Some(Outcome::Sweep(report)) => Some(report.clone()),
        _ => None,
    }
}

/// The whole result as files: what the command line writes, too.
fn files(report: &Arc<SweepReport>) -> impl IntoView + use<> {
    let (json, csv) = (report.clone(), report.clone());
    let name = format!("servelab-sweep-{}-seed{}", report.sweep.spec.preset, report.sweep.spec.seed);
    view! {
        <p class="exports">
            <span class="muted">{text::SWEEP_WHOLE}</span>
            {save(Kind::Json, "sweep-json", &name, move || to_pretty(&*json).ok())}
            {save(Kind::Csv, "sweep-csv", &name, move || Some(sweep_csv(&csv)))}
        </p>
    }
}
