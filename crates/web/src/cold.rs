//! Asking the worker how a cold start goes, and hearing the answer.
//!
//! The start that is asked about is the draft's; how many start together, the load that probes meet and the table of weights are questions of their
//! own and stand in no spec.

use crate::link::Host;
use crate::state::App;
use crate::{control, text};
use leptos::prelude::*;
use servelab_spec::coldstart::{ColdStart, ColdStartQuery, FloorsSpec};
use servelab_spec::protocol::ToWorker;
use std::sync::Arc;

/// Numbers of questions begin here, far from those of runs.
const FIRST_NUMBER: u32 = 1 << 31;

/// What is asked about cold starts and what was answered.
#[derive(Clone, Copy)]
pub(crate) struct Cold {
    /// The view is open: a closed one asks nothing.
    pub open: RwSignal<bool>,
    pub together: RwSignal<u32>,
    pub in_flight: RwSignal<u32>,
    pub floors: RwSignal<FloorsSpec>,
    /// The latest answer; of an earlier question until this one has its own.
    pub answer: RwSignal<Option<Arc<ColdStart>>>,
    /// Why the latest question has none.
    pub error: RwSignal<Option<String>>,
    /// Number of the latest question.
    number: RwSignal<u32>,
}

impl Cold {
    pub(crate) fn new() -> Self {
        let query = ColdStartQuery::default();
        Cold {
            open: RwSignal::new(false),
            together: RwSignal::new(query.together),
            in_flight: RwSignal::new(query.in_flight),
            floors: RwSignal::new(query.floors),
            answer: RwSignal::new(None),
            error: RwSignal::new(None),
            number: RwSignal::new(FIRST_NUMBER),
        }
    }

    /// Takes an answer to the latest question; an older one is not of interest any more.
    pub(crate) fn answered(&self, number: u32, answer: ColdStart) {
        if number == self.number.get_untracked() {
            self.answer.set(Some(Arc::new(answer)));
            self.error.set(None);
        }
    }

    /// The latest question was refused; says whether it was one of these.
    pub(crate) fn refused(&self, number: u32, message: &str) -> bool {
        let ours = number >= FIRST_NUMBER;
        if ours && number == self.number.get_untracked() {
            self.error.set(Some(text::sentence(message)));
        }
        ours
    }
}

/// Asks whenever the view is open and something in the question has changed.
pub(crate) fn watch(app: App) {
    let cold = app.cold;
    let startup = Memo::new(move |_| app.draft.with(|draft| (draft.startup, draft.scaling.grace_s)));
    Effect::new(move |_| {
        if !cold.open.get() || app.catalog.with(Option::is_none) {
            return;
        }
        let (startup, grace_s) = startup.get();
        let query = ColdStartQuery {
            startup,
            together: cold.together.get(),
            in_flight: cold.in_flight.get(),
            grace_s,
            floors: cold.floors.get(),
        };
        let run = untrack(|| cold.number.get()).wrapping_add(1).max(FIRST_NUMBER);
        cold.number.set(run);
        control::post(app, Host::Cpu, &ToWorker::ColdStart { run, query: Box::new(query) });
    });
}
