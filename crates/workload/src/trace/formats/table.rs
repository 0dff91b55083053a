//! CSV: records out of pieces. Fields are split by `csv-core`; what a column means is for a [`Layout`] to say.

use super::super::collector::Collector;
use super::super::problem::{Cause, TraceError};
use super::tokens;
use csv_core::{ReadRecordResult, ReaderBuilder};
use servelab_spec::traffic::ColumnMap;

/// Longest record that is read. A quote that is never closed swallows the rest of a file.
const LONGEST: usize = 1 << 20;

/// Most columns.
const MOST_COLUMNS: usize = 4096;

/// What the columns of a table mean.
pub(in super::super) trait Layout {
    /// The row of names, in line `line`.
    fn names(&mut self, line: u64, names: &[String]) -> Result<(), TraceError>;
    /// A record with as many fields as there are names.
    fn record(&mut self, line: u64, fields: &[&str], out: &mut Collector) -> Result<(), Cause>;
    /// What each column was taken for, where that was a choice.
    fn map(&self) -> Option<ColumnMap> {
        None
    }
}

/// A table being read.
pub(in super::super) struct Table {
    reader: csv_core::Reader,
    layout: Box<dyn Layout>,
    names: Vec<String>,
    /// The record begun: its bytes, where its fields end, and how much of either is filled.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    filled: (usize, usize),
    /// Line ends taken.
    lines: u64,
    /// The last byte taken was a carriage return, whose line end a line feed would only complete.
    returned: bool,
    /// Line in which the record begun begins.
    begin: Option<u64>,
}

impl Table {
    /// A table that begins like this: its fields are separated by whatever stands most often in its first line.
    pub(super) fn new(head: &[u8], layout: Box<dyn Layout>) -> Self {
        let first = head.split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
        let count = |wanted: u8| first.iter().filter(|&&byte| byte == wanted).count();
        let delimiter = [b';', b'\t', b','].into_iter().max_by_key(|&byte| count(byte)).unwrap_or(b',');
        Table {
            reader: ReaderBuilder::new().delimiter(delimiter).build(),
            layout,
            names: vec![],
            bytes: vec![0; 1024],
            ends: vec![0; 32],
            filled: (0, 0),
            lines: 0,
            returned: false,
            begin: None,
        }
    }

    pub(super) fn push(&mut self, mut bytes: &[u8], out: &mut Collector) -> Result<(), TraceError> {
        while !bytes.is_empty() {
            let taken = self.step(bytes, out)?;
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    pub(super) fn finish(mut self, out: &mut Collector) -> Result<(Vec<String>, Option<ColumnMap>), TraceError> {
        // Twice: the last record need not end in a line end, and then the table has to.
        self.step(&[], out)?;
        self.step(&[], out)?;
        Ok((self.names, self.layout.map()))
    }

    /// One call of the splitter; how many bytes it took.
    fn step(&mut self, input: &[u8], out: &mut Collector) -> Result<usize, TraceError> {
        let (at, fields) = self.filled;
        let (result, taken, written, ended) =
            self.reader.read_record(input, &mut self.bytes[at..], &mut self.ends[fields..]);
        if self.begin.is_none() && written + ended > 0 {
            // Line ends that stood before this record's first byte: empty lines, and the second half of a line end.
            let before =
                input.iter().take_while(|byte| byte.is_ascii_whitespace() && **byte != b'\t' && **byte != b' ');
            self.begin = Some(1 + self.lines + ends_in(self.returned, &input[..before.count().min(taken)]));
        }
        self.lines += ends_in(self.returned, &input[..taken]);
        if let Some(&last) = input[..taken].last() {
            self.returned = last == b'\r';
        }
        self.filled = (at + written, fields + ended);
        let line = self.begin.unwrap_or(self.lines + 1);
        match result {
            ReadRecordResult::OutputFull => {
                if self.bytes.len() >= LONGEST {
                    let advice = "look for a quote that is never closed";
                    return Err(TraceError::TooLong { line, what: "a record", limit: LONGEST, advice });
                }
                self.bytes.resize(2 * self.bytes.len(), 0);
            }
            ReadRecordResult::OutputEndsFull => {
                if self.ends.len() >= MOST_COLUMNS {
                    let advice = "expected is a table with a few columns";
                    return Err(TraceError::TooLong { line, what: "a row of fields", limit: MOST_COLUMNS, advice });
                }
                self.ends.resize(2 * self.ends.len(), 0);
            }
            ReadRecordResult::Record => {
                self.begin = None;
                let filled = std::mem::take(&mut self.filled);
                self.record(line, filled.1, out)?;
            }
            ReadRecordResult::InputEmpty | ReadRecordResult::End => {}
        }
        Ok(taken)
    }

    fn record(&mut self, line: u64, fields: usize, out: &mut Collector) -> Result<(), TraceError> {
        let mut begin = 0;
        let mut texts: Vec<&str> = Vec::with_capacity(fields);
        for &end in &self.ends[..fields] {
            let Ok(text) = std::str::from_utf8(&self.bytes[begin..end]) else {
                out.note(line, Cause::NotUtf8, "");
                return Ok(());
            };
            texts.push(text.trim());
            begin = end;
        }
        if texts.iter().all(|text| text.is_empty()) {
            return Ok(());
        }
        if self.names.is_empty() {
            self.names = texts.iter().map(|text| text.chars().take(100).collect()).collect();
            return self.layout.names(line, &self.names);
        }
        if texts.len() != self.names.len() {
            out.note(line, Cause::Fields, &texts.join(","));
            return Ok(());
        }
        if let Err(cause) = self.layout.record(line, &texts, out) {
            out.note(line, cause, &texts.join(","));
        }
        Ok(())
    }
}

/// Line ends in these bytes: line feeds, carriage returns, and both together, which count when the first half comes. `returned`: a carriage return stood
/// before them.
fn ends_in(returned: bool, bytes: &[u8]) -> u64 {
    let mut before = returned;
    let ends = bytes.iter().filter(|&&byte| {
        let completes = before && byte == b'\n';
        before = byte == b'\r';
        before || (byte == b'\n' && !completes)
    });
    ends.count() as u64
}

/// Where the column `wanted` stands, whatever the case of its letters.
pub(super) fn place(names: &[String], wanted: &str) -> Option<usize> {
    names.iter().position(|name| name.eq_ignore_ascii_case(wanted))
}

/// The same for a column that must be there.
pub(super) fn needed(line: u64, names: &[String], wanted: &str) -> Result<usize, TraceError> {
    place(names, wanted).ok_or_else(|| TraceError::NoColumn { line, column: wanted.into(), columns: names.to_vec() })
}

/// The number that a field is.
pub(super) fn number(field: &'static str, text: &str) -> Result<f64, Cause> {
    if text.is_empty() {
        return Err(Cause::Missing(field));
    }
    text.parse().map_err(|_| Cause::NotANumber(field))
}

/// The count of tokens that a field is.
pub(super) fn count(field: &'static str, text: &str) -> Result<u32, Cause> {
    tokens(field, number(field, text)?)
}
