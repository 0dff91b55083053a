//! What a file is, by its beginning.

use super::TraceFormat;
use super::problem::TraceError;

/// Bytes of the beginning that are looked at.
pub(super) const HEAD: usize = 64 << 10;

/// How gzip begins.
pub(super) const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Beginnings of what is often mistaken for a trace.
const MAGIC: [(&[u8], &str, &str); 9] = [
    (b"PAR1", "a Parquet file", "write it as CSV or JSON lines first"),
    (b"PK\x03\x04", "a zip archive", "unpack it and open what is in it"),
    (b"\x28\xb5\x2f\xfd", "zstd data", "unpack it with unzstd, or pack it with gzip"),
    (b"BZh", "bzip2 data", "unpack it with bunzip2, or pack it with gzip"),
    (b"\xfd7zXZ", "xz data", "unpack it with unxz, or pack it with gzip"),
    (b"SQLite format 3", "a SQLite database", "export the table as CSV"),
    (b"ARROW1", "an Arrow file", "write it as CSV or JSON lines first"),
    (b"%PDF", "a PDF", "a trace is text: JSON lines or CSV"),
    (
        b"version https://git-lfs",
        "a pointer to a file in Git LFS and not the file",
        "fetch it with git lfs pull, or download the file itself",
    ),
];

/// The beginning without its mark of UTF-8.
///
/// # Errors
/// When it is no text that can be read.
pub(super) fn text(head: &[u8]) -> Result<&[u8], TraceError> {
    if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
        return Err(TraceError::Utf16);
    }
    for (magic, what, advice) in MAGIC {
        if head.starts_with(magic) {
            return Err(TraceError::Binary { what, advice });
        }
    }
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let zeros = |odd: usize| head.iter().skip(odd).step_by(2).filter(|&&byte| byte == 0).count();
    let (even, odd) = (zeros(0), zeros(1));
    if even + odd > 0 {
        // Plain text in two bytes a character has a zero in every other place.
        let half = head.len() / 2;
        return if half > 1 && even.max(odd) * 10 > half * 9 && even.min(odd) * 10 < half {
            Err(TraceError::Utf16)
        } else {
            Err(TraceError::Binary { what: "a binary file", advice: "a trace is text: JSON lines or CSV" })
        };
    }
    if head.iter().all(u8::is_ascii_whitespace) {
        return Err(TraceError::Empty);
    }
    Ok(head)
}

/// The format of a text that begins like this.
///
/// # Errors
/// When it looks like none of them.
pub(super) fn format(head: &[u8]) -> Result<TraceFormat, TraceError> {
    let text = String::from_utf8_lossy(head);
    let skipped = text.len() - text.trim_start().len();
    let line = 1 + text[..skipped].matches('\n').count() as u64;
    let text = text.trim_start();
    // A line may end as on old Macs, in a carriage return alone.
    let first = text.split(['\n', '\r']).next().unwrap_or_default();
    let has = |name: &str| text.contains(&format!("\"{name}\""));
    if text.starts_with('{') {
        let known = [
            (has("chat_id") && has("hash_ids"), TraceFormat::Qwen),
            (has("hash_ids") || has("input_length"), TraceFormat::Mooncake),
            (has("resourceSpans") || text.contains("\"gen_ai.") || has("startTimeUnixNano"), TraceFormat::Otel),
            (has("input_lens") || has("num_prompts") || has("request_throughput"), TraceFormat::VllmBench),
        ];
        if let Some((_, format)) = known.into_iter().find(|(fits, _)| *fits) {
            return Ok(format);
        }
        return Err(unknown(line, first));
    }
    if text.starts_with('[') {
        let expected = "one object a line; jq -c '.[]' writes an array so";
        return Err(TraceError::Document { line, found: "this is a JSON array".into(), expected });
    }
    let names: Vec<String> =
        first.split([',', ';', '\t']).map(|name| name.trim().trim_matches('"').to_lowercase()).collect();
    let all = |wanted: &[&str]| wanted.iter().all(|name| names.iter().any(|found| found == name));
    if all(&["timestamp", "contexttokens", "generatedtokens"]) {
        return Ok(TraceFormat::Azure);
    }
    if all(&["timestamp", "request tokens", "response tokens"]) {
        return Ok(TraceFormat::BurstGpt);
    }
    // A row of names is words, not numbers.
    let named = names.len() >= 2 && names.iter().all(|name| !name.is_empty() && name.parse::<f64>().is_err());
    if named && !first.starts_with('<') { Ok(TraceFormat::Columns) } else { Err(unknown(line, first)) }
}

fn unknown(line: u64, first: &str) -> TraceError {
    let accepted = TraceFormat::ALL.map(TraceFormat::name).join(", ");
    TraceError::Unknown { line, found: first.chars().take(60).collect(), accepted }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn formats_are_told_by_their_first_line() {
        for (head, expected) in [
            (
                "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [0]}\n",
                TraceFormat::Mooncake,
            ),
            ("\n{\"chat_id\": 1, \"parent_chat_id\": -1, \"hash_ids\": [0]}\n", TraceFormat::Qwen),
            ("{\"resourceSpans\":[]}", TraceFormat::Otel),
            ("{\"name\":\"chat m\",\"attributes\":{\"gen_ai.usage.input_tokens\":3}}", TraceFormat::Otel),
            ("{\n \"date\": \"x\", \"num_prompts\": 3}", TraceFormat::VllmBench),
            ("TIMESTAMP,ContextTokens,GeneratedTokens\r\n", TraceFormat::Azure),
            ("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n", TraceFormat::BurstGpt),
            ("when;in;out\n1;2;3", TraceFormat::Columns),
            ("when,in,out\r1,2,3\r", TraceFormat::Columns),
        ] {
            assert_eq!(format(head.as_bytes()).unwrap(), expected, "{head}");
        }
        let array = format(b"\n [{\"timestamp\": 0}]").unwrap_err();
        assert!(matches!(array, TraceError::Document { line: 2, .. }) && array.to_string().contains("jq"), "{array}");
        for head in ["{\"a\":1}", "1,2,3\n", "hello", "<html>a,b</html>"] {
            assert!(matches!(format(head.as_bytes()), Err(TraceError::Unknown { line: 1, .. })), "{head}");
        }
    }

    #[test]
    fn what_is_no_text_is_told() {
        let utf16: Vec<u8> = "timestamp,in\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(text(&utf16), Err(TraceError::Utf16));
        assert_eq!(text(b"\xff\xfea\0"), Err(TraceError::Utf16));
        assert!(matches!(text(b"a,b\0\0\0c"), Err(TraceError::Binary { .. })));
        assert!(text(b"PAR1\x15").unwrap_err().to_string().contains("Parquet"));
        assert!(text(b"version https://git-lfs.github.com/spec/v1\n").unwrap_err().to_string().contains("LFS"));
        assert_eq!(text(b" \n\t"), Err(TraceError::Empty));
        assert_eq!(text(b"\xef\xbb\xbfa,b").unwrap(), b"a,b");
    }
}
