//! Asking the model that writes, and playing its steps back at a pace that can be watched.

use crate::link::Host;
use crate::state::App;
use crate::{control, env, text};
use leptos::prelude::*;
use servelab_spec::protocol::{ToWorker, WriterFiles};
use servelab_spec::writing::{Step, WriteRequest, WriterModel, Written};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Numbers of requests begin here, between those of questions about signals and those of files.
const FIRST_NUMBER: u32 = 1 << 29;
const LAST_NUMBER: u32 = 1 << 30;

/// Wall time between two steps shown: quick, and slow enough to follow.
const QUICK: Duration = Duration::from_millis(33);
const SLOW: Duration = Duration::from_millis(350);

/// What is asked of the model and what it showed.
#[derive(Clone, Copy)]
pub(crate) struct Write {
    /// What all prompts begin with.
    pub shared: RwSignal<String>,
    /// The prompts' own ends, one a line.
    pub own: RwSignal<String>,
    /// Everything but the prompts.
    pub settings: RwSignal<WriteRequest>,
    /// Steps are shown slowly.
    pub slow: RwSignal<bool>,
    /// The picture shown.
    pub shown: RwSignal<Option<Arc<Written>>>,
    /// Steps shown so far.
    pub steps: RwSignal<Vec<Step>>,
    pub model: RwSignal<Option<Arc<WriterModel>>>,
    /// Bytes of the model that have come, and of how many.
    pub loading: RwSignal<Option<(f64, Option<f64>)>>,
    pub error: RwSignal<Option<String>>,
    /// Asked, and the last step not shown yet.
    pub busy: RwSignal<bool>,
    number: RwSignal<u32>,
    /// Pictures that came and were not shown yet.
    waiting: StoredValue<VecDeque<Written>>,
    /// A turn of the player is on its way.
    playing: StoredValue<bool>,
}

impl Write {
    pub(crate) fn new() -> Self {
        Write {
            shared: RwSignal::new(text::WRITE_SHARED[0].1.into()),
            own: RwSignal::new(text::WRITE_OWN.into()),
            settings: RwSignal::new(WriteRequest::default()),
            slow: RwSignal::new(false),
            shown: RwSignal::new(None),
            steps: RwSignal::new(Vec::new()),
            model: RwSignal::new(None),
            loading: RwSignal::new(None),
            error: RwSignal::new(None),
            busy: RwSignal::new(false),
            number: RwSignal::new(FIRST_NUMBER),
            waiting: StoredValue::new(VecDeque::new()),
            playing: StoredValue::new(false),
        }
    }

    fn next(&self) -> u32 {
        let run = self.number.get_untracked().wrapping_add(1).clamp(FIRST_NUMBER, LAST_NUMBER - 1);
        self.number.set(run);
        self.waiting.update_value(VecDeque::clear);
        self.error.set(None);
        run
    }

    fn is_latest(&self, run: u32) -> bool {
        run == self.number.get_untracked()
    }

    /// Bytes of the model came.
    pub(crate) fn came(&self, run: u32, received: f64, total: Option<f64>) {
        if self.is_latest(run) {
            self.loading.set(Some((received, total)));
        }
    }

    /// The model is ready.
    pub(crate) fn ready(&self, model: WriterModel) {
        self.model.set(Some(Arc::new(model)));
        self.loading.set(None);
    }

    /// A request failed; says whether it was one of these.
    pub(crate) fn refused(&self, run: u32, message: &str) -> bool {
        let ours = (FIRST_NUMBER..LAST_NUMBER).contains(&run);
        if ours && self.is_latest(run) {
            self.error.set(Some(text::sentence(message)));
            self.busy.set(false);
            self.loading.set(None);
        }
        ours
    }
}

/// The prompts as they are sent.
fn prompts(write: Write) -> Vec<String> {
    let shared = write.shared.get_untracked();
    let own = write.own.get_untracked();
    let lines = own.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let with = |line: &str| {
        let gap = if shared.is_empty() { "" } else { "\n\n" };
        // A speaker's name stands on a line of its own.
        let end = if line.ends_with(':') { "\n" } else { "" };
        format!("{}{gap}{line}{end}", shared.trim_end())
    };
    let prompts: Vec<String> = lines.map(with).collect();
    if prompts.is_empty() && !shared.is_empty() { vec![shared] } else { prompts }
}

/// Sends what the form says.
pub(crate) fn ask(app: App) {
    let write = app.write;
    let request = WriteRequest { prompts: prompts(write), ..write.settings.get_untracked() };
    let run = write.next();
    if let Err(error) = request.validate() {
        write.error.set(Some(text::sentence(&error.to_string())));
        return;
    }
    write.busy.set(true);
    write.steps.set(Vec::new());
    control::post(app, Host::Cpu, &ToWorker::Write { run, request: Box::new(request) });
}

/// Ends it where it is.
pub(crate) fn stop(app: App) {
    app.write.waiting.update_value(VecDeque::clear);
    app.write.busy.set(false);
    control::post(app, Host::Cpu, &ToWorker::Cancel { run: app.write.number.get_untracked() });
}

/// Takes another model: the visitor's files, or the page's own; the replica is empty afterwards.
pub(crate) fn choose(app: App, files: Option<WriterFiles>) {
    let write = app.write;
    let run = write.next();
    write.shown.set(None);
    write.steps.set(Vec::new());
    write.model.set(None);
    write.busy.set(false);
    control::post(app, Host::Cpu, &ToWorker::WriterModel { run, files });
}

/// A step came: it waits for its turn.
pub(crate) fn came(app: App, run: u32, written: Written) {
    let write = app.write;
    if !write.is_latest(run) {
        return;
    }
    write.waiting.update_value(|waiting| waiting.push_back(written));
    if !write.playing.get_value() {
        write.playing.set_value(true);
        show(app);
    }
}

fn show(app: App) {
    let write = app.write;
    let mut next = None;
    write.waiting.update_value(|waiting| next = waiting.pop_front());
    let Some(next) = next else {
        write.playing.set_value(false);
        return;
    };
    if let Some(step) = next.step {
        write.steps.update(|steps| steps.push(step));
    }
    if next.done {
        write.busy.set(false);
    }
    write.shown.set(Some(Arc::new(next)));
    // A hidden tab plays nothing; people who want no motion see the end.
    let still = app.look.reduced_motion.get_untracked() || env::hidden();
    let pause = match (still, write.slow.get_untracked()) {
        (true, _) => Duration::ZERO,
        (false, true) => SLOW,
        (false, false) => QUICK,
    };
    set_timeout(move || show(app), pause);
}
