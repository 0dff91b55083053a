//! What clients did: how much more was sent than asked for, when everybody was served, and where the capacity went.

use crate::format::{number, percent, whole};
use crate::text;
use crate::views::files::TableBox;
use crate::views::terms::Term;
use leptos::prelude::*;
use servelab_spec::Report;
use servelab_spec::report::ClientsReport;
use std::sync::Arc;

/// The table of clients; nothing in a run whose clients have no rules of their own.
#[component]
pub(super) fn Clients(report: Arc<Report>) -> impl IntoView {
    let runs: Vec<(String, ClientsReport)> =
        report.policies.iter().filter_map(|policy| Some((policy.label.clone(), policy.clients.clone()?))).collect();
    (!runs.is_empty()).then(|| {
        let many = runs.len() > 1;
        let best = |value: fn(&ClientsReport) -> f64| runs.iter().map(|(_, of)| value(of)).fold(f64::INFINITY, f64::min);
        let served = best(|of| of.all_served_s.unwrap_or(f64::INFINITY));
        let lowest = best(|of| of.peak);
        let useful = -best(|of| -of.capacity.useful);
        let rows = runs
            .iter()
            .enumerate()
            .map(|(at, (label, of))| {
                view! {
                    <tr data-testid=format!("clients-row-{at}")>
                        <th scope="row">{label.clone()}</th>
                        <td class="num" data-testid=format!("amplification-{at}")>{number(of.amplification)}</td>
                        <td class="num" class:winner=many && of.peak == lowest>{text::peak_load(of)}</td>
                        <td class="num" class:winner=many && of.all_served_s == Some(served)>{text::served_at(of)}</td>
                        <td class="num">{whole(of.gave_up)}</td>
                        <td class="num" data-testid=format!("waiting-{at}")>{whole(of.waiting)}</td>
                        <td class="num" class:winner=many && of.capacity.useful == useful>{percent(of.capacity.useful)}</td>
                        <td class="num">{percent(of.capacity.wasted)}</td>
                        <td class="num">{percent(of.capacity.refusing)}</td>
                        <td class="num">{percent(of.capacity.idle)}</td>
                        <td class="num">{percent(of.capacity.down)}</td>
                        <td class="num">{whole(of.timed_out)}</td>
                        <td class="words">{text::refused(of)}</td>
                    </tr>
                }
            })
            .collect_view();
        let endless = runs
            .iter()
            .filter(|(_, of)| of.waiting > 0)
            .map(|(label, of)| view! { <p class="muted results-note" data-testid="still-waiting">{text::still_waiting(label, of)}</p> })
            .collect_view();
        view! {
            <h3>{text::CLIENTS_RESULTS}</h3>
            <TableBox label=text::CLIENTS_RESULTS name="clients">
                <table class="table" data-testid="clients-table">
                    <thead>
                        <tr>
                            <th scope="col">{text::COL_CLIENTS}</th>
                            <th scope="col"><Term id="amplification" words=text::COL_AMPLIFICATION /></th>
                            <th scope="col"><Term id="peak_load" words=text::COL_PEAK_LOAD /></th>
                            <th scope="col"><Term id="served" words=text::COL_SERVED /></th>
                            <th scope="col">{text::COL_GAVE_UP}</th>
                            <th scope="col"><Term id="waiting" words=text::COL_WAITING /></th>
                            <th scope="col"><Term id="useful" words=text::COL_USEFUL /></th>
                            <th scope="col"><Term id="wasted" words=text::COL_WASTE /></th>
                            <th scope="col"><Term id="refusing" words=text::COL_REFUSING /></th>
                            <th scope="col">{text::COL_IDLE}</th>
                            <th scope="col"><Term id="down" words=text::COL_DOWN /></th>
                            <th scope="col"><Term id="timed_out" words=text::COL_TIMED_OUT /></th>
                            <th scope="col" class="words"><Term id="turned_away" words=text::COL_REFUSED /></th>
                        </tr>
                    </thead>
                    <tbody>{rows}</tbody>
                </table>
            </TableBox>
            {endless}
        }
    })
}
