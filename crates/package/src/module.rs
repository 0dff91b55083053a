//! What the scripts in `package/` call.

use crate::work::{Come, Run, Sweep};
use js_sys::{Object, Reflect};
use servelab_lab::{RunError, presets};
use servelab_spec::validate::SpecError;
use wasm_bindgen::prelude::*;

/// Says a fault of the program on the console, where the trap that follows would say nothing.
#[wasm_bindgen(start)]
pub fn start() {
    console_error_panic_hook::set_once();
}

/// The version of the package.
#[wasm_bindgen]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").into()
}

/// All presets as JSON: name, title, question, guess and spec.
///
/// # Errors
/// Never for presets of ours.
#[wasm_bindgen(js_name = presets)]
pub fn all_presets() -> Result<String, JsValue> {
    serde_json::to_string(&presets::all()).map_err(|error| error.to_string().into())
}

/// The spec that something handed in stands for, as JSON.
///
/// # Errors
/// The first field at fault.
#[wasm_bindgen]
pub fn spec(asked: &str) -> Result<String, JsValue> {
    let spec = crate::ask::spec(asked).map_err(|error| thrown(&RunError::from(error)))?;
    serde_json::to_string(&spec).map_err(|error| error.to_string().into())
}

/// A number of a sweep's report as SVG.
///
/// # Errors
/// What can not be drawn.
#[wasm_bindgen(js_name = sweepChart)]
pub fn sweep_chart(report: &str, asked: &str) -> Result<String, JsValue> {
    crate::work::sweep_chart(report, asked).map_err(|error| thrown(&RunError::from(error)))
}

macro_rules! work {
    ($name:ident $of:ident ($($arg:ident),*) $doc:literal) => {
        #[doc = $doc]
        #[wasm_bindgen]
        pub struct $name {
            work: $of,
            come: Come,
        }

        #[wasm_bindgen]
        impl $name {
            /// At its start.
            ///
            /// # Errors
            /// The first field at fault.
            #[wasm_bindgen(constructor)]
            pub fn new($($arg: &str),*) -> Result<$name, JsValue> {
                let work = $of::new($($arg),*).map_err(|error| thrown(&error))?;
                Ok($name { work, come: Come { fraction: 0.0, policy: 0, t_s: 0.0, done: false } })
            }

            /// Moves on by at most `events` events; true when nothing is left.
            ///
            /// # Errors
            /// A policy of the user's own fails.
            pub fn advance(&mut self, events: u32) -> Result<bool, JsValue> {
                self.come = self.work.advance(events).map_err(|error| thrown(&error))?;
                Ok(self.come.done)
            }

            /// Share that is done.
            #[wasm_bindgen(getter)]
            pub fn fraction(&self) -> f64 {
                self.come.fraction
            }

            /// Policy being run.
            #[wasm_bindgen(getter)]
            pub fn policy(&self) -> u32 {
                self.come.policy
            }

            /// Its virtual time, seconds.
            #[wasm_bindgen(getter)]
            pub fn t_s(&self) -> f64 {
                self.come.t_s
            }

            /// The report as text.
            ///
            /// # Errors
            /// Never for a report of ours.
            pub fn report(&self) -> Result<String, JsValue> {
                self.work.report().map_err(|error| thrown(&error))
            }
        }
    };
}

work!(RunWork Run (asked) "A run in pieces.");
work!(SweepWork Sweep (asked, axes) "A sweep in pieces.");

/// What the scripts make an error of: its message, and where a field is at fault which, what stood there and what would be accepted.
fn thrown(error: &RunError) -> JsValue {
    let object = Object::new();
    let set = |name: &str, value: &str| {
        // Setting a property of an object just made can not fail.
        let _ = Reflect::set(&object, &name.into(), &value.into());
    };
    set("message", &error.to_string());
    if let Some(field) = error.field() {
        set("path", field);
    }
    if let RunError::Spec(SpecError { found, accepted, .. }) = error {
        set("found", found);
        set("accepted", accepted);
    }
    object.into()
}
