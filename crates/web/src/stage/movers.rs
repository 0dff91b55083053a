//! Pills on their way from arrival through the router to the chosen replica, and the wire they take.
//!
//! A pill's place is a function of virtual time since the decision. The lanes show the truth at every instant, so a pill that is still
//! travelling already stands in one: the way takes wall time to be seen, the request took none.

use super::lane::element;
use crate::playback::TRAVEL_S;
use crate::state::App;
use crate::{env, text};
use leptos::html;
use leptos::prelude::*;
use servelab_spec::frame::{Decision, Frame};
use std::sync::Arc;
use wasm_bindgen::JsCast;
use web_sys::{Element, HtmlDivElement, HtmlElement};

/// Shares of the way: up to here it is between arrival and router, then it waits there for the decision to be seen.
const AT_ROUTER: f64 = 0.4;
const LEAVES_ROUTER: f64 = 0.5;

const SVG: &str = "http://www.w3.org/2000/svg";

/// Virtual time that a way takes at the present speed; nothing travels when less motion is asked for.
fn travel(app: App) -> f64 {
    if app.look.reduced_motion.get_untracked() { 0.0 } else { TRAVEL_S * app.play.speed.get_untracked() }
}

fn under_way(decision: &Decision, t_s: f64, travel: f64) -> bool {
    let since = t_s - decision.t_s;
    since >= 0.0 && since < travel
}

/// What lies over the stage.
struct Overlay {
    layer: HtmlElement,
    wires: Element,
    pills: Vec<Mover>,
    paths: Vec<Wire>,
    places: Option<Places>,
}

/// A pill and the tenant it shows, none while it is hidden.
struct Mover {
    pill: HtmlElement,
    tenant: Option<u32>,
}

/// A wire and what it looks like, so that only what changes is written.
struct Wire {
    path: Element,
    line: String,
    class: String,
}

/// Where everything on the stage is, as of a moment ago.
struct Places {
    measured_ms: f64,
    width: f64,
    arrivals: Place,
    router: Place,
    cards: Vec<Option<Place>>,
}

/// Cards grow and shrink with their queues. To ask after every picture where each of them is would lay the page out anew in the middle of it; a pill that
/// heads for a place of a quarter of a second ago is on its way all the same. Cells only move when they are scrolled.
const MEASURED_EVERY_MS: f64 = 250.0;
const CELLS_MEASURED_EVERY_MS: f64 = 1000.0;

/// Draws the overlay of `root` after every frame.
pub(super) fn attach(app: App, frame: RwSignal<Option<Arc<Frame>>>, root: NodeRef<html::Div>) {
    let overlay = StoredValue::new_local(None::<Overlay>);
    let width = super::canvas::watch_width(root);
    Effect::new(move |_| {
        let width = width.get();
        let Some(root) = root.get() else { return };
        frame.with(|frame| {
            overlay.update_value(|overlay| {
                if overlay.is_none() {
                    *overlay = Overlay::new(&root);
                }
                if let (Some(overlay), Some(frame)) = (overlay, frame.as_ref()) {
                    overlay.draw(app, &root, width, frame);
                }
            });
        });
    });
}

impl Overlay {
    fn new(root: &HtmlDivElement) -> Option<Overlay> {
        let document = root.owner_document()?;
        let layer = element(&document, "div", "movers")?;
        layer.set_attribute("aria-hidden", "true").ok()?;
        let wires = document.create_element_ns(Some(SVG), "svg").ok()?;
        wires.set_attribute("class", "wires").ok()?;
        wires.set_attribute("aria-hidden", "true").ok()?;
        root.append_child(&wires).ok()?;
        root.append_child(&layer).ok()?;
        Some(Overlay { layer, wires, pills: Vec::new(), paths: Vec::new(), places: None })
    }

