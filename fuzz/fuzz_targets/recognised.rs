//! Any bytes, in pieces, read as whatever they look like, and played.
#![no_main]

#[path = "../../crates/workload/tests/common/reads.rs"]
mod reads;

use libfuzzer_sys::fuzz_target;
use servelab_workload::trace::ReadOptions;

fuzz_target!(|bytes: &[u8]| {
    let piece = bytes.first().map_or(1, |&byte| usize::from(byte) + 1);
    if let Ok(reading) = reads::read(bytes, piece, ReadOptions::default()) {
        reads::play(reading.trace);
    }
});
