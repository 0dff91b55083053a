//! `sweep` and `merge` as built: shards merged are the whole, cores leave no trace, refusals say what would do.

#![allow(clippy::unwrap_used)]

mod common;

use common::{refused, text};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// A folder of the test's own, empty.
fn scratch(name: &str) -> PathBuf {
    let folder = common::scratch(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

const SMALL: [&str; 10] = [
    "sweep",
    "multi-tenant",
    "--set",
    "workload.requests=30",
    "--axis",
    "workload.rate=0.5..1.5*3",
    "--axis",
    "policies.2.params.guard_ratio=1.2,2",
    "--seeds",
    "2",
];

fn small(more: &[&str]) -> Vec<String> {
    SMALL.iter().chain(more).map(|arg| (*arg).to_owned()).collect()
}

fn run(args: Vec<String>) -> String {
    text(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn shards_merged_are_the_whole_whatever_the_number_of_jobs() {
    let folder = scratch("shards");
    let whole = run(small(&["--format", "json", "--jobs", "1"]));
    assert_eq!(run(small(&["--format", "json", "--jobs", "7"])), whole);
    assert_eq!(run(small(&["--format", "json"])), whole);
    let mut files: Vec<String> = Vec::new();
    for part in 1..=3 {
        let file = folder.join(format!("{part}.json")).display().to_string();
        // Longer than what comes: nothing of it may be left.
        std::fs::write(&file, "x".repeat(1 << 20)).unwrap();
        assert_eq!(run(small(&["--shard", &format!("{part}/3"), "--out", &file])), "");
        files.insert(0, file);
    }
    let mut merge = vec!["merge".to_owned()];
    merge.extend(files.clone());
    let merged = folder.join("merged.json").display().to_string();
    let mut into = merge.clone();
    into.extend(["--out".into(), merged.clone()]);
    assert_eq!(run(into), "");
    assert_eq!(std::fs::read_to_string(&merged).unwrap(), whole);
    // A result is a sweep, too: running it again gives it back, and a seed more makes more of it.
    assert_eq!(text(&["sweep", &merged, "--format", "json"]), whole);
    let more: Value = serde_json::from_str(&text(&["sweep", &merged, "--format", "json", "--seeds", "3"])).unwrap();
    assert_eq!(more["cells"].as_array().unwrap().len(), 18);
    merge.pop();
    let missing = refused(&merge.iter().map(String::as_str).collect::<Vec<_>>(), 2);
    assert!(missing.contains("4 of 12 cells are missing") && missing.contains("shard 1/3"), "{missing}");
    let other = folder.join("other.json").display().to_string();
    text(&[
        "sweep",
        "multi-tenant",
        "--set",
        "workload.requests=10",
        "--axis",
        "replicas=2",
        "--seeds",
        "1",
        "--out",
        &other,
    ]);
    let mixed = refused(&["merge", &files[0], &other], 2);
    assert!(mixed.contains("other.json: of another one"), "{mixed}");
}

#[test]
fn what_was_swept_stands_in_the_result() {
    let report: Value = serde_json::from_str(&run(small(&["--format", "json"]))).unwrap();
    assert_eq!(report["cells_total"], 12);
    assert_eq!(report["points"][5]["at"], serde_json::json!([1.5, 2.0]));
    assert_eq!(report["sweep"]["seeds"], 2);
    assert_eq!(report["policies"][2]["label"], "Prefix affinity");
    let cell = &report["cells"][0]["policies"][0];
    assert_eq!(cell["attempts"], 30.0);
    // A cell is what `run` says of that point and seed.
    let one = text(&[
        "run",
        "--preset",
        "multi-tenant",
        "--set",
        "workload.requests=30",
        "--set",
        "workload.rate=0.5",
        "--set",
        "policies=round_robin,least_tokens,prefix_affinity(guard_ratio=1.2)",
        "--format",
        "json",
    ]);
    let one: Value = serde_json::from_str(&one).unwrap();
    assert_eq!(cell["ttft_p95_s"], one["policies"][0]["ttft_s"]["p95"]);
    assert_eq!(report["cells"][0]["policies"][2]["reuse"], one["policies"][2]["reuse"]["ratio"]);
    let csv = run(small(&["--format", "csv"]));
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    assert_eq!(rows.records().map(Result::unwrap).count(), 6 * 3 * 3);
    let table = run(small(&[]));
    assert!(table.contains("6 points, 2 seeds from 7; 12 of 12 runs"), "{table}");
    assert!(table.contains("±") && table.contains("paired on the same arrivals"), "{table}");
    let single =
        text(&["sweep", "multi-tenant", "--set", "workload.requests=30", "--axis", "replicas=2", "--seeds", "1"]);
    assert!(!single.contains('±'), "one seed says nothing about noise: {single}");
}

#[test]
fn charts_are_written() {
    let folder = scratch("charts");
    let file = folder.join("map.svg").display().to_string();
    let svg = |args: &[&str]| {
        run(small(args));
        std::fs::read_to_string(&file).unwrap()
    };
    let map = svg(&["--chart", &format!("ttft_p95_s={file}"), "--policy", "2", "--against", "0"]);
    assert!(map.starts_with("<svg") && map.contains("Where does Prefix affinity differ from Round-robin in TTFT p95?"));
    let one = ["sweep", "multi-tenant", "--set", "workload.requests=30", "--axis", "replicas=1..4*4", "--seeds", "2"];
    let chart = format!("reuse={file}");
    text(&one.iter().copied().chain(["--chart", &chart]).collect::<Vec<_>>());
    assert!(std::fs::read_to_string(&file).unwrap().contains("How does reuse change with replicas?"));
    let with = |more: &[&str]| refused(&one.iter().chain(more).copied().collect::<Vec<_>>(), 2);
    assert!(with(&["--chart", "luck=x.svg"]).contains("ttft_p95_s"));
    assert!(with(&["--chart", "reuse"]).contains("FIGURE=FILE.svg"));
    assert!(with(&["--chart", "reuse=x.svg", "--policy", "3"]).contains("0 to 2"));
    assert!(with(&["--policy", "1"]).contains("--chart"), "a policy for maps that nobody draws");
}

#[test]
fn refusals_say_what_would_do_and_leave_with_status_2() {
    for (args, says) in [
        (vec!["sweep", "multi-tenant"], "--axis workload.rate=0.5..2*7"),
        (vec!["sweep"], "EXPERIMENT"),
        (vec!["sweep", "--preset", "no-such", "--axis", "replicas=1"], "presets are multi-tenant"),
        (vec!["sweep", "multi-tenant", "--preset", "book-trace", "--axis", "replicas=1"], "cannot be used with"),
        (vec!["sweep", "multi-tenant", "--axis", "replicas"], "KEY=FROM..TO*STEPS"),
        (vec!["sweep", "multi-tenant", "--axis", "workload.rate=1..2"], "KEY=FROM..TO*STEPS"),
        (vec!["sweep", "multi-tenant", "--axis", "workload.rte=1,2"], "workload.rate,"),
        (vec!["sweep", "multi-tenant", "--axis", "replicas=1,513"], "1 to 512"),
        (vec!["sweep", "multi-tenant", "--axis", "policies.2.params.guard_ratio=0.1"], "guard_ratio"),
        (vec!["sweep", "book-trace", "--axis", "workload.rate=1,2"], "workload.rate"),
        (vec!["sweep", "multi-tenant", "--axis", "seed=1,2"], "several seeds"),
        (vec!["sweep", "multi-tenant", "--axis", "replicas=1", "--seeds", "0"], "1 to 100"),
        (vec!["sweep", "multi-tenant", "--axis", "replicas=1", "--shard", "3/2"], "K/N"),
        (
            vec!["sweep", "multi-tenant", "--axis", "replicas=1", "--set", "execution.mode=tinygpt"],
            "execution.mode=priced",
        ),
        (vec!["merge"], "FILES"),
    ] {
        let message = refused(&args, 2);
        assert!(message.contains(says), "{args:?}: {message}");
    }
    let folder = scratch("refusals");
    let report = folder.join("report.json").display().to_string();
    std::fs::write(&report, text(&["run", "book-trace", "--format", "json"])).unwrap();
    assert!(refused(&["merge", &report], 2).contains("not the result of a sweep"));
    assert!(refused(&["merge", "/nowhere/at/all.json"], 1).contains("/nowhere/at/all.json"));
    let nowhere = ["sweep", "datacenter", "--axis", "replicas=100..200*50", "--out", "/nowhere/at/all.json"];
    let began = std::time::Instant::now();
    refused(&nowhere, 1);
    assert!(began.elapsed().as_secs() < 30, "found before the work: {:?}", began.elapsed());
}

#[test]
fn the_knee_is_found_on_any_number_of_cores() {
    let args = |more: &[&str]| {
        let all = ["knee", "--preset", "multi-tenant", "--set", "workload.requests=40", "--seeds", "2"];
        run(all.iter().chain(more).map(|arg| (*arg).to_owned()).collect())
    };
    let json = args(&["--format", "json", "--jobs", "1"]);
    assert_eq!(args(&["--format", "json", "--jobs", "4"]), json);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["policies"][0]["name"], "round_robin");
    let per_s = report["policies"][2]["per_s"]["mean"].as_f64().unwrap();
    assert_eq!(report["policies"][2]["per_replica_per_s"]["mean"].as_f64().unwrap(), per_s / 4.0);
    assert_eq!(report["trials"].as_array().unwrap().len(), 6);
    let table = args(&[]);
    assert!(table.contains("requests/s per replica") && table.contains("2 of 2 found it"), "{table}");
    assert!(table.contains("95 % of first tokens come within 1 s"), "{table}");
    let csv = args(&["--format", "csv"]);
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    let probes: usize =
        report["trials"].as_array().unwrap().iter().map(|t| t["probes"].as_array().unwrap().len()).sum();
    assert_eq!(rows.records().map(Result::unwrap).count(), 3 + probes);
    let never = text(&[
        "knee",
        "multi-tenant",
        "--set",
        "workload.requests=40",
        "--set",
        "slo.ttft_s=0.000001",
        "--seeds",
        "1",
    ]);
    assert!(never.contains("1 at no rate within the limits"), "{never}");
    assert!(refused(&["knee", "book-trace"], 2).contains("workload.rate"));
}

#[test]
fn shards_of_a_knee_are_merged_and_drawn() {
    let folder = scratch("knee-shards");
    let file = |name: &str| folder.join(name).display().to_string();
    let knee = |more: &[&str]| {
        let args =
            ["knee", "multi-tenant", "--set", "workload.requests=40", "--set", "policies=round_robin,least_tokens"];
        args.iter().chain(&["--seeds", "2"]).chain(more).map(|&arg| arg.to_owned()).collect::<Vec<_>>()
    };
    let chart = file("knee.svg");
    let whole = run(knee(&["--format", "json", "--chart", &chart]));
    let drawn = std::fs::read_to_string(&chart).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains("knee_goodput-title") && drawn.contains("knee_ttft_p95-title"));
    let parts = [file("1.json"), file("2.json")];
    for (at, part) in parts.iter().enumerate() {
        run(knee(&["--shard", &format!("{}/2", at + 1), "--out", part]));
    }
    assert_eq!(text(&["merge", &parts[1], &parts[0], "--format", "json"]), whole);
    let missing = refused(&["merge", &parts[0]], 2);
    assert!(missing.contains("2 of 4 trials are missing") && missing.contains("shard 2/2"), "{missing}");
    let table = run(knee(&[]));
    assert!(table.contains("requests/s per replica"), "{table}");
}

/// Lines of the README's code blocks in which the program is called, as they stand there.
fn calls() -> Vec<String> {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let blocks = readme.split("```").skip(1).step_by(2);
    let lines = blocks.flat_map(|block| block.lines().skip(1)).filter(|line| line.contains("servelab "));
    let lines =
        lines.filter(|line| ["sweep", "merge", "knee"].iter().any(|what| line.contains(&format!("servelab {what} "))));
    lines.map(str::to_owned).collect()
}

/// The experiments of the section on the gateway and clients, made small.
#[cfg(unix)]
#[test]
fn the_readmes_storms_run() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let section = readme.split("## The gateway and its clients").nth(1).unwrap().split("\n## ").next().unwrap();
    let lines: Vec<&str> = section.lines().filter(|line| line.starts_with("servelab run ")).collect();
    assert_eq!(lines.len(), 4);
    for line in lines {
        let small = line.replacen("servelab", env!("CARGO_BIN_EXE_servelab"), 1) + " --set workload.requests=300";
        let output = Command::new("sh").args(["-c", &small]).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The README's own commands, run by a shell with the outer tool replaced: what it would put in is put in, and runs are made small.
#[cfg(unix)]
#[test]
fn the_readmes_commands_do_what_it_says() {
    let folder = scratch("readme");
    let shell = |line: &str, env: &[(&str, &str)]| {
        // As in the tools' own folders; the volume of the pods is this one.
        let line = line.replace("/results/", "").replace("servelab sweep", "servelab sweep --set workload.requests=12");
        let line =
            line.replace("servelab knee", "servelab knee --set workload.requests=12").replace("--seeds 8", "--seeds 1");
        let line = line.replace("replicas=1..16^5", "replicas=1..2*2").replace("=0.1..1.2*8", "=0.1..1.2*2");
        let path = std::path::Path::new(env!("CARGO_BIN_EXE_servelab")).parent().unwrap().display().to_string();
        let path = format!("{path}:{}", std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command.args(["-c", &line]).current_dir(&folder).env("PATH", path).envs(env.iter().copied());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let file = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let (mut plain, mut parallel, mut slurm, mut pods) = (vec![], vec![], vec![], vec![]);
    for line in calls() {
        let of = if line.contains("SLURM") {
            &mut slurm
        } else if line.contains("JOB_COMPLETION_INDEX") {
            &mut pods
        } else if line.starts_with("parallel ") {
            &mut parallel
        } else {
            &mut plain
        };
        of.push(line);
    }
    assert_eq!((plain.len(), parallel.len(), slurm.len(), pods.len()), (5, 1, 1, 1));
    let (merge, plain): (Vec<String>, Vec<String>) = plain.into_iter().partition(|line| line.contains(" merge "));
    plain.iter().for_each(|line| shell(line, &[]));
    assert!(file("sweep.json").contains("\"cells_total\": 56"), "seven rates, two fleets, four seeds");
    assert!(file("map.svg").contains(">C ÷ A</text>"), "the map of metastability has its border");
    let merged = || {
        shell(&merge[0], &[]);
        file("sweep.json")
    };
    // What parallel runs is what stands between its options and the list.
    let (call, list) = parallel[0].split_once(" ::: ").unwrap();
    let call = &call[call.find("servelab ").unwrap()..];
    list.split_whitespace().for_each(|at| shell(&call.replace("{}", at), &[]));
    let first = merged();
    let clear = || (0..=4).for_each(|part| drop(std::fs::remove_file(folder.join(format!("part-{part}.json")))));
    clear();
    for at in ["1", "2", "3", "4"] {
        shell(&slurm[0], &[("SLURM_ARRAY_TASK_ID", at), ("SLURM_ARRAY_TASK_COUNT", "4")]);
    }
    assert_eq!(merged(), first);
    clear();
    for at in ["0", "1", "2", "3"] {
        shell(pods[0].trim().trim_start_matches("- "), &[("JOB_COMPLETION_INDEX", at)]);
    }
    // Pods count from 0, and so do their files.
    let files: Vec<String> =
        (0..4).map(|part| folder.join(format!("part-{part}.json")).display().to_string()).collect();
    let args: Vec<&str> =
        ["merge"].into_iter().chain(files.iter().map(String::as_str)).chain(["--format", "json"]).collect();
    assert_eq!(text(&args), first);
}
