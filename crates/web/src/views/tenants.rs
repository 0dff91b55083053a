//! The same results by tenant and by replica, behind a disclosure.

use crate::format::{Unit, duration, percent, whole};
use crate::text;
use crate::views::files::TableBox;
use leptos::prelude::*;
use servelab_spec::Report;
use std::sync::Arc;
use wasm_bindgen::JsCast;
use web_sys::{Element, Event};

/// More rows than this are cut; the export has all of them.
const MOST_ROWS: usize = 64;

/// A table that is made when somebody opens it: with every result hundreds of cells would else be made, mostly to be folded away. `open` outlives the
/// result, so that what stands open stays open with the next one.
#[component]
fn Fold(
    summary: &'static str,
    open: RwSignal<bool>,
    content: fn(&Report) -> AnyView,
    report: Arc<Report>,
) -> impl IntoView {
    let toggled = move |event: Event| {
        if let Some(details) = event.target().and_then(|target| target.dyn_into::<Element>().ok()) {
            open.set(details.has_attribute("open"));
        }
    };
    let made = Memo::new(move |made: Option<&bool>| made.copied().unwrap_or(false) || open.get());
    view! {
        <details class="more-table" prop:open=open.get_untracked() on:toggle=toggled>
            <summary>{summary}</summary>
            {move || made.get().then(|| content(&report))}
        </details>
    }
}

/// A row per tenant, with TTFT and reuse under every policy.
#[component]
pub(super) fn Tenants(report: Arc<Report>, open: RwSignal<bool>) -> impl IntoView {
    view! { <Fold summary=text::BY_TENANT open=open content=by_tenant report=report /> }
}

/// A row per replica, with what each policy gave it.
#[component]
pub(super) fn Replicas(report: Arc<Report>, open: RwSignal<bool>) -> impl IntoView {
    view! { <Fold summary=text::BY_REPLICA open=open content=by_replica report=report /> }
}

fn by_tenant(report: &Report) -> AnyView {
    let policies = report.policies.clone();
    let tenants = policies.first().map(|policy| policy.tenants.clone()).unwrap_or_default();
    let unit = Unit::of(policies.iter().flat_map(|p| p.tenants.iter().map(|t| t.ttft_s.p95)));
    let cut = tenants.len() > MOST_ROWS;
    let rows = tenants
        .iter()
        .take(MOST_ROWS)
        .enumerate()
        .map(|(at, tenant)| {
            let cells = policies
                .iter()
                .map(|policy| {
                    let tenant = policy.tenants.get(at).cloned().unwrap_or_default();
                    let ttft = if tenant.ttft_s.n > 0 { unit.show(tenant.ttft_s.p95) } else { "–".into() };
                    view! { <td class="num">{ttft}</td> <td class="num">{percent(tenant.reuse.ratio)}</td> }
                })
                .collect_view();
            view! {
                <tr>
                    <th scope="row"><span class=format!("swatch tenant-{}", at % 8) aria-hidden="true"></span>{tenant.name.clone()}</th>
                    <td class="num">{whole(tenant.requests.total)}</td>
                    {cells}
                </tr>
            }
        })
        .collect_view();
    view! {
            <TableBox label=text::BY_TENANT name="tenants">
                <table class="table" data-testid="tenants-table">
                    <thead>
                        <tr>
                            <th rowspan="2" scope="col">{text::TENANT}</th>
                            <th rowspan="2" scope="col">{text::REQUESTS}</th>
                            {policies.iter().map(|p| view! { <th colspan="2" scope="colgroup">{p.label.clone()}</th> }).collect_view()}
                        </tr>
                        <tr>
                            {policies
                                .iter()
                                .map(|_| view! { <th scope="col">{text::ttft_p95(unit.symbol())}</th> <th scope="col">{text::COL_REUSE}</th> })
                                .collect_view()}
                        </tr>
                    </thead>
                    <tbody>{rows}</tbody>
                </table>
            </TableBox>
            {cut.then(|| view! { <p class="muted">{text::first_rows(MOST_ROWS, tenants.len())}</p> })}
    }
    .into_any()
}

fn by_replica(report: &Report) -> AnyView {
    let policies = report.policies.clone();
    let count = policies.first().map_or(0, |policy| policy.replicas.len());
    let rows = (0..count.min(MOST_ROWS))
        .map(|at| {
            let cells = policies
                .iter()
                .map(|policy| {
                    let replica = policy.replicas.get(at).copied().unwrap_or_default();
                    view! {
                        <td class="num">{whole(replica.assignments)}</td>
                        <td class="num">{whole(replica.uncached_tokens)}</td>
                        <td class="num">{duration(replica.busy_s)}</td>
                    }
                })
                .collect_view();
            view! { <tr><th scope="row">{text::replica_name(at as u32)}</th>{cells}</tr> }
        })
        .collect_view();
    view! {
            <TableBox label=text::BY_REPLICA name="replicas">
                <table class="table" data-testid="replicas-table">
                    <thead>
                        <tr>
                            <th rowspan="2" scope="col">{text::REPLICA}</th>
                            {policies.iter().map(|p| view! { <th colspan="3" scope="colgroup">{p.label.clone()}</th> }).collect_view()}
                        </tr>
                        <tr>
                            {policies
                                .iter()
                                .map(|_| view! {
                                    <th scope="col">{text::REQUESTS}</th>
                                    <th scope="col">{text::COL_UNCACHED_LONG}</th>
                                    <th scope="col">{text::BUSY}</th>
                                })
                                .collect_view()}
                        </tr>
                    </thead>
                    <tbody>{rows}</tbody>
                </table>
            </TableBox>
            {(count > MOST_ROWS).then(|| view! { <p class="muted">{text::first_rows(MOST_ROWS, count)}</p> })}
    }
    .into_any()
}
