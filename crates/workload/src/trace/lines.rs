//! Lines out of pieces.

use super::collector::Collector;
use super::problem::Cause;

/// Longest line that is read. The keys of a prompt of two million tokens in blocks of sixteen fit in it; what is longer carries texts. As values, what stands in
/// it takes up to sixteen times as much for a moment.
const LONGEST: usize = 4 << 20;

/// The line begun.
#[derive(Debug, Default)]
pub(super) struct Lines {
    begun: Vec<u8>,
    /// Number of the line begun, less one.
    before: u64,
    /// The line begun is too long; the rest of it is passed over.
    over: bool,
}

impl Lines {
    /// Hands every line that these bytes complete to `each`; empty ones are passed over.
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        out: &mut Collector,
        each: &mut dyn FnMut(u64, &str, &mut Collector),
    ) {
        while let Some(at) = bytes.iter().position(|&byte| byte == b'\n') {
            let (line, rest) = bytes.split_at(at);
            bytes = &rest[1..];
            if self.begun.is_empty() && !self.over {
                self.before += 1;
                one(self.before, line, out, each);
            } else {
                self.add(line);
                self.end(out, each);
            }
        }
        self.add(bytes);
    }

    /// The last line, which need not end.
    pub(super) fn finish(&mut self, out: &mut Collector, each: &mut dyn FnMut(u64, &str, &mut Collector)) {
        if !self.begun.is_empty() || self.over {
            self.end(out, each);
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.over || self.begun.len() + bytes.len() > LONGEST {
            self.over = true;
            self.begun = vec![];
        } else {
            self.begun.extend_from_slice(bytes);
        }
    }

    fn end(&mut self, out: &mut Collector, each: &mut dyn FnMut(u64, &str, &mut Collector)) {
        self.before += 1;
        if std::mem::take(&mut self.over) {
            out.note(self.before, Cause::LineTooLong, "");
        } else {
            let line = std::mem::take(&mut self.begun);
            one(self.before, &line, out, each);
            // Its room is of use to the next.
            self.begun = line;
            self.begun.clear();
        }
    }
}

fn one(number: u64, line: &[u8], out: &mut Collector, each: &mut dyn FnMut(u64, &str, &mut Collector)) {
    match std::str::from_utf8(line) {
        Ok(text) if text.trim().is_empty() => {}
        Ok(text) => each(number, text.trim(), out),
        Err(_) => out.note(number, Cause::NotUtf8, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &[u8], piece: usize) -> Vec<(u64, String)> {
        let (mut lines, mut out, mut got) = (Lines::default(), Collector::default(), vec![]);
        let mut each = |line: u64, text: &str, _: &mut Collector| got.push((line, text.to_owned()));
        text.chunks(piece).for_each(|bytes| lines.push(bytes, &mut out, &mut each));
        lines.finish(&mut out, &mut each);
        got
    }

    #[test]
    fn pieces_of_any_size_give_the_same_lines() {
        let text = "one\r\n\n  \ntwo é\nthree".as_bytes();
        let expected: Vec<(u64, String)> = vec![(1, "one".into()), (4, "two é".into()), (5, "three".into())];
        for piece in 1..=text.len() {
            assert_eq!(split(text, piece), expected, "pieces of {piece}");
        }
        assert_eq!(split(b"", 1), []);
        assert_eq!(split(b"bad \xff\nfine\n", 3), [(2, "fine".into())]);
    }

    #[test]
    fn a_line_without_end_is_passed_over() {
        let mut text = vec![b'x'; LONGEST + 5];
        text.extend_from_slice(b"\nshort");
        assert_eq!(split(&text, 1 << 16), [(2, "short".into())]);
    }
}
