//! A file of the visitor's own: handing it to the worker, hearing what it looks like, and making it the workload.

use crate::link::Host;
use crate::state::App;
use crate::{address, control, text};
use leptos::prelude::*;
use servelab_spec::Spec;
use servelab_spec::experiment::WorkloadSpec;
use servelab_spec::protocol::{Chart, ToWorker};
use servelab_spec::traffic::{ColumnMap, TraceFormat, TraceQuery, TraceView};
use std::sync::Arc;
use web_sys::Blob;

/// Numbers of files begin here, far from those of runs and below those of cold starts.
const FIRST_NUMBER: u32 = 1 << 30;

/// Height of pictures, and their smallest and largest width, pixels.
const HEIGHT: u32 = 260;
const WIDTH: (f64, f64) = (320.0, 560.0);

/// The file and what is known of it.
#[derive(Clone, Copy)]
pub(crate) struct Traffic {
    /// The section is open.
    pub open: RwSignal<bool>,
    file: StoredValue<Option<Blob>, LocalStorage>,
    /// How it was read last.
    query: StoredValue<Option<TraceQuery>>,
    /// Its name.
    pub name: RwSignal<String>,
    /// Format that the visitor says it has.
    pub format: RwSignal<Option<TraceFormat>>,
    /// Columns of a table, and what each is taken for.
    pub columns: RwSignal<Vec<String>>,
    pub map: RwSignal<ColumnMap>,
    /// What is being done, how far, and the requests found.
    pub progress: RwSignal<Option<(String, f64, u32)>>,
    /// What it looks like, without its pictures.
    pub view: RwSignal<Option<Arc<TraceView>>>,
    /// Its pictures, in the scheme that `query` says.
    pub charts: RwSignal<Vec<Chart>>,
    /// Fleets for it: with the trace, and with a generator.
    specs: StoredValue<Option<(Spec, Spec)>>,
    /// Why it can not be read.
    pub error: RwSignal<Option<String>>,
    number: StoredValue<u32>,
}

impl Traffic {
    pub(crate) fn new() -> Self {
        Traffic {
            open: RwSignal::new(false),
            file: StoredValue::new_local(None),
            query: StoredValue::new(None),
            name: RwSignal::new(String::new()),
            format: RwSignal::new(None),
            columns: RwSignal::new(vec![]),
            map: RwSignal::new(ColumnMap::default()),
            progress: RwSignal::new(None),
            view: RwSignal::new(None),
            charts: RwSignal::new(vec![]),
            specs: StoredValue::new(None),
            error: RwSignal::new(None),
            number: StoredValue::new(FIRST_NUMBER),
        }
    }

    fn current(&self, number: u32) -> bool {
        number == self.number.get_value()
    }

    /// A file is being read or looked at.
    pub(crate) fn went_on(&self, number: u32, stage: &str, fraction: f64, requests: u32) -> bool {
        let ours = self.current(number);
        if ours {
            self.progress.set(Some((stage.to_owned(), fraction, requests)));
        }
        ours
    }

    /// It has been read; says whether that was the latest one.
    pub(crate) fn viewed(&self, number: u32, mut view: TraceView, spec: Spec, generator: Spec) -> bool {
        if !self.current(number) {
            return false;
        }
        self.progress.set(None);
        self.error.set(None);
        // Only a table that is none of the known ones has columns to choose.
        let chosen = view.map.is_some();
        self.columns.set(if chosen { view.columns.clone() } else { vec![] });
        self.map.set(view.map.clone().unwrap_or_default());
        self.specs.set_value(Some((spec, generator)));
        self.charts.set(std::mem::take(&mut view.charts));
        self.view.set(Some(Arc::new(view)));
        true
    }

    /// Its pictures have been drawn anew.
    pub(crate) fn redrawn(&self, number: u32, charts: Vec<Chart>) {
        if self.current(number) {
            self.charts.set(charts);
        }
    }

