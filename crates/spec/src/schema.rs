//! The JSON Schema (draft 2020-12) of spec and report, made from the types: for editors, and for programs that write specs or read reports.
//!
//! The page serves both (`schema/spec.json`, `schema/report.json`); `servelab schema` prints them. Limits of values are the lab's and not the schema's:
//! `servelab list settings` has them.

use crate::{Report, Spec};
use schemars::schema_for;
use serde_json::Value;

/// Of a spec, whole or in part: what is left out has its default.
pub fn of_spec() -> Value {
    plain(schema_for!(Spec).to_value())
}

/// Of a report.
pub fn of_report() -> Value {
    plain(schema_for!(Report).to_value())
}

/// Descriptions are the types' documentation: links of it lead nowhere here.
fn plain(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text.replace("[`crate::", "`").replace("[`", "`").replace("`]", "`");
            }
            fields.values_mut().for_each(|field| *field = plain(field.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = plain(item.take())),
        _ => {}
    }
    schema
}
