//! What must hold of any bytes, read as anything: the tests and the fuzzer's targets ask the same.

use servelab_spec::experiment::{TraceSpec, WorkloadSpec};
use servelab_workload::trace::{ReadOptions, Reader, Reading, Trace, TraceError, shelf};
use servelab_workload::{Source, Workload};

/// Reads `bytes` in pieces of `piece`.
///
/// # Errors
/// As the reader says.
///
/// # Panics
/// When a row is neither kept nor counted, rows are out of order or empty, or an error says nothing.
pub fn read(bytes: &[u8], piece: usize, options: ReadOptions) -> Result<Reading, TraceError> {
    let mut reader = Reader::new(options);
    let pushed = bytes.chunks(piece.max(1)).try_for_each(|piece| reader.push(piece));
    let reading = pushed.and_then(|()| reader.finish());
    match &reading {
        Ok(reading) => {
            let rows = reading.trace.rows();
            assert!(!rows.is_empty() && rows.is_sorted_by_key(|row| row.at));
            assert!(rows.iter().all(|row| row.prompt > 0 && row.output > 0));
            let skipped: u64 = reading.remarks.iter().filter(|of| of.skipped).map(|of| of.count).sum();
            assert_eq!(reading.rows, rows.len() as u64 + skipped, "every row is kept or counted");
        }
        Err(error) => assert!(error.to_string().len() > 20, "{error}"),
    }
    reading
}

/// Plays the first requests of what was read.
///
/// # Panics
/// When what was read can not be played, or arrivals go back.
pub fn play(trace: Trace) {
    let name = shelf::put(trace);
    let spec =
        TraceSpec { trace: name.clone(), prompt_cap: 100_000, repeat: 2, requests: 1000, ..TraceSpec::default() };
    let mut source = Source::new(&WorkloadSpec::Trace(spec), 1, 16, 1.0).expect("what was read can be played");
    let requests: Vec<_> = std::iter::from_fn(|| source.next_request()).take(64).collect();
    assert!(requests.is_sorted_by_key(|request| request.arrival));
    assert!(requests.iter().all(|request| request.prompt.len > 0 && request.output_tokens > 0));
    shelf::remove(&name);
}
