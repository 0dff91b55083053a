//! Numbers as a person says them: up to three significant digits and a unit.

/// `350 ms`, `1.2 s`, `4 min 10 s`.
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
        let whole = libm::round(s) as u64;
        match (whole / 60, whole % 60) {
            (minutes, 0) => format!("{minutes} min"),
            (minutes, rest) => format!("{minutes} min {rest} s"),
        }
    }
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
            (f64::NAN, "no time"),
        ] {
            assert_eq!(duration(seconds), words);
        }
        assert_eq!(percent(0.7087), "71 %");
        assert_eq!(percent(0.0042), "0.42 %");
        assert_eq!(digits(0.049), "0.049");
    }
}
