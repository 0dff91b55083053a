//! What can be wrong with a file of requests, and with one row of it.

use servelab_spec::traffic::Remark;
use thiserror::Error;

/// A file that can not be read at all.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TraceError {
    /// Nothing in it.
    #[error("the file is empty; expected are lines of JSON or a CSV with a row of names")]
    Empty,
    /// Text of two bytes a character.
    #[error("the file is UTF-16; save it as UTF-8 (in most editors under Save with encoding)")]
    Utf16,
    /// Not text.
    #[error("this is {what}, not text; {advice}")]
    Binary {
        /// What it looks like.
        what: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// Damaged compression.
    #[error("the gzip data is damaged ({0}); unpack it with gunzip, which says where")]
    Gzip(String),
    /// Compressed so well that it can only be meant to fill the memory.
    #[error(
        "{packed} bytes unpacked to more than {unpacked} bytes and no end: refused; unpack it yourself if it is meant so"
    )]
    Bomb {
        /// Bytes read.
        packed: u64,
        /// Bytes they came to.
        unpacked: u64,
    },
    /// No format fits.
    #[error(
        "line {line}: {found:?} looks like none of the formats ({accepted}); name the format, or for a CSV its columns"
    )]
    Unknown {
        /// First line with something in it.
        line: u64,
        /// How it begins.
        found: String,
        /// Names of the formats.
        accepted: String,
    },
    /// A table whose columns nobody said the meaning of.
    #[error("line {line}: the columns {} do not say which is {missing}; name it: columns arrival=…,prompt=…,output=…", .columns.join(", "))]
    Columns {
        /// Line of the names.
        line: u64,
        /// The columns there are.
        columns: Vec<String>,
        /// The part that is missing.
        missing: &'static str,
    },
    /// A column that was named and is not there.
    #[error("line {line}: there is no column {column:?}; there are {}", .columns.join(", "))]
    NoColumn {
        /// Line of the names.
        line: u64,
        /// The column that was asked for.
        column: String,
        /// The columns there are.
        columns: Vec<String>,
    },
    /// One piece of the file is larger than any request could be.
    #[error("line {line}: {what} is longer than {limit} bytes; {advice}")]
    TooLong {
        /// Where it begins.
        line: u64,
        /// The piece.
        what: &'static str,
        /// Longest accepted.
        limit: usize,
        /// What to do.
        advice: &'static str,
    },
    /// A result file that lacks what a replay needs.
    #[error("line {line}: {found}; expected is {expected}")]
    Document {
        /// Where.
        line: u64,
        /// What is wrong.
        found: String,
        /// What is needed.
        expected: &'static str,
    },
    /// Not one request in all of it.
    #[error("no request could be read of {rows} rows; {}", .first.as_ref().map_or_else(|| "there is no row at all".to_owned(), said))]
    Nothing {
        /// Rows there were.
        rows: u64,
        /// The remark on most of them.
        first: Option<Remark>,
    },
}

/// A remark as a sentence.
pub fn said(remark: &Remark) -> String {
    let found = if remark.found.is_empty() { String::new() } else { format!(" ({:?})", remark.found) };
    format!("line {}: {}{found}; {}", remark.line, remark.what, remark.advice)
}

