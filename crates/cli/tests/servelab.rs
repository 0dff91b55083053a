//! The built program: what it prints, writes and refuses.

#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use serde_json::Value;

#[test]
fn a_run_is_the_same_to_the_byte() {
    let args = ["run", "book-trace", "--seed", "9", "--format", "json"];
    let first = text(&args);
    assert_eq!(text(&args), first);
    let report: Value = serde_json::from_str(&first).unwrap();
    let policies = report["policies"].as_array().unwrap();
    assert_eq!(policies[0]["name"], "round_robin");
    assert_eq!(policies[0]["reuse"]["hit_tokens"], 2464);
    assert_eq!(policies[0]["reuse"]["prompt_tokens"], 10_476);
    assert_eq!(policies[2]["reuse"]["hit_tokens"], 7424);
    assert!(policies[0]["ttft_s"]["p50"].as_f64().unwrap() > 0.0);
    assert_eq!(report["spec"]["seed"], 9);
    // A report is a spec, too: running it again gives it back.
    let file = scratch("report.json");
    std::fs::write(&file, &first).unwrap();
    assert_eq!(text(&["run", file.to_str().unwrap(), "--format", "json"]), first);
}

#[test]
fn settings_and_addresses_are_understood() {
    let set = text(&[
        "run",
        "multi-tenant",
        "--set",
        "workload.requests=20",
        "--set",
        "policies=round_robin,prefix_affinity(guard=0)",
        "--format",
        "json",
    ]);
    let address =
        "http://localhost/#v=1&preset=multi-tenant&policies=round_robin,prefix_affinity(guard=0)&workload.requests=20";
    assert_eq!(text(&["run", address, "--format", "json"]), set);
    let report: Value = serde_json::from_str(&set).unwrap();
    assert_eq!(report["policies"].as_array().unwrap().len(), 2);
    assert_eq!(report["workload"]["requests"], 20);
}

/// What the page offers to copy, given to a shell as it stands.
#[test]
fn the_pages_command_gives_the_pages_bytes() {
    use servelab_spec::experiment::PolicySpec;
    use servelab_spec::{command, patch, wire};
    let base = servelab_lab::presets::find("multi-tenant").unwrap().spec;
    let script = "fn route(request, replicas) { // it's \"mine\" & 100 % $HOME\n    replicas[0].id\n}";
    let mut spec = patch::set(&base, "workload.requests", "30").unwrap();
    spec.policies = vec![PolicySpec::named("round_robin"), PolicySpec::scripted(script)];
    let mut session = servelab_lab::Session::new(spec.clone()).unwrap();
    while !session.advance(u32::MAX).unwrap().done {}
    let expected = wire::to_pretty(&session.report()).unwrap() + "\n";
    let line = format!("{} --format json", command::run(&spec, &base));
    let shell = format!("servelab() {{ '{}' \"$@\"; }}\n{line}", env!("CARGO_BIN_EXE_servelab"));
    let output = std::process::Command::new("sh").arg("-c").arg(shell).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8(output.stdout).unwrap() == expected, "{line}");
}

#[test]
fn tables_and_rows_say_the_same() {
    let table = text(&["run", "book-trace"]);
    assert!(table.contains("Round-robin") && table.contains("23.5 %") && table.contains("70.9 %"), "{table}");
    assert!(table.contains("gave first tokens soonest"));
    let csv = text(&["run", "book-trace", "--format", "csv"]);
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    let column = |name: &str, head: &csv::StringRecord| head.iter().position(|cell| cell == name).unwrap();
    let head = rows.headers().unwrap().clone();
    let (tenant, hits) = (column("tenant", &head), column("reuse.hit_tokens", &head));
    let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
    // Four policies with six tenants each.
    assert_eq!(rows.len(), 4 * 7);
    let whole: Vec<&str> = rows.iter().filter(|row| row[tenant].is_empty()).map(|row| &row[hits]).collect();
    assert_eq!((whole[0], whole[2]), ("2464", "7424"));
    let parts: u64 = rows.iter().take(7).skip(1).map(|row| row[hits].parse::<u64>().unwrap()).sum();
    assert_eq!(parts, 2464);
}

