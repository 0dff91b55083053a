//! Tables as text for other programs and other texts: CSV and the pipe tables of GitHub's Markdown. Command line and page write them with this.

use crate::csv;

/// A cell that may span others, as pages have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// What stands in it.
    pub text: String,
    /// What stands under that, smaller; empty when nothing does.
    pub note: String,
    /// Columns it spans; 0 counts as 1.
    pub columns: usize,
    /// Rows it spans; 0 counts as 1.
    pub rows: usize,
}

/// A table of text: one row of names, and rows of as many cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns and no rows.
    pub fn new(head: &[&str]) -> Self {
        Table { head: head.iter().map(|name| (*name).to_owned()).collect(), rows: Vec::new() }
    }

    /// One more row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table that `rows` are laid out as, of which the first `heads` name the columns. A column's name is what stands above it, the wider first. Notes get a column of their own
    /// behind that of their cells, so that numbers stay numbers.
    pub fn laid_out(heads: usize, rows: &[Vec<Cell>]) -> Self {
        let grid = grid(rows);
        let width = grid.iter().map(Vec::len).max().unwrap_or(0);
        let (names, body) = grid.split_at(heads.min(grid.len()));
        let noted = |column: usize| body.iter().any(|row| at(row, column).is_some_and(|cell| !cell.note.is_empty()));
        let mut table = Table::default();
        for column in 0..width {
            let mut name: Vec<&str> = Vec::new();
            for cell in names.iter().filter_map(|row| at(row, column)) {
                // A cell that spans rows is met in each of them.
                if !cell.text.is_empty() && name.last() != Some(&cell.text.as_str()) {
                    name.push(&cell.text);
                }
            }
            let name = name.join(" ");
            if noted(column) {
                table.head.push(name.clone());
                table.head.push(if name.is_empty() { "note".into() } else { format!("{name}, note") });
            } else {
                table.head.push(name);
            }
        }
        for row in body {
            let mut cells = Vec::with_capacity(table.head.len());
            for column in 0..width {
                let cell = at(row, column);
                cells.push(cell.map(|cell| cell.text.clone()).unwrap_or_default());
                if noted(column) {
                    cells.push(cell.map(|cell| cell.note.clone()).unwrap_or_default());
                }
            }
            table.rows.push(cells);
        }
        table
    }

    /// As CSV: cells in quotes where they need them, numbers without the thin spaces and the long minus that people read them with.
    pub fn to_csv(&self) -> String {
        let mut out = String::new();
        for row in std::iter::once(&self.head).chain(&self.rows) {
            let cells: Vec<String> = row.iter().map(|cell| csv::quoted(&plain(cell)).into_owned()).collect();
            out.push_str(&cells.join(","));
            out.push('\n');
        }
        out
    }

    /// As a pipe table: the first column aligned to the left, the others to the right.
    pub fn to_markdown(&self) -> String {
        let mut out = String::new();
        let line = |out: &mut String, row: &[String]| {
            out.push('|');
            for cell in row {
                out.push_str(&format!(" {} |", cell.replace('|', "\\|").replace('\n', " ")));
            }
            out.push('\n');
        };
        line(&mut out, &self.head);
        out.push('|');
        out.extend((0..self.head.len()).map(|at| if at == 0 { "---|" } else { "---:|" }));
        out.push('\n');
        self.rows.iter().for_each(|row| line(&mut out, row));
        out
    }
}

/// The cell at a place of a row of the grid.
fn at<'a>(row: &[Option<&'a Cell>], column: usize) -> Option<&'a Cell> {
    row.get(column).copied().flatten()
}

