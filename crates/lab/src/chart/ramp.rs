//! Colours of a map: one hue that only gets darker (or lighter, on a dark page) for amounts, and two that meet in a grey for differences.
//!
//! Lightness alone tells amounts apart, so every kind of sight reads them. The ends of a difference are blue and orange, which no kind of dichromacy
//! confuses (the tests recompute that), and its middle is grey.

use super::palette::Scheme;

/// Colours at the ends and in the middle.
pub(super) struct Ramp {
    low: &'static str,
    middle: &'static str,
    high: &'static str,
}

/// For amounts, least to most.
pub(super) fn amounts(dark: bool) -> Ramp {
    if dark {
        Ramp { low: "#20262e", middle: "#2f6391", high: "#cfe6fb" }
    } else {
        Ramp { low: "#f1f6fc", middle: "#6fa3d0", high: "#0b3a6b" }
    }
}

/// For differences: worse, alike, better.
pub(super) fn differences(dark: bool) -> Ramp {
    if dark {
        Ramp { low: "#f2a65a", middle: "#343941", high: "#6db7f2" }
    } else {
        Ramp { low: "#b35806", middle: "#eef0f2", high: "#1f5fa8" }
    }
}

impl Ramp {
    /// The colour at `share`, 0 to 1.
    pub(super) fn at(&self, share: f64) -> String {
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.5 };
        let (from, to, part) = if share < 0.5 {
            (self.low, self.middle, share * 2.0)
        } else {
            (self.middle, self.high, share * 2.0 - 1.0)
        };
        let (from, to) = (channels(from), channels(to));
        let mixed = [0, 1, 2].map(|at| libm::round(from[at] + (to[at] - from[at]) * part) as u8);
        format!("#{:02x}{:02x}{:02x}", mixed[0], mixed[1], mixed[2])
    }
}

/// Black or white, whichever is read more easily on `colour`. (One of the two always has more than 4.5 : 1.)
pub(super) fn ink_on(colour: &str, scheme: &Scheme) -> &'static str {
    let light = luminance(colour);
    let contrast = |ink: &str| {
        let other = luminance(ink);
        (light.max(other) + 0.05) / (light.min(other) + 0.05)
    };
    // The page's own ink where it can be read.
    let inks = [scheme.ink, "#000000", "#ffffff"];
    let best = inks.iter().copied().max_by(|a, b| contrast(a).total_cmp(&contrast(b)));
    if contrast(scheme.ink) >= 4.5 { scheme.ink } else { best.unwrap_or(scheme.ink) }
}

fn channels(colour: &str) -> [f64; 3] {
    [1, 3, 5].map(|at| colour.get(at..at + 2).and_then(|hex| u8::from_str_radix(hex, 16).ok()).map_or(0.0, f64::from))
}

/// Relative luminance (WCAG 2).
fn luminance(colour: &str) -> f64 {
    let [r, g, b] = channels(colour).map(|value| {
        let value = value / 255.0;
        if value <= 0.04045 { value / 12.92 } else { libm::pow((value + 0.055) / 1.055, 2.4) }
    });
    0.2126 * r + 0.7152 * g + 0.0722 * b
}