/// The cell of the row that starts with `label` under the first column called `head`; columns stand at least two blanks apart.
fn cell(table: &str, label: &str, head: &str) -> Option<String> {
    let split = |line: &str| {
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(String::from).collect::<Vec<_>>()
    };
    let heads = split(table.lines().find(|line| line.starts_with("policy"))?);
    let row = split(table.lines().find(|line| line.starts_with(label))?);
    assert_eq!(heads.len(), row.len(), "{table}");
    heads.iter().position(|cell| cell == head).map(|at| row[at].clone())
}

#[test]
fn what_has_no_value_is_a_dash_and_refusals_have_a_column() {
    let nobody = text(&["run", "multi-tenant", "--set", "engine.blocks=1"]);
    for head in ["TTFT p50", "p95", "p99", "ITL p50", "reuse", "imbalance", "of work"] {
        assert_eq!(cell(&nobody, "Round-robin", head).unwrap(), "–", "{head}\n{nobody}");
    }
    assert_eq!(cell(&nobody, "Round-robin", "refused").unwrap(), "300");
    assert!(nobody.contains("No request was served: "), "{nobody}");
    let some = text(&["run", "multi-tenant", "--set", "engine.blocks=28"]);
    let report = text(&["run", "multi-tenant", "--set", "engine.blocks=28", "--format", "json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let rejected = report["policies"][2]["requests"]["rejected"].as_u64().unwrap();
    assert_eq!(cell(&some, "Prefix affinity", "refused").unwrap(), rejected.to_string());
    assert_ne!(cell(&some, "Prefix affinity", "TTFT p50").unwrap(), "–");
    assert_eq!(cell(&text(&["run", "book-trace"]), "Round-robin", "refused"), None);
}

/// The row of `table` that starts with `label`, below the head that starts with `head`.
fn under<'a>(table: &'a str, head: &str, label: &str) -> Vec<&'a str> {
    let rows = table.lines().skip_while(|line| !line.starts_with(head)).skip(2);
    let row = rows.take_while(|line| !line.is_empty()).find(|line| line.starts_with(label));
    row.unwrap_or_default().split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

#[test]
fn a_storm_has_tables_of_clients_and_of_where_the_capacity_went() {
    let table = text(&["run", "retry-storm"]);
    let (tables, _) = table.split_once("\nRefused were ").unwrap();
    assert!(tables.lines().all(|line| line.chars().count() <= 120), "{tables}");
    assert!(table.starts_with("retry-storm, seed 7: 3000 requests of 1 tenant at 60/s on 1 replica; "), "{table}");
    let report: Value = serde_json::from_str(&text(&["run", "retry-storm", "--format", "json"])).unwrap();
    for policy in report["policies"].as_array().unwrap() {
        let (label, of) = (policy["label"].as_str().unwrap(), &policy["clients"]);
        let label: String = label.chars().take(24).collect();
        let clients = under(&table, "clients ", &label);
        let number = |value: &Value| value.as_u64().unwrap().to_string();
        let in_time = policy["ttft_s"]["n"].as_u64().unwrap() - policy["goodput"]["ttft_misses"].as_u64().unwrap();
        assert_eq!(clients[1], format!("{:.2}", of["amplification"].as_f64().unwrap()), "{table}");
        assert_eq!(clients[2..5], [in_time.to_string(), number(&of["gave_up"]), number(&of["waiting"])], "{table}");
        let refused: u64 = (policy["refusals"].as_array().unwrap().iter())
            .filter(|refusal| refusal["code"] == 503)
            .map(|refusal| refusal["attempts"].as_u64().unwrap())
            .sum();
        assert!(clients.contains(&refused.to_string().as_str()), "{refused}: {table}");
        let capacity = under(&table, "capacity ", &label);
        assert_eq!(capacity.len(), 9, "{table}");
        assert!(capacity[3..].iter().all(|share| share.ends_with(" %")), "{table}");
    }
    assert!(table.contains("the replica's queue is full"), "{table}");
}

#[test]
fn gateways_and_classes_have_rows() {
    let table = text(&["run", "batch-beside-interactive", "--set", "workload.requests=300"]);
    let (people, held) =
        (under(&table, "classes ", "Least outstanding"), under(&table, "gateway ", "Least outstanding"));
    assert_eq!((people[1], held.len()), ("interactive", 5), "{table}");
    let of_clients = text(&["run", "retry-storm", "--set", "clients.on=off"]);
    assert!(!of_clients.contains("\nclients ") && of_clients.contains("Least outstanding"), "{of_clients}");
}

#[test]
fn options_are_typed_by_name_and_faults_named_as_typed() {
    let run =
        |list: &str| vec!["run".to_owned(), "retry-storm".into(), "--set".into(), format!("clients.policies={list}")];
    let table = text(&run("openai_sdk(jitter=full,attempts=5)").iter().map(String::as_str).collect::<Vec<_>>());
    assert!(table.contains("OpenAI SDK (attempts 5, jitter"), "{table}");
    let said = refused(&run("openai_sdk,nobody").iter().map(String::as_str).collect::<Vec<_>>(), 2);
    assert!(said.contains("clients.policies.1") && said.contains("full_jitter"), "{said}");
}

#[test]
fn charts_are_written() {
    let file = scratch("ttft.svg");
    let chart = format!("ttft_cdf={}", file.display());
    text(&["run", "book-trace", "--chart", &chart, "--chart-size", "500x300", "--dark"]);
    let svg = std::fs::read_to_string(&file).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("width=\"500\" height=\"300\"") && svg.contains("Round-robin"));
    // Nothing is left of a longer file that stood there.
    std::fs::write(&file, "x".repeat(1 << 20)).unwrap();
    text(&["run", "book-trace", "--chart", &chart, "--chart-size", "500x300", "--dark"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), svg);
    if cfg!(unix) {
        text(&["run", "book-trace", "--chart", "ttft_cdf=/dev/null"]);
    }
}

