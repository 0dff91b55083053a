//! Plain text tables: first column to the left, the others to the right.

/// Lays out `rows` under `head`; short rows are padded with empty cells.
pub(crate) fn render(head: &[&str], rows: &[Vec<String>]) -> String {
    let cell = |row: &[String], column: usize| row.get(column).map_or(0, |text| text.chars().count());
    let widths: Vec<usize> = head
        .iter()
        .enumerate()
        .map(|(column, title)| rows.iter().map(|row| cell(row, column)).fold(title.chars().count(), usize::max))
        .collect();
    let head: Vec<String> = head.iter().map(|title| (*title).to_owned()).collect();
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let mut text = String::new();
    for row in [&head, &rule].into_iter().chain(rows) {
        let mut line = String::new();
        for (column, width) in widths.iter().enumerate() {
            let value = row.get(column).map_or("", String::as_str);
            let pad = " ".repeat(width - value.chars().count());
            let (before, after) = if column == 0 { ("", pad.as_str()) } else { (pad.as_str(), "") };
            line.push_str(if column == 0 { "" } else { "  " });
            line.extend([before, value, after]);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A duration as a person says it.
pub(crate) fn duration(time: std::time::Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    let whole = time.as_secs();
    format!("{} min {:02} s", whole / 60, whole % 60)
}

/// A size as a person says it, in powers of ten.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        _ => format!("{:.2} MB", count as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".to_owned(), "10".to_owned()], vec!["long µ".to_owned()]];
        assert_eq!(render(&["what", "n"], &rows), "what     n\n------  --\na       10\nlong µ\n");
    }

    #[test]
    fn amounts_read_like_speech() {
        assert_eq!(duration(Duration::from_millis(1_250)), "1.2 s");
        assert_eq!(duration(Duration::from_secs(250)), "4 min 10 s");
        assert_eq!((bytes(12), bytes(345_678), bytes(2_350_000)), ("12 B".into(), "345.7 kB".into(), "2.35 MB".into()));
    }
}
