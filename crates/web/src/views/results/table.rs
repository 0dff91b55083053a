//! The table: a row per policy, sorted by any column, the best value of each bold.

use super::column::{Better, COLUMNS, FETCHED, Sort, TIMES, TTFT, best, compared, order, within_noise};
use crate::format::{Unit, fixed, percent, whole};
use crate::state::App;
use crate::text;
use crate::views::files::TableBox;
use crate::views::terms::{Term, described_by};
use leptos::prelude::*;
use servelab_spec::Report;
use servelab_spec::experiment::SloSpec;
use servelab_spec::report::PolicyReport;
use std::sync::Arc;

/// The table.
#[component]
pub(super) fn Table(report: Arc<Report>) -> impl IntoView {
    let app = App::here();
    let sort = app.sort;
    let policies = &report.policies;
    let ttft = Unit::of(policies.iter().flat_map(|p| [p.ttft_s.p50, p.ttft_s.p95, p.ttft_s.p99]));
    let itl = Unit::of(policies.iter().flat_map(|p| [p.itl_s.p50, p.itl_s.p95]));
    let slo = report.spec.slo;
    let stored = policies.iter().any(|policy| policy.store.is_some());
    let rows = {
        let report = report.clone();
        move || {
            let policies = &report.policies;
            order(policies, sort.get())
                .into_iter()
                .map(|at| row(at, &policies[at], policies, ttft, itl, stored))
                .collect_view()
        }
    };
    let ceiling = report.workload.ceiling;
    view! {
        <TableBox label=text::TABLE_REGION name="results">
            <table class="table" data-testid="results-table">
                <caption class="visually-hidden">{text::table_caption(&report)}</caption>
                <thead>
                    <tr>
                        <th rowspan="2" scope="col">
                            {text::COL_POLICY}
                            <Show when=move || sort.get().is_some()>
                                <button type="button" class="linklike unsort" data-testid="sort-none" on:click=move |_| sort.set(None)>{text::SORT_AS_LISTED}</button>
                            </Show>
                        </th>
                        <th colspan="3" scope="colgroup"><Term id="ttft" /><span class="muted">{format!(" {}", ttft.symbol())}</span></th>
                        <th colspan="2" scope="colgroup"><Term id="itl" /><span class="muted">{format!(" {}", itl.symbol())}</span></th>
                        <Head column=5 name=text::COL_OUTPUT unit=text::COL_OUTPUT_UNIT term="output" tall=true />
                        <Head column=6 name=text::COL_GOODPUT unit=text::COL_GOODPUT_UNIT term="goodput" tall=true />
                        <Head column=7 name=text::COL_REUSE unit=text::COL_REUSE_UNIT term="reuse" tall=true />
                        <th colspan="2" scope="colgroup"><Term id="imbalance" /><span class="muted">{text::COL_IMBALANCE_UNIT}</span></th>
                        <Head column=10 name=text::COL_KV unit="" term="kv_peak" tall=true />
                        <Head column=11 name=text::COL_PREEMPTIONS unit="" term="preemption" tall=true />
                        {stored.then(|| view! { <Head column=FETCHED name=text::COL_FETCHED unit=text::COL_REUSE_UNIT term="fetched" tall=true /> })}
                    </tr>
                    <tr>
                        <Head column=0 name="p50" term="percentile" of=text::COL_TTFT />
                        <Head column=1 name="p95" term="percentile" of=text::COL_TTFT />
                        <Head column=2 name="p99" term="percentile" of=text::COL_TTFT />
                        <Head column=3 name="p50" term="percentile" of=text::COL_ITL />
                        <Head column=4 name="p95" term="percentile" of=text::COL_ITL />
                        <Head column=8 name=text::COL_ASSIGNMENTS of=text::COL_IMBALANCE />
                        <Head column=9 name=text::COL_UNCACHED of=text::COL_IMBALANCE />
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
                <tfoot>
                    <tr>
                        <th scope="row" class="muted"><Term id="ceiling" /></th>
                        <td colspan="7"></td>
                        <td class="num muted">
                            {percent(ceiling.ratio)}
                            <span class="cell-note">{text::of(&whole(ceiling.hit_tokens), &whole(ceiling.prompt_tokens))}</span>
                        </td>
                        <td colspan=if stored { "5" } else { "4" }></td>
                    </tr>
                </tfoot>
            </table>
        </TableBox>
        <p class="muted results-note">{text::table_note(&slo)}</p>
        // The same as the heads' hints, for fingers.
        <details class="more-table">
            <summary>{text::COLUMNS_MEAN}</summary>
            <dl class="terms">{meanings(&slo).into_iter().map(|(term, words)| view! { <dt>{term}</dt><dd>{words}</dd> }).collect_view()}</dl>
        </details>
    }
}

