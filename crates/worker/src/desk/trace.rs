//! A file of recorded requests: read piece by piece as the browser hands it over, then looked at in slices.
//!
//! T1: an opened file is answered exactly once: with its view, with the columns that somebody has to explain, or with `Failed`; cancelled or replaced by
//! another, with `Failed` too. T2: the trace that was viewed last is on the shelf, and the one before it no more.

use super::{Clock, PROGRESS_EVERY_MS, SLICE_MS};
use servelab_lab::traffic::fit::fit;
use servelab_lab::traffic::report::Traffic;
use servelab_lab::traffic::view::{Look, pictures, view};
use servelab_lab::traffic::{Analysis, propose};
use servelab_spec::experiment::{LengthLaw, Spec, WorkloadSpec};
use servelab_spec::protocol::FromWorker;
use servelab_spec::traffic::{ColumnMap, Remark, TraceQuery};
use servelab_workload::trace::{ReadOptions, Reader, Trace, TraceError, shelf};
use std::sync::Arc;

/// What was viewed last: its pictures can be drawn anew.
pub(super) struct Viewed {
    run: u32,
    name: String,
    trace: Arc<Trace>,
    traffic: Traffic,
}

impl Viewed {
    /// The pictures in another scheme or size; none when it is not what was asked about, or when they can not be drawn like that.
    pub(super) fn redrawn(&self, run: u32, width: u32, height: u32, dark: bool) -> Option<FromWorker> {
        let charts = pictures(&self.trace, &self.traffic, Look { width, height, dark }).ok()?;
        (run == self.run).then_some(FromWorker::TraceCharts { run, charts })
    }
}

/// Requests between two looks at the clock: some hundred microseconds of looking up blocks.
const REQUESTS: usize = 64;

/// A file under way.
pub(super) struct Opening {
    pub(super) run: u32,
    query: TraceQuery,
    stage: Stage,
    said_ms: f64,
}

enum Stage {
    Reading(Box<Reader>),
    Looking(Box<Looking>),
}

/// What has been read, while it is being looked at.
struct Looking {
    trace: Arc<Trace>,
    analysis: Analysis,
    remarks: Vec<Remark>,
    columns: Vec<String>,
    map: Option<ColumnMap>,
}

impl Opening {
    pub(super) fn new(run: u32, query: TraceQuery) -> Self {
        let TraceQuery { format, columns, key_tokens, .. } = &query;
        let options = ReadOptions { format: *format, columns: columns.clone(), block_tokens: *key_tokens };
        Opening { run, stage: Stage::Reading(Box::new(Reader::new(options))), query, said_ms: f64::NEG_INFINITY }
    }

    /// It waits for bytes.
    pub(super) fn reading(&self) -> bool {
        matches!(self.stage, Stage::Reading(_))
    }

    /// Takes the next piece; none at the end. The answer, when the file can not be read on.
    pub(super) fn feed(
        &mut self,
        piece: Option<&[u8]>,
        clock: Clock,
        say: &mut dyn FnMut(FromWorker),
    ) -> Option<FromWorker> {
        let Stage::Reading(reader) = &mut self.stage else { return None };
        if let Some(piece) = piece {
            if let Err(error) = reader.push(piece) {
                return Some(self.refused(error));
            }
            let (bytes, requests) = (reader.bytes(), reader.requests());
            let now = clock();
            if now - self.said_ms >= PROGRESS_EVERY_MS {
                self.said_ms = now;
                let fraction = bytes as f64 / self.query.bytes.max(1.0);
                self.progress("reading", fraction.min(1.0), requests, say);
            }
            return None;
        }
        let ended = std::mem::replace(reader, Box::new(Reader::new(ReadOptions::default())));
        match ended.finish() {
            Ok(reading) => {
                let trace = Arc::new(reading.trace);
                let analysis = Analysis::new(trace.clone());
                let (remarks, columns, map) = (reading.remarks, reading.columns, reading.map);
                self.stage = Stage::Looking(Box::new(Looking { trace, analysis, remarks, columns, map }));
                None
            }
            Err(error) => Some(self.refused(error)),
        }
    }

    /// Looks on for one slice; the answer when that was the last one. `before` is what was viewed last, and is then this.
    pub(super) fn slice(
        &mut self,
        clock: Clock,
        before: &mut Option<Viewed>,
        say: &mut dyn FnMut(FromWorker),
    ) -> Option<FromWorker> {
        let until = clock() + SLICE_MS;
        let Stage::Looking(looking) = &mut self.stage else { return None };
        let requests = looking.trace.rows().len();
        loop {
            let fraction = looking.analysis.advance(REQUESTS);
            if fraction >= 1.0 {
                return Some(self.viewed(before));
            }
            let now = clock();
            if now >= until {
                if now - self.said_ms >= PROGRESS_EVERY_MS {
                    self.said_ms = now;
                    self.progress("looking", fraction, requests, say);
                }
                return None;
            }
        }
    }

    fn viewed(&mut self, before: &mut Option<Viewed>) -> FromWorker {
        let run = self.run;
        let Stage::Looking(looking) = &mut self.stage else { return self.dropped() };
        let Looking { trace, analysis, remarks, columns, map } = &mut **looking;
        let traffic = analysis.report();
        let name = shelf::put_shared(trace.clone());
        let TraceQuery { width, height, dark, .. } = self.query;
        let answer = match view(trace, &traffic, std::mem::take(remarks), Look { width, height, dark }) {
            Ok(mut view) => {
                (view.columns, view.map) = (std::mem::take(columns), map.take());
                let spec = propose(&traffic);
                let generator = WorkloadSpec::Generated(fit(trace, &traffic, LengthLaw::Lognormal));
                let generator = Spec { workload: generator, ..spec.clone() };
                FromWorker::Trace { run, view: Box::new(view), spec: Box::new(spec), generator: Box::new(generator) }
            }
            Err(error) => FromWorker::Failed { run, message: error.to_string(), field: Some(error.field) },
        };
        let viewed = Viewed { run, name: name.clone(), trace: trace.clone(), traffic };
        if let Some(old) = before.replace(viewed).filter(|old| old.name != name) {
            shelf::remove(&old.name);
        }
        answer
    }

    fn progress(&self, stage: &str, fraction: f64, requests: usize, say: &mut dyn FnMut(FromWorker)) {
        let (run, policy, stage) = (self.run, requests as u32, stage.to_owned());
        say(FromWorker::Progress { run, policy, fraction, t_s: 0.0, stage });
    }

    fn refused(&self, error: TraceError) -> FromWorker {
        let (run, message) = (self.run, error.to_string());
        match error {
            TraceError::Columns { columns, .. } | TraceError::NoColumn { columns, .. } => {
                FromWorker::TraceColumns { run, columns, message }
            }
            _ => FromWorker::Failed { run, message, field: None },
        }
    }

    /// What is answered when it is not to be finished.
    pub(super) fn dropped(&self) -> FromWorker {
        FromWorker::Failed { run: self.run, message: "reading was stopped".into(), field: None }
    }
}
