//! Spans of the OpenTelemetry conventions for generative AI, as JSON lines: batches as OTLP writes them (`resourceSpans`), or one span a line.
//!
//! A request is a span with `gen_ai.usage.input_tokens` and `gen_ai.usage.output_tokens` (before: `prompt_tokens`, `completion_tokens`); its arrival is when it
//! starts, its conversation `gen_ai.conversation.id`, its tenant the model that was asked for. Spans are written as they end, so times go back and forth.

use super::super::clock::wall_clock;
use super::super::collector::{Collector, Entry};
use super::super::problem::Cause;
use super::json::{self, Object};
use super::{LineFormat, instant, tokens};
use serde_json::Value;

pub(super) struct Otel;

const INPUT: [&str; 2] = ["gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"];
const OUTPUT: [&str; 2] = ["gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"];
const MODEL: [&str; 2] = ["gen_ai.request.model", "gen_ai.response.model"];
const SESSION: [&str; 2] = ["gen_ai.conversation.id", "session.id"];
const START: &str = "startTimeUnixNano";

impl LineFormat for Otel {
    fn line(&mut self, line: u64, text: &str, out: &mut Collector) {
        match json::object(text) {
            Err(cause) => out.note(line, cause, text),
            Ok(object) => match object.get("resourceSpans") {
                Some(batches) => each(batches, |batch| {
                    // Older exporters called scopes libraries.
                    for scopes in ["scopeSpans", "instrumentationLibrarySpans"] {
                        each(&batch[scopes], |scope| each(&scope["spans"], |span| one(line, span, out)));
                    }
                }),
                None => one(line, &Value::Object(object), out),
            },
        }
    }
}

fn each(list: &Value, mut of: impl FnMut(&Value)) {
    list.as_array().into_iter().flatten().for_each(&mut of);
}

fn one(line: u64, span: &Value, out: &mut Collector) {
    if let Err(cause) = read(line, span, out) {
        let name = span.get("name").and_then(Value::as_str).unwrap_or_default();
        out.note(line, cause, name);
    }
}

/// An attribute, in a map or in a list of keys and typed values.
fn attribute<'a>(span: &'a Object, names: &[&str]) -> Option<&'a Value> {
    let attributes = span.get("attributes")?;
    names.iter().find_map(|&name| match attributes {
        Value::Object(map) => map.get(name),
        Value::Array(list) => {
            let item = list.iter().find(|item| item["key"] == name)?;
            // {"value": {"intValue": "12"}}: whole numbers come as texts.
            item["value"].as_object()?.values().next()
        }
        _ => None,
    })
}

fn read(line: u64, span: &Value, out: &mut Collector) -> Result<(), Cause> {
    let span = span.as_object().ok_or(Cause::NotJson)?;
    let (Some(input), Some(output)) = (attribute(span, &INPUT), attribute(span, &OUTPUT)) else {
        return Err(Cause::OtherSpan);
    };
    let prompt = tokens(INPUT[0], json::as_number(input).ok_or(Cause::NotANumber(INPUT[0]))?)?;
    let output = tokens(OUTPUT[0], json::as_number(output).ok_or(Cause::NotANumber(OUTPUT[0]))?)?;
    // Status 2 is an error; its counts are those of what was said until then.
    let failed = span.get("status").is_some_and(|status| status["code"] == 2 || status["code"] == "STATUS_CODE_ERROR");
    if failed {
        return Err(Cause::Failed);
    }
    let at = arrival(span)?;
    let text = |value: Option<&Value>| match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    };
    let conversation = text(attribute(span, &SESSION));
    let session = (!conversation.is_empty()).then(|| out.session(&conversation));
    let group = text(attribute(span, &MODEL));
    out.row(line, Entry { at, prompt, output, session, group: &group, ..Entry::default() });
    Ok(())
}

/// Nanoseconds as a text or a number, or a wall-clock time.
fn arrival(span: &Object) -> Result<i64, Cause> {
    let value = [START, "start_time_unix_nano", "start_time", "startTime"].iter().find_map(|&name| span.get(name));
    match value {
        None | Some(Value::Null) => Err(Cause::Missing(START)),
        // As a whole number: a float of 64 bits is too coarse for nanoseconds since 1970.
        Some(Value::String(text)) => match text.trim().parse::<i64>() {
            Ok(ns) if ns >= 0 => Ok(ns),
            Ok(_) => Err(Cause::Negative(START)),
            Err(_) => wall_clock(text).ok_or(Cause::NotATime(START)),
        },
        Some(value) => match value.as_i64() {
            Some(ns) if ns >= 0 => Ok(ns),
            _ => instant(START, json::as_number(value).ok_or(Cause::NotATime(START))?, 1.0),
        },
    }
}
