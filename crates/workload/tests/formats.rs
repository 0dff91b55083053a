//! Every format from a small file of its own, with the traps that each is known for; expected values are worked out by hand from the files.
#![allow(clippy::unwrap_used)]

use servelab_spec::traffic::{ColumnMap, TraceFormat};
use servelab_workload::trace::{Chain, ReadOptions, Reader, Reading, TraceError};
use std::io::Write;

const MOONCAKE: &[u8] = include_bytes!("data/mooncake.jsonl");
const QWEN: &[u8] = include_bytes!("data/qwen.jsonl");
const AZURE: &[u8] = include_bytes!("data/azure.csv");
const BURST6: &[u8] = include_bytes!("data/burst6.csv");
const BURST8: &[u8] = include_bytes!("data/burst8.csv");
const VLLM: &[u8] = include_bytes!("data/vllm.json");
const OTEL: &[u8] = include_bytes!("data/otel.jsonl");
const COLUMNS: &[u8] = include_bytes!("data/columns.csv");

fn try_read(bytes: &[u8], piece: usize, options: ReadOptions) -> Result<Reading, TraceError> {
    let mut reader = Reader::new(options);
    for piece in bytes.chunks(piece.max(1)) {
        reader.push(piece)?;
    }
    reader.finish()
}

fn read(bytes: &[u8]) -> Reading {
    try_read(bytes, usize::MAX, ReadOptions::default()).unwrap()
}

/// Milliseconds after the first, prompt, output.
fn rows(reading: &Reading) -> Vec<(u64, u32, u32)> {
    reading.trace.rows().iter().map(|row| (row.at.0 / 1_000_000, row.prompt, row.output)).collect()
}

/// Line, how often, left out, and the beginning of what it was.
fn remarks(reading: &Reading) -> Vec<(u64, u64, bool, &str)> {
    reading.remarks.iter().map(|of| (of.line, of.count, of.skipped, of.what.as_str())).collect()
}

fn columns() -> ReadOptions {
    let map = ColumnMap::parse("arrival=when,prompt=tokens in,output=tokens out,tenant=who,prefix=about").unwrap();
    ReadOptions { columns: Some(map), ..ReadOptions::default() }
}

#[test]
fn mooncake() {
    let reading = read(MOONCAKE);
    let trace = &reading.trace;
    assert_eq!((trace.format(), trace.block_tokens(), trace.sessions()), (TraceFormat::Mooncake, 512, 0));
    // The row of 2.9 s stands after that of 6 s in the file.
    let expected =
        [(0, 1100, 40), (0, 600, 12), (2900, 512, 4), (3000, 1024, 7), (3000, 1700, 9), (6000, 700, 4), (9000, 512, 3)];
    assert_eq!(rows(&reading), expected);
    // 0, 0 1, 0 1 2, 0 3, 0 1 4, 0 1 4 5: of the row with three keys for one block only the first counts.
    assert_eq!((trace.blocks(), trace.shared_blocks()), (6, 2));
    assert_eq!(
        remarks(&reading),
        [
            (6, 1, true, "output_length is negative"),
            (7, 1, true, "more than 2000000 tokens"),
            (8, 1, false, "fewer keys than the prompt has blocks"),
            (9, 1, false, "earlier than the row before"),
            (9, 1, false, "more keys than the prompt has blocks"),
            (10, 1, true, "timestamp is no number"),
            (11, 1, true, "output_length is missing"),
            (13, 1, true, "the line ends in the middle of its JSON"),
        ]
    );
    assert_eq!(reading.rows, 12);
}

#[test]
fn qwen() {
    let reading = read(QWEN);
    let trace = &reading.trace;
    assert_eq!(
        (trace.format(), trace.block_tokens(), trace.groups()),
        (TraceFormat::Qwen, 16, &["text".into(), "search".into()][..])
    );
    assert_eq!(rows(&reading), [(0, 40, 20), (386, 33, 5), (9136, 75, 8), (9886, 16, 2), (18886, 110, 3)]);
    // Turns of one conversation follow their parents; a parent that the file does not have begins one.
    let sessions: Vec<Option<u32>> = trace.rows().iter().map(|row| row.session).collect();
    assert_eq!(sessions, [Some(0), Some(1), Some(0), Some(2), Some(0)]);
    assert!(reading.remarks.is_empty(), "{:?}", reading.remarks);
    assert!(trace.rows().iter().all(|row| matches!(row.chain, Chain::Keys(_))));
}

