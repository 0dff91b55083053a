//! Any bytes read as the format that the first of them names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use servelab_spec::traffic::TraceFormat;
use servelab_workload::trace::{ReadOptions, Reader};

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, bytes)) = bytes.split_first() else { return };
    let format = TraceFormat::ALL[usize::from(which) % TraceFormat::ALL.len()];
    let mut reader = Reader::new(ReadOptions { format: Some(format), ..ReadOptions::default() });
    if reader.push(bytes).is_ok() {
        let _ = reader.finish();
    }
});
