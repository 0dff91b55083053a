//! [`Reader`]: bytes in, a trace out.
//!
//! It is fed pieces of any size and asks for nothing, so a browser's worker, a terminal and a test feed it alike. What it holds of a file is the
//! beginning by which the format is recognised (64 KiB), the line or record begun (4 MiB at most), and the requests themselves.

use super::collector::Collector;
use super::formats::{self, Parser};
use super::inflate::Gunzip;
use super::problem::TraceError;
use super::sniff::{self, HEAD};
use super::{Trace, TraceFormat};
use servelab_spec::traffic::{ColumnMap, Remark};

/// What is known of a file from elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Its format; recognised when absent.
    pub format: Option<TraceFormat>,
    /// Its columns, for [`TraceFormat::Columns`]; by their names when absent.
    pub columns: Option<ColumnMap>,
    /// Tokens of a block that a key stands for; by the format when absent.
    pub block_tokens: Option<u32>,
}

/// What came of a file.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The requests.
    pub trace: Trace,
    /// What was odd, and what was left out, in the order of lines.
    pub remarks: Vec<Remark>,
    /// Rows there were, kept or not.
    pub rows: u64,
    /// Bytes there were.
    pub bytes: u64,
    /// Names of the columns, of a table.
    pub columns: Vec<String>,
    /// What each column was taken for, of a table that is none of the known ones.
    pub map: Option<ColumnMap>,
}

/// A file being read.
pub struct Reader {
    stage: Stage,
    bytes: u64,
    failed: Option<TraceError>,
}

enum Stage {
    /// Too little to tell whether it is compressed.
    Begin(Vec<u8>, Box<ReadOptions>),
    Plain(Box<Body>),
    Gzip(Box<Gunzip>),
}

/// What follows unpacking.
pub(super) struct Body {
    options: ReadOptions,
    /// The beginning, until it is long enough to recognise the format by.
    head: Vec<u8>,
    parser: Option<Parser>,
    out: Collector,
}

impl Reader {
    /// A file at its beginning.
    pub fn new(options: ReadOptions) -> Self {
        Reader { stage: Stage::Begin(vec![], Box::new(options)), bytes: 0, failed: None }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// When the file can not be read; then every further call says the same.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.bytes += bytes.len() as u64;
        let result = self.take(bytes);
        if let Err(error) = &result {
            self.failed = Some(error.clone());
        }
        result
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        match &mut self.stage {
            Stage::Begin(held, options) => {
                held.extend_from_slice(bytes);
                if held.len() < sniff::GZIP.len() {
                    return Ok(());
                }
                let (held, options) = (std::mem::take(held), std::mem::take(options));
                let body = Body::new(*options);
                if held.starts_with(&sniff::GZIP) {
                    let mut gunzip = Box::new(Gunzip::new(body));
                    let result = gunzip.push(&held);
                    self.stage = Stage::Gzip(gunzip);
                    return result;
                }
                let mut body = Box::new(body);
                let result = body.push(&held);
                self.stage = Stage::Plain(body);
                result
            }
            Stage::Plain(body) => body.push(bytes),
            Stage::Gzip(gunzip) => gunzip.push(bytes),
        }
    }

    /// Bytes taken so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Requests kept so far.
    pub fn requests(&self) -> usize {
        match &self.stage {
            Stage::Begin(..) => 0,
            Stage::Plain(body) => body.out.len(),
            Stage::Gzip(gunzip) => gunzip.body().out.len(),
        }
    }

    /// The file has ended.
    ///
    /// # Errors
    /// When it can not be read, or holds no request.
    pub fn finish(self) -> Result<Reading, TraceError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let mut body = match self.stage {
            Stage::Begin(held, options) => {
                let mut body = Body::new(*options);
                body.push(&held)?;
                body
            }
            Stage::Plain(body) => *body,
            Stage::Gzip(gunzip) => gunzip.finish()?,
        };
        body.recognise()?;
        let Some(parser) = body.parser else { return Err(TraceError::Empty) };
        let (columns, map) = parser.finish(&mut body.out)?;
        let (trace, remarks, rows) = body.out.done()?;
        Ok(Reading { trace, remarks, rows, bytes: self.bytes, columns, map })
    }
}

impl Body {
    fn new(options: ReadOptions) -> Self {
        Body { options, head: vec![], parser: None, out: Collector::default() }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        if let Some(parser) = &mut self.parser {
            return parser.push(bytes, &mut self.out);
        }
        self.head.extend_from_slice(bytes);
        if self.head.len() < HEAD { Ok(()) } else { self.recognise() }
    }

    /// Chooses the parser by the beginning, and gives it that.
    fn recognise(&mut self) -> Result<(), TraceError> {
        if self.parser.is_some() {
            return Ok(());
        }
        let head = std::mem::take(&mut self.head);
        let text = sniff::text(&head)?;
        let format = match self.options.format {
            Some(format) => format,
            // Whoever says what columns mean says that it is a table.
            None if self.options.columns.is_some() => TraceFormat::Columns,
            None => sniff::format(text)?,
        };
        self.out.begin(format, self.options.block_tokens);
        let mut parser = formats::parser(format, text, self.options.columns.take());
        parser.push(text, &mut self.out)?;
        self.parser = Some(parser);
        Ok(())
    }
}
