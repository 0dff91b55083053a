//! Stages as bars and probes as marks on one time axis.

use crate::format::duration;
use crate::text;
use crate::views::files::TableBox;
use leptos::prelude::*;
use servelab_spec::coldstart::{ColdStart, ProbeMark, StagePart};
use std::sync::Arc;

/// Steps between two ticks of the axis, seconds: people count in minutes.
const STEPS: [f64; 16] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0];

/// Most ticks of the axis.
const TICKS: f64 = 8.0;

/// The stacked bar, a row for each stage, a row for each kind of probe.
#[component]
pub(super) fn Timeline(answer: Arc<ColdStart>) -> impl IntoView {
    let end = span(&answer);
    let stages: Vec<StagePart> = answer.stages.iter().filter(|part| part.seconds > 0.0).cloned().collect();
    let stack = stages
        .iter()
        .enumerate()
        .map(|(at, part)| {
            let words = text::part_words(part);
            let wide = part.seconds / answer.serves_s > 0.09;
            view! {
                <span class=format!("cold-part cold-shade-{}", at % 2) style:left=share(part.start_s, answer.serves_s) style:width=share(part.seconds, answer.serves_s) title=words>
                    {wide.then(|| part.label.clone())}
                </span>
            }
        })
        .collect_view();
    let rows = stages.iter().map(|part| stage_row(part, end)).collect_view();
    let probes = ["startup", "readiness", "liveness"]
        .into_iter()
        .filter_map(|kind| {
            let marks: Vec<ProbeMark> = answer.probes.iter().filter(|mark| mark.probe == kind).cloned().collect();
            (!marks.is_empty()).then(|| probe_row(kind, &marks, end))
        })
        .collect_view();
    let ticks = ticks(end)
        .into_iter()
        .map(|at| view! { <span class="cold-tick muted" style:left=share(at, end)>{duration(at)}</span> })
        .collect_view();
    view! {
        <div class="cold-stack" aria-hidden="true" data-testid="cold-stack">{stack}</div>
        <TableBox label=text::COLD_STAGES name="cold-start">
            <table class="table cold-table" data-testid="cold-stages">
                <thead>
                    <tr>
                        <th scope="col">{text::COLD_STAGE}</th>
                        <th scope="col" class="cold-axis"><span class="cold-lane">{ticks}</span></th>
                        <th scope="col">{text::COLD_TIME}</th>
                        <th scope="col" class="cold-how">{text::COLD_HOW}</th>
                    </tr>
                </thead>
                <tbody>{rows}{probes}</tbody>
            </table>
        </TableBox>
    }
}

/// What the axis spans: the start and every probe that was sent.
fn span(answer: &ColdStart) -> f64 {
    let last = answer.probes.iter().map(|mark| mark.back_s).fold(0.0, f64::max);
    answer.serves_s.max(last).max(1e-9)
}

fn stage_row(part: &StagePart, end: f64) -> impl IntoView + use<> {
    view! {
        <tr data-testid=format!("cold-stage-{}", stage_id(part)) data-seconds=part.seconds.to_string() title=part.help.clone()>
            <th scope="row">{part.label.clone()}</th>
            <td class="cold-axis">
                <span class="cold-lane">
                    <span class="cold-bar" style:left=share(part.start_s, end) style:width=share(part.seconds, end)></span>
                </span>
            </td>
            <td class="num">{duration(part.seconds)}</td>
            <td class="cold-how muted">{part.how.clone()}</td>
        </tr>
    }
}

fn stage_id(part: &StagePart) -> &'static str {
    part.stage.name()
}

fn probe_row(kind: &'static str, marks: &[ProbeMark], end: f64) -> impl IntoView + use<> {
    let verdicts: Vec<String> = marks
        .iter()
        .filter_map(|mark| {
            Some(format!("{} at {}", text::verdict_words(mark.verdict.as_deref()?), duration(mark.back_s)))
        })
        .collect();
    let dots = marks
        .iter()
        .map(|mark| {
            let class = match (mark.passed, mark.verdict.is_some()) {
                (true, false) => "cold-mark cold-pass",
                (true, true) => "cold-mark cold-pass cold-verdict",
                (false, false) => "cold-mark cold-fail",
                (false, true) => "cold-mark cold-fail cold-verdict",
            };
            view! { <span class=class style:left=share(mark.back_s, end) title=text::probe_words(mark)></span> }
        })
        .collect_view();
    view! {
        <tr data-testid=format!("cold-probe-{kind}") data-probes=marks.len().to_string()>
            <th scope="row">{text::probe_name(kind)}</th>
            <td class="cold-axis"><span class="cold-lane">{dots}</span></td>
            <td class="num">{marks.len().to_string()}</td>
            <td class="cold-how">{verdicts.join(", ")}</td>
        </tr>
    }
}

fn share(of: f64, end: f64) -> String {
    format!("{:.3}%", 100.0 * of / end)
}

/// Round instants from 0 to `end`.
fn ticks(end: f64) -> Vec<f64> {
    let step = STEPS.into_iter().find(|step| end / step <= TICKS).unwrap_or(end);
    let count = (end / step).floor() as u32;
    // The last one would hang over the edge.
    (0..=count).map(|tick| f64::from(tick) * step).filter(|at| at / end < 0.95).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_few_round_ticks() {
        assert_eq!(ticks(294.0), [0.0, 60.0, 120.0, 180.0, 240.0]);
        assert_eq!(ticks(1.0), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8]);
        for end in [0.02, 3.3, 82.0, 1234.0, 86_400.0] {
            let ticks = ticks(end);
            assert!(!ticks.is_empty() && ticks.len() <= 9, "{end}: {ticks:?}");
        }
    }
}
