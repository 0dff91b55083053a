//! The curve as a picture that can be drawn on. What is drawn becomes the text below it, which is what a keyboard changes.

use crate::text;
use leptos::prelude::*;
use servelab_spec::experiment::Curve;
use wasm_bindgen::JsCast;
use web_sys::{Element, PointerEvent};

/// Equal parts of the time that is drawn on: half an hour of a day.
const PARTS: usize = 48;
/// Size of the picture in its own units.
const SIZE: (f64, f64) = (240.0, 72.0);

/// A curve being drawn: a level at each end of a part, over `hours`, on a picture of height `top`.
#[derive(Clone, Debug, PartialEq)]
struct Drawing {
    hours: f64,
    top: f64,
    levels: Vec<f64>,
    /// Where the pointer last was.
    last: Option<usize>,
}

impl Drawing {
    /// The curve `text` where its hours have an hour's worth of seconds each.
    fn of(text: &str) -> Option<Self> {
        let curve = Curve::parse(text, 1.0).ok()?;
        let hours = curve.end_s();
        let at = |part: usize| part as f64 / PARTS as f64 * hours;
        // The end belongs to the curve's last level.
        let last = curve.points.last().map_or(0.0, |&(_, level)| level);
        let levels = (0..=PARTS).map(|part| if part == PARTS { last } else { curve.at(at(part)) }).collect();
        let highest = curve.points.iter().map(|&(_, level)| level).fold(0.0, f64::max);
        Some(Drawing { hours, top: highest * 1.25, levels, last: None })
    }

    /// The pointer is at a share of the width and of the height, from above. Parts passed since it was last seen are drawn too.
    fn draw(&mut self, x: f64, y: f64) {
        let part = (x * PARTS as f64).round() as usize;
        let level = two_digits((1.0 - y) * self.top);
        let from = self.last.unwrap_or(part);
        for passed in part.min(from)..=part.max(from) {
            self.levels[passed.min(PARTS)] = level;
        }
        self.last = Some(part);
    }

    /// As pairs, points on a straight line between others left out.
    fn text(&self) -> String {
        let keep = |at: usize| {
            at == 0 || at == PARTS || self.levels[at] != self.levels[at - 1] || self.levels[at] != self.levels[at + 1]
        };
        let pair = |at: usize| format!("{}:{}", thousandths(at as f64 / PARTS as f64 * self.hours), self.levels[at]);
        (0..=PARTS).filter(|&at| keep(at)).map(pair).collect::<Vec<_>>().join(",")
    }

    fn outline(&self) -> String {
        let (width, height) = SIZE;
        let points = self.levels.iter().enumerate().map(|(at, level)| {
            let y = height - level / self.top.max(f64::MIN_POSITIVE) * height;
            format!("{:.1},{y:.1}", at as f64 / PARTS as f64 * width)
        });
        points.collect::<Vec<_>>().join(" ")
    }
}

fn two_digits(level: f64) -> f64 {
    (level.max(0.0) * 100.0).round() / 100.0
}

fn thousandths(hour: f64) -> f64 {
    (hour * 1000.0).round() / 1000.0
}

/// The picture of `curve`; what is drawn goes to `set`.
#[component]
pub(super) fn Pad(curve: Memo<Option<String>>, set: impl Fn(&str) + Copy + 'static) -> impl IntoView {
    let drawing = RwSignal::new(None::<Drawing>);
    let shown = move || drawing.get().or_else(|| curve.with(|text| Drawing::of(text.as_ref()?)));
    let draw = move |event: &PointerEvent| {
        let Some(rect) = event
            .current_target()
            .and_then(|target| Some(target.dyn_into::<Element>().ok()?.get_bounding_client_rect()))
        else {
            return;
        };
        let share = |at: i32, from: f64, size: f64| ((f64::from(at) - from) / size.max(1.0)).clamp(0.0, 1.0);
        let x = share(event.client_x(), rect.left(), rect.width());
        let y = share(event.client_y(), rect.top(), rect.height());
        drawing.update(|drawing| {
            if let Some(drawing) = drawing {
                drawing.draw(x, y);
            }
        });
    };
    let begin = move |event: PointerEvent| {
        drawing.set(curve.with_untracked(|text| Drawing::of(text.as_ref()?)));
        if let Some(target) = event.current_target().and_then(|target| target.dyn_into::<Element>().ok()) {
            // Drawing goes on outside of the picture, at its edge; where capture is refused it stops there.
            let _ = target.set_pointer_capture(event.pointer_id());
        }
        draw(&event);
    };
    let end = move |_: PointerEvent| {
        if let Some(drawn) = drawing.get_untracked() {
            set(&drawn.text());
            drawing.set(None);
        }
    };
    view! {
        <svg
            class="curve-pad"
            viewBox=format!("0 0 {} {}", SIZE.0, SIZE.1)
            preserveAspectRatio="none"
            role="img"
            aria-label=text::CURVE_PAD
            data-testid="curve-pad"
            on:pointerdown=begin
            on:pointermove=move |event| {
                if drawing.with_untracked(Option::is_some) {
                    draw(&event);
                }
            }
            on:pointerup=end
            on:pointercancel=end
        >
            {move || {
                shown().map(|drawing| view! { <polyline points=drawing.outline() vector-effect="non-scaling-stroke" /> })
            }}
        </svg>
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_becomes_pairs() {
        let mut drawing = Drawing::of("0:0.5,24:0.5").unwrap_or_else(|| unreachable!("a curve"));
        assert_eq!((drawing.hours, drawing.top), (24.0, 0.625));
        assert_eq!(drawing.text(), "0:0.5,24:0.5", "nothing was drawn");
        // From 6 h at full height to 12 h at the same: quick pointers leave no gap.
        drawing.draw(0.25, 0.2);
        drawing.draw(0.5, 0.2);
        assert_eq!(drawing.text(), "0:0.5,24:0.5");
        drawing.draw(0.25, 0.0);
        assert_eq!(drawing.text(), "0:0.5,5.5:0.5,6:0.63,12:0.63,12.5:0.5,24:0.5");
        assert!(Drawing::of("no curve").is_none());
    }
}
