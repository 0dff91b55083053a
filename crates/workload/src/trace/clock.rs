//! Wall-clock times as logs write them: `2023-11-16 18:15:46.6805900`, `2024-05-10T00:00:00.009930+00:00`, `…Z`.

/// Nanoseconds since 1970 of a date and time; without a zone it is taken as UTC, since only differences count. More than nine decimals are
/// cut. `None` when it is none.
pub(super) fn wall_clock(text: &str) -> Option<i64> {
    let text = text.trim();
    let (date, rest) = (text.get(..10)?, text.get(10..)?);
    let mut parts = date.split('-');
    let (year, month, day) = (number(parts.next()?, 4)?, number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    if !(1..=12).contains(&month) || day < 1 || day > days_of(year, month) || year < 1970 {
        return None;
    }
    let rest = rest.strip_prefix([' ', 'T', 't'])?;
    let (clock, zone) = match rest.find(['Z', 'z', '+', '-']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let mut parts = clock.trim_end().splitn(3, ':');
    let (hour, minute) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let seconds = parts.next().unwrap_or("00");
    let (whole, decimals) = seconds.split_once('.').unwrap_or((seconds, ""));
    let second = number(whole, 2)?;
    // 60: a leap second, told as the first of the next minute.
    if hour > 23 || minute > 59 || second > 60 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nanos = decimals.bytes().take(9).chain(std::iter::repeat(b'0')).take(9);
    let nanos = nanos.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    let offset = match zone {
        "" | "Z" | "z" => 0,
        zone => {
            let sign = if zone.starts_with('-') { -1 } else { 1 };
            let digits: String = zone.get(1..)?.chars().filter(|&c| c != ':').collect();
            let (hours, minutes) = (digits.get(..2)?, digits.get(2..).filter(|rest| !rest.is_empty()).unwrap_or("00"));
            sign * (number(hours, 2)? * 60 + number(minutes, 2)?)
        }
    };
    let minutes = (days_since_1970(year, month, day) * 24 + hour) * 60 + minute - offset;
    (minutes * 60 + second).checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// Exactly `digits` digits.
fn number(text: &str, digits: usize) -> Option<i64> {
    (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

fn leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Whole years, with a leap day for each leap year before, then whole months.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let leaps = |year: i64| year / 4 - year / 100 + year / 400;
    let years = (year - 1970) * 365 + leaps(year - 1) - leaps(1969);
    years + (1..month).map(|month| days_of(year, month)).sum::<i64>() + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds by `date -u -d … +%s`.
    #[test]
    fn times_are_those_of_another_program() {
        for (text, seconds, nanos) in [
            ("1970-01-01 00:00:00", 0, 0),
            ("2023-11-16 18:15:46.6805900", 1_700_158_546, 680_590_000),
            ("2024-05-10 00:00:00.009930+00:00", 1_715_299_200, 9_930_000),
            ("2024-02-29T23:59:59Z", 1_709_251_199, 0),
            ("2000-03-01T00:00:00.123456789999Z", 951_868_800, 123_456_789),
            ("2024-05-10T02:00:00+02:00", 1_715_299_200, 0),
            ("2024-05-09T19:30:00-0430", 1_715_299_200, 0),
            ("2100-03-01 12:34", 4_107_587_640, 0),
        ] {
            assert_eq!(wall_clock(text), Some(seconds * 1_000_000_000 + nanos), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "now",
            "2023-11-16",
            "2023-13-01 00:00:00",
            "2023-02-29 00:00:00",
            "2023-11-16 24:00:00",
            "16/11/2023 10:00:00",
            "2023-11-16 18:15:4x",
            "2023-11-16 18:15:46.x",
            "2023-11-16T18:15:46+0",
            "2023-11-16é18:15:46",
            "-023-11-16 18:15:46",
        ] {
            assert_eq!(wall_clock(text), None, "{text}");
        }
    }
}