/// The head of a column: a button that sorts by it.
#[component]
fn Head(
    column: usize,
    name: &'static str,
    #[prop(optional)] unit: &'static str,
    /// The group it stands under, for those who do not see it there.
    #[prop(optional)]
    of: &'static str,
    /// Which term it is, where it explains itself.
    #[prop(optional)]
    term: Option<&'static str>,
    /// It spans both rows of heads.
    #[prop(optional)]
    tall: bool,
) -> impl IntoView {
    let sort = App::here().sort;
    let direction = move || sort.get().filter(|sort| sort.column == column).map(|sort| sort.ascending);
    let hint = match COLUMNS[column].better {
        Better::Neither => text::SORT_LARGEST,
        Better::Low | Better::High => text::SORT_BEST,
    };
    view! {
        <th
            scope="col"
            rowspan=if tall { "2" } else { "1" }
            aria-sort=move || match direction() {
                Some(true) => "ascending",
                Some(false) => "descending",
                None => "none",
            }
        >
            <button
                type="button"
                class="sort"
                data-testid=format!("sort-{column}")
                // What it explains says how it sorts, too.
                title=term.is_none().then_some(hint)
                data-term=term
                data-hint=term.is_some().then(|| format!("{hint}."))
                aria-describedby=term.map(described_by)
                on:click=move |_| sort.update(|sort| *sort = Sort::pressed(*sort, column))
            >
                {(!of.is_empty()).then(|| view! { <span class="visually-hidden">{of}" "</span> })}
                {name}
                <span class="sort-mark" aria-hidden="true">
                    {move || match direction() {
                        Some(true) => "▲",
                        Some(false) => "▼",
                        None => "",
                    }}
                </span>
                {(!unit.is_empty()).then(|| view! { <span class="muted sort-unit">{unit}</span> })}
            </button>
        </th>
    }
}

/// Every column in a sentence.
fn meanings(slo: &SloSpec) -> [(&'static str, String); 9] {
    let term = |id: &str| text::glossary::definition(id).to_owned();
    [
        (text::COL_TTFT, term("ttft")),
        (text::COL_ITL, term("itl")),
        (text::COL_OUTPUT, term("output")),
        (text::COL_GOODPUT, text::def_goodput(slo)),
        (text::COL_REUSE, term("reuse")),
        (text::COL_IMBALANCE, term("imbalance")),
        (text::COL_KV, term("kv_peak")),
        (text::COL_PREEMPTIONS, term("preemption")),
        (text::COL_FETCHED, term("fetched")),
    ]
}

fn row(
    at: usize,
    policy: &PolicyReport,
    all: &[PolicyReport],
    ttft: Unit,
    itl: Unit,
    stored: bool,
) -> impl IntoView + use<> {
    let finished = policy.requests.finished > 0;
    let shown = COLUMNS.iter().enumerate().filter(|(index, _)| stored || *index != FETCHED);
    let cells = shown.map(|(index, column)| {
        let value = (column.value)(policy);
        let words = match index {
            0..=2 if finished => ttft.show(value),
            3..=4 if finished => itl.show(value),
            0..=4 => "–".to_owned(),
            5 => fixed(value, 1),
            6 => fixed(value, 2),
            7 | 10 | FETCHED => percent(value),
            11 => whole(policy.preemptions),
            _ => fixed(value, 2),
        };
        let noise = TTFT.contains(&index) && within_noise(policy);
        let note = match index {
            0 => policy.versus_best.as_ref().map(text::versus_best),
            6 => Some(text::good_of(policy.goodput.good, policy.requests.total)),
            7 => Some(text::of(&whole(policy.reuse.hit_tokens), &whole(policy.reuse.prompt_tokens))),
            FETCHED => policy.store.map(|store| text::moved(store.bytes)),
            _ => None,
        };
        let winner = best(all, index).is_some_and(|best| best == value) && (!TIMES.contains(&index) || compared(all, policy));
        let largest = all.iter().map(column.value).fold(0.0, f64::max);
        // Shares are drawn against the whole, amounts against the largest in the column.
        let whole_bar = if matches!(index, 7 | 10 | FETCHED) { 1.0 } else { largest };
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
            <td class="num" class:winner=winner class:noise=noise data-testid=testid data-hit=hit data-prompt=prompt>
                {words}
                {bar}
                {note.map(|note| view! { <span class="cell-note">{note}</span> })}
            </td>
        }
    });
    let unfinished = text::unfinished(&policy.requests);
    view! {
        <tr data-testid=format!("row-{at}")>
            <th scope="row">
                {policy.label.clone()}
                {(!unfinished.is_empty()).then(|| view! { <span class="cell-note">{unfinished}</span> })}
            </th>
            {cells.collect_view()}
        </tr>
    }
}
