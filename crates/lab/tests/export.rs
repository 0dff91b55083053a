//! What leaves a run as files: the trace, the metrics and the methods paragraph, read by other hands than those that wrote them.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use crate::common::SLOWER;
use serde_json::Value;
use servelab_lab::export::{export, markdown, methods, perfetto, prometheus};
use servelab_lab::{Session, presets};
use servelab_spec::protocol::ExportKind;
use servelab_spec::{Report, Spec, patch};
use std::collections::{BTreeMap, BTreeSet};

fn spec(name: &str, changes: &[(&str, &str)]) -> Spec {
    let start = presets::find(name).unwrap().spec;
    changes.iter().fold(start, |spec, (key, value)| patch::set(&spec, key, value).unwrap())
}

fn finished(spec: Spec) -> Session {
    let mut session = Session::new(spec).unwrap();
    while !session.advance(u32::MAX).unwrap().done {}
    session
}

/// A trace as read back: events by process, and the names of processes.
struct Trace {
    whole: Value,
    events: Vec<Value>,
    processes: BTreeMap<u64, String>,
}

/// Nanoseconds of a time in microseconds with at most three decimals, without a detour over binary fractions.
fn nanos(value: &Value) -> u64 {
    let text = value.to_string();
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    whole.parse::<u64>().unwrap() * 1000 + format!("{part:0<3}").parse::<u64>().unwrap()
}

fn read(text: &str) -> Trace {
    let whole: Value = serde_json::from_str(text).unwrap();
    let events = whole["traceEvents"].as_array().unwrap().clone();
    let names = events.iter().filter(|event| event["name"] == "process_name");
    let processes = names.map(|event| (event["pid"].as_u64().unwrap(), event["args"]["name"].as_str().unwrap().into()));
    Trace { processes: processes.collect(), events, whole }
}

impl Trace {
    fn of<'a>(&'a self, phase: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events.iter().filter(move |event| event["ph"] == phase)
    }

    /// Slices of a track never overlap: each lies within another or beside it.
    fn check_tracks(&self) {
        let mut tracks: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
        for slice in self.of("X") {
            let from = nanos(&slice["ts"]);
            let track = (slice["pid"].as_u64().unwrap(), slice["tid"].as_u64().unwrap());
            tracks.entry(track).or_default().push((from, from + nanos(&slice["dur"])));
        }
        for (track, mut slices) in tracks {
            slices.sort_by_key(|&(from, until)| (from, std::cmp::Reverse(until)));
            let mut open: Vec<(u64, u64)> = Vec::new();
            for (from, until) in slices {
                while open.last().is_some_and(|outer| outer.1 <= from) {
                    open.pop();
                }
                let within = open.last().is_none_or(|outer| until <= outer.1);
                assert!(within, "{track:?}: {from} to {until} crosses {open:?}");
                open.push((from, until));
            }
        }
    }

    /// Every request has one flow with one begin and one end, its points in order of time, each on a slice of its track; answers with their number.
    fn check_flows(&self) -> usize {
        let mut flows: BTreeMap<u64, Vec<(&str, u64)>> = BTreeMap::new();
        let mut slices: BTreeSet<(u64, u64)> = BTreeSet::new();
        for event in &self.events {
            let track = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
            match event["ph"].as_str().unwrap() {
                "X" => drop(slices.insert(track)),
                phase @ ("s" | "t" | "f") => {
                    assert!(slices.contains(&track), "a flow's point without a slice: {event}");
                    flows.entry(event["id"].as_u64().unwrap()).or_default().push((phase, nanos(&event["ts"])));
                }
                _ => {}
            }
        }
        for (id, points) in &flows {
            let times = |wanted| points.iter().filter(move |(phase, _)| *phase == wanted).map(|(_, at)| *at);
            assert_eq!((times("s").count(), times("f").count()), (1, 1), "flow {id}: {points:?}");
            let (begin, end) = (times("s").next().unwrap(), times("f").next().unwrap());
            assert!(points.iter().all(|&(_, at)| begin <= at && at <= end), "flow {id}: {points:?}");
        }
        let requests: BTreeSet<u64> = self.of("b").map(|event| event["id"].as_u64().unwrap()).collect();
        assert_eq!(requests, flows.keys().copied().collect(), "a flow for each request");
        assert_eq!(self.of("b").count(), self.of("e").count());
        flows.len()
    }

    /// Seconds from a request's arrival to its first token, by policy (its processes' common name) of requests that got one from their first attempt.
    fn ttft(&self, label: &str) -> Vec<f64> {
        let (mut arrivals, mut ttft) = (BTreeMap::new(), Vec::new());
        let of = |event: &Value| self.processes[&event["pid"].as_u64().unwrap()].starts_with(label);
        for event in self.of("b").filter(|event| of(event)) {
            arrivals.insert(event["args"]["request"].as_u64().unwrap(), nanos(&event["ts"]));
        }
        for event in self.of("X").filter(|event| of(event) && event["name"] == "decode" && event["cat"] == "phase") {
            ttft.push((nanos(&event["ts"]) - arrivals[&event["args"]["request"].as_u64().unwrap()]) as f64 / 1e9);
        }
        ttft
    }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + b.abs())
}

