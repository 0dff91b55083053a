//! A canvas that is sharp on every display and knows its own size.

use leptos::html;
use leptos::prelude::*;
use wasm_bindgen::JsCast;
use wasm_bindgen::prelude::*;
use web_sys::{CanvasRenderingContext2d, HtmlCanvasElement, ResizeObserver};

/// The part of drawing that every canvas shares.
pub(crate) struct Surface {
    pub context: CanvasRenderingContext2d,
    /// Size in CSS pixels.
    pub width: f64,
    pub height: f64,
}

/// Readies `canvas` for drawing at its present width and the given height, wiped.
pub(crate) fn surface(canvas: &HtmlCanvasElement, height: f64) -> Option<Surface> {
    let width = f64::from(canvas.client_width());
    if width < 1.0 {
        return None;
    }
    let ratio = web_sys::window().map_or(1.0, |window| window.device_pixel_ratio()).clamp(1.0, 3.0);
    let (pixels_x, pixels_y) = ((width * ratio).round() as u32, (height * ratio).round() as u32);
    if canvas.width() != pixels_x || canvas.height() != pixels_y {
        canvas.set_width(pixels_x);
        canvas.set_height(pixels_y);
        let _ = web_sys::HtmlElement::style(canvas).set_property("height", &format!("{height}px"));
    }
    let context = canvas.get_context("2d").ok().flatten()?.dyn_into::<CanvasRenderingContext2d>().ok()?;
    let _ = context.set_transform(ratio, 0.0, 0.0, ratio, 0.0, 0.0);
    context.clear_rect(0.0, 0.0, width, height);
    Some(Surface { context, width, height })
}

/// Counts up whenever the element changes its width.
pub(crate) fn watch_width<E>(node: NodeRef<E>) -> RwSignal<u32>
where
    E: html::ElementType + 'static,
    E::Output: JsCast + Clone + 'static,
{
    let changed = RwSignal::new(0u32);
    node.on_load(move |element| {
        let last = std::cell::Cell::new(0);
        let target: web_sys::Element = element.unchecked_into();
        let watched = target.clone();
        let listener: Closure<dyn FnMut()> = Closure::new(move || {
            let width = watched.client_width();
            if last.replace(width) != width {
                let _ = changed.try_update(|count| *count += 1);
            }
        });
        if let Ok(observer) = ResizeObserver::new(listener.as_ref().unchecked_ref()) {
            observer.observe(&target);
            // Ends with the element; cards are made once per run, so this cannot pile up.
            listener.forget();
        }
    });
    changed
}
