//! Numbers on a canvas that is drawn sixty times a second.
//!
//! A browser that is asked for text on a canvas first brings all styles of the page up to date, in the middle of a picture that changes them, and that takes
//! longer than all else that is drawn. So the signs that numbers consist of are drawn once, onto a canvas of their own, and copied from there.

use super::canvas::ratio;
use wasm_bindgen::JsCast;
use web_sys::{CanvasRenderingContext2d, HtmlCanvasElement};

/// What numbers consist of here.
const SIGNS: &str = "0123456789+";

/// Room for a sign in its own size: digits of the usual fonts are 0.54 to 0.58 wide.
const WIDTH: f64 = 0.59;
const HEIGHT: f64 = 1.5;

/// The signs in one font and colour.
pub(super) struct Digits {
    signs: HtmlCanvasElement,
    /// Size of one, CSS pixels; in a number all are equally wide.
    width: f64,
    height: f64,
    /// Device pixels for each of those.
    ratio: f64,
}

impl Digits {
    /// Drawn once for `canvas`, in a family of fonts at a size in CSS pixels.
    pub(super) fn new(canvas: &HtmlCanvasElement, size: f64, family: &str, colour: &str) -> Option<Digits> {
        let signs = canvas.owner_document()?.create_element("canvas").ok()?.dyn_into::<HtmlCanvasElement>().ok()?;
        let context = signs.get_context("2d").ok()??.dyn_into::<CanvasRenderingContext2d>().ok()?;
        let (width, height, ratio) = (size * WIDTH, size * HEIGHT, ratio());
        signs.set_width((width * SIGNS.len() as f64 * ratio).ceil() as u32);
        signs.set_height((height * ratio).ceil() as u32);
        // A canvas of a new size has forgotten what it was told.
        let _ = context.set_transform(ratio, 0.0, 0.0, ratio, 0.0, 0.0);
        context.set_font(&format!("500 {size}px {family}"));
        context.set_fill_style_str(colour);
        context.set_text_align("center");
        context.set_text_baseline("middle");
        for (at, sign) in SIGNS.chars().enumerate() {
            let _ = context.fill_text(&sign.to_string(), (at as f64 + 0.5) * width, height / 2.0);
        }
        Some(Digits { signs, width, height, ratio })
    }

    /// Draws a number from `left` on, its middle at height `y`, closer together where there is not enough room.
    pub(super) fn draw(&self, context: &CanvasRenderingContext2d, number: &str, left: f64, y: f64, room: f64) {
        let step = self.width.min(room / number.len().max(1) as f64);
        for (at, sign) in number.chars().enumerate() {
            let Some(found) = SIGNS.find(sign) else { continue };
            let (from, w, h) =
                (found as f64 * self.width * self.ratio, self.width * self.ratio, self.height * self.ratio);
            let (x, top) = (left + at as f64 * step, y - self.height / 2.0);
            let _ = context.draw_image_with_html_canvas_element_and_sw_and_sh_and_dx_and_dy_and_dw_and_dh(
                &self.signs,
                from,
                0.0,
                w,
                h,
                x,
                top,
                step,
                self.height,
            );
        }
    }
}
