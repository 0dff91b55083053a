//! Axes: units that fit the values, and ticks at round numbers.

/// What an axis counts. Values come in the base unit and are shown scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds, shown as they are.
    Seconds,
    /// Seconds, shown as milliseconds.
    Millis,
    /// Seconds, shown as microseconds.
    Micros,
    /// A share, shown in per cent.
    Percent,
    /// A count.
    Count,
}

impl Unit {
    /// The unit in which durations up to `max` seconds read best.
    pub fn of_duration(max: f64) -> Unit {
        if max >= 1.0 {
            Unit::Seconds
        } else if max >= 0.001 {
            Unit::Millis
        } else {
            Unit::Micros
        }
    }

    /// Shown value of 1 in the base unit.
    pub fn scale(self) -> f64 {
        match self {
            Unit::Seconds | Unit::Count => 1.0,
            Unit::Millis => 1e3,
            Unit::Micros => 1e6,
            Unit::Percent => 100.0,
        }
    }

    /// The unit as written after a name; empty for a count.
    pub fn word(self) -> &'static str {
        match self {
            Unit::Seconds => "s",
            Unit::Millis => "ms",
            Unit::Micros => "µs",
            Unit::Percent => "%",
            Unit::Count => "",
        }
    }

    /// `name (unit)`.
    pub fn label(self, name: &str) -> String {
        if self.word().is_empty() { name.to_owned() } else { format!("{name} ({})", self.word()) }
    }
}

/// Round numbers covering `low..=high`, at most `most` of them, 1, 2 or 5 times a power of ten apart.
pub fn ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let span = high - low;
    if !(span.is_finite() && span > 0.0) || most == 0 {
        return vec![];
    }
    let step = step(span / most as f64);
    let (first, last) = (libm::ceil(low / step - 1e-9), libm::floor(high / step + 1e-9));
    let count = (last - first).clamp(-1.0, 2.0 * most as f64) as i64;
    (0..=count).map(|i| (first + i as f64) * step).collect()
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `at_least`.
fn step(at_least: f64) -> f64 {
    let power = libm::pow(10.0, libm::floor(libm::log10(at_least)));
    let candidates = [1.0, 2.0, 5.0, 10.0];
    let fits = candidates.iter().find(|&&c| c * power >= at_least * (1.0 - 1e-9));
    fits.copied().unwrap_or(10.0) * power
}

/// Round numbers on a logarithmic axis over `low..=high`, both above zero: 1, 2 and 5 times each power of ten, or the powers alone when these are more
/// than `most`; [`ticks`] where that leaves fewer than two.
pub fn log_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    if !(low > 0.0 && high > low && high.is_finite()) {
        return vec![];
    }
    let (first, last) = (libm::floor(libm::log10(low)) as i32, libm::ceil(libm::log10(high)) as i32);
    let among = |factors: &[f64]| -> Vec<f64> {
        let all = (first..=last).flat_map(|power| factors.iter().map(move |f| f * libm::pow(10.0, f64::from(power))));
        all.filter(|tick| (low * (1.0 - 1e-9)..=high * (1.0 + 1e-9)).contains(tick)).collect()
    };
    let fine = among(&[1.0, 2.0, 5.0]);
    let coarse = if fine.len() > most { among(&[1.0]) } else { fine };
    if coarse.len() < 2 { ticks(low, high, most) } else { coarse }
}

/// A tick's text, with as many decimals as the distance between ticks needs; a tick alone has those of its own.
pub fn tick_text(value: f64, ticks: &[f64]) -> String {
    let text = match ticks {
        [first, second, ..] => {
            let gap = (second - first).max(1e-12);
            let decimals = (-libm::floor(libm::log10(gap) + 1e-9)).clamp(0.0, 12.0) as usize;
            format!("{value:.decimals$}")
        }
        _ => {
            let text = format!("{value:.9}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    };
    if text.trim_start_matches('-').chars().all(|c| c == '0' || c == '.') { "0".into() } else { text }
}

/// Values as an axis says them: what is no whole number with three figures at most, unless two of them would read alike.
pub fn value_texts(values: &[f64]) -> Vec<String> {
    let short = |&value: &f64| match value {
        whole if whole.fract() == 0.0 => whole.to_string(),
        value => {
            let decimals = (2.0 - libm::floor(libm::log10(value.abs()))).clamp(0.0, 12.0) as usize;
            let text = format!("{value:.decimals$}");
            if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
        }
    };
    let texts: Vec<String> = values.iter().map(short).collect();
    let alike = texts.iter().enumerate().any(|(at, text)| texts[..at].contains(text));
    if alike { values.iter().map(f64::to_string).collect() } else { texts }
}

/// The end of an axis that starts at zero: the next round number above `max`.
pub fn round_up(max: f64, most: usize) -> f64 {
    if !(max.is_finite() && max > 0.0) {
        return 1.0;
    }
    let step = step(max / most as f64);
    libm::ceil(max / step - 1e-9) * step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_between_the_ends_of_a_range_are_said_short() {
        assert_eq!(value_texts(&[0.1, 0.257143, 0.414286, 1.2]), ["0.1", "0.257", "0.414", "1.2"]);
        assert_eq!(value_texts(&[1024.0, 1536.5, 12.3456]), ["1024", "1536", "12.3"], "whole numbers stay");
        assert_eq!(value_texts(&[0.2571, 0.2572]), ["0.2571", "0.2572"], "they would read alike");
    }
}
