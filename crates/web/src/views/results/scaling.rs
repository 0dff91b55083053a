//! How replicas came and went: for how long users were late, what it cost, and where the time went.

use crate::format::{duration, number, whole};
use crate::text;
use crate::views::files::TableBox;
use crate::views::terms::Term;
use leptos::prelude::*;
use servelab_spec::Report;
use servelab_spec::report::ScalingReport;
use std::sync::Arc;

/// The table of scaling and the way to relief; nothing in a run whose replicas stay.
#[component]
pub(super) fn Scaling(report: Arc<Report>) -> impl IntoView {
    let runs: Vec<(String, ScalingReport)> =
        report.policies.iter().filter_map(|policy| Some((policy.label.clone(), policy.scaling.clone()?))).collect();
    (!runs.is_empty()).then(|| {
        let least = runs.iter().map(|(_, of)| of.late_s).fold(f64::INFINITY, f64::min);
        let cheapest = runs.iter().map(|(_, of)| of.node_s).fold(f64::INFINITY, f64::min);
        let many = runs.len() > 1;
        let rows = runs
            .iter()
            .enumerate()
            .map(|(at, (label, of))| {
                let lost = of.lost_grace + of.lost_probe + of.lost_crash;
                let causes = (lost > 0).then(|| text::lost_causes(of));
                view! {
                    <tr data-testid=format!("scaling-row-{at}")>
                        <th scope="row">{label.clone()}</th>
                        <td class="num" class:winner=many && of.late_s == least data-testid=format!("late-{at}") data-seconds=of.late_s.to_string()>{duration(of.late_s)}</td>
                        <td class="num">{hours(of.replica_s)}</td>
                        <td class="num" class:winner=many && of.node_s == cheapest>{hours(of.node_s)}</td>
                        <td class="num">{of.peak_ready}</td>
                        <td class="num">{text::of(&of.wasted.to_string(), &of.created.to_string())}</td>
                        <td class="num">{of.restarts}</td>
                        <td class="num">{whole(of.cache_lost_tokens)}</td>
                        <td class="num">{whole(lost)}{causes.map(|causes| view! { <span class="cell-note">{causes}</span> })}</td>
                    </tr>
                }
            })
            .collect_view();
        let bars = runs.iter().filter(|(_, of)| !of.delays.is_empty()).map(|(label, of)| way(label, of)).collect_view();
        let any = runs.iter().any(|(_, of)| !of.delays.is_empty());
        let bin = runs.first().map_or(0.0, |(_, of)| of.bin_s);
        view! {
            <h3>{text::SCALING_RESULTS}</h3>
            <TableBox label=text::SCALING_RESULTS name="scaling">
                <table class="table" data-testid="scaling-table">
                    <thead>
                        <tr>
                            <th scope="col">{text::COL_CONTROLLER}</th>
                            <th scope="col"><Term id="late" words=text::COL_LATE /></th>
                            <th scope="col"><Term id="replica_hours" words=text::COL_REPLICA_HOURS /><span class="muted">" h"</span></th>
                            <th scope="col"><Term id="node_hours" words=text::COL_NODE_HOURS /><span class="muted">" h"</span></th>
                            <th scope="col">{text::COL_PEAK}</th>
                            <th scope="col"><Term id="given_up_starts" words=text::COL_WASTED /></th>
                            <th scope="col">{text::COL_RESTARTS}</th>
                            <th scope="col"><Term id="cache_lost" words=text::COL_CACHE_LOST /></th>
                            <th scope="col">{text::COL_LOST}</th>
                        </tr>
                    </thead>
                    <tbody>{rows}</tbody>
                </table>
            </TableBox>
            <p class="muted results-note">{text::late_note(bin)}</p>
            {any.then(|| view! { <h3>{text::DELAYS}</h3> })}
            {bars}
        }
    })
}

/// One stacked bar from the first late request to relief, and the same as a list.
fn way(label: &str, of: &ScalingReport) -> impl IntoView + use<> {
    let whole: f64 = of.delays.iter().map(|part| part.seconds).sum();
    let mut start = 0.0;
    let parts: Vec<(String, f64, f64)> = of
        .delays
        .iter()
        .map(|part| {
            let at = start;
            start += part.seconds;
            (part.what.clone(), at, part.seconds)
        })
        .collect();
    let bar = parts
        .iter()
        .enumerate()
        .map(|(at, (what, from, seconds))| {
            let share = seconds / whole;
            view! {
                <span
                    class=format!("cold-part cold-shade-{}", at % 2)
                    style:left=format!("{:.2}%", from / whole * 100.0)
                    style:width=format!("{:.2}%", share * 100.0)
                    title=format!("{what}: {}", duration(*seconds))
                >
                    {(share > 0.12).then(|| what.clone())}
                </span>
            }
        })
        .collect_view();
    let list = parts
        .iter()
        .map(|(what, _, seconds)| view! { <li>{what.clone()}" "<span class="num">{duration(*seconds)}</span></li> })
        .collect_view();
    view! {
        <div class="delays" data-testid="delays">
            <p>{text::delays_of(label, &duration(whole))}</p>
            <div class="cold-stack" aria-hidden="true">{bar}</div>
            <ol class="delay-list">{list}</ol>
        </div>
    }
}

fn hours(seconds: f64) -> String {
    number(seconds / 3600.0)
}
