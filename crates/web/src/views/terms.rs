//! Terms that explain themselves: on hover, on focus and on tap, and for a screen reader as a description. What a term means stands once, in the glossary
//! at the foot of the page; one note for all of them shows it where it was asked for.
//!
//! Whatever carries `data-term` explains itself, a head that sorts as well as a word in a sentence. The note stays while the pointer is over it and
//! closes on Escape.

use crate::text::glossary::{Marker, Piece, TERMS, term};
use crate::{env, format, text};
use leptos::html;
use leptos::prelude::*;
use wasm_bindgen::prelude::*;
use web_sys::{Element, Event, KeyboardEvent};

/// Room between the note and the edges of the window, CSS pixels.
const EDGE: f64 = 8.0;

#[wasm_bindgen]
extern "C" {
    /// An element in the top layer, where no scrolling box cuts it off.
    type Popover;
    #[wasm_bindgen(method, js_name = showPopover, catch)]
    fn show_popover(this: &Popover) -> Result<(), JsValue>;
    #[wasm_bindgen(method, js_name = hidePopover, catch)]
    fn hide_popover(this: &Popover) -> Result<(), JsValue>;
}

/// The id of the definition in the list, for `aria-describedby`.
pub(super) fn described_by(id: &str) -> String {
    format!("term-{id}")
}

/// A term where it stands; its own name unless the place says it otherwise.
#[component]
pub(super) fn Term(id: &'static str, #[prop(optional, into)] words: String) -> impl IntoView {
    let words = if words.is_empty() { term(id).map_or(id, |term| term.name).to_owned() } else { words };
    view! { <button type="button" class="term" data-term=id aria-describedby=described_by(id)>{words}</button> }
}

/// Prose with its terms marked, and its numbers as the visitor's locale writes them.
pub(super) fn marked(marker: &mut Marker, words: &str) -> AnyView {
    let words = &*format::local(words);
    let mut pieces = marker.pieces(words);
    let mut views = Vec::with_capacity(pieces.len());
    // A line may break on both sides of a button, so marks that stand at it go into a box with it.
    let mut before = String::new();
    for at in 0..pieces.len() {
        match pieces[at] {
            Piece::Plain(words) => {
                let opens = if at + 1 < pieces.len() { words.strip_suffix('(') } else { None };
                before = opens.map_or(String::new(), |_| "(".into());
                views.push(opens.unwrap_or(words).to_owned().into_any());
            }
            Piece::Term(id, words) => {
                let after = match pieces.get_mut(at + 1) {
                    Some(Piece::Plain(next)) => {
                        let (mark, rest) = next.split_at(next.find(|c: char| !is_mark(c)).unwrap_or(next.len()));
                        *next = rest;
                        mark.to_owned()
                    }
                    _ => String::new(),
                };
                views.push(view! { <span class="term-box">{std::mem::take(&mut before)}<Term id=id words=words />{after}</span> }.into_any());
            }
        }
    }
    views.into_any()
}

fn is_mark(c: char) -> bool {
    matches!(c, '.' | ',' | ':' | ';' | '?' | '!' | ')')
}

/// One text with its terms marked.
pub(super) fn prose(words: &str) -> AnyView {
    marked(&mut Marker::default(), words)
}

/// All terms.
#[component]
pub(super) fn Glossary() -> impl IntoView {
    let entries = TERMS.iter().map(|term| {
        view! { <div><dt>{term.name}</dt><dd id=described_by(term.id)>{term.words}</dd></div> }
    });
    view! {
        <details class="cold glossary" data-testid="glossary">
            <summary><h2>{text::GLOSSARY}</h2></summary>
            <p class="muted results-note">{text::GLOSSARY_NOTE}</p>
            <dl class="glossary-list">{entries.collect_view()}</dl>
        </details>
    }
}

/// What is being explained.
#[derive(Clone, PartialEq)]
struct Asked {
    of: Element,
    words: String,
}

/// The note.
#[component]
pub(super) fn Note() -> impl IntoView {
    let asked = RwSignal::new_local(None::<Asked>);
    let note = NodeRef::<html::Div>::new();
    listen(asked);
    Effect::new(move |_| {
        let Some(note) = note.get() else { return };
        let popover: &Popover = note.unchecked_ref();
        let Some(Asked { of, words }) = asked.get() else {
            let _ = popover.hide_popover();
            return;
        };
        note.set_text_content(Some(&words));
        // Open already when it goes from one term to the next.
        let _ = popover.show_popover();
        let (width, height) = (f64::from(note.offset_width()), f64::from(note.offset_height()));
        let (left, top) = place(&of, width, height);
        let style = web_sys::HtmlElement::style(&note);
        let _ = style.set_property("left", &format!("{left:.1}px"));
        let _ = style.set_property("top", &format!("{top:.1}px"));
    });
    // Screen readers have the description already.
    view! { <div class="term-note" popover="manual" aria-hidden="true" data-testid="term-note" node_ref=note></div> }
}

/// Below the term, above it where there is no room below, and within the window.
fn place(of: &Element, width: f64, height: f64) -> (f64, f64) {
    let rect = of.get_bounding_client_rect();
    let (wide, high) = env::window_size();
    let top =
        if rect.bottom() + height + EDGE > high && rect.top() > height { rect.top() - height } else { rect.bottom() };
    (rect.left().min(wide - width - EDGE).max(EDGE), top)
}

/// What explains itself at or around an event's target.
fn target(event: &Event, selector: &str) -> Option<Element> {
    event.target()?.dyn_into::<Element>().ok()?.closest(selector).ok().flatten()
}

fn listen(asked: RwSignal<Option<Asked>, LocalStorage>) {
    let show = move |of: Element| {
        let Some(term) = of.get_attribute("data-term").as_deref().and_then(term) else { return };
        let words = match of.get_attribute("data-hint") {
            Some(hint) => format!("{} {hint}", term.words),
            None => term.words.to_owned(),
        };
        let next = Some(Asked { of, words });
        if asked.with_untracked(|now| *now != next) {
            asked.set(next);
        }
    };
    let hide = move || {
        if asked.with_untracked(Option::is_some) {
            asked.set(None);
        }
    };
    // By pointer, focus or tap: whatever was met last is explained, and what explains nothing ends it.
    let met = move |event: Event| match target(&event, "[data-term]") {
        Some(of) => show(of),
        None if target(&event, ".term-note").is_none() => hide(),
        None => {}
    };
    let mut listeners: Vec<WindowListenerHandle> = Vec::new();
    for name in ["pointerover", "focusin", "click"] {
        listeners.push(window_event_listener_untyped(name, met));
    }
    listeners.push(window_event_listener_untyped("focusout", move |_| hide()));
    // It does not travel with what is scrolled in a box of its own.
    listeners.push(window_event_listener_untyped("resize", move |_| hide()));
    // The page moves to a term that takes the focus: the note goes with it.
    listeners.push(window_event_listener_untyped("scroll", move |_| {
        if asked.with_untracked(Option::is_some) {
            asked.notify();
        }
    }));
    listeners.push(window_event_listener_untyped("wheel", move |event| {
        if target(&event, ".term-note").is_none() {
            hide();
        }
    }));
    listeners.push(window_event_listener(leptos::ev::keydown, move |event: KeyboardEvent| {
        if event.key() == "Escape" && asked.with_untracked(Option::is_some) {
            hide();
            // Nothing else is closed by the same press.
            event.prevent_default();
        }
    }));
    on_cleanup(move || listeners.into_iter().for_each(WindowListenerHandle::remove));
}
