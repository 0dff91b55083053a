//! A run as files that other tools read, beside the report and the charts.
//!
//! | module | holds |
//! |---|---|
//! | [`perfetto`] | the run as a trace for Perfetto or Chrome: replicas, steps, requests as flows |
//! | [`prometheus`] | its metrics under vLLM's names |
//! | [`methods`] | a paragraph that states what was run, and how to repeat it |
//! | [`markdown`] | its tables for a text |

pub mod markdown;
pub mod methods;
pub mod perfetto;
pub mod prometheus;
mod record;

use crate::error::RunError;
use crate::session::Session;
use servelab_spec::protocol::{ExportFile, ExportKind};

/// A session as a file of that kind; of a run that is under way, what it has come to so far.
///
/// # Errors
/// When a live run's record contradicts itself.
pub fn export(session: &Session, kind: ExportKind) -> Result<ExportFile, RunError> {
    let spec = session.spec();
    let (ending, mime, text) = match kind {
        ExportKind::Perfetto => {
            (".perfetto.json", "application/json", perfetto::trace(session, perfetto::MOST_EVENTS)?)
        }
        ExportKind::Prometheus => (".prom", "text/plain", prometheus::text(session)),
        ExportKind::Methods => ("-methods.txt", "text/plain", methods::paragraph(&session.report())),
        ExportKind::Markdown => (".md", "text/markdown", markdown::tables(&session.report())),
    };
    Ok(ExportFile { name: format!("servelab-{}-seed{}{ending}", spec.preset, spec.seed), mime: mime.into(), text })
}
