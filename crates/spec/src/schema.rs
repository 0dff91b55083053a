//! The JSON Schema (draft 2020-12) of spec and report, made from the types: for editors, and for programs that write specs or read reports.
//!
//! The page serves both (`schema/spec.json`, `schema/report.json`); `servelab schema` prints them. Limits of values are the lab's and not the schema's:
//! `servelab list settings` has them.

use crate::{Report, Spec};
use schemars::schema_for;
use serde_json::Value;

/// Of a spec, whole or in part: what is left out has its default.
pub fn of_spec() -> Value {
    schema_for!(Spec).to_value()
}

/// Of a report.
pub fn of_report() -> Value {
    schema_for!(Report).to_value()
}