/// A trace says what the report says: requests, first tokens, steps and how long they took, to the nanosecond.
fn agrees(session: &Session, attempts_matter: bool) -> Trace {
    let report = session.report();
    let trace = read(&perfetto::trace(session, usize::MAX).unwrap());
    assert_eq!(trace.whole["otherData"]["left_out"].as_array().unwrap().len(), 0);
    trace.check_tracks();
    let requests: u64 = report.policies.iter().map(|policy| policy.requests.total).sum();
    assert_eq!(trace.check_flows() as u64, requests);
    for policy in &report.policies {
        let label = format!("{}: ", policy.label);
        let mut ttft = trace.ttft(&label);
        ttft.sort_by(f64::total_cmp);
        if !attempts_matter {
            assert_eq!(ttft.len() as u64, policy.ttft_s.n, "{label}");
            assert!(near(ttft.iter().sum::<f64>() / ttft.len() as f64, policy.ttft_s.mean), "{label}");
            assert!(near(*ttft.last().unwrap(), policy.ttft_s.max), "{label}");
        }
        for (at, replica) in policy.replicas.iter().enumerate() {
            let name = format!("{label}replica {at}");
            let process = trace.processes.iter().find(|(_, named)| **named == name);
            let Some((process, _)) = process else {
                assert_eq!(replica.assignments, 0, "{name} is missing");
                continue;
            };
            let steps: Vec<&Value> =
                trace.of("X").filter(|event| event["pid"] == *process && event["cat"] == "step").collect();
            if steps.is_empty() {
                continue;
            }
            assert_eq!(steps.len() as u64, replica.steps, "{name}");
            let busy: u64 = steps.iter().map(|step| nanos(&step["dur"])).sum();
            assert!(near(busy as f64 / 1e9, replica.busy_s), "{name}: {busy} against {}", replica.busy_s);
            let used = trace.of("C").filter(|event| event["pid"] == *process && !event["args"]["used"].is_null());
            let peak = used.map(|event| event["args"]["used"].as_f64().unwrap()).fold(0.0, f64::max);
            // A preemption gives blocks back within the very plan that took too many.
            let (low, high) = (if policy.preemptions == 0 { replica.kv_peak } else { 0.0 }, replica.kv_peak);
            assert!(peak / 100.0 > low - 1e-5 && peak / 100.0 < high + 1e-5, "{name}: {peak} against {high}");
        }
    }
    trace
}

#[test]
fn a_trace_says_what_the_report_says() {
    agrees(&finished(spec("book-trace", &[])), false);
    agrees(&finished(spec("multi-tenant", &[("workload.requests", "150"), ("engine.blocks", "96")])), false);
}

