//! A map of columns in the first line, and a table in the rest that is read by it.
#![no_main]

#[path = "../../crates/workload/tests/common/reads.rs"]
mod reads;

use libfuzzer_sys::fuzz_target;
use servelab_spec::traffic::ColumnMap;
use servelab_workload::trace::ReadOptions;

fuzz_target!(|bytes: &[u8]| {
    let at = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let (map, table) = bytes.split_at(at);
    let Ok(map) = std::str::from_utf8(map).map(ColumnMap::parse) else { return };
    let Ok(map) = map else { return };
    let options = ReadOptions { columns: Some(map), ..ReadOptions::default() };
    if let Ok(reading) = reads::read(table.get(1..).unwrap_or_default(), usize::MAX, options) {
        reads::play(reading.trace);
    }
});
