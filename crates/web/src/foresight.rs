//! Asking the worker which signal sees too much load coming, and hearing the answer.

use crate::link::Host;
use crate::state::App;
use crate::{control, text};
use leptos::prelude::*;
use servelab_spec::protocol::ToWorker;
use servelab_spec::signals::SignalsReport;
use std::sync::Arc;

/// Numbers of questions, between those of runs and those of requests to write.
const NUMBERS: std::ops::Range<u32> = 1 << 28..1 << 29;

/// Seconds that every signal is the mean of; the command line takes others.
const WINDOW_S: f64 = 60.0;

/// What is asked about signals and what was answered.
#[derive(Clone, Copy)]
pub(crate) struct Foresight {
    /// An answer is on its way.
    pub asking: RwSignal<bool>,
    /// The latest answer.
    pub answer: RwSignal<Option<Arc<SignalsReport>>>,
    /// Why the latest question has none.
    pub error: RwSignal<Option<String>>,
    number: RwSignal<u32>,
}

impl Foresight {
    pub(crate) fn new() -> Self {
        Foresight {
            asking: RwSignal::new(false),
            answer: RwSignal::new(None),
            error: RwSignal::new(None),
            number: RwSignal::new(NUMBERS.start),
        }
    }

    /// Asks about the load of the draft.
    pub(crate) fn ask(self, app: App) {
        let run = self.number.get_untracked() + 1;
        let run = if NUMBERS.contains(&run) { run } else { NUMBERS.start };
        self.number.set(run);
        self.asking.set(true);
        let spec = Box::new(app.draft.get_untracked());
        control::post(app, Host::Cpu, &ToWorker::Signals { run, spec, window_s: WINDOW_S });
    }

    /// Takes an answer to the latest question.
    pub(crate) fn answered(self, number: u32, report: SignalsReport) {
        if number == self.number.get_untracked() {
            self.asking.set(false);
            self.answer.set(Some(Arc::new(report)));
            self.error.set(None);
        }
    }

    /// The latest question was refused; says whether it was one of these.
    pub(crate) fn refused(self, number: u32, message: &str) -> bool {
        let ours = NUMBERS.contains(&number);
        if ours && number == self.number.get_untracked() {
            self.asking.set(false);
            self.error.set(Some(text::sentence(message)));
        }
        ours
    }
}
