//! Text tables: names to the left, numbers to the right.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Tables are written in Markdown: one program prints in one format.
static MARKDOWN: AtomicBool = AtomicBool::new(false);

/// From now on tables are written as pipe tables.
pub(crate) fn in_markdown() {
    MARKDOWN.store(true, Ordering::Relaxed);
}

pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// Columns from here on are aligned to the right.
    numbers_from: usize,
    /// Longer names in the first column go on below.
    longest_name: usize,
}

impl Table {
    /// A table of names and numbers.
    pub(crate) fn new(head: &[&str]) -> Self {
        Table {
            rows: vec![head.iter().map(|cell| (*cell).to_owned()).collect()],
            numbers_from: 1,
            longest_name: usize::MAX,
        }
    }

    /// The same table, longer names in its first column going on in lines below.
    pub(crate) fn names_within(self, columns: usize) -> Self {
        Table { longest_name: columns, ..self }
    }

    /// A table whose first `names` columns are names.
    pub(crate) fn with_names(names: usize, head: &[&str]) -> Self {
        Table { numbers_from: names, ..Table::new(head) }
    }

    /// A table of words.
    pub(crate) fn of_words(head: &[&str]) -> Self {
        Table { numbers_from: usize::MAX, ..Table::new(head) }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        if MARKDOWN.load(Ordering::Relaxed) {
            return self.write_pipes(out);
        }
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let rows: Vec<Vec<String>> = self.rows.iter().flat_map(|row| self.folded(row)).collect();
        let width = |column: usize| {
            rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (index, row) in rows.iter().enumerate() {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[column] - cell.chars().count());
                let gap = if column == 0 { "" } else { "  " };
                let cell = if column < self.numbers_from { format!("{cell}{pad}") } else { format!("{pad}{cell}") };
                line.push_str(gap);
                line.push_str(&cell);
            }
            writeln!(out, "{}", line.trim_end())?;
            if index == 0 {
                let rule = widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1);
                writeln!(out, "{}", "─".repeat(rule.min(160)))?;
            }
        }
        Ok(())
    }

    /// A row, and below it what of its name does not fit, set in by two blanks.
    fn folded(&self, row: &[String]) -> Vec<Vec<String>> {
        let Some((name, cells)) = row.split_first() else { return vec![row.to_vec()] };
        let mut lines: Vec<String> = vec![String::new()];
        for word in name.split(' ') {
            let line = lines.len() - 1;
            let used = lines[line].chars().count();
            if used > 2 && used + 1 + word.chars().count() > self.longest_name {
                lines.push(format!("  {word}"));
            } else {
                let gap = if used == 0 || lines[line].ends_with("  ") { "" } else { " " };
                lines[line] = format!("{}{gap}{word}", lines[line]);
            }
        }
        let mut rows: Vec<Vec<String>> = lines.into_iter().map(|line| vec![line]).collect();
        rows[0].extend(cells.iter().cloned());
        rows
    }

    fn write_pipes(&self, out: &mut impl Write) -> io::Result<()> {
        for (index, row) in self.rows.iter().enumerate() {
            let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
            writeln!(out, "| {} |", cells.join(" | "))?;
            if index == 0 {
                let align = |column| if column < self.numbers_from { "---|" } else { "---:|" };
                writeln!(out, "|{}", (0..row.len()).map(align).collect::<String>())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn long_names_go_on_below_and_short_ones_stay() {
        let mut table = Table::new(&["policy", "good"]).names_within(12);
        table.row(vec!["Short".into(), "1".into()]);
        table.row(vec!["Retries at once (attempts 3)".into(), "23".into()]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2..], ["Short           1", "Retries at     23", "  once", "  (attempts", "  3)"], "{text}");
    }
}
