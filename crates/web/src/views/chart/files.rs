//! A chart as a file: the picture as SVG and PNG, the numbers as CSV.

use crate::{env, text};
use leptos::prelude::*;
use servelab_spec::csv::quoted;
use servelab_spec::protocol::Chart;
use std::fmt::Write;
use std::sync::Arc;
use wasm_bindgen::JsCast;
use wasm_bindgen::prelude::*;
use web_sys::{Blob, BlobPropertyBag, CanvasRenderingContext2d, HtmlCanvasElement, HtmlImageElement, Url};

/// Pixels of a PNG per CSS pixel: sharp on paper and on a projector.
const PNG_SCALE: f64 = 3.0;

/// The three buttons.
pub(in crate::views) fn buttons(chart: &Arc<Chart>) -> impl IntoView + use<> {
    let (svg, png, csv) = (chart.clone(), chart.clone(), chart.clone());
    let name = move |chart: &Chart, end: &str| format!("servelab-{}.{end}", chart.id);
    view! {
        <p class="exports">
            <span class="muted">{text::EXPORT}</span>
            <button type="button" on:click=move |_| env::download(&name(&svg, "svg"), "image/svg+xml", &svg.svg)>"SVG"</button>
            <button type="button" on:click=move |_| { save_png(&png.svg, name(&png, "png")); }>"PNG"</button>
            <button type="button" on:click=move |_| env::download(&name(&csv, "csv"), "text/csv", &to_csv(&csv))>"CSV"</button>
        </p>
    }
}

/// The numbers as drawn, a row each.
fn to_csv(chart: &Chart) -> String {
    let mut out = format!("{},{},{}\n", quoted(text::SERIES), quoted(&chart.x_label), quoted(&chart.y_label));
    for series in &chart.series {
        for (x, y) in series.x.iter().zip(&series.y) {
            let _ = writeln!(out, "{},{x},{y}", quoted(&series.label));
        }
    }
    out
}

/// Draws the SVG on a canvas of its own and offers it as a PNG.
fn save_png(svg: &str, name: String) -> Option<()> {
    let options = BlobPropertyBag::new();
    options.set_type("image/svg+xml");
    let parts = js_sys::Array::of1(&svg.into());
    let blob = Blob::new_with_str_sequence_and_options(&parts, &options).ok()?;
    let url = Url::create_object_url_with_blob(&blob).ok()?;
    let image = HtmlImageElement::new().ok()?;
    let (drawn, address) = (image.clone(), url.clone());
    let on_load = Closure::once_into_js(move || {
        let _ = paint(&drawn, name);
        let _ = Url::revoke_object_url(&address);
    });
    image.set_onload(Some(on_load.unchecked_ref()));
    image.set_src(&url);
    Some(())
}

fn paint(image: &HtmlImageElement, name: String) -> Option<()> {
    let document = env::window()?.document()?;
    let canvas = document.create_element("canvas").ok()?.dyn_into::<HtmlCanvasElement>().ok()?;
    let (width, height) = (f64::from(image.width()) * PNG_SCALE, f64::from(image.height()) * PNG_SCALE);
    canvas.set_width(width as u32);
    canvas.set_height(height as u32);
    let context = canvas.get_context("2d").ok()??.dyn_into::<CanvasRenderingContext2d>().ok()?;
    context.draw_image_with_html_image_element_and_dw_and_dh(image, 0.0, 0.0, width, height).ok()?;
    let done = Closure::once_into_js(move |blob: Option<Blob>| {
        if let Some(blob) = blob {
            env::download_blob(&name, &blob);
        }
    });
    canvas.to_blob(done.unchecked_ref()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use servelab_spec::protocol::Series;

    #[test]
    fn numbers_leave_as_they_came() {
        let chart = Chart {
            x_label: "time, s".into(),
            y_label: "TTFT, s".into(),
            series: vec![Series { label: "a".into(), x: vec![0.25], y: vec![0.1], points: 1 }],
            ..Chart::default()
        };
        assert_eq!(to_csv(&chart), format!("{},\"time, s\",\"TTFT, s\"\na,0.25,0.1\n", text::SERIES));
    }
}