/// In the middle of a run what has happened so far is told, and nothing of what comes.
#[test]
fn a_run_under_way_has_a_trace() {
    let mut session = Session::new(spec("multi-tenant", &[("workload.requests", "100")])).unwrap();
    session.advance(300).unwrap();
    let trace = read(&perfetto::trace(&session, usize::MAX).unwrap());
    trace.check_tracks();
    let arrived = session.report().policies.iter().map(|policy| policy.requests.total).sum::<u64>();
    assert_eq!(trace.check_flows() as u64, arrived);
    assert!(trace.of("b").any(|event| event["args"]["ended"] == "under way"));
}

/// Clients that try again: a request is one flow, however many attempts it makes, and each that is turned away is an instant.
#[test]
fn attempts_belong_to_their_request_and_refusals_are_instants() {
    let session = finished(spec("noisy-tenant", &[("workload.requests", "300"), ("gateway.rate_per_s", "0.5")]));
    let report = session.report();
    let trace = agrees(&session, true);
    let refused: u64 =
        report.policies.iter().flat_map(|policy| &policy.refusals).map(|refusals| refusals.attempts).sum();
    assert!(refused > 0);
    assert_eq!(trace.of("i").filter(|event| event["cat"] == "refusal").count() as u64, refused);
    let changes = [("workload.requests", "400"), ("clients.policies", "full_jitter"), ("faults.down_at_s", "2")];
    let storm = finished(spec("retry-storm", &changes));
    let trace = agrees(&storm, true);
    assert!(trace.of("b").any(|event| event["args"]["attempts"].as_u64() > Some(1)));
    assert!(trace.of("X").any(|event| event["cat"] == "life" && event["name"] == "down"));
}

/// Replicas that come and go: their starts are stages one after the other, and their lives follow them.
#[test]
fn lives_and_starts_are_slices() {
    let own = [
        ("workload.curve", "0:0.3,0.1:0.3,0.11:1.4,0.3:1.4"),
        ("scaling.controllers", "kubernetes_hpa(signal=2,metric_type=0,target=0.8)"),
    ];
    let changes: Vec<_> = SLOWER.into_iter().chain(own).collect();
    let session = finished(spec("load-spike", &changes));
    let report = session.report();
    let trace = read(&perfetto::trace(&session, usize::MAX).unwrap());
    trace.check_tracks();
    trace.check_flows();
    assert!(report.policies[0].scaling.as_ref().unwrap().created > 0);
    assert!(trace.of("X").any(|event| event["cat"] == "life" && event["name"] == "starting"));
    assert!(trace.of("X").any(|event| event["cat"] == "start"), "no stages");
}

/// A trace that would be too large breaks off, is whole until there, and says what is missing.
#[test]
fn what_is_left_out_is_said() {
    let session = finished(spec("multi-tenant", &[]));
    let most = 9000;
    let text = perfetto::trace(&session, most).unwrap();
    let trace = read(&text);
    trace.check_tracks();
    let told = trace.check_flows() as u64;
    let offered: u64 = session.report().policies.iter().map(|policy| policy.requests.total).sum();
    assert!(told < offered, "{told} of {offered}");
    assert!(trace.events.len() < 2 * most, "{}", trace.events.len());
    let left_out = trace.whole["otherData"]["left_out"].as_array().unwrap();
    assert_eq!(left_out.len(), session.report().policies.len(), "{left_out:?}");
    assert_eq!(trace.of("i").filter(|event| event["s"] == "g").count(), left_out.len());
    // To the byte the same again: nothing of it depends on when it is asked for.
    assert_eq!(perfetto::trace(&session, most).unwrap(), text);
}

/// A series of the text format: its labels, and what it is worth.
type Series = (BTreeMap<String, String>, f64);