#[test]
fn azure() {
    let reading = read(AZURE);
    let trace = &reading.trace;
    assert_eq!((trace.format(), trace.block_tokens(), trace.knows_sharing()), (TraceFormat::Azure, 0, false));
    // 18:15:50.9951690 − 18:15:46.6805900 = 4.314 579 0 s; midnight is 5 h 44 min 13.319 41 s later.
    assert_eq!(trace.rows()[1].at.0, 4_314_579_000);
    assert_eq!(trace.rows()[2].at.0, 20_653_319_410_000);
    assert_eq!(rows(&reading).iter().map(|row| (row.1, row.2)).collect::<Vec<_>>(), [(374, 44), (396, 109), (100, 7)]);
    assert_eq!(
        remarks(&reading),
        [
            (4, 1, true, "ContextTokens is not finite"),
            (5, 1, true, "TIMESTAMP is no time"),
            (6, 1, true, "another number of fields than names"),
        ]
    );
}

#[test]
fn burst_gpt_with_six_columns_and_with_eight() {
    let six = read(BURST6);
    assert_eq!((six.trace.format(), six.trace.sessions()), (TraceFormat::BurstGpt, 0));
    assert_eq!(rows(&six), [(0, 472, 18), (40_000, 1087, 230), (40_000, 417, 276)]);
    assert_eq!(six.trace.groups(), ["ChatGPT, Conversation log", "GPT-4, API log"]);
    assert_eq!(remarks(&six), [(5, 1, true, "no output"), (6, 1, true, "Response tokens is negative")]);
    let eight = read(BURST8);
    assert_eq!(rows(&eight), [(0, 100, 50), (30_000, 180, 40), (31_000, 30, 5), (90_000, 200, 10)]);
    // 180 ≥ 100 + 50 contains the turn before; 200 < 180 + 40 does not.
    let chains: Vec<Chain> = eight.trace.rows().iter().map(|row| row.chain).collect();
    assert_eq!(chains, [Chain::Stream(0), Chain::Stream(0), Chain::Own, Chain::Own]);
    assert!(eight.remarks.is_empty());
}

#[test]
fn vllm_results_one_after_the_other() {
    let reading = read(VLLM);
    assert_eq!(reading.trace.format(), TraceFormat::VllmBench);
    // The second result has no start times: two requests in four seconds, a second after the last of the first.
    assert_eq!(rows(&reading), [(0, 10, 5), (250, 20, 6), (1000, 40, 8), (2000, 7, 1), (4000, 8, 2)]);
    let kinds: Vec<(bool, &str)> = reading.remarks.iter().map(|of| (of.skipped, of.what.as_str())).collect();
    assert_eq!(kinds, [(true, "a request that failed"), (false, "the result has no start times")]);
    let totals = br#"{"num_prompts": 2, "duration": 1.0, "completed": 2}"#;
    let error = try_read(totals, 9, ReadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("--save-detailed"), "{error}");
    let uneven = br#"{"num_prompts": 2, "input_lens": [1, 2], "output_lens": [1]}"#;
    assert!(matches!(try_read(uneven, 9, ReadOptions::default()), Err(TraceError::Document { .. })));
}

#[test]
fn otel_spans_in_batches_and_alone() {
    let reading = read(OTEL);
    let trace = &reading.trace;
    assert_eq!(
        (trace.format(), trace.sessions(), trace.groups()),
        (TraceFormat::Otel, 1, &["a-model".into(), "b-model".into()][..])
    );
    // 18:15:46.680590 is 1 700 158 546.680 590 s; the first span of the file started 3.319 410 005 s later. A float would have lost the 5 ns.
    assert_eq!(trace.rows()[1].at.0, 3_319_410_005);
    assert_eq!(rows(&reading), [(0, 80, 12), (3319, 120, 30), (13_319, 60, 6)]);
    // 120 ≥ 80 + 12.
    assert_eq!(trace.rows()[1].chain, Chain::Stream(0));
    let kinds: Vec<&str> = reading.remarks.iter().map(|of| of.what.as_str()).collect();
    assert_eq!(kinds, ["a span that is no call of a model", "a request that failed"]);
}

