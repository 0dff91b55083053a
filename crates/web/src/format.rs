//! Numbers and durations as a person says them, with the decimal mark and the grouping of the visitor's locale.

use std::cell::Cell;

/// Narrow no-break space: stands before units, and groups digits unless the visitor's locale has something else for that.
const THIN: char = '\u{202f}';

/// What stands between whole and fraction, and between groups of three digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// The decimal mark.
    pub decimal: char,
    /// Between groups of digits.
    pub group: char,
}

/// As the lab writes, and the page where no locale says otherwise.
pub const PLAIN: Marks = Marks { decimal: '.', group: THIN };

thread_local! {
    static MARKS: Cell<Marks> = const { Cell::new(PLAIN) };
}

/// From now on numbers are written with these.
pub fn write_with(marks: Marks) {
    MARKS.set(marks);
}

/// A number with so many decimals.
pub fn fixed(value: f64, decimals: usize) -> String {
    decimal(format!("{value:.decimals$}"))
}

fn decimal(text: String) -> String {
    match MARKS.get().decimal {
        '.' => text,
        mark => text.replace('.', &mark.to_string()),
    }
}

/// A sentence of the lab's, its numbers as the visitor's locale writes them and on one line with their units. What has a letter before it or a second
/// point is a name or a version, and stays.
pub fn local(words: &str) -> String {
    bound(&rewritten(words, PLAIN, MARKS.get()))
}

/// Units that prose says with a number.
const UNITS: [&str; 11] = ["µs", "ms", "s", "min", "h", "%", "×", "kB", "MB", "GB", "tokens/s"];

/// No line breaks between a number and its unit.
fn bound(words: &str) -> String {
    let mut out = String::with_capacity(words.len());
    let mut parts = words.split(' ').peekable();
    while let Some(part) = parts.next() {
        out.push_str(part);
        let Some(next) = parts.peek() else { break };
        let unit = next.trim_end_matches(|c: char| c.is_ascii_punctuation() && c != '%');
        let binds = part.ends_with(|c: char| c.is_ascii_digit()) && UNITS.contains(&unit);
        out.push(if binds { THIN } else { ' ' });
    }
    out
}

/// What [`local`] and the other functions here wrote, as the lab writes it.
pub fn neutral(words: &str) -> String {
    rewritten(words, MARKS.get(), PLAIN)
}

fn rewritten(words: &str, from: Marks, to: Marks) -> String {
    if from == to {
        return words.to_owned();
    }
    let chars: Vec<char> = words.chars().collect();
    let (mut out, mut at) = (String::with_capacity(words.len()), 0);
    let mut name = false;
    while let Some(&c) = chars.get(at) {
        if name || !c.is_ascii_digit() {
            name = c.is_alphanumeric() || c == '_';
            out.push(c);
            at += 1;
            continue;
        }
        // A number goes on through marks that stand between digits.
        let within = |at: usize| chars.get(at + 1).is_some_and(char::is_ascii_digit);
        let mut end = at + 1;
        while chars
            .get(end)
            .is_some_and(|c| c.is_ascii_digit() || (*c == from.decimal || *c == from.group) && within(end))
        {
            end += 1;
        }
        let number = &chars[at..end];
        let points = number.iter().filter(|c| **c == from.decimal).count();
        name = chars.get(end).is_some_and(|c| c.is_alphanumeric() || *c == '_');
        out.extend(number.iter().map(|c| match c {
            _ if points > 1 || name => *c,
            c if *c == from.decimal => to.decimal,
            c if *c == from.group => to.group,
            c => *c,
        }));
        at = end;
    }
    out
}

/// A whole number, digits in groups of three: `10 476`.
pub fn whole(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3 * THIN.len_utf8());
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(MARKS.get().group);
        }
        out.push(digit);
    }
    out
}

/// Three significant digits at most, without an exponent: `0.0123`, `1.23`, `123`, `12 300`.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    let size = value.abs();
    if size >= 1000.0 {
        let text = whole(size.round() as u64);
        return if value < 0.0 { format!("−{text}") } else { text };
    }
    let decimals = if size >= 100.0 || size == 0.0 {
        0
    } else if size >= 10.0 {
        1
    } else if size >= 1.0 {
        2
    } else {
        // 0.0123 has its first digit in the second place and shows two more.
        (2 - size.log10().floor() as i32).clamp(2, 8) as usize
    };
    trim(format!("{value:.decimals$}"))
}

fn trim(text: String) -> String {
    if !text.contains('.') {
        return text;
    }
    decimal(text.trim_end_matches('0').trim_end_matches('.').to_owned())
}

/// A share as a percentage: `23.5 %`.
pub fn percent(share: f64) -> String {
    if !share.is_finite() {
        return "–".into();
    }
    let value = share * 100.0;
    let text = fixed(value, if value.abs() >= 99.95 || value == 0.0 { 0 } else { 1 });
    format!("{text}{THIN}%")
}

/// A duration as a person says it: `350 ms`, `1.24 s`, `4 min 10 s`.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "–".into();
    }
    let size = seconds.abs();
    if size == 0.0 {
        format!("0{THIN}s")
    } else if size < 1e-3 {
        format!("{}{THIN}µs", number(seconds * 1e6))
    } else if size < 0.9995 {
        format!("{}{THIN}ms", number(seconds * 1e3))
    } else if size < 59.95 {
        format!("{}{THIN}s", number(seconds))
    } else {
        let total = size.round() as u64;
        let (hours, minutes, rest) = (total / 3600, total / 60 % 60, total % 60);
        if hours > 0 {
            format!("{hours}{THIN}h {minutes}{THIN}min")
        } else {
            format!("{minutes}{THIN}min {rest}{THIN}s")
        }
    }
}