/// Prometheus' text format, as little of it as there is here: `name{label="value",…} number`, comments, and no series before its type.
fn parsed(text: &str) -> BTreeMap<String, Vec<Series>> {
    let mut types: BTreeMap<&str, &str> = BTreeMap::new();
    let mut all: BTreeMap<String, Vec<Series>> = BTreeMap::new();
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# TYPE ") {
            let (name, kind) = comment.split_once(' ').unwrap();
            assert!(types.insert(name, kind).is_none(), "{name} has its type twice");
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let (name, rest) = line.split_once('{').unwrap();
        let (labels, value) = rest.rsplit_once("} ").unwrap();
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let family = if types.contains_key(family) { family } else { name };
        assert!(types.contains_key(family), "{name} comes before its type");
        let mut known = BTreeMap::new();
        let mut left = labels;
        while !left.is_empty() {
            let (label, rest) = left.split_once("=\"").unwrap();
            let mut value = String::new();
            let mut chars = rest.char_indices();
            let end = loop {
                match chars.next().unwrap() {
                    (_, '\\') => value.push(match chars.next().unwrap().1 {
                        'n' => '\n',
                        other => other,
                    }),
                    (at, '"') => break at + 1,
                    (_, other) => value.push(other),
                }
            };
            known.insert(label.to_owned(), value);
            left = rest[end..].strip_prefix(',').unwrap_or(&rest[end..]);
        }
        all.entry(name.to_owned()).or_default().push((known, value.parse().unwrap()));
    }
    for series in all.values() {
        let distinct: BTreeSet<&BTreeMap<String, String>> = series.iter().map(|(labels, _)| labels).collect();
        assert_eq!(distinct.len(), series.len(), "a series twice");
    }
    all
}

/// Σ over the replicas of run `at`.
fn sum(all: &BTreeMap<String, Vec<Series>>, name: &str, at: usize) -> f64 {
    let of = all[name].iter().filter(|(labels, _)| labels["run"] == at.to_string());
    of.map(|(_, value)| value).sum()
}

#[test]
fn metrics_have_vllms_names_and_the_reports_numbers() {
    let session = finished(spec("multi-tenant", &[("engine.blocks", "96")]));
    let report = session.report();
    let all = parsed(&prometheus::text(&session));
    for (at, policy) in report.policies.iter().enumerate() {
        let total = |name: &str| sum(&all, name, at);
        assert_eq!(total("vllm:e2e_request_latency_seconds_count") as u64, policy.requests.finished);
        assert_eq!(total("vllm:time_to_first_token_seconds_count") as u64, policy.ttft_s.n);
        assert_eq!(total("vllm:request_time_per_output_token_seconds_count") as u64, policy.itl_s.n);
        assert!(near(total("vllm:time_to_first_token_seconds_sum"), policy.ttft_s.mean * policy.ttft_s.n as f64));
        assert!(near(total("vllm:e2e_request_latency_seconds_sum"), policy.e2e_s.mean * policy.e2e_s.n as f64));
        assert_eq!(total("vllm:request_success_total") as u64, policy.requests.finished);
        assert_eq!(total("vllm:num_preemptions_total") as u64, policy.preemptions);
        assert_eq!(total("vllm:prefix_cache_hits_total") as u64, policy.reuse.hit_tokens);
        assert_eq!(total("vllm:prefix_cache_queries_total") as u64, policy.reuse.prompt_tokens);
        assert_eq!(total("vllm:prompt_tokens_total") as u64, policy.reuse.prompt_tokens);
        let generated = total("vllm:generation_tokens_total");
        assert!(near(generated, policy.output_tokens_per_s * policy.duration_s), "{generated}");
        for gauge in ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"] {
            assert_eq!(total(gauge), 0.0, "{gauge}: everything is done");
        }
    }
    assert!(report.policies.iter().any(|policy| policy.preemptions > 0), "nothing was preempted");
    // Buckets are cumulative and end with all.
    for (name, buckets) in all.iter().filter(|(name, _)| name.ends_with("_bucket")) {
        let mut by: BTreeMap<(String, String), Vec<(f64, f64)>> = BTreeMap::new();
        for (labels, value) in buckets {
            let bound = labels["le"].replace("+Inf", "inf").parse().unwrap();
            by.entry((labels["run"].clone(), labels["replica"].clone())).or_default().push((bound, *value));
        }
        for ((run, replica), buckets) in by {
            assert!(buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1), "{name}");
            let count = &all[&name.replace("_bucket", "_count")];
            let whole = count.iter().find(|(labels, _)| labels["run"] == run && labels["replica"] == replica);
            assert_eq!(buckets.last().unwrap(), &(f64::INFINITY, whole.unwrap().1));
        }
    }
}

