//! The small files, damaged a few thousand times by a seeded hand, in pieces of any size, packed or not: nothing panics, every failure says something, and
//! memory stays near what the file has. The longer hunt is `fuzz/`.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used)]

#[path = "common/reads.rs"]
mod reads;

use servelab_engine::random::Stream;
use servelab_spec::traffic::{ColumnMap, TraceFormat};
use servelab_workload::trace::{ReadOptions, Reader};
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Counts what is held.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it came; counting touches nothing of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Counts are of the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FILES: [&[u8]; 8] = [
    include_bytes!("data/mooncake.jsonl"),
    include_bytes!("data/qwen.jsonl"),
    include_bytes!("data/azure.csv"),
    include_bytes!("data/burst6.csv"),
    include_bytes!("data/burst8.csv"),
    include_bytes!("data/vllm.json"),
    include_bytes!("data/otel.jsonl"),
    include_bytes!("data/columns.csv"),
];

/// What numbers and structures are broken with.
const SPLINTERS: [&[u8]; 20] = [
    b"-1",
    b"1e309",
    b"NaN",
    b"-Infinity",
    b"99999999999999999999",
    b"0",
    b"null",
    b"\"",
    b"\n",
    b"\r\n",
    b",",
    b"{",
    b"]",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"1.5",
    b"[[[[[[[[",
    b"\"\"",
    b"2023-11-16 18:15:46.6805900",
];

/// Memory that reading anything of this size may take: 4 MiB for the line begun, and room for the rest.
const ROOM: usize = 8 << 20;

fn damaged(file: &[u8], draw: &mut Stream) -> Vec<u8> {
    let mut bytes = file.to_vec();
    for _ in 0..=draw.below(4) {
        let at = draw.below(bytes.len() as u64 + 1) as usize;
        let end = (at + draw.below(40) as usize).min(bytes.len());
        let splinter = SPLINTERS[draw.below(SPLINTERS.len() as u64) as usize];
        match draw.below(6) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => drop(bytes.splice(at..at, splinter.iter().copied())),
            3 => drop(bytes.splice(at..end, splinter.iter().copied())),
            4 => {
                let copy = bytes[at..end].repeat(draw.below(30) as usize);
                drop(bytes.splice(at..at, copy));
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << draw.below(8);
                }
            }
        }
    }
    bytes
}

#[test]
fn damaged_files_are_read_or_refused_and_never_more() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut read, mut refused) = (0, 0);
    for (number, file) in (0u64..).zip(FILES) {
        for round in 0..400 {
            let mut draw = Stream::new(20, b"mutations").split(number).split(round);
            let mut bytes = damaged(file, &mut draw);
            if draw.below(8) == 0 {
                let mut pack = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                pack.write_all(&bytes).unwrap();
                bytes = pack.finish().unwrap();
                if draw.below(2) == 0 {
                    bytes = damaged(&bytes, &mut draw);
                }
            }
            let formats = TraceFormat::ALL.len() as u64;
            let format = (draw.below(3) == 0).then(|| TraceFormat::ALL[draw.below(formats) as usize]);
            let columns = (draw.below(3) == 0)
                .then(|| ColumnMap::parse("arrival=when,prompt=tokens in,output=tokens out,prefix=about").unwrap());
            let piece = 1 + draw.below(300) as usize;
            let before = HELD.load(Ordering::Relaxed);
            MOST.store(before, Ordering::Relaxed);
            match reads::read(&bytes, piece, ReadOptions { format, columns, block_tokens: None }) {
                Ok(reading) => {
                    read += 1;
                    reads::play(reading.trace);
                }
                Err(_) => refused += 1,
            }
            let most = MOST.load(Ordering::Relaxed).saturating_sub(before);
            assert!(most < ROOM, "file {number}, round {round}: {most} bytes held");
        }
    }
    // Of either kind there are many, or the damage is not what it should be.
    assert!(read > 400 && refused > 400, "{read} read, {refused} refused");
}

/// What the fuzzer kept because it reached something new, each file read in every way that a target of `fuzz/` has.
#[test]
fn what_the_fuzzer_found_is_read_or_refused() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 20, "{} files", files.len());
    let (mut read, mut refused) = (0, 0);
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        let formats = TraceFormat::ALL.map(Some).into_iter().chain([None]);
        for (format, piece) in formats.flat_map(|format| [1, 100, usize::MAX].map(|piece| (format, piece))) {
            let before = HELD.load(Ordering::Relaxed);
            MOST.store(before, Ordering::Relaxed);
            match reads::read(&bytes, piece, ReadOptions { format, ..ReadOptions::default() }) {
                Ok(reading) => {
                    read += 1;
                    reads::play(reading.trace);
                }
                Err(_) => refused += 1,
            }
            let most = MOST.load(Ordering::Relaxed).saturating_sub(before);
            assert!(most < ROOM, "{} as {format:?}: {most} bytes held", file.display());
        }
    }
    assert!(read > 20 && refused > 20, "{read} read, {refused} refused");
}

/// A hundred megabytes in one line, and in one field: held never.
#[test]
fn a_file_without_ends_is_not_held() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (head, format) in [
        ("{\"hash_ids\": [", TraceFormat::Mooncake),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n\"", TraceFormat::Azure),
    ] {
        let before = HELD.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        let mut reader = Reader::new(ReadOptions { format: Some(format), ..ReadOptions::default() });
        reader.push(head.as_bytes()).unwrap();
        let piece = vec![b'1'; 1 << 20];
        let pushed = (0..100).try_for_each(|_| reader.push(&piece));
        assert!(pushed.and_then(|()| reader.finish().map(drop)).is_err());
        let most = MOST.load(Ordering::Relaxed) - before;
        assert!(most < 16 << 20, "{most} bytes held");
    }
}
