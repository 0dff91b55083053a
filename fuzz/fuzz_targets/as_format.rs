//! Any bytes read as the format that the first of them names; the second says the size of blocks.
#![no_main]

#[path = "../../crates/workload/tests/common/reads.rs"]
mod reads;

use libfuzzer_sys::fuzz_target;
use servelab_spec::traffic::TraceFormat;
use servelab_workload::trace::ReadOptions;

fuzz_target!(|bytes: &[u8]| {
    let [which, block, bytes @ ..] = bytes else { return };
    let format = TraceFormat::ALL[usize::from(*which) % TraceFormat::ALL.len()];
    let block_tokens = (*block > 0).then(|| u32::from(*block));
    let options = ReadOptions { format: Some(format), block_tokens, columns: None };
    if let Ok(reading) = reads::read(bytes, usize::MAX, options) {
        reads::play(reading.trace);
    }
});