#[test]
fn lists_are_complete() {
    let all = text(&["list"]);
    for name in [
        "book-trace",
        "multi-tenant",
        "prefix_affinity",
        "guard_ratio",
        "openai_sdk",
        "tinygpt_wasm",
        "workload.rate",
        "ttft_cdf",
    ] {
        assert!(all.contains(name), "{name}");
    }
    assert!(text(&["list", "policies"]).contains("round_robin"));
    let catalog: Value = serde_json::from_str(&text(&["catalog"])).unwrap();
    assert_eq!(catalog["version"], 1);
    let presets: Value = serde_json::from_str(&text(&["list", "presets", "--format", "json"])).unwrap();
    assert_eq!(catalog["presets"], presets);
}

#[test]
fn refusals_say_what_would_do_and_leave_with_status_2() {
    let long = "a".repeat(5000);
    for (args, says) in [
        (vec!["run", "no-such"], "presets are multi-tenant"),
        (vec!["run", "book-trace", "--set", "workload.rate=12"], "workload.rate"),
        (vec!["run", "multi-tenant", "--set", "workload.rate"], "KEY=VALUE"),
        (vec!["run", "multi-tenant", "--set", "replicas=0"], "from 1 to 512"),
        (vec!["run", "multi-tenant", "--set", "policies=psychic"], "round_robin"),
        (vec!["run", "multi-tenant", "--set", "execution.coefficients.step_us=5"], "add execution.cost=custom"),
        (vec!["run", "multi-tenant", "--set", "execution.cost=abacus"], "tinygpt_wasm"),
        (vec!["run", "multi-tenant", "--set", "policies=prefix_affinity(guard=7)"], "guard"),
        (vec!["run", "multi-tenant", "--seed", "9007199254740992"], "seed"),
        (vec!["run", "multi-tenant", "--chart", "pie=x.svg"], "ttft_over_time"),
        (vec!["run", "multi-tenant", "--chart", "ttft_cdf"], "ID=FILE.svg"),
        (vec!["run", "multi-tenant", "--chart", "ttft_cdf=x.svg", "--chart-size", "9"], "960x480"),
        (vec!["run", "#v=1&preset=multi-tenant&replicas=many"], "replicas"),
        (vec!["run", "multi-tenant", "--record", "x.json"], "real model"),
        (vec!["run", &long], "no such preset"),
        (vec!["list", "--format", "csv"], "table, markdown or json"),
        (vec!["fly"], "unrecognized subcommand"),
        (vec!["run"], "EXPERIMENT"),
    ] {
        let message = refused(&args, 2);
        assert!(message.contains(says), "{args:?}: {message}");
    }
    let file = scratch("broken.json");
    std::fs::write(&file, "{\"version\": 99}").unwrap();
    assert!(refused(&["run", file.to_str().unwrap()], 2).contains("newer ServeLab"));
    std::fs::write(&file, "{").unwrap();
    refused(&["run", file.to_str().unwrap()], 2);
    // A folder that is not there is no fault of the request.
    let nowhere = "ttft_cdf=/nowhere/at/all.svg";
    assert!(refused(&["run", "book-trace", "--chart", nowhere], 1).contains("/nowhere/at/all.svg"));
    // It is found before the run: this one would take minutes.
    let began = std::time::Instant::now();
    refused(&["run", "datacenter", "--set", "workload.requests=500000", "--chart", nowhere], 1);
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
}

