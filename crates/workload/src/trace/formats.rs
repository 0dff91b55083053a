//! One file for each format. A format knows its fields and nothing of files: lines and records come to it one by one.

mod azure;
mod burst_gpt;
mod columns;
mod json;
mod mooncake;
mod otel;
mod qwen;
mod table;
mod vllm_bench;

use super::TraceFormat;
use super::collector::Collector;
use super::lines::Lines;
use super::problem::{Cause, MAX_TOKENS, TraceError};
use servelab_spec::traffic::ColumnMap;
use table::{Layout, Table};

/// A format of one JSON object a line.
pub(super) trait LineFormat {
    fn line(&mut self, line: u64, text: &str, out: &mut Collector);
}

/// What turns text into rows.
pub(super) enum Parser {
    Lines(Lines, Box<dyn LineFormat>),
    Table(Box<Table>),
    Document(vllm_bench::Document),
}

/// The parser of a format, for a file that begins like this.
pub(super) fn parser(format: TraceFormat, head: &[u8], columns: Option<ColumnMap>) -> Parser {
    let lines = |format: Box<dyn LineFormat>| Parser::Lines(Lines::default(), format);
    let table = |layout: Box<dyn Layout>| Parser::Table(Box::new(Table::new(head, layout)));
    match format {
        TraceFormat::Mooncake => lines(Box::new(mooncake::Mooncake)),
        TraceFormat::Qwen => lines(Box::<qwen::Qwen>::default()),
        TraceFormat::Otel => lines(Box::new(otel::Otel)),
        TraceFormat::VllmBench => Parser::Document(vllm_bench::Document::default()),
        TraceFormat::Azure => table(Box::<azure::Azure>::default()),
        TraceFormat::BurstGpt => table(Box::<burst_gpt::BurstGpt>::default()),
        TraceFormat::Columns => table(Box::new(columns::Columns::new(columns))),
    }
}

impl Parser {
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut Collector) -> Result<(), TraceError> {
        match self {
            Parser::Lines(lines, format) => {
                lines.push(bytes, out, &mut |line, text, out| format.line(line, text, out));
                Ok(())
            }
            Parser::Table(table) => table.push(bytes, out),
            Parser::Document(document) => document.push(bytes),
        }
    }

    /// The end; columns and what they were taken for, of a table.
    pub(super) fn finish(self, out: &mut Collector) -> Result<(Vec<String>, Option<ColumnMap>), TraceError> {
        match self {
            Parser::Lines(mut lines, mut format) => {
                lines.finish(out, &mut |line, text, out| format.line(line, text, out));
                Ok((vec![], None))
            }
            Parser::Table(table) => table.finish(out),
            Parser::Document(document) => document.finish(out).map(|()| (vec![], None)),
        }
    }
}

/// A count of tokens out of a number. Beyond what is read it is only said to be too much, by the collector.
fn tokens(field: &'static str, value: f64) -> Result<u32, Cause> {
    if !value.is_finite() {
        return Err(Cause::NotFinite(field));
    }
    if value < 0.0 {
        return Err(Cause::Negative(field));
    }
    if value.fract() != 0.0 {
        return Err(Cause::NotWhole(field));
    }
    Ok(value.min(f64::from(MAX_TOKENS) + 1.0) as u32)
}

/// Nanoseconds out of a time in units of `unit_ns`, from wherever it counts.
fn instant(field: &'static str, value: f64, unit_ns: f64) -> Result<i64, Cause> {
    if !value.is_finite() {
        return Err(Cause::NotFinite(field));
    }
    if value < 0.0 {
        return Err(Cause::Negative(field));
    }
    let ns = libm::round(value * unit_ns);
    if ns < 9e18 { Ok(ns as i64) } else { Err(Cause::TooFar) }
}