#[test]
fn any_table_by_its_columns() {
    let reading = try_read(COLUMNS, usize::MAX, columns()).unwrap();
    let trace = &reading.trace;
    assert_eq!(trace.groups(), ["ann;bob", "carl"]);
    assert_eq!(rows(&reading), [(0, 100, 10), (750, 90, 5), (1000, 250, 20), (2000, 120, 7)]);
    // Prefixes by name, the first as long as the shortest prompt that has it.
    let chains: Vec<Chain> = trace.rows().iter().map(|row| row.chain).collect();
    assert_eq!(chains, [Chain::Prefix(0), Chain::Own, Chain::Prefix(0), Chain::Prefix(1)]);
    // The record of lines 6 and 7 is one; what follows is counted on.
    assert_eq!(
        remarks(&reading),
        [
            (4, 1, false, "earlier than the row before"),
            (8, 1, true, "prompt is not finite"),
            (9, 1, true, "prompt is no whole number")
        ]
    );
    assert_eq!(reading.columns, ["when", "tokens in", "tokens out", "who", "about"]);
    // Nobody said what columns mean, and these names do not.
    let error = try_read(COLUMNS, 7, ReadOptions::default()).unwrap_err();
    assert!(
        matches!(&error, TraceError::Columns { line: 1, missing: "arrival", columns } if columns.len() == 5),
        "{error}"
    );
    let wrong = ColumnMap { arrival: "wann".into(), ..ColumnMap::default() };
    let error = try_read(COLUMNS, 7, ReadOptions { columns: Some(wrong), ..ReadOptions::default() }).unwrap_err();
    assert!(error.to_string().contains("\"wann\"") && error.to_string().contains("tokens in"), "{error}");
}

#[test]
fn usual_names_of_columns_need_no_map() {
    let table = b"Timestamp_ms,Prompt Tokens,completion-tokens,conversation_id\n1500,10,2,x\n2500,20,3,y\n";
    let reading = read(table);
    assert_eq!(rows(&reading), [(0, 10, 2), (1000, 20, 3)]);
    assert_eq!(reading.map.unwrap().unit, "ms");
    assert_eq!(reading.trace.sessions(), 2);
}

/// An export that is indented, or wrapped in an array: refused with what makes lines of it.
#[test]
fn json_that_is_no_lines_is_told_how_to_become_so() {
    let row = "{\n \"timestamp\": 0,\n \"input_length\": 9,\n \"output_length\": 3,\n \"hash_ids\": [1]\n}\n";
    for (text, advice) in [(row.repeat(2), "jq -c ."), (format!("[{row}]"), "jq -c '.[]'")] {
        let error = try_read(text.as_bytes(), 11, ReadOptions::default()).unwrap_err().to_string();
        assert!(error.contains(advice), "{error}");
    }
    let row =
        |keys: &str| format!("{{\"timestamp\":0,\"input_length\":600,\"output_length\":3,\"hash_ids\":{keys}}}\n");
    let text: String = ["[-1,2]", "[1,1.5]", "\"x\"", "null"].map(row).concat();
    let reading = read(text.as_bytes());
    assert_eq!(remarks(&reading), [(2, 2, true, "hash_ids is no list of whole numbers")]);
    assert_eq!(reading.trace.rows().len(), 2);
}

/// As some spreadsheets on old Macs save it: lines end in a carriage return alone, and are counted all the same.
#[test]
fn lines_may_end_in_a_carriage_return() {
    let table = b"ts,prompt_tokens,output_tokens\r0,10,5\r1,-1,5\r\r2,20,5\r3,30,x";
    for piece in [1, 2, 5, usize::MAX] {
        let reading = try_read(table, piece, ReadOptions::default()).unwrap();
        assert_eq!(rows(&reading), [(0, 10, 5), (2000, 20, 5)]);
        let expected = [(3, 1, true, "prompt is negative"), (6, 1, true, "output is no number")];
        assert_eq!(remarks(&reading), expected, "pieces of {piece}");
    }
}

/// Times since 1970 in milliseconds under a name that says nothing of units: no year that anybody logs, and said with what to do.
#[test]
fn milliseconds_that_are_taken_for_seconds_are_refused() {
    let table = b"timestamp,prompt_tokens,output_tokens\n1700158546680,10,5\n1700158547680,10,5\n";
    let error = try_read(table, 9, ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("of 2 rows") && error.contains("year 2262") && error.contains("unit=ms"), "{error}");
    let map = ColumnMap { unit: "ms".into(), ..ColumnMap::default() };
    let said = try_read(table, 9, ReadOptions { columns: Some(map), ..ReadOptions::default() }).unwrap();
    assert_eq!((rows(&said), said.remarks.len()), (vec![(0, 10, 5), (1000, 10, 5)], 0));
}