#[cfg(not(feature = "tinygpt"))]
#[test]
fn without_the_model_it_says_how_to_get_it() {
    assert!(refused(&["run", "book-trace", "--set", "execution.mode=tinygpt"], 2).contains("--features tinygpt"));
}

/// The real model on this machine's CPU: the exact figures, its text, and a record.
#[cfg(feature = "tinygpt")]
#[test]
fn the_real_model_reuses_the_same() {
    let file = scratch("record.json");
    let record = file.to_str().unwrap();
    let report = text(&[
        "run",
        "book-trace",
        "--set",
        "execution.mode=tinygpt",
        "--set",
        "execution.model=small",
        "--format",
        "json",
        "--record",
        record,
    ]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["policies"][0]["reuse"]["hit_tokens"], 2464);
    assert_eq!(report["policies"][2]["reuse"]["hit_tokens"], 7424);
    assert_eq!(report["cost"]["source"], "fitted");
    assert!(report["cost"]["prediction"]["total_ratio"].as_f64().unwrap() > 0.0);
    assert!(std::fs::metadata(&file).unwrap().len() > 10_000);
}

#[test]
fn a_policy_of_ones_own_runs_and_says_where_it_goes_wrong() {
    let file = scratch("mine.rhai");
    let path = file.to_str().unwrap();
    let run = |text: &str| {
        std::fs::write(&file, text).unwrap();
        [
            "run",
            "multi-tenant",
            "--set",
            "workload.requests=20",
            "--set",
            "policies=round_robin",
            "--script",
            path,
            "--format",
            "json",
        ]
    };
    let script = "// Mine\nfn route(request, replicas) { hash(request.tenant) % replicas.len() }";
    let report: Value = serde_json::from_str(&text(&run(script))).unwrap();
    assert_eq!(report["policies"][1]["name"], "script");
    assert_eq!(report["policies"][1]["label"], "Mine");
    assert_eq!(report["spec"]["policies"][1]["script"], script);
    let failing = "state.n = 0;\nfn route(request, replicas) {\n  state.n += 1;\n  0 / max(5 - state.n, 0)\n}";
    let said = refused(&run(failing), 1);
    assert!(said.contains("policies.1.script: line 4: Division by zero"), "{said}");
    let said = refused(&run("fn route(request, replicas) {\n  let = 1;\n}"), 2);
    assert!(said.contains("policies.1.script: line 2 ("), "{said}");
    let said = refused(&run("// nothing"), 2);
    assert!(said.contains("policies.1.script") && said.contains("fn route(request, replicas)"), "{said}");
    std::fs::write(&file, "x".repeat(20_000)).unwrap();
    assert!(refused(&["run", "multi-tenant", "--script", path], 2).contains("16384 bytes"));
    let mut tiers = run("fn route(request, replicas) { replicas[0].waiting; replicas[0].id }").to_vec();
    assert!(refused(&tiers, 1).contains("a replica's waiting is polled, and this script declares local"));
    tiers.extend(["--script-tier", "1"]);
    text(&tiers);
    assert!(text(&["list", "script"]).contains("replica.cached_tokens"));
}

