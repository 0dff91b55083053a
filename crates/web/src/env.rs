//! The browser around the page: clock, media queries, storage, clipboard, downloads.

use crate::format::{Marks, PLAIN};
use wasm_bindgen::prelude::*;
use web_sys::{Blob, BlobPropertyBag, HtmlAnchorElement, HtmlElement, MediaQueryList, Url, Window};

pub(crate) fn window() -> Option<Window> {
    web_sys::window()
}

/// Wall clock, ms. Drives playback and the time left, never a result.
pub(crate) fn now_ms() -> f64 {
    window().and_then(|window| window.performance()).map_or(0.0, |performance| performance.now())
}

/// Watches a media query: `on_change` hears its present state at once and every change.
pub(crate) fn watch_media(query: &str, on_change: impl Fn(bool) + 'static) {
    let Some(list) = window().and_then(|window| window.match_media(query).ok().flatten()) else { return };
    on_change(list.matches());
    let watched = list.clone();
    let listener: Closure<dyn FnMut()> = Closure::new(move || on_change(watched.matches()));
    listen_to_list(&list, listener);
}

/// Hears whether the tab is hidden, at each change.
pub(crate) fn watch_hidden(on_change: impl Fn(bool) + 'static) {
    let Some(document) = window().and_then(|window| window.document()) else { return };
    let listener: Closure<dyn FnMut()> = Closure::new(move || on_change(hidden()));
    let _ = document.add_event_listener_with_callback("visibilitychange", listener.as_ref().unchecked_ref());
    // Lives as long as the page.
    listener.forget();
}

/// The tab is hidden now.
pub(crate) fn hidden() -> bool {
    window().and_then(|window| window.document()).is_some_and(|document| document.hidden())
}

fn listen_to_list(list: &MediaQueryList, listener: Closure<dyn FnMut()>) {
    let _ = list.add_event_listener_with_callback("change", listener.as_ref().unchecked_ref());
    // Lives as long as the page.
    listener.forget();
}

/// A small setting; absent where storage is refused (sandboxed frames).
pub(crate) fn stored(key: &str) -> Option<String> {
    window()?.local_storage().ok().flatten()?.get_item(key).ok().flatten()
}

/// Keeps a small setting where storage is allowed.
pub(crate) fn store(key: &str, value: &str) {
    if let Some(storage) = window().and_then(|window| window.local_storage().ok().flatten()) {
        let _ = storage.set_item(key, value);
    }
}

