//! The visitor's own file for the workers of a batch: a sweep over a trace needs the trace where its cells run.

use super::{Batch, Crew};
use crate::link::Link;
use leptos::prelude::*;
use servelab_spec::protocol::ToWorker;
use servelab_spec::traffic::TraceQuery;
use web_sys::Blob;

/// Number of the message, which nobody waits for: a cell sent after it waits in the worker until the file is read.
const NUMBER: u32 = u32::MAX;

/// A file and how it is read.
pub(super) type Beside = Option<(TraceQuery, Blob)>;

impl Batch {
    /// Workers that start from now on read this file first. Those that are there and idle know another one, and go.
    pub(crate) fn bring(self, query: &TraceQuery, file: &Blob) {
        let busy = self.phase.get_untracked().busy();
        self.crew.update_value(|crew| {
            crew.beside = Some((query.clone(), file.clone()));
            if !busy {
                crew.links.clear();
            }
        });
    }
}

impl Crew {
    /// Hands the file to a worker that has just been started.
    pub(super) fn brief(&self, link: &Link) {
        if let Some((query, file)) = &self.beside {
            let message = ToWorker::TraceOpen { run: NUMBER, query: query.clone() };
            link.post_with(&message, Some(("file", file)));
        }
    }
}