#[test]
fn pieces_of_any_size_give_the_same_trace() {
    let files: [(&[u8], ReadOptions); 8] = [
        (MOONCAKE, ReadOptions::default()),
        (QWEN, ReadOptions::default()),
        (AZURE, ReadOptions::default()),
        (BURST6, ReadOptions::default()),
        (BURST8, ReadOptions::default()),
        (VLLM, ReadOptions::default()),
        (OTEL, ReadOptions::default()),
        (COLUMNS, columns()),
    ];
    for (bytes, options) in files {
        let whole = try_read(bytes, usize::MAX, options.clone()).unwrap();
        for piece in [1, 2, 3, 7, 64, 1000] {
            let pieces = try_read(bytes, piece, options.clone()).unwrap();
            assert_eq!(
                (pieces.trace.name(), &pieces.remarks),
                (whole.trace.name(), &whole.remarks),
                "pieces of {piece}"
            );
        }
        // Packed, in several members, it is the same file.
        let mut packed = Vec::new();
        for part in bytes.chunks(bytes.len() / 2 + 1) {
            let mut pack = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            pack.write_all(part).unwrap();
            packed.extend(pack.finish().unwrap());
        }
        for piece in [1, 100, usize::MAX] {
            let unpacked = try_read(&packed, piece, options.clone()).unwrap();
            assert_eq!((unpacked.trace.name(), &unpacked.remarks), (whole.trace.name(), &whole.remarks));
        }
        let cut = try_read(&packed[..packed.len() - 9], 100, options.clone());
        assert!(matches!(cut, Err(TraceError::Gzip(_))), "{cut:?}");
        // A mark of UTF-8 is no part of the text.
        let marked = [b"\xef\xbb\xbf", bytes].concat();
        assert_eq!(try_read(&marked, 100, options).unwrap().trace.name(), whole.trace.name());
    }
}

/// Another format than the file has: it is read as was said, and fails as that.
#[test]
fn a_format_can_be_overruled() {
    let options = ReadOptions { format: Some(TraceFormat::Mooncake), ..ReadOptions::default() };
    let as_mooncake = try_read(QWEN, 50, options.clone()).unwrap();
    // 61.114 ms instead of seconds.
    assert_eq!(as_mooncake.trace.rows()[1].at.0, 386_000);
    let error = try_read(AZURE, 50, options).unwrap_err();
    assert!(matches!(&error, TraceError::Nothing { rows: 7, first: Some(_) }), "{error:?}");
    assert!(error.to_string().contains("line 1") && error.to_string().contains("JSON"), "{error}");
}

#[test]
fn a_bomb_is_refused_and_an_ordinary_file_is_not() {
    let mut pack = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![b' '; 1 << 20];
    pack.write_all(b"{\"hash_ids\": 1}\n").unwrap();
    (0..200).for_each(|_| pack.write_all(&zeros).unwrap());
    let packed = pack.finish().unwrap();
    let error = try_read(&packed, 1 << 16, ReadOptions::default()).unwrap_err();
    assert!(matches!(error, TraceError::Bomb { unpacked, .. } if unpacked < 110 << 20), "{error}");
}

#[test]
fn an_open_quote_is_told_where_it_begins() {
    let mut table = b"timestamp,prompt_tokens,output_tokens\n1,2,3\n2,\"4,5\n".to_vec();
    (0..200_000).for_each(|_| table.extend_from_slice(b"1,2,3\n"));
    let error = try_read(&table, 4096, ReadOptions::default()).unwrap_err();
    assert!(matches!(error, TraceError::TooLong { line: 3, .. }), "{error}");
}

#[test]
fn after_a_failure_every_call_says_the_same() {
    let mut reader = Reader::new(ReadOptions { format: Some(TraceFormat::Azure), ..ReadOptions::default() });
    let error = reader.push(&[b"a,b\n".to_vec(), vec![b'x'; 70_000]].concat()).err();
    assert!(matches!(error, Some(TraceError::NoColumn { line: 1, .. })), "{error:?}");
    assert_eq!(reader.push(b"more").err(), error);
    assert_eq!(reader.finish().err(), error);
}
