//! Traces by name. A spec says which trace it replays; whoever opened the file has put it here, and whoever makes a source of the spec finds it.
//!
//! What lies here never changes under its name, which is a hash of it, so nobody's result depends on who put what here when: a trace is there or
//! it is missed. It is the one thing beside a spec that a run needs, and saved runs are restored in places that know nothing of files.

use super::{ReadOptions, Reader, Trace};
use servelab_spec::experiment::TraceSpec;
use servelab_spec::validate::SpecError;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The trace that is always there: 96 requests of our own making.
const SAMPLE: &str = include_str!("sample.jsonl");

static SHELF: Mutex<Vec<Arc<Trace>>> = Mutex::new(Vec::new());

fn shelf<T>(with: impl FnOnce(&mut Vec<Arc<Trace>>) -> T) -> T {
    // Whoever panicked while holding it left it whole: it is only pushed to and cut.
    with(&mut SHELF.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Puts a trace where specs find it; its name.
pub fn put(trace: Trace) -> String {
    put_shared(Arc::new(trace))
}

/// The same for a trace that somebody else holds too.
pub fn put_shared(trace: Arc<Trace>) -> String {
    let name = trace.name();
    shelf(|all| {
        if !all.iter().any(|known| known.digest == trace.digest) {
            all.push(trace);
        }
    });
    name
}

/// Takes a trace away; who uses it keeps it until the end.
pub fn remove(name: &str) {
    shelf(|all| all.retain(|trace| trace.name() != name));
}

/// The trace of that name, if it is there.
pub fn find(name: &str) -> Option<Arc<Trace>> {
    if name == TraceSpec::SAMPLE {
        return Some(sample());
    }
    shelf(|all| all.iter().find(|trace| trace.name() == name).cloned())
}

/// The trace of a spec.
///
/// # Errors
/// It is not there: its file has to be opened first.
pub fn of(spec: &TraceSpec) -> Result<Arc<Trace>, SpecError> {
    find(&spec.trace).ok_or_else(|| {
        let found = format!("the trace {:?}, which is not open", spec.trace.chars().take(40).collect::<String>());
        let accepted = "open its file (on a terminal: --trace FILE); one that reads otherwise has another name; sample is always there";
        SpecError::new("workload.trace", found, accepted)
    })
}

fn sample() -> Arc<Trace> {
    static SAMPLED: OnceLock<Arc<Trace>> = OnceLock::new();
    let read = || {
        let mut reader = Reader::new(ReadOptions::default());
        let read = reader.push(SAMPLE.as_bytes()).and_then(|()| reader.finish());
        // It is part of the program, and a test reads it.
        Arc::new(read.expect("the sample can be read").trace)
    };
    Arc::clone(SAMPLED.get_or_init(read))
}
