//! Any bytes, in pieces, read as whatever they look like.
#![no_main]

use libfuzzer_sys::fuzz_target;
use servelab_workload::trace::{ReadOptions, Reader};

fuzz_target!(|bytes: &[u8]| {
    let mut reader = Reader::new(ReadOptions::default());
    let piece = bytes.first().map_or(1, |&byte| usize::from(byte) + 1);
    if bytes.chunks(piece).try_for_each(|piece| reader.push(piece)).is_ok() {
        let _ = reader.finish();
    }
});