    /// Where everything is; nothing while the stage is not laid out.
    fn places(&mut self, root: &HtmlDivElement, width: f64, replicas: usize) -> Option<Places> {
        let now = env::now_ms();
        let cells = replicas > super::MOST_CARDS as usize;
        let lasts = if cells { CELLS_MEASURED_EVERY_MS } else { MEASURED_EVERY_MS };
        let fresh = |places: &Places| {
            places.cards.len() == replicas && places.width == width && now - places.measured_ms < lasts
        };
        if let Some(places) = self.places.take().filter(fresh) {
            return Some(places);
        }
        let here = root.get_bounding_client_rect();
        let place = |element: &Element| {
            let rect = element.get_bounding_client_rect();
            Place {
                left: rect.left() - here.left(),
                top: rect.top() - here.top(),
                width: rect.width(),
                height: rect.height(),
            }
        };
        let anchor = |selector: &str| Some(place(&root.query_selector(selector).ok().flatten()?));
        let mut cards: Vec<Option<Place>> = (0..replicas).map(|_| None).collect();
        let shown = root.query_selector_all("[data-replica]").ok()?;
        for element in (0..shown.length()).filter_map(|at| shown.item(at)?.dyn_into::<Element>().ok()) {
            let replica = element.get_attribute("data-replica").and_then(|replica| replica.parse::<usize>().ok());
            // Of a replica that is a cell and a card the cell comes first.
            if let Some(card @ None) = replica.and_then(|replica| cards.get_mut(replica)) {
                *card = Some(place(&element));
            }
        }
        Some(Places {
            measured_ms: now,
            width,
            arrivals: anchor("[data-anchor=arrivals]")?,
            router: anchor("[data-anchor=router]")?,
            cards,
        })
    }

    fn draw(&mut self, app: App, root: &HtmlDivElement, width: f64, frame: &Frame) {
        let travel = travel(app);
        let Some(places) = self.places(root, width, frame.replicas.len()) else { return };
        let Places { arrivals, router, cards, .. } = &places;
        let moving: Vec<&Decision> =
            frame.decisions.iter().filter(|decision| under_way(decision, frame.t_s, travel)).collect();
        self.draw_wires(frame, router, cards, &moving);
        while self.pills.len() < moving.len() {
            let Some(pill) = root.owner_document().and_then(|document| element(&document, "span", "mover")) else {
                return;
            };
            let _ = self.layer.append_child(&pill);
            // As new, it is at the stage's corner.
            let _ = pill.style().set_property("visibility", "hidden");
            self.pills.push(Mover { pill, tenant: None });
        }
        for (at, mover) in self.pills.iter_mut().enumerate() {
            let shown = moving.get(at).and_then(|decision| {
                let card = cards.get(decision.replica as usize)?.as_ref()?;
                Some((decision, card))
            });
            let Some((decision, card)) = shown else {
                mover.show(None);
                continue;
            };
            mover.show(Some(decision.tenant));
            let done = (frame.t_s - decision.t_s) / travel.max(1e-12);
            let (x, y) = along(done, arrivals.start(), router.exit(card), card.entry(router), router.beside(card));
            let _ = mover.pill.style().set_property("transform", &format!("translate({x:.1}px, {y:.1}px)"));
        }
        self.places = Some(places);
    }

    fn draw_wires(&mut self, frame: &Frame, router: &Place, cards: &[Option<Place>], moving: &[&Decision]) {
        let Some(document) = self.wires.owner_document() else { return };
        // Over hundreds of cells wires would hide their numbers.
        if frame.replicas.len() > super::MOST_CARDS as usize {
            self.paths.drain(..).for_each(|wire| wire.path.remove());
            return;
        }
        while self.paths.len() < cards.len() {
            let Ok(path) = document.create_element_ns(Some(SVG), "path") else { return };
            let _ = self.wires.append_child(&path);
            self.paths.push(Wire { path, line: String::new(), class: String::new() });
        }
        let last = frame.decisions.last();
        for (replica, wire) in self.paths.iter_mut().enumerate() {
            let Some(card) = cards.get(replica).and_then(Option::as_ref) else {
                wire.set(String::new(), String::new());
                continue;
            };
            let ((x0, y0), (x1, y1)) = (router.exit(card), card.entry(router));
            let middle = (x0 + x1) / 2.0;
            let line = if router.beside(card) {
                format!("M{x0:.0} {y0:.0}C{middle:.0} {y0:.0} {middle:.0} {y1:.0} {x1:.0} {y1:.0}")
            } else {
                String::new()
            };
            let on_it = moving.iter().rev().find(|decision| decision.replica as usize == replica);
            let class = match (on_it, last) {
                (Some(decision), _) => format!("wire wire-on stroke-{}", decision.tenant % 8),
                (None, Some(last)) if last.replica as usize == replica => "wire wire-last".to_owned(),
                _ => "wire".to_owned(),
            };
            let there = frame.replicas.get(replica).is_some_and(|shown| !super::away(shown.state));
            wire.set(if there { line } else { String::new() }, class);
        }
    }
}