/// Every number in a text.
fn numbers(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut number = String::new();
    for c in text.chars().chain([' ']) {
        if c.is_ascii_digit() || (c == '.' && !number.is_empty()) {
            number.push(c);
        } else if !number.is_empty() {
            found.push(number.trim_end_matches('.').to_owned());
            number.clear();
        }
    }
    found
}

#[test]
fn every_number_of_the_methods_is_known() {
    for (name, changes) in [
        ("book-trace", vec![]),
        ("multi-tenant", vec![("workload.requests", "60"), ("workload.rate", "0.37"), ("replicas", "3")]),
        ("retry-storm", vec![("workload.requests", "200")]),
        ("noisy-tenant", vec![("workload.requests", "200"), ("gateway.rate_per_s", "0.45")]),
    ] {
        let session = finished(spec(name, &changes));
        let report: Report = session.report();
        let text = methods::paragraph(&report);
        let sources = serde_json::json!([report.spec, report.workload, report.cost, report.generator, report.version]);
        let labels: String = report.policies.iter().map(|policy| policy.label.clone() + " ").collect();
        let known: BTreeSet<String> = numbers(&format!("{sources} {labels}"))
            .into_iter()
            .flat_map(|number| {
                let short = number.strip_suffix(".0").map(str::to_owned);
                [Some(number), short].into_iter().flatten()
            })
            .collect();
        let (said, command) = text.trim_end().split_once("To repeat it: servelab run '#").unwrap();
        for number in numbers(said) {
            assert!(known.contains(&number), "{number} in {said}");
        }
        // The command gives back the very spec.
        let (again, warnings) =
            patch::decode(command.strip_suffix('\'').unwrap(), &servelab_lab::catalog::catalog().presets);
        assert_eq!((again, warnings), (report.spec, vec![]), "{command}");
    }
}

#[test]
fn tables_are_whole() {
    let session = finished(spec("book-trace", &[]));
    let text = markdown::tables(&session.report());
    let tables: Vec<Vec<&str>> =
        text.split("\n\n").map(|block| block.lines().filter(|line| line.starts_with('|')).collect()).collect();
    let tables: Vec<_> = tables.into_iter().filter(|table: &Vec<&str>| !table.is_empty()).collect();
    // Four policies; six tenants and four replicas each.
    assert_eq!(tables.iter().map(Vec::len).collect::<Vec<_>>(), [2 + 4, 2 + 4 * 6, 2 + 4 * 4]);
    for table in tables {
        let cells = |line: &str| line.replace("\\|", "").matches('|').count();
        assert!(table.iter().all(|line| cells(line) == cells(table[0])), "{table:?}");
    }
    assert!(text.contains("23.5 %") && text.contains("70.9 %"), "{text}");
}

#[test]
fn files_have_names_and_types() {
    let session = finished(spec("book-trace", &[]));
    for (kind, name, mime) in [
        (ExportKind::Perfetto, "servelab-book-trace-seed7.perfetto.json", "application/json"),
        (ExportKind::Prometheus, "servelab-book-trace-seed7.prom", "text/plain"),
        (ExportKind::Methods, "servelab-book-trace-seed7-methods.txt", "text/plain"),
        (ExportKind::Markdown, "servelab-book-trace-seed7.md", "text/markdown"),
    ] {
        let file = export(&session, kind).unwrap();
        assert_eq!((file.name.as_str(), file.mime.as_str()), (name, mime));
        assert!(file.text.ends_with('\n'));
    }
}
