//! A lane of pills: one button per request, drawn by plain calls and only where something changed.
//!
//! A pill's width stands for its prompt; the solid part was in the cache, the tinted part has been computed, the outlined rest is
//! still to be computed, and the thin tail is the output as it grows.

use crate::text;
use servelab_spec::frame::Pill;
use wasm_bindgen::JsCast;
use web_sys::{Document, Element, HtmlElement};

/// How tokens become pixels, the same for every lane of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    /// Pixels of a prompt token.
    pub prompt: f64,
    /// Pixels of an output token: outputs are short, so their scale is longer.
    pub output: f64,
}

/// Widest prompt and longest tail in pixels, and the narrowest pill that can still be hit and read.
const WIDEST: f64 = 58.0;
const LONGEST_TAIL: f64 = 20.0;
const NARROWEST: f64 = 16.0;

impl Scale {
    /// The scale at which the longest prompt and the longest output of a run just fit.
    pub(crate) fn fitting(longest_prompt: u32, longest_output: u32) -> Scale {
        Scale {
            prompt: WIDEST / f64::from(longest_prompt.max(1)),
            output: LONGEST_TAIL / f64::from(longest_output.max(1)),
        }
    }

    /// Width of a prompt of that many tokens.
    pub(crate) fn width(self, prompt_tokens: u32) -> f64 {
        (f64::from(prompt_tokens) * self.prompt).clamp(NARROWEST, WIDEST)
    }
}

/// What is on the screen of one pill, so that equal things are not set twice.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Look {
    request: u32,
    tenant: u32,
    /// Pixels.
    width: u16,
    /// Tenths of a per cent.
    cached: u16,
    computed: u16,
    /// Tenths of a pixel.
    tail: u16,
    attempt: u32,
}

struct PillNode {
    root: HtmlElement,
    cached: HtmlElement,
    computed: HtmlElement,
    label: HtmlElement,
    tail: HtmlElement,
    look: Option<Look>,
}

/// A lane, with as many pills as it ever held.
pub(crate) struct Lane {
    host: HtmlElement,
    more: HtmlElement,
    pills: Vec<PillNode>,
    shown: usize,
    hidden: u32,
    /// Sequences still waiting have nothing computed; they are drawn without a tail.
    tails: bool,
}

impl Lane {
    /// A lane inside `host`.
    pub(crate) fn new(host: HtmlElement, tails: bool) -> Option<Lane> {
        let document = host.owner_document()?;
        let more = element(&document, "span", "lane-more")?;
        host.append_child(&more).ok()?;
        Some(Lane { host, more, pills: Vec::new(), shown: 0, hidden: 0, tails })
    }

    /// Draws `pills`; `hidden` more are only counted.
    pub(crate) fn draw(&mut self, pills: &[Pill], hidden: u32, scale: Scale) {
        while self.pills.len() < pills.len() {
            let Some(node) = self.host.owner_document().and_then(|document| PillNode::new(&document)) else { return };
            let _ = self.host.insert_before(&node.root, Some(&self.more));
            self.pills.push(node);
        }
        for (node, pill) in self.pills.iter_mut().zip(pills) {
            node.draw(pill, scale, self.tails);
        }
        for (at, node) in self.pills.iter_mut().enumerate() {
            let visible = at < pills.len();
            if visible != (at < self.shown) {
                set_hidden(&node.root, !visible);
            }
        }
        self.shown = pills.len();
        if hidden != self.hidden {
            self.hidden = hidden;
            self.more.set_text_content(Some(&if hidden > 0 { text::and_more(hidden) } else { String::new() }));
        }
    }
}

impl PillNode {
    fn new(document: &Document) -> Option<PillNode> {
        let root = element(document, "button", "pill")?;
        root.set_attribute("type", "button").ok()?;
        let body = element(document, "span", "pill-body")?;
        let cached = element(document, "span", "pill-cached")?;
        let computed = element(document, "span", "pill-computed")?;
        let label = element(document, "span", "pill-label")?;
        let tail = element(document, "span", "pill-tail")?;
        for part in [&computed, &cached, &label] {
            body.append_child(part).ok()?;
        }
        root.append_child(&body).ok()?;
        root.append_child(&tail).ok()?;
        Some(PillNode { root, cached, computed, label, tail, look: None })
    }

    fn draw(&mut self, pill: &Pill, scale: Scale, tails: bool) {
        let share = |tokens: u32| (f64::from(tokens) / f64::from(pill.prompt_tokens.max(1)) * 1000.0).round() as u16;
        let look = Look {
            request: pill.request,
            tenant: pill.tenant,
            width: scale.width(pill.prompt_tokens).round() as u16,
            // What was fetched is as solid as what was there: neither is computed.
            cached: share(pill.cached_tokens + pill.fetched_tokens),
            computed: share(pill.computed_tokens),
            tail: if tails { (f64::from(pill.output_tokens) * scale.output * 10.0).round() as u16 } else { 0 },
            attempt: pill.attempt,
        };
        if self.look == Some(look) {
            return;
        }
        let before = self.look.replace(look);
        let fresh = before.is_none_or(|before| before.request != look.request || before.attempt != look.attempt);
        if fresh {
            let colour = look.tenant % 8;
            self.root.set_class_name(&format!("pill tenant-{colour}"));
            self.label.set_text_content(Some(&text::tenant_letter(look.tenant)));
            let _ = self.root.set_attribute("data-request", &look.request.to_string());
            let _ = self.root.set_attribute("aria-label", &text::pill_label(pill));
            let _ = self.root.set_attribute("title", &text::pill_label(pill));
        }
        set(&self.root, "--width", &format!("{}px", look.width));
        set(&self.cached, "width", &format!("{}%", f64::from(look.cached) / 10.0));
        set(&self.computed, "width", &format!("{}%", f64::from(look.computed) / 10.0));
        set(&self.tail, "width", &format!("{}px", f64::from(look.tail) / 10.0));
        // A letter on the solid part is read on the tenant's colour, one on the outline on the surface.
        let solid = f64::from(look.width) * f64::from(look.cached) / 1000.0 >= 12.0;
        let _ = self.label.class_list().toggle_with_force("on-solid", solid);
    }
}

fn set(element: &HtmlElement, name: &str, value: &str) {
    let _ = element.style().set_property(name, value);
}

fn set_hidden(element: &HtmlElement, hidden: bool) {
    set(element, "display", if hidden { "none" } else { "" });
}

pub(super) fn element(document: &Document, tag: &str, class: &str) -> Option<HtmlElement> {
    let element = document.create_element(tag).ok()?.dyn_into::<HtmlElement>().ok()?;
    element.set_class_name(class);
    Some(element)
}

/// The request of the pill that an event came from.
pub(super) fn request_at(event: &web_sys::MouseEvent) -> Option<u32> {
    let target = event.target()?.dyn_into::<Element>().ok()?;
    target.closest("[data-request]").ok()??.get_attribute("data-request")?.parse().ok()
}
