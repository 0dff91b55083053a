//! The answer: a row per policy, the better value bold, and what happened in sentences.

use super::export::Export;
use super::tenants::{Replicas, Tenants};
use crate::format::{Unit, percent, whole};
use crate::state::{App, Phase};
use crate::text;
use leptos::prelude::*;
use servelab_spec::Report;
use servelab_spec::experiment::SloSpec;
use servelab_spec::report::PolicyReport;
use std::sync::Arc;

/// The results of the latest run.
#[component]
pub(super) fn Results() -> impl IntoView {
    let app = App::here();
    // Announced once per result, and only then.
    let announced =
        move || app.run.report.with(|report| report.as_ref().map(|r| r.findings.join(" ")).unwrap_or_default());
    let old = move || app.run.reported.get() != app.run.number.get();
    view! {
        <section class="results" aria-label=text::RESULTS_REGION>
            <h2>{text::RESULTS}</h2>
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
                            {report.findings.iter().map(|finding| view! { <li>{finding.clone()}</li> }).collect_view()}
                        </ul>
                        <Table report=report.clone() />
                        <Tenants report=report.clone() />
                        <Replicas report=report.clone() />
                        <Export report=report />
                    </div>
                }.into_any(),
            }}
        </section>
    }
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

/// What a column shows of a policy and which way is better.
struct Column {
    value: fn(&PolicyReport) -> f64,
    better: Better,
    bar: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Better {
    Low,
    High,
    Neither,
}

/// The columns in the order of the table.
const COLUMNS: [Column; 12] = [
    Column { value: |p| p.ttft_s.p50, better: Better::Low, bar: true },
    Column { value: |p| p.ttft_s.p95, better: Better::Low, bar: false },
    Column { value: |p| p.ttft_s.p99, better: Better::Low, bar: false },
    Column { value: |p| p.itl_s.p50, better: Better::Low, bar: true },
    Column { value: |p| p.itl_s.p95, better: Better::Low, bar: false },
    Column { value: |p| p.output_tokens_per_s, better: Better::High, bar: true },
    Column { value: |p| p.goodput.per_s, better: Better::High, bar: true },
    Column { value: |p| p.reuse.ratio, better: Better::High, bar: true },
    Column { value: |p| p.imbalance.assignments, better: Better::Low, bar: false },
    Column { value: |p| p.imbalance.uncached_tokens, better: Better::Low, bar: false },
    Column { value: |p| p.kv_peak, better: Better::Neither, bar: true },
    Column { value: |p| p.preemptions as f64, better: Better::Low, bar: false },
];

/// The best value of a column, when it is better than some other by more than half a per cent: less is not worth a word.
fn best(policies: &[PolicyReport], column: &Column) -> Option<f64> {
    // A policy that was stopped, or never began, has not been compared.
    if policies.iter().any(|policy| policy.requests.pending > 0) {
        return None;
    }
    let values = policies.iter().map(column.value).filter(|value| value.is_finite());
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    if high - low <= 0.005 * high.abs().max(1e-12) {
        return None;
    }
    match column.better {
        Better::Low => Some(low),
        Better::High => Some(high),
        Better::Neither => None,
    }
}

/// The table.
#[component]
fn Table(report: Arc<Report>) -> impl IntoView {
    let policies = &report.policies;
    let ttft = Unit::of(policies.iter().flat_map(|p| [p.ttft_s.p50, p.ttft_s.p95, p.ttft_s.p99]));
    let itl = Unit::of(policies.iter().flat_map(|p| [p.itl_s.p50, p.itl_s.p95]));
    let slo = report.spec.slo;
    let rows = policies.iter().enumerate().map(|(at, policy)| row(at, policy, policies, ttft, itl)).collect_view();
    let ceiling = report.workload.ceiling;
    view! {
        <div class="table-box" role="region" tabindex="0" aria-label=text::TABLE_REGION data-keys="">
            <table class="table" data-testid="results-table">
                <caption class="visually-hidden">{text::table_caption(&report)}</caption>
                <thead>
                    <tr>
                        <th rowspan="2" scope="col">{text::COL_POLICY}</th>
                        <th colspan="3" scope="colgroup" title=text::DEF_TTFT>{text::COL_TTFT}<span class="muted">{format!(" {}", ttft.symbol())}</span></th>
                        <th colspan="2" scope="colgroup" title=text::DEF_ITL>{text::COL_ITL}<span class="muted">{format!(" {}", itl.symbol())}</span></th>
                        <th rowspan="2" scope="col" title=text::DEF_OUTPUT>{text::COL_OUTPUT}<span class="muted">{text::COL_OUTPUT_UNIT}</span></th>
                        <th rowspan="2" scope="col" title=text::def_goodput(&slo)>{text::COL_GOODPUT}<span class="muted">{text::COL_GOODPUT_UNIT}</span></th>
                        <th rowspan="2" scope="col" title=text::DEF_REUSE>{text::COL_REUSE}<span class="muted">{text::COL_REUSE_UNIT}</span></th>
                        <th colspan="2" scope="colgroup" title=text::DEF_IMBALANCE>{text::COL_IMBALANCE}<span class="muted">{text::COL_IMBALANCE_UNIT}</span></th>
                        <th rowspan="2" scope="col" title=text::DEF_KV>{text::COL_KV}</th>
                        <th rowspan="2" scope="col" title=text::DEF_PREEMPTIONS>{text::COL_PREEMPTIONS}</th>
                    </tr>
                    <tr>
                        <th scope="col">"p50"</th>
                        <th scope="col">"p95"</th>
                        <th scope="col">"p99"</th>
                        <th scope="col">"p50"</th>
                        <th scope="col">"p95"</th>
                        <th scope="col">{text::COL_ASSIGNMENTS}</th>
                        <th scope="col">{text::COL_UNCACHED}</th>
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
                <tfoot>
                    <tr>
                        <th scope="row" class="muted" title=text::DEF_CEILING>{text::CEILING}</th>
                        <td colspan="7"></td>
                        <td class="num muted">
                            {percent(ceiling.ratio)}
                            <span class="cell-note">{text::of(&whole(ceiling.hit_tokens), &whole(ceiling.prompt_tokens))}</span>
                        </td>
                        <td colspan="4"></td>
                    </tr>
                </tfoot>
            </table>
        </div>
        <p class="muted results-note">{text::table_note(&slo)}</p>
        // The same as the heads' hints, for fingers.
        <details class="more-table">
            <summary>{text::COLUMNS_MEAN}</summary>
            <dl class="terms">{meanings(&slo).into_iter().map(|(term, words)| view! { <dt>{term}</dt><dd>{words}</dd> }).collect_view()}</dl>
        </details>
    }
}

/// Every column in a sentence.
fn meanings(slo: &SloSpec) -> [(&'static str, String); 8] {
    [
        (text::COL_TTFT, text::DEF_TTFT.into()),
        (text::COL_ITL, text::DEF_ITL.into()),
        (text::COL_OUTPUT, text::DEF_OUTPUT.into()),
        (text::COL_GOODPUT, text::def_goodput(slo)),
        (text::COL_REUSE, text::DEF_REUSE.into()),
        (text::COL_IMBALANCE, text::DEF_IMBALANCE.into()),
        (text::COL_KV, text::DEF_KV.into()),
        (text::COL_PREEMPTIONS, text::DEF_PREEMPTIONS.into()),
    ]
}

fn row(at: usize, policy: &PolicyReport, all: &[PolicyReport], ttft: Unit, itl: Unit) -> impl IntoView + use<> {
    let finished = policy.requests.finished > 0;
    let cells = COLUMNS.iter().enumerate().map(|(index, column)| {
        let value = (column.value)(policy);
        let words = match index {
            0..=2 if finished => ttft.show(value),
            3..=4 if finished => itl.show(value),
            0..=4 => "–".to_owned(),
            5 => format!("{value:.1}"),
            6 => format!("{value:.2}"),
            7 | 10 => percent(value),
            11 => whole(policy.preemptions),
            _ => format!("{value:.2}"),
        };
        let note = match index {
            6 => Some(text::good_of(policy.goodput.good, policy.requests.total)),
            7 => Some(text::of(&whole(policy.reuse.hit_tokens), &whole(policy.reuse.prompt_tokens))),
            _ => None,
        };
        let winner = best(all, column).is_some_and(|best| best == value) && (index > 4 || finished);
        let largest = all.iter().map(column.value).fold(0.0, f64::max);
        // Shares are drawn against the whole, amounts against the largest in the column.
        let whole_bar = if matches!(index, 7 | 10) { 1.0 } else { largest };
        let share = if whole_bar > 0.0 { (value / whole_bar).clamp(0.0, 1.0) } else { 0.0 };
        let bar = column.bar.then(|| view! { <span class="bar" aria-hidden="true"><span class="bar-fill" style:width=format!("{:.1}%", share * 100.0)></span></span> });
        let reuse = (index == 7).then(|| {
            (format!("reuse-{at}"), policy.reuse.hit_tokens.to_string(), policy.reuse.prompt_tokens.to_string())
        });
        let (testid, hit, prompt) = match reuse {
            Some((testid, hit, prompt)) => (Some(testid), Some(hit), Some(prompt)),
            None => (None, None, None),
        };
        view! {
            <td class="num" class:winner=winner data-testid=testid data-hit=hit data-prompt=prompt>
                {words}
                {bar}
                {note.map(|note| view! { <span class="cell-note">{note}</span> })}
            </td>
        }
    });
    let unfinished = policy.requests.pending + policy.requests.rejected;
    view! {
        <tr data-testid=format!("row-{at}")>
            <th scope="row">
                {policy.label.clone()}
                {(unfinished > 0).then(|| view! { <span class="cell-note">{text::unfinished(&policy.requests)}</span> })}
            </th>
            {cells.collect_view()}
        </tr>
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(p50: f64) -> PolicyReport {
        let mut report = PolicyReport::default();
        report.ttft_s.p50 = p50;
        report
    }

    #[test]
    fn the_winner_is_the_lowest_latency_and_nobody_when_all_are_equal() {
        assert_eq!(best(&[policy(0.3), policy(0.1)], &COLUMNS[0]), Some(0.1));
        assert_eq!(best(&[policy(0.3), policy(0.3)], &COLUMNS[0]), None);
        assert_eq!(best(&[policy(0.3), policy(0.3001)], &COLUMNS[0]), None, "0.03 % is no difference");
    }
}
