//! What was turned away, by whom and why, and how the priority classes fared.

use crate::format::{duration, whole};
use crate::text;
use crate::views::files::TableBox;
use crate::views::terms::Term;
use leptos::prelude::*;
use servelab_spec::Report;
use std::sync::Arc;

/// Tables of refusals and of classes; nothing where nobody was turned away and there are no classes.
#[component]
pub(super) fn Gateway(report: Arc<Report>) -> impl IntoView {
    let many = report.policies.len() > 1;
    let refusals = report.policies.iter().flat_map(|policy| {
        policy.refusals.iter().map(|of| {
            view! {
                <tr data-testid="refusal-row">
                    {many.then(|| view! { <th scope="row">{policy.label.clone()}</th> })}
                    <td class="words">{of.layer.clone()}</td>
                    <td class="words">{of.cause.clone()}</td>
                    <td class="num">{of.code}</td>
                    <td class="num">{whole(of.attempts)}</td>
                </tr>
            }
        })
    });
    let refusals: Vec<_> = refusals.collect();
    let classes = report.policies.iter().flat_map(|policy| {
        policy.gateway.iter().flat_map(|gateway| &gateway.classes).map(|class| {
            view! {
                <tr data-testid="class-row">
                    {many.then(|| view! { <th scope="row">{policy.label.clone()}</th> })}
                    <th scope="row">{class.name.clone()}</th>
                    <td class="num">{whole(class.requests.total)}</td>
                    <td class="num">{whole(class.requests.rejected)}</td>
                    <td class="num">{duration(class.ttft_s.p95)}</td>
                    <td class="num">{duration(class.held_s.p95)}</td>
                    <td class="num">{text::good_share(class.goodput.fraction)}</td>
                </tr>
            }
        })
    });
    let classes: Vec<_> = classes.collect();
    let run = move || many.then(|| view! { <th scope="col">{text::COL_RUN}</th> });
    let of_classes = (!classes.is_empty()).then(|| {
        view! {
            <h3>{text::CLASS_RESULTS}</h3>
            <TableBox label=text::CLASS_RESULTS name="classes">
                <table class="table" data-testid="class-table">
                    <thead>
                        <tr>
                            {run()}
                            <th scope="col">{text::COL_CLASS}</th>
                            <th scope="col">{text::REQUESTS}</th>
                            <th scope="col">{text::COL_CLASS_REFUSED}</th>
                            <th scope="col"><Term id="ttft" words=text::COL_CLASS_TTFT /></th>
                            <th scope="col"><Term id="held" words=text::COL_CLASS_HELD /></th>
                            <th scope="col">{text::COL_CLASS_GOOD}</th>
                        </tr>
                    </thead>
                    <tbody>{classes}</tbody>
                </table>
            </TableBox>
        }
    });
    let of_refusals = (!refusals.is_empty()).then(|| {
        view! {
            <h3>{text::REFUSALS}</h3>
            <TableBox label=text::REFUSALS name="turned-away">
                <table class="table" data-testid="refusal-table">
                    <thead>
                        <tr>
                            {run()}
                            <th scope="col" class="words">{text::COL_LAYER}</th>
                            <th scope="col" class="words">{text::COL_CAUSE}</th>
                            <th scope="col"><Term id="429" words=text::COL_STATUS /></th>
                            <th scope="col"><Term id="turned_away" words=text::COL_TURNED_AWAY /></th>
                        </tr>
                    </thead>
                    <tbody>{refusals}</tbody>
                </table>
            </TableBox>
        }
    });
    view! {
        {of_classes}
        {of_refusals}
    }
}