impl Mover {
    fn show(&mut self, tenant: Option<u32>) {
        let before = std::mem::replace(&mut self.tenant, tenant);
        if before == tenant {
            return;
        }
        if let Some(tenant) = tenant {
            self.pill.set_class_name(&format!("mover tenant-{}", tenant % 8));
            self.pill.set_text_content(Some(&text::tenant_letter(tenant)));
        }
        if before.is_none() || tenant.is_none() {
            // Out of sight it keeps its place, so that nothing is laid out when it comes back.
            let visibility = if tenant.is_some() { "visible" } else { "hidden" };
            let _ = self.pill.style().set_property("visibility", visibility);
        }
    }
}

impl Wire {
    fn set(&mut self, line: String, class: String) {
        if self.line != line {
            let _ = self.path.set_attribute("d", &line);
            self.line = line;
        }
        if self.class != class {
            let _ = self.path.set_attribute("class", &class);
            self.class = class;
        }
    }
}

/// A box on the stage, in its own pixels.
struct Place {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl Place {
    fn start(&self) -> (f64, f64) {
        (self.left + self.width - 18.0, self.top + self.height / 2.0)
    }

    /// Whether `other` stands to the right of this.
    fn beside(&self, other: &Place) -> bool {
        other.left > self.left + self.width
    }

    fn exit(&self, towards: &Place) -> (f64, f64) {
        if self.beside(towards) {
            (self.left + self.width, self.top + self.height / 2.0)
        } else {
            (self.left + self.width / 2.0, self.top + self.height)
        }
    }

    fn entry(&self, from: &Place) -> (f64, f64) {
        if from.beside(self) {
            (self.left, self.top + self.height / 2.0)
        } else {
            (self.left + self.width / 2.0, self.top + 8.0)
        }
    }
}

/// Where a pill is after the share `done` of its way; `curved` is the way along a wire.
fn along(done: f64, start: (f64, f64), router: (f64, f64), card: (f64, f64), curved: bool) -> (f64, f64) {
    let eased = |share: f64| {
        let share = share.clamp(0.0, 1.0);
        share * share * (3.0 - 2.0 * share)
    };
    let straight = |from: (f64, f64), to: (f64, f64), share: f64| {
        (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share)
    };
    if done < AT_ROUTER {
        // Down the column first, then out to where the wires begin.
        let (share, corner) = (eased(done / AT_ROUTER), (start.0, router.1));
        return if share < 0.8 {
            straight(start, corner, share / 0.8)
        } else {
            straight(corner, router, share * 5.0 - 4.0)
        };
    }
    if done < LEAVES_ROUTER {
        return router;
    }
    let share = eased((done - LEAVES_ROUTER) / (1.0 - LEAVES_ROUTER));
    if !curved {
        return straight(router, card, share);
    }
    // The cubic that `draw_wires` draws: its control points share the ends' heights.
    let middle = (router.0 + card.0) / 2.0;
    let (s, r) = (share, 1.0 - share);
    let (start_weight, inner_weight, end_weight) = (r * r * r, 3.0 * r * s, s * s * s);
    let x = start_weight * router.0 + inner_weight * middle + end_weight * card.0;
    let y = (start_weight + 3.0 * r * r * s) * router.1 + (end_weight + 3.0 * r * s * s) * card.1;
    (x, y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pill_starts_at_the_arrivals_stops_at_the_router_and_ends_at_the_card() {
        let (start, router, card) = ((0.0, 0.0), (10.0, 100.0), (200.0, 50.0));
        for curved in [false, true] {
            assert_eq!(along(0.0, start, router, card, curved), start);
            assert_eq!(along(0.45, start, router, card, curved), router);
            assert_eq!(along(1.0, start, router, card, curved), card);
        }
        let middle = along(0.75, start, router, card, true);
        assert!((middle.0 - 105.0).abs() < 1e-9 && (middle.1 - 75.0).abs() < 1e-9, "{middle:?}");
    }
}
