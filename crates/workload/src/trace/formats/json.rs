//! Fields of JSON objects.

use super::super::problem::Cause;
use serde_json::{Map, Value};

pub(super) type Object = Map<String, Value>;

/// The object that a line is.
pub(super) fn object(text: &str) -> Result<Object, Cause> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Cause::NotJson),
        // What breaks off was cut; what goes wrong before its end was never right.
        Err(error) if error.is_eof() => Err(Cause::Cut),
        Err(_) => Err(Cause::NotJson),
    }
}

/// A number; texts that are numbers count, as some writers quote them.
pub(super) fn number(object: &Object, field: &'static str) -> Result<f64, Cause> {
    match object.get(field) {
        None | Some(Value::Null) => Err(Cause::Missing(field)),
        Some(value) => as_number(value).ok_or(Cause::NotANumber(field)),
    }
}

/// The number that a value is.
pub(super) fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Block keys of a row. A row without them is a row whose prompt is its own.
pub(super) fn keys(object: &Object, field: &'static str, out: &mut Vec<u64>) -> Result<(), Cause> {
    out.clear();
    match object.get(field) {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Array(items)) => {
            for item in items {
                // Ids may be signed hashes; only whether they agree counts.
                let id = item.as_u64().or_else(|| item.as_i64().map(|id| id as u64));
                out.push(id.ok_or(Cause::NotKeys(field))?);
            }
            Ok(())
        }
        Some(_) => Err(Cause::NotKeys(field)),
    }
}