/// What stands at every place of the grid: a cell that spans places stands at all of them.
fn grid(rows: &[Vec<Cell>]) -> Vec<Vec<Option<&Cell>>> {
    let mut grid: Vec<Vec<Option<&Cell>>> = vec![Vec::new(); rows.len()];
    for (at, row) in rows.iter().enumerate() {
        let mut column = 0;
        for cell in row {
            while grid[at].get(column).is_some_and(Option::is_some) {
                column += 1;
            }
            let (wide, high) = (cell.columns.max(1), cell.rows.max(1));
            for line in grid.iter_mut().skip(at).take(high) {
                if line.len() < column + wide {
                    line.resize(column + wide, None);
                }
                line[column..column + wide].fill(Some(cell));
            }
            column += wide;
        }
    }
    grid
}

/// A cell as programs read it: narrow spaces within a number go, others become plain ones, and a minus is a minus.
fn plain(cell: &str) -> String {
    let chars: Vec<char> = cell.chars().collect();
    let digit = |at: Option<usize>| at.and_then(|at| chars.get(at)).is_some_and(char::is_ascii_digit);
    let mut out = String::with_capacity(cell.len());
    for (at, &c) in chars.iter().enumerate() {
        match c {
            '\u{202f}' | '\u{a0}' | '\u{2009}' if digit(at.checked_sub(1)) && digit(at.checked_add(1)) => {}
            '\u{202f}' | '\u{a0}' | '\u{2009}' => out.push(' '),
            '−' if digit(at.checked_add(1)) => out.push('-'),
            '–' if chars.len() == 1 => {}
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(text: &str, columns: usize, rows: usize) -> Cell {
        Cell { text: text.into(), note: String::new(), columns, rows }
    }

    fn noted(text: &str, note: &str) -> Cell {
        Cell { note: note.into(), ..cell(text, 1, 1) }
    }

    /// The table of results, in small: heads over two rows, a note under a number, a foot that spans.
    #[test]
    fn what_spans_is_read_as_people_read_it() {
        let rows = vec![
            vec![cell("Policy", 1, 2), cell("TTFT ms", 2, 1), cell("Reuse", 1, 2)],
            vec![cell("p50", 1, 1), cell("p95", 1, 1)],
            vec![
                cell("a", 1, 1),
                noted("−1\u{202f}204.5", "within noise"),
                cell("9", 0, 0),
                cell("23.5\u{202f}%", 1, 1),
            ],
            vec![cell("a|b, c", 1, 1), cell("–", 1, 1), cell("10", 1, 1), cell("", 1, 1)],
            vec![cell("Most", 1, 1), cell("", 2, 1), cell("99\u{202f}%", 1, 1)],
        ];
        let table = Table::laid_out(2, &rows);
        assert_eq!(
            table.to_csv(),
            "Policy,TTFT ms p50,\"TTFT ms p50, note\",TTFT ms p95,Reuse\n\
             a,-1204.5,within noise,9,23.5 %\n\
             \"a|b, c\",,,10,\n\
             Most,,,,99 %\n"
        );
        let markdown = table.to_markdown();
        assert!(
            markdown.starts_with(
                "| Policy | TTFT ms p50 | TTFT ms p50, note | TTFT ms p95 | Reuse |\n|---|---:|---:|---:|---:|\n"
            ),
            "{markdown}"
        );
        assert!(markdown.contains("| a\\|b, c | – |  | 10 |  |\n"), "{markdown}");
    }

    #[test]
    fn odd_tables_are_tables_too() {
        assert_eq!(Table::laid_out(1, &[]).to_csv(), "\n");
        let short = vec![vec![cell("a", 1, 1), cell("b", 1, 1)], vec![cell("1", 1, 1)], vec![cell("2", 5, 9)]];
        assert_eq!(Table::laid_out(1, &short).to_csv(), "a,b,,,\n1,,,,\n2,2,2,2,2\n");
        let mut table = Table::new(&["x"]);
        table.row(vec!["two\nlines".into()]);
        assert_eq!(table.to_markdown(), "| x |\n|---|\n| two lines |\n");
        assert_eq!(table.to_csv(), "x\n\"two\nlines\"\n");
    }
}