/// Sets custom properties on the root element.
pub(crate) fn set_root_properties(properties: &[(String, &'static str)]) {
    if let Some(root) = root() {
        for (name, value) in properties {
            let _ = root.style().set_property(name, value);
        }
    }
}

/// The root element.
pub(crate) fn root() -> Option<HtmlElement> {
    window()?.document()?.document_element()?.dyn_into().ok()
}

#[wasm_bindgen]
extern "C" {
    type CustomEvent;
    #[wasm_bindgen(constructor)]
    fn new(name: &str, options: &js_sys::Object) -> CustomEvent;
}

/// Tells the script that speaks with a page around this one (`www/frame.js`); nobody when this page stands for itself.
pub(crate) fn tell(name: &str, detail: impl FnOnce() -> String) {
    if !root().is_some_and(|root| root.has_attribute("data-embed")) {
        return;
    }
    let options = js_sys::Object::new();
    // Setting a property of an object just made can not fail, and an event that nobody hears is none.
    let _ = js_sys::Reflect::set(&options, &"detail".into(), &detail().into());
    if let Some(window) = window() {
        let _ = window.dispatch_event(CustomEvent::new(name, &options).unchecked_ref());
    }
}

#[wasm_bindgen]
extern "C" {
    type IntersectionObserver;
    #[wasm_bindgen(constructor, catch)]
    fn new(heard: &js_sys::Function) -> Result<IntersectionObserver, JsValue>;
    #[wasm_bindgen(method)]
    fn observe(this: &IntersectionObserver, element: &web_sys::Element);
    type Intersection;
    #[wasm_bindgen(method, getter, js_name = isIntersecting)]
    fn is_intersecting(this: &Intersection) -> bool;
}

/// Hears whether some of `element` is to be seen, at once and at each change. Asking where it is before every picture would lay the page out each time.
pub(crate) fn watch_sight(element: &web_sys::Element, on_change: impl Fn(bool) + 'static) {
    let listener: Closure<dyn FnMut(js_sys::Array)> = Closure::new(move |seen: js_sys::Array| {
        if let Ok(latest) = seen.pop().dyn_into::<js_sys::Object>() {
            on_change(latest.unchecked_ref::<Intersection>().is_intersecting());
        }
    });
    if let Ok(observer) = IntersectionObserver::new(listener.as_ref().unchecked_ref()) {
        observer.observe(element);
        // Lives as long as the page.
        listener.forget();
    }
}

/// How the visitor's locale writes numbers; as the lab does where the browser does not say.
pub(crate) fn marks() -> Marks {
    let format = js_sys::Intl::NumberFormat::new(&js_sys::Array::new(), &js_sys::Object::new());
    let parts = format.format_to_parts(12_345.6);
    let part = |kind: &str| {
        let text = |part: &JsValue, field: &str| js_sys::Reflect::get(part, &field.into()).ok()?.as_string();
        parts
            .iter()
            .find(|part| text(part, "type").as_deref() == Some(kind))
            .and_then(|part| text(&part, "value")?.chars().next())
    };
    // A locale that groups no five digits keeps the thin space.
    Marks { decimal: part("decimal").unwrap_or(PLAIN.decimal), group: part("group").unwrap_or(PLAIN.group) }
}

/// This page is a file on the visitor's device.
pub(crate) fn from_disk() -> bool {
    window().and_then(|window| window.location().protocol().ok()).is_some_and(|protocol| protocol == "file:")
}

/// The visitor's locale. Fields for numbers have it as their language, so that they show and take the decimal mark that all other numbers of the page have, where
/// the browser goes by that and not by its own language.
pub(crate) fn locale() -> String {
    window().and_then(|window| window.navigator().language()).unwrap_or_default()
}

/// Moves the keyboard's focus to the first element that `selector` finds once the page shows what was just changed; to the heading when there is none.
pub(crate) fn focus_soon(selector: &'static str) {
    leptos::prelude::request_animation_frame(move || {
        let document = window().and_then(|window| window.document());
        let find =
            |selector: &str| document.as_ref()?.query_selector(selector).ok().flatten()?.dyn_into::<HtmlElement>().ok();
        if let Some(element) = find(selector).or_else(|| find("h1")) {
            let _ = element.focus();
        }
    });
}

/// Width and height of what is seen of the page, CSS pixels.
pub(crate) fn window_size() -> (f64, f64) {
    let side = |side: Result<JsValue, JsValue>| side.ok().and_then(|side| side.as_f64()).unwrap_or(f64::INFINITY);
    window().map_or((f64::INFINITY, f64::INFINITY), |window| (side(window.inner_width()), side(window.inner_height())))
}

/// Scrolls to where the page begins, at once.
pub(crate) fn to_top() {
    if let Some(window) = window() {
        window.scroll_to_with_x_and_y(0.0, 0.0);
    }
}

/// Copies text; says whether the browser let it.
pub(crate) async fn copy(text: &str) -> bool {
    let Some(window) = window() else { return false };
    let clipboard = window.navigator().clipboard();
    if clipboard.is_undefined() {
        return false;
    }
    wasm_bindgen_futures::JsFuture::from(clipboard.write_text(text)).await.is_ok()
}

/// WebGPU is offered here (an adapter may still be missing).
pub(crate) fn has_webgpu() -> bool {
    window().is_some_and(|window| {
        let navigator: JsValue = window.navigator().into();
        js_sys::Reflect::get(&navigator, &"gpu".into()).is_ok_and(|gpu| gpu.is_truthy())
    })
}

/// Cores that the browser admits to; 0 when it says nothing.
pub(crate) fn cores() -> f64 {
    window().map_or(0.0, |window| window.navigator().hardware_concurrency())
}

/// Offers text as a file.
pub(crate) fn download(name: &str, mime: &str, text: &str) {
    let options = BlobPropertyBag::new();
    options.set_type(mime);
    if let Ok(blob) = Blob::new_with_str_sequence_and_options(&js_sys::Array::of1(&text.into()), &options) {
        download_blob(name, &blob);
    }
}

/// Offers bytes as a file.
pub(crate) fn download_blob(name: &str, blob: &Blob) {
    let Ok(url) = Url::create_object_url_with_blob(blob) else { return };
    let document = window().and_then(|window| window.document());
    let anchor = document.and_then(|document| document.create_element("a").ok());
    if let Some(anchor) = anchor.and_then(|element| element.dyn_into::<HtmlAnchorElement>().ok()) {
        anchor.set_href(&url);
        anchor.set_download(name);
        anchor.click();
    }
    // The click has started the download synchronously; a later turn may let go of the bytes.
    let release = Closure::once_into_js(move || {
        let _ = Url::revoke_object_url(&url);
    });
    if let Some(window) = window() {
        let _ = window.set_timeout_with_callback_and_timeout_and_arguments_0(release.unchecked_ref(), 10_000);
    }
}

/// The visitor asked for fewer bytes.
pub(crate) fn saves_data() -> bool {
    let Some(window) = window() else { return false };
    let navigator: JsValue = window.navigator().into();
    let connection = js_sys::Reflect::get(&navigator, &"connection".into()).unwrap_or(JsValue::UNDEFINED);
    js_sys::Reflect::get(&connection, &"saveData".into()).is_ok_and(|saves| saves.is_truthy())
}
