//! Numbers as a person says them: up to three significant digits and a unit.

/// Seconds in an hour and in a day.
const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// `350 ms`, `1.2 s`, `4 min 10 s`, `2 h 30 min`, `3 days 4 h`.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "no time".into();
    }
    let s = seconds.max(0.0);
    if s == 0.0 {
        "0 s".into()
    } else if s < 0.000_999_5 {
        format!("{} µs", three(s * 1e6))
    } else if s < 0.9995 {
        format!("{} ms", three(s * 1e3))
    } else if s < 99.95 {
        format!("{} s", three(s))
    } else {
        match libm::round(s) as u64 {
            whole if whole < HOUR => two((whole, "min", 60), "s", 1),
            whole if rounded(whole, 60) < 2 * DAY => two((rounded(whole, 60), "h", HOUR), "min", 60),
            whole => two((rounded(whole, HOUR), "days", DAY), "h", HOUR),
        }
    }
}

/// To the next multiple of `unit`.
fn rounded(whole: u64, unit: u64) -> u64 {
    whole.saturating_add(unit / 2) / unit * unit
}

/// `seconds` in two units, of which the second is left out when there is none of it.
fn two((seconds, unit, size): (u64, &str, u64), smaller: &str, smaller_size: u64) -> String {
    match (seconds / size, seconds % size / smaller_size) {
        (many, 0) => format!("{} {unit}", count(many)),
        (many, rest) => format!("{} {unit} {rest} {smaller}", count(many)),
    }
}

/// A count; from five digits on in groups of three, by a narrow space at which no line breaks.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    if digits.len() < 5 {
        return digits;
    }
    let mut out = String::with_capacity(2 * digits.len());
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// A count with what is counted: `1 replica`, `12 replicas`.
pub fn many(value: u64, one: &str) -> String {
    format!("{} {one}{}", count(value), if value == 1 { "" } else { "s" })
}

/// Money: `$0.42`, `$17`.
pub fn dollars(value: f64) -> String {
    if value < 10.0 { format!("${value:.2}") } else { format!("${}", count(libm::round(value) as u64)) }
}

/// `1st`, `2nd`, `13th`.
pub fn ordinal(value: usize) -> String {
    let ending = match (value % 10, value % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{value}{ending}")
}

/// Three significant digits at most: 1.02, 41.3, 350. A limit of a second is told from 1.02 s.
fn three(value: f64) -> String {
    let decimals = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Bytes in powers of ten: `41.3 MB`, `1.02 GB`.
pub fn bytes(count: u64) -> String {
    let (unit, size) = match count {
        0..1_000 => ("B", 1.0),
        1_000..1_000_000 => ("kB", 1e3),
        1_000_000..1_000_000_000 => ("MB", 1e6),
        1_000_000_000..1_000_000_000_000 => ("GB", 1e9),
        _ => ("TB", 1e12),
    };
    format!("{} {unit}", three(count as f64 / size))
}

/// `71 %`, `0.4 %`.
pub fn percent(share: f64) -> String {
    format!("{} %", digits(share * 100.0))
}

/// Two significant digits below 10, else whole: 0.42, 3.5, 12, 350.
pub fn digits(value: f64) -> String {
    let size = value.abs();
    if size >= 9.95 || size == 0.0 {
        format!("{value:.0}")
    } else if size >= 0.995 {
        let text = format!("{value:.1}");
        text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
    } else {
        let decimals = (1.0 - libm::floor(libm::log10(size))).clamp(1.0, 9.0) as usize;
        format!("{value:.decimals$}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_would_say_it_so() {
        for (seconds, words) in [
            (0.0, "0 s"),
            (0.000_012, "12 µs"),
            (0.0035, "3.5 ms"),
            (0.35, "350 ms"),
            (0.9996, "1 s"),
            (1.23, "1.23 s"),
            (1.02, "1.02 s"),
            (42.4, "42.4 s"),
            (120.0, "2 min"),
            (250.0, "4 min 10 s"),
            (3599.4, "59 min 59 s"),
            (3599.6, "1 h"),
            (9000.0, "2 h 30 min"),
            (540_370.0, "6 days 6 h"),
            (172_000.0, "47 h 47 min"),
            (172_799.0, "2 days"),
            (86_400e6, "1\u{202f}000\u{202f}000 days"),
            (f64::NAN, "no time"),
        ] {
            assert_eq!(duration(seconds), words);
        }
        for (value, words) in
            [(0, "0 B"), (999, "999 B"), (3072, "3.07 kB"), (41_300_000, "41.3 MB"), (1_020_000_000, "1.02 GB")]
        {
            assert_eq!(bytes(value), words);
        }
        for (value, words) in [(9999, "9999"), (25_786, "25\u{202f}786"), (1_234_567, "1\u{202f}234\u{202f}567")] {
            assert_eq!(count(value), words);
        }
        assert_eq!(
            [1, 2, 3, 4, 11, 12, 13, 21, 112].map(ordinal),
            ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th"]
        );
        assert!(!duration(1e300).is_empty(), "no overflow");
        assert_eq!([1, 2, 0].map(|n| many(n, "replica")), ["1 replica", "2 replicas", "0 replicas"]);
        assert_eq!(percent(0.7087), "71 %");
        assert_eq!(percent(0.0042), "0.42 %");
        assert_eq!(digits(0.049), "0.049");
    }
}