    pub(crate) fn asks_columns(&self, number: u32, columns: Vec<String>, message: &str) {
        if self.current(number) {
            self.progress.set(None);
            self.view.set(None);
            self.columns.set(columns);
            self.error.set(Some(text::sentence(message)));
        }
    }

    /// Reading has failed; says whether it was one of these.
    pub(crate) fn refused(&self, number: u32, message: &str) -> bool {
        let ours = (FIRST_NUMBER..2 * FIRST_NUMBER).contains(&number);
        if ours && self.current(number) {
            self.progress.set(None);
            self.view.set(None);
            self.error.set(Some(text::sentence(message)));
        }
        ours
    }
}

/// Opens a file that the visitor chose or dropped.
pub(crate) fn choose(app: App, file: Blob, name: String) {
    let traffic = app.traffic;
    traffic.file.set_value(Some(file));
    traffic.name.set(name);
    traffic.format.set(None);
    traffic.columns.set(vec![]);
    traffic.map.set(ColumnMap::default());
    traffic.open.set(true);
    read(app);
}

/// Reads the file, under the format and the columns that were said.
pub(crate) fn read(app: App) {
    let traffic = app.traffic;
    let Some(file) = traffic.file.get_value() else { return };
    let run = traffic.number.get_value() + 1;
    traffic.number.set_value(run);
    traffic.error.set(None);
    traffic.view.set(None);
    traffic.progress.set(Some(("reading".into(), 0.0, 0)));
    let map = traffic.map.get_untracked();
    let page = crate::env::root().map_or(WIDTH.1, |root| f64::from(root.client_width()) - 56.0);
    let query = TraceQuery {
        bytes: file.size(),
        format: traffic.format.get_untracked(),
        columns: (map != ColumnMap::default()).then_some(map),
        key_tokens: None,
        width: page.clamp(WIDTH.0, WIDTH.1) as u32,
        height: HEIGHT,
        dark: untrack(|| app.look.dark()),
    };
    traffic.query.set_value(Some(query.clone()));
    control::post_with(app, Host::Cpu, &ToWorker::TraceOpen { run, query }, "file", &file);
}

/// What a worker has read, the workers of sweeps and knees need as well.
pub(crate) fn viewed(app: App, number: u32, view: TraceView, spec: Spec, generator: Spec) {
    if !app.traffic.viewed(number, view, spec, generator) {
        return;
    }
    if let (Some(query), Some(file)) = (app.traffic.query.get_value(), app.traffic.file.get_value()) {
        app.study.sweep.bring(&query, &file);
        app.study.knee.bring(&query, &file);
    }
}

/// Has the pictures drawn anew when they are not in the scheme that the page has now; what is still being read is asked for again once it is there.
pub(crate) fn redraw(app: App) {
    let (traffic, now) = (app.traffic, app.look.dark());
    if traffic.view.with(Option::is_none) {
        return;
    }
    let run = traffic.number.get_value();
    let asked = traffic.query.try_update_value(|query| {
        let query = query.as_mut().filter(|query| query.dark != now)?;
        query.dark = now;
        Some(ToWorker::TraceCharts { run, width: query.width, height: query.height, dark: now })
    });
    if let Some(message) = asked.flatten() {
        control::post(app, Host::Cpu, &message);
    }
}

/// Stops reading.
pub(crate) fn cancel(app: App) {
    let run = app.traffic.number.get_value();
    control::post(app, Host::Cpu, &ToWorker::Cancel { run });
}

/// Makes the trace, or a generator with its figures, the workload, and compares policies on it. An experiment that replays this trace already (its address
/// was opened before the file) stays as it is.
pub(crate) fn compare(app: App, generated: bool) {
    let name = |spec: &Spec| match &spec.workload {
        WorkloadSpec::Trace(trace) => Some(trace.trace.clone()),
        _ => None,
    };
    if let Some((spec, generator)) = app.traffic.specs.get_value() {
        app.guess.set(None);
        if generated {
            app.draft.set(generator);
        } else if app.draft.with_untracked(name) != name(&spec) {
            app.draft.set(spec);
        }
        address::commit(app);
        control::start(app);
        crate::env::to_top();
    }
}