/// An instant on the virtual clock, of constant width while it runs: `12.345 s`.
pub fn clock(seconds: f64) -> String {
    format!("{}{THIN}s", fixed(seconds, if seconds < 100.0 { 3 } else { 1 }))
}

/// The unit that a column of durations is written in, by its largest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds.
    Micro,
    /// Milliseconds.
    Milli,
    /// Seconds.
    Second,
}

impl Unit {
    /// The unit that suits a column.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Unit {
        let largest = values.into_iter().fold(0.0, f64::max);
        // Seconds only when milliseconds would be five digits: two decimals of a second hide what sentences say in ms.
        if largest >= 10.0 {
            Unit::Second
        } else if largest >= 1e-3 {
            Unit::Milli
        } else {
            Unit::Micro
        }
    }

    /// Its symbol.
    pub fn symbol(self) -> &'static str {
        match self {
            Unit::Micro => "µs",
            Unit::Milli => "ms",
            Unit::Second => "s",
        }
    }

    /// A value in it with fixed decimals, so that a column aligns on the point.
    pub fn show(self, seconds: f64) -> String {
        match self {
            Unit::Micro => fixed(seconds * 1e6, 1),
            Unit::Milli => fixed(seconds * 1e3, 1),
            Unit::Second => fixed(seconds, 2),
        }
    }
}

/// Bytes as `310 kB`, `2.4 MB` or `3.1 GB`.
pub fn bytes(count: f64) -> String {
    if count < 1e6 {
        format!("{:.0}{THIN}kB", count / 1e3)
    } else if count < 1e9 {
        format!("{}{THIN}MB", fixed(count / 1e6, 1))
    } else {
        format!("{}{THIN}GB", fixed(count / 1e9, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: String) -> String {
        text.replace(THIN, " ")
    }

    #[test]
    fn numbers_read_as_written_by_hand() {
        let cases = [
            (0.0, "0"),
            (0.0123, "0.0123"),
            (0.5, "0.5"),
            (1.0, "1"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (123.4, "123"),
            (12_300.0, "12 300"),
            (f64::NAN, "–"),
        ];
        for (value, text) in cases {
            assert_eq!(plain(number(value)), text);
        }
        assert_eq!(plain(whole(2_464)), "2 464");
        assert_eq!(plain(whole(1_234_567)), "1 234 567");
        assert_eq!(plain(whole(7)), "7");
    }

    #[test]
    fn durations_change_unit_where_people_do() {
        let cases = [
            (0.0, "0 s"),
            (4.2e-5, "42 µs"),
            (0.35, "350 ms"),
            (0.9996, "1 s"),
            (1.24, "1.24 s"),
            (250.0, "4 min 10 s"),
            (7_320.0, "2 h 2 min"),
        ];
        for (value, text) in cases {
            assert_eq!(plain(duration(value)), text);
        }
    }

    #[test]
    fn shares_and_columns() {
        assert_eq!(plain(percent(0.2352)), "23.5 %");
        assert_eq!(plain(percent(1.0)), "100 %");
        assert_eq!(Unit::of([0.2, 0.04]), Unit::Milli);
        assert_eq!(Unit::of([1.2, 0.04]).show(0.04), "40.0");
        assert_eq!(Unit::of([12.0, 0.04]).show(1.25), "1.25");
        assert_eq!(plain(bytes(310_400.0)), "310 kB");
        assert_eq!(plain(bytes(3_140_000_000.0)), "3.1 GB");
    }

    /// Each test has a thread, and with it marks of its own.
    #[test]
    fn numbers_are_written_as_the_locale_writes_them() {
        write_with(Marks { decimal: ',', group: '.' });
        assert_eq!([whole(1_234_567), number(0.0123), number(-12_300.4)], ["1.234.567", "0,0123", "−12.300"]);
        assert_eq!(
            [plain(duration(1.24)), plain(percent(0.2352)), Unit::Second.show(1.25)],
            ["1,24 s", "23,5 %", "1,25"]
        );
        let said = "Half within 1.24\u{202f}s, 10\u{202f}476 tokens (0.5), v1.5 of 1.2.3; p95 at 3.";
        let local = local(said);
        assert_eq!(plain(local.clone()), "Half within 1,24 s, 10.476 tokens (0,5), v1.5 of 1.2.3; p95 at 3.");
        // The way back, but for what another locale's marks make of versions.
        let cells = ["10.476", "0,35", "350\u{202f}ms", "−1,5", "2.464 / 10.476"];
        assert_eq!(cells.map(|cell| plain(neutral(cell))), ["10 476", "0.35", "350 ms", "−1.5", "2 464 / 10 476"]);
        write_with(PLAIN);
        let kept = "After 4\u{202f}min 10\u{202f}s (95\u{202f}%), 3 servers in 2\u{202f}h.";
        assert_eq!(super::local("After 4 min 10 s (95 %), 3 servers in 2 h."), kept);
        assert_eq!(super::local(said), said);
    }
}
