//! SVG as text: elements with presentation attributes only, numbers with one decimal, everything from outside escaped.

use std::fmt::Write;

/// Text size of everything but the title, pixels.
pub const TEXT: f64 = 12.0;
/// Text size of the title.
pub const TITLE: f64 = 14.0;

/// A growing SVG document.
pub struct Svg {
    out: String,
}

impl Svg {
    /// An image with an accessible name and description. `id` keeps their ids apart from those of other charts of the page.
    pub fn new(id: &str, width: f64, height: f64, title: &str, description: &str) -> Self {
        let mut out = String::with_capacity(16 * 1024);
        let _ = write!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-labelledby=\"{id}-title {id}-desc\" \
             font-family=\"system-ui, sans-serif\" font-size=\"{TEXT:.0}\"><title id=\"{id}-title\">{}</title>\
             <desc id=\"{id}-desc\">{}</desc>",
            escape(title),
            escape(description),
            id = escape(id),
        );
        Svg { out }
    }

    /// A filled rectangle.
    pub fn rect(&mut self, [x, y, width, height]: [f64; 4], fill: &str) {
        let _ = write!(
            self.out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\"/>"
        );
    }

    /// A straight line; `dash` is empty for a solid one.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, width: f64, dash: &str) {
        let _ = write!(
            self.out,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{stroke}\" stroke-width=\"{width:.1}\"{}/>",
            from.0,
            from.1,
            to.0,
            to.1,
            dash_attribute(dash)
        );
    }

    /// A path from SVG path data.
    pub fn path(&mut self, data: &str, stroke: &str, dash: &str, clip: &str) {
        let _ = write!(
            self.out,
            "<path d=\"{data}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"2\" stroke-linejoin=\"round\"{} \
             clip-path=\"url(#{})\"/>",
            dash_attribute(dash),
            escape(clip)
        );
    }

    /// A filled path of bars, opaque.
    pub fn bars(&mut self, data: &str, fill: &str, clip: &str) {
        let _ = write!(self.out, "<path d=\"{data}\" fill=\"{fill}\" clip-path=\"url(#{})\"/>", escape(clip));
    }

    /// A filled path of many small marks.
    pub fn marks(&mut self, data: &str, fill: &str, clip: &str) {
        let _ = write!(
            self.out,
            "<path d=\"{data}\" fill=\"{fill}\" fill-opacity=\"0.35\" clip-path=\"url(#{})\"/>",
            escape(clip)
        );
    }

    /// A faint filled area, so that areas over each other can be told apart.
    pub fn area(&mut self, data: &str, fill: &str, clip: &str) {
        let _ = write!(
            self.out,
            "<path d=\"{data}\" fill=\"{fill}\" fill-opacity=\"0.18\" clip-path=\"url(#{})\"/>",
            escape(clip)
        );
    }

    /// Defines the clip of the plot area.
    pub fn clip(&mut self, id: &str, [x, y, width, height]: [f64; 4]) {
        let _ = write!(
            self.out,
            "<clipPath id=\"{}\"><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/></clipPath>",
            escape(id)
        );
    }

    /// Text on its baseline; `anchor` is `start`, `middle` or `end`.
    pub fn text(&mut self, at: (f64, f64), anchor: &str, fill: &str, text: &str) {
        let _ = write!(
            self.out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" fill=\"{fill}\">{}</text>",
            at.0,
            at.1,
            escape(text)
        );
    }

    /// Text over whatever is drawn there: a rim of the surface's colour keeps it readable.
    pub fn words_over(&mut self, at: (f64, f64), anchor: &str, (fill, surface): (&str, &str), text: &str) {
        let _ = write!(
            self.out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" fill=\"{fill}\" stroke=\"{surface}\" stroke-width=\"4\" \
             stroke-linejoin=\"round\" paint-order=\"stroke\">{}</text>",
            at.0,
            at.1,
            escape(text)
        );
    }

    /// A line of the title.
    pub fn heading(&mut self, at: (f64, f64), fill: &str, text: &str) {
        let _ = write!(
            self.out,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{TITLE:.0}\" font-weight=\"600\" fill=\"{fill}\">{}</text>",
            at.0,
            at.1,
            escape(text)
        );
    }

    /// The finished document.
    pub fn finish(mut self) -> String {
        self.out.push_str("</svg>");
        self.out
    }
}

fn dash_attribute(dash: &str) -> String {
    if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") }
}

/// Text for element content and attribute values; control characters, which XML cannot hold, become blanks.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Width of `text` in pixels, estimated generously (0.58 of the size per character covers the usual sans-serif fonts), so that it is the same
/// on every machine.
pub fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.58
}

/// `text`, or as much of it as `width` pixels hold, with an ellipsis.
pub fn shortened(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let most = libm::floor(width / (size * 0.58)).max(1.0) as usize;
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// Breaks `text` at blanks into lines of at most `width` pixels and at most `most` lines, the last one cut with an ellipsis.
pub fn wrap(text: &str, size: f64, width: f64, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(line, size) + text_width(word, size) + size * 0.58 <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            last.push('…');
        }
    }
    lines
}
