//! The JSON Schema (draft 2020-12) of spec, report, sweep's report and preset, made from the types: for editors, and for programs that write specs or
//! read reports. The types of the package for JavaScript are made from them.
//!
//! The page serves them (`schema/spec.json` and so on); `servelab schema` prints them. Limits of values are the lab's and not the schema's:
//! `servelab list settings` has them.

use crate::catalog::PresetInfo;
use crate::sweep::SweepReport;
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

/// Of a sweep's report; what is swept is in it.
pub fn of_sweep() -> Value {
    plain(schema_for!(SweepReport).to_value())
}

/// Of a preset, as the catalog has them.
pub fn of_preset() -> Value {
    plain(schema_for!(PresetInfo).to_value())
}

/// Every schema with its name: that of the file which the page serves.
pub fn all() -> [(&'static str, Value); 4] {
    [("spec", of_spec()), ("report", of_report()), ("sweep", of_sweep()), ("preset", of_preset())]
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