/// The published cold start, what an optimisation does to it, and a startup probe that never lets it live.
#[test]
fn cold_starts_are_told_stage_by_stage() {
    let table = text(&["coldstart"]);
    assert!(table.contains("4 min 54 s") && table.contains("tensorfuse"), "{table}");
    assert!(table.contains("70B, 4 bits") && table.contains("Fewer graph sizes"), "{table}");
    let json = |args: &[&str]| -> Value {
        let args = [&["coldstart"], args, &["--format", "json"]].concat();
        serde_json::from_str(&text(&args)).unwrap()
    };
    let serves = |args: &[&str]| json(args)["serves_s"].as_f64().unwrap();
    let bare = serves(&["l40s_8b"]);
    assert!((serves(&["l40s_8b", "--set", "startup.few_graphs=on"]) - (bare - 47.0)).abs() < 1e-6);
    assert!(bare / serves(&["l40s_8b", "--set", "startup.bits=4"]) < 1.5);
    let together = json(&["l40s_8b", "--together", "4"]);
    assert!(together["together_s"].as_f64().unwrap() > bare + 180.0);
    let file = scratch("deployment.yaml");
    let manifest = ["--manifest", file.to_str().unwrap()];
    let killed = json(&[&["h100_70b", "--set", "startup.probes.startup.on=on"], &manifest[..]].concat());
    assert_eq!(killed["fate"], "killed_for_ever");
    let manifest = std::fs::read_to_string(&file).unwrap();
    assert!(manifest.contains("startupProbe:") && manifest.contains("failureThreshold: 3"), "{manifest}");
    assert!(refused(&["coldstart", "warm"], 2).contains("l40s_8b_cached"));
    assert!(refused(&["coldstart", "--set", "startup.node_s=-1"], 2).contains("startup.node_s"));
    assert!(refused(&["coldstart", "--together", "0"], 2).contains("from 1 to 512"));
    assert!(text(&["list", "startups"]).contains("image_8b"));
}

/// The files that a run leaves behind, each as its readers want it; and tables in Markdown from every command that prints some.
#[test]
fn a_run_leaves_a_trace_metrics_and_methods() {
    let file = |name: &str| scratch(name).to_str().unwrap().to_owned();
    let (trace, metrics, methods) = (file("run.json"), file("run.prom"), file("methods.txt"));
    let files = ["--perfetto", &trace, "--prometheus", &metrics, "--methods", &methods];
    let args = ["run", "book-trace", "--format", "markdown"];
    let tables = text(&[&args[..], &files[..]].concat());
    assert!(tables.lines().any(|line| line.starts_with("| Round-robin |") && line.contains("| 23.5 % |")), "{tables}");
    let read: Value = serde_json::from_str(&std::fs::read_to_string(trace).unwrap()).unwrap();
    assert!(read["traceEvents"].as_array().unwrap().len() > 1000);
    assert!(std::fs::read_to_string(metrics).unwrap().contains("vllm:time_to_first_token_seconds_bucket{"));
    let methods = std::fs::read_to_string(methods).unwrap();
    // The command in it is a command.
    let address = methods.split('\'').nth(1).unwrap();
    assert_eq!(text(&["run", address, "--format", "markdown"]), tables);
    for args in [vec!["list", "policies"], vec!["coldstart"]] {
        let listed = text(&[&args[..], &["--format", "markdown"][..]].concat());
        assert!(listed.lines().any(|line| line.starts_with("|---|")), "{listed}");
    }
}
