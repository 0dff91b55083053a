//! A canvas that is sharp on every display and knows its own size.

use leptos::html;
use leptos::prelude::*;
use wasm_bindgen::JsCast;
use wasm_bindgen::prelude::*;
use web_sys::{CanvasRenderingContext2d, HtmlCanvasElement, ResizeObserver};

/// Device pixels that are drawn for each CSS pixel.
pub(crate) fn ratio() -> f64 {
    web_sys::window().map_or(1.0, |window| window.device_pixel_ratio()).clamp(1.0, 3.0)
}

/// The part of drawing that every canvas shares.
pub(crate) struct Surface {
    pub context: CanvasRenderingContext2d,
    /// Size in CSS pixels.
    pub width: f64,
    pub height: f64,
}

/// Readies `canvas` for drawing at its width, as [`watch_width`] told it, and the given height, wiped. Asking the canvas itself would lay the page out anew
/// in the middle of every picture.
pub(crate) fn surface(canvas: &HtmlCanvasElement, width: f64, height: f64) -> Option<Surface> {
    let (surface, _) = surface_kept(canvas, width, height)?;
    surface.context.clear_rect(0.0, 0.0, width, height);
    Some(surface)
}

/// The same with what is on it, for those who draw only what has changed; true when it is empty all the same, because its size is new.
pub(crate) fn surface_kept(canvas: &HtmlCanvasElement, width: f64, height: f64) -> Option<(Surface, bool)> {
    if width < 1.0 {
        return None;
    }
    let ratio = ratio();
    let (pixels_x, pixels_y) = ((width * ratio).round() as u32, (height * ratio).round() as u32);
    let resized = canvas.width() != pixels_x || canvas.height() != pixels_y;
    if resized {
        canvas.set_width(pixels_x);
        canvas.set_height(pixels_y);
        let _ = web_sys::HtmlElement::style(canvas).set_property("height", &format!("{height}px"));
    }
    let context = canvas.get_context("2d").ok().flatten()?.dyn_into::<CanvasRenderingContext2d>().ok()?;
    let _ = context.set_transform(ratio, 0.0, 0.0, ratio, 0.0, 0.0);
    Some((Surface { context, width, height }, resized))
}

/// The element's width in CSS pixels; 0 until it has been laid out.
pub(crate) fn watch_width<E>(node: NodeRef<E>) -> RwSignal<f64>
where
    E: html::ElementType + 'static,
    E::Output: JsCast + Clone + 'static,
{
    let known = RwSignal::new(0.0);
    node.on_load(move |element| {
        let target: web_sys::Element = element.unchecked_into();
        let watched = target.clone();
        let listener: Closure<dyn FnMut()> = Closure::new(move || {
            let width = f64::from(watched.client_width());
            if known.try_get_untracked().is_some_and(|known| known != width) {
                let _ = known.try_set(width);
            }
        });
        if let Ok(observer) = ResizeObserver::new(listener.as_ref().unchecked_ref()) {
            observer.observe(&target);
            // Ends with the element; cards are made once per run, so this cannot pile up.
            listener.forget();
        }
    });
    known
}
