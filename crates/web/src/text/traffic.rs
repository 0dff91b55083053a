//! Sentences about the visitor's own traffic.

use crate::format::number;
use servelab_spec::traffic::Remark;

texts! {
    TRAFFIC = "Your own traffic";
    TRAFFIC_NOTE = "Which router for my requests? Open a log of them: Mooncake or Qwen-Bailian JSON lines, Azure, BurstGPT or any other CSV, a vLLM benchmark result, OpenTelemetry spans; plain or gzip. It stays on this device.";
    TRAFFIC_OPEN = "Open a file";
    TRAFFIC_DROP = "or drop it here";
    TRAFFIC_FORMAT = "Read as";
    TRAFFIC_RECOGNISED = "what it looks like";
    TRAFFIC_COLUMNS = "Which column is what?";
    TRAFFIC_NONE = "none";
    TRAFFIC_READ = "Read it like this";
    TRAFFIC_CANCEL = "Stop reading";
    TRAFFIC_COMPARE = "Compare routers on it";
    TRAFFIC_GENERATE = "Use a generator with its figures";
    TRAFFIC_FACTS = "What the file holds";
    TRAFFIC_REMARKS = "What reading met";
}

/// How far reading is.
pub(crate) fn traffic_progress(stage: &str, fraction: f64, requests: u32) -> String {
    let doing = if stage == "looking" { "Looking for what they share" } else { "Reading" };
    format!("{doing}: {:.0} %, {} requests", 100.0 * fraction, number(requests.into()))
}

/// A part of a table, for its label.
pub(crate) fn traffic_part(part: &str) -> &'static str {
    match part {
        "arrival" => "Arrival time",
        "unit" => "Unit of times",
        "prompt" => "Prompt tokens",
        "output" => "Output tokens",
        "session" => "Conversation",
        "tenant" => "Tenant",
        "prefix" => "Shared beginning",
        _ => "Its length",
    }
}

/// A remark as a line.
pub(crate) fn traffic_remark(remark: &Remark) -> String {
    let how = if remark.skipped { "left out" } else { "read all the same" };
    let found = if remark.found.is_empty() { String::new() } else { format!(" ({})", remark.found) };
    let many = number(remark.count as f64);
    format!("{many} × {}{found}, first in line {}: {how}; {}.", remark.what, remark.line, remark.advice)
}