/// What is wrong with a row, or odd about it. A field is named where one is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// JSON that ends too soon.
    Cut,
    NotJson,
    NotUtf8,
    LineTooLong,
    Missing(&'static str),
    NotANumber(&'static str),
    NotKeys(&'static str),
    NotFinite(&'static str),
    Negative(&'static str),
    NotWhole(&'static str),
    NotATime(&'static str),
    TooFar,
    PromptTooLong,
    EmptyPrompt,
    NoOutput,
    Fields,
    OtherSpan,
    Failed,
    Full,
    /// From here on rows are read in spite of it.
    Backwards,
    FewKeys,
    ManyKeys,
    BlockSize,
    NoTimes,
}

/// Longest prompt or output that is read, tokens: the longest context that a spec can ask for.
pub(super) const MAX_TOKENS: u32 = 2_000_000;

/// Most requests that are kept.
pub(super) const MAX_ROWS: usize = 4_000_000;

/// Most distinct blocks that are kept.
pub(super) const MAX_BLOCKS: usize = 16_000_000;

/// Longest time between first and last request, nanoseconds: ten years, so that a clock of 64 bits has room for repetitions.
pub(super) const MAX_SPAN_NS: i64 = 315_360_000_000_000_000;

impl Cause {
    /// The row is left out.
    pub(super) fn skips(self) -> bool {
        self < Cause::Backwards
    }

    /// What it is, and what was expected or is to be done.
    pub(super) fn words(self) -> (String, String) {
        let (what, advice): (String, &str) = match self {
            Cause::Cut => (
                "the line ends in the middle of its JSON".into(),
                "expected is a whole object a line; the file may have been cut, or indented, which jq -c . undoes",
            ),
            Cause::NotJson => {
                ("the line is no JSON object".into(), "expected is one object a line, as jq -c . writes them")
            }
            Cause::NotUtf8 => ("the line is not UTF-8".into(), "save the file as UTF-8"),
            Cause::LineTooLong => (
                "the line is longer than 4 MiB".into(),
                "expected is one request a line; texts of prompts can be left out",
            ),
            Cause::Missing(field) => (format!("{field} is missing"), "every request needs it"),
            Cause::NotANumber(field) => {
                (format!("{field} is no number"), "expected is a number with a point for decimals")
            }
            Cause::NotKeys(field) => (
                format!("{field} is no list of whole numbers"),
                "expected is a key for each block of the prompt, in order",
            ),
            Cause::NotFinite(field) => (format!("{field} is not finite"), "expected is a number"),
            Cause::Negative(field) => (format!("{field} is negative"), "expected is 0 or more"),
            Cause::NotWhole(field) => (format!("{field} is no whole number"), "expected is a count of tokens"),
            Cause::NotATime(field) => {
                (format!("{field} is no time"), "expected is like 2023-11-16 18:15:46.6805900 or a number")
            }
            Cause::TooFar => (
                "the time is more than ten years from the first one, or beyond the year 2262".into(),
                "check the unit of times; of a table it is said so: columns unit=ms",
            ),
            Cause::PromptTooLong => (
                format!("more than {MAX_TOKENS} tokens"),
                "no engine setting reaches that; check what the column counts",
            ),
            Cause::EmptyPrompt => ("a prompt of 0 tokens".into(), "a request has at least one"),
            Cause::NoOutput => ("no output".into(), "such a request failed; nothing is known of its length"),
            Cause::Fields => {
                ("another number of fields than names".into(), "expected is one for each name; check quotes")
            }
            Cause::OtherSpan => (
                "a span that is no call of a model".into(),
                "expected are gen_ai.usage.input_tokens and output_tokens; other spans of a request are left out",
            ),
            Cause::Failed => ("a request that failed".into(), "its lengths mean nothing"),
            Cause::Full => (
                format!("more than {MAX_ROWS} requests or {MAX_BLOCKS} distinct blocks"),
                "what is beyond is left out; cut the file to see its end",
            ),
            Cause::Backwards => ("earlier than the row before".into(), "rows were put in order of time"),
            Cause::FewKeys => {
                ("fewer keys than the prompt has blocks".into(), "the rest of the prompt is taken to be its own")
            }
            Cause::ManyKeys => ("more keys than the prompt has blocks".into(), "those beyond it were left out"),
            Cause::BlockSize => (
                "keys suit another block size than is usual in this format".into(),
                "that size was taken; say another if it is wrong",
            ),
            Cause::NoTimes => (
                "the result has no start times".into(),
                "requests were spread evenly over its duration; newer versions of the benchmark save start_times",
            ),
        };
        (what, advice.into())
    }
}
