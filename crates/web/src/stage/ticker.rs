//! The step ticker: the last steps of a replica, each as wide as it cost, the newest at the right edge.
//! Tall is prefill, low is decode alone.

use super::canvas::surface;
use crate::palette::Scheme;
use servelab_spec::frame::{ReplicaFrame, StepFrame};
use web_sys::HtmlCanvasElement;

const HEIGHT: f64 = 12.0;

/// Draws the steps that ended in, or reach into, the `window_s` before `t_s`.
pub(crate) fn draw(
    canvas: &HtmlCanvasElement,
    width: f64,
    replica: &ReplicaFrame,
    t_s: f64,
    window_s: f64,
    scheme: &Scheme,
) {
    let Some(area) = surface(canvas, width, HEIGHT) else { return };
    let per_second = area.width / window_s.max(1e-12);
    let x_of = |at: f64| area.width - (t_s - at) * per_second;
    area.context.set_fill_style_str(scheme.rule);
    area.context.fill_rect(0.0, area.height - 1.0, area.width, 1.0);
    let bar = |step: &StepFrame, under_way: bool| {
        let (left, right) = (x_of(step.start_s).max(0.0), x_of(step.end_s.min(t_s)).min(area.width));
        if right <= 0.0 {
            return;
        }
        let height = if step.prefill_tokens > 0 { area.height - 1.0 } else { (area.height - 1.0) / 2.0 };
        // A gap of at most half a pixel keeps neighbours apart without eating short steps.
        let width = (right - left - 0.5).max(0.5);
        area.context.set_fill_style_str(if under_way { scheme.ink } else { scheme.cost });
        area.context.fill_rect(left, area.height - 1.0 - height, width, height);
    };
    for step in &replica.recent {
        bar(step, false);
    }
    if let Some(step) = replica.step.as_ref().filter(|step| step.start_s <= t_s) {
        bar(step, true);
    }
}
