//! `servelab inspect` and `servelab replay`, as somebody types them.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn servelab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_servelab")).args(args).output().unwrap()
}

fn said(args: &[&str]) -> String {
    let output = servelab(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(args: &[&str]) -> (i32, String) {
    let output = servelab(args);
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn data(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../workload/tests/data");
    Path::new(folder).join(name).to_str().unwrap().to_owned()
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn a_file_is_looked_at() {
    let text = said(&["inspect", &data("mooncake.jsonl")]);
    for part in [
        "Mooncake JSON lines",
        "Every request shares block 0",
        "5 of 12 rows were left out",
        "first in line 13",
        "left out",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let chart = scratch("rate.svg");
    let draw = format!("traffic_rate={}", chart.display());
    let json = said(&["inspect", &data("qwen.jsonl"), "--format", "json", "--chart", &draw]);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&value["traffic"]["requests"], &value["traffic"]["sessions"]["count"]), (&5.into(), &3.into()));
    assert_eq!(value["spec"]["workload"]["trace"], value["traffic"]["trace"]);
    assert!(std::fs::read_to_string(chart).unwrap().starts_with("<svg"));
    // What was inspected is an experiment.
    let spec = scratch("inspected.json");
    std::fs::write(&spec, &json).unwrap();
    let report = said(&["run", spec.to_str().unwrap(), "--trace", &data("qwen.jsonl"), "--format", "json"]);
    assert!(report.contains("\"finished\": 5"), "{report}");
    let (status, message) = refused(&["run", spec.to_str().unwrap(), "--trace", &data("mooncake.jsonl")]);
    assert!(status == 2 && message.contains("the experiment replays"), "{message}");
    let (status, message) = refused(&["run", spec.to_str().unwrap()]);
    assert!(status == 2 && message.contains("workload.trace") && message.contains("--trace FILE"), "{message}");
}

#[test]
fn a_file_is_replayed_under_any_policy() {
    let args =
        ["replay", &data("burst8.csv"), "--policy", "round_robin,least_requests", "--set", "replicas=2", "--seed", "5"];
    let table = said(&args);
    assert!(table.contains("4 requests of BurstGPT CSV on 2 replicas") && table.contains("Round-robin"), "{table}");
    let json = |args: &[&str]| said(&[args, &["--format", "json"]].concat());
    let report = json(&args);
    assert_eq!(report, json(&args), "the same bytes");
    assert!(report.contains("\"least_requests\"") && report.contains("\"finished\": 4"), "{report}");
    // As any other experiment's workload.
    let run = json(&[
        "run",
        "datacenter",
        "--trace",
        &data("burst8.csv"),
        "--set",
        "workload.speed=10",
        "--set",
        "policies=round_robin",
    ]);
    assert!(run.contains("\"speed\": 10"), "{run}");
}

#[test]
fn tables_are_read_by_their_columns() {
    let (status, message) = refused(&["inspect", &data("columns.csv")]);
    assert!(status == 1 && message.contains("tokens in") && message.contains("arrival=…"), "{message}");
    let text = said(&[
        "inspect",
        &data("columns.csv"),
        "--columns",
        "arrival=when,prompt=tokens in,output=tokens out,tenant=who",
    ]);
    assert!(text.contains("columns arrival=when,") && text.contains("carl 75 %"), "{text}");
    for (args, part) in [
        (["--columns", "when=arrival"], "PART=COLUMN"),
        (["--trace-format", "parquet"], "burst_gpt"),
        (["--chart", "rate=x.svg"], "traffic_rate"),
        (["--format", "csv"], "table, markdown or json"),
    ] {
        let (status, message) = refused(&["inspect", &data("qwen.jsonl"), args[0], args[1]]);
        assert!(status == 2 && message.contains(part), "{message}");
    }
    let (status, message) = refused(&["inspect", &data("no such file")]);
    assert!(status == 1 && message.contains("no such file"), "{message}");
}

/// A recorded file as a workload of the search for the knee: played faster, stated in requests/s and per replica, or refused where it is too short.
#[test]
fn a_trace_has_a_knee() {
    let file = scratch("knee.csv");
    let rows: String = (0..300).map(|at| format!("{},{},20\n", at * 7 + at * at % 5, 200 + at * 37 % 400)).collect();
    std::fs::write(&file, format!("ts,prompt_tokens,output_tokens\n{rows}")).unwrap();
    let search = |more: &[&'static str]| {
        let file = file.to_str().unwrap();
        let fleet = ["replicas=2", "policies=round_robin", "slo.ttft_s=0.05", "slo.itl_s=0.02"];
        let sets = fleet.into_iter().flat_map(|set| ["--set", set]);
        let args: Vec<&str> = ["knee", "datacenter", "--trace", file, "--seeds", "1"].into_iter().chain(sets).collect();
        [&args[..], more].concat()
    };
    let said_json = |args: &[&str]| serde_json::from_str::<serde_json::Value>(&said(args)).unwrap();
    let report = said_json(&search(&["--format", "json"]));
    let knee = |of: &str| report["policies"][0][of]["mean"].as_f64().unwrap();
    assert_eq!(knee("per_s"), 2.0 * knee("per_replica_per_s"));
    assert_eq!(report["trials"][0]["probes"][0]["requests"], 300);
    let table = said(&search(&[]));
    assert!(table.contains("requests/s per replica") && table.contains("played at another speed"), "{table}");
    // Whatever speed it had: only the rate counts.
    let faster = said_json(&search(&["--format", "json", "--set", "workload.speed=50"]));
    assert_eq!(faster["policies"][0]["per_s"], report["policies"][0]["per_s"]);
    let (status, message) = refused(&["knee", "datacenter", "--trace", &data("burst8.csv")]);
    assert!(status == 2 && message.contains("too short for a knee"), "{message}");
}
